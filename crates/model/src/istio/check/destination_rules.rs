//! How clients talk to hosts.

use super::{full_host, origination, resource_name};
use crate::{
    diagnostics::Diagnostics,
    istio::{
        ClientPolicy, ClientTls, DestinationRule, MeshFacts, ResourceName,
        words::ClientMode,
        written::{self, ClientTlsSettings, Resource, Subset, TrafficPolicy, Written},
    },
};
use std::collections::BTreeMap;

pub(super) fn check(written: &Written, facts: &MeshFacts, problems: &mut Diagnostics) -> Vec<DestinationRule> {
    let mut hosts: BTreeMap<(String, String), ResourceName> = BTreeMap::new();
    let mut checked = Vec::new();
    for rule in &written.destination_rules {
        let before = problems.0.len();
        let host = full_host(&rule.spec.host, rule.namespace());
        let in_mesh = in_mesh(rule, written, facts, problems);
        if let Some(earlier) = hosts.insert((rule.namespace().into(), host.to_string()), resource_name(rule)) {
            let message = format!("DestinationRule {earlier} is about this host already: put both into one");
            problems.error(&rule.spec.host.place, message);
        }
        let policy = rule.spec.traffic_policy.as_ref().map(|policy| client_policy(policy, in_mesh, problems));
        let subsets = subsets(rule, in_mesh, facts, problems);
        if problems.0.len() == before {
            let of_subsets = rule.spec.subsets.iter().flat_map(|subsets| subsets.iter());
            let of_subsets = of_subsets.filter_map(|subset| subset.traffic_policy.as_ref());
            for policy in rule.spec.traffic_policy.iter().chain(of_subsets) {
                origination::fits_ports(rule, policy, written, problems);
            }
        }
        if problems.0.len() == before {
            checked.push(DestinationRule {
                name: resource_name(rule),
                host,
                policy: policy.unwrap_or_default(),
                subsets,
            });
        }
    }
    checked
}

/// Whether the rule's host is in the mesh; reports one that nothing is known of.
fn in_mesh(
    rule: &Resource<written::DestinationRule>,
    written: &Written,
    facts: &MeshFacts,
    problems: &mut Diagnostics,
) -> bool {
    let host = full_host(&rule.spec.host, rule.namespace());
    if facts.hosts().iter().any(|known| host.matches(known)) {
        return true;
    }
    let listed =
        written.service_entries.iter().flat_map(|entry| entry.spec.hosts.iter()).any(|known| host.covers(known));
    if !listed {
        let message =
            format!("`{host}` is no host of a ServiceEntry, and none of the mesh: {}", facts.hosts().join(", "));
        problems.error(&rule.spec.host.place, message);
    }
    false
}

fn subsets(
    rule: &Resource<written::DestinationRule>,
    in_mesh: bool,
    facts: &MeshFacts,
    problems: &mut Diagnostics,
) -> BTreeMap<String, ClientPolicy> {
    let mut checked = BTreeMap::new();
    for subset in rule.spec.subsets.iter().flat_map(|subsets| subsets.iter()) {
        labels(rule, subset, facts, problems);
        let policy = subset.traffic_policy.as_ref().map(|policy| client_policy(policy, in_mesh, problems));
        if checked.insert(subset.name.value.clone(), policy.unwrap_or_default()).is_some() {
            problems.error(&subset.name.place, format!("there already is a subset `{}`", subset.name.value));
        }
    }
    checked
}

/// A subset's labels choose among a host's endpoints, of which there is one each here.
fn labels(rule: &Resource<written::DestinationRule>, subset: &Subset, facts: &MeshFacts, problems: &mut Diagnostics) {
    let Some(labels) = &subset.labels else { return };
    let host = full_host(&rule.spec.host, rule.namespace());
    let mut known = BTreeMap::new();
    if let Some(service) = facts.service(host.as_str()) {
        known.insert("app".to_owned(), service.name.to_string());
    } else if let Some(gateway) = facts.gateway.as_ref().filter(|gateway| gateway.host == host.as_str()) {
        known = gateway.labels.clone();
    }
    for (key, value) in labels.iter().filter(|(key, value)| known.get(*key) != Some(&value.value)) {
        let message = format!(
            "no endpoint of `{host}` has the label `{key}: {}`, so the subset is empty: remove it",
            value.value
        );
        problems.error(&value.place, message);
    }
}

fn client_policy(policy: &TrafficPolicy, in_mesh: bool, problems: &mut Diagnostics) -> ClientPolicy {
    let mut ports = BTreeMap::new();
    for settings in policy.port_level_settings.iter().flat_map(|settings| settings.iter()) {
        let tls = settings.tls.as_ref().and_then(|tls| client_tls(tls, in_mesh, problems));
        let number = &settings.port.number;
        if ports.insert(number.0, tls).is_some() {
            problems.error(&number.place, format!("port {} has settings already", number.0));
        }
    }
    let tls = policy.tls.as_ref().and_then(|tls| client_tls(tls, in_mesh, problems));
    ClientPolicy { tls, ports }
}

fn client_tls(tls: &ClientTlsSettings, in_mesh: bool, problems: &mut Diagnostics) -> Option<ClientTls> {
    let mode = tls.mode.value;
    match mode {
        ClientMode::Disable | ClientMode::IstioMutual => origination::none_of_them(tls, problems),
        ClientMode::Simple | ClientMode::Mutual => {}
    }
    let message = match mode {
        ClientMode::Disable => {
            if let Some(sni) = &tls.sni {
                problems.error(&sni.place, "nothing is sent with mode DISABLE: remove it, or use another mode");
            }
            return Some(ClientTls::Disable);
        }
        ClientMode::IstioMutual if in_mesh => {
            origination::one_name(tls.sni.as_ref(), problems);
            return Some(ClientTls::IstioMutual { sni: tls.sni.as_ref().map(|sni| sni.to_string()) });
        }
        ClientMode::Simple | ClientMode::Mutual if !in_mesh => {
            return Some(ClientTls::Originate(origination::settings(tls, problems)));
        }
        ClientMode::IstioMutual => {
            "a host outside of the mesh has none of its certificates: use DISABLE, or leave it out"
        }
        ClientMode::Simple | ClientMode::Mutual => {
            "in the mesh, certificates are the mesh's: use ISTIO_MUTUAL, or leave it out"
        }
    };
    problems.error(&tls.mode.place, message);
    None
}
