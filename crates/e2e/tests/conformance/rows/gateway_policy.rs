//! Whom an egress gateway lets go where, by `AuthorizationPolicy`.

use super::gateway::fake;
use crate::{
    client::meet,
    table::{Group, Kind, Mesh, Row},
};

const YAML: &str = "
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
    - {port: {number: 9443, name: dyn, protocol: TLS}, hosts: ['*.dyn.example'], tls: {mode: ISTIO_MUTUAL}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: egress, namespace: app}
spec:
  host: istio-egressgateway.istio-system.svc.cluster.local
  subsets:
    - {name: dyn, trafficPolicy: {portLevelSettings: [{port: {number: 9443}, tls: {mode: ISTIO_MUTUAL, sni: egress.dyn.example}}]}}
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
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: egress, namespace: istio-system}
spec:
  selector: {matchLabels: {istio: egressgateway}}
  rules:
    - from: [{source: {principals: [cluster.local/ns/app/sa/client]}}]
      when: [{key: connection.sni, values: [two.dyn.example]}]
    - from: [{source: {principals: [cluster.local/ns/app/sa/chief]}}]
";

const INNER: &str = "Behind a fixed outer name, which a DestinationRule makes sidecars send, Envoy knows that name alone, so that no policy \
     can be about hosts of a wildcard. Meshtoll decides by the inner name, which is where the connection goes.";

const OUTER: &str = "10.44.1.3:9443";
const ANYWHERE: &str = "10.88.1.13:8444";

pub(crate) const GROUP: Group = Group {
    name: "gateway-policy",
    about: "Whom an egress gateway lets go where (`AuthorizationPolicy`, `connection.sni`).",
    mesh: Mesh {
        yaml: &[YAML],
        services: &[("client", Kind::Sidecar), ("chief", Kind::Sidecar), ("outsider", Kind::Sidecar)],
        gateway: true,
        ..Mesh::DEFAULT
    },
    rows: &[
        Row::new(
            "egress_allowed",
            "ALLOW a principal to a host: that principal to that host",
            "reaches two as two.dyn.example through the gateway",
            |world| meet(world.tls("client", ANYWHERE, "two.dyn.example")),
        )
        .differs("refused", INNER),
        Row::new("egress_other_host", "ALLOW a principal to a host: to another host", "refused", |world| {
            meet(world.tls("client", ANYWHERE, "three.dyn.example"))
        }),
        Row::new("egress_other_principal", "ALLOW a principal to a host: another principal", "refused", |world| {
            meet(world.tls("outsider", ANYWHERE, "two.dyn.example"))
        }),
        Row::new(
            "egress_any_host",
            "ALLOW a principal to any host",
            "reaches three as three.dyn.example through the gateway",
            |world| meet(world.tls("chief", ANYWHERE, "three.dyn.example")),
        ),
        Row::new(
            "egress_direct",
            "ALLOW a principal to a host: with that host's name inside and outside",
            "reaches two as two.dyn.example through the gateway",
            |world| fake(world, OUTER, "two.dyn.example", "two.dyn.example"),
        ),
        Row::new(
            "egress_fake_outer",
            "ALLOW a principal to a host: with that host's name outside, and another inside",
            "refused",
            |world| fake(world, OUTER, "two.dyn.example", "three.dyn.example"),
        )
        .differs(
            "reaches three as three.dyn.example through the gateway",
            "The published attack: Envoy decides by the outer name, and connects to the inner one. Meshtoll decides by the inner one, \
             and refuses what differs.",
        ),
    ],
};
