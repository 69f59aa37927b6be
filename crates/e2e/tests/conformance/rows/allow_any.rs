//! Where a sidecar sends what its application opens, when any host may be reached.

use super::hello;
use crate::{
    client::{meet, reached},
    table::{Group, Kind, Mesh, Row},
    wire::line,
};

const YAML: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: exact, namespace: app}
spec:
  hosts: [exact.example]
  ports:
    - {number: 443, name: tls, protocol: TLS}
    - {number: 9000, name: tls-first, protocol: TLS}
    - {number: 9001, name: tls-lines, protocol: TLS}
  resolution: STATIC
  endpoints: [{address: 10.88.1.11}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: app}
spec: {hosts: [web.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
";

pub(crate) const GROUP: Group = Group {
    name: "allow-any",
    about: "The same, when any host may be reached (`ALLOW_ANY`).",
    mesh: Mesh { yaml: &[YAML], services: &[("client", Kind::Sidecar)], registry_only: false, ..Mesh::DEFAULT },
    rows: &[
        Row::new(
            "any_sni_known",
            "TLS to another address, with the server name of a ServiceEntry",
            "reaches one as exact.example",
            |world| meet(world.tls("client", "10.88.1.12:443", "exact.example")),
        ),
        Row::new(
            "any_sni_unknown",
            "TLS with a server name that no resource has",
            "reaches two as other.example",
            |world| meet(world.tls("client", "10.88.1.12:443", "other.example")),
        ),
        Row::new("any_sni_none", "TLS without a server name", "reaches two", |world| {
            meet(world.nameless_tls("client", "10.88.1.12:443"))
        }),
        Row::new("any_plain_on_tls_port", "plain text to a port of which only TLS is known", "reaches two", |world| {
            meet(world.connect("client", "10.88.1.12:9001"))
        }),
        Row::new("any_port_unknown", "TLS to a port that no resource has", "reaches two as other.example", |world| {
            meet(world.tls("client", "10.88.1.12:8444", "other.example"))
        }),
        Row::new(
            "any_server_first_on_tls_port",
            "a connection to a server that speaks first, on a port of which TLS is known",
            "reaches two",
            |world| {
                let mut socket = world.connect("client", "10.88.1.12:9000")?;
                match line(&mut socket) {
                    Ok(greeting) => reached(&greeting),
                    Err(error) => crate::client::ended(&error),
                }
            },
        )
        .differs(
            "silence",
            "Envoy waits for a ClientHello for as long as it takes, while client and server wait for each other. Meshtoll takes a \
             client that has said nothing for five seconds for one whose server has to speak first.",
        ),
        Row::new("any_http_known", "HTTP with the Host of a ServiceEntry", "reaches one for web.example", |world| {
            world.http("client", "10.88.1.12:80", "web.example")
        }),
        Row::new("any_http_unknown", "HTTP with a Host that no resource has", "reaches two for other.example", |world| {
            world.http("client", "10.88.1.12:80", "other.example")
        }),
        Row::new("any_loop", "a connection to the proxy's outbound port itself", "refused", |world| {
            meet(world.connect("client", "127.0.0.1:15001"))
        }),
        Row::new("any_nobody", "a connection to an address that refuses it", "refused", |world| {
            hello::says(world, "client", "10.88.1.12:9", b"hello")
        }),
    ],
};
