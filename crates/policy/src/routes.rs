//! Compiled routes: what a sidecar and an egress gateway do with a connection. Plain data.

use meshtoll_model::ids::SpiffeId;
use serde::Serialize;
use std::net::SocketAddrV4;

/// What one sidecar does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SidecarRoutes {
    /// Who it is.
    pub identity: SpiffeId,
    /// The ports of its own service.
    pub inbound: Vec<InboundPort>,
    /// HTTP services, by port and `Host`.
    pub http: Vec<HttpRoute>,
    /// TLS passed through by SNI, by destination port. First match wins.
    pub sni: Vec<SniRoute>,
    /// What happens to connections that no route matches.
    pub unmatched: Unmatched,
}

/// A port of the sidecar's own service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InboundPort {
    /// TCP port, the one that callers name and the application's.
    pub port: u16,
    /// What peers must present.
    pub mtls: PeerMtls,
}

/// What an inbound port asks of its peers (`PeerAuthentication`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PeerMtls {
    /// Mutual TLS or nothing.
    Strict,
    /// Mutual TLS from peers that offer it (ALPN `istio`), plain from others.
    Permissive,
    /// Plain only.
    Disable,
}

/// Requests for some hosts on a port, and where they go.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRoute {
    /// Destination port.
    pub port: u16,
    /// Values of `Host`, without the port, that match.
    pub hosts: Vec<String>,
    /// Where they go.
    pub upstream: Upstream,
}

/// TLS connections for some names on a port, and where they go.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SniRoute {
    /// Destination port.
    pub port: u16,
    /// Server names that match; `*.` at the start matches any one or more labels, as in Envoy.
    pub names: Vec<String>,
    /// Where they go.
    pub upstream: Upstream,
}

/// What happens to connections that no route matches (`outboundTrafficPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Unmatched {
    /// They go to where the application sent them.
    AllowAny,
    /// They are closed.
    RegistryOnly,
}

/// What the egress gateway does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRoutes {
    /// Who it is.
    pub identity: SpiffeId,
    /// Its listeners.
    pub servers: Vec<GatewayServer>,
}

/// One port of the gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayServer {
    /// TCP port that it listens on.
    pub port: u16,
    /// Where connections go, by (outer) SNI. First match wins; others are closed.
    pub routes: Vec<GatewayRoute>,
}

/// One route of a gateway's port.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRoute {
    /// Server names that match, as in [`SniRoute::names`].
    pub names: Vec<String>,
    /// What the gateway does with the TLS that it receives.
    pub tls: GatewayTls,
    /// Where they go.
    pub upstream: Upstream,
}

/// What the gateway does with the TLS that it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GatewayTls {
    /// Relays it.
    Passthrough,
    /// Terminates it, with the mesh's certificates on both sides, and relays what is inside.
    IstioMutual,
}

/// Where connections of a route go.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Upstream {
    /// Istio's name for it: `outbound|PORT|SUBSET|HOST`.
    pub name: String,
    /// Its addresses.
    pub endpoints: Endpoints,
    /// What is put around the connection.
    pub tls: UpstreamTls,
}

/// The addresses of an upstream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Endpoints {
    /// These.
    Addresses(Vec<SocketAddrV4>),
    /// What DNS says of this name.
    Dns {
        /// Name to resolve.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// Where the application sent the connection.
    OriginalDestination,
}

/// What the proxy puts around a connection to an upstream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UpstreamTls {
    /// Nothing.
    None,
    /// Mutual TLS with the mesh's certificates.
    IstioMutual {
        /// Server name sent.
        sni: String,
        /// Who the peer has to be.
        peer: SpiffeId,
    },
}
