//! PEM text → certificates and keys, with errors that say which part is wrong and hold nothing of a key.

use rustls::pki_types::{
    CertificateDer, PrivateKeyDer,
    pem::{self, PemObject as _},
};
use std::fmt;

/// The three parts of a workload's credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The workload's certificate, then those of its issuers.
    Chain,
    /// The private key of the first certificate of the chain.
    Key,
    /// The authorities that peers are verified by.
    TrustBundle,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Chain => "certificate chain",
            Self::Key => "private key",
            Self::TrustBundle => "trust bundle",
        })
    }
}

/// Why a text holds no certificates or no key.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// The text is not PEM, or its PEM is broken.
    #[error("the {part} is not sound PEM")]
    Certificates {
        /// Which of the texts.
        part: Part,
        /// Where it differs.
        source: pem::Error,
    },
    /// The text has no `CERTIFICATE` section.
    #[error("the {part} has no certificate: it needs at least one section 'BEGIN CERTIFICATE'")]
    NoCertificate {
        /// Which of the texts.
        part: Part,
    },
    /// There is no key. What is there instead is not told, since it may be the key.
    #[error(
        "the private key is not sound PEM: it needs a section 'BEGIN PRIVATE KEY', 'BEGIN EC PRIVATE KEY' or 'BEGIN RSA PRIVATE KEY'"
    )]
    Key,
}

/// At least one certificate, in the order of the text.
pub(crate) fn certificates(part: Part, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|source| PemError::Certificates { part, source })?;
    if certificates.is_empty() { Err(PemError::NoCertificate { part }) } else { Ok(certificates) }
}

/// The first key of the text.
pub(crate) fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    // The source may quote the line that is wrong, and a key without line breaks is one line.
    PrivateKeyDer::from_pem_slice(text).map_err(|_| PemError::Key)
}
