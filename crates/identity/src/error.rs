use meshtoll_model::ids::SpiffeId;
use rustls::pki_types::pem;
use std::time::Duration;

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The trust domain is not one that the SPIFFE standard allows.
    #[error(
        "'{trust_domain}' cannot be a trust domain: use lower-case letters, digits, '.', '-' and '_', as in 'cluster.local'"
    )]
    TrustDomain {
        /// What was given.
        trust_domain: String,
    },
    /// The namespace or service account is not one that the SPIFFE standard allows.
    #[error(
        "'{identity}' is not a SPIFFE identity: namespace and service account are letters, digits, '.', '-' and '_'"
    )]
    Identity {
        /// What was given.
        identity: SpiffeId,
    },
    /// An authority vouches for its own trust domain alone.
    #[error(
        "the authority of trust domain '{trust_domain}' cannot issue a certificate for {identity}; use that domain's authority"
    )]
    ForeignTrustDomain {
        /// Whom the certificate was to name.
        identity: SpiffeId,
        /// The authority's trust domain.
        trust_domain: String,
    },
    /// The certificate would outlive the one of its authority.
    #[error("a certificate for {subject} cannot be valid for {lifetime:?}: its authority ends in {remaining:?}")]
    Lifetime {
        /// Whom the certificate was to name.
        subject: String,
        /// What was asked for.
        lifetime: Duration,
        /// How long the authority is still valid.
        remaining: Duration,
    },
    /// A server certificate has to name a server.
    #[error("a server certificate needs at least one DNS name")]
    NoDnsName,
    /// Key generation, encoding or signing failed.
    #[error("cannot make a certificate for {subject}")]
    Certificate {
        /// Whom the certificate was to name.
        subject: String,
        /// What failed.
        source: rcgen::Error,
    },
}

/// Why files hold no certificate authority.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The certificates are not PEM. What is there instead is not told of the key, since it may be the key.
    #[error("the authority's certificates are not sound PEM")]
    Pem(#[source] pem::Error),
    /// The key cannot be read.
    #[error("the authority's private key cannot be used: it has to be PKCS #8 PEM ('BEGIN PRIVATE KEY')")]
    Key,
    /// A certificate cannot be read.
    #[error("certificate {number} is not sound DER")]
    Certificate {
        /// Counted from 1.
        number: usize,
    },
    /// A certificate is not one of an authority.
    #[error("certificate {number} is not an authority's: its basic constraints do not say CA")]
    NoAuthority {
        /// Counted from 1.
        number: usize,
    },
    /// None of the certificates is the key's.
    #[error("the authority's private key belongs to none of the certificates")]
    KeyMismatch,
    /// The authority's certificate says what cannot be signed with.
    #[error("the authority's certificate cannot be signed with")]
    Issuer(#[source] rcgen::Error),
    /// The authority's certificate does not say whom it vouches for.
    #[error("the authority's certificate names no trust domain: its subject's organization is '{organization}'")]
    TrustDomain {
        /// What it says.
        organization: String,
    },
}
