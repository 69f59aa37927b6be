//! A real server on loopback, on a thread of its own, with a certificate for `localhost` from a CA of its own.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use meshtoll_docstore::{ServerConfig, run, stats::Snapshot, tls::server_config};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    thread::JoinHandle,
};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot};

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    files: TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The PEM of a CA, and of a certificate for `localhost` from it with its key.
pub(crate) struct Certificates {
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(rcgen::DnType::CommonName, "Test CA");
        ca.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        leaf.use_authority_key_identifier_extension = true;
        leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = leaf.signed_by(&key, &issuer).unwrap();
        Self { ca: ca_certificate.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Server {
    pub(crate) fn with_tls() -> Self {
        let certificates = Certificates::new();
        let tls = server_config(certificates.certificate.as_bytes(), certificates.key.as_bytes()).unwrap();
        Self::start(Some(tls), &certificates.ca)
    }

    pub(crate) fn plain() -> Self {
        Self::start(None, "")
    }

    fn start(tls: Option<std::sync::Arc<rustls::ServerConfig>>, ca: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("ca.pem"), ca).unwrap();
        let (ready, addresses) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let admin = TcpListener::bind("127.0.0.1:0").await.unwrap();
                ready.send((listener.local_addr().unwrap(), admin.local_addr().unwrap())).unwrap();
                run(listener, ServerConfig { tls, admin: Some(admin) }, stopped).await;
            });
        });
        let (address, admin) = addresses.recv().unwrap();
        Self { address, admin, files, stop: Some(stop), thread: Some(thread) }
    }

    /// The certificate to trust.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.files.path().join("ca.pem")
    }

    /// An HTTP request to the admin port: status and body.
    pub(crate) fn admin_request(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let (status, body) = self.admin_request("GET", "/connections");
        assert_eq!(status, 200);
        serde_json::from_str(&body).unwrap()
    }

    /// Stops the server and waits for its end; panics when it had panicked.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}
