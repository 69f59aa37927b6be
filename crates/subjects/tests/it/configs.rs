//! Configurations as written, and as the real proxies judge them.

use crate::{authorization, fixtures, process};
use meshtoll_identity::MeshCa;
use meshtoll_model::{
    process::{ProcessSpec, Program},
    topology::{HttpHandling, ProxyMarking, ProxySettings},
};
use meshtoll_policy::routes::{
    ClientCertificate, Endpoints, GatewayTls, Origination, PeerMtls, TcpRoute, Unmatched, Upstream, UpstreamTls,
};
use meshtoll_subjects::{
    Envoy, Meshtoll, ProxyContext, Subject, Unsupported,
    nginx::{SniProxy, sni_proxy},
};
use std::net::{Ipv4Addr, SocketAddrV4};

fn file<'a>(spec: &'a ProcessSpec, name: &str) -> &'a str {
    &spec.files.iter().find(|file| file.name == name).unwrap().contents
}

#[test]
fn the_sidecar_of_a_service_in_envoys_words() {
    let mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::booking());
    let spec = Envoy.sidecar(&fixtures::sidecar(), &mesh.context("booking", ProxyMarking::SocketMark)).unwrap();
    insta::assert_snapshot!(file(&spec, "envoy.json"));
    insta::assert_snapshot!(spec.args.join(" "), @"-c envoy.json --concurrency 1 --log-level warning --disable-hot-restart");
}

#[test]
fn the_egress_gateway_in_envoys_words() {
    let mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::egress_gateway());
    let spec = Envoy.gateway(&fixtures::gateway(), &mesh.context("egress-gateway", ProxyMarking::Uid)).unwrap();
    insta::assert_snapshot!(file(&spec, "envoy.json"));
}

#[test]
fn services_without_http_in_envoys_words() {
    let mut mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::booking());
    mesh.settings.http = HttpHandling::Tcp;
    let mut routes = fixtures::sidecar();
    routes.http.truncate(1);
    routes.http[0].virtual_ip = Some(Ipv4Addr::new(10, 96, 0, 1));
    let spec = Envoy.sidecar(&routes, &mesh.context("booking", ProxyMarking::Uid)).unwrap();
    let config: serde_json::Value = serde_json::from_str(file(&spec, "envoy.json")).unwrap();
    let listeners = config["static_resources"]["listeners"].as_array().unwrap();
    let chains = |name: &str| {
        let chains = listeners.iter().find(|listener| listener["name"] == name).unwrap()["filter_chains"].clone();
        let chains = chains.as_array().unwrap().clone();
        chains
            .into_iter()
            .map(|chain| (chain["filter_chain_match"].clone(), chain["filters"][0]["typed_config"]["cluster"].clone()))
    };
    let [(matched, cluster)] = <[_; 1]>::try_from(Vec::from_iter(chains("0.0.0.0_9080"))).unwrap();
    assert_eq!(matched, serde_json::json!({ "prefix_ranges": [{ "address_prefix": "10.96.0.1", "prefix_len": 32 }] }));
    assert_eq!(cluster, "outbound|9080||flight.default.svc.cluster.local");
    assert_eq!(chains("virtualInbound").next_back().unwrap().1, "inbound|9080||");
    assert!(!file(&spec, "envoy.json").contains("http_connection_manager"));
}

#[test]
fn the_own_data_plane_compiles_the_same_resources() {
    let mut mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::booking());
    mesh.settings.access_log = true;
    let context = mesh.context("booking", ProxyMarking::Uid);
    let spec = Meshtoll.sidecar(&fixtures::sidecar(), &context).unwrap();
    insta::assert_snapshot!(spec.args.join(" "), @"proxy sidecar --mesh mesh.json --resources resources.yaml --workload booking --certificates . --admin 127.0.0.1:15000 --threads 1 --access-log access.log");
    assert_eq!(file(&spec, "resources.yaml"), "kind: one.yaml\n---\nkind: two.yaml\n");
    let topology: meshtoll_model::topology::Topology = serde_json::from_str(file(&spec, "mesh.json")).unwrap();
    assert_eq!(topology, mesh.topology);
    let gateway = Meshtoll.gateway(&fixtures::gateway(), &context).unwrap();
    assert_eq!((gateway.hop.as_str(), gateway.args[1].as_str()), ("booking/gateway", "gateway"));
    let counters = meshtoll_subjects::counters::Counters::default();
    assert_eq!(Meshtoll.counters(&serde_json::to_string(&counters).unwrap()).unwrap(), counters);
    assert!(Meshtoll.counters("no healthy upstream").is_err());
}

#[test]
fn http_cannot_be_told_from_tcp_to_any_address() {
    let mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::booking());
    let mut routes = fixtures::sidecar();
    routes.tcp = vec![TcpRoute { port: 9080, addresses: Vec::new(), upstream: fixtures::database_by_dns(27017) }];
    let error = Envoy.sidecar(&routes, &mesh.context("booking", ProxyMarking::Uid)).unwrap_err();
    assert!(matches!(error, Unsupported::HttpBesideAnyAddress { port: 9080, .. }), "{error}");
}

#[test]
fn names_of_connections_are_for_tls_that_is_passed_through() {
    let mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::booking());
    let mut routes = fixtures::sidecar();
    routes.http[0].upstream.endpoints = Endpoints::ServerName { port: 9080 };
    let error = Envoy.sidecar(&routes, &mesh.context("booking", ProxyMarking::Uid)).unwrap_err();
    assert!(matches!(error, Unsupported::ServerName { .. }), "{error}");
}

#[test]
fn the_key_is_the_one_secret_file() {
    let mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::booking());
    let spec = Envoy.sidecar(&fixtures::sidecar(), &mesh.context("booking", ProxyMarking::Uid)).unwrap();
    let files: Vec<_> = spec.files.iter().map(|file| (file.name.as_str(), file.secret)).collect();
    assert_eq!(files, [("envoy.json", false), ("cert-chain.pem", false), ("key.pem", true), ("root-cert.pem", false)]);
    assert!(spec.files.iter().all(|file| file.secret || !file.contents.contains("PRIVATE KEY")));
}

#[test]
fn envoy_accepts_every_configuration() {
    let Some(envoy) = process::find(&Program::Envoy) else { return };
    let mut mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::booking());
    let mut specs = Vec::new();
    for (marking, access_log) in [(ProxyMarking::Uid, false), (ProxyMarking::SocketMark, true)] {
        mesh.settings.access_log = access_log;
        let context = mesh.context("workload", marking);
        for unmatched in [Unmatched::AllowAny, Unmatched::RegistryOnly] {
            for mtls in [PeerMtls::Strict, PeerMtls::Permissive, PeerMtls::Disable] {
                for mut routes in [fixtures::sidecar(), fixtures::sidecar_of_gateway()] {
                    routes.unmatched = unmatched;
                    routes.inbound[0].mtls = mtls;
                    specs.push(Envoy.sidecar(&routes, &context).unwrap());
                }
            }
        }
        let mut mixed = fixtures::sidecar();
        mixed.sni[0].port = 9080;
        mixed.sni[0].names.push("*.mongodb.example".to_owned());
        mixed.sni[0].upstream.endpoints = Endpoints::OriginalDestination;
        specs.push(Envoy.sidecar(&mixed, &context).unwrap());
        let mut tcp = mixed.clone();
        let to = |last, prefix| meshtoll_model::cidr::Cidr::around(Ipv4Addr::new(10, 88, 0, last), prefix);
        let tcp_route = |port, addresses, last| TcpRoute {
            port,
            addresses,
            upstream: Upstream {
                name: format!("outbound|{port}||host{last}.example"),
                endpoints: Endpoints::Addresses(
                    [last, last + 1].map(|last| SocketAddrV4::new(Ipv4Addr::new(10, 88, 0, last), port)).to_vec(),
                ),
                tls: UpstreamTls::None,
            },
        };
        tcp.tcp = vec![
            tcp_route(27017, vec![to(0, 24), to(0, 24)], 1),
            tcp_route(27017, vec![to(7, 32)], 3),
            tcp_route(9080, vec![to(1, 32), to(2, 32)], 5),
            tcp_route(5432, Vec::new(), 7),
        ];
        tcp.tcp[2].upstream.tls = UpstreamTls::Originate(Origination {
            sni: "host5.example".to_owned(),
            subject_alt_names: Vec::new(),
            ca_certificates: Some("root-cert.pem".into()),
            client: Some(ClientCertificate { chain: "cert-chain.pem".into(), key: "key.pem".into() }),
        });
        tcp.inbound[0].authorization = authorization::everything();
        specs.push(Envoy.sidecar(&tcp, &context).unwrap());
        let mut by_name = fixtures::sidecar();
        by_name.sni[0].upstream = fixtures::hosts_by_server_name(27017);
        specs.push(Envoy.sidecar(&by_name, &context).unwrap());
        for tls in [GatewayTls::Passthrough, GatewayTls::IstioMutual] {
            let mut routes = fixtures::gateway_of_wildcard(tls, 27017);
            routes.servers[0].routes[0].authorization = authorization::everything();
            specs.push(Envoy.gateway(&routes, &context).unwrap());
        }
        let relayed = ProxySettings { http: HttpHandling::Tcp, ..mesh.settings.clone() };
        let context = ProxyContext { settings: &relayed, ..context };
        for mut routes in [fixtures::sidecar(), tcp] {
            for (place, route) in (1..).zip(&mut routes.http) {
                route.virtual_ip = Some(Ipv4Addr::new(10, 96, 0, place));
            }
            specs.push(Envoy.sidecar(&routes, &context).unwrap());
            // A host outside of the mesh has no address of its own, and is read.
            routes.http[0].virtual_ip = None;
            specs.push(Envoy.sidecar(&routes, &context).unwrap());
        }
        let context = mesh.context("workload", marking);
        let mut alone = fixtures::sidecar();
        alone.inbound.clear();
        alone.http.clear();
        alone.sni.clear();
        specs.push(Envoy.sidecar(&alone, &context).unwrap());
        specs.push(Envoy.gateway(&fixtures::gateway(), &context).unwrap());
        specs.push(Envoy.gateway(&fixtures::gateway_with_sni_proxy(18443), &context).unwrap());
    }
    for spec in specs {
        let output =
            process::check(&spec, &envoy, &["--mode", "validate", "-c", "envoy.json", "--log-level", "warning"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}\n{}", file(&spec, "envoy.json"));
        assert!(!said.contains("deprecated"), "{said}");
    }
}

#[test]
fn nginx_accepts_the_configuration() {
    let Some(nginx) = process::find(&Program::Nginx) else { return };
    let mut mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::egress_gateway());
    // A name that is covered, or said twice, is said once: nginx refuses others.
    let names = [fixtures::DATABASE, "*.mongodb.example", fixtures::DATABASE].map(str::to_owned);
    for access_log in [false, true] {
        mesh.settings.access_log = access_log;
        let proxy = SniProxy {
            workload: "egress-gateway",
            listen_port: 18443,
            names: &names,
            upstream_port: 27017,
            dns: Ipv4Addr::LOCALHOST,
            settings: &mesh.settings,
        };
        let spec = sni_proxy(&proxy).unwrap();
        if !access_log {
            insta::assert_snapshot!(file(&spec, "nginx.conf"));
        }
        let mut args: Vec<&str> = spec.args.iter().map(String::as_str).collect();
        args.push("-t");
        let output = process::check(&spec, &nginx, &args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_gateway_has_no_original_destination() {
    let mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::egress_gateway());
    let mut routes = fixtures::gateway();
    routes.servers[0].routes[0].upstream.endpoints = Endpoints::OriginalDestination;
    let error = Envoy.gateway(&routes, &mesh.context("egress-gateway", ProxyMarking::Uid)).unwrap_err();
    assert!(matches!(error, Unsupported::OriginalDestination { .. }), "{error}");
}

#[test]
fn upstreams_that_share_a_name_have_to_be_the_same() {
    let mesh = fixtures::Mesh::new(&MeshCa::new("cluster.local").unwrap(), &fixtures::booking());
    let mut routes = fixtures::sidecar_of_gateway();
    routes.sni[1].names = vec!["other.mongodb.example".to_owned()];
    routes.sni[1].upstream.name = routes.sni[0].upstream.name.clone();
    routes.sni[1].upstream.tls = UpstreamTls::None;
    let error = Envoy.sidecar(&routes, &mesh.context("booking", ProxyMarking::Uid)).unwrap_err();
    assert!(matches!(error, Unsupported::AmbiguousUpstream { .. }), "{error}");
}
