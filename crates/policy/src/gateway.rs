//! Routes of the egress gateway.

use crate::{
    CompileError,
    authorization::Authorization,
    order::most_specific_first,
    routes::{GatewayRoute, GatewayRoutes, GatewayServer, GatewayTls, InnerTls, Upstream},
    sidecar::resource,
    upstream::Upstreams,
};
use meshtoll_model::{
    host::HostPattern,
    istio::{Binding, CheckedResources, ClientTls, Destination, Protocol, Server, ServerTls},
    topology::{GatewayWorkload, Topology},
};
use std::collections::{BTreeMap, BTreeSet};

/// What the egress gateway does.
pub fn compile_gateway(resources: &CheckedResources, topology: &Topology) -> Result<GatewayRoutes, CompileError> {
    let workload = topology.gateway.as_ref();
    let workload = workload.ok_or_else(|| CompileError::NoGateway { case: topology.case.clone() })?;
    let upstreams = Upstreams { resources, topology, client_namespace: &workload.identity.namespace };
    let mut by_port: BTreeMap<u16, Routes> = BTreeMap::new();
    for gateway in &resources.gateways {
        let binding = Binding::Gateway(gateway.name.clone());
        for server in &gateway.servers {
            let routes = by_port.entry(server.port).or_default();
            match server.tls {
                ServerTls::Passthrough => routes.extend(passed_through(server, &binding, &upstreams)?),
                ServerTls::IstioMutual => routes.extend(terminated(server, &binding, workload, &upstreams)?),
            }
        }
    }
    let authorization = Authorization::of(resources.policies_of_gateway(&workload.identity.namespace));
    let servers = by_port.into_iter().map(|(port, routes)| {
        let ordered = most_specific_first(routes).into_iter();
        let routes = ordered.map(|(names, Target { tls, inner, upstream })| GatewayRoute {
            names,
            tls,
            inner,
            authorization: authorization.clone(),
            upstream,
        });
        GatewayServer { port, routes: routes.collect() }
    });
    Ok(GatewayRoutes { identity: workload.identity.clone(), servers: servers.collect() })
}

/// Where connections go, by server name.
type Routes = Vec<(HostPattern, Target)>;

#[derive(Clone, PartialEq)]
struct Target {
    tls: GatewayTls,
    inner: InnerTls,
    upstream: Upstream,
}

/// The `tls` routes of VirtualServices: one for each server name that the server accepts.
fn passed_through(server: &Server, binding: &Binding, upstreams: &Upstreams<'_>) -> Result<Routes, CompileError> {
    let mut routes = Routes::new();
    for service in &upstreams.resources.virtual_services {
        let bound = service.tls.iter().filter(|route| route.bindings.contains(binding));
        for route in bound.filter(|route| route.port.is_none_or(|port| port == server.port)) {
            let upstream = upstreams.of(&route.destination, &resource(service))?;
            let target = Target { tls: GatewayTls::Passthrough, inner: InnerTls::Any, upstream };
            let accepted = route.sni_hosts.iter().filter(|name| server.hosts.iter().any(|host| host.covers(name)));
            routes.extend(accepted.map(|name| (name.clone(), target.clone())));
        }
    }
    Ok(routes)
}

/// The first `tcp` route for hosts of the server: whatever the outer server name, of those that it accepts.
fn terminated(
    server: &Server,
    binding: &Binding,
    workload: &GatewayWorkload,
    upstreams: &Upstreams<'_>,
) -> Result<Routes, CompileError> {
    let accepts = |own: &HostPattern| server.hosts.iter().any(|host| host.overlaps(own));
    let services = upstreams.resources.virtual_services.iter().filter(|service| service.hosts.iter().any(accepts));
    for service in services {
        let mut bound = service.tcp.iter().filter(|route| route.bindings.contains(binding));
        if let Some(route) = bound.find(|route| route.port.is_none_or(|port| port == server.port)) {
            let target = Target {
                tls: GatewayTls::IstioMutual,
                inner: inner_tls(&route.destination, workload, upstreams),
                upstream: upstreams.of(&route.destination, &resource(service))?,
            };
            return Ok(server.hosts.iter().map(|name| (name.clone(), target.clone())).collect());
        }
    }
    Ok(Routes::new())
}

fn inner_tls(destination: &Destination, workload: &GatewayWorkload, upstreams: &Upstreams<'_>) -> InnerTls {
    let entry = upstreams.resources.service_entry(&destination.host, upstreams.client_namespace);
    let mut ports = entry.into_iter().flat_map(|entry| &entry.ports);
    if !ports.any(|port| port.number == destination.port && port.protocol == Protocol::Tls) {
        return InnerTls::Any;
    }
    InnerTls::ServerName {
        names: vec![destination.host.clone()],
        fixed_outer: fixed_outer(workload, upstreams).into_iter().collect(),
    }
}

/// Outer server names that resources make sidecars send, whatever is inside: those of DestinationRules, and where one says
/// ISTIO_MUTUAL without a name, the default of the routes that lead here.
fn fixed_outer(workload: &GatewayWorkload, upstreams: &Upstreams<'_>) -> BTreeSet<String> {
    let resources = upstreams.resources;
    let rules = resources.destination_rules.iter().filter(|rule| rule.host.matches(&workload.host));
    let policies = rules.flat_map(|rule| std::iter::once(&rule.policy).chain(rule.subsets.values()));
    let settings = policies.flat_map(|policy| policy.tls.iter().chain(policy.ports.values().flatten()));
    let mut names: BTreeSet<String> = settings
        .filter_map(|tls| match tls {
            ClientTls::IstioMutual { sni } => sni.clone(),
            ClientTls::Disable | ClientTls::Originate(_) => None,
        })
        .collect();
    let routes = resources.virtual_services.iter().flat_map(|service| &service.tls);
    let here =
        routes.filter(|route| route.bindings.contains(&Binding::Mesh) && route.destination.host == workload.host);
    for destination in here.map(|route| &route.destination) {
        let unnamed = upstreams.topology.services.iter().any(|service| {
            let tls = resources.client_tls(destination, &service.identity.namespace, &workload.identity.namespace);
            matches!(tls, Some(ClientTls::IstioMutual { sni: None }))
        });
        names.extend(unnamed.then(|| destination.default_sni()));
    }
    names
}
