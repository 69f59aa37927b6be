use super::*;
use meshtoll_model::{
    ids::SpiffeId,
    topology::{ExternalHost, GatewayWorkload, HttpHandling, ProxyMarking, ProxySettings, Service},
};
use std::net::Ipv4Addr;

const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 44, 1, 10);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 44, 1, 3);
const DATABASE: &str = "outbound|27017||airline.mongodb.example";
const TO_GATEWAY: &str = "outbound|443|mongo|istio-egressgateway.istio-system.svc.cluster.local";
const TO_SNI_PROXY: &str = "outbound|8443||sni-proxy.local";

fn identity() -> SpiffeId {
    SpiffeId { trust_domain: "cluster.local".into(), namespace: "airline".into(), service_account: "booking".into() }
}

fn topology() -> Topology {
    Topology {
        case: "case".into(),
        subject: "envoy".into(),
        services: vec![Service {
            name: "booking".into(),
            host: "booking.airline.svc.cluster.local".into(),
            virtual_ip: Ipv4Addr::new(10, 96, 1, 10),
            pod_ip: SERVICE,
            port: 9080,
            identity: identity(),
        }],
        gateway: Some(GatewayWorkload {
            host: "istio-egressgateway.istio-system.svc.cluster.local".into(),
            virtual_ip: Ipv4Addr::new(10, 96, 1, 3),
            pod_ip: GATEWAY,
            labels: Vec::new(),
            identity: identity(),
            sni_proxy_port: Some(8443),
        }),
        external: vec![ExternalHost {
            host: "airline.mongodb.example".into(),
            address: Ipv4Addr::new(10, 88, 1, 10),
            port: 27017,
        }],
        dns: Ipv4Addr::LOCALHOST,
        proxy_marking: ProxyMarking::Uid,
        proxy: ProxySettings { worker_threads: 1, access_log: false, http: HttpHandling::Full, registry_only: true },
    }
}

fn case(path: &[Role], mesh_mtls: bool) -> CaseHeader {
    CaseHeader { name: "case".into(), description: String::new(), path: path.to_vec(), mesh_mtls, published: None }
}

fn upstream(bytes: u64, handshakes: u64) -> UpstreamCounters {
    UpstreamCounters {
        connections: 2,
        active: 2,
        sent_bytes: bytes,
        received_bytes: bytes,
        tls_handshakes: handshakes,
        ..UpstreamCounters::default()
    }
}

/// A booking service that asked the database for 10 000 bytes, from `peer`.
struct Seen {
    sidecar: Vec<(&'static str, UpstreamCounters)>,
    gateway: Vec<(&'static str, UpstreamCounters)>,
    gateway_tls: (u64, u64),
    sni_proxy: Option<(u64, u64)>,
    peer: Ipv4Addr,
    tls: bool,
    name: &'static str,
}

impl Seen {
    fn direct() -> Self {
        Self {
            sidecar: Vec::new(),
            gateway: Vec::new(),
            gateway_tls: (0, 0),
            sni_proxy: None,
            peer: SERVICE,
            tls: true,
            name: "airline.mongodb.example",
        }
    }

    fn through_gateway(mutual: bool) -> Self {
        let handshakes = if mutual { 2 } else { 0 };
        Self {
            sidecar: vec![(TO_GATEWAY, upstream(11_000, handshakes))],
            gateway: vec![(DATABASE, upstream(11_000, 0))],
            gateway_tls: (handshakes, 0),
            peer: GATEWAY,
            ..Self::direct()
        }
    }

    fn evidence(&self) -> Evidence {
        let mut sidecar = Counters::default();
        sidecar.upstreams.insert("inbound|9080||".into(), upstream(50_000, 0));
        sidecar.upstreams.insert("outbound|9080||booking.airline.svc.cluster.local".into(), upstream(500, 2));
        sidecar.upstreams.extend(self.sidecar.iter().map(|(name, counters)| ((*name).to_owned(), *counters)));
        let mut gateway = Counters::default();
        gateway.upstreams.extend(self.gateway.iter().map(|(name, counters)| ((*name).to_owned(), *counters)));
        gateway.terminated.handshakes = self.gateway_tls.0;
        gateway.terminated.without_client_certificate = self.gateway_tls.1;
        Evidence {
            proxies: vec![
                ProxyEvidence { hop: "booking/sidecar".into(), role: Role::Sidecar, counters: sidecar },
                ProxyEvidence { hop: "egress-gateway/gateway".into(), role: Role::Gateway, counters: gateway },
            ],
            sni_proxy: self.sni_proxy.map(|(connections, active)| SniProxyCounters {
                connections,
                active,
                ..SniProxyCounters::default()
            }),
            database: vec![DatabaseSource {
                peer: self.peer.into(),
                server_name: self.tls.then(|| self.name.to_owned()),
                tls: self.tls.then(|| "TLSv1.3".to_owned()),
                operations: 100,
                received_bytes: 10_000,
            }],
        }
    }

    /// The claims that do not hold.
    fn broken(&self, path: &[Role], mutual: bool) -> Vec<String> {
        let lines = prove(&case(path, mutual), &topology(), &Evidence::default(), &self.evidence(), 40_000);
        lines.into_iter().filter(|line| !line.holds).map(|line| line.claim).collect()
    }
}

const NONE: &[String] = &[];

#[test]
fn each_case_as_promised_is_proven() {
    assert_eq!(Seen::direct().broken(&[], false), NONE);
    let sidecar = Seen { sidecar: vec![(DATABASE, upstream(11_000, 0))], ..Seen::direct() };
    assert_eq!(sidecar.broken(&[Role::Sidecar], false), NONE);
    assert_eq!(Seen::through_gateway(false).broken(&[Role::Sidecar, Role::Gateway], false), NONE);
    assert_eq!(Seen::through_gateway(true).broken(&[Role::Sidecar, Role::Gateway], true), NONE);
    let sni = Seen {
        gateway: vec![(TO_SNI_PROXY, upstream(11_000, 0))],
        sni_proxy: Some((2, 2)),
        ..Seen::through_gateway(true)
    };
    assert_eq!(sni.broken(&[Role::Sidecar, Role::Gateway, Role::SniProxy], true), NONE);
}

#[test]
fn bypass_that_meets_a_sidecar_is_caught() {
    let seen = Seen { sidecar: vec![("PassthroughCluster", upstream(11_000, 0))], ..Seen::direct() };
    assert_eq!(seen.broken(&[], false), ["database traffic passes no sidecar"]);
}

#[test]
fn sidecar_that_is_bypassed_or_passes_through_unrouted_is_caught() {
    let claim = ["database traffic passes the sidecars, to the database"];
    assert_eq!(Seen::direct().broken(&[Role::Sidecar], false), claim);
    let unrouted = Seen { sidecar: vec![("PassthroughCluster", upstream(11_000, 0))], ..Seen::direct() };
    assert_eq!(unrouted.broken(&[Role::Sidecar], false), claim);
    let half = Seen { sidecar: vec![(DATABASE, upstream(5_000, 0))], ..Seen::direct() };
    assert_eq!(half.broken(&[Role::Sidecar], false), claim);
}

#[test]
fn gateway_that_is_left_out_is_caught() {
    let seen = Seen { sidecar: vec![(DATABASE, upstream(11_000, 0))], ..Seen::direct() };
    let broken = seen.broken(&[Role::Sidecar, Role::Gateway], false);
    assert!(broken.contains(&"the database is asked from the gateway's pod alone".to_owned()), "{broken:?}");
    assert!(broken.contains(&"database traffic passes the gateway, to the database".to_owned()), "{broken:?}");
}

#[test]
fn mutual_tls_that_is_off_or_one_sided_or_unpromised_is_caught() {
    let path = [Role::Sidecar, Role::Gateway];
    let claim = ["sidecars and gateway speak mutual TLS"];
    assert_eq!(Seen::through_gateway(false).broken(&path, true), claim);
    let one_sided = Seen { gateway_tls: (2, 1), ..Seen::through_gateway(true) };
    assert_eq!(one_sided.broken(&path, true), claim);
    assert_eq!(Seen::through_gateway(true).broken(&path, false), ["sidecars and gateway add no TLS of their own"]);
}

#[test]
fn sni_proxy_that_is_left_out_is_caught() {
    let seen = Seen { sni_proxy: Some((0, 0)), ..Seen::through_gateway(true) };
    let broken = seen.broken(&[Role::Sidecar, Role::Gateway, Role::SniProxy], true);
    assert!(broken.contains(&"database traffic passes the gateway, to the SNI proxy".to_owned()), "{broken:?}");
    assert!(broken.contains(&"the gateway's connections end in the SNI proxy".to_owned()), "{broken:?}");
}

#[test]
fn a_database_asked_without_tls_or_under_another_name_is_caught() {
    let claim = ["the database is asked over TLS, as airline.mongodb.example"];
    assert_eq!(Seen { tls: false, ..Seen::direct() }.broken(&[], false), claim);
    assert_eq!(Seen { name: "elsewhere.example", ..Seen::direct() }.broken(&[], false), claim);
}

#[test]
fn a_slice_without_database_traffic_proves_nothing() {
    let evidence = Seen::direct().evidence();
    let lines = prove(&case(&[], false), &topology(), &evidence, &evidence, 40_000);
    assert!(lines.iter().all(|line| !line.holds), "{lines:?}");
}

#[test]
fn services_that_are_reached_past_their_sidecars_are_caught() {
    let lines = prove(&case(&[], false), &topology(), &Evidence::default(), &Seen::direct().evidence(), 60_000);
    let broken: Vec<_> = lines.iter().filter(|line| !line.holds).collect();
    assert!(matches!(broken.as_slice(), [line] if line.claim.starts_with("the services' own traffic")), "{broken:?}");
}

#[test]
fn an_upstream_of_a_wildcard_is_the_database_where_it_covers_its_name() {
    let path = [Role::Sidecar, Role::Gateway];
    let through = |name| Seen { gateway: vec![(name, upstream(11_000, 0))], ..Seen::through_gateway(true) };
    assert!(through("outbound|27017||*.mongodb.example").broken(&path, true).is_empty());
    assert!(!through("outbound|27017||*.example.org").broken(&path, true).is_empty());
}
