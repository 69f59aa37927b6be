//! nginx as SNI proxy, with traffic, alone and behind the gateway.

use crate::{
    fixtures, network,
    process::{self, Running, User, http_get},
    tls::{client_hello, exchange},
};
use meshtoll_identity::MeshCa;
use meshtoll_model::{
    process::{ProcessSpec, Program},
    topology::{HttpHandling, ProxyMarking, ProxySettings},
};
use meshtoll_subjects::{
    Envoy, Subject,
    nginx::{self, STATUS_PATH, STATUS_PORT, SniProxy, SniProxyCounters, sni_proxy},
};
use std::net::Ipv4Addr;

const LISTEN_PORT: u16 = 18443;
const GATEWAY_PORT: u16 = 8443;
const DATABASE_PORT: u16 = 27017;

fn spec() -> ProcessSpec {
    let settings = ProxySettings { worker_threads: 1, access_log: true, http: HttpHandling::Full, registry_only: true };
    let names = ["*.mongodb.example".to_owned()];
    sni_proxy(&SniProxy {
        workload: "egress-gateway",
        listen_port: LISTEN_PORT,
        names: &names,
        upstream_port: DATABASE_PORT,
        dns: Ipv4Addr::LOCALHOST,
        settings: &settings,
    })
    .unwrap()
}

#[test]
fn the_sni_proxy_relays_hosts_of_the_wildcard_alone() {
    let Some(nginx_program) = process::find(&Program::Nginx) else { return };
    if !network::enter_namespace() {
        return;
    }
    network::dns();
    network::echo(DATABASE_PORT);
    let proxy = Running::start(&spec(), &nginx_program, User::Proxy);
    let bundle = MeshCa::new("cluster.local").unwrap().trust_bundle_pem();

    for (name, passes) in [
        ("airline.mongodb.example", true),
        ("a.b.mongodb.example", true),
        ("mongodb.example", false),
        ("mongodb.example.unknown.example", false),
        ("localhost", false),
    ] {
        let hello = client_hello(name, &bundle);
        assert_eq!(network::echoed(LISTEN_PORT, &hello), passes.then_some(hello), "{name}");
    }
    assert_eq!(network::echoed(LISTEN_PORT, b"GET / HTTP/1.1\r\n\r\n"), None, "no TLS, no name");

    let expected = SniProxyCounters { connections: 6, active: 0, dropped: 0 };
    process::until(
        || {
            let (_, answer) = http_get(STATUS_PORT, STATUS_PATH)?;
            (nginx::counters(&answer).unwrap() == expected).then_some(())
        },
        "the SNI proxy's counters are not the connections made",
    );
    assert!(proxy.end().file("access.log").contains("airline.mongodb.example 127.0.0.1:27017 200"));
}

#[test]
fn the_gateway_reaches_hosts_of_the_wildcard_through_the_sni_proxy() {
    let (Some(envoy), Some(nginx)) = (process::find(&Program::Envoy), process::find(&Program::Nginx)) else { return };
    if !network::enter_namespace() {
        return;
    }
    network::dns();
    network::echo(DATABASE_PORT);
    let ca = MeshCa::new("cluster.local").unwrap();
    let mesh = fixtures::Mesh::new(&ca, &fixtures::egress_gateway());
    let context = mesh.context("egress-gateway", ProxyMarking::Uid);
    let gateway = Envoy.gateway(&fixtures::gateway_with_sni_proxy(LISTEN_PORT), &context).unwrap();
    let _proxy = Running::start(&spec(), &nginx, User::Proxy);
    let _gateway = Running::start(&gateway, &envoy, User::Proxy);

    let booking = ca.issue(&fixtures::booking(), fixtures::HOUR).unwrap();
    let through = |name| {
        let hello = client_hello(name, &mesh.trust_bundle);
        let outer = "egress.mongodb.example";
        exchange(GATEWAY_PORT, outer, &mesh.trust_bundle, Some(&booking), &hello).is_ok_and(|echoed| echoed == hello)
    };
    assert!(through("airline.mongodb.example"));
    assert!(!through("unknown.example"));
}
