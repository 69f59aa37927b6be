//! Routes: what they match, and that what they name is there.

use super::{destinations, full_host, mutual_tls, not_empty, resource_name};
use crate::{
    diagnostics::Diagnostics,
    host::HostPattern,
    istio::{
        Binding, CheckedResources, Destination, Gateway, MeshFacts, Protocol, ResourceName, ServerTls, TcpRoute,
        TlsRoute, VirtualService,
        written::{self, Resource, RouteDestination, TcpMatch, TlsMatch, Written},
    },
    yaml::{Located, Port},
};
use std::collections::BTreeSet;

/// What routes are checked against.
pub(super) struct Context<'a> {
    pub(super) written: &'a Written,
    pub(super) checked: &'a CheckedResources,
    pub(super) facts: &'a MeshFacts,
    /// Whether everything that was checked before is right, so that what is missing is really missing.
    pub(super) sound: bool,
}

type WrittenService = Resource<written::VirtualService>;

pub(super) fn check(context: &Context<'_>, problems: &mut Diagnostics) -> Vec<VirtualService> {
    let mut names = ServerNames::default();
    let mut checked = Vec::new();
    for service in &context.written.virtual_services {
        let before = problems.0.len();
        let found = Service::new(service, context, problems).check(&mut names, problems);
        if problems.0.len() == before {
            checked.push(found);
        }
    }
    checked.sort_by(|a, b| a.name.cmp(&b.name));
    checked
}

/// Server names that routes match, by whose connections and which port.
#[derive(Default)]
struct ServerNames<'a>(Vec<(Binding, Option<u16>, &'a Located<HostPattern>)>);

impl<'a> ServerNames<'a> {
    /// Reports a name that is matched already; which of the two applied would depend on their order.
    fn add(
        &mut self,
        binding: &Binding,
        port: Option<u16>,
        name: &'a Located<HostPattern>,
        problems: &mut Diagnostics,
    ) {
        let same = |other: &(Binding, Option<u16>, &Located<HostPattern>)| {
            other.0 == *binding
                && other.2.value == name.value
                && (other.1 == port || other.1.is_none() || port.is_none())
        };
        if let Some((_, _, earlier)) = self.0.iter().find(|other| same(other)) {
            let message = format!("`{}` is routed already, at {}", name.value, earlier.place.line());
            problems.error(&name.place, message);
        }
        self.0.push((binding.clone(), port, name));
    }
}

/// One VirtualService under check.
struct Service<'a> {
    context: &'a Context<'a>,
    written: &'a WrittenService,
    hosts: Vec<HostPattern>,
    bindings: BTreeSet<Binding>,
}

impl<'a> Service<'a> {
    fn new(written: &'a WrittenService, context: &'a Context<'a>, problems: &mut Diagnostics) -> Self {
        not_empty(&written.spec.hosts, problems);
        let hosts = written.spec.hosts.iter().map(|host| full_host(host, written.namespace())).collect();
        let bindings = match &written.spec.gateways {
            None => [Binding::Mesh].into(),
            Some(gateways) => {
                not_empty(gateways, problems);
                gateways.iter().filter_map(|name| binding(name, written, context, problems)).collect()
            }
        };
        Self { context, written, hosts, bindings }
    }

    fn check(&self, names: &mut ServerNames<'a>, problems: &mut Diagnostics) -> VirtualService {
        let spec = &self.written.spec;
        let (mut tls, mut tcp) = (Vec::new(), Vec::new());
        for route in spec.tls.iter().flat_map(|routes| routes.iter()) {
            not_empty(&route.matches, problems);
            let Some(to) = only(&route.route, problems) else { continue };
            for matched in route.matches.iter() {
                tls.extend(self.tls_route(matched, to, names, problems));
            }
        }
        for route in spec.tcp.iter().flat_map(|routes| routes.iter()) {
            let Some(to) = only(&route.route, problems) else { continue };
            match route.matches.as_ref().filter(|matches| !matches.is_empty()) {
                None => tcp.extend(self.tcp_route(None, to, problems)),
                Some(matches) => {
                    tcp.extend(matches.iter().filter_map(|matched| self.tcp_route(Some(matched), to, problems)));
                }
            }
        }
        if spec.tls.as_ref().is_none_or(|routes| routes.is_empty())
            && spec.tcp.as_ref().is_none_or(|routes| routes.is_empty())
        {
            problems.error(self.written.place(), "has no route: give it `tls` or `tcp`");
        }
        VirtualService { name: resource_name(self.written), hosts: self.hosts.clone(), tls, tcp }
    }

    fn tls_route(
        &self,
        matched: &'a TlsMatch,
        to: &RouteDestination,
        names: &mut ServerNames<'a>,
        problems: &mut Diagnostics,
    ) -> Option<TlsRoute> {
        let bindings = self.bindings_of(matched.gateways.as_ref(), problems);
        let port = matched.port.as_ref().map(|port| port.0);
        let before = problems.0.len();
        not_empty(&matched.sni_hosts, problems);
        for name in matched.sni_hosts.iter() {
            if !self.hosts.iter().any(|host| host.covers(name)) {
                let hosts: Vec<_> = self.hosts.iter().map(HostPattern::as_str).collect();
                let message =
                    format!("`{}` is not within the VirtualService's hosts: {}", name.value, hosts.join(", "));
                problems.error(&name.place, message);
                continue;
            }
            for binding in &bindings {
                names.add(binding, port, name, problems);
                self.tls_match(binding, port, name, problems);
            }
        }
        let mut destination = None;
        for binding in &bindings {
            let found = destinations::check(&to.destination, binding, self.written, self.context, problems)?;
            destinations::as_tls(&found, to, binding, self.context, problems);
            destinations::resolvable(&found, &matched.sni_hosts, binding, self.context, problems);
            destination = Some(found);
        }
        let destination = destination?;
        if bindings.contains(&Binding::Mesh) && self.context.sound && problems.0.len() == before {
            mutual_tls::towards_gateway(&destination, matched, &to.destination, self.context, problems);
        }
        let sni_hosts = matched.sni_hosts.iter().map(|name| name.value.clone()).collect();
        Some(TlsRoute { bindings, port, sni_hosts, destination })
    }

    fn tcp_route(
        &self,
        matched: Option<&TcpMatch>,
        to: &RouteDestination,
        problems: &mut Diagnostics,
    ) -> Option<TcpRoute> {
        let bindings = self.bindings_of(matched.and_then(|matched| matched.gateways.as_ref()), problems);
        let written_port = matched.and_then(|matched| matched.port.as_ref());
        let port = written_port.map(|port| port.0);
        let mut destination: Option<Destination> = None;
        for binding in &bindings {
            match binding {
                Binding::Mesh => {
                    let place = &to.destination.host.place;
                    let message = "tcp routes of sidecars are not supported by Meshtoll: plain TCP goes where its ServiceEntry \
                                   says; use `tls`, or match a gateway";
                    problems.error(place, message);
                    return None;
                }
                Binding::Gateway(name) => self.terminated(name, written_port, to, problems),
            }
            destination = Some(destinations::check(&to.destination, binding, self.written, self.context, problems)?);
        }
        Some(TcpRoute { bindings, port, destination: destination? })
    }

    /// The bindings of one match: those that it names, else all of the VirtualService.
    fn bindings_of(
        &self,
        gateways: Option<&Located<Vec<Located<String>>>>,
        problems: &mut Diagnostics,
    ) -> BTreeSet<Binding> {
        let Some(gateways) = gateways.filter(|gateways| !gateways.is_empty()) else { return self.bindings.clone() };
        let mut bindings = BTreeSet::new();
        for name in gateways.iter() {
            let Some(binding) = binding(name, self.written, self.context, problems) else { continue };
            if !self.bindings.contains(&binding) {
                let message = format!("`{}` is not in the VirtualService's `gateways`: add it there too", name.value);
                problems.error(&name.place, message);
            }
            bindings.insert(binding);
        }
        bindings
    }

    /// Whether connections with this server name can arrive where the match is.
    fn tls_match(&self, binding: &Binding, port: Option<u16>, name: &Located<HostPattern>, problems: &mut Diagnostics) {
        if !self.context.sound {
            return;
        }
        let any_port = |number: u16| port.is_none_or(|port| port == number);
        let at_port = port.map_or_else(String::new, |port| format!(" on port {port}"));
        match binding {
            Binding::Mesh => {
                let namespace = &self.context.facts.namespace;
                let known = self.context.checked.service_entries.iter().any(|entry| {
                    entry.export.reaches(namespace)
                        && entry.hosts.iter().any(|host| host.covers(name))
                        && entry.ports.iter().any(|port| port.protocol == Protocol::Tls && any_port(port.number))
                });
                if !known {
                    let message = format!(
                        "no ServiceEntry has `{}` with protocol TLS{at_port}, so sidecars do not look for it: add one",
                        name.value
                    );
                    problems.error(&name.place, message);
                }
            }
            Binding::Gateway(gateway) => {
                let servers = self.context.gateway(gateway).into_iter().flat_map(|gateway| &gateway.servers);
                let mut fitting =
                    servers.filter(|s| any_port(s.port) && s.hosts.iter().any(|host| host.covers(name))).peekable();
                let message = if fitting.peek().is_none() {
                    format!("Gateway {gateway} does not accept `{}`{at_port}: add it to a server's hosts", name.value)
                } else if fitting.all(|server| server.tls == ServerTls::IstioMutual) {
                    format!(
                        "Gateway {gateway} ends the TLS of `{}` (ISTIO_MUTUAL): what is inside is routed by `tcp`",
                        name.value
                    )
                } else {
                    return;
                };
                problems.error(&name.place, message);
            }
        }
    }

    /// Whether the gateway ends TLS on the port of a tcp route, for hosts of the VirtualService.
    fn terminated(
        &self,
        name: &ResourceName,
        port: Option<&Located<Port>>,
        to: &RouteDestination,
        problems: &mut Diagnostics,
    ) {
        let Some(gateway) = self.context.gateway(name) else { return };
        let fits = gateway.servers.iter().any(|server| {
            port.is_none_or(|port| port.0 == server.port)
                && server.tls == ServerTls::IstioMutual
                && server.hosts.iter().any(|host| self.hosts.iter().any(|own| own.overlaps(host)))
        });
        if !fits {
            let place = port.map_or(&to.destination.host.place, |port| &port.place);
            let at_port = port.map_or_else(String::new, |port| format!(" on port {}", port.0));
            let message = format!(
                "Gateway {name} has no server of mode ISTIO_MUTUAL{at_port} for the VirtualService's hosts, and only what \
                 such a server ends is routed by `tcp`"
            );
            problems.error(place, message);
        }
    }
}

impl Context<'_> {
    fn gateway(&self, name: &ResourceName) -> Option<&Gateway> {
        self.checked.gateways.iter().find(|gateway| gateway.name == *name)
    }
}

/// `mesh`, or a Gateway by `NAME` or `NAMESPACE/NAME`.
fn binding(
    name: &Located<String>,
    service: &WrittenService,
    context: &Context<'_>,
    problems: &mut Diagnostics,
) -> Option<Binding> {
    if name.as_str() == "mesh" {
        return Some(Binding::Mesh);
    }
    let (namespace, short) = name.split_once('/').unwrap_or((service.namespace(), name));
    let wanted = ResourceName { namespace: namespace.into(), name: short.into() };
    if context.written.gateways.iter().any(|gateway| resource_name(gateway) == wanted) {
        return Some(Binding::Gateway(wanted));
    }
    let known: Vec<_> = context.written.gateways.iter().map(|gateway| resource_name(gateway).to_string()).collect();
    let known = if known.is_empty() { "there is none".to_owned() } else { format!("there is {}", known.join(", ")) };
    problems.error(&name.place, format!("there is no Gateway {wanted}; {known}, and `mesh` stands for all sidecars"));
    None
}

/// The one destination of a route.
fn only<'a>(route: &'a Located<Vec<RouteDestination>>, problems: &mut Diagnostics) -> Option<&'a RouteDestination> {
    match route.as_slice() {
        [to] => {
            if let Some(weight) = to.weight.as_ref().filter(|weight| weight.value != 100) {
                let message = format!(
                    "a weight of {} is not supported by Meshtoll: one destination with all of it, 100",
                    weight.value
                );
                problems.error(&weight.place, message);
            }
            Some(to)
        }
        [] => {
            problems.error(&route.place, "is empty: a route needs a destination");
            None
        }
        [_, _, ..] => {
            let message = "splitting by weight is not supported by Meshtoll: keep one destination";
            problems.error(&route.place, message);
            None
        }
    }
}
