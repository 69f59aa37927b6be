//! What both authorities share: a self-signed root that issues end-entity certificates.

use crate::IdentityError;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use std::time::Duration;
use time::OffsetDateTime;

/// How long a root is valid, as Istio's self-signed one: 10 years.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// How far certificates are dated back, as Istio's: peers whose clock is behind accept them at once.
const CLOCK_SKEW: Duration = Duration::from_secs(120);

/// A self-signed root and its key.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// An end-entity certificate with its key.
pub(crate) struct Leaf {
    /// The certificate alone.
    pub(crate) certificate_pem: String,
    /// The certificate, then the authority's.
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
}

impl Authority {
    /// A root whose subject is the organization `name`.
    pub(crate) fn new(name: &str) -> Result<Self, IdentityError> {
        let failed = |source| IdentityError::Certificate { subject: format!("the authority '{name}'"), source };
        let mut params = valid_from_now(AUTHORITY_LIFETIME);
        params.distinguished_name.push(DnType::OrganizationName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, new_key().map_err(failed)?).map_err(failed)?;
        Ok(Self { issuer })
    }

    /// A certificate without a subject, so that the alternative names are critical and the only names.
    pub(crate) fn issue(
        &self,
        subject: &str,
        alternative_names: Vec<SanType>,
        usages: Vec<ExtendedKeyUsagePurpose>,
        lifetime: Duration,
    ) -> Result<Leaf, IdentityError> {
        if lifetime > AUTHORITY_LIFETIME {
            let subject = subject.to_owned();
            return Err(IdentityError::Lifetime { subject, lifetime, authority: AUTHORITY_LIFETIME });
        }
        let failed = |source| IdentityError::Certificate { subject: subject.to_owned(), source };
        let mut params = valid_from_now(lifetime);
        params.subject_alt_names = alternative_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        let key = new_key().map_err(failed)?;
        let certificate_pem = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        let chain_pem = format!("{certificate_pem}{}", self.certificate_pem());
        Ok(Leaf { certificate_pem, chain_pem, key_pem: key.serialize_pem() })
    }

    pub(crate) fn certificate_pem(&self) -> String {
        self.issuer.pem()
    }
}

fn new_key() -> Result<KeyPair, rcgen::Error> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
}

fn valid_from_now(lifetime: Duration) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + lifetime;
    params
}
