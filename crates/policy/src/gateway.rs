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
    istio::{Binding, CheckedResources, Server, ServerTls},
    topology::Topology,
};
use std::collections::BTreeMap;

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
                ServerTls::IstioMutual => routes.extend(terminated(server, &binding, &upstreams)?),
            }
        }
    }
    let servers = by_port.into_iter().map(|(port, routes)| {
        let ordered = most_specific_first(routes).into_iter();
        let routes = ordered
            .map(|(names, (tls, upstream))| GatewayRoute {
                names,
                tls,
                inner: InnerTls::Any,
                authorization: Authorization::default(),
                upstream,
            })
            .collect();
        GatewayServer { port, routes }
    });
    Ok(GatewayRoutes { identity: workload.identity.clone(), servers: servers.collect() })
}

/// Where connections go, by server name.
type Routes = Vec<(HostPattern, (GatewayTls, Upstream))>;

/// The `tls` routes of VirtualServices: one for each server name that the server accepts.
fn passed_through(server: &Server, binding: &Binding, upstreams: &Upstreams<'_>) -> Result<Routes, CompileError> {
    let mut routes = Routes::new();
    for service in &upstreams.resources.virtual_services {
        let bound = service.tls.iter().filter(|route| route.bindings.contains(binding));
        for route in bound.filter(|route| route.port.is_none_or(|port| port == server.port)) {
            let upstream = upstreams.of(&route.destination, &resource(service))?;
            let accepted = route.sni_hosts.iter().filter(|name| server.hosts.iter().any(|host| host.covers(name)));
            routes.extend(accepted.map(|name| (name.clone(), (GatewayTls::Passthrough, upstream.clone()))));
        }
    }
    Ok(routes)
}

/// The first `tcp` route for hosts of the server: whatever the outer server name, of those that it accepts.
fn terminated(server: &Server, binding: &Binding, upstreams: &Upstreams<'_>) -> Result<Routes, CompileError> {
    let accepts = |own: &HostPattern| server.hosts.iter().any(|host| host.overlaps(own));
    let services = upstreams.resources.virtual_services.iter().filter(|service| service.hosts.iter().any(accepts));
    for service in services {
        let mut bound = service.tcp.iter().filter(|route| route.bindings.contains(binding));
        if let Some(route) = bound.find(|route| route.port.is_none_or(|port| port == server.port)) {
            let upstream = upstreams.of(&route.destination, &resource(service))?;
            let names = server.hosts.iter();
            return Ok(names.map(|name| (name.clone(), (GatewayTls::IstioMutual, upstream.clone()))).collect());
        }
    }
    Ok(Routes::new())
}
