//! Which certificates peers in the mesh are believed by: rustls verifies chain, time, usage and signatures; here the
//! identity is checked.

use crate::svid;
use meshtoll_model::ids::SpiffeId;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, DnsName, ServerName, UnixTime},
    server::{
        ParsedCertificate,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use std::{fmt, sync::Arc};

/// Why a peer whose chain is sound is refused all the same.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// It does not name a workload.
    #[error("{0}")]
    Svid(#[from] svid::SvidError),
    /// It is a workload of another mesh.
    #[error("the peer is {peer}, which is not of the trust domain '{expected}'")]
    TrustDomain {
        /// Who it is.
        peer: SpiffeId,
        /// Our trust domain.
        expected: Arc<str>,
    },
    /// It is somebody else.
    #[error("the peer is {peer}, where {expected} was expected")]
    Identity {
        /// Who it is.
        peer: SpiffeId,
        /// Who it was to be.
        expected: SpiffeId,
    },
}

impl fmt::Debug for PeerError {
    /// As for people: rustls shows no more than this of an error that is not its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<PeerError> for Error {
    fn from(error: PeerError) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
    }
}

/// Takes clients that are workloads of one trust domain. Chain, time and usage are up to `inner`.
#[derive(Debug)]
pub(crate) struct WorkloadClients {
    pub(crate) inner: Arc<dyn ClientCertVerifier>,
    pub(crate) trust_domain: Arc<str>,
}

impl ClientCertVerifier for WorkloadClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // No hints: every authority of a mesh has the same name, and the bundle is nobody's business before it proves itself.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
        let peer = svid::read(end_entity).map_err(PeerError::from)?.identity;
        if peer.trust_domain != self.trust_domain {
            return Err(PeerError::TrustDomain { peer, expected: self.trust_domain.clone() }.into());
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// What a server's certificate has to name.
#[derive(Debug)]
pub(crate) enum Expected {
    /// One workload, by its URI.
    Workload(SpiffeId),
    /// A host outside of the mesh, by one of these names.
    OneOf(Vec<DnsName<'static>>),
}

/// Takes servers that are who they have to be. The server name that was sent does not matter: it routes.
#[derive(Debug)]
pub(crate) struct ExpectedServer {
    pub(crate) expected: Expected,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for ExpectedServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, self.algorithms.all)?;
        match &self.expected {
            Expected::Workload(expected) => {
                let peer = svid::read(end_entity).map_err(PeerError::from)?.identity;
                if peer != *expected {
                    return Err(PeerError::Identity { peer, expected: expected.clone() }.into());
                }
            }
            Expected::OneOf(names) => {
                let mut refused = Error::InvalidCertificate(CertificateError::NotValidForName);
                let named = names.iter().any(|name| {
                    verify_server_name(&certificate, &ServerName::DnsName(name.clone()))
                        .map_err(|error| refused = error)
                        .is_ok()
                });
                if !named {
                    return Err(refused);
                }
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
