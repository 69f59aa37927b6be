//! Hosts outside of the mesh.

use super::{not_empty, resource_name};
use crate::{
    diagnostics::Diagnostics,
    host::{HostPattern, is_label},
    istio::{
        Export, MeshFacts, Resolution, ServiceEntry, ServicePort,
        words::{self, Protocol},
        written::{self, Endpoint, Resource},
    },
    topology::SNI_PROXY_PORT,
    yaml::Located,
};
use std::net::Ipv4Addr;

type Written = Resource<written::ServiceEntry>;

pub(super) fn check(entries: &[Written], facts: &MeshFacts, problems: &mut Diagnostics) -> Vec<ServiceEntry> {
    let mut checked: Vec<ServiceEntry> = Vec::new();
    for written in entries {
        if let Some(entry) = service_entry(written, facts, problems) {
            for earlier in checked.iter().filter(|earlier| earlier.export.overlaps(&entry.export)) {
                only_one(earlier, written, problems);
            }
            checked.push(entry);
        }
    }
    checked
}

fn service_entry(entry: &Written, facts: &MeshFacts, problems: &mut Diagnostics) -> Option<ServiceEntry> {
    let before = problems.0.len();
    let spec = &entry.spec;
    not_empty(&spec.hosts, problems);
    not_empty(&spec.ports, problems);
    hosts(entry, facts, problems);
    if let Some(addresses) = spec.addresses.as_ref().filter(|addresses| !addresses.is_empty()) {
        let message =
            "not supported by Meshtoll: its routes tell hosts apart by server name alone; remove the addresses";
        problems.error(&addresses.place, message);
    }
    let export = export(entry, problems);
    plain_ports(entry, &export, facts, problems);
    let (resolution, endpoint) = resolution(entry, problems)?;
    let ports = ports(entry, endpoint, problems);
    if let Some(endpoint) = endpoint {
        sni_proxy(endpoint, &resolution, &ports, facts, problems);
    }
    (problems.0.len() == before).then(|| ServiceEntry {
        name: resource_name(entry),
        hosts: spec.hosts.iter().map(|host| host.value.clone()).collect(),
        ports,
        resolution,
        export,
    })
}

fn hosts(entry: &Written, facts: &MeshFacts, problems: &mut Diagnostics) {
    for (index, host) in entry.spec.hosts.iter().enumerate() {
        if host.as_str() == "*" {
            problems.error(&host.place, "Istio refuses `*` here: name a domain, as in `*.example.com`");
        }
        if facts.service(host.as_str()).is_some() || facts.is_gateway(host.as_str()) {
            problems.error(&host.place, format!("`{}` is a service of the mesh and needs no ServiceEntry", host.value));
        }
        if entry.spec.hosts[..index].iter().any(|earlier| earlier.value == host.value) {
            problems.error(&host.place, format!("`{}` is there twice", host.value));
        }
    }
}

fn export(entry: &Written, problems: &mut Diagnostics) -> Export {
    let Some(export_to) = &entry.spec.export_to else { return Export::All };
    not_empty(export_to, problems);
    if export_to.iter().any(|target| target.as_str() == "*") {
        if let Some(other) = export_to.iter().find(|target| target.as_str() != "*") {
            problems.error(&other.place, "`*` stands for every namespace already: keep one of them");
        }
        return Export::All;
    }
    let namespaces = export_to.iter().filter_map(|target| match target.as_str() {
        "." => Some(entry.namespace().to_owned()),
        name if is_label(name) => Some(name.to_owned()),
        _ => {
            let message = format!("`{}` is not supported: `*`, `.` or a namespace", target.value);
            problems.error(&target.place, message);
            None
        }
    });
    Export::Namespaces(namespaces.collect())
}

/// Sidecars find routes by server name, so that plain TCP is for the gateway alone.
fn plain_ports(entry: &Written, export: &Export, facts: &MeshFacts, problems: &mut Diagnostics) {
    for port in entry.spec.ports.iter().filter(|port| port.protocol.value == Protocol::Tcp) {
        if export.reaches(&facts.namespace) {
            let message = format!(
                "not supported by Meshtoll in sidecars, which route by server name: use protocol TLS, or keep the entry \
                 from namespace {} by `exportTo`",
                facts.namespace
            );
            problems.error(&port.protocol.place, message);
        }
    }
}

/// What is behind the hosts, and the endpoint where one is given.
fn resolution<'a>(entry: &'a Written, problems: &mut Diagnostics) -> Option<(Resolution, Option<&'a Endpoint>)> {
    let spec = &entry.spec;
    let endpoints = spec.endpoints.as_ref().filter(|endpoints| !endpoints.is_empty());
    if let Some(endpoints) = endpoints
        && let [_, _, ..] = endpoints.as_slice()
    {
        let message = "several endpoints are not supported by Meshtoll, which does not balance load: keep one";
        problems.error(&endpoints.place, message);
        return None;
    }
    let endpoint = endpoints.and_then(|endpoints| endpoints.first());
    let written = spec.resolution.as_ref().map_or(words::Resolution::None, |resolution| resolution.value);
    match (written, endpoint) {
        (words::Resolution::None, None) => Some((Resolution::OriginalDestination, None)),
        (words::Resolution::None, Some(endpoint)) => {
            let message = "with resolution NONE, Istio refuses endpoints: remove them, or use STATIC or DNS";
            problems.error(&endpoint.address.place, message);
            None
        }
        (words::Resolution::DynamicDns, endpoint) => {
            dynamic_dns(spec, endpoint, problems).then_some((Resolution::DynamicDns, None))
        }
        (words::Resolution::Static, None) => {
            let place = spec.resolution.as_ref().map_or_else(|| entry.place(), |resolution| &resolution.place);
            problems.error(place, "with resolution STATIC, an endpoint with the address is needed: add `endpoints`");
            None
        }
        (words::Resolution::Static, Some(endpoint)) => match endpoint.address.parse() {
            Ok(address) => Some((Resolution::Address(address), Some(endpoint))),
            Err(_) => {
                let message =
                    format!("`{}` is not an IPv4 address; with a name, use resolution DNS", endpoint.address.value);
                problems.error(&endpoint.address.place, message);
                None
            }
        },
        (words::Resolution::Dns, endpoint) => dns(&spec.hosts, endpoint, problems),
    }
}

/// Each connection's server name is what is resolved: one is needed, and nothing else says where the host is.
fn dynamic_dns(spec: &written::ServiceEntry, endpoint: Option<&Endpoint>, problems: &mut Diagnostics) -> bool {
    let before = problems.0.len();
    if let Some(endpoint) = endpoint {
        let message = "with resolution DYNAMIC_DNS, Istio refuses endpoints: remove them, or use STATIC or DNS";
        problems.error(&endpoint.address.place, message);
    }
    for host in spec.hosts.iter().filter(|host| !host.is_wildcard()) {
        let message = format!("`{}` is one host: with resolution DYNAMIC_DNS, name a wildcard, or use DNS", host.value);
        problems.error(&host.place, message);
    }
    for port in spec.ports.iter().filter(|port| port.protocol.value != Protocol::Tls) {
        let message =
            "with resolution DYNAMIC_DNS, the host is read from the connection's server name: use protocol TLS";
        problems.error(&port.protocol.place, message);
    }
    problems.0.len() == before
}

fn dns<'a>(
    hosts: &[Located<HostPattern>],
    endpoint: Option<&'a Endpoint>,
    problems: &mut Diagnostics,
) -> Option<(Resolution, Option<&'a Endpoint>)> {
    if let Some(endpoint) = endpoint {
        let address = &endpoint.address;
        if let Ok(address) = address.parse::<Ipv4Addr>() {
            return Some((Resolution::Address(address), Some(endpoint)));
        }
        return match address.parse::<HostPattern>() {
            Ok(host) if !host.is_wildcard() => Some((Resolution::DnsOf(address.value.clone()), Some(endpoint))),
            Ok(_) => {
                problems.error(&address.place, format!("`{}` is a pattern: an endpoint is one host", address.value));
                None
            }
            Err(error) => {
                problems.error(&address.place, error.to_string());
                None
            }
        };
    }
    let mut resolvable = true;
    for host in hosts.iter().filter(|host| host.is_wildcard()) {
        resolvable = false;
        let message = format!(
            "`{}` cannot be resolved: with a wildcard, Istio refuses resolution DNS without endpoints; use resolution \
             DYNAMIC_DNS, or name the hosts",
            host.value
        );
        problems.error(&host.place, message);
    }
    resolvable.then_some((Resolution::Dns, None))
}

fn ports(entry: &Written, endpoint: Option<&Endpoint>, problems: &mut Diagnostics) -> Vec<ServicePort> {
    let ports = &entry.spec.ports;
    for (index, port) in ports.iter().enumerate() {
        if ports[..index].iter().any(|earlier| earlier.number.value == port.number.value) {
            problems.error(&port.number.place, format!("port {} is there twice", port.number.0));
        }
        if ports[..index].iter().any(|earlier| earlier.name.value == port.name.value) {
            problems.error(&port.name.place, format!("there already is a port named `{}`", port.name.value));
        }
    }
    let of_endpoint = endpoint.and_then(|endpoint| endpoint.ports.as_ref());
    for (name, port) in of_endpoint.into_iter().flatten() {
        if !ports.iter().any(|known| known.name.value == *name) {
            problems.error(&port.place, format!("the ServiceEntry has no port named `{name}`"));
        }
    }
    let target = |port: &written::ServicePort| {
        let of_endpoint = of_endpoint.and_then(|ports| ports.get(&port.name.value)).map(|port| port.value);
        of_endpoint.or(port.target_port).unwrap_or(port.number.value).0
    };
    let checked = ports.iter().map(|port| ServicePort {
        number: port.number.0,
        target: target(port),
        tls: port.protocol.value == Protocol::Tls,
    });
    checked.collect()
}

/// An endpoint on the loopback is the SNI proxy in the gateway's pod, and nothing else.
fn sni_proxy(
    endpoint: &Endpoint,
    resolution: &Resolution,
    ports: &[ServicePort],
    facts: &MeshFacts,
    problems: &mut Diagnostics,
) {
    let Resolution::Address(address) = resolution else { return };
    if !address.is_loopback() {
        return;
    }
    let fits = *address == Ipv4Addr::LOCALHOST && ports.iter().all(|port| port.target == SNI_PROXY_PORT);
    if !facts.sni_proxy {
        let message = "nothing listens on a loopback address in this case: set `sniProxy: true` in the experiment, or \
                       name another endpoint";
        problems.error(&endpoint.address.place, message);
    } else if !fits {
        let message = format!("the SNI proxy of the gateway's pod listens on 127.0.0.1:{SNI_PROXY_PORT}");
        problems.error(&endpoint.address.place, message);
    }
}

/// No two entries that the same proxies know have the same host and port.
fn only_one(earlier: &ServiceEntry, written: &Written, problems: &mut Diagnostics) {
    for host in written.spec.hosts.iter().filter(|host| earlier.hosts.contains(host)) {
        for port in written.spec.ports.iter() {
            if earlier.ports.iter().any(|known| known.number == port.number.0) {
                let message = format!("ServiceEntry {} has {}:{} already", earlier.name, host.value, port.number.0);
                problems.error(&port.number.place, message);
            }
        }
    }
}
