use meshtoll_model::ids::SpiffeId;
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
    #[error("a certificate for {subject} cannot be valid for {lifetime:?}: its authority is valid for {authority:?}")]
    Lifetime {
        /// Whom the certificate was to name.
        subject: String,
        /// What was asked for.
        lifetime: Duration,
        /// How long authorities are valid.
        authority: Duration,
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
