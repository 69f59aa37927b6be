//! AuthorizationPolicies at the gateway, with traffic.

use crate::{
    fixtures::{self, DATABASE, HOUR},
    network,
    process::{self, Running, User},
    tls::exchange,
};
use meshtoll_identity::MeshCa;
use meshtoll_model::{cidr::Cidr, process::Program, topology::ProxyMarking};
use meshtoll_policy::{
    authorization::{Authorization, Condition, Operation, Rule, Source, Text, Values},
    routes::GatewayTls,
};
use meshtoll_subjects::{Envoy, Subject};
use std::net::Ipv4Addr;

const GATEWAY_PORT: u16 = 8443;
const DATABASE_PORT: u16 = 27017;

pub(crate) fn any_of<T>(values: impl IntoIterator<Item = T>) -> Values<T> {
    Values { any_of: values.into_iter().collect(), none_of: Vec::new() }
}

pub(crate) fn none_of<T>(values: impl IntoIterator<Item = T>) -> Values<T> {
    Values { any_of: Vec::new(), none_of: values.into_iter().collect() }
}

pub(crate) fn rule(name: &str, from: Vec<Source>, to: Vec<Operation>, when: Vec<Condition>) -> Rule {
    Rule { name: name.to_owned(), from, to, when }
}

/// Every kind of rule and match.
pub(crate) fn everything() -> Authorization {
    let texts = || [Text::Exact("a.b".into()), Text::Prefix("c".into()), Text::Suffix("d".into()), Text::Present];
    let block = || Cidr::around(Ipv4Addr::new(10, 10, 0, 0), 16);
    let source = Source { principals: any_of(texts()), namespaces: none_of(texts()), ip_blocks: any_of([block()]) };
    let when = vec![
        Condition::Principal(none_of(texts())),
        Condition::Namespace(any_of(texts())),
        Condition::SourceIp(none_of([block()])),
        Condition::DestinationPort(Values { any_of: vec![1, 2], none_of: vec![2] }),
        Condition::Sni(Values { any_of: texts().to_vec(), none_of: texts().to_vec() }),
    ];
    let to = vec![Operation { ports: any_of([1]) }, Operation { ports: none_of([2, 3]) }];
    let all = || rule("default/all[0]", vec![source.clone(), Source::default()], to.clone(), when.clone());
    let nothing = || rule("default/nothing[0]", Vec::new(), Vec::new(), Vec::new());
    Authorization { deny: vec![all(), nothing()], allow: Some(vec![all(), nothing()]), audit: vec![all()] }
}

/// Whether a workload gets through a gateway with these policies.
fn passes(policies: &Authorization, workload: &str) -> Option<bool> {
    let envoy = process::find(&Program::Envoy)?;
    if !network::enter_namespace() {
        return None;
    }
    network::dns();
    network::echo(DATABASE_PORT);
    let ca = MeshCa::new("cluster.local").unwrap();
    let mesh = fixtures::Mesh::new(&ca, &fixtures::egress_gateway());
    let mut routes = fixtures::gateway();
    routes.servers.retain(|server| server.port == GATEWAY_PORT);
    let route = &mut routes.servers[0].routes[0];
    assert_eq!(route.tls, GatewayTls::IstioMutual);
    route.authorization = policies.clone();
    let spec = Envoy.gateway(&routes, &mesh.context("egress-gateway", ProxyMarking::Uid)).unwrap();
    let _gateway = Running::start(&spec, &envoy, User::Proxy);
    let workload = ca.issue(&fixtures::identity("default", workload), HOUR).unwrap();
    Some(exchange(GATEWAY_PORT, DATABASE, &ca.trust_bundle_pem(), Some(&workload), b"find").is_ok())
}

fn from(source: Source) -> Vec<Rule> {
    vec![rule("default/one[0]", vec![source], Vec::new(), Vec::new())]
}

fn when(condition: Condition) -> Vec<Rule> {
    vec![rule("default/one[0]", Vec::new(), Vec::new(), vec![condition])]
}

fn principal(text: Text) -> Source {
    Source { principals: any_of([text]), ..Source::default() }
}

fn namespace(text: Text) -> Source {
    Source { namespaces: any_of([text]), ..Source::default() }
}

#[test]
fn policies_decide_as_they_are_compiled() {
    let booking = || Text::Exact("cluster.local/ns/default/sa/booking".into());
    let allow = |rules| Authorization { allow: Some(rules), ..Authorization::default() };
    let deny = |rules| Authorization { deny: rules, ..Authorization::default() };
    let address =
        |last| Source { ip_blocks: any_of([Cidr::around(Ipv4Addr::new(127, 0, 0, last), 32)]), ..Source::default() };
    let to = |port| vec![rule("default/one[0]", Vec::new(), vec![Operation { ports: any_of([port]) }], Vec::new())];
    let denied_anyway = Authorization { deny: from(principal(booking())), ..allow(from(Source::default())) };
    let audited = Authorization { audit: from(principal(booking())), ..Authorization::default() };
    for (what, policies, workload, expected) in [
        ("nobody is allowed", allow(Vec::new()), "booking", false),
        ("exact principal", allow(from(principal(booking()))), "booking", true),
        ("another principal", allow(from(principal(booking()))), "flight", false),
        ("start of a principal", allow(from(principal(Text::Prefix("cluster.local/ns/def".into())))), "flight", true),
        ("end of a principal", allow(from(principal(Text::Suffix("/sa/flight".into())))), "flight", true),
        ("end of another", allow(from(principal(Text::Suffix("/sa/fl.*t".into())))), "flight", false),
        ("namespace", allow(from(namespace(Text::Exact("default".into())))), "booking", true),
        ("part of a namespace", allow(from(namespace(Text::Exact("defaul".into())))), "booking", false),
        ("start of a namespace", allow(from(namespace(Text::Prefix("defaul".into())))), "booking", true),
        ("address", allow(from(address(1))), "booking", true),
        ("another address", allow(from(address(2))), "booking", false),
        ("port", allow(to(GATEWAY_PORT)), "booking", true),
        ("another port", allow(to(443)), "booking", false),
        (
            "server name",
            allow(when(Condition::Sni(any_of([Text::Suffix(".MONGODB.example".into())])))),
            "booking",
            true,
        ),
        ("another server name", allow(when(Condition::Sni(any_of([Text::Exact("a.b".into())])))), "booking", false),
        ("all but one", deny(when(Condition::Principal(none_of([booking()])))), "booking", true),
        ("all but another", deny(when(Condition::Principal(none_of([booking()])))), "flight", false),
        ("DENY before ALLOW", denied_anyway.clone(), "booking", false),
        ("another may", denied_anyway, "flight", true),
        ("AUDIT refuses nobody", audited, "booking", true),
    ] {
        let Some(passed) = passes(&policies, workload) else { return };
        assert_eq!(passed, expected, "{what}");
    }
}
