//! What an egress gateway takes from sidecars, and where it leads.

use super::{
    hello::{self, Manner},
    inbound::{HOUR, expired, issued},
};
use crate::{
    client::{meet, over, until, within as looked},
    table::{Group, Kind, Mesh, Row, Seen},
    tls,
    world::{ONE, TWO, World, identity},
};
use meshtoll_identity::WorkloadCertificate;
use std::time::Duration;

pub(super) const YAML: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: pass, namespace: app}
spec: {hosts: [pass.example], ports: [{number: 443, name: tls, protocol: TLS}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: mtls, namespace: app}
spec: {hosts: [mtls.example], ports: [{number: 443, name: tls, protocol: TLS}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: dyn, namespace: app}
spec: {hosts: ['*.dyn.example'], ports: [{number: 8444, name: tls, protocol: TLS}], resolution: DYNAMIC_DNS}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: egress, namespace: app}
spec:
  selector: {istio: egressgateway}
  servers:
    - {port: {number: 443, name: pass, protocol: TLS}, hosts: [pass.example], tls: {mode: PASSTHROUGH}}
    - {port: {number: 8443, name: mtls, protocol: TLS}, hosts: [mtls.example], tls: {mode: ISTIO_MUTUAL}}
    - {port: {number: 9443, name: dyn, protocol: TLS}, hosts: ['*.dyn.example'], tls: {mode: ISTIO_MUTUAL}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: egress, namespace: app}
spec:
  host: istio-egressgateway.istio-system.svc.cluster.local
  subsets:
    - {name: mtls, trafficPolicy: {portLevelSettings: [{port: {number: 8443}, tls: {mode: ISTIO_MUTUAL, sni: mtls.example}}]}}
    - {name: dyn, trafficPolicy: {portLevelSettings: [{port: {number: 9443}, tls: {mode: ISTIO_MUTUAL, sni: egress.dyn.example}}]}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: pass, namespace: app}
spec:
  hosts: [pass.example]
  gateways: [mesh, egress]
  tls:
    - match: [{gateways: [mesh], port: 443, sniHosts: [pass.example]}]
      route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, port: {number: 443}}}]
    - match: [{gateways: [egress], port: 443, sniHosts: [pass.example]}]
      route: [{destination: {host: pass.example, port: {number: 443}}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: mtls, namespace: app}
spec:
  hosts: [mtls.example]
  gateways: [mesh, egress]
  tls:
    - match: [{gateways: [mesh], port: 443, sniHosts: [mtls.example]}]
      route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, subset: mtls, port: {number: 8443}}}]
  tcp:
    - match: [{gateways: [egress], port: 8443}]
      route: [{destination: {host: mtls.example, port: {number: 443}}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: dyn, namespace: app}
spec:
  hosts: ['*.dyn.example']
  gateways: [mesh, egress]
  tls:
    - match: [{gateways: [mesh], port: 8444, sniHosts: ['*.dyn.example']}]
      route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, subset: dyn, port: {number: 9443}}}]
  tcp:
    - match: [{gateways: [egress], port: 9443}]
      route: [{destination: {host: '*.dyn.example', port: {number: 8444}}}]
";

const PASSTHROUGH: &str = "10.44.1.3:443";
const MTLS: &str = "10.44.1.3:8443";
const DYNAMIC: &str = "10.44.1.3:9443";
/// Any address: names decide.
const ANYWHERE: &str = "10.88.1.13:443";
const ANYWHERE_DYNAMIC: &str = "10.88.1.13:8444";

/// TLS for `inner` within mesh TLS for `outer`, to the gateway itself, as somebody who needs no sidecar could do it.
fn within(world: &World, to: &str, outer: &str, inner: &str, certificate: Option<&WorkloadCertificate>) -> Seen {
    let config = tls::mesh_client(certificate, Some("istio"));
    let wire = world.connect("stranger", to).and_then(|socket| over(socket, outer, config));
    meet(wire.and_then(|wire| world.tls_over(wire, inner)))
}

pub(super) fn fake(world: &World, port: &str, outer: &str, inner: &str) -> Seen {
    let certificate = world.authorities.workload(&identity("app", "client"))?;
    within(world, port, outer, inner, Some(&certificate))
}

const OUTER_ONLY: &str = "Envoy terminates the outer TLS and does not look inside, so that what a workload names to the gateway need \
     not be what it names to the world. Meshtoll holds the two against each other.";
const REBINDING: &str = "Envoy connects to whatever DNS says, so that whoever runs a name server below the wildcard reaches what only the \
     gateway can. Meshtoll refuses addresses that are not public, but for those that `--allow-private` names.";

pub(crate) const GROUP: Group = Group {
    name: "gateway",
    about: "What an egress gateway takes from sidecars and others, and where it leads.",
    mesh: Mesh { yaml: &[YAML], services: &[("client", Kind::Sidecar)], gateway: true, ..Mesh::DEFAULT },
    rows: &[
        Row::new(
            "gateway_passthrough",
            "TLS through sidecar and gateway, which passes it through",
            "reaches one as pass.example through the gateway",
            |world| meet(world.tls("client", ANYWHERE, "pass.example")),
        ),
        Row::new(
            "gateway_mtls",
            "TLS through sidecar and gateway, within mutual TLS between both",
            "reaches one as mtls.example through the gateway",
            |world| meet(world.tls("client", ANYWHERE, "mtls.example")),
        ),
        Row::new(
            "gateway_wildcard",
            "TLS through sidecar and gateway, which resolves the server name",
            "reaches two as two.dyn.example through the gateway",
            |world| meet(world.tls("client", ANYWHERE_DYNAMIC, "two.dyn.example")),
        ),
        Row::new(
            "gateway_wildcard_no_such_name",
            "the same, with a name that DNS does not know",
            "refused",
            |world| meet(world.tls("client", ANYWHERE_DYNAMIC, "nowhere.dyn.example")),
        ),
        Row::new(
            "gateway_wildcard_name_appears",
            "the same, with a name that DNS does not know at first, and then does",
            "refused, then reaches one within 15 seconds",
            |world| {
                let reach = |world: &World| meet(world.tls("client", ANYWHERE_DYNAMIC, "new.dyn.example"));
                let first = reach(world)?;
                world.names.set("new.dyn.example", &[ONE]);
                let then = looked(Duration::from_secs(15), || {
                    reach(world).ok().filter(|seen| seen == "reaches one as new.dyn.example through the gateway")
                });
                Ok(match then {
                    Some(_) => format!("{first}, then reaches one within 15 seconds"),
                    None => format!("{first}, and still after 15 seconds"),
                })
            },
        )
        .differs(
            "refused, and still after 15 seconds",
            "Envoy asks again for a name that does not exist when it would for one that does, after a minute by default. Meshtoll \
             remembers for five seconds that there is none.",
        ),
        Row::new(
            "gateway_wildcard_name_moves",
            "the same, with a name whose address changes",
            "reaches one, then two",
            |world| {
                let reach = |world: &World| meet(world.tls("client", ANYWHERE_DYNAMIC, "moving.dyn.example"));
                world.names.set("moving.dyn.example", &[ONE]);
                until("DNS is followed to one", || {
                    reach(world).ok().filter(|seen| seen == "reaches one as moving.dyn.example through the gateway")
                })?;
                world.names.set("moving.dyn.example", &[TWO]);
                until("DNS is followed to two", || {
                    reach(world).ok().filter(|seen| seen == "reaches two as moving.dyn.example through the gateway")
                })?;
                Ok("reaches one, then two".into())
            },
        ),
        Row::new(
            "gateway_wildcard_rebinding",
            "the same, with a name that changes from a public address to the gateway's own loopback",
            "reaches one, then refused",
            |world| {
                let reach = |world: &World| meet(world.tls("client", ANYWHERE_DYNAMIC, "rebound.dyn.example"));
                world.names.set("rebound.dyn.example", &[ONE]);
                until("DNS is followed to one", || {
                    reach(world).ok().filter(|seen| seen == "reaches one as rebound.dyn.example through the gateway")
                })?;
                world.names.set("rebound.dyn.example", &[std::net::Ipv4Addr::LOCALHOST]);
                let then = until("DNS is followed to loopback", || {
                    reach(world).ok().filter(|seen| !seen.starts_with("reaches one"))
                })?;
                Ok(format!("reaches one, then {then}"))
            },
        )
        .differs("reaches one, then reaches loopback as rebound.dyn.example", REBINDING),
        Row::new(
            "gateway_wildcard_loopback",
            "the same, with a name that leads to the gateway's own loopback",
            "refused",
            |world| meet(world.tls("client", ANYWHERE_DYNAMIC, "loopback.dyn.example")),
        )
        .differs("reaches loopback as loopback.dyn.example", REBINDING),
        Row::new(
            "gateway_wildcard_private",
            "the same, with a name that leads to a pod of the mesh",
            "refused",
            |world| meet(world.tls("client", ANYWHERE_DYNAMIC, "private.dyn.example")),
        )
        .differs("reaches stranger as private.dyn.example through the gateway", REBINDING),
        Row::new("gateway_plain_to_passthrough", "plain text to the port that passes TLS through", "refused", |world| {
            hello::says(world, "stranger", PASSTHROUGH, b"GET / HTTP/1.1\r\n\r\n")
        }),
        Row::new("gateway_plain_to_mtls", "plain text to the port of mutual TLS", "refused", |world| {
            hello::says(world, "stranger", MTLS, b"GET / HTTP/1.1\r\n\r\n")
        }),
        Row::new("gateway_unknown_sni", "TLS of an unknown name to the port that passes it through", "refused", |world| {
            meet(world.tls("stranger", PASSTHROUGH, "other.example"))
        }),
        Row::new("gateway_no_sni", "TLS without a name to the port that passes it through", "refused", |world| {
            meet(world.nameless_tls("stranger", PASSTHROUGH))
        }),
        Row::new(
            "gateway_sni_any_case",
            "TLS to the gateway with a name in capitals",
            "reaches one",
            |world| {
                let seen = meet(world.tls("stranger", PASSTHROUGH, "PASS.Example"))?;
                let same = seen.eq_ignore_ascii_case("reaches one as pass.example through the gateway");
                Ok(if same { "reaches one".into() } else { seen })
            },
        ),
        Row::new(
            "gateway_hello_byte_by_byte",
            "a ClientHello in segments of one byte, at the gateway",
            "reaches one as pass.example through the gateway",
            |world| hello::chopped(world, "stranger", PASSTHROUGH, "pass.example", Manner::Bytes),
        ),
        Row::new(
            "gateway_hello_unfinished",
            "half a ClientHello to the gateway, and then nothing",
            "refused",
            |world| {
                let hello = hello::bytes(world, "pass.example")?;
                hello::says(world, "stranger", PASSTHROUGH, &hello[..hello.len() / 2])
            },
        )
        .differs(
            "silence",
            "Istio sets no time limit for what Envoy's listener filters wait for. Meshtoll gives a client five seconds.",
        ),
        Row::new("gateway_mtls_no_certificate", "mutual TLS to the gateway, without a certificate", "refused", |world| {
            within(world, MTLS, "mtls.example", "mtls.example", None)
        }),
        Row::new(
            "gateway_mtls_other_authority",
            "mutual TLS to the gateway, with a certificate of an authority that the mesh does not know",
            "refused",
            |world| {
                let certificate = issued(&world.authorities.forger, HOUR)?;
                within(world, MTLS, "mtls.example", "mtls.example", Some(&certificate))
            },
        ),
        Row::new(
            "gateway_mtls_expired",
            "mutual TLS to the gateway, with a certificate whose time is over",
            "refused",
            |world| within(world, MTLS, "mtls.example", "mtls.example", Some(&expired(world)?)),
        ),
        Row::new(
            "gateway_mtls_other_trust_domain",
            "mutual TLS to the gateway, with a certificate of another trust domain",
            "refused",
            |world| {
                let certificate = issued(&world.authorities.friend, HOUR)?;
                within(world, MTLS, "mtls.example", "mtls.example", Some(&certificate))
            },
        ),
        Row::new(
            "gateway_mtls_direct",
            "mutual TLS to the gateway from a workload without a sidecar",
            "reaches one as mtls.example through the gateway",
            |world| fake(world, MTLS, "mtls.example", "mtls.example"),
        ),
        Row::new("gateway_mtls_unknown_outer", "mutual TLS to the gateway for an unknown outer name", "refused", |world| {
            fake(world, MTLS, "other.example", "mtls.example")
        }),
        Row::new(
            "gateway_mtls_fake_outer",
            "an outer name that the gateway accepts, and inside another that it has no route for",
            "refused",
            |world| fake(world, MTLS, "mtls.example", "other.example"),
        )
        .differs("reaches one as other.example through the gateway", OUTER_ONLY),
        Row::new("gateway_mtls_plain_inside", "plain text inside of the mutual TLS to a TLS host", "refused", |world| {
            let certificate = world.authorities.workload(&identity("app", "client"))?;
            let config = tls::mesh_client(Some(&certificate), Some("istio"));
            let mut wire = over(world.connect("stranger", MTLS)?, "mtls.example", config)?;
            let read = std::io::Write::write_all(&mut wire, b"GET / HTTP/1.1\r\n\r\n")
                .and_then(|()| std::io::Write::flush(&mut wire))
                .and_then(|()| std::io::Read::read(&mut wire, &mut [0; 100]));
            match read {
                Ok(0) => Ok("refused".into()),
                Ok(_) => Ok("reaches the host's own TLS".into()),
                Err(error) => crate::client::ended(&error),
            }
        })
        .differs("reaches the host's own TLS", OUTER_ONLY),
        Row::new(
            "gateway_wildcard_fake_outer",
            "an outer name of the wildcard, and inside another one of it",
            "refused",
            |world| fake(world, DYNAMIC, "one.dyn.example", "two.dyn.example"),
        )
        .differs(
            "reaches two as two.dyn.example through the gateway",
            "Envoy checks the inner name against the wildcard, and not against the outer one, by which policies are decided.",
        ),
        Row::new(
            "gateway_wildcard_inner_outside",
            "an outer name of the wildcard, and inside one that is not of it",
            "refused",
            |world| fake(world, DYNAMIC, "two.dyn.example", "other.example"),
        ),
    ],
};
