//! Whom a sidecar lets in, by `AuthorizationPolicy`.

use super::inbound::as_workload;
use crate::{
    client::{ended, meet, over, reached},
    table::{Group, Kind, Mesh, Row, Seen},
    tls,
    wire::line,
    world::{World, identity},
};

const YAML: &str = "
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: principal, namespace: app}
spec: {selector: {matchLabels: {app: principal}}, rules: [{from: [{source: {principals: [cluster.local/ns/app/sa/client]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: namespaces, namespace: app}
spec: {selector: {matchLabels: {app: namespace}}, rules: [{from: [{source: {namespaces: [app]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: port, namespace: app}
spec: {selector: {matchLabels: {app: port}}, rules: [{to: [{operation: {ports: ['9080']}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: other-port, namespace: app}
spec: {selector: {matchLabels: {app: other-port}}, rules: [{to: [{operation: {ports: ['9090']}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: sni, namespace: app}
spec: {selector: {matchLabels: {app: sni}}, rules: [{when: [{key: connection.sni, values: [named.example]}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: all, namespace: app}
spec: {selector: {matchLabels: {app: deny}}, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: deny, namespace: app}
spec: {selector: {matchLabels: {app: deny}}, action: DENY, rules: [{from: [{source: {principals: [cluster.local/ns/app/sa/client]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: nobody, namespace: app}
spec: {selector: {matchLabels: {app: nobody}}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: nobody-first, namespace: app}
spec: {selector: {matchLabels: {app: nobody-first}}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: except, namespace: app}
spec: {selector: {matchLabels: {app: except}}, rules: [{from: [{source: {notPrincipals: [cluster.local/ns/app/sa/client]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: audit, namespace: app}
spec: {selector: {matchLabels: {app: audit}}, action: AUDIT, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: block, namespace: app}
spec: {selector: {matchLabels: {app: block}}, rules: [{from: [{source: {ipBlocks: [10.44.1.200/32]}}]}]}
";

const PRINCIPAL: &str = "10.44.1.11:9080";
const NAMESPACE: &str = "10.44.1.12:9080";
const PORT: &str = "10.44.1.13:9080";
const OTHER_PORT: &str = "10.44.1.14:9080";
const SNI: &str = "10.44.1.15:9080";
const DENY: &str = "10.44.1.16:9080";
const NOBODY: &str = "10.44.1.17:9080";
const NOBODY_FIRST: &str = "10.44.1.18:9080";
const EXCEPT: &str = "10.44.1.19:9080";
const AUDIT: &str = "10.44.1.20:9080";
const BLOCK: &str = "10.44.1.21:9080";

fn client(world: &World, to: &str) -> Seen {
    as_workload(world, to, &identity("app", "client"))
}

/// Another workload, of another namespace.
fn other(world: &World, to: &str) -> Seen {
    as_workload(world, to, &identity("elsewhere", "other"))
}

fn plain(world: &World, to: &str) -> Seen {
    meet(world.connect("stranger", to))
}

fn named(world: &World, sni: &str) -> Seen {
    let certificate = world.authorities.workload(&identity("app", "client"))?;
    let config = tls::mesh_client(Some(&certificate), Some("istio"));
    meet(world.connect("stranger", SNI).and_then(|socket| over(socket, sni, config)))
}

pub(crate) const GROUP: Group = Group {
    name: "policy",
    about: "Whom a sidecar lets in (`AuthorizationPolicy`).",
    mesh: Mesh {
        yaml: &[YAML],
        services: &[
            ("client", Kind::Sidecar),
            ("principal", Kind::Sidecar),
            ("namespace", Kind::Sidecar),
            ("port", Kind::Sidecar),
            ("other-port", Kind::Sidecar),
            ("sni", Kind::Sidecar),
            ("deny", Kind::Sidecar),
            ("nobody", Kind::Sidecar),
            ("nobody-first", Kind::SpeaksFirst),
            ("except", Kind::Sidecar),
            ("audit", Kind::Sidecar),
            ("block", Kind::Sidecar),
        ],
        ..Mesh::DEFAULT
    },
    rows: &[
        Row::new("allow_principal", "ALLOW a principal: that principal", "reaches principal", |world| {
            client(world, PRINCIPAL)
        }),
        Row::new("allow_principal_through_sidecars", "ALLOW a principal: from its own sidecar", "reaches principal", |world| {
            meet(world.connect("client", "10.96.1.11:9080"))
        }),
        Row::new("allow_principal_other", "ALLOW a principal: another one", "refused", |world| other(world, PRINCIPAL)),
        Row::new("allow_principal_plain", "ALLOW a principal: a peer without TLS", "refused", |world| {
            plain(world, PRINCIPAL)
        }),
        Row::new("allow_namespace", "ALLOW a namespace: a workload of it", "reaches namespace", |world| {
            client(world, NAMESPACE)
        }),
        Row::new("allow_namespace_other", "ALLOW a namespace: a workload of another", "refused", |world| {
            other(world, NAMESPACE)
        }),
        Row::new("allow_port", "ALLOW the service's port", "reaches port", |world| other(world, PORT)),
        Row::new("allow_other_port", "ALLOW another port", "refused", |world| client(world, OTHER_PORT)),
        Row::new("allow_sni", "ALLOW a server name: that name", "reaches sni", |world| named(world, "named.example")),
        Row::new("allow_sni_other", "ALLOW a server name: another one", "refused", |world| named(world, "other.example")),
        Row::new("deny_before_allow", "ALLOW everyone and DENY a principal: that principal", "refused", |world| {
            client(world, DENY)
        }),
        Row::new("deny_other", "ALLOW everyone and DENY a principal: another one", "reaches deny", |world| {
            other(world, DENY)
        }),
        Row::new("allow_nobody", "ALLOW without rules", "refused", |world| client(world, NOBODY)),
        Row::new("not_principals", "ALLOW all principals but one: that one", "refused", |world| client(world, EXCEPT)),
        Row::new("not_principals_other", "ALLOW all principals but one: another one", "reaches except", |world| {
            other(world, EXCEPT)
        }),
        Row::new("not_principals_plain", "ALLOW all principals but one: a peer without TLS", "reaches except", |world| {
            plain(world, EXCEPT)
        }),
        Row::new("audit_passes", "AUDIT everyone", "reaches audit", |world| other(world, AUDIT)),
        Row::new("allow_block", "ALLOW a block of addresses: a peer of it", "reaches block", |world| plain(world, BLOCK)),
        Row::new(
            "allow_block_other",
            "ALLOW a block of addresses: a peer outside of it",
            "refused",
            |world| meet(world.connect("client", "10.96.1.21:9080")),
        ),
        Row::new(
            "denied_and_silent",
            "ALLOW without rules, before an application that speaks first: a peer that says nothing",
            "refused",
            |world| {
                let greeted = world.connect("stranger", NOBODY_FIRST).and_then(|mut socket| line(&mut socket));
                greeted.map_or_else(|error| ended(&error), |greeting| reached(&greeting))
            },
        )
        .differs(
            "silence",
            "Istio sets no time limit for what Envoy's listener filters wait for. Meshtoll gives a peer five seconds.",
        ),
        Row::new(
            "denied_and_silent_mesh",
            "the same, in mutual TLS",
            "refused",
            |world| {
                let certificate = world.authorities.workload(&identity("app", "client"))?;
                let config = tls::mesh_client(Some(&certificate), Some("istio"));
                let wire = world.connect("stranger", NOBODY_FIRST).and_then(|socket| over(socket, "x.example", config));
                let greeted = wire.and_then(|mut wire| line(&mut wire));
                greeted.map_or_else(|error| ended(&error), |greeting| reached(&greeting))
            },
        )
        .differs(
            "reaches nobody-first",
            "Envoy decides when the first byte arrives of a peer, and until then passes on what the application says: one that \
             speaks first says it to everyone. Meshtoll decides before it connects.",
        ),
        Row::new(
            "denied_unseen",
            "ALLOW without rules: whether the application gets a connection of a peer that is denied",
            "refused, and the application sees nothing",
            |world| {
                let before = world.log.count("nobody accepted");
                let seen = client(world, NOBODY)?;
                Ok(match world.log.count("nobody accepted") - before {
                    0 => format!("{seen}, and the application sees nothing"),
                    _ => format!("{seen}, and the application sees a connection"),
                })
            },
        )
        .differs(
            "refused, and the application sees a connection",
            "Envoy connects to the application before it decides. Meshtoll decides first: the permit is what it connects with.",
        ),
    ],
};
