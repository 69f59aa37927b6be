//! Words that Istio's fields take: which of them Meshtoll acts on, and which it refuses by name.

use super::{Action, PeerMode, Protocol, ServerTls};
use crate::{
    diagnostics::Diagnostics,
    yaml::{Decode, Node, keyword},
};

impl Decode for Protocol {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = [("TLS", Self::Tls), ("HTTPS", Self::Tls), ("TCP", Self::Tcp), ("HTTP", Self::Http)];
        let unsupported = ["HTTP2", "HTTP_PROXY", "GRPC", "GRPC-WEB", "MONGO", "MYSQL", "REDIS", "UDP"];
        keyword(node, problems, &words, &unsupported)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerProtocol {
    Tls,
    Https,
}

impl Decode for ServerProtocol {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = [("TLS", Self::Tls), ("HTTPS", Self::Https)];
        keyword(node, problems, &words, &["HTTP", "HTTP2", "GRPC", "GRPC-WEB", "MONGO", "MYSQL", "REDIS", "TCP", "UDP"])
    }
}

impl Decode for ServerTls {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = [("PASSTHROUGH", Self::Passthrough), ("ISTIO_MUTUAL", Self::IstioMutual)];
        keyword(node, problems, &words, &["SIMPLE", "MUTUAL", "AUTO_PASSTHROUGH", "OPTIONAL_MUTUAL"])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientMode {
    Disable,
    IstioMutual,
    Simple,
    Mutual,
}

impl Decode for ClientMode {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = [
            ("DISABLE", Self::Disable),
            ("ISTIO_MUTUAL", Self::IstioMutual),
            ("SIMPLE", Self::Simple),
            ("MUTUAL", Self::Mutual),
        ];
        keyword(node, problems, &words, &[])
    }
}

/// A Kubernetes secret by name: never there once a rule is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialName {}

impl Decode for CredentialName {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let message = "names a Kubernetes secret, which Meshtoll does not read: name files, by `caCertificates`, \
                       `clientCertificate` and `privateKey`";
        problems.error(&node.place, message);
        None
    }
}

/// Verification of certificates, which cannot be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SkipVerify;

impl Decode for SkipVerify {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        if bool::decode(node, problems)? {
            let message = "Meshtoll always verifies certificates, since anyone could answer otherwise: name the server's \
                           authorities by `caCertificates`";
            problems.error(&node.place, message);
            return None;
        }
        Some(Self)
    }
}

/// `MESH_EXTERNAL` is Istio's default. Hosts inside of the mesh would be spoken to with its certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location;

impl Decode for Location {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        keyword(node, problems, &[("MESH_EXTERNAL", Self)], &["MESH_INTERNAL"])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    None,
    Static,
    Dns,
    DynamicDns,
}

impl Decode for Resolution {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words =
            [("NONE", Self::None), ("STATIC", Self::Static), ("DNS", Self::Dns), ("DYNAMIC_DNS", Self::DynamicDns)];
        keyword(node, problems, &words, &["DNS_ROUND_ROBIN"])
    }
}

/// How an endpoint is chosen. All of these spread connections over the endpoints, in ways that Istio leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SimpleLoadBalancer;

impl Decode for SimpleLoadBalancer {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = ["ROUND_ROBIN", "LEAST_REQUEST", "RANDOM"].map(|word| (word, Self));
        keyword(node, problems, &words, &["LEAST_CONN", "PASSTHROUGH", "UNSPECIFIED"])
    }
}

/// `None` for `UNSET`: whatever the wider scope says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrittenPeerMode(pub(crate) Option<PeerMode>);

impl Decode for WrittenPeerMode {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = [
            ("UNSET", Self(None)),
            ("STRICT", Self(Some(PeerMode::Strict))),
            ("PERMISSIVE", Self(Some(PeerMode::Permissive))),
            ("DISABLE", Self(Some(PeerMode::Disable))),
        ];
        keyword(node, problems, &words, &[])
    }
}

impl Decode for Action {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = [("ALLOW", Self::Allow), ("DENY", Self::Deny), ("AUDIT", Self::Audit)];
        keyword(node, problems, &words, &["CUSTOM"])
    }
}

/// Fields of an AuthorizationPolicy that are about requests: never there once a policy is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeedsHttp {}

impl Decode for NeedsHttp {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        problems.error(&node.place, "needs HTTP, which Meshtoll's data plane does not read yet: remove it");
        None
    }
}
