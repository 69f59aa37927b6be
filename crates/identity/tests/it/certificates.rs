//! What the certificates say, read by another library, and whether rustls takes them.

use meshtoll_identity::{ExternalCa, IdentityError, MeshCa, WorkloadCertificate};
use meshtoll_model::ids::SpiffeId;
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::WebPkiClientVerifier,
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn booking() -> SpiffeId {
    SpiffeId { trust_domain: "cluster.local".into(), namespace: "default".into(), service_account: "booking".into() }
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

fn roots(pem: &str) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem) {
        roots.add(certificate).unwrap();
    }
    Arc::new(roots)
}

fn verify_client(certificate: &WorkloadCertificate, bundle: &str, at: UnixTime) -> Result<(), rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(bundle), provider).build().unwrap();
    let chain = certificates(&certificate.chain_pem);
    verifier.verify_client_cert(&chain[0], &chain[1..], at).map(|_| ())
}

fn at(offset: i64) -> UnixTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    UnixTime::since_unix_epoch(Duration::from_secs(now.checked_add_signed(offset).unwrap()))
}

#[test]
fn a_workload_certificate_names_its_identity_and_nothing_else() {
    let ca = MeshCa::new("cluster.local").unwrap();
    let issued = ca.issue(&booking(), DAY).unwrap();
    let chain = certificates(&issued.chain_pem);
    assert_eq!(chain.len(), 2);
    assert_eq!(chain[1..], certificates(&ca.trust_bundle_pem())[..]);

    let (_, leaf) = X509Certificate::from_der(&chain[0]).unwrap();
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    assert!(names.critical, "without a subject the alternative names have to be critical (RFC 5280, 4.2.1.6)");
    assert_eq!(names.value.general_names, [GeneralName::URI("spiffe://cluster.local/ns/default/sa/booking")]);
    assert_eq!(leaf.subject().iter().count(), 0);

    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && usage.server_auth && !usage.any && !usage.code_signing);
    assert!(leaf.key_usage().unwrap().unwrap().value.digital_signature());
    assert!(leaf.basic_constraints().unwrap().is_none_or(|constraints| !constraints.value.ca));
    let algorithm = &leaf.public_key().algorithm;
    assert_eq!(algorithm.algorithm.to_id_string(), "1.2.840.10045.2.1", "id-ecPublicKey");
    assert_eq!(algorithm.parameters.as_ref().unwrap().as_oid().unwrap().to_id_string(), "1.2.840.10045.3.1.7", "P-256");

    let (_, root) = X509Certificate::from_der(&chain[1]).unwrap();
    assert!(root.is_ca());
}

#[test]
fn a_workload_certificate_is_valid_from_a_little_before_now_for_its_lifetime() {
    let ca = MeshCa::new("cluster.local").unwrap();
    let issued = ca.issue(&booking(), DAY).unwrap();
    let bundle = ca.trust_bundle_pem();
    for (offset, valid) in [(-180, false), (-60, true), (0, true), (86_300, true), (86_500, false)] {
        assert_eq!(verify_client(&issued, &bundle, at(offset)).is_ok(), valid, "{offset} s from now");
    }
}

#[test]
fn a_certificate_of_another_authority_of_the_same_name_is_refused() {
    let issued = MeshCa::new("cluster.local").unwrap().issue(&booking(), DAY).unwrap();
    let other = MeshCa::new("cluster.local").unwrap();
    assert!(verify_client(&issued, &other.trust_bundle_pem(), at(0)).is_err());
}

#[test]
fn the_key_belongs_to_the_certificate() {
    let issued = MeshCa::new("cluster.local").unwrap().issue(&booking(), DAY).unwrap();
    let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
    rustls::sign::CertifiedKey::from_der(certificates(&issued.chain_pem), key, &aws_lc_rs::default_provider())
        .unwrap()
        .keys_match()
        .unwrap();
}

#[test]
fn every_certificate_has_a_key_of_its_own() {
    let ca = MeshCa::new("cluster.local").unwrap();
    assert_ne!(ca.issue(&booking(), DAY).unwrap().key_pem, ca.issue(&booking(), DAY).unwrap().key_pem);
}

#[test]
fn a_certificate_does_not_outlive_its_authority() {
    let error = MeshCa::new("cluster.local").unwrap().issue(&booking(), DAY * 4000).unwrap_err();
    assert!(matches!(error, IdentityError::Lifetime { .. }), "{error}");
}

#[test]
fn an_external_server_is_trusted_for_its_names_alone() {
    let ca = ExternalCa::new("external database").unwrap();
    let issued = ca.issue_server(&["airline.mongodb.example", "*.wild.example"]).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots(&ca.trust_bundle_pem()), provider).build().unwrap();
    let chain = certificates(&issued.chain_pem);
    for (name, trusted) in
        [("airline.mongodb.example", true), ("a.wild.example", true), ("wild.example", false), ("other.example", false)]
    {
        let verified =
            verifier.verify_server_cert(&chain[0], &chain[1..], &ServerName::try_from(name).unwrap(), &[], at(0));
        assert_eq!(verified.is_ok(), trusted, "{name}: {verified:?}");
    }
}

#[test]
fn an_external_server_needs_a_name() {
    let ca = ExternalCa::new("external database").unwrap();
    assert!(matches!(ca.issue_server::<&str>(&[]), Err(IdentityError::NoDnsName)));
    assert!(matches!(ca.issue_server(&["é.example"]), Err(IdentityError::Certificate { .. })));
}
