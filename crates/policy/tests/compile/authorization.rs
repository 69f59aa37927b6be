//! AuthorizationPolicies, compiled, and what they decide.

use crate::common::{egress_gateway, resources, topology};
use meshtoll_model::ids::SpiffeId;
use meshtoll_policy::{
    authorization::{Authorization, Connection, Decision, Denied, Rule, Source, Text, Values},
    compile_gateway, compile_sidecar,
};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};

const GATEWAY: &str = "---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: airline}
spec: {hosts: [a.example], ports: [{number: 443, name: tls, protocol: TLS}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: egress, namespace: airline}
spec:
  selector: {istio: egressgateway}
  servers:
    - {port: {number: 443, name: tls, protocol: TLS}, hosts: [a.example], tls: {mode: PASSTHROUGH}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: airline}
spec:
  hosts: [a.example]
  gateways: [mesh, egress]
  tls:
    - match: [{gateways: [mesh], port: 443, sniHosts: [a.example]}]
      route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, port: {number: 443}}}]
    - match: [{gateways: [egress], sniHosts: [a.example]}]
      route: [{destination: {host: a.example}}]
";

fn policy(name: &str, namespace: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {spec}\n"
    )
}

fn of_service(yaml: &str, workload: &str) -> Authorization {
    let topology = topology("test", Some(&egress_gateway()));
    let routes = compile_sidecar(&resources(yaml), &topology, &workload.into());
    routes.unwrap_or_else(|error| panic!("{error}")).inbound[0].authorization.clone()
}

fn of_gateway(yaml: &str) -> Authorization {
    let routes = compile_gateway(&resources(&format!("{GATEWAY}{yaml}")), &topology("test", Some(&egress_gateway())));
    routes.unwrap_or_else(|error| panic!("{error}")).servers[0].routes[0].authorization.clone()
}

fn id(account: &str) -> SpiffeId {
    SpiffeId { trust_domain: "cluster.local".into(), namespace: "airline".into(), service_account: account.into() }
}

fn from(principal: Option<&SpiffeId>) -> Connection<'_> {
    Connection { principal, source: [10, 64, 0, 4].into(), port: 9080, sni: Some("a.example") }
}

/// Whether a service with this one policy lets a connection in.
fn allows(spec: &str, connection: &Connection<'_>) -> bool {
    of_service(&policy("p", "airline", spec), "auth").decide(connection).outcome.is_ok()
}

#[test]
fn without_policies_everyone_may() {
    let none = of_service("", "auth");
    assert_eq!(none, Authorization::default());
    assert!(none.decide(&from(None)).outcome.is_ok());
}

#[test]
fn allow_without_rules_refuses_everything_and_an_empty_rule_matches_everything() {
    for spec in ["{}", "{action: ALLOW}", "{rules: []}"] {
        assert!(!allows(spec, &from(Some(&id("booking")))), "{spec}");
    }
    assert!(allows("{rules: [{}]}", &from(None)));
    assert!(!allows("{action: DENY, rules: [{}]}", &from(None)));
    assert!(allows("{action: AUDIT, rules: [{}]}", &from(None)));
}

#[test]
fn deny_comes_before_allow_and_audit_only_marks() {
    let yaml = policy("allow", "airline", "{rules: [{}]}")
        + &policy(
            "deny",
            "airline",
            "{action: DENY, rules: [{to: [{operation: {ports: ['1']}}]}, {from: [{source: {namespaces: [airline]}}]}]}",
        )
        + &policy("audit", "airline", "{action: AUDIT, rules: [{}]}");
    let authorization = of_service(&yaml, "auth");
    let booking = id("booking");
    let Decision { outcome, audited } = authorization.decide(&from(Some(&booking)));
    assert_eq!(outcome.unwrap_err(), Denied::ByRule { rule: "airline/deny[1]" });
    assert_eq!(audited, ["airline/audit[0]"]);
    assert!(authorization.decide(&from(None)).outcome.is_ok());
}

#[test]
fn a_selector_a_namespace_and_the_root_namespace_choose_whose_connections() {
    let deny = |selector: &str| format!("{{{selector}action: DENY, rules: [{{}}]}}");
    let selector = |labels: &str| format!("selector: {{matchLabels: {{{labels}}}}}, ");
    let about = |namespace: &str, labels: Option<&str>| {
        let yaml = policy("p", namespace, &deny(&labels.map(selector).unwrap_or_default()));
        let denies = |authorization: Authorization| !authorization.deny.is_empty();
        (denies(of_service(&yaml, "auth")), denies(of_service(&yaml, "booking")), denies(of_gateway(&yaml)))
    };
    assert_eq!(about("airline", None), (true, true, false));
    assert_eq!(about("airline", Some("app: auth")), (true, false, false));
    assert_eq!(about("istio-system", None), (true, true, true));
    assert_eq!(about("istio-system", Some("app: booking")), (false, true, false));
    assert_eq!(about("istio-system", Some("istio: egressgateway")), (false, false, true));
}

#[test]
fn sources_match_by_identity_namespace_and_address() {
    let (booking, auth) = (id("booking"), id("auth"));
    let source = |source: &str| format!("{{rules: [{{from: [{{source: {{{source}}}}}]}}]}}");
    for (written, booking_may, auth_may, nobody_may) in [
        ("principals: [cluster.local/ns/airline/sa/booking]", true, false, false),
        ("principals: ['*/sa/booking']", true, false, false),
        ("principals: ['cluster.local/*']", true, true, false),
        ("principals: ['*']", true, true, false),
        ("notPrincipals: [cluster.local/ns/airline/sa/booking]", false, true, true),
        ("notPrincipals: ['*']", false, false, true),
        ("namespaces: [airline]", true, true, false),
        ("namespaces: [air]", false, false, false),
        ("notNamespaces: ['air*']", false, false, true),
        ("namespaces: [airline], notPrincipals: ['*/sa/auth']", true, false, false),
        ("ipBlocks: [10.64.0.4]", true, true, true),
        ("ipBlocks: [10.0.0.0/8], notIpBlocks: [10.64.0.0/24]", false, false, false),
        ("ipBlocks: [192.0.2.0/24]", false, false, false),
    ] {
        let spec = source(written);
        assert_eq!(allows(&spec, &from(Some(&booking))), booking_may, "{written}");
        assert_eq!(allows(&spec, &from(Some(&auth))), auth_may, "{written}");
        assert_eq!(allows(&spec, &from(None)), nobody_may, "{written}");
    }
}

#[test]
fn an_ipv4_peer_is_the_same_as_a_mapped_address() {
    let mapped = |address: [u8; 4]| IpAddr::from(Ipv4Addr::from(address).to_ipv6_mapped());
    let spec = "{action: DENY, rules: [{from: [{source: {ipBlocks: [10.64.0.0/16]}}]}]}";
    assert!(!allows(spec, &Connection { source: mapped([10, 64, 0, 4]), ..from(None) }));
    assert!(allows(spec, &Connection { source: mapped([10, 65, 0, 4]), ..from(None) }));
    let all = "{rules: [{from: [{source: {ipBlocks: [0.0.0.0/0]}}]}]}";
    assert!(!allows(all, &Connection { source: "2001:db8::1".parse().unwrap(), ..from(None) }));
}

#[test]
fn operations_and_conditions_match_by_port_and_server_name() {
    for (written, expected) in [
        ("to: [{operation: {ports: ['9080']}}]", true),
        ("to: [{operation: {ports: ['443', '9081']}}]", false),
        ("to: [{operation: {ports: ['443']}}, {operation: {notPorts: ['80']}}]", true),
        ("to: [{operation: {notPorts: ['9080']}}]", false),
        ("when: [{key: destination.port, values: ['9080']}]", true),
        ("when: [{key: connection.sni, values: ['A.example', b.example]}]", true),
        ("when: [{key: connection.sni, values: ['*.example']}]", true),
        ("when: [{key: connection.sni, values: ['*.example'], notValues: [a.example]}]", false),
        ("when: [{key: source.ip, values: [10.64.0.4]}, {key: source.principal, values: ['*']}]", false),
        ("when: [{key: source.ip, notValues: [10.64.0.5]}, {key: source.namespace, notValues: [airline]}]", true),
    ] {
        assert_eq!(allows(&format!("{{rules: [{{{written}}}]}}"), &from(None)), expected, "{written}");
    }
}

fn texts() -> impl Strategy<Value = Values<Text>> {
    let text = prop_oneof!["[ab]{1,2}".prop_map(Text::Exact), "[ab]".prop_map(Text::Prefix), Just(Text::Present)];
    let list = prop::collection::vec(text, 0..2);
    (list.clone(), list).prop_map(|(any_of, none_of)| Values { any_of, none_of })
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let source = texts().prop_map(|namespaces| Source { namespaces, ..Source::default() });
    let rule = prop::collection::vec(source, 0..2).prop_map(|from| Rule {
        name: "p[0]".into(),
        from,
        to: Vec::new(),
        when: Vec::new(),
    });
    prop::collection::vec(rule, 0..3)
}

fn authorization() -> impl Strategy<Value = Authorization> {
    (rules(), prop::option::of(rules()), rules()).prop_map(|(deny, allow, audit)| Authorization { deny, allow, audit })
}

proptest! {
    #[test]
    fn more_denying_never_permits_more_and_more_allowing_never_refuses_more(
        authorization in authorization(), more in rules(), namespace in "[ab]{1,2}", known: bool
    ) {
        let id = SpiffeId { namespace: namespace.as_str().into(), ..id("x") };
        let connection = from(known.then_some(&id));
        let permitted = |authorization: &Authorization| authorization.decide(&connection).outcome.is_ok();
        let mut stricter = authorization.clone();
        stricter.deny.extend(more.clone());
        prop_assert!(!permitted(&stricter) || permitted(&authorization));
        let mut wider = authorization.clone();
        if let Some(allow) = &mut wider.allow {
            allow.extend(more.clone());
        }
        prop_assert!(permitted(&wider) || !permitted(&authorization));
        let mut audited = authorization.clone();
        audited.audit.extend(more);
        prop_assert_eq!(permitted(&audited), permitted(&authorization));
    }

    #[test]
    fn a_rule_that_matches_denies_or_allows_by_where_it_stands(rules in rules(), namespace in "[ab]{1,2}") {
        let id = SpiffeId { namespace: namespace.as_str().into(), ..id("x") };
        let connection = from(Some(&id));
        let denying = Authorization { deny: rules.clone(), ..Authorization::default() };
        let allowing = Authorization { allow: Some(rules.clone()), ..Authorization::default() };
        let auditing = Authorization { audit: rules, ..Authorization::default() };
        let matched = denying.decide(&connection).outcome.is_err();
        prop_assert_eq!(matched, allowing.decide(&connection).outcome.is_ok());
        prop_assert_eq!(matched, !auditing.decide(&connection).audited.is_empty());
    }
}
