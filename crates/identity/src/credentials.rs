//! A workload's certificate, key and trust bundle, as what rustls needs for TLS inside the mesh.
//!
//! No session is ever resumed, by ticket or by early data: a resumed session is not verified again, so that a peer whose
//! certificate has expired, or whose authority has been retired, would stay in. Mesh connections are long-lived; what
//! resumption would save is little.
//!
//! What rustls buffers of one connection is bounded by itself: 64 KiB of plaintext and of records to send, one record (16 KiB) and
//! one handshake message (64 KiB) of what is received. So nothing is set here.

use crate::{
    pem::{self, Part, PemError},
    svid::{self, Svid, SvidError},
    verify::{Expected, ExpectedServer, WorkloadClients},
};
use meshtoll_model::ids::SpiffeId;
use rustls::{
    ClientConfig, InconsistentKeys, RootCertStore, ServerConfig, SupportedProtocolVersion,
    client::Resumption,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::CertificateDer,
    server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use std::{fmt, sync::Arc, time::SystemTime};

/// What a client says that it speaks inside TLS of the mesh.
pub const ALPN: &str = "istio";
/// What servers take: all that Istio's proxies may say. An application's own TLS never says so.
pub const ISTIO_ALPN: [&str; 5] = [ALPN, "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"];

/// Which versions of TLS are spoken inside the mesh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersions {
    /// TLS 1.3.
    #[default]
    OnlyTls13,
    /// TLS 1.3, or 1.2 with a peer that has no better.
    AllowTls12,
}

/// Who a workload is, and whom it trusts.
#[derive(Clone)]
pub struct Credentials {
    svid: Svid,
    roots: Arc<RootCertStore>,
    server: Arc<ServerConfig>,
    /// What all peers share; it trusts nobody.
    client: ClientConfig,
}

/// Why there are no credentials in the files.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A part cannot be read.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The first certificate of the chain is not a workload's.
    #[error("the first certificate of the certificate chain cannot be used")]
    Leaf(#[from] SvidError),
    /// The key is of no supported kind.
    #[error("the private key cannot be used: it has to be ECDSA (P-256, P-384, P-521), RSA or Ed25519")]
    Key,
    /// Key and chain are of different pairs: they may be about to be replaced.
    #[error("the private key is not the key of the first certificate of the certificate chain")]
    KeyMismatch,
    /// A certificate of the trust bundle is no authority's.
    #[error("certificate {number} of the trust bundle cannot be used")]
    Root {
        /// Counted from 1.
        number: usize,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// The trust bundle cannot verify anybody.
    #[error("the trust bundle cannot be used")]
    TrustBundle(#[from] VerifierBuilderError),
    /// rustls does not take the configuration.
    #[error("TLS cannot be configured")]
    Tls(#[source] rustls::Error),
}

impl Credentials {
    /// Credentials that speak TLS 1.3 only. All three are PEM; the trust bundle may hold several authorities.
    ///
    /// Whether they are valid now is not asked, since time goes on: see [`Credentials::not_after`].
    pub fn from_pem(chain: &[u8], key: &[u8], trust_bundle: &[u8]) -> Result<Self, CredentialsError> {
        Self::from_pem_with(chain, key, trust_bundle, TlsVersions::default())
    }

    /// As [`Credentials::from_pem`], for these versions of TLS.
    pub fn from_pem_with(
        chain: &[u8],
        key: &[u8],
        trust_bundle: &[u8],
        versions: TlsVersions,
    ) -> Result<Self, CredentialsError> {
        let provider = provider();
        let chain = pem::certificates(Part::Chain, chain)?;
        let svid = svid::read(&chain[0])?;
        let pair = Arc::new(SingleCertAndKey::from(pair(chain, key, &provider)?));
        let roots = roots(pem::certificates(Part::TrustBundle, trust_bundle)?)?;
        let clients = WorkloadClients {
            inner: WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build()?,
            trust_domain: svid.identity.trust_domain.clone(),
        };

        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions.supported())
            .map_err(CredentialsError::Tls)?
            .with_client_cert_verifier(Arc::new(clients))
            .with_cert_resolver(pair.clone());
        server.alpn_protocols = ISTIO_ALPN.map(Vec::from).to_vec();
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;

        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions.supported())
            .map_err(CredentialsError::Tls)?
            .with_root_certificates(RootCertStore::empty())
            .with_client_cert_resolver(pair);
        client.alpn_protocols = vec![ALPN.into()];
        client.resumption = Resumption::disabled();

        Ok(Self { svid, roots, server: Arc::new(server), client })
    }

    /// Who the workload is, by its certificate.
    pub fn identity(&self) -> &SpiffeId {
        &self.svid.identity
    }

    /// From when on the certificate is valid.
    pub fn not_before(&self) -> SystemTime {
        self.svid.not_before
    }

    /// Until when the certificate is valid.
    pub fn not_after(&self) -> SystemTime {
        self.svid.not_after
    }

    /// For connections that are accepted: the peer has to present a certificate, valid now and for clients, of an authority of the
    /// trust bundle, that names one workload of the own trust domain; a peer without ALPN is served too.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    /// For connections to `peer`: the server has to present a certificate, valid now and for servers, of an authority of
    /// the trust bundle, that names `peer` and no other. Any server name can be sent, as it does not matter to this.
    pub fn client_config(&self, peer: &SpiffeId) -> Arc<ClientConfig> {
        let mut config = self.client.clone();
        let verifier = ExpectedServer {
            expected: Expected::Workload(peer.clone()),
            roots: self.roots.clone(),
            algorithms: config.crypto_provider().signature_verification_algorithms,
        };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        Arc::new(config)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("svid", &self.svid)
            .field("roots", &self.roots.len())
            .finish_non_exhaustive()
    }
}

impl TlsVersions {
    fn supported(self) -> &'static [&'static SupportedProtocolVersion] {
        static NEWEST_FIRST: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
        match self {
            Self::OnlyTls13 => &NEWEST_FIRST[..1],
            Self::AllowTls12 => &NEWEST_FIRST,
        }
    }
}

/// The cryptography of every configuration, passed explicitly so that no default of the process matters.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A chain with its key, which has to be its key.
pub(crate) fn pair(
    chain: Vec<CertificateDer<'static>>,
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, CredentialsError> {
    let key = pem::private_key(key)?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CredentialsError::KeyMismatch,
        _ => CredentialsError::Key,
    })
}

/// Every certificate, or an error: to leave one out in silence would refuse peers in silence.
pub(crate) fn roots(certificates: Vec<CertificateDer<'static>>) -> Result<Arc<RootCertStore>, CredentialsError> {
    let mut roots = RootCertStore::empty();
    for (index, certificate) in certificates.into_iter().enumerate() {
        roots.add(certificate).map_err(|source| CredentialsError::Root { number: index + 1, source })?;
    }
    Ok(Arc::new(roots))
}
