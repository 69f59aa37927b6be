//! A sidecar's routes to hosts outside of the mesh that are told apart by `Host` or by destination address.

use crate::{
    CompileError,
    routes::{HttpRoute, TcpRoute, Upstream},
    upstream::Upstreams,
};
use meshtoll_model::{
    cidr::Cidr,
    host::HostPattern,
    istio::{Destination, Protocol, ServiceEntry, ServicePort},
};
use std::cmp::Reverse;

/// The ports of that protocol that proxies of the client's namespace know.
pub(crate) fn ports<'a>(
    upstreams: &Upstreams<'a>,
    protocol: Protocol,
) -> impl Iterator<Item = (&'a ServiceEntry, &'a ServicePort)> {
    let namespace = upstreams.client_namespace;
    let known = upstreams.resources.service_entries.iter().filter(|entry| entry.export.reaches(namespace));
    let ports = known.flat_map(|entry| entry.ports.iter().map(move |port| (entry, port)));
    ports.filter(move |(_, port)| port.protocol == protocol)
}

/// The upstream of a host itself.
pub(crate) fn upstream(
    entry: &ServiceEntry,
    port: &ServicePort,
    host: &HostPattern,
    upstreams: &Upstreams<'_>,
) -> Result<Upstream, CompileError> {
    let destination = Destination { host: host.to_string(), subset: None, port: port.number };
    upstreams.external(entry, &destination, &format!("ServiceEntry {}", entry.name))
}

/// Routes by `Host`, the most specific first.
pub(crate) fn http_routes(upstreams: &Upstreams<'_>) -> Result<Vec<HttpRoute>, CompileError> {
    let mut routes = Vec::new();
    for (entry, port) in ports(upstreams, Protocol::Http) {
        for host in &entry.hosts {
            routes.push((port.number, host, upstream(entry, port, host, upstreams)?));
        }
    }
    routes.sort_by_key(|(port, host, _)| (*port, host.specificity()));
    let routes = routes.into_iter().map(|(port, host, upstream)| HttpRoute {
        port,
        virtual_ip: None,
        hosts: vec![host.to_string()],
        upstream,
    });
    Ok(routes.collect())
}

/// Routes by destination address, the narrowest range first, and any address last.
pub(crate) fn tcp_routes(upstreams: &Upstreams<'_>) -> Result<Vec<TcpRoute>, CompileError> {
    let mut ranges: Vec<(u16, Option<Cidr>, Upstream)> = Vec::new();
    for (entry, port) in ports(upstreams, Protocol::Tcp) {
        // The check lets no entry with a TCP port have several hosts.
        let Some(host) = entry.hosts.first() else { continue };
        let upstream = upstream(entry, port, host, upstreams)?;
        if entry.addresses.is_empty() {
            ranges.push((port.number, None, upstream.clone()));
        }
        ranges.extend(entry.addresses.iter().map(|range| (port.number, Some(*range), upstream.clone())));
    }
    ranges.sort_by_key(|(port, range, _)| (*port, Reverse(range.map(Cidr::prefix))));
    let mut routes: Vec<TcpRoute> = Vec::new();
    for (port, range, upstream) in ranges {
        match (routes.last_mut(), range) {
            (Some(last), Some(range)) if last.port == port && last.upstream == upstream => last.addresses.push(range),
            _ => routes.push(TcpRoute { port, addresses: range.into_iter().collect(), upstream }),
        }
    }
    Ok(routes)
}
