//! The authority of what is outside the mesh.

use crate::{IdentityError, authority::Authority};
use rcgen::{ExtendedKeyUsagePurpose, SanType};
use std::{fmt, time::Duration};

/// How long the certificate of an external server is valid: longer than any run.
const SERVER_LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// An authority that the application trusts and the mesh knows nothing of: it vouches for the external database.
#[derive(Debug)]
pub struct ExternalCa {
    authority: Authority,
}

/// An external server's certificate with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The DNS names that it is valid for; they may be wildcards.
    pub dns_names: Vec<String>,
    /// The server's certificate, PEM.
    pub chain_pem: String,
    /// Its private key, PKCS #8 PEM.
    pub key_pem: String,
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCertificate")
            .field("dns_names", &self.dns_names)
            .field("chain_pem", &self.chain_pem)
            .field("key_pem", &"(secret)")
            .finish()
    }
}

impl ExternalCa {
    /// A new authority, with a new key. `name` is what its certificate says, for people.
    pub fn new(name: &str) -> Result<Self, IdentityError> {
        Ok(Self { authority: Authority::new(name)? })
    }

    /// A server certificate with a new key for these DNS names, at least one.
    pub fn issue_server<N: AsRef<str>>(&self, dns_names: &[N]) -> Result<ServerCertificate, IdentityError> {
        let names: Vec<String> = dns_names.iter().map(|name| name.as_ref().to_owned()).collect();
        let subject = names.first().ok_or(IdentityError::NoDnsName)?;
        let alternatives = names
            .iter()
            .map(|name| name.as_str().try_into().map(SanType::DnsName))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| IdentityError::Certificate { subject: names.join(", "), source })?;
        let leaf =
            self.authority.issue(subject, alternatives, vec![ExtendedKeyUsagePurpose::ServerAuth], SERVER_LIFETIME)?;
        Ok(ServerCertificate { chain_pem: leaf.certificate_pem, key_pem: leaf.key_pem, dns_names: names })
    }

    /// What a client has to trust: the authority's certificate, PEM.
    pub fn trust_bundle_pem(&self) -> String {
        self.authority.certificate_pem().to_owned()
    }
}
