//! The mesh's certificate authority.

use crate::{IdentityError, authority::Authority, error::LoadError};
use meshtoll_model::ids::{SpiffeId, is_trust_domain};
use rcgen::{ExtendedKeyUsagePurpose, SanType};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// The authority that vouches for every workload of one trust domain, as Istio's control plane does.
#[derive(Debug)]
pub struct MeshCa {
    trust_domain: Arc<str>,
    authority: Authority,
    /// Roots that are trusted besides the own one, PEM: those that it replaced.
    others: Vec<String>,
}

/// An authority as text, to be kept.
#[derive(Clone, PartialEq, Eq)]
pub struct MeshCaPem {
    /// The certificates of every root that is trusted, the one that signs first.
    pub trust_bundle_pem: String,
    /// The private key of the root that signs, PKCS #8.
    pub key_pem: String,
}

impl fmt::Debug for MeshCaPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeshCaPem")
            .field("trust_bundle_pem", &self.trust_bundle_pem)
            .field("key_pem", &"(secret)")
            .finish()
    }
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
    /// Until when it is valid.
    pub not_after: SystemTime,
}

impl fmt::Debug for WorkloadCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkloadCertificate")
            .field("identity", &self.identity)
            .field("chain_pem", &self.chain_pem)
            .field("key_pem", &"(secret)")
            .field("not_after", &self.not_after)
            .finish()
    }
}

impl MeshCa {
    /// A new authority, with a new key, for a trust domain (`cluster.local` is Istio's default).
    pub fn new(trust_domain: &str) -> Result<Self, IdentityError> {
        if !is_trust_domain(trust_domain) {
            return Err(IdentityError::TrustDomain { trust_domain: trust_domain.to_owned() });
        }
        Ok(Self { trust_domain: trust_domain.into(), authority: Authority::new(trust_domain)?, others: Vec::new() })
    }

    /// The authority that was kept as [`MeshCa::to_pem`] says: the key's own root signs, the others are trusted.
    pub fn load(trust_bundle_pem: &str, key_pem: &str) -> Result<Self, LoadError> {
        let loaded = Authority::load(trust_bundle_pem, key_pem)?;
        if !is_trust_domain(&loaded.name) {
            return Err(LoadError::TrustDomain { organization: loaded.name });
        }
        Ok(Self { trust_domain: loaded.name.into(), authority: loaded.authority, others: loaded.others })
    }

    /// The authority as text, with its private key.
    pub fn to_pem(&self) -> MeshCaPem {
        MeshCaPem { trust_bundle_pem: self.trust_bundle_pem(), key_pem: self.authority.key_pem() }
    }

    /// The authority's successor: it signs with a new root and a new key, and trusts the roots so far beside it, until
    /// [`MeshCa::retire_old_roots`].
    pub fn successor(&self) -> Result<Self, IdentityError> {
        let mut others = vec![self.authority.certificate_pem().to_owned()];
        others.extend_from_slice(&self.others);
        Ok(Self { others, ..Self::new(&self.trust_domain)? })
    }

    /// Trusts the own root alone from now on; says how many others were trusted.
    pub fn retire_old_roots(&mut self) -> usize {
        std::mem::take(&mut self.others).len()
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
        let subject = identity.to_string();
        if subject.parse().as_ref() != Ok(identity) {
            return Err(IdentityError::Identity { identity: identity.clone() });
        }
        let uri = subject
            .as_str()
            .try_into()
            .map_err(|source| IdentityError::Certificate { subject: subject.clone(), source })?;
        let usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let leaf = self.authority.issue(&subject, vec![SanType::URI(uri)], usages, lifetime)?;
        Ok(WorkloadCertificate {
            identity: identity.clone(),
            chain_pem: leaf.chain_pem,
            key_pem: leaf.key_pem,
            not_after: leaf.not_after,
        })
    }

    /// The trust domain that it vouches for.
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// What a peer has to trust: the certificate of the root that signs, then those of the roots before it, PEM.
    pub fn trust_bundle_pem(&self) -> String {
        self.others.iter().fold(self.authority.certificate_pem().to_owned(), |bundle, other| bundle + other)
    }
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
        let kept = ca.to_pem();
        assert!(!format!("{kept:?}").contains(kept.key_pem.lines().nth(1).unwrap()));
    }

    #[test]
    fn an_authority_that_was_kept_is_the_same() {
        let ca = MeshCa::new("mesh.example").unwrap();
        let kept = ca.to_pem();
        let loaded = MeshCa::load(&kept.trust_bundle_pem, &kept.key_pem).unwrap();
        assert_eq!(loaded.trust_domain(), "mesh.example");
        assert_eq!(loaded.to_pem(), kept);
    }

    #[test]
    fn a_successor_signs_with_a_new_root_and_keeps_the_old_one_until_it_retires() {
        let old = MeshCa::new("cluster.local").unwrap();
        let new = old.successor().unwrap();
        assert!(new.trust_bundle_pem().ends_with(&old.trust_bundle_pem()));
        let issued = new.issue(&booking(), Duration::from_secs(60)).unwrap();
        assert!(!issued.chain_pem.contains(&old.trust_bundle_pem()));

        let kept = new.to_pem();
        assert_ne!(kept.key_pem, old.to_pem().key_pem);
        let mut loaded = MeshCa::load(&kept.trust_bundle_pem, &kept.key_pem).unwrap();
        assert_eq!(loaded.to_pem(), kept);
        // Between the writes of bundle and key, the old root still signs.
        let between = MeshCa::load(&kept.trust_bundle_pem, &old.to_pem().key_pem).unwrap();
        assert!(between.trust_bundle_pem().starts_with(&old.trust_bundle_pem()));

        assert_eq!(loaded.retire_old_roots(), 1);
        assert!(!loaded.trust_bundle_pem().contains(&old.trust_bundle_pem()));
        assert!(kept.trust_bundle_pem.starts_with(&loaded.trust_bundle_pem()));
    }

    #[test]
    fn what_is_no_authority_is_refused_and_says_why() {
        let ca = MeshCa::new("cluster.local").unwrap();
        let MeshCaPem { trust_bundle_pem: bundle, key_pem: key } = ca.to_pem();
        let leaf = ca.issue(&booking(), Duration::from_secs(60)).unwrap();
        let other = MeshCa::new("cluster.local").unwrap().to_pem().key_pem;
        let nameless = Authority::new("A company").unwrap();
        let error = |bundle: &str, key: &str| MeshCa::load(bundle, key).unwrap_err();
        assert!(matches!(error("", &key), LoadError::KeyMismatch));
        assert!(matches!(error(&bundle, &other), LoadError::KeyMismatch));
        assert!(matches!(error(&bundle, "key"), LoadError::Key));
        assert!(matches!(error(&leaf.chain_pem, &leaf.key_pem), LoadError::NoAuthority { number: 1 }));
        assert!(matches!(error(&bundle.replace("-----END", "----END"), &key), LoadError::Pem(_)));
        let error = error(nameless.certificate_pem(), &nameless.key_pem());
        assert!(matches!(error, LoadError::TrustDomain { .. }), "{error}");
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
