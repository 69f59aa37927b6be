//! The files of a workload's credentials, by the names that Istio's agent gives them.

/// The workload's certificate, then those of its issuers.
pub const CERTIFICATE_CHAIN: &str = "cert-chain.pem";
/// The private key of the first certificate of the chain.
pub const PRIVATE_KEY: &str = "key.pem";
/// The authorities that peers are verified by.
pub const TRUST_BUNDLE: &str = "root-cert.pem";

/// All of them.
pub(crate) const ALL: [&str; 3] = [CERTIFICATE_CHAIN, PRIVATE_KEY, TRUST_BUNDLE];
