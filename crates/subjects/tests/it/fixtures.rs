//! Routes and contexts as the egress experiment has them.

use meshtoll_identity::{MeshCa, WorkloadCertificate};
use meshtoll_model::{
    diagnostics::SourceFile,
    ids::SpiffeId,
    topology::{HttpHandling, ProxyMarking, ProxySettings, Topology},
};
use meshtoll_policy::authorization::Authorization;
use meshtoll_policy::routes::{
    Endpoints, GatewayRoute, GatewayRoutes, GatewayServer, GatewayTls, HttpRoute, InboundPort, InnerTls, PeerMtls,
    SidecarRoutes, SniRoute, Unmatched, Upstream, UpstreamTls,
};
use meshtoll_subjects::{MeshSource, ProxyContext};
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

pub(crate) const DATABASE: &str = "airline.mongodb.example";
pub(crate) const DATABASE_UPSTREAM: &str = "outbound|27017||airline.mongodb.example";
pub(crate) const WILDCARD: &str = "*.mongodb.example";
pub(crate) const WILDCARD_UPSTREAM: &str = "outbound|27017||*.mongodb.example";
pub(crate) const GATEWAY: &str = "istio-egressgateway.istio-system.svc.cluster.local";
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn identity(namespace: &str, service_account: &str) -> SpiffeId {
    SpiffeId {
        trust_domain: "cluster.local".into(),
        namespace: namespace.into(),
        service_account: service_account.into(),
    }
}

pub(crate) fn booking() -> SpiffeId {
    identity("default", "booking")
}

pub(crate) fn egress_gateway() -> SpiffeId {
    identity("istio-system", "istio-egressgateway")
}

/// What a context borrows.
pub(crate) struct Mesh {
    pub(crate) trust_bundle: String,
    pub(crate) certificate: WorkloadCertificate,
    pub(crate) settings: ProxySettings,
    pub(crate) topology: Topology,
    pub(crate) resources: Vec<SourceFile>,
}

impl Mesh {
    pub(crate) fn new(ca: &MeshCa, identity: &SpiffeId) -> Self {
        let settings =
            ProxySettings { worker_threads: 1, access_log: false, http: HttpHandling::Full, registry_only: true };
        Self {
            trust_bundle: ca.trust_bundle_pem(),
            certificate: ca.issue(identity, HOUR).unwrap(),
            topology: Topology {
                case: "sidecar".into(),
                subject: "envoy".into(),
                services: Vec::new(),
                gateway: None,
                external: Vec::new(),
                dns: Ipv4Addr::LOCALHOST,
                proxy_marking: ProxyMarking::Uid,
                proxy: settings.clone(),
            },
            resources: ["one.yaml", "two.yaml"]
                .map(|name| SourceFile { path: name.into(), text: format!("kind: {name}\n") })
                .to_vec(),
            settings,
        }
    }

    pub(crate) fn context<'a>(&'a self, workload: &'a str, marking: ProxyMarking) -> ProxyContext<'a> {
        ProxyContext {
            workload,
            certificate: &self.certificate,
            trust_bundle: &self.trust_bundle,
            dns: Ipv4Addr::LOCALHOST,
            marking,
            settings: &self.settings,
            mesh: MeshSource { topology: &self.topology, resources: &self.resources },
        }
    }
}

pub(crate) fn service(name: &str, endpoint: SocketAddrV4, peer: SpiffeId) -> HttpRoute {
    let host = format!("{name}.default.svc.cluster.local");
    HttpRoute {
        port: 9080,
        virtual_ip: None,
        hosts: vec![host.clone(), format!("{name}.default"), name.to_owned()],
        upstream: Upstream {
            name: format!("outbound|9080||{host}"),
            endpoints: Endpoints::Addresses(vec![endpoint]),
            tls: UpstreamTls::IstioMutual { sni: format!("outbound_.9080_._.{host}"), peer },
        },
    }
}

pub(crate) fn database_by_dns(port: u16) -> Upstream {
    Upstream {
        name: DATABASE_UPSTREAM.to_owned(),
        endpoints: Endpoints::Dns { host: DATABASE.to_owned(), port },
        tls: UpstreamTls::None,
    }
}

/// The case `sidecar`.
pub(crate) fn sidecar() -> SidecarRoutes {
    let endpoint = |last| SocketAddrV4::new(Ipv4Addr::new(10, 10, 0, last), 9080);
    SidecarRoutes {
        identity: booking(),
        inbound: vec![InboundPort { port: 9080, mtls: PeerMtls::Strict, authorization: Authorization::default() }],
        tcp: Vec::new(),
        http: vec![
            service("flight", endpoint(3), identity("default", "flight")),
            service("customer", endpoint(4), identity("default", "customer")),
        ],
        sni: vec![SniRoute { port: 27017, names: vec![DATABASE.to_owned()], upstream: database_by_dns(27017) }],
        unmatched: Unmatched::RegistryOnly,
    }
}

/// The case `gateway-mtls`, at the sidecar.
pub(crate) fn sidecar_of_gateway() -> SidecarRoutes {
    let gateway = Upstream {
        name: format!("outbound|8443|mongodb|{GATEWAY}"),
        endpoints: Endpoints::Addresses(vec![SocketAddrV4::new(Ipv4Addr::new(10, 10, 0, 9), 8443)]),
        tls: UpstreamTls::IstioMutual { sni: DATABASE.to_owned(), peer: egress_gateway() },
    };
    let to_gateway = SniRoute { port: 27017, names: vec![DATABASE.to_owned()], upstream: gateway };
    let mut routes = sidecar();
    routes.sni.insert(0, to_gateway);
    routes
}

/// Hosts of a wildcard, by the name that connections send.
pub(crate) fn hosts_by_server_name(port: u16) -> Upstream {
    Upstream { name: WILDCARD_UPSTREAM.to_owned(), endpoints: Endpoints::ServerName { port }, tls: UpstreamTls::None }
}

/// The gateway of a case that resolves hosts of a wildcard itself.
pub(crate) fn gateway_of_wildcard(tls: GatewayTls, port: u16) -> GatewayRoutes {
    let names = vec![WILDCARD.to_owned()];
    let inner = InnerTls::ServerName { names: names.clone(), fixed_outer: Vec::new() };
    let route = GatewayRoute { inner, ..route(names, tls, hosts_by_server_name(port)) };
    GatewayRoutes { identity: egress_gateway(), servers: vec![GatewayServer { port: 8443, routes: vec![route] }] }
}

pub(crate) fn route(names: Vec<String>, tls: GatewayTls, upstream: Upstream) -> GatewayRoute {
    GatewayRoute { names, tls, inner: InnerTls::Any, authorization: Authorization::default(), upstream }
}

/// The gateway of the cases `gateway` and `gateway-mtls`, one on each port.
pub(crate) fn gateway() -> GatewayRoutes {
    let server =
        |port, tls| GatewayServer { port, routes: vec![route(vec![DATABASE.to_owned()], tls, database_by_dns(27017))] };
    GatewayRoutes {
        identity: egress_gateway(),
        servers: vec![server(443, GatewayTls::Passthrough), server(8443, GatewayTls::IstioMutual)],
    }
}

/// The gateway of the case `gateway-sni`.
pub(crate) fn gateway_with_sni_proxy(port: u16) -> GatewayRoutes {
    let upstream = Upstream {
        name: "outbound|18443||sni-proxy.local".to_owned(),
        endpoints: Endpoints::Addresses(vec![SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)]),
        tls: UpstreamTls::None,
    };
    let names = vec!["*.mongodb.example".to_owned()];
    GatewayRoutes {
        identity: egress_gateway(),
        servers: vec![GatewayServer { port: 8443, routes: vec![route(names, GatewayTls::IstioMutual, upstream)] }],
    }
}
