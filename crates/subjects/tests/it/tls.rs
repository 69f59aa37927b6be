//! A TLS client of the mesh.

use meshtoll_identity::WorkloadCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpStream},
    sync::Arc,
};

/// Sends `message` through a new connection to this port of 127.0.0.1, and says what comes back.
pub(crate) fn exchange(
    port: u16,
    sni: &str,
    trust_bundle: &str,
    certificate: Option<&WorkloadCertificate>,
    message: &[u8],
) -> io::Result<Vec<u8>> {
    let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let mut stream = StreamOwned::new(client(sni, trust_bundle, certificate), tcp);
    stream.write_all(message)?;
    let mut answer = vec![0; message.len()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// The first message of a TLS client.
pub(crate) fn client_hello(sni: &str, trust_bundle: &str) -> Vec<u8> {
    let mut hello = Vec::new();
    client(sni, trust_bundle, None).write_tls(&mut hello).unwrap();
    hello
}

fn client(sni: &str, trust_bundle: &str, certificate: Option<&WorkloadCertificate>) -> ClientConnection {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(trust_bundle));
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyOfTheMesh { roots, provider }));
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => {
            let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).unwrap();
            builder.with_client_auth_cert(certificates(&certificate.chain_pem), key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"istio".to_vec()];
    ClientConnection::new(Arc::new(config), ServerName::try_from(sni.to_owned()).unwrap()).unwrap()
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

/// Takes servers whose chain leads to the mesh's root: their certificates have no DNS name.
#[derive(Debug)]
struct AnyOfTheMesh {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyOfTheMesh {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)
            .map_err(|_| Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
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
