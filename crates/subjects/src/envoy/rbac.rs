//! AuthorizationPolicies as Envoy's network filters, in Istio's order: AUDIT, which only counts; DENY; ALLOW.
//!
//! Envoy decides when a connection's first byte arrives, at which moment it has opened the one to the upstream.

use super::filters;
use meshtoll_model::cidr::Cidr;
use meshtoll_policy::authorization::{Authorization, Condition, Operation, Rule, Source, Text, Values};
use serde_json::{Map, Value, json};

/// Puts what the policies ask for before the filters of a chain.
pub(super) fn guard(mut chain: Value, authorization: &Authorization) -> Value {
    if let Some(allow) = &authorization.allow {
        filters::put_first(&mut chain, filter("allow.", "rules", "ALLOW", allow));
    }
    if !authorization.deny.is_empty() {
        filters::put_first(&mut chain, filter("deny.", "rules", "DENY", &authorization.deny));
    }
    if !authorization.audit.is_empty() {
        filters::put_first(&mut chain, filter("audit.", "shadow_rules", "ALLOW", &authorization.audit));
    }
    chain
}

fn filter(prefix: &str, field: &str, action: &str, rules: &[Rule]) -> Value {
    let policies: Map<String, Value> = rules.iter().map(|rule| (rule.name.clone(), policy(rule))).collect();
    let mut config = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC",
        "stat_prefix": prefix,
    });
    config[field] = json!({ "action": action, "policies": policies });
    json!({ "name": "envoy.filters.network.rbac", "typed_config": config })
}

/// A rule: what Envoy knows of the connection's way is a permission, what it knows of its peer a principal.
fn policy(rule: &Rule) -> Value {
    let mut permissions = vec![any_of(&PERMISSION, rule.to.iter().map(operation).collect())];
    let mut principals = vec![any_of(&PRINCIPAL, rule.from.iter().map(source).collect())];
    for condition in &rule.when {
        match condition {
            Condition::Principal(values) => principals.push(principal(values)),
            Condition::Namespace(values) => principals.push(namespace(values)),
            Condition::SourceIp(values) => principals.push(address(values)),
            Condition::DestinationPort(values) => permissions.push(port(values)),
            Condition::Sni(values) => permissions.push(server_name(values)),
        }
    }
    json!({ "permissions": [all_of(&PERMISSION, permissions)], "principals": [all_of(&PRINCIPAL, principals)] })
}

fn source(source: &Source) -> Value {
    let Source { principals, namespaces, ip_blocks } = source;
    all_of(&PRINCIPAL, vec![principal(principals), namespace(namespaces), address(ip_blocks)])
}

fn operation(operation: &Operation) -> Value {
    let Operation { ports } = operation;
    port(ports)
}

fn principal(values: &Values<Text>) -> Value {
    matching(&PRINCIPAL, values, |text| authenticated(&spiffe_uri(text)))
}

/// A workload's namespace is known by its certificate alone, as in Istio.
fn namespace(values: &Values<Text>) -> Value {
    matching(&PRINCIPAL, values, |text| {
        let pattern = match text {
            Text::Exact(own) => escaped(own),
            Text::Prefix(own) => format!("{}[^/]*", escaped(own)),
            Text::Suffix(own) => format!("[^/]*{}", escaped(own)),
            Text::Present => "[^/]+".to_owned(),
        };
        authenticated(&regex(&format!("spiffe://.*/ns/{pattern}/sa/.*")))
    })
}

fn address(values: &Values<Cidr>) -> Value {
    matching(&PRINCIPAL, values, |cidr| json!({ "direct_remote_ip": filters::range(*cidr) }))
}

fn port(values: &Values<u16>) -> Value {
    matching(&PERMISSION, values, |port| json!({ "destination_port": port }))
}

fn server_name(values: &Values<Text>) -> Value {
    matching(&PERMISSION, values, |text| {
        let matcher = match text {
            Text::Exact(own) => json!({ "exact": own, "ignore_case": true }),
            Text::Prefix(own) if !own.is_empty() => json!({ "prefix": own, "ignore_case": true }),
            Text::Suffix(own) if !own.is_empty() => json!({ "suffix": own, "ignore_case": true }),
            Text::Prefix(_) | Text::Suffix(_) | Text::Present => regex(".+"),
        };
        json!({ "requested_server_name": matcher })
    })
}

/// A principal's text as what its certificate says, which has the scheme in front.
fn spiffe_uri(text: &Text) -> Value {
    match text {
        Text::Exact(own) => json!({ "exact": format!("spiffe://{own}") }),
        Text::Prefix(own) => json!({ "prefix": format!("spiffe://{own}") }),
        Text::Suffix(own) => regex(&format!("spiffe://.*{}", escaped(own))),
        Text::Present => json!({ "prefix": "spiffe://" }),
    }
}

fn authenticated(name: &Value) -> Value {
    json!({ "authenticated": { "principal_name": name } })
}

/// A pattern that a whole text has to match.
fn regex(pattern: &str) -> Value {
    json!({ "safe_regex": { "regex": pattern } })
}

/// A text as a pattern that matches it alone, in RE2's syntax.
fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter.is_ascii_punctuation() {
        true => format!("\\{letter}"),
        false => letter.to_string(),
    };
    text.chars().map(escape).collect()
}

/// What Envoy calls the same things for permissions and for principals.
struct Words {
    and: [&'static str; 2],
    or: [&'static str; 2],
    not: &'static str,
}

const PERMISSION: Words = Words { and: ["and_rules", "rules"], or: ["or_rules", "rules"], not: "not_rule" };
const PRINCIPAL: Words = Words { and: ["and_ids", "ids"], or: ["or_ids", "ids"], not: "not_id" };

/// One of the values that are wanted, if any is, and none of those that are not.
fn matching<T>(words: &Words, values: &Values<T>, matcher: impl Fn(&T) -> Value) -> Value {
    let mut parts = vec![any_of(words, values.any_of.iter().map(&matcher).collect())];
    if !values.none_of.is_empty() {
        let refused = any_of(words, values.none_of.iter().map(&matcher).collect());
        parts.push(Value::Object(Map::from_iter([(words.not.to_owned(), refused)])));
    }
    all_of(words, parts)
}

fn all_of(words: &Words, mut parts: Vec<Value>) -> Value {
    parts.retain(|part| *part != anything());
    match parts.len() {
        0 => anything(),
        1 => parts.swap_remove(0),
        _ => nested(words.and, parts),
    }
}

/// Anything where there are no alternatives, as in Istio's resources.
fn any_of(words: &Words, mut alternatives: Vec<Value>) -> Value {
    match alternatives.len() {
        0 => anything(),
        1 => alternatives.swap_remove(0),
        _ => nested(words.or, alternatives),
    }
}

fn nested([kind, list]: [&'static str; 2], parts: Vec<Value>) -> Value {
    json!({ (kind): { (list): parts } })
}

fn anything() -> Value {
    json!({ "any": true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stand_for_themselves_in_patterns() {
        assert_eq!(escaped("a-1.b*"), r"a\-1\.b\*");
    }

    #[test]
    fn parts_that_say_nothing_are_left_out() {
        let rule = Rule { name: "ns/one[0]".to_owned(), from: Vec::new(), to: Vec::new(), when: Vec::new() };
        assert_eq!(policy(&rule), json!({ "permissions": [{ "any": true }], "principals": [{ "any": true }] }));
    }

    #[test]
    fn what_is_refused_is_put_the_other_way_round() {
        let values = Values { any_of: vec![80, 443], none_of: vec![443] };
        let both = json!({ "or_rules": { "rules": [{ "destination_port": 80 }, { "destination_port": 443 }] } });
        let but = json!({ "not_rule": { "destination_port": 443 } });
        assert_eq!(port(&values), json!({ "and_rules": { "rules": [both, but] } }));
    }
}
