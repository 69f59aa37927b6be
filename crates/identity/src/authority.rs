//! What both authorities share: a self-signed root that issues end-entity certificates.

use crate::{IdentityError, error::LoadError, svid};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData as _, SanType,
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// How long a root is valid, as Istio's self-signed one: 10 years.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 60 * 60);
/// How far certificates are dated back, as Istio's: peers whose clock is behind accept them at once.
const CLOCK_SKEW: Duration = Duration::from_secs(120);

/// A self-signed root and its key.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
    not_after: OffsetDateTime,
}

/// An end-entity certificate with its key.
pub(crate) struct Leaf {
    /// The certificate alone.
    pub(crate) certificate_pem: String,
    /// The certificate, then the authority's.
    pub(crate) chain_pem: String,
    pub(crate) key_pem: String,
    pub(crate) not_after: SystemTime,
}

/// A root that was loaded: whom it vouches for, and the roots beside it.
pub(crate) struct Loaded {
    pub(crate) authority: Authority,
    /// The subject's organization, as [`Authority::new`] was told.
    pub(crate) name: String,
    /// The other certificates, PEM, in their order.
    pub(crate) others: Vec<String>,
}

impl Authority {
    /// A root whose subject is the organization `name`.
    pub(crate) fn new(name: &str) -> Result<Self, IdentityError> {
        let failed = |source| IdentityError::Certificate { subject: format!("the authority '{name}'"), source };
        let mut params = valid_from_now(AUTHORITY_LIFETIME);
        params.distinguished_name.push(DnType::OrganizationName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = new_key().map_err(failed)?;
        let certificate_pem = params.self_signed(&key).map_err(failed)?.pem();
        let not_after = params.not_after;
        Ok(Self { issuer: Issuer::new(params, key), certificate_pem, not_after })
    }

    /// The root that the key belongs to, among the certificates of a bundle.
    pub(crate) fn load(certificates_pem: &str, key_pem: &str) -> Result<Loaded, LoadError> {
        let key = KeyPair::from_pem(key_pem).map_err(|_| LoadError::Key)?;
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(certificates_pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(LoadError::Pem)?;
        let (mut own, mut others) = (None, Vec::new());
        for (index, der) in certificates.iter().enumerate() {
            let unreadable = || LoadError::Certificate { number: index + 1 };
            let (_, certificate) = X509Certificate::from_der(der).map_err(|_| unreadable())?;
            if !certificate.is_ca() {
                return Err(LoadError::NoAuthority { number: index + 1 });
            }
            if own.is_none() && *certificate.public_key().subject_public_key.data == *key.der_bytes() {
                own = Some((der, certificate));
            } else {
                others.push(encode(der));
            }
        }
        let (der, certificate) = own.ok_or(LoadError::KeyMismatch)?;
        let name = certificate.subject().iter_organization().next().and_then(|name| name.as_str().ok());
        let name = name.unwrap_or_default().to_owned();
        let not_after = certificate.validity().not_after.to_datetime();
        let issuer = Issuer::from_ca_cert_der(der, key).map_err(LoadError::Issuer)?;
        Ok(Loaded { authority: Self { issuer, certificate_pem: encode(der), not_after }, name, others })
    }

    /// A certificate without a subject, so that the alternative names are critical and the only names.
    pub(crate) fn issue(
        &self,
        subject: &str,
        alternative_names: Vec<SanType>,
        usages: Vec<ExtendedKeyUsagePurpose>,
        lifetime: Duration,
    ) -> Result<Leaf, IdentityError> {
        let remaining = (self.not_after - OffsetDateTime::now_utc()).try_into().unwrap_or(Duration::ZERO);
        if lifetime > remaining {
            return Err(IdentityError::Lifetime { subject: subject.to_owned(), lifetime, remaining });
        }
        let failed = |source| IdentityError::Certificate { subject: subject.to_owned(), source };
        let mut params = valid_from_now(lifetime);
        params.subject_alt_names = alternative_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        let key = new_key().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        let certificate_pem = certificate.pem();
        let not_after = svid::system_time(params.not_after.unix_timestamp()).map_err(|_| IdentityError::Lifetime {
            subject: subject.to_owned(),
            lifetime,
            remaining,
        })?;
        Ok(Leaf {
            chain_pem: format!("{certificate_pem}{}", self.certificate_pem),
            certificate_pem,
            key_pem: key.serialize_pem(),
            not_after,
        })
    }

    pub(crate) fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub(crate) fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }
}

fn encode(certificate: &CertificateDer<'_>) -> String {
    let config = ::pem::EncodeConfig::new().set_line_ending(::pem::LineEnding::LF);
    ::pem::encode_config(&::pem::Pem::new("CERTIFICATE", certificate.to_vec()), config)
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
