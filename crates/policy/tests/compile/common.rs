//! A placed airline, and routes as short text.

use meshtoll_model::{
    application::Application,
    diagnostics::SourceFile,
    experiment::{EgressGateway, Experiment},
    ids::SpiffeId,
    istio::{self, CheckedResources, MeshFacts},
    topology::{GatewayWorkload, HttpHandling, ProxyMarking, ProxySettings, SNI_PROXY_PORT, Service, Topology},
};
use meshtoll_policy::routes::{Endpoints, GatewayRoutes, InnerTls, SidecarRoutes, Upstream, UpstreamTls};

pub(crate) const NAMESPACE: &str = "airline";

pub(crate) fn egress_gateway() -> EgressGateway {
    EgressGateway {
        host: "istio-egressgateway.istio-system.svc.cluster.local".into(),
        labels: [("istio".to_owned(), "egressgateway".to_owned())].into(),
        service_account: "istio-egressgateway-service-account".into(),
        namespace: "istio-system".into(),
    }
}

/// Checks the resources of one YAML text, as of a case with a gateway and an SNI proxy.
pub(crate) fn resources(yaml: &str) -> CheckedResources {
    let file = SourceFile { path: "case.yaml".into(), text: yaml.into() };
    let facts = MeshFacts {
        services: MeshFacts::services_of(Application::Airline, NAMESPACE),
        namespace: NAMESPACE.into(),
        gateway: Some(egress_gateway()),
        sni_proxy: true,
    };
    let checked = istio::parse(&[file]).and_then(|resources| resources.check(&facts));
    checked.unwrap_or_else(|problems| panic!("{problems}"))
}

pub(crate) fn topology(case: &str, gateway: Option<&EgressGateway>) -> Topology {
    let service = |(index, service): (u8, &meshtoll_model::application::ApplicationService)| Service {
        name: service.name.into(),
        host: service.host(NAMESPACE),
        virtual_ip: [10, 96, 0, index].into(),
        pod_ip: [10, 64, 0, index].into(),
        port: service.port,
        identity: SpiffeId {
            trust_domain: "cluster.local".into(),
            namespace: NAMESPACE.into(),
            service_account: service.name.into(),
        },
    };
    Topology {
        case: case.into(),
        subject: "envoy".into(),
        services: (1..).zip(Application::Airline.services()).map(service).collect(),
        gateway: gateway.map(|gateway| GatewayWorkload {
            host: gateway.host.clone(),
            virtual_ip: [10, 96, 0, 100].into(),
            pod_ip: [10, 64, 0, 100].into(),
            labels: gateway.labels.clone().into_iter().collect(),
            identity: gateway.identity("cluster.local"),
            sni_proxy_port: Some(SNI_PROXY_PORT),
        }),
        external: Vec::new(),
        dns: [10, 64, 0, 53].into(),
        proxy_marking: ProxyMarking::Uid,
        proxy: ProxySettings { worker_threads: 1, access_log: false, http: HttpHandling::Full, registry_only: true },
    }
}

/// The topology of a case of an experiment, as the lab would place it.
pub(crate) fn placed(experiment: &Experiment, case: &str, resources: &CheckedResources) -> Topology {
    let gateway = experiment.egress_gateway.as_ref().filter(|_| !resources.gateways.is_empty());
    topology(case, gateway)
}

pub(crate) fn sni(routes: &SidecarRoutes) -> String {
    let lines = routes
        .sni
        .iter()
        .map(|route| format!("{} {} -> {}", route.port, route.names.join(" "), upstream(&route.upstream)));
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn tcp(routes: &SidecarRoutes) -> String {
    let lines = routes.tcp.iter().map(|route| {
        let addresses: Vec<_> = route.addresses.iter().map(ToString::to_string).collect();
        let addresses = if addresses.is_empty() { "any".to_owned() } else { addresses.join(" ") };
        format!("{} {addresses} -> {}", route.port, upstream(&route.upstream))
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn http(routes: &SidecarRoutes) -> String {
    let lines = routes
        .http
        .iter()
        .map(|route| format!("{} {} -> {}", route.port, route.hosts.join(" "), upstream(&route.upstream)));
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn gateway(routes: &GatewayRoutes) -> String {
    let mut text = String::new();
    for server in &routes.servers {
        for route in &server.routes {
            let names = route.names.join(" ");
            let inner = match &route.inner {
                InnerTls::Any => String::new(),
                InnerTls::ServerName { names, fixed_outer } => {
                    format!(" with {} inside, under any of [{}]", names.join(" "), fixed_outer.join(" "))
                }
            };
            text += &format!("{} {:?} {names}{inner} -> {}\n", server.port, route.tls, upstream(&route.upstream));
        }
    }
    text
}

fn upstream(upstream: &Upstream) -> String {
    let endpoints = match &upstream.endpoints {
        Endpoints::Addresses(addresses) => addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        Endpoints::Dns { host, port } => format!("dns {host}:{port}"),
        Endpoints::ServerName { port } => format!("dns of the server name, port {port}"),
        Endpoints::OriginalDestination => "original destination".into(),
    };
    let tls = match &upstream.tls {
        UpstreamTls::None => String::new(),
        UpstreamTls::Originate(tls) => format!(", TLS as {}", tls.sni),
        UpstreamTls::IstioMutual { sni, peer } => format!(", mutual TLS as {sni} with {peer}"),
    };
    format!("{} ({endpoints}{tls})", upstream.name)
}
