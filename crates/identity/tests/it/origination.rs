//! TLS to hosts outside of the mesh.

use crate::mesh::{SNI, Shaken, shake};
use meshtoll_identity::{ExternalCa, OriginationError, ServerCertificate, origination_config};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use std::{fs, path::PathBuf, sync::Arc};
use tempfile::TempDir;

/// An external host, and the folder in which its clients have their files.
struct Host {
    ca: ExternalCa,
    folder: TempDir,
}

impl Host {
    fn new() -> Self {
        Self { ca: ExternalCa::new("outside").unwrap(), folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn authorities(&self) -> PathBuf {
        self.file("ca.pem", &self.ca.trust_bundle_pem())
    }

    /// A client that accepts these names calls a server that has those.
    fn call(&self, accepted: &[&str], served: &[&str]) -> Shaken {
        let accepted: Vec<String> = accepted.iter().map(ToString::to_string).collect();
        let client = origination_config(Some(&self.authorities()), &accepted, None).unwrap();
        shake(client, server(&self.ca.issue_server(served).unwrap(), None))
    }
}

/// A server; it demands certificates of `clients`, where it is given.
fn server(certificate: &ServerCertificate, clients: Option<&str>) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let chain = CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes()).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).unwrap();
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(rustls::ALL_VERSIONS).unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(bundle) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(bundle.as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}

#[test]
fn a_host_has_to_have_one_of_the_names() {
    let host = Host::new();
    host.call(&["airline.mongodb.example"], &["airline.mongodb.example"]).accepted();
    host.call(&["other.example", "airline.mongodb.example"], &["*.mongodb.example"]).accepted();
    let said = host.call(&["other.example", "mongodb.example"], &["airline.mongodb.example"]).refused_by_client();
    assert!(said.contains("not valid for name"), "{said}");
    // The server name that is sent is not among the names.
    let said = host.call(&["other.example"], &[SNI]).refused_by_client();
    assert!(said.contains("not valid for name"), "{said}");
}

#[test]
fn another_authority_is_not_believed() {
    let (host, other) = (Host::new(), ExternalCa::new("outside").unwrap());
    let client = origination_config(Some(&host.authorities()), &["a.example".to_owned()], None).unwrap();
    let said = shake(client, server(&other.issue_server(&["a.example"]).unwrap(), None)).refused_by_client();
    assert!(said.contains("BadSignature") || said.contains("UnknownIssuer"), "{said}");
}

#[test]
fn a_client_certificate_is_presented_where_there_is_one() {
    let host = Host::new();
    let ca = meshtoll_identity::MeshCa::new("clients.example").unwrap();
    let id = "spiffe://clients.example/ns/a/sa/b".parse().unwrap();
    let issued = ca.issue(&id, crate::mesh::HOUR).unwrap();
    let (chain, key) = (host.file("chain.pem", &issued.chain_pem), host.file("key.pem", &issued.key_pem));
    let names = ["a.example".to_owned()];
    let server = server(&host.ca.issue_server(&names).unwrap(), Some(&ca.trust_bundle_pem()));
    let with = origination_config(Some(&host.authorities()), &names, Some((&chain, &key))).unwrap();
    shake(with, server.clone()).accepted();
    let without = origination_config(Some(&host.authorities()), &names, None).unwrap();
    assert_eq!(shake(without, server).refused_by_server(), "peer sent no certificates");
}

#[test]
fn what_cannot_be_used_is_named() {
    let host = Host::new();
    let names = ["a.example".to_owned()];
    let authorities = host.authorities();
    let error = |authorities: &PathBuf, names: &[String], client| {
        origination_config(Some(authorities), names, client).unwrap_err()
    };
    assert!(matches!(error(&authorities, &[], None), OriginationError::NoName));
    let refused = error(&authorities, &["*.a b".to_owned()], None);
    assert!(matches!(refused, OriginationError::Name { .. }), "{refused}");
    let missing = host.folder.path().join("missing.pem");
    assert!(matches!(error(&missing, &names, None), OriginationError::Read { path, .. } if path == missing));
    let broken = host.file("broken.pem", "nothing");
    assert!(matches!(error(&broken, &names, None), OriginationError::Content { path, .. } if path == broken));
    let refused = error(&authorities, &names, Some((&authorities, &broken)));
    assert!(matches!(refused, OriginationError::Content { path, .. } if path == broken));
}
