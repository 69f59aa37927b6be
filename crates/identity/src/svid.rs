//! Whom a certificate names, by the X.509-SVID standard
//! (https://github.com/spiffe/spiffe/blob/main/standards/X509-SVID.md).

use meshtoll_model::ids::{NotASpiffeId, SpiffeId};
use rustls::pki_types::CertificateDer;
use std::time::{Duration, SystemTime};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// Why a certificate names no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SvidError {
    /// There is no certificate.
    #[error("there is no certificate")]
    NoCertificate,
    /// The certificate cannot be read.
    #[error("the certificate is not sound DER")]
    Encoding,
    /// No URI among the subject's alternative names.
    #[error("the certificate names no identity: it has no URI among its subject alternative names")]
    NoUri,
    /// The standard allows one URI only, so that nobody can choose among several.
    #[error("the certificate has {count} URIs among its subject alternative names, where exactly one is allowed")]
    SeveralUris {
        /// How many.
        count: usize,
    },
    /// The URI is no workload's.
    #[error("the certificate's URI names no workload")]
    Uri(#[from] NotASpiffeId),
    /// A certificate that signs others is not a workload's.
    #[error("the certificate is an authority's, and not a workload's")]
    Authority,
    /// The key may not be used for handshakes.
    #[error("the certificate's key usage has no digital signature, which TLS needs")]
    KeyUsage,
}

/// What a workload's certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Svid {
    pub(crate) identity: SpiffeId,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
}

/// Whom the peer of a connection is, by the chain that it presented; that chain has to have been verified.
pub fn peer_identity(chain: &[CertificateDer<'_>]) -> Result<SpiffeId, SvidError> {
    let leaf = chain.first().ok_or(SvidError::NoCertificate)?;
    read(leaf).map(|svid| svid.identity)
}

/// Reads a leaf. It verifies nothing but the form.
pub(crate) fn read(leaf: &CertificateDer<'_>) -> Result<Svid, SvidError> {
    let (rest, certificate) = X509Certificate::from_der(leaf).map_err(|_| SvidError::Encoding)?;
    if !rest.is_empty() {
        return Err(SvidError::Encoding);
    }
    // An extension that stands twice is refused here, too: which one counts must not be a question.
    let constraints = certificate.basic_constraints().map_err(|_| SvidError::Encoding)?;
    let usage = certificate.key_usage().map_err(|_| SvidError::Encoding)?;
    let names = certificate.subject_alternative_name().map_err(|_| SvidError::Encoding)?;

    if constraints.is_some_and(|constraints| constraints.value.ca)
        || usage.as_ref().is_some_and(|usage| usage.value.key_cert_sign() || usage.value.crl_sign())
    {
        return Err(SvidError::Authority);
    }
    if !usage.is_some_and(|usage| usage.value.digital_signature()) {
        return Err(SvidError::KeyUsage);
    }
    let uris: Vec<&str> = names
        .iter()
        .flat_map(|names| &names.value.general_names)
        .filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None })
        .collect();
    let identity = match uris[..] {
        [] => return Err(SvidError::NoUri),
        [uri] => uri.parse()?,
        _ => return Err(SvidError::SeveralUris { count: uris.len() }),
    };
    let validity = certificate.validity();
    Ok(Svid {
        identity,
        not_before: system_time(validity.not_before.timestamp())?,
        not_after: system_time(validity.not_after.timestamp())?,
    })
}

/// Seconds since 1970 as time; such that precede it are no workload's.
pub(crate) fn system_time(timestamp: i64) -> Result<SystemTime, SvidError> {
    let seconds = u64::try_from(timestamp).map_err(|_| SvidError::Encoding)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).ok_or(SvidError::Encoding)
}
