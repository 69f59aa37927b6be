//! TLS of clients and servers.

use meshtoll_identity::{ServerCertificate, WorkloadCertificate};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use std::sync::Arc;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

fn key(pem: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn roots(pem: &str) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(pem));
    Arc::new(roots)
}

/// A server; `clients` are the authorities of clients, which have to present something then.
pub(crate) fn server(certificate: &ServerCertificate, clients: Option<&str>) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(roots(clients), provider()).build().unwrap(),
        ),
    };
    let config = builder.with_single_cert(certificates(&certificate.chain_pem), key(&certificate.key_pem));
    Arc::new(config.unwrap())
}

/// A server with a workload's certificate, that asks nothing of its clients.
pub(crate) fn workload_server(certificate: &WorkloadCertificate) -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    let config =
        builder.with_no_client_auth().with_single_cert(certificates(&certificate.chain_pem), key(&certificate.key_pem));
    let mut config = config.unwrap();
    config.alpn_protocols = vec![b"istio".to_vec()];
    Arc::new(config)
}

/// A client of servers outside of the mesh.
pub(crate) fn client(trust_bundle: &str) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots(trust_bundle)).with_no_client_auth())
}

/// A client as a sidecar would be. It takes every server, since it is not what is tested.
pub(crate) fn mesh_client(certificate: Option<&WorkloadCertificate>, alpn: Option<&str>) -> Arc<ClientConfig> {
    mesh_client_of(&[&TLS12, &TLS13], certificate, alpn)
}

/// The same, for these versions of TLS.
pub(crate) fn mesh_client_of(
    versions: &[&'static SupportedProtocolVersion],
    certificate: Option<&WorkloadCertificate>,
    alpn: Option<&str>,
) -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody { provider: provider() }));
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => {
            builder.with_client_auth_cert(certificates(&certificate.chain_pem), key(&certificate.key_pem)).unwrap()
        }
    };
    config.alpn_protocols = alpn.into_iter().map(|alpn| alpn.as_bytes().to_vec()).collect();
    Arc::new(config)
}

#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.is_empty() {
            return Err(Error::InvalidCertificate(CertificateError::BadEncoding));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
