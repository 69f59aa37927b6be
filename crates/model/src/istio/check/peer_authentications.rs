//! What services ask of their peers.

use super::resource_name;
use crate::{
    application::ROOT_NAMESPACE,
    diagnostics::Diagnostics,
    ids::WorkloadName,
    istio::{
        MeshFacts, PeerAuthentication, PeerScope, ResourceName,
        written::{self, Resource},
    },
};
use std::collections::BTreeMap;

type Written = Resource<written::PeerAuthentication>;

pub(super) fn check(peers: &[Written], facts: &MeshFacts, problems: &mut Diagnostics) -> Vec<PeerAuthentication> {
    let mut scopes: BTreeMap<String, ResourceName> = BTreeMap::new();
    let mut checked = Vec::new();
    for peer in peers {
        let Some(scope) = scope(peer, facts, problems) else { continue };
        let keys = match &scope {
            PeerScope::Mesh => vec!["the mesh".to_owned()],
            PeerScope::Namespace(namespace) => vec![format!("namespace {namespace}")],
            PeerScope::Workloads(workloads) => {
                workloads.iter().map(|workload| format!("workload {workload}")).collect()
            }
        };
        for key in keys {
            if let Some(earlier) = scopes.get(&key) {
                let message = format!("PeerAuthentication {earlier} says already what {key} asks: keep one");
                problems.error(peer.place(), message);
            }
            scopes.insert(key, resource_name(peer));
        }
        let mode = peer.spec.mtls.as_ref().and_then(|mtls| mtls.mode.value.0);
        checked.push(PeerAuthentication { name: resource_name(peer), scope, mode });
    }
    checked
}

/// Whose services it is about; reports when that is nobody.
fn scope(peer: &Written, facts: &MeshFacts, problems: &mut Diagnostics) -> Option<PeerScope> {
    let namespace = peer.namespace();
    let selector = peer.spec.selector.as_ref().map(|selector| &selector.match_labels);
    if namespace == ROOT_NAMESPACE && selector.is_none_or(|labels| labels.is_empty()) {
        return Some(PeerScope::Mesh);
    }
    if namespace != facts.namespace {
        let message = format!(
            "no service of the application is in namespace `{namespace}`: use `{}`, or `{ROOT_NAMESPACE}` without a \
             selector for the whole mesh",
            facts.namespace
        );
        problems.error(&peer.metadata.namespace.place, message);
        return None;
    }
    let Some(labels) = selector.filter(|labels| !labels.is_empty()) else {
        return Some(PeerScope::Namespace(namespace.into()));
    };
    let is_selected = |name: &str| labels.iter().all(|(key, value)| key == "app" && value == name);
    let selected = facts.services.iter().map(|service| &service.name).filter(|name| is_selected(name.as_str()));
    let selected: std::collections::BTreeSet<WorkloadName> = selected.cloned().collect();
    if selected.is_empty() {
        let message = format!("selects no service: their only label is `app`, with one of {}", facts.service_names());
        problems.error(&labels.place, message);
        return None;
    }
    Some(PeerScope::Workloads(selected))
}
