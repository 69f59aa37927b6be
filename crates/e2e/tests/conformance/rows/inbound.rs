//! What a sidecar takes from peers, by `PeerAuthentication`. The peers are in a pod without a sidecar, so that they can do as they
//! like.

use super::hello;
use crate::{
    client::{meet, over},
    table::{Group, Kind, Mesh, Problem, Row, Seen},
    tls,
    world::{World, identity},
};
use meshtoll_identity::{MeshCa, WorkloadCertificate};
use meshtoll_model::ids::SpiffeId;
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName, version::TLS12};
use std::{sync::Arc, time::Duration};

const YAML: &str = "
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: app}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: permissive, namespace: app}
spec: {selector: {matchLabels: {app: permissive}}, mtls: {mode: PERMISSIVE}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: permissive-tls, namespace: app}
spec: {selector: {matchLabels: {app: permissive-tls}}, mtls: {mode: PERMISSIVE}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: disabled, namespace: app}
spec: {selector: {matchLabels: {app: disabled}}, mtls: {mode: DISABLE}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: disabled-tls, namespace: app}
spec: {selector: {matchLabels: {app: disabled-tls}}, mtls: {mode: DISABLE}}
";

const STRICT: &str = "10.44.1.11:9080";
const PERMISSIVE: &str = "10.44.1.12:9080";
const PERMISSIVE_TLS: &str = "10.44.1.13:9080";
const DISABLED: &str = "10.44.1.14:9080";
const DISABLED_TLS: &str = "10.44.1.15:9080";

/// Mesh TLS with a workload's certificate, from the pod without a sidecar.
pub(super) fn as_workload(world: &World, to: &str, identity: &SpiffeId) -> Seen {
    with_certificate(world, to, Some(&world.authorities.workload(identity)?))
}

pub(super) fn with_certificate(world: &World, to: &str, certificate: Option<&WorkloadCertificate>) -> Seen {
    let config = tls::mesh_client(certificate, Some("istio"));
    meet(world.connect("stranger", to).and_then(|socket| over(socket, "outbound_.9080_._.x", config)))
}

pub(super) fn issued(ca: &MeshCa, lifetime: Duration) -> Result<WorkloadCertificate, Problem> {
    let client = SpiffeId { trust_domain: ca.trust_domain().into(), ..identity("app", "client") };
    Ok(ca.issue(&client, lifetime)?)
}

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// A certificate of the mesh's whose time is over.
pub(super) fn expired(world: &World) -> Result<WorkloadCertificate, Problem> {
    let certificate = issued(&world.authorities.mesh, Duration::ZERO)?;
    // Certificates say whole seconds, and are valid within the last one.
    let over = certificate.not_after + Duration::from_secs(2);
    crate::client::until("a certificate's time is over", || (std::time::SystemTime::now() > over).then_some(()))?;
    Ok(certificate)
}

fn tls12(world: &mut World) -> Seen {
    let certificate = world.authorities.workload(&identity("app", "client"))?;
    let config = tls::mesh_client_of(&[&TLS12], Some(&certificate), Some("istio"));
    meet(world.connect("stranger", STRICT).and_then(|socket| over(socket, "x.example", config)))
}

/// The first message of mesh TLS, cut short.
fn unfinished(world: &World, to: &str) -> Seen {
    let certificate = world.authorities.workload(&identity("app", "client"))?;
    let config: Arc<ClientConfig> = tls::mesh_client(Some(&certificate), Some("istio"));
    let mut hello = Vec::new();
    ClientConnection::new(config, ServerName::try_from("x.example")?)?.write_tls(&mut hello)?;
    hello::says(world, "stranger", to, &hello[..hello.len() / 2])
}

const DISABLED_IS_PLAIN: &str = "Istio's filter chains of a port in mode DISABLE match plain text alone, so that an application that speaks TLS \
     itself cannot be reached. Meshtoll passes on what comes, as the mode's description says: the connection is not tunneled.";

pub(crate) const GROUP: Group = Group {
    name: "inbound",
    about: "What a sidecar takes from peers (`PeerAuthentication`). The peers are in a pod without a sidecar, so that they can do as they like.",
    mesh: Mesh {
        yaml: &[YAML],
        services: &[
            ("client", Kind::Sidecar),
            ("strict", Kind::Sidecar),
            ("permissive", Kind::Sidecar),
            ("permissive-tls", Kind::SpeaksTls),
            ("disabled", Kind::Sidecar),
            ("disabled-tls", Kind::SpeaksTls),
        ],
        ..Mesh::DEFAULT
    },
    rows: &[
        Row::new("strict_mesh", "STRICT: mutual TLS with the mesh's certificate", "reaches strict", |world| {
            as_workload(world, STRICT, &identity("elsewhere", "stranger"))
        }),
        Row::new("strict_plain", "STRICT: plain text", "refused", |world| meet(world.connect("stranger", STRICT))),
        Row::new("strict_other_tls", "STRICT: an application's TLS", "refused", |world| {
            let config = tls::mesh_client(None, None);
            meet(world.connect("stranger", STRICT).and_then(|socket| over(socket, "a.example", config)))
        }),
        Row::new("strict_no_certificate", "STRICT: mesh TLS without a certificate", "refused", |world| {
            with_certificate(world, STRICT, None)
        }),
        Row::new(
            "strict_other_authority",
            "STRICT: a certificate of the right name, of an authority that the mesh does not know",
            "refused",
            |world| with_certificate(world, STRICT, Some(&issued(&world.authorities.forger, HOUR)?)),
        ),
        Row::new("strict_expired", "STRICT: a certificate whose time is over", "refused", |world| {
            with_certificate(world, STRICT, Some(&expired(world)?))
        }),
        Row::new(
            "strict_other_trust_domain",
            "STRICT: a certificate of another trust domain whose authority is in the trust bundle",
            "refused",
            |world| with_certificate(world, STRICT, Some(&issued(&world.authorities.friend, HOUR)?)),
        ),
        Row::new("strict_no_alpn", "STRICT: mutual TLS without ALPN", "reaches strict", |world| {
            let certificate = world.authorities.workload(&identity("app", "client"))?;
            let config = tls::mesh_client(Some(&certificate), None);
            meet(world.connect("stranger", STRICT).and_then(|socket| over(socket, "x.example", config)))
        }),
        Row::new("strict_other_alpn", "STRICT: mutual TLS that offers `h2` alone by ALPN", "refused", |world| {
            let certificate = world.authorities.workload(&identity("app", "client"))?;
            let config = tls::mesh_client(Some(&certificate), Some("h2"));
            meet(world.connect("stranger", STRICT).and_then(|socket| over(socket, "x.example", config)))
        })
        .differs(
            "reaches strict",
            "Envoy goes on without ALPN where nothing of the offer is known. Meshtoll answers with the alert that RFC 7301 (3.2) \
             demands; all that Istio's proxies offer is known.",
        ),
        Row::new("strict_tls12", "STRICT: mutual TLS 1.2", "refused", tls12).differs(
            "reaches strict",
            "Istio allows TLS 1.2 inside the mesh. Meshtoll speaks 1.3 alone, unless it is told `--allow-tls12`: its peers are \
             proxies, all of which can.",
        ),
        Row::new("strict_unfinished", "STRICT: half a ClientHello, and then nothing", "refused", |world| {
            unfinished(world, STRICT)
        })
        .differs(
            "silence",
            "Istio sets no time limit for what Envoy's listener filters wait for. Meshtoll gives a peer five seconds.",
        ),
        Row::new("strict_between_sidecars", "STRICT: from sidecar to sidecar", "reaches strict", |world| {
            meet(world.connect("client", "10.96.1.11:9080"))
        }),
        Row::new("permissive_mesh", "PERMISSIVE: mutual TLS with the mesh's certificate", "reaches permissive", |world| {
            as_workload(world, PERMISSIVE, &identity("app", "client"))
        }),
        Row::new("permissive_plain", "PERMISSIVE: plain text", "reaches permissive", |world| {
            meet(world.connect("stranger", PERMISSIVE))
        }),
        Row::new(
            "permissive_other_tls",
            "PERMISSIVE: the application's own TLS",
            "reaches permissive-tls as a.example",
            |world| meet(world.tls("stranger", PERMISSIVE_TLS, "a.example")),
        ),
        Row::new(
            "permissive_other_authority",
            "PERMISSIVE: mesh TLS with a certificate of another authority",
            "refused",
            |world| with_certificate(world, PERMISSIVE, Some(&issued(&world.authorities.forger, HOUR)?)),
        ),
        Row::new("permissive_between_sidecars", "PERMISSIVE: from sidecar to sidecar", "reaches permissive", |world| {
            meet(world.connect("client", "10.96.1.12:9080"))
        }),
        Row::new("disabled_plain", "DISABLE: plain text", "reaches disabled", |world| {
            meet(world.connect("stranger", DISABLED))
        }),
        Row::new("disabled_mesh", "DISABLE: mutual TLS of the mesh, to an application without TLS", "reaches something that speaks no TLS", |world| {
            as_workload(world, DISABLED, &identity("app", "client"))
        })
        .differs("refused", DISABLED_IS_PLAIN),
        Row::new(
            "disabled_other_tls",
            "DISABLE: the application's own TLS",
            "reaches disabled-tls as a.example",
            |world| meet(world.tls("stranger", DISABLED_TLS, "a.example")),
        )
        .differs("refused", DISABLED_IS_PLAIN),
        Row::new("disabled_between_sidecars", "DISABLE: from sidecar to sidecar, which is plain then", "reaches disabled", |world| {
            meet(world.connect("client", "10.96.1.14:9080"))
        }),
    ],
};
