//! Istio's rules of precedence, beyond what the experiment needs.

use crate::common::{egress_gateway, gateway, http, resources, sni, tcp, topology};
use meshtoll_model::istio::CheckedResources;
use meshtoll_policy::{
    CompileError, compile_gateway, compile_sidecar,
    routes::{ClientCertificate, PeerMtls, SidecarRoutes, Unmatched, UpstreamTls},
};

fn sidecar(yaml: &str) -> SidecarRoutes {
    compiled(&resources(yaml), "booking")
}

fn compiled(resources: &CheckedResources, workload: &str) -> SidecarRoutes {
    compile_sidecar(resources, &topology("test", Some(&egress_gateway())), &workload.into())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn peer_authentication(name: &str, namespace: &str, mode: &str, app: Option<&str>) -> String {
    let selector = app.map(|app| format!("  selector: {{matchLabels: {{app: {app}}}}}\n")).unwrap_or_default();
    format!(
        "---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec:\n{selector}  mtls: {{mode: {mode}}}\n"
    )
}

fn destination_rule(name: &str, namespace: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {spec}\n"
    )
}

fn service_entry(name: &str, hosts: &str, rest: &str) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: airline}}\n\
         spec: {{hosts: [{hosts}], ports: [{{number: 443, name: tls, protocol: TLS}}], {rest}}}\n"
    )
}

#[test]
fn without_resources_services_are_permissive_and_nothing_else_is_known() {
    let routes = compiled(&CheckedResources::default(), "auth");
    assert_eq!(routes.inbound[0].mtls, PeerMtls::Permissive);
    assert_eq!((routes.sni.len(), routes.http.len(), routes.unmatched), (0, 4, Unmatched::RegistryOnly));
}

#[test]
fn the_narrowest_peer_authentication_that_says_anything_holds() {
    let yaml = [
        peer_authentication("mesh", "istio-system", "STRICT", None),
        peer_authentication("namespace", "airline", "DISABLE", None),
        peer_authentication("flight", "airline", "PERMISSIVE", Some("flight")),
        peer_authentication("auth", "airline", "UNSET", Some("auth")),
    ];
    let mode = |yaml: &str, workload| compiled(&resources(yaml), workload).inbound[0].mtls;
    assert_eq!(mode(&yaml[..1].concat(), "booking"), PeerMtls::Strict);
    assert_eq!(mode(&yaml.concat(), "booking"), PeerMtls::Disable);
    assert_eq!(mode(&yaml.concat(), "flight"), PeerMtls::Permissive);
    assert_eq!(mode(&yaml.concat(), "auth"), PeerMtls::Disable);
}

#[test]
fn callers_of_a_plain_service_send_plain() {
    let yaml = peer_authentication("customer", "airline", "DISABLE", Some("customer"))
        + &destination_rule("flight", "airline", "{host: flight, trafficPolicy: {tls: {mode: DISABLE}}}")
        + &destination_rule(
            "auth",
            "airline",
            "{host: auth, trafficPolicy: {tls: {mode: ISTIO_MUTUAL, sni: auth.example}}}",
        );
    insta::assert_snapshot!(http(&sidecar(&yaml)), @r"
    9080 auth.airline.svc.cluster.local auth auth.airline auth.airline.svc 10.96.0.1 -> outbound|9080||auth.airline.svc.cluster.local (10.64.0.1:9080, mutual TLS as auth.example with spiffe://cluster.local/ns/airline/sa/auth)
    9080 customer.airline.svc.cluster.local customer customer.airline customer.airline.svc 10.96.0.2 -> outbound|9080||customer.airline.svc.cluster.local (10.64.0.2:9080)
    9080 flight.airline.svc.cluster.local flight flight.airline flight.airline.svc 10.96.0.3 -> outbound|9080||flight.airline.svc.cluster.local (10.64.0.3:9080)
    9080 booking.airline.svc.cluster.local booking booking.airline booking.airline.svc 10.96.0.4 -> outbound|9080||booking.airline.svc.cluster.local (10.64.0.4:9080, mutual TLS as outbound_.9080_._.booking.airline.svc.cluster.local with spiffe://cluster.local/ns/airline/sa/booking)
    ");
}

#[test]
fn rules_of_the_callers_namespace_come_before_those_of_the_root_namespace() {
    let all = "{host: '*.airline.svc.cluster.local', trafficPolicy: {tls: {mode: DISABLE}}}";
    let flight =
        "{host: flight.airline.svc.cluster.local, trafficPolicy: {tls: {mode: ISTIO_MUTUAL, sni: root.example}}}";
    let root = destination_rule("flight", "istio-system", flight);
    assert!(http(&sidecar(&root)).contains("mutual TLS as root.example"));
    let both = root + &destination_rule("all", "airline", all);
    assert!(!http(&sidecar(&both)).contains("mutual TLS"));
}

#[test]
fn a_subset_overrides_its_rule_and_a_port_overrides_both() {
    const GATEWAY: &str = "---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: egress, namespace: airline}
spec:
  selector: {istio: egressgateway}
  servers:
    - {port: {number: 443, name: tls, protocol: TLS}, hosts: [a.example], tls: {mode: PASSTHROUGH}}
    - {port: {number: 443, name: tls, protocol: TLS}, hosts: [outer.example], tls: {mode: ISTIO_MUTUAL}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: airline}
spec:
  hosts: [a.example, outer.example]
  gateways: [mesh, egress]
  tls:
    - match: [{gateways: [mesh], port: 443, sniHosts: [a.example]}]
      route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, subset: a, port: {number: 443}}}]
    - match: [{gateways: [egress], sniHosts: [a.example]}]
      route: [{destination: {host: a.example, port: {number: 443}}}]
  tcp:
    - match: [{gateways: [egress]}]
      route: [{destination: {host: a.example}}]
";
    let base = service_entry("a", "a.example", "resolution: DNS") + GATEWAY;
    let tls = |policy: &str, subset: &str| {
        let spec = format!(
            "{{host: istio-egressgateway.istio-system.svc.cluster.local, trafficPolicy: {policy}, subsets: [{{name: a, \
             trafficPolicy: {subset}}}]}}"
        );
        sni(&sidecar(&(base.clone() + &destination_rule("a", "airline", &spec))))
            .contains("mutual TLS as outer.example")
    };
    let (mutual, plain) = ("tls: {mode: ISTIO_MUTUAL, sni: outer.example}", "tls: {mode: DISABLE}");
    let port = |tls: &str| format!("{{portLevelSettings: [{{port: {{number: 443}}, {tls}}}]}}");
    let all = |tls: &str| format!("{{{tls}}}");
    assert!(tls(&all(mutual), "{}"));
    assert!(!tls(&all(mutual), &all(plain)));
    assert!(tls(&all(plain), &port(mutual)));
    assert!(tls(&port(mutual), "{}"));
    assert!(!tls(&all(mutual), &port("loadBalancer: {simple: ROUND_ROBIN}")), "port settings do not inherit");
}

#[test]
fn endpoints_by_resolution() {
    let yaml = service_entry("none", "'*.none.example'", "resolution: NONE")
        + &service_entry("dns", "dns.example", "resolution: DNS")
        + &service_entry(
            "other",
            "'*.other.example'",
            "resolution: DNS, endpoints: [{address: real.example, ports: {tls: 8443}}]",
        )
        + &service_entry("static", "static.example", "resolution: STATIC, endpoints: [{address: 203.0.113.7}]")
        + &service_entry("hidden", "hidden.example", "resolution: DNS, exportTo: [elsewhere]");
    insta::assert_snapshot!(sni(&sidecar(&yaml)), @r"
    443 static.example -> outbound|443||static.example (203.0.113.7:443)
    443 dns.example -> outbound|443||dns.example (dns dns.example:443)
    443 *.other.example -> outbound|443||*.other.example (dns real.example:8443)
    443 *.none.example -> outbound|443||*.none.example (original destination)
    ");
}

#[test]
fn a_virtual_service_replaces_the_routes_of_the_hosts_it_is_about() {
    let yaml = service_entry("all", "'*.example'", "resolution: NONE")
        + &service_entry("real", "real.example, other.example", "resolution: DNS")
        + "---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: redirect, namespace: airline}
spec:
  hosts: ['*.b.example']
  tls:
    - match: [{port: 443, sniHosts: [a.b.example, '*.b.example']}]
      route: [{destination: {host: real.example}}]
";
    insta::assert_snapshot!(sni(&sidecar(&yaml)), @r"
    443 other.example -> outbound|443||other.example (dns other.example:443)
    443 real.example a.b.example *.b.example -> outbound|443||real.example (dns real.example:443)
    ");
}

#[test]
fn a_gateway_chooses_the_most_specific_name() {
    let yaml = service_entry("all", "a.example, b.example", "resolution: DNS")
        + "---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: egress, namespace: istio-system}
spec:
  selector: {istio: egressgateway}
  servers:
    - {port: {number: 443, name: tls, protocol: TLS}, hosts: ['*.example'], tls: {mode: PASSTHROUGH}}
    - {port: {number: 8443, name: tls, protocol: TLS}, hosts: ['*'], tls: {mode: ISTIO_MUTUAL}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: airline}
spec:
  hosts: ['*.example']
  gateways: [mesh, istio-system/egress]
  tls:
    - match: [{gateways: [mesh], sniHosts: [a.example]}]
      route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, port: {number: 443}}}]
    - match: [{gateways: [mesh], sniHosts: [b.example]}]
      route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, subset: mutual, port: {number: 8443}}}]
    - match: [{gateways: [istio-system/egress], port: 443, sniHosts: ['*.example', a.b.example]}]
      route: [{destination: {host: a.example}}]
    - match: [{gateways: [istio-system/egress], port: 443, sniHosts: ['*.b.example']}]
      route: [{destination: {host: b.example}}]
  tcp:
    - match: [{gateways: [istio-system/egress], port: 8443}]
      route: [{destination: {host: b.example}}]
"
        + &destination_rule(
            "mutual",
            "istio-system",
            "{host: istio-egressgateway.istio-system.svc.cluster.local, subsets: [{name: mutual, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}]}",
        );
    let resources = resources(&yaml);
    let topology = topology("test", Some(&egress_gateway()));
    insta::assert_snapshot!(sni(&compiled(&resources, "auth")), @r"
    443 a.example -> outbound|443||istio-egressgateway.istio-system.svc.cluster.local (10.64.0.100:443)
    443 b.example -> outbound|8443|mutual|istio-egressgateway.istio-system.svc.cluster.local (10.64.0.100:8443, mutual TLS as outbound_.8443_.mutual_.istio-egressgateway.istio-system.svc.cluster.local with spiffe://cluster.local/ns/istio-system/sa/istio-egressgateway-service-account)
    ");
    insta::assert_snapshot!(gateway(&compile_gateway(&resources, &topology).unwrap()), @r"
    443 Passthrough a.b.example -> outbound|443||a.example (dns a.example:443)
    443 Passthrough *.b.example -> outbound|443||b.example (dns b.example:443)
    443 Passthrough *.example -> outbound|443||a.example (dns a.example:443)
    8443 IstioMutual * with b.example inside, under any of [outbound_.8443_.mutual_.istio-egressgateway.istio-system.svc.cluster.local] -> outbound|443||b.example (dns b.example:443)
    ");
}

#[test]
fn what_the_topology_lacks_is_an_error() {
    let resources = CheckedResources::default();
    let topology = topology("bypass", None);
    let error = compile_sidecar(&resources, &topology, &"audit".into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "case bypass has no service `audit`: its services are auth, customer, flight, booking"
    );
    assert_eq!(compile_gateway(&resources, &topology).unwrap_err(), CompileError::NoGateway { case: "bypass".into() });
}

fn entry(name: &str, host: &str, ports: &str, rest: &str) -> String {
    format!(
        "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: airline}}\n\
         spec: {{hosts: [{host}], ports: [{ports}], {rest}}}\n"
    )
}

#[test]
fn http_outside_of_the_mesh_is_told_apart_by_host() {
    const HTTP: &str = "{number: 80, name: http, protocol: HTTP}";
    let yaml = entry("wild", "'*.example'", HTTP, "resolution: NONE")
        + &entry("api", "api.example, www.example", HTTP, "resolution: DNS")
        + &entry("hidden", "hidden.example", HTTP, "resolution: DNS, exportTo: [elsewhere]");
    let routes = sidecar(&yaml);
    let outside: Vec<_> = routes.http.iter().filter(|route| route.port == 80).cloned().collect();
    assert!(outside.iter().all(|route| route.virtual_ip.is_none()));
    let routes = SidecarRoutes { http: outside, ..routes };
    insta::assert_snapshot!(http(&routes), @r"
    80 api.example -> outbound|80||api.example (dns api.example:80)
    80 www.example -> outbound|80||www.example (dns www.example:80)
    80 *.example -> outbound|80||*.example (original destination)
    ");
}

#[test]
fn plain_tcp_is_told_apart_by_address_the_narrowest_range_first() {
    const TCP: &str = "{number: 5432, name: tcp, protocol: TCP}";
    let yaml = entry("any", "any.example", TCP, "resolution: DNS")
        + &entry("wide", "wide.example", TCP, "resolution: DNS, addresses: [192.0.2.0/24, 198.51.100.0/24]")
        + &entry("narrow", "narrow.example", TCP, "resolution: NONE, addresses: [192.0.2.7]")
        + &entry("hidden", "hidden.example", TCP, "resolution: DNS, exportTo: [elsewhere]");
    insta::assert_snapshot!(tcp(&sidecar(&yaml)), @r"
    5432 192.0.2.7/32 -> outbound|5432||narrow.example (original destination)
    5432 192.0.2.0/24 198.51.100.0/24 -> outbound|5432||wide.example (dns wide.example:5432)
    5432 any -> outbound|5432||any.example (dns any.example:5432)
    ");
}

#[test]
fn every_endpoint_keeps_its_port() {
    let endpoints =
        "resolution: STATIC, endpoints: [{address: 203.0.113.7}, {address: 203.0.113.8, ports: {tls: 8443}}]";
    let yaml =
        entry("static", "static.example", "{number: 443, name: tls, protocol: HTTPS, targetPort: 9443}", endpoints);
    insta::assert_snapshot!(sni(&sidecar(&yaml)), @"443 static.example -> outbound|443||static.example (203.0.113.7:9443,203.0.113.8:8443)");
}

#[test]
fn sidecars_speak_tls_for_applications_that_do_not() {
    let tls = |spec: &str| {
        let yaml = entry(
            "db",
            "db.example",
            "{number: 80, name: http, protocol: HTTP, targetPort: 443}, {number: 443, name: tls, protocol: TLS}",
            "resolution: DNS",
        ) + &destination_rule("db", "airline", spec);
        let routes = sidecar(&yaml);
        assert_eq!(routes.sni[0].upstream.tls, UpstreamTls::None);
        match &routes.http.last().unwrap().upstream.tls {
            UpstreamTls::Originate(tls) => tls.clone(),
            other => panic!("{other:?}"),
        }
    };
    let simple =
        tls("{host: db.example, trafficPolicy: {portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE}}]}}");
    assert_eq!(
        (simple.sni.as_str(), simple.subject_alt_names.as_slice()),
        ("db.example", ["db.example".to_owned()].as_slice())
    );
    assert_eq!((simple.ca_certificates, simple.client), (None, None));
    let mutual = tls(
        "{host: '*.example', trafficPolicy: {tls: {mode: DISABLE}, portLevelSettings: [{port: {number: 80}, tls: {mode: MUTUAL, \
         sni: other.example, subjectAltNames: [a.example, b.example], caCertificates: /certs/ca.pem, clientCertificate: \
         /certs/chain.pem, privateKey: /certs/key.pem}}]}}",
    );
    assert_eq!(
        (mutual.sni.as_str(), mutual.subject_alt_names.join(" ").as_str()),
        ("other.example", "a.example b.example")
    );
    assert_eq!(mutual.ca_certificates, Some("/certs/ca.pem".into()));
    assert_eq!(
        mutual.client,
        Some(ClientCertificate { chain: "/certs/chain.pem".into(), key: "/certs/key.pem".into() })
    );
}

#[test]
fn what_a_gateway_ends_may_be_anything_where_it_leads_to_plain_tcp() {
    let yaml = entry("a", "a.example", "{number: 443, name: tls, protocol: TLS}", "resolution: DNS")
        + &entry(
            "plain",
            "plain.example",
            "{number: 80, name: tcp, protocol: TCP}",
            "resolution: DNS, exportTo: [istio-system]",
        )
        + &destination_rule("plain", "istio-system", "{host: plain.example, trafficPolicy: {tls: {mode: SIMPLE}}}")
        + &destination_rule(
            "egress",
            "airline",
            "{host: istio-egressgateway.istio-system.svc.cluster.local, trafficPolicy: {tls: {mode: ISTIO_MUTUAL, sni: a.example}}}",
        )
        + "---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: egress, namespace: airline}
spec:
  selector: {istio: egressgateway}
  servers:
    - {port: {number: 443, name: tls, protocol: TLS}, hosts: [a.example], tls: {mode: ISTIO_MUTUAL}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: airline}
spec:
  hosts: [a.example]
  gateways: [mesh, egress]
  tls:
    - match: [{gateways: [mesh], sniHosts: [a.example]}]
      route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, port: {number: 443}}}]
  tcp:
    - match: [{gateways: [egress]}]
      route: [{destination: {host: plain.example}}]
";
    let routes = compile_gateway(&resources(&yaml), &topology("test", Some(&egress_gateway()))).unwrap();
    insta::assert_snapshot!(gateway(&routes), @"443 IstioMutual a.example -> outbound|80||plain.example (dns plain.example:80, TLS as plain.example)");
}
