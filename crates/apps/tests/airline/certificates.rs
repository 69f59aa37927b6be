//! A certificate authority for one database server.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// PEM files in a directory that goes when this is dropped.
pub(crate) struct Certificates {
    pub(crate) directory: TempDir,
    /// The authority that signed the server's certificate.
    pub(crate) ca: PathBuf,
    /// An authority that did not.
    pub(crate) other_ca: PathBuf,
    /// The server's certificate, for `localhost`, and its key.
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, pem: String| {
            let path = directory.path().join(name);
            fs::write(&path, pem).unwrap();
            path
        };
        let (issuer, other) = (authority(), authority());
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = server.signed_by(&key, &issuer).unwrap();
        Self {
            ca: file("ca.pem", issuer.pem()),
            other_ca: file("other-ca.pem", other.pem()),
            certificate: file("server.pem", certificate.pem()),
            key: file("server-key.pem", key.serialize_pem()),
            directory,
        }
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}
