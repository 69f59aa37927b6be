//! The whole process: files, ports, and its end by signal.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use meshtoll_docstore::{Options, ServeError, TlsFiles, serve};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
};
use support::Certificates;

/// An address on which nobody listens.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn is_healthy(admin: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(admin) else { return false };
    let mut answer = String::new();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: admin\r\n\r\n").is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

#[test]
fn it_serves_until_a_signal() {
    let files = tempfile::tempdir().unwrap();
    let certificates = Certificates::new();
    let tls = TlsFiles { certificate: files.path().join("tls.pem"), key: files.path().join("key.pem") };
    std::fs::write(&tls.certificate, certificates.certificate).unwrap();
    std::fs::write(&tls.key, certificates.key).unwrap();
    for signal in ["-TERM", "-INT"] {
        let options = Options { listen: free_address(), admin: free_address(), tls: Some(tls.clone()) };
        let admin = options.admin;
        let server = std::thread::spawn(move || serve(options));
        while !is_healthy(admin) {
            assert!(!server.is_finished(), "{:?}", server.join());
        }
        let own = std::process::id().to_string();
        assert!(Command::new("kill").args([signal, &own]).status().unwrap().success());
        server.join().unwrap().unwrap();
        assert!(!is_healthy(admin));
    }
}

#[test]
fn what_keeps_it_from_serving_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = serve(Options { listen: address, admin: free_address(), tls: None }).unwrap_err();
    assert!(matches!(error, ServeError::Listen { address: a, .. } if a == address));

    let files = tempfile::tempdir().unwrap();
    let tls = TlsFiles { certificate: files.path().join("absent.pem"), key: files.path().join("key.pem") };
    let options = Options { listen: free_address(), admin: free_address(), tls: Some(tls.clone()) };
    let error = serve(options.clone()).unwrap_err();
    assert!(error.to_string().contains("absent.pem"), "{error}");
    std::fs::write(&tls.certificate, "no certificate").unwrap();
    std::fs::write(&tls.key, "no key").unwrap();
    assert!(matches!(serve(options).unwrap_err(), ServeError::Tls { .. }));
}
