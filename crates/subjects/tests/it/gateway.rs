//! The egress gateway with traffic: who may pass, where to, and what is counted.

use crate::{
    fixtures::{self, DATABASE, DATABASE_UPSTREAM, HOUR},
    network,
    process::{self, Running, User, counters_when},
    tls::exchange,
};
use meshtoll_identity::MeshCa;
use meshtoll_model::{ids::SpiffeId, process::Program, topology::ProxyMarking};
use meshtoll_policy::routes::{GatewayRoutes, GatewayServer, GatewayTls};
use meshtoll_subjects::{
    Envoy, Subject,
    counters::{TlsCounters, UpstreamCounters},
};

const GATEWAY_PORT: u16 = 8443;
const DATABASE_PORT: u16 = 27017;

fn routes(tls: GatewayTls) -> GatewayRoutes {
    let upstream = fixtures::database_by_dns(DATABASE_PORT);
    let routes = vec![fixtures::route(vec![DATABASE.to_owned()], tls, upstream)];
    GatewayRoutes { identity: fixtures::egress_gateway(), servers: vec![GatewayServer { port: GATEWAY_PORT, routes }] }
}

#[test]
fn the_gateway_admits_workloads_of_its_trust_domain_alone() {
    let Some(envoy) = process::find(&Program::Envoy) else { return };
    if !network::enter_namespace() {
        return;
    }
    network::dns();
    network::echo(DATABASE_PORT);
    let ca = MeshCa::new("cluster.local").unwrap();
    let other_mesh = MeshCa::new("other.example").unwrap();
    let mut mesh = fixtures::Mesh::new(&ca, &fixtures::egress_gateway());
    mesh.trust_bundle.push_str(&other_mesh.trust_bundle_pem());
    mesh.settings.access_log = true;
    let spec =
        Envoy.gateway(&routes(GatewayTls::IstioMutual), &mesh.context("egress-gateway", ProxyMarking::Uid)).unwrap();
    let gateway = Running::start(&spec, &envoy, User::Proxy);
    let bundle = ca.trust_bundle_pem();

    let booking = ca.issue(&fixtures::booking(), HOUR).unwrap();
    assert_eq!(exchange(GATEWAY_PORT, DATABASE, &bundle, Some(&booking), b"find").unwrap(), b"find");

    let nobody = exchange(GATEWAY_PORT, DATABASE, &bundle, None, b"find").unwrap_err();
    assert!(nobody.to_string().contains("CertificateRequired"), "{nobody}");
    let impostor = MeshCa::new("cluster.local").unwrap().issue(&fixtures::booking(), HOUR).unwrap();
    exchange(GATEWAY_PORT, DATABASE, &bundle, Some(&impostor), b"find").unwrap_err();
    let foreign = SpiffeId { trust_domain: "other.example".into(), ..fixtures::booking() };
    let stranger = other_mesh.issue(&foreign, HOUR).unwrap();
    exchange(GATEWAY_PORT, DATABASE, &bundle, Some(&stranger), b"find").unwrap_err();
    exchange(GATEWAY_PORT, "unknown.example", &bundle, Some(&booking), b"find").unwrap_err();

    let counters = counters_when(&Envoy, |counters| counters.upstreams[DATABASE_UPSTREAM].active == 0);
    assert_eq!(counters.terminated, TlsCounters { handshakes: 1, without_client_certificate: 0, failed: 3 });
    // Envoy connects to the upstream before it knows who the peer is; of what a refused peer sends nothing is relayed.
    let relayed = UpstreamCounters { connections: 4, sent_bytes: 4, received_bytes: 4, ..UpstreamCounters::default() };
    assert_eq!(counters.upstreams[DATABASE_UPSTREAM], relayed);

    assert!(gateway.end().file("access.log").contains(DATABASE_UPSTREAM));
}

#[test]
fn the_gateway_passes_the_applications_own_tls_through() {
    let Some(envoy) = process::find(&Program::Envoy) else { return };
    if !network::enter_namespace() {
        return;
    }
    network::dns();
    network::echo(DATABASE_PORT);
    let ca = MeshCa::new("cluster.local").unwrap();
    let mesh = fixtures::Mesh::new(&ca, &fixtures::egress_gateway());
    let spec =
        Envoy.gateway(&routes(GatewayTls::Passthrough), &mesh.context("egress-gateway", ProxyMarking::Uid)).unwrap();
    let _gateway = Running::start(&spec, &envoy, User::Proxy);

    let hello = crate::tls::client_hello(DATABASE, &mesh.trust_bundle);
    assert_eq!(network::echoed(GATEWAY_PORT, &hello), Some(hello.clone()));
    let other = crate::tls::client_hello("unknown.example", &mesh.trust_bundle);
    assert_eq!(network::echoed(GATEWAY_PORT, &other), None);

    let counters = counters_when(&Envoy, |counters| counters.upstreams[DATABASE_UPSTREAM].active == 0);
    assert_eq!(counters.terminated, TlsCounters::default());
    assert_eq!(counters.upstreams[DATABASE_UPSTREAM].connections, 1);
    assert_eq!(counters.upstreams[DATABASE_UPSTREAM].sent_bytes, hello.len() as u64);
}
