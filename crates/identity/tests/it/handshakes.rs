//! Whom the mesh's TLS lets in, and what it says of others.

use crate::mesh::{Forged, HOUR, SNI, Shaken, credentials, from_pem, from_pem_with, id, shake};
use meshtoll_identity::{Credentials, CredentialsError, MeshCa, Part, PemError, SvidError, TlsVersions, peer_identity};
use rcgen::ExtendedKeyUsagePurpose;
use rustls::{
    ClientConfig, ProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use std::{sync::Arc, time::SystemTime};

fn ca() -> MeshCa {
    MeshCa::new("cluster.local").unwrap()
}

/// `client` calls `gateway`, with credentials of these two.
fn call(client: &Credentials, gateway: &Credentials) -> Shaken {
    shake(client.client_config(&id("gateway")), gateway.server_config())
}

/// A client of the mesh's gateway, whose certificate is another than the authority would issue.
fn call_with(forged: Forged) -> Shaken {
    let ca = ca();
    let (chain, key) = forged.sign(&ca);
    let config = presenting(&credentials(&ca, "booking"), &chain, &key);
    shake(Arc::new(config), credentials(&ca, "gateway").server_config())
}

/// A client's configuration, with another certificate.
fn presenting(client: &Credentials, chain: &str, key: &str) -> ClientConfig {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let mut config = (*client.client_config(&id("gateway"))).clone();
    let pair = rustls::sign::CertifiedKey::from_der(chain, key, config.crypto_provider()).unwrap();
    config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(pair));
    config
}

/// A server of the mesh, whose certificate is another than the authority would issue, called as the gateway.
fn serve_with(forged: Forged) -> Shaken {
    let ca = ca();
    let (chain, key) = forged.sign(&ca);
    let mut server = (*credentials(&ca, "gateway").server_config()).clone();
    let client = presenting(&credentials(&ca, "booking"), &chain, &key);
    let pair = client.client_auth_cert_resolver.resolve(&[], &[]).unwrap();
    server.cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(pair));
    shake(credentials(&ca, "booking").client_config(&id("gateway")), Arc::new(server))
}

const GATEWAY: &str = "spiffe://cluster.local/ns/default/sa/gateway";

#[test]
fn workloads_of_one_mesh_speak_tls_1_3_and_know_each_other() {
    let ca = ca();
    let Shaken { client, server } = call(&credentials(&ca, "booking"), &credentials(&ca, "gateway")).accepted();
    assert_eq!(client.connection.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(client.connection.alpn_protocol(), Some(&b"istio"[..]));
    assert_eq!(peer_identity(server.connection.peer_certificates().unwrap()), Ok(id("booking")));
    assert_eq!(peer_identity(client.connection.peer_certificates().unwrap()), Ok(id("gateway")));
}

#[test]
fn a_session_is_never_resumed() {
    let ca = ca();
    let client = credentials(&ca, "booking").client_config(&id("gateway"));
    // One that would resume, so that the server alone decides.
    let mut eager = (*client).clone();
    eager.resumption = rustls::client::Resumption::default();
    let gateway = credentials(&ca, "gateway").server_config();
    for client in [client, Arc::new(eager)] {
        for _ in 0..3 {
            let shaken = shake(client.clone(), gateway.clone()).accepted();
            assert_eq!(shaken.server.connection.handshake_kind(), Some(rustls::HandshakeKind::Full));
        }
    }
}

#[test]
fn tls_1_2_is_spoken_where_it_is_allowed_alone() {
    let ca = ca();
    let (chain, key) = Forged::booking().uris(&[GATEWAY]).dns(SNI).sign(&ca);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.trust_bundle_pem().as_bytes()).unwrap()).unwrap();
    let booking = credentials(&ca, "booking").client_config(&id("gateway"));
    let client = ClientConfig::builder_with_provider(booking.crypto_provider().clone())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(booking.client_auth_cert_resolver.clone());
    let client = Arc::new(client);
    let gateway = |versions| from_pem_with(&chain, &key, &ca.trust_bundle_pem(), versions).server_config();

    let said = shake(client.clone(), gateway(TlsVersions::OnlyTls13)).refused_by_server();
    assert!(said.contains("peer is incompatible"), "{said}");
    let shaken = shake(client, gateway(TlsVersions::AllowTls12)).accepted();
    assert_eq!(shaken.client.connection.protocol_version(), Some(ProtocolVersion::TLSv1_2));
    assert_eq!(peer_identity(shaken.server.connection.peer_certificates().unwrap()), Ok(id("booking")));
}

#[test]
fn the_application_protocol_is_one_of_istio_s_or_none() {
    let ca = ca();
    let (client, gateway) = (credentials(&ca, "booking"), credentials(&ca, "gateway"));
    let offering = |protocols: &[&str]| {
        let mut config = (*client.client_config(&id("gateway"))).clone();
        config.alpn_protocols = protocols.iter().map(|protocol| Vec::from(*protocol)).collect();
        shake(Arc::new(config), gateway.server_config())
    };
    offering(&[]).accepted();
    offering(&["istio-peer-exchange", "istio"]).accepted();
    let said = offering(&["h2", "http/1.1"]).refused_by_server();
    assert!(said.contains("known protocol"), "{said}");
}

#[test]
fn a_client_without_certificate_is_refused() {
    let ca = ca();
    let mut config = (*credentials(&ca, "booking").client_config(&id("gateway"))).clone();
    config.client_auth_cert_resolver = Arc::new(NoCertificate);
    let said = shake(Arc::new(config), credentials(&ca, "gateway").server_config()).refused_by_server();
    assert_eq!(said, "peer sent no certificates");
}

#[derive(Debug)]
struct NoCertificate;

impl rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn another_authority_of_the_same_name_vouches_for_nobody() {
    let (ours, theirs) = (ca(), ca());
    let said = call(&credentials(&theirs, "booking"), &credentials(&ours, "gateway")).refused_by_client();
    assert!(said.contains("BadSignature") || said.contains("UnknownIssuer"), "{said}");
    // A client that trusts the server learns that it is not trusted.
    let (issued, gateway) = (theirs.issue(&id("booking"), HOUR).unwrap(), credentials(&ours, "gateway"));
    let stranger = from_pem(&issued.chain_pem, &issued.key_pem, &ours.trust_bundle_pem());
    let said = call(&stranger, &gateway).refused_by_server();
    assert!(said.contains("BadSignature") || said.contains("UnknownIssuer"), "{said}");
}

#[test]
fn certificates_count_while_they_are_valid() {
    for (start, expected) in [(-2, "expired"), (1, "not valid yet")] {
        let said = call_with(Forged::booking().starting(start)).refused_by_server();
        assert!(said.contains(expected), "{said}");
        let said = serve_with(Forged::booking().uris(&[GATEWAY]).starting(start)).refused_by_client();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn certificates_count_for_their_usage() {
    let said = call_with(Forged::booking().usage(ExtendedKeyUsagePurpose::ServerAuth)).refused_by_server();
    assert!(said.contains("extended key usage"), "{said}");
    let forged = Forged::booking().uris(&[GATEWAY]).usage(ExtendedKeyUsagePurpose::ClientAuth);
    let said = serve_with(forged).refused_by_client();
    assert!(said.contains("extended key usage"), "{said}");
}

#[test]
fn a_certificate_names_one_workload_of_the_trust_domain() {
    let twice = ["spiffe://cluster.local/ns/default/sa/booking", GATEWAY];
    for (uris, expected) in [
        (&twice[..], "has 2 URIs"),
        (&[][..], "no URI"),
        (&["https://cluster.local/booking"][..], "names no workload"),
        (&["spiffe://cluster.local/booking"][..], "names no workload"),
    ] {
        // Another name is allowed beside, and counts for nothing.
        let said = call_with(Forged::booking().uris(uris).dns("booking.example")).refused_by_server();
        assert!(said.contains(expected), "{said}");
        let said = serve_with(Forged::booking().uris(uris).dns("booking.example")).refused_by_client();
        assert!(said.contains(expected), "{said}");
    }
    let foreign = ["spiffe://elsewhere.example/ns/default/sa/gateway"];
    let said = call_with(Forged::booking().uris(&foreign)).refused_by_server();
    assert!(said.contains("elsewhere.example") && said.contains("trust domain 'cluster.local'"), "{said}");
    let said = serve_with(Forged::booking().uris(&foreign)).refused_by_client();
    assert!(said.contains("elsewhere.example"), "{said}");

    call_with(Forged::booking().dns("booking.example")).accepted();
}

#[test]
fn a_server_is_the_expected_workload_and_no_other() {
    let ca = ca();
    let said = call(&credentials(&ca, "booking"), &credentials(&ca, "flight")).refused_by_client();
    assert!(said.contains("the peer is spiffe://cluster.local/ns/default/sa/flight"), "{said}");
    assert!(said.contains(GATEWAY), "{said}");
    // The server name that is sent is not what counts.
    let said = serve_with(Forged::booking().dns(SNI)).refused_by_client();
    assert!(said.contains("where spiffe://cluster.local/ns/default/sa/gateway was expected"), "{said}");
}

#[test]
fn an_authority_s_certificate_is_no_workload_s() {
    let said = call_with({
        let mut forged = Forged::booking();
        forged.params.key_usages.push(rcgen::KeyUsagePurpose::KeyCertSign);
        forged
    });
    assert!(said.refused_by_server().contains("an authority's"));
}

#[test]
fn old_and_new_roots_are_trusted_side_by_side() {
    let old = ca();
    let mut new = old.successor().unwrap();
    let issued = old.issue(&id("booking"), HOUR).unwrap();
    let before = from_pem(&issued.chain_pem, &issued.key_pem, &new.trust_bundle_pem());
    let after = credentials(&new, "gateway");
    call(&before, &after).accepted();
    call(&credentials(&new, "booking"), &credentials(&new, "gateway")).accepted();

    new.retire_old_roots();
    let said = call(&before, &credentials(&new, "gateway")).refused_by_server();
    assert!(said.contains("BadSignature") || said.contains("UnknownIssuer"), "{said}");
}

#[test]
fn credentials_say_who_and_until_when() {
    let issued = ca().issue(&id("booking"), HOUR).unwrap();
    let bundle = ca().trust_bundle_pem();
    let credentials = from_pem(&issued.chain_pem, &issued.key_pem, &bundle);
    assert_eq!(credentials.identity(), &id("booking"));
    assert!(credentials.not_before() < SystemTime::now());
    assert_eq!(credentials.not_after(), issued.not_after);
    assert!(!format!("{credentials:?}").to_lowercase().contains("key"), "{credentials:?}");
}

#[test]
fn what_are_no_credentials_is_refused_and_says_which_part() {
    let ca = ca();
    let issued = ca.issue(&id("booking"), HOUR).unwrap();
    let (chain, key, bundle) = (issued.chain_pem, issued.key_pem, ca.trust_bundle_pem());
    let other = ca.issue(&id("booking"), HOUR).unwrap().key_pem;
    let load = |chain: &str, key: &str, bundle: &str| {
        Credentials::from_pem(chain.as_bytes(), key.as_bytes(), bundle.as_bytes()).unwrap_err()
    };

    let error = load("", &key, &bundle);
    assert!(matches!(error, CredentialsError::Pem(PemError::NoCertificate { part: Part::Chain })), "{error}");
    let error = load(&chain, &key, "nothing");
    assert!(matches!(error, CredentialsError::Pem(PemError::NoCertificate { part: Part::TrustBundle })), "{error}");
    let error = load(&chain.replacen("-----END", "----END", 1), &key, &bundle);
    assert!(matches!(error, CredentialsError::Pem(PemError::Certificates { part: Part::Chain, .. })), "{error}");
    assert!(matches!(load(&chain, &other, &bundle), CredentialsError::KeyMismatch));
    assert!(matches!(load(&bundle, &key, &bundle), CredentialsError::Leaf(SvidError::Authority)));

    let secret = key.lines().nth(1).unwrap();
    for broken in
        [key.replace('\n', ""), key.replace("-----END", "----END"), key.replace("MIG", "MIH"), secret.to_owned()]
    {
        let error = load(&chain, &broken, &bundle);
        let mut told = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            told += &format!("{cause} {cause:?}");
            source = cause.source();
        }
        assert!(told.contains("private key") && !told.contains(&secret[..8]), "{told}");
    }
}
