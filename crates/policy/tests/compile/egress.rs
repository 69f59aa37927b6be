//! The cases of the egress experiment, compiled.

use crate::{
    common::{gateway, http, placed, sni},
    folder,
};
use meshtoll_model::{experiment::CheckedExperiment, ids::SpiffeId, ids::WorkloadName};
use meshtoll_policy::authorization::Authorization;
use meshtoll_policy::{
    compile_gateway, compile_sidecar,
    routes::{InboundPort, PeerMtls, SidecarRoutes, Unmatched},
};

fn experiment() -> CheckedExperiment {
    folder::check(&folder::experiments().join("egress")).unwrap_or_else(|problems| panic!("{problems}"))
}

fn sidecar(case: &str) -> SidecarRoutes {
    let CheckedExperiment { experiment, resources } = experiment();
    let topology = placed(&experiment, case, &resources[case]);
    compile_sidecar(&resources[case], &topology, &WorkloadName::from("booking"))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn gateway_of(case: &str) -> String {
    let CheckedExperiment { experiment, resources } = experiment();
    let topology = placed(&experiment, case, &resources[case]);
    gateway(&compile_gateway(&resources[case], &topology).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn services_talk_mutual_tls_in_every_case() {
    let bypass = sidecar("bypass");
    insta::assert_snapshot!(http(&bypass), @r"
    9080 auth.airline.svc.cluster.local auth auth.airline auth.airline.svc 10.96.0.1 -> outbound|9080||auth.airline.svc.cluster.local (10.64.0.1:9080, mutual TLS as outbound_.9080_._.auth.airline.svc.cluster.local with spiffe://cluster.local/ns/airline/sa/auth)
    9080 customer.airline.svc.cluster.local customer customer.airline customer.airline.svc 10.96.0.2 -> outbound|9080||customer.airline.svc.cluster.local (10.64.0.2:9080, mutual TLS as outbound_.9080_._.customer.airline.svc.cluster.local with spiffe://cluster.local/ns/airline/sa/customer)
    9080 flight.airline.svc.cluster.local flight flight.airline flight.airline.svc 10.96.0.3 -> outbound|9080||flight.airline.svc.cluster.local (10.64.0.3:9080, mutual TLS as outbound_.9080_._.flight.airline.svc.cluster.local with spiffe://cluster.local/ns/airline/sa/flight)
    9080 booking.airline.svc.cluster.local booking booking.airline booking.airline.svc 10.96.0.4 -> outbound|9080||booking.airline.svc.cluster.local (10.64.0.4:9080, mutual TLS as outbound_.9080_._.booking.airline.svc.cluster.local with spiffe://cluster.local/ns/airline/sa/booking)
    ");
    for case in ["bypass", "sidecar", "gateway", "gateway-mtls", "gateway-sni", "gateway-wildcard"] {
        let routes = sidecar(case);
        assert_eq!(routes.http, bypass.http, "{case}");
        assert_eq!(
            routes.inbound,
            [InboundPort { port: 9080, mtls: PeerMtls::Permissive, authorization: Authorization::default() }],
            "{case}"
        );
        assert_eq!(routes.unmatched, Unmatched::RegistryOnly, "{case}");
        let identity = SpiffeId {
            trust_domain: "cluster.local".into(),
            namespace: "airline".into(),
            service_account: "booking".into(),
        };
        assert_eq!(routes.identity, identity, "{case}");
    }
}

#[test]
fn bypass_has_no_route_to_the_database() {
    assert!(sidecar("bypass").sni.is_empty());
}

#[test]
fn sidecar_resolves_the_database() {
    insta::assert_snapshot!(sni(&sidecar("sidecar")), @"27017 airline.mongodb.example -> outbound|27017||airline.mongodb.example (dns airline.mongodb.example:27017)");
}

#[test]
fn gateway_passes_tls_through() {
    insta::assert_snapshot!(sni(&sidecar("gateway")), @"27017 airline.mongodb.example -> outbound|443|mongo|istio-egressgateway.istio-system.svc.cluster.local (10.64.0.100:443)");
    insta::assert_snapshot!(gateway_of("gateway"), @"443 Passthrough airline.mongodb.example -> outbound|27017||airline.mongodb.example (dns airline.mongodb.example:27017)");
}

#[test]
fn gateway_mtls_ends_the_outer_tls() {
    insta::assert_snapshot!(sni(&sidecar("gateway-mtls")), @"27017 airline.mongodb.example -> outbound|443|mongo|istio-egressgateway.istio-system.svc.cluster.local (10.64.0.100:443, mutual TLS as airline.mongodb.example with spiffe://cluster.local/ns/istio-system/sa/istio-egressgateway-service-account)");
    insta::assert_snapshot!(gateway_of("gateway-mtls"), @"443 IstioMutual airline.mongodb.example with airline.mongodb.example inside, under any of [airline.mongodb.example] -> outbound|27017||airline.mongodb.example (dns airline.mongodb.example:27017)");
}

#[test]
fn gateway_sni_leads_to_the_proxy_in_the_pod() {
    insta::assert_snapshot!(sni(&sidecar("gateway-sni")), @"27017 *.mongodb.example -> outbound|443|mongo|istio-egressgateway.istio-system.svc.cluster.local (10.64.0.100:443, mutual TLS as egress.mongodb.example with spiffe://cluster.local/ns/istio-system/sa/istio-egressgateway-service-account)");
    insta::assert_snapshot!(gateway_of("gateway-sni"), @"443 IstioMutual *.mongodb.example -> outbound|8443||sni-proxy.local (127.0.0.1:8443)");
}

#[test]
fn gateway_wildcard_resolves_the_inner_server_name() {
    insta::assert_snapshot!(sni(&sidecar("gateway-wildcard")), @"27017 *.mongodb.example -> outbound|443|mongo|istio-egressgateway.istio-system.svc.cluster.local (10.64.0.100:443, mutual TLS as egress.mongodb.example with spiffe://cluster.local/ns/istio-system/sa/istio-egressgateway-service-account)");
    insta::assert_snapshot!(gateway_of("gateway-wildcard"), @"443 IstioMutual *.mongodb.example with *.mongodb.example inside, under any of [egress.mongodb.example] -> outbound|27017||*.mongodb.example (dns of the server name, port 27017)");
}
