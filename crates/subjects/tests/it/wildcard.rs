//! Hosts of a wildcard, resolved by the gateway for each connection, with traffic.

use crate::{
    fixtures::{self, DATABASE, HOUR, WILDCARD_UPSTREAM},
    network,
    process::{self, Running, User, counters_when},
    tls::{client_hello, exchange},
};
use meshtoll_identity::MeshCa;
use meshtoll_model::{process::Program, topology::ProxyMarking};
use meshtoll_policy::routes::GatewayTls;
use meshtoll_subjects::{Envoy, Subject, counters::TlsCounters};

const GATEWAY_PORT: u16 = 8443;
const DATABASE_PORT: u16 = 27017;

fn start(ca: &MeshCa, tls: GatewayTls, marking: ProxyMarking) -> Option<Running> {
    let envoy = process::find(&Program::Envoy)?;
    if !network::enter_namespace() {
        return None;
    }
    network::dns();
    network::echo(DATABASE_PORT);
    let mut mesh = fixtures::Mesh::new(ca, &fixtures::egress_gateway());
    mesh.settings.access_log = true;
    let routes = fixtures::gateway_of_wildcard(tls, DATABASE_PORT);
    let spec = Envoy.gateway(&routes, &mesh.context("egress-gateway", marking)).unwrap();
    let user = if marking == ProxyMarking::Uid { User::Proxy } else { User::Root };
    Some(Running::start(&spec, &envoy, user))
}

#[test]
fn the_gateway_resolves_the_name_inside_the_meshs_tls() {
    for marking in [ProxyMarking::Uid, ProxyMarking::SocketMark] {
        let ca = MeshCa::new("cluster.local").unwrap();
        let Some(gateway) = start(&ca, GatewayTls::IstioMutual, marking) else { return };
        let booking = ca.issue(&fixtures::booking(), HOUR).unwrap();
        let bundle = ca.trust_bundle_pem();
        let through = |name| {
            let hello = client_hello(name, &bundle);
            let outer = "any.mongodb.example";
            exchange(GATEWAY_PORT, outer, &bundle, Some(&booking), &hello).is_ok_and(|echoed| echoed == hello)
        };
        assert!(through(DATABASE), "{marking:?}");
        assert!(through("a.b.mongodb.example"), "{marking:?}");
        assert!(!through("unknown.example"), "a name inside that is not of the wildcard");
        assert!(exchange(GATEWAY_PORT, DATABASE, &bundle, Some(&booking), b"no TLS inside").is_err());

        let counters = counters_when(&Envoy, |counters| {
            counters.upstreams[WILDCARD_UPSTREAM].connections == 2 && counters.upstreams[WILDCARD_UPSTREAM].active == 0
        });
        assert_eq!(Vec::from_iter(counters.upstreams.keys()), [WILDCARD_UPSTREAM]);
        let hello = |name| client_hello(name, &bundle).len() as u64;
        let sent = hello(DATABASE) + hello("a.b.mongodb.example");
        assert_eq!(counters.upstreams[WILDCARD_UPSTREAM].sent_bytes, sent);
        assert_eq!(counters.terminated, TlsCounters { handshakes: 4, without_client_certificate: 0, failed: 0 });
        assert!(gateway.end().file("access.log").contains(WILDCARD_UPSTREAM));
    }
}

#[test]
fn the_gateway_resolves_the_name_of_tls_that_it_passes_through() {
    let ca = MeshCa::new("cluster.local").unwrap();
    let Some(_gateway) = start(&ca, GatewayTls::Passthrough, ProxyMarking::Uid) else { return };
    let hello = client_hello(DATABASE, &ca.trust_bundle_pem());
    assert_eq!(network::echoed(GATEWAY_PORT, &hello), Some(hello.clone()));
    assert_eq!(network::echoed(GATEWAY_PORT, &client_hello("unknown.example", &ca.trust_bundle_pem())), None);
    let counters = counters_when(&Envoy, |counters| counters.upstreams[WILDCARD_UPSTREAM].active == 0);
    assert_eq!(counters.upstreams[WILDCARD_UPSTREAM].sent_bytes, hello.len() as u64);
}
