//! What is behind the hosts of a ServiceEntry, and the ports there.

use crate::{
    diagnostics::Diagnostics,
    host::HostPattern,
    istio::{
        Endpoint, MeshFacts, Protocol, Resolution, ServicePort,
        words::Resolution as Word,
        written::{self, Resource},
    },
    topology::SNI_PROXY_PORT,
    yaml::Located,
};
use std::{collections::BTreeMap, net::Ipv4Addr};

type Written = Resource<written::ServiceEntry>;

/// What is behind the hosts, and the entry's ports.
pub(super) fn check(
    entry: &Written,
    facts: &MeshFacts,
    problems: &mut Diagnostics,
) -> Option<(Resolution, Vec<ServicePort>)> {
    let ports = ports(entry, problems);
    let written: Vec<_> = entry.spec.endpoints.iter().flat_map(|endpoints| endpoints.iter()).collect();
    for endpoint in &written {
        for (name, port) in endpoint.ports.iter().flatten() {
            if !entry.spec.ports.iter().any(|known| known.name.value == *name) {
                problems.error(&port.place, format!("the ServiceEntry has no port named `{name}`"));
            }
        }
    }
    let resolution = resolution(entry, &written, problems)?;
    if let Resolution::Endpoints(endpoints) = &resolution {
        sni_proxy(&written, endpoints, &ports, facts, problems);
    }
    Some((resolution, ports))
}

fn ports(entry: &Written, problems: &mut Diagnostics) -> Vec<ServicePort> {
    let ports = &entry.spec.ports;
    for (index, port) in ports.iter().enumerate() {
        if ports[..index].iter().any(|earlier| earlier.number.value == port.number.value) {
            problems.error(&port.number.place, format!("port {} is there twice", port.number.0));
        }
        if ports[..index].iter().any(|earlier| earlier.name.value == port.name.value) {
            problems.error(&port.name.place, format!("there already is a port named `{}`", port.name.value));
        }
    }
    let checked = ports.iter().map(|port| ServicePort {
        number: port.number.0,
        target: port.target_port.unwrap_or(port.number.value).0,
        protocol: port.protocol.value,
    });
    checked.collect()
}

fn resolution(entry: &Written, endpoints: &[&written::Endpoint], problems: &mut Diagnostics) -> Option<Resolution> {
    let spec = &entry.spec;
    let word = spec.resolution.as_ref().map_or(Word::None, |resolution| resolution.value);
    match (word, endpoints) {
        (Word::None, []) => Some(Resolution::OriginalDestination),
        (Word::None, [endpoint, ..]) => {
            let message = "with resolution NONE, Istio refuses endpoints: remove them, or use STATIC or DNS";
            problems.error(&endpoint.address.place, message);
            None
        }
        (Word::DynamicDns, endpoints) => dynamic_dns(spec, endpoints, problems),
        (Word::Static, []) => {
            let place = spec.resolution.as_ref().map_or_else(|| entry.place(), |resolution| &resolution.place);
            problems.error(place, "with resolution STATIC, an endpoint with the address is needed: add `endpoints`");
            None
        }
        (Word::Static, endpoints) => {
            let names: Vec<_> = endpoints.iter().filter(|endpoint| address(endpoint).is_none()).collect();
            for endpoint in &names {
                let written = &endpoint.address;
                let message = format!("`{}` is not an IPv4 address; with a name, use resolution DNS", written.value);
                problems.error(&written.place, message);
            }
            names.is_empty().then(|| addresses(spec, endpoints, problems))
        }
        (Word::Dns, []) => dns(&spec.hosts, problems),
        (Word::Dns, endpoints) if endpoints.iter().all(|endpoint| address(endpoint).is_some()) => {
            Some(addresses(spec, endpoints, problems))
        }
        (Word::Dns, [endpoint]) => dns_of(spec, endpoint, problems),
        (Word::Dns, [endpoint, ..]) => {
            let message = "several endpoints of which some are names are not supported by Meshtoll: keep one name, or \
                           addresses alone";
            problems.error(&endpoint.address.place, message);
            None
        }
    }
}

fn address(endpoint: &written::Endpoint) -> Option<Ipv4Addr> {
    endpoint.address.parse().ok()
}

fn addresses(spec: &written::ServiceEntry, written: &[&written::Endpoint], problems: &mut Diagnostics) -> Resolution {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for endpoint in written {
        let Some(address) = address(endpoint) else { continue };
        let found = Endpoint { address, ports: own_ports(spec, endpoint) };
        if endpoints.contains(&found) {
            problems.error(&endpoint.address.place, format!("{address} is there twice with the same ports"));
        }
        endpoints.push(found);
    }
    Resolution::Endpoints(endpoints)
}

/// Ports on which an endpoint listens itself, by the number of the entry's.
fn own_ports(spec: &written::ServiceEntry, endpoint: &written::Endpoint) -> BTreeMap<u16, u16> {
    let number = |name: &String| spec.ports.iter().find(|port| port.name.value == *name).map(|port| port.number.0);
    let ports = endpoint.ports.iter().flatten();
    ports.filter_map(|(name, port)| Some((number(name)?, port.0))).collect()
}

/// Each connection's server name is what is resolved: one is needed, and nothing else says where the host is.
fn dynamic_dns(
    spec: &written::ServiceEntry,
    endpoints: &[&written::Endpoint],
    problems: &mut Diagnostics,
) -> Option<Resolution> {
    let before = problems.0.len();
    if let Some(endpoint) = endpoints.first() {
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
    (problems.0.len() == before).then_some(Resolution::DynamicDns)
}

fn dns(hosts: &[Located<HostPattern>], problems: &mut Diagnostics) -> Option<Resolution> {
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
    resolvable.then_some(Resolution::Dns)
}

fn dns_of(
    spec: &written::ServiceEntry,
    endpoint: &written::Endpoint,
    problems: &mut Diagnostics,
) -> Option<Resolution> {
    let written = &endpoint.address;
    match written.parse::<HostPattern>() {
        Ok(host) if !host.is_wildcard() => {
            Some(Resolution::DnsOf { host: written.value.clone(), ports: own_ports(spec, endpoint) })
        }
        Ok(_) => {
            problems.error(&written.place, format!("`{}` is a pattern: an endpoint is one host", written.value));
            None
        }
        Err(error) => {
            problems.error(&written.place, error.to_string());
            None
        }
    }
}

/// An endpoint on the loopback is the SNI proxy in the gateway's pod, and nothing else.
fn sni_proxy(
    written: &[&written::Endpoint],
    endpoints: &[Endpoint],
    ports: &[ServicePort],
    facts: &MeshFacts,
    problems: &mut Diagnostics,
) {
    for (written, endpoint) in written.iter().zip(endpoints).filter(|(_, endpoint)| endpoint.address.is_loopback()) {
        let there = |port| endpoint.socket(port).port() == SNI_PROXY_PORT;
        let place = &written.address.place;
        if !facts.sni_proxy {
            let message = "nothing listens on a loopback address in this case: set `sniProxy: true` in the experiment, or \
                           name another endpoint";
            problems.error(place, message);
        } else if endpoint.address != Ipv4Addr::LOCALHOST || !ports.iter().all(there) {
            let message = format!("the SNI proxy of the gateway's pod listens on 127.0.0.1:{SNI_PROXY_PORT}");
            problems.error(place, message);
        }
    }
}
