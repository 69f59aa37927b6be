//! The server's TLS configuration.

use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::sync::Arc;

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate chain is not PEM.
    #[error("the certificate chain cannot be read; give PEM with the server's certificate first")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// There is no certificate in it.
    #[error("the certificate chain is empty; give PEM with the server's certificate first")]
    NoCertificate,
    /// The key is not PEM.
    #[error("the private key cannot be read; give an unencrypted PEM key")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// rustls refuses them: an unknown kind of key, or one that is not the certificate's.
    #[error("the certificate and key cannot be used; check that they belong together")]
    Unusable(#[from] rustls::Error),
}

/// TLS 1.2 and 1.3 with this certificate, for any client: both PEM, the key in PKCS#8, PKCS#1 or SEC1.
pub fn server_config(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate_pem).collect();
    let chain = chain.map_err(TlsError::Certificate)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(TlsError::Key)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_named() {
        let one = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["b.example".to_owned()]).unwrap();
        let (certificate, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        assert!(server_config(certificate.as_bytes(), key.as_bytes()).is_ok());
        assert!(matches!(server_config(b"", key.as_bytes()), Err(TlsError::NoCertificate)));
        assert!(matches!(server_config(certificate.as_bytes(), b"no key"), Err(TlsError::Key(_))));
        let foreign = other.signing_key.serialize_pem();
        assert!(matches!(server_config(certificate.as_bytes(), foreign.as_bytes()), Err(TlsError::Unusable(_))));
    }
}
