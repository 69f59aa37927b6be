//! Both ends of a connection inside the mesh agree on TLS: what clients put around it by a DestinationRule, and what
//! the gateway's server or the service's PeerAuthentication asks for.

use super::{resource_name, virtual_services::Context};
use crate::{
    diagnostics::Diagnostics,
    host::HostPattern,
    istio::{
        Binding, CheckedResources, ClientTls, Destination, MeshFacts, PeerMode, Server, ServerTls, VirtualService,
        written::{self, TlsMatch, Written},
    },
};

/// A sidecar's route to the gateway: the server there takes what the sidecar sends.
pub(super) fn towards_gateway(
    destination: &Destination,
    matched: &TlsMatch,
    written: &written::Destination,
    context: &Context<'_>,
    problems: &mut Diagnostics,
) {
    let facts = context.facts;
    let Some(gateway) = facts.gateway.as_ref().filter(|gateway| gateway.host == destination.host) else { return };
    let servers: Vec<_> = context.checked.gateways.iter().flat_map(|gateway| &gateway.servers).collect();
    let servers: Vec<&Server> = servers.into_iter().filter(|server| server.port == destination.port).collect();
    let accepts = |mode: ServerTls, name: &HostPattern| {
        servers.iter().any(|server| server.tls == mode && server.hosts.iter().any(|host| host.covers(name)))
    };
    let place = written.subset.as_ref().map_or(&written.host.place, |subset| &subset.place);
    let port = destination.port;
    match context.checked.client_tls(destination, &facts.namespace, &gateway.namespace) {
        Some(ClientTls::IstioMutual { sni }) => {
            let outer = sni.clone().unwrap_or_else(|| destination.default_sni());
            if !servers.iter().any(|server| server.tls == ServerTls::IstioMutual) {
                let message = format!(
                    "the DestinationRule says ISTIO_MUTUAL, but the Gateway's server on port {port} has mode PASSTHROUGH: \
                     say ISTIO_MUTUAL there too, or DISABLE here"
                );
                problems.error(place, message);
            } else if !servers
                .iter()
                .any(|s| s.tls == ServerTls::IstioMutual && s.hosts.iter().any(|h| h.matches(&outer)))
            {
                let message = format!(
                    "sidecars would send `{outer}` as server name, which no server of mode ISTIO_MUTUAL on port {port} \
                     accepts: set `sni` in the DestinationRule to one of its hosts"
                );
                problems.error(place, message);
            }
        }
        Some(ClientTls::Disable | ClientTls::Originate(_)) | None => {
            for name in matched.sni_hosts.iter().filter(|name| !accepts(ServerTls::Passthrough, name)) {
                let message = if accepts(ServerTls::IstioMutual, name) {
                    format!(
                        "the Gateway's server on port {port} has mode ISTIO_MUTUAL for `{}`, but no DestinationRule says \
                         ISTIO_MUTUAL towards it: add it, or say PASSTHROUGH there",
                        name.value
                    )
                } else {
                    format!("no server of a Gateway on port {port} accepts `{}`: add it to its hosts", name.value)
                };
                problems.error(place, message);
            }
        }
    }
}

/// Servers of the gateway that no route leaves, or that no sidecar's route reaches.
pub(super) fn servers_in_use(
    written: &Written,
    checked: &CheckedResources,
    facts: &MeshFacts,
    problems: &mut Diagnostics,
) {
    let Some(workload) = &facts.gateway else { return };
    let routes = || checked.virtual_services.iter().flat_map(|service| &service.tls);
    for (written, gateway) in written.gateways.iter().zip(&checked.gateways) {
        for (server, here) in written.spec.servers.iter().zip(&gateway.servers) {
            let reached = routes().any(|route| {
                let destination = &route.destination;
                route.bindings.contains(&Binding::Mesh)
                    && destination.host == workload.host
                    && destination.port == here.port
            });
            if !reached {
                let message = format!(
                    "no route of `mesh` leads to port {} of the egress gateway: add a VirtualService",
                    here.port
                );
                problems.error(&server.port.number.place, message);
            }
            let binding = Binding::Gateway(gateway.name.clone());
            let left = match here.tls {
                ServerTls::Passthrough => routes().any(|route| {
                    let fits = route.sni_hosts.iter().any(|name| here.hosts.iter().any(|host| host.covers(name)));
                    route.bindings.contains(&binding) && route.port.is_none_or(|port| port == here.port) && fits
                }),
                ServerTls::IstioMutual => {
                    checked.virtual_services.iter().any(|service| terminated(service, &binding, here))
                }
            };
            if !left {
                let message = format!("no VirtualService routes what Gateway {} accepts here: add one", gateway.name);
                problems.error(&server.port.number.place, message);
            }
        }
    }
}

/// Whether a VirtualService routes what a server of mode ISTIO_MUTUAL ends.
fn terminated(service: &VirtualService, binding: &Binding, server: &Server) -> bool {
    let hosts = service.hosts.iter().any(|host| server.hosts.iter().any(|accepted| accepted.overlaps(host)));
    let route = service
        .tcp
        .iter()
        .find(|route| route.bindings.contains(binding) && route.port.is_none_or(|port| port == server.port));
    hosts && route.is_some()
}

/// Services of the application ask for what their callers send.
pub(super) fn services(written: &Written, checked: &CheckedResources, facts: &MeshFacts, problems: &mut Diagnostics) {
    for service in &facts.services {
        let destination = Destination { host: service.host.clone(), subset: None, port: service.port };
        let sent = checked.client_tls(&destination, &facts.namespace, &facts.namespace);
        let asked = checked.peer_mode(&service.name, &facts.namespace);
        let message = match (sent, asked) {
            (Some(ClientTls::Disable), PeerMode::Strict) => {
                format!(
                    "DISABLE towards {}, of which a PeerAuthentication asks STRICT: say the same in both",
                    service.name
                )
            }
            (Some(ClientTls::IstioMutual { .. }), PeerMode::Disable) => {
                format!(
                    "ISTIO_MUTUAL towards {}, of which a PeerAuthentication asks DISABLE: say the same in both",
                    service.name
                )
            }
            _ => continue,
        };
        let Some(rule) = checked.destination_rule(&destination.host, &facts.namespace, &facts.namespace) else {
            continue;
        };
        let written = written.destination_rules.iter().find(|written| resource_name(written) == rule.name);
        if let Some(written) = written {
            problems.error(&written.spec.host.place, message);
        }
    }
}
