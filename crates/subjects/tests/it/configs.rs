//! Configurations as written, and as the real proxies judge them.

use crate::{fixtures, process};
use meshtoll_identity::MeshCa;
use meshtoll_model::{
    process::{ProcessSpec, Program},
    topology::ProxyMarking,
};
use meshtoll_policy::routes::{Endpoints, PeerMtls, Unmatched, UpstreamTls};
use meshtoll_subjects::{
    Envoy, Subject, Unsupported,
    nginx::{SniProxy, sni_proxy},
};
use std::net::Ipv4Addr;

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
