//! TLS that a proxy speaks for its application to a host outside of the mesh.

use crate::{
    credentials::{self, CredentialsError},
    pem::{self, Part},
    verify::{Expected, ExpectedServer},
};
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    pki_types::DnsName,
    sign::SingleCertAndKey,
    version::{TLS12, TLS13},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Why TLS to a host outside of the mesh cannot be spoken.
#[derive(Debug, thiserror::Error)]
pub enum OriginationError {
    /// Any server of the authorities would be believed.
    #[error("no name is given that the server's certificate has to have: add a subject alternative name")]
    NoName,
    /// A name that no certificate can have.
    #[error("'{name}' is not a DNS name that a server's certificate could have")]
    Name {
        /// What was given.
        name: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file's content cannot be used.
    #[error("{} cannot be used", path.display())]
    Content {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: CredentialsError,
    },
    /// The system trusts nobody.
    #[error(
        "the system's store has no certificate authority: install ca-certificates, or name a file of authorities{}",
        details(errors)
    )]
    NoSystemRoots {
        /// What went wrong while it was read.
        errors: Vec<String>,
    },
    /// rustls does not take the configuration.
    #[error("TLS cannot be configured")]
    Tls(#[source] rustls::Error),
}

fn details(errors: &[String]) -> String {
    errors.iter().map(|error| format!("; {error}")).collect()
}

/// For connections to a host outside of the mesh: the server has to present a certificate, valid now and for servers, of an
/// authority of `ca_certificates` (PEM; without, of the system's store), for one of `subject_alt_names`.
///
/// `client` is the chain and the key that the proxy presents, PEM. TLS is 1.2 or 1.3, since the host is not ours to choose. It reads
/// files, so that it is made once and kept.
pub fn origination_config(
    ca_certificates: Option<&Path>,
    subject_alt_names: &[String],
    client: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, OriginationError> {
    let names = subject_alt_names.iter().map(|name| dns_name(name)).collect::<Result<Vec<_>, _>>()?;
    if names.is_empty() {
        return Err(OriginationError::NoName);
    }
    let provider = credentials::provider();
    let verifier = ExpectedServer {
        expected: Expected::OneOf(names),
        roots: ca_certificates.map_or_else(system_roots, |path| {
            content(path, |text| credentials::roots(pem::certificates(Part::TrustBundle, text)?))
        })?,
        algorithms: provider.signature_verification_algorithms,
    };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(OriginationError::Tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let certificates = content(chain, |text| Ok(pem::certificates(Part::Chain, text)?))?;
            let pair = content(key, |text| credentials::pair(certificates, text, &provider))?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
        }
    };
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn dns_name(name: &str) -> Result<DnsName<'static>, OriginationError> {
    DnsName::try_from(name.to_owned()).map_err(|_| OriginationError::Name { name: name.to_owned() })
}

fn content<T>(path: &Path, read: impl FnOnce(&[u8]) -> Result<T, CredentialsError>) -> Result<T, OriginationError> {
    let text = fs::read(path).map_err(|source| OriginationError::Read { path: path.to_owned(), source })?;
    read(&text).map_err(|source| OriginationError::Content { path: path.to_owned(), source })
}

fn system_roots() -> Result<Arc<RootCertStore>, OriginationError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Old authorities of a system that webpki cannot read vouch for nobody; the others have to work all the same.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(OriginationError::NoSystemRoots { errors: found.errors.iter().map(ToString::to_string).collect() });
    }
    Ok(Arc::new(roots))
}
