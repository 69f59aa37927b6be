//! The mesh's certificate authority.

use crate::{IdentityError, authority::Authority};
use meshtoll_model::ids::SpiffeId;
use rcgen::{ExtendedKeyUsagePurpose, SanType};
use std::{fmt, sync::Arc, time::Duration};

/// The authority that vouches for every workload of one trust domain, as Istio's control plane does.
#[derive(Debug)]
pub struct MeshCa {
    trust_domain: Arc<str>,
    authority: Authority,
}

/// A workload's certificate with its key: what a proxy presents to its peers.
#[derive(Clone, PartialEq, Eq)]
pub struct WorkloadCertificate {
    /// Whom it names.
    pub identity: SpiffeId,
    /// The workload's certificate, then the authority's, PEM: what Istio's workloads send.
    pub chain_pem: String,
    /// Its private key, PKCS #8 PEM.
    pub key_pem: String,
}

impl fmt::Debug for WorkloadCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkloadCertificate")
            .field("identity", &self.identity)
            .field("chain_pem", &self.chain_pem)
            .field("key_pem", &"(secret)")
            .finish()
    }
}

impl MeshCa {
    /// A new authority, with a new key, for a trust domain (`cluster.local` is Istio's default).
    pub fn new(trust_domain: &str) -> Result<Self, IdentityError> {
        if !is_trust_domain(trust_domain) {
            return Err(IdentityError::TrustDomain { trust_domain: trust_domain.to_owned() });
        }
        Ok(Self { trust_domain: trust_domain.into(), authority: Authority::new(trust_domain)? })
    }

    /// A certificate with a new key for `identity`, valid from a little before now until `lifetime` from now.
    ///
    /// It follows the X.509-SVID standard: the identity is the one URI among its subject alternative names, which
    /// hold nothing else, and it serves as client and as server.
    pub fn issue(&self, identity: &SpiffeId, lifetime: Duration) -> Result<WorkloadCertificate, IdentityError> {
        if identity.trust_domain != self.trust_domain {
            return Err(IdentityError::ForeignTrustDomain {
                identity: identity.clone(),
                trust_domain: self.trust_domain.to_string(),
            });
        }
        if !is_path_segment(&identity.namespace) || !is_path_segment(&identity.service_account) {
            return Err(IdentityError::Identity { identity: identity.clone() });
        }
        let subject = identity.to_string();
        let uri = subject
            .as_str()
            .try_into()
            .map_err(|source| IdentityError::Certificate { subject: subject.clone(), source })?;
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = self.authority.issue(&subject, vec![SanType::URI(uri)], usages, lifetime)?;
        Ok(WorkloadCertificate { identity: identity.clone(), chain_pem: leaf.chain_pem, key_pem: leaf.key_pem })
    }

    /// The trust domain that it vouches for.
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// What a peer has to trust: the authority's certificate, PEM.
    pub fn trust_bundle_pem(&self) -> String {
        self.authority.certificate_pem()
    }
}

/// The SPIFFE standard, 2.1: lower-case letters, digits, dots, hyphens and underscores.
fn is_trust_domain(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    !name.is_empty() && name.len() <= 255 && name.bytes().all(allowed)
}

/// The SPIFFE standard, 2.2: letters, digits, dots, hyphens and underscores, but not `.` or `..`.
fn is_path_segment(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !matches!(name, "" | "." | "..") && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn booking() -> SpiffeId {
        SpiffeId {
            trust_domain: "cluster.local".into(),
            namespace: "default".into(),
            service_account: "booking".into(),
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let ca = MeshCa::new("cluster.local").unwrap();
        let certificate = ca.issue(&booking(), Duration::from_secs(60)).unwrap();
        let key = certificate.key_pem.lines().nth(1).unwrap();
        assert!(!format!("{certificate:?}").contains(key));
        assert!(!format!("{ca:?}").to_lowercase().contains("private"));
    }

    #[test]
    fn identities_of_another_trust_domain_are_refused() {
        let ca = MeshCa::new("elsewhere.example").unwrap();
        let error = ca.issue(&booking(), Duration::from_secs(60)).unwrap_err();
        assert!(matches!(error, IdentityError::ForeignTrustDomain { .. }), "{error}");
    }

    #[test]
    fn names_that_are_no_spiffe_identity_are_refused() {
        for trust_domain in ["", "Cluster.local", "a/b", "a:1", "é"] {
            assert!(matches!(MeshCa::new(trust_domain), Err(IdentityError::TrustDomain { .. })), "{trust_domain}");
        }
        let ca = MeshCa::new("cluster.local").unwrap();
        for name in ["", ".", "..", "a/b", "a b", "é"] {
            let identity = SpiffeId { service_account: name.into(), ..booking() };
            let error = ca.issue(&identity, Duration::from_secs(60)).unwrap_err();
            assert!(matches!(error, IdentityError::Identity { .. }), "{name}: {error}");
        }
    }
}
