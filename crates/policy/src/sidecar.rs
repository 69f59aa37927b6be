//! Routes of a service's sidecar.

use crate::{
    CompileError,
    authorization::Authorization,
    external,
    order::most_specific_first,
    routes::{HttpRoute, InboundPort, PeerMtls, SidecarRoutes, SniRoute, Unmatched, Upstream},
    upstream::Upstreams,
};
use meshtoll_model::{
    host::HostPattern,
    ids::WorkloadName,
    istio::{
        Binding, CheckedResources, Destination, PeerMode, Protocol, ServiceEntry, ServicePort, TlsRoute, VirtualService,
    },
    topology::{Service, Topology},
};
use std::collections::BTreeMap;

/// What the sidecar of one of the application's services does.
pub fn compile_sidecar(
    resources: &CheckedResources,
    topology: &Topology,
    workload: &WorkloadName,
) -> Result<SidecarRoutes, CompileError> {
    let service = topology.services.iter().find(|service| service.name == *workload);
    let service = service.ok_or_else(|| {
        let names: Vec<_> = topology.services.iter().map(|service| service.name.as_str()).collect();
        CompileError::UnknownWorkload {
            case: topology.case.clone(),
            workload: workload.clone(),
            services: names.join(", "),
        }
    })?;
    let upstreams = Upstreams { resources, topology, client_namespace: &service.identity.namespace };
    Ok(SidecarRoutes {
        identity: service.identity.clone(),
        inbound: vec![InboundPort {
            port: service.port,
            mtls: peer_mtls(resources, service),
            authorization: Authorization::of(resources.policies_of_service(&service.name, &service.identity.namespace)),
        }],
        tcp: external::tcp_routes(&upstreams)?,
        http: topology
            .services
            .iter()
            .map(|callee| http_route(service, callee, &upstreams))
            .chain(external::http_routes(&upstreams)?)
            .collect(),
        sni: sni_routes(&upstreams)?,
        unmatched: if topology.proxy.registry_only { Unmatched::RegistryOnly } else { Unmatched::AllowAny },
    })
}

fn peer_mtls(resources: &CheckedResources, service: &Service) -> PeerMtls {
    match resources.peer_mode(&service.name, &service.identity.namespace) {
        PeerMode::Strict => PeerMtls::Strict,
        PeerMode::Permissive => PeerMtls::Permissive,
        PeerMode::Disable => PeerMtls::Disable,
    }
}

fn http_route(caller: &Service, callee: &Service, upstreams: &Upstreams<'_>) -> HttpRoute {
    let destination = Destination { host: callee.host.clone(), subset: None, port: callee.port };
    HttpRoute {
        port: callee.port,
        virtual_ip: Some(callee.virtual_ip),
        hosts: host_names(caller, callee),
        upstream: upstreams.service(callee, &destination),
    }
}

/// The names by which a service can be called: its full name, those that the resolver's search list completes, and its
/// address (Istio's `generateVirtualHostDomains`).
fn host_names(caller: &Service, callee: &Service) -> Vec<String> {
    let mut names = vec![callee.host.clone()];
    let parts: Vec<_> = callee.host.split('.').collect();
    if let [name, namespace, "svc", ..] = parts.as_slice() {
        if *caller.identity.namespace == **namespace {
            names.push((*name).to_owned());
        }
        names.push(format!("{name}.{namespace}"));
        names.push(format!("{name}.{namespace}.svc"));
    }
    names.push(callee.virtual_ip.to_string());
    names
}

/// Routes of TLS to hosts outside of the mesh, by port.
fn sni_routes(upstreams: &Upstreams<'_>) -> Result<Vec<SniRoute>, CompileError> {
    let mut by_port: BTreeMap<u16, Vec<(HostPattern, Upstream)>> = BTreeMap::new();
    for (entry, port) in external::ports(upstreams, Protocol::Tls) {
        let routes = by_port.entry(port.number).or_default();
        for host in &entry.hosts {
            for (name, upstream) in routes_of_host(entry, port, host, upstreams)? {
                if !routes.iter().any(|(known, _)| *known == name) {
                    routes.push((name, upstream));
                }
            }
        }
    }
    let routes = by_port.into_iter().flat_map(|(port, routes)| {
        let ordered = most_specific_first(routes).into_iter();
        ordered.map(move |(names, upstream)| SniRoute { port, names, upstream })
    });
    Ok(routes.collect())
}

/// Where a host's connections go: as the VirtualServices of the host say, if one says anything of the port; else to the
/// host itself.
fn routes_of_host(
    entry: &ServiceEntry,
    port: &ServicePort,
    host: &HostPattern,
    upstreams: &Upstreams<'_>,
) -> Result<Vec<(HostPattern, Upstream)>, CompileError> {
    let mut routes = Vec::new();
    let services = upstreams.resources.virtual_services.iter();
    for service in services.filter(|service| service.hosts.iter().any(|own| own.overlaps(host))) {
        for route in service.tls.iter().filter(|route| holds_in_mesh(route, port.number)) {
            let upstream = upstreams.of(&route.destination, &resource(service))?;
            routes.extend(route.sni_hosts.iter().map(|name| (name.clone(), upstream.clone())));
        }
    }
    if routes.is_empty() {
        routes.push((host.clone(), external::upstream(entry, port, host, upstreams)?));
    }
    Ok(routes)
}

fn holds_in_mesh(route: &TlsRoute, port: u16) -> bool {
    route.bindings.contains(&Binding::Mesh) && route.port.is_none_or(|own| own == port)
}

pub(crate) fn resource(service: &VirtualService) -> String {
    format!("VirtualService {}", service.name)
}
