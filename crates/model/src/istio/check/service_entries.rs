//! Hosts outside of the mesh.

use super::{block, not_empty, resolutions, resource_name};
use crate::{
    cidr::Cidr,
    diagnostics::Diagnostics,
    host::is_label,
    istio::{
        Export, MeshFacts, Protocol, ServiceEntry,
        written::{self, Resource},
    },
};

type Written = Resource<written::ServiceEntry>;

pub(super) fn check(entries: &[Written], facts: &MeshFacts, problems: &mut Diagnostics) -> Vec<ServiceEntry> {
    let mut checked: Vec<ServiceEntry> = Vec::new();
    for written in entries {
        if let Some(entry) = service_entry(written, facts, problems) {
            for earlier in checked.iter().filter(|earlier| earlier.export.overlaps(&entry.export)) {
                only_one(earlier, written, problems);
            }
            if entry.export.reaches(&facts.namespace) {
                one_host_for_tcp(written, problems);
                apart_from_services(&entry, written, facts, problems);
                for earlier in checked.iter().filter(|earlier| earlier.export.reaches(&facts.namespace)) {
                    told_apart(earlier, &entry, written, problems);
                }
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
    let addresses = addresses(entry, problems);
    let export = export(entry, problems);
    let (resolution, ports) = resolutions::check(entry, facts, problems)?;
    (problems.0.len() == before).then(|| ServiceEntry {
        name: resource_name(entry),
        hosts: spec.hosts.iter().map(|host| host.value.clone()).collect(),
        addresses,
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

/// Addresses tell plain TCP connections apart; others say themselves what they are for.
fn addresses(entry: &Written, problems: &mut Diagnostics) -> Vec<Cidr> {
    let Some(addresses) = entry.spec.addresses.as_ref().filter(|addresses| !addresses.is_empty()) else {
        return Vec::new();
    };
    for port in entry.spec.ports.iter().filter(|port| port.protocol.value != Protocol::Tcp) {
        let message = "with `addresses`, only TCP is supported by Meshtoll, which tells other connections apart by server \
                       name or Host alone: remove the addresses, or put this port into an entry without them";
        problems.error(&port.protocol.place, message);
    }
    addresses.iter().filter_map(|address| block(address, problems)).collect()
}

/// A plain TCP connection does not say which of several hosts it is for.
fn one_host_for_tcp(entry: &Written, problems: &mut Diagnostics) {
    let tcp = entry.spec.ports.iter().find(|port| port.protocol.value == Protocol::Tcp);
    if let (Some(port), [_, _, ..]) = (tcp, entry.spec.hosts.as_slice()) {
        let message = "plain TCP does not say which of several hosts it is for: give each an entry of its own";
        problems.error(&port.protocol.place, message);
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

/// Connections to the same port can be told apart: plain TCP by its destination addresses alone.
fn told_apart(earlier: &ServiceEntry, entry: &ServiceEntry, written: &Written, problems: &mut Diagnostics) {
    for (port, number) in entry.ports.iter().zip(written.spec.ports.iter().map(|port| &port.number)) {
        let same = earlier.ports.iter().filter(|known| known.number == port.number);
        for known in same {
            let tcp = [earlier.plain_tcp(known), entry.plain_tcp(port)];
            let same_block = entry.addresses.iter().any(|block| earlier.addresses.contains(block));
            let message = match tcp {
                [Some([]), Some([])] => "has plain TCP to any address on this port already: give both `addresses`",
                [Some([]), None] | [None, Some([])] => {
                    "has the port too, and one of both is plain TCP to any address, which takes every connection: give it \
                     `addresses`"
                }
                [Some(_), Some(_)] if same_block => "has plain TCP to the same addresses on this port already",
                _ => continue,
            };
            problems.error(&number.place, format!("ServiceEntry {} {message}", earlier.name));
        }
    }
}

/// Plain TCP to any address does not take the connections between services.
fn apart_from_services(entry: &ServiceEntry, written: &Written, facts: &MeshFacts, problems: &mut Diagnostics) {
    for (port, number) in entry.ports.iter().zip(written.spec.ports.iter().map(|port| &port.number)) {
        let service = facts.services.iter().find(|service| service.port == port.number);
        if let (Some(service), Some([])) = (service, entry.plain_tcp(port)) {
            let message = format!(
                "service {} of the mesh has this port, and plain TCP to any address would take its connections: add \
                 `addresses`",
                service.name
            );
            problems.error(&number.place, message);
        }
    }
}
