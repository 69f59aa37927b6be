//! Where a sidecar sends what its application opens, when only registered hosts may be reached.

use super::hello::{self, Manner};
use crate::{
    client::{meet, until},
    table::{Group, Kind, Mesh, Row, Seen},
    world::{ONE, TWO, World},
};

const YAML: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: exact, namespace: app}
spec: {hosts: [exact.example], ports: [{number: 443, name: tls, protocol: TLS}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wild, namespace: app}
spec: {hosts: ['*.wild.example'], ports: [{number: 443, name: tls, protocol: TLS}], resolution: STATIC, endpoints: [{address: 10.88.1.12}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: deep, namespace: app}
spec: {hosts: [deep.wild.example], ports: [{number: 443, name: tls, protocol: TLS}], resolution: STATIC, endpoints: [{address: 10.88.1.13}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: dns, namespace: app}
spec: {hosts: [dns.example], ports: [{number: 443, name: tls, protocol: TLS}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: missing, namespace: app}
spec: {hosts: [missing.test], ports: [{number: 443, name: tls, protocol: TLS}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: app}
spec: {hosts: [web.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: webs, namespace: app}
spec: {hosts: ['*.web.example'], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.88.1.12}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tcp, namespace: app}
spec: {hosts: [tcp.example], addresses: [10.99.0.1], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.12}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: first, namespace: app}
spec: {hosts: [first.example], addresses: [10.99.0.2], ports: [{number: 9000, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: range, namespace: app}
spec: {hosts: [range.example], addresses: [10.99.1.0/24], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.13}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: narrow, namespace: app}
spec: {hosts: [narrow.example], addresses: [10.99.1.7], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: several, namespace: app}
spec: {hosts: [several.example], addresses: [10.99.0.3], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.12, ports: {tcp: 9}}, {address: 10.88.1.11}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: dead, namespace: app}
spec: {hosts: [dead.example], addresses: [10.99.0.4], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.12, ports: {tcp: 9}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: unreachable, namespace: app}
spec: {hosts: [unreachable.example], addresses: [10.99.0.5], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.99}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: pair, namespace: app}
spec: {hosts: [pair.example], addresses: [10.99.0.6], ports: [{number: 9002, name: tcp, protocol: TCP}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: original, namespace: app}
spec: {hosts: ['*.orig.example'], ports: [{number: 443, name: tls, protocol: TLS}], resolution: NONE}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: app}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: off, namespace: app}
spec: {selector: {matchLabels: {app: off}}, mtls: {mode: PERMISSIVE}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: off, namespace: app}
spec: {host: off.app.svc.cluster.local, trafficPolicy: {tls: {mode: DISABLE}}}
";

const NO_LIMIT: &str = "Istio sets no time limit for what Envoy's listener filters wait for, so that a client that stops half way holds \
     its connection for ever. Meshtoll gives it five seconds.";

const ONE_TRY: &str = "Envoy's TCP proxy tries one endpoint and gives up, as Istio configures it. Meshtoll tries the next: nothing has \
     been sent yet, so that it costs nothing but time.";

/// Whom connections reach that may meet an address that refuses.
fn twenty(world: &World, to: &str) -> Seen {
    let seen = (0..20).map(|_| meet(world.connect("client", to)));
    let seen: Vec<String> = seen.collect::<Result<_, _>>()?;
    Ok(match seen.iter().filter(|seen| *seen == "reaches one").count() {
        20 => "all reach one".into(),
        0 => "none reaches one".into(),
        _ => "some reach one, others are refused".into(),
    })
}

pub(crate) const GROUP: Group = Group {
    name: "outbound",
    about: "Where a sidecar sends what its application opens, when only registered hosts may be reached (`REGISTRY_ONLY`).",
    mesh: Mesh {
        yaml: &[YAML],
        services: &[
            ("client", Kind::Sidecar),
            ("server", Kind::Sidecar),
            ("impostor", Kind::Impostor),
            ("bare", Kind::Bare),
            ("off", Kind::Bare),
        ],
        ..Mesh::DEFAULT
    },
    rows: &[
        Row::new(
            "sni_exact",
            "TLS to another server's address, with the server name of a ServiceEntry",
            "reaches one as exact.example",
            |world| meet(world.tls("client", "10.88.1.13:443", "exact.example")),
        ),
        Row::new("sni_wildcard", "TLS with a server name of a wildcard", "reaches two as a.wild.example", |world| {
            meet(world.tls("client", "10.88.1.13:443", "a.wild.example"))
        }),
        Row::new(
            "sni_wildcard_several_labels",
            "TLS with a server name two labels below a wildcard",
            "reaches two as a.deep.wild.example",
            |world| meet(world.tls("client", "10.88.1.13:443", "a.deep.wild.example")),
        ),
        Row::new(
            "sni_most_specific_first",
            "TLS with a server name that an exact host and a wildcard match",
            "reaches three as deep.wild.example",
            |world| meet(world.tls("client", "10.88.1.11:443", "deep.wild.example")),
        ),
        Row::new(
            "sni_any_case",
            "TLS with a server name in capitals",
            "reaches one",
            |world| {
                let seen = meet(world.tls("client", "10.88.1.13:443", "EXACT.Example"))?;
                Ok(if seen.eq_ignore_ascii_case("reaches one as exact.example") { "reaches one".into() } else { seen })
            },
        ),
        Row::new("sni_unknown", "TLS with a server name that no resource has", "refused", |world| {
            meet(world.tls("client", "10.88.1.11:443", "other.example"))
        }),
        Row::new("sni_none", "TLS without a server name", "refused", |world| {
            meet(world.nameless_tls("client", "10.88.1.11:443"))
        }),
        Row::new("plain_on_tls_port", "plain text to a port of which only TLS is known", "refused", |world| {
            hello::says(world, "client", "10.88.1.11:443", b"echo\n")
        }),
        Row::new("port_unknown", "a connection to a port that no resource has", "refused", |world| {
            meet(world.connect("client", "10.88.1.11:9000"))
        }),
        Row::new(
            "hello_byte_by_byte",
            "a ClientHello in segments of one byte",
            "reaches one as exact.example",
            |world| hello::chopped(world, "client", "10.88.1.13:443", "exact.example", Manner::Bytes),
        ),
        Row::new(
            "hello_in_records",
            "a ClientHello in TLS records of 40 bytes",
            "reaches one as exact.example",
            |world| hello::chopped(world, "client", "10.88.1.13:443", "exact.example", Manner::Records),
        ),
        Row::new(
            "hello_large",
            "a ClientHello of 12 KiB",
            "reaches one as exact.example",
            |world| hello::large(world, "10.88.1.13:443", "exact.example", 12 << 10),
        ),
        Row::new("hello_oversized", "a ClientHello of 60 KiB", "refused", |world| {
            hello::large(world, "10.88.1.13:443", "exact.example", 60 << 10)
        }),
        Row::new("hello_garbage", "a TLS record that holds no ClientHello", "refused", |world| {
            let mut record = vec![0x16, 3, 1, 0, 200];
            record.extend([0xaa; 200]);
            hello::says(world, "client", "10.88.1.11:443", &record)
        }),
        Row::new("hello_unfinished", "half a ClientHello, and then nothing", "refused", |world| {
            let hello = hello::bytes(world, "exact.example")?;
            hello::says(world, "client", "10.88.1.11:443", &hello[..hello.len() / 2])
        })
        .differs("silence", NO_LIMIT),
        Row::new("hello_then_end", "half a ClientHello, and then the end", "refused", |world| {
            let hello = hello::bytes(world, "exact.example")?;
            let mut socket = world.connect("client", "10.88.1.11:443")?;
            std::io::Write::write_all(&mut socket, &hello[..hello.len() / 2])?;
            socket.shutdown(std::net::Shutdown::Write)?;
            match std::io::Read::read(&mut socket, &mut [0; 100]) {
                Ok(0) => Ok("refused".into()),
                Ok(_) => Ok("answered".into()),
                Err(error) => crate::client::ended(&error),
            }
        }),
        Row::new("http_host", "HTTP with the Host of a ServiceEntry", "reaches one for web.example", |world| {
            world.http("client", "10.88.1.13:80", "web.example")
        }),
        Row::new("http_host_wildcard", "HTTP with a Host of a wildcard", "reaches two for a.web.example", |world| {
            world.http("client", "10.88.1.13:80", "a.web.example")
        }),
        Row::new("http_host_port", "HTTP with a Host that has the port", "reaches one for web.example:80", |world| {
            world.http("client", "10.88.1.13:80", "web.example:80")
        }),
        Row::new("http_host_any_case", "HTTP with a Host in capitals", "reaches one for web.example", |world| {
            world.http("client", "10.88.1.13:80", "WEB.Example")
        }),
        Row::new("http_host_unknown", "HTTP with a Host that no resource has", "refused", |world| {
            world.http("client", "10.88.1.13:80", "other.example")
        })
        .differs(
            "answered with status 502",
            "Envoy reads HTTP, so that it can answer. Meshtoll relays HTTP as TCP and reads the first Host alone, so that it \
             closes, which no client takes for an answer of the server's.",
        ),
        Row::new("http_head_byte_by_byte", "HTTP whose head comes in segments of one byte", "answered", |world| {
            let mut socket = world.connect("client", "10.88.1.13:80")?;
            for byte in b"GET / HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n" {
                std::io::Write::write_all(&mut socket, &[*byte])?;
            }
            Ok(if crate::wire::line(&mut socket)?.starts_with("HTTP/1.1 200") { "answered" } else { "refused" }.into())
        }),
        Row::new(
            "http_second_host",
            "a second HTTP request on the same connection, with another known Host",
            "reaches one for web.example, then one for a.web.example",
            |world| {
                let mut socket = world.connect("client", "10.88.1.13:80")?;
                let mut seen = Vec::new();
                for host in ["web.example", "a.web.example"] {
                    std::io::Write::write_all(&mut socket, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
                    let body = loop {
                        let line = crate::wire::line(&mut socket)?;
                        if let Some(body) = line.strip_prefix("hello ") {
                            break body.replace(" host=", " for ");
                        }
                    };
                    seen.push(body);
                }
                Ok(format!("reaches {}", seen.join(", then ")))
            },
        )
        .differs(
            "reaches one for web.example, then two for a.web.example",
            "Envoy routes each request. Meshtoll reads no HTTP but the first Host, as reports say (HTTP as TCP); an application gains \
             nothing by it: what it reaches is the host that the first request named, which it may reach.",
        ),
        Row::new("http2_prior_knowledge", "HTTP/2 without TLS to a port of HTTP hosts", "refused", |world| {
            let mut preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            preface.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
            hello::says(world, "client", "10.88.1.13:80", &preface)
        })
        .differs(
            "answered",
            "Envoy reads HTTP/2 and routes each request. To Meshtoll a connection whose requests may each name another host has no \
             host, so that it is refused instead of sent somewhere.",
        ),
        Row::new("http_garbage", "what is no HTTP, to a port of HTTP hosts", "refused", |world| {
            hello::says(world, "client", "10.88.1.13:80", b"\0\0garbage\r\n\r\n")
        })
        .differs("answered", "Envoy answers with status 400, where nobody may be there who understands it. Meshtoll closes."),
        Row::new("tcp_address", "TCP to the address of a ServiceEntry", "reaches two", |world| {
            meet(world.connect("client", "10.99.0.1:9001"))
        }),
        Row::new("tcp_address_range", "TCP to an address in the range of a ServiceEntry", "reaches three", |world| {
            meet(world.connect("client", "10.99.1.8:9001"))
        }),
        Row::new("tcp_narrowest_range", "TCP to an address in two ranges", "reaches one", |world| {
            meet(world.connect("client", "10.99.1.7:9001"))
        }),
        Row::new("tcp_address_unknown", "TCP to an address that no resource has", "refused", |world| {
            meet(world.connect("client", "10.99.0.99:9001"))
        }),
        Row::new("tcp_server_first", "TCP to a server that speaks first", "reaches one", |world| {
            let mut socket = world.connect("client", "10.99.0.2:9000")?;
            crate::client::reached(&crate::wire::line(&mut socket)?)
        }),
        Row::new("upstream_refuses", "TCP to a host whose only address refuses", "refused", |world| {
            meet(world.connect("client", "10.99.0.4:9001"))
        }),
        Row::new(
            "several_endpoints",
            "20 connections to a host of whose two addresses one refuses",
            "all reach one",
            |world| twenty(world, "10.99.0.3:9001"),
        )
        .differs(
            "some reach one, others are refused",
            ONE_TRY,
        ),
        Row::new(
            "dns_several_addresses",
            "20 connections to a host by DNS, of whose two addresses one refuses",
            "all reach one",
            |world| twenty(world, "10.99.0.6:9002"),
        )
        .differs("some reach one, others are refused", ONE_TRY),
        Row::new("upstream_unreachable", "TCP to a host whose only address nobody has", "refused", |world| {
            meet(world.connect("client", "10.99.0.5:9001"))
        }),
        Row::new(
            "sni_original_destination",
            "TLS with a server name of a wildcard with resolution NONE",
            "reaches two as a.orig.example",
            |world| meet(world.tls("client", "10.88.1.12:443", "a.orig.example")),
        ),
        Row::new("service_self", "a connection to the client's own service", "reaches client", |world| {
            meet(world.connect("client", "10.96.1.10:9080"))
        }),
        Row::new(
            "dns_followed",
            "TLS to a host by DNS, whose address changes while the proxy runs",
            "reaches one, then two",
            |world| {
                world.names.set("dns.example", &[ONE]);
                let reach = |world: &World| meet(world.tls("client", "10.88.1.13:443", "dns.example"));
                until("DNS is followed to one", || {
                    reach(world).ok().filter(|seen| seen == "reaches one as dns.example")
                })?;
                world.names.set("dns.example", &[TWO]);
                until("DNS is followed to two", || {
                    reach(world).ok().filter(|seen| seen == "reaches two as dns.example")
                })?;
                Ok("reaches one, then two".into())
            },
        ),
        Row::new("dns_no_such_name", "TLS to a host by DNS that has no address", "refused", |world| {
            meet(world.tls("client", "10.88.1.11:443", "missing.test"))
        }),
        Row::new("service_virtual_address", "a connection to a service's virtual address", "reaches server", |world| {
            meet(world.connect("client", "10.96.1.11:9080"))
        }),
        Row::new(
            "service_pod_address",
            "a connection to the address of a service's pod, past the virtual one",
            "refused",
            |world| meet(world.connect("client", "10.44.1.11:9080")),
        ),
        Row::new("service_unknown", "a connection to a virtual address without a service", "refused", |world| {
            meet(world.connect("client", "10.96.1.99:9080"))
        }),
        Row::new(
            "service_impostor",
            "a connection to a service in whose place somebody with another workload's certificate answers",
            "refused",
            |world| meet(world.connect("client", "10.96.1.12:9080")),
        ),
        Row::new(
            "service_no_fallback_to_plain",
            "a connection to a service that answers without TLS, where mutual TLS is expected",
            "refused",
            |world| meet(world.connect("client", "10.96.1.13:9080")),
        ),
        Row::new(
            "service_tls_disabled",
            "a connection to such a service, with a DestinationRule that says DISABLE",
            "reaches off",
            |world| meet(world.connect("client", "10.96.1.14:9080")),
        ),
        Row::new("loop_outbound", "a connection to the proxy's outbound port itself", "refused", |world| {
            meet(world.connect("client", "127.0.0.1:15001"))
        }),
        Row::new("loop_inbound", "a connection to the proxy's inbound port, from another pod", "refused", |world| {
            meet(world.connect("stranger", "10.44.1.10:15006"))
        }),
        Row::new("loop_outbound_from_outside", "a connection to the proxy's outbound port, from another pod", "refused", |world| {
            meet(world.connect("stranger", "10.44.1.10:15001"))
        }),
        Row::new(
            "inbound_port_unknown",
            "a connection to a port on which the application listens, and which is not its service's",
            "refused",
            |world| meet(world.connect("stranger", &format!("10.44.1.11:{}", crate::world::UNKNOWN_PORT))),
        ),
    ],
};
