//! Who may connect.

use super::{block, not_empty, resource_name};
use crate::{
    application::ROOT_NAMESPACE,
    diagnostics::Diagnostics,
    istio::{
        Action, AuthorizationPolicy, AuthorizationRule, Condition, MeshFacts, Operation, PolicyScope, Source, Text,
        Values,
        written::{self, Resource},
    },
    yaml::Located,
};

type Written = Resource<written::AuthorizationPolicy>;
type List = Option<Located<Vec<Located<String>>>>;

pub(super) fn check(policies: &[Written], facts: &MeshFacts, problems: &mut Diagnostics) -> Vec<AuthorizationPolicy> {
    let mut checked = Vec::new();
    for policy in policies {
        let before = problems.0.len();
        let scope = scope(policy, facts, problems);
        let action = policy.spec.action.as_ref().map_or(Action::Allow, |action| action.value);
        let written = policy.spec.rules.as_ref().filter(|rules| !rules.is_empty());
        if let (None, Some(action)) = (written, policy.spec.action.as_ref().filter(|_| action != Action::Allow)) {
            let message = "without rules nothing matches: add them, or the rule `{}` for every connection";
            problems.error(&action.place, message);
        }
        let rules = written.into_iter().flat_map(|rules| rules.iter()).map(|rule| self::rule(rule, problems)).collect();
        if let Some(scope) = scope.filter(|_| problems.0.len() == before) {
            checked.push(AuthorizationPolicy { name: resource_name(policy), scope, action, rules });
        }
    }
    checked
}

/// Whose connections it is about; reports when that is nobody's.
fn scope(policy: &Written, facts: &MeshFacts, problems: &mut Diagnostics) -> Option<PolicyScope> {
    let namespace = policy.namespace();
    let root = namespace == ROOT_NAMESPACE;
    let services_here = !facts.services.is_empty() && (root || namespace == facts.namespace);
    let gateway_here = facts.gateway.as_ref().filter(|gateway| root || namespace == gateway.namespace);
    if !root && !services_here && gateway_here.is_none() {
        let message = format!(
            "nothing of the mesh is in namespace `{namespace}`: use `{}` for the services, or `{ROOT_NAMESPACE}` for the \
             whole mesh",
            facts.namespace
        );
        problems.error(&policy.metadata.namespace.place, message);
        return None;
    }
    let labels = policy.spec.selector.as_ref().map(|selector| &selector.match_labels);
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else {
        return Some(if root { PolicyScope::Mesh } else { PolicyScope::Namespace(namespace.into()) });
    };
    let is_service = |name: &str| labels.iter().all(|(key, value)| key == "app" && value == name);
    let services = facts.services.iter().filter(|service| services_here && is_service(service.name.as_str()));
    let services: std::collections::BTreeSet<_> = services.map(|service| service.name.clone()).collect();
    let gateway =
        gateway_here.is_some_and(|gateway| labels.iter().all(|(key, value)| gateway.labels.get(key) == Some(value)));
    if services.is_empty() && !gateway {
        let message = format!(
            "selects nothing in this namespace: services have the label `app`, with one of {}; the egress gateway has {}",
            facts.service_names(),
            gateway_labels(facts)
        );
        problems.error(&labels.place, message);
        return None;
    }
    Some(PolicyScope::Workloads { services, gateway })
}

fn gateway_labels(facts: &MeshFacts) -> String {
    let labels = facts.gateway.iter().flat_map(|gateway| &gateway.labels);
    let labels: Vec<_> = labels.map(|(key, value)| format!("{key}: {value}")).collect();
    if labels.is_empty() { "none".into() } else { labels.join(", ") }
}

fn rule(rule: &written::AuthorizationRule, problems: &mut Diagnostics) -> AuthorizationRule {
    // An empty list matches nothing to whoever wrote it, and everything in the compiled rule.
    if let Some(from) = &rule.from {
        not_empty(from, problems);
    }
    if let Some(to) = &rule.to {
        not_empty(to, problems);
    }
    if let Some(when) = &rule.when {
        not_empty(when, problems);
    }
    let from = rule.from.iter().flat_map(|from| from.iter()).map(|from| source(&from.source, problems)).collect();
    let to = rule.to.iter().flat_map(|to| to.iter()).map(|to| operation(&to.operation, problems)).collect();
    let when = rule.when.iter().flat_map(|when| when.iter());
    AuthorizationRule { from, to, when: when.filter_map(|written| condition(written, problems)).collect() }
}

fn source(source: &Located<written::Source>, problems: &mut Diagnostics) -> Source {
    let lists = [
        &source.principals,
        &source.not_principals,
        &source.namespaces,
        &source.not_namespaces,
        &source.ip_blocks,
        &source.not_ip_blocks,
    ];
    if lists.iter().all(|list| list.is_none()) {
        problems.error(&source.place, "says nothing: name who connects, or leave `from` out for everyone");
    }
    Source {
        principals: values(&source.principals, &source.not_principals, principal, problems),
        namespaces: values(&source.namespaces, &source.not_namespaces, text, problems),
        ip_blocks: values(&source.ip_blocks, &source.not_ip_blocks, block, problems),
    }
}

fn operation(operation: &Located<written::Operation>, problems: &mut Diagnostics) -> Operation {
    if operation.ports.is_none() && operation.not_ports.is_none() {
        problems.error(&operation.place, "says nothing: name ports, or leave `to` out for all of them");
    }
    Operation { ports: values(&operation.ports, &operation.not_ports, port, problems) }
}

fn condition(written: &written::Condition, problems: &mut Diagnostics) -> Option<Condition> {
    let (any, none) = (&written.values, &written.not_values);
    if any.is_none() && none.is_none() {
        problems.error(&written.key.place, "has neither `values` nor `notValues`: give it one of them");
    }
    Some(match written.key.as_str() {
        "source.principal" => Condition::Principal(values(any, none, principal, problems)),
        "source.namespace" => Condition::Namespace(values(any, none, text, problems)),
        "source.ip" => Condition::SourceIp(values(any, none, block, problems)),
        "destination.port" => Condition::DestinationPort(values(any, none, port, problems)),
        "connection.sni" => Condition::Sni(values(any, none, text, problems)),
        other => {
            let why = if other.starts_with("request.") {
                ": it needs HTTP, which Meshtoll's data plane does not read yet"
            } else {
                ""
            };
            let message = format!(
                "`{other}` is not supported{why}; supported: source.principal, source.namespace, source.ip, \
                 destination.port, connection.sni"
            );
            problems.error(&written.key.place, message);
            return None;
        }
    })
}

type Read<T> = fn(&Located<String>, &mut Diagnostics) -> Option<T>;

fn values<T>(any_of: &List, none_of: &List, read: Read<T>, problems: &mut Diagnostics) -> Values<T> {
    Values { any_of: list(any_of, read, problems), none_of: list(none_of, read, problems) }
}

fn list<T>(list: &List, read: Read<T>, problems: &mut Diagnostics) -> Vec<T> {
    let Some(list) = list else { return Vec::new() };
    not_empty(list, problems);
    list.iter().filter_map(|value| read(value, problems)).collect()
}

fn text(value: &Located<String>, problems: &mut Diagnostics) -> Option<Text> {
    let parsed = Text::parse(value);
    if parsed.is_none() {
        let message = format!("`{}` is not supported: text, with a `*` at its start or its end at most", value.value);
        problems.error(&value.place, message);
    }
    parsed
}

fn principal(value: &Located<String>, problems: &mut Diagnostics) -> Option<Text> {
    let parsed = text(value, problems)?;
    let is_id = |id: &str| matches!(id.split('/').collect::<Vec<_>>().as_slice(), [_, "ns", _, "sa", _]);
    let wrong = match &parsed {
        Text::Exact(id) => !is_id(id),
        Text::Prefix(start) => start.contains("://"),
        Text::Suffix(_) | Text::Present => false,
    };
    if wrong {
        let message = format!(
            "`{}` matches nobody: identities are TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT, without spiffe://",
            value.value
        );
        problems.error(&value.place, message);
        return None;
    }
    Some(parsed)
}

fn port(value: &Located<String>, problems: &mut Diagnostics) -> Option<u16> {
    let port = value.parse().ok().filter(|port| *port > 0);
    if port.is_none() {
        problems.error(&value.place, format!("`{}` is not a port number from 1 to 65535", value.value));
    }
    port
}
