//! Written resources to checked ones. Each kind is checked by itself and against those before it; a resource that is
//! wrong is left out of the result, and references to it are not reported a second time.

mod authorization_policies;
mod destination_rules;
mod destinations;
mod gateways;
mod mutual_tls;
mod origination;
mod peer_authentications;
mod resolutions;
mod service_entries;
mod virtual_services;

use super::{
    CheckedResources, MeshFacts, ResourceName,
    written::{Metadata, Resource, Written},
};
use crate::{
    application::CLUSTER_DOMAIN,
    cidr::{Cidr, CidrError},
    diagnostics::{Diagnostics, Place},
    host::{HostPattern, is_label},
    yaml::Located,
};
use std::{collections::BTreeMap, net::Ipv4Addr};

pub(super) fn resources(written: &Written, facts: &MeshFacts, problems: &mut Diagnostics) -> CheckedResources {
    names(written, problems);
    let mut checked = CheckedResources {
        service_entries: service_entries::check(&written.service_entries, facts, problems),
        gateways: gateways::check(&written.gateways, facts, problems),
        destination_rules: destination_rules::check(written, facts, problems),
        peer_authentications: peer_authentications::check(&written.peer_authentications, facts, problems),
        authorization_policies: authorization_policies::check(&written.authorization_policies, facts, problems),
        ..CheckedResources::default()
    };
    let context = virtual_services::Context { written, checked: &checked, facts, sound: problems.0.is_empty() };
    checked.virtual_services = virtual_services::check(&context, problems);
    if problems.0.is_empty() {
        mutual_tls::servers_in_use(written, &checked, facts, problems);
        mutual_tls::services(written, &checked, facts, problems);
    }
    checked
}

/// Names are valid, and unique within their kind and namespace.
fn names(written: &Written, problems: &mut Diagnostics) {
    names_of(&written.service_entries, problems);
    names_of(&written.gateways, problems);
    names_of(&written.virtual_services, problems);
    names_of(&written.destination_rules, problems);
    names_of(&written.peer_authentications, problems);
    names_of(&written.authorization_policies, problems);
}

fn names_of<T>(resources: &[Resource<T>], problems: &mut Diagnostics) {
    let mut seen: BTreeMap<ResourceName, &Place> = BTreeMap::new();
    for resource in resources {
        let Metadata { name, namespace, labels, .. } = &resource.metadata;
        if !name.split('.').all(is_label) {
            let message =
                format!("`{}` is not a resource name: lower-case letters, digits, inner hyphens and dots", name.value);
            problems.error(&name.place, message);
        }
        if !is_label(namespace) {
            let message =
                format!("`{}` is not a namespace: lower-case letters, digits and inner hyphens", namespace.value);
            problems.error(&namespace.place, message);
        }
        if let Some(revision) = labels.as_ref().and_then(|labels| labels.get("istio.io/rev")) {
            let message = "not supported by Meshtoll: without control planes of several revisions, remove the label";
            problems.error(&revision.place, message);
        }
        match seen.get(&resource_name(resource)) {
            Some(earlier) => {
                let message = format!("{} is there already, at {}", resource_name(resource), earlier.line());
                problems.error(&name.place, message);
            }
            None => {
                seen.insert(resource_name(resource), &name.place);
            }
        }
    }
}

fn resource_name<T>(resource: &Resource<T>) -> ResourceName {
    ResourceName { namespace: resource.namespace().into(), name: resource.name().into() }
}

/// A host as a resource of that namespace means it: Istio completes a name without dots to a service of its namespace.
fn full_host(host: &HostPattern, namespace: &str) -> HostPattern {
    if host.as_str().contains('.') || host.is_wildcard() {
        return host.clone();
    }
    format!("{host}.{namespace}.svc.{CLUSTER_DOMAIN}").parse().unwrap_or_else(|_| host.clone())
}

/// Reports an empty list; the field is there for something.
fn not_empty<T>(list: &Located<Vec<T>>, problems: &mut Diagnostics) {
    if list.is_empty() {
        problems.error(&list.place, "is empty: at least one is needed");
    }
}

/// An address, or a range of them.
fn block(value: &Located<String>, problems: &mut Diagnostics) -> Option<Cidr> {
    if let Ok(address) = value.parse::<Ipv4Addr>() {
        return Some(Cidr::around(address, 32));
    }
    let message = |error: CidrError| match error {
        CidrError::NoPrefix(text) | CidrError::Address(text) => {
            format!("`{text}` is not an IPv4 address: write ADDRESS, or ADDRESS/LENGTH for a range, like 10.88.0.0/16")
        }
        error @ (CidrError::Prefix(_) | CidrError::HostBits { .. }) => error.to_string(),
    };
    value.parse().map_err(|error| problems.error(&value.place, message(error))).ok()
}
