//! Where routes lead: to a host that is there, known to whoever follows the route, and sensible at that point.

use super::{full_host, virtual_services::Context};
use crate::{
    diagnostics::Diagnostics,
    host::HostPattern,
    istio::{
        Binding, ClientTls, Destination, Protocol, Resolution, ServiceEntry,
        written::{self, Resource, RouteDestination, VirtualService},
    },
    yaml::{Located, Port},
};

/// Checks a destination for connections of that binding.
pub(super) fn check(
    written: &written::Destination,
    binding: &Binding,
    service: &Resource<VirtualService>,
    context: &Context<'_>,
    problems: &mut Diagnostics,
) -> Option<Destination> {
    let host = full_host(&written.host, service.namespace()).to_string();
    let port = written.port.as_ref().map(|port| &port.number);
    let (port, service_namespace) = if context.facts.is_gateway(&host) {
        (gateway_port(written, port, binding, context, problems)?, context.facts.gateway.as_ref()?.namespace.clone())
    } else if context.facts.service(&host).is_some() {
        let message = format!("`{host}` is in the mesh, where requests are HTTP: a route leads outside of it");
        problems.error(&written.host.place, message);
        return None;
    } else {
        let entry = entry(written, &host, binding, context, problems)?;
        (entry_port(entry, written, port, binding, problems)?, entry.name.namespace.clone())
    };
    let subset = written.subset.as_ref().map(|subset| subset.value.clone());
    let destination = Destination { host, subset, port };
    subset_exists(&destination, written, binding, &service_namespace, context, problems)?;
    Some(destination)
}

/// Namespace of the proxies that follow a route.
fn client_namespace<'a>(binding: &Binding, context: &'a Context<'_>) -> &'a str {
    match (binding, &context.facts.gateway) {
        (Binding::Gateway(_), Some(gateway)) => &gateway.namespace,
        (Binding::Mesh, _) | (Binding::Gateway(_), None) => &context.facts.namespace,
    }
}

fn gateway_port(
    written: &written::Destination,
    port: Option<&Located<Port>>,
    binding: &Binding,
    context: &Context<'_>,
    problems: &mut Diagnostics,
) -> Option<u16> {
    if *binding != Binding::Mesh {
        problems
            .error(&written.host.place, "leads from the egress gateway to itself: name the host outside of the mesh");
        return None;
    }
    let Some(port) = port else {
        problems.error(&written.host.place, "the egress gateway has several ports: add `port.number`");
        return None;
    };
    let mut servers = context.checked.gateways.iter().flat_map(|gateway| &gateway.servers);
    if context.sound && !servers.any(|server| server.port == port.0) {
        problems.error(&port.place, format!("no Gateway has a server on port {}: add one", port.0));
        return None;
    }
    Some(port.0)
}

fn entry<'a>(
    written: &written::Destination,
    host: &str,
    binding: &Binding,
    context: &'a Context<'_>,
    problems: &mut Diagnostics,
) -> Option<&'a ServiceEntry> {
    let namespace = client_namespace(binding, context);
    if let Some(entry) = context.checked.service_entry(host, namespace) {
        if matches!(binding, Binding::Gateway(_)) && entry.resolution == Resolution::OriginalDestination {
            let message = format!(
                "ServiceEntry {} has resolution NONE: at the gateway, the connection's own destination is the gateway; \
                 use DNS, DYNAMIC_DNS or STATIC, or lead to an SNI proxy",
                entry.name
            );
            problems.error(&written.host.place, message);
            return None;
        }
        return Some(entry);
    }
    let mut listed = context.written.service_entries.iter().flat_map(|entry| entry.spec.hosts.iter());
    let message = if let Some(entry) =
        context.checked.service_entries.iter().find(|entry| entry.hosts.iter().any(|h| h.as_str() == host))
    {
        format!("ServiceEntry {} has it, but `exportTo` keeps it from namespace `{namespace}`", entry.name)
    } else if listed.any(|known| known.as_str() == host) {
        return None;
    } else {
        let known = context.facts.hosts().join(", ");
        format!("`{host}` is no host of a ServiceEntry, and none of the mesh ({known}): add a ServiceEntry")
    };
    problems.error(&written.host.place, message);
    None
}

/// What a tls route leads on is TLS already, so that no DestinationRule puts more of it around.
pub(super) fn as_tls(
    destination: &Destination,
    written: &RouteDestination,
    binding: &Binding,
    context: &Context<'_>,
    problems: &mut Diagnostics,
) {
    let client = client_namespace(binding, context);
    let Some(entry) = context.checked.service_entry(&destination.host, client).filter(|_| context.sound) else {
        return;
    };
    let tls = context.checked.client_tls(destination, client, &entry.name.namespace);
    if let Some(ClientTls::Originate(_)) = tls {
        let message = format!(
            "a DestinationRule puts TLS around connections to port {} of `{}`, and what this route leads there is TLS \
             already: use mode DISABLE",
            destination.port, destination.host
        );
        problems.error(&written.destination.host.place, message);
    }
}

/// Server names that lead to a host of resolution DYNAMIC_DNS are what is resolved, so that the host has to be about them.
pub(super) fn resolvable(
    destination: &Destination,
    names: &[Located<HostPattern>],
    binding: &Binding,
    context: &Context<'_>,
    problems: &mut Diagnostics,
) {
    let entry = context.checked.service_entry(&destination.host, client_namespace(binding, context));
    let Some(entry) = entry.filter(|entry| entry.resolution == Resolution::DynamicDns) else { return };
    let Ok(host) = destination.host.parse::<HostPattern>() else { return };
    for name in names.iter().filter(|name| !host.covers(name)) {
        let message = format!(
            "`{}` is not within `{host}`, whose ServiceEntry {} resolves the server name itself (DYNAMIC_DNS): lead to a \
             host that it belongs to",
            name.value, entry.name
        );
        problems.error(&name.place, message);
    }
}

fn entry_port(
    entry: &ServiceEntry,
    written: &written::Destination,
    port: Option<&Located<Port>>,
    binding: &Binding,
    problems: &mut Diagnostics,
) -> Option<u16> {
    let (number, place) = match (port, entry.ports.as_slice()) {
        (Some(port), _) => (port.0, &port.place),
        (None, [only]) => (only.number, &written.host.place),
        (None, _) => {
            let message = format!("ServiceEntry {} has several ports: add `port.number`", entry.name);
            problems.error(&written.host.place, message);
            return None;
        }
    };
    let Some(known) = entry.ports.iter().find(|known| known.number == number) else {
        let ports: Vec<_> = entry.ports.iter().map(|port| port.number.to_string()).collect();
        problems.error(place, format!("ServiceEntry {} has no port {number}, only {}", entry.name, ports.join(", ")));
        return None;
    };
    if *binding == Binding::Mesh && known.protocol != Protocol::Tls {
        let message =
            format!("port {number} of ServiceEntry {} is not TLS; a tls route leads to protocol TLS", entry.name);
        problems.error(place, message);
        return None;
    }
    Some(number)
}

fn subset_exists(
    destination: &Destination,
    written: &written::Destination,
    binding: &Binding,
    service_namespace: &str,
    context: &Context<'_>,
    problems: &mut Diagnostics,
) -> Option<()> {
    let Some(subset) = written.subset.as_ref().filter(|_| context.sound) else { return Some(()) };
    let namespace = client_namespace(binding, context);
    let rule = context.checked.destination_rule(&destination.host, namespace, service_namespace);
    let message = match rule {
        Some(rule) if rule.subsets.contains_key(&subset.value) => return Some(()),
        Some(rule) => {
            let known: Vec<_> = rule.subsets.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "no subset" } else { &known.join(", ") };
            format!("DestinationRule {} has no subset `{}`; it has {known}", rule.name, subset.value)
        }
        None => format!("no DestinationRule is about `{}`, so there is no subset `{}`", destination.host, subset.value),
    };
    problems.error(&subset.place, message);
    None
}
