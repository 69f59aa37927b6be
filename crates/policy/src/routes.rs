//! Compiled routes: what a sidecar and an egress gateway do with a connection. Plain data.

pub use meshtoll_model::istio::ClientCertificate;

use crate::authorization::Authorization;
use meshtoll_model::{cidr::Cidr, ids::SpiffeId};
use serde::Serialize;
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    path::PathBuf,
};

/// What one sidecar does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SidecarRoutes {
    /// Who it is.
    pub identity: SpiffeId,
    /// The ports of its own service.
    pub inbound: Vec<InboundPort>,
    /// Connections told apart by where they are headed alone (`addresses` of a ServiceEntry). First match wins.
    pub tcp: Vec<TcpRoute>,
    /// HTTP services, by port and address or `Host`: those of the mesh, and ServiceEntries with protocol HTTP.
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
    /// Who may connect.
    pub authorization: Authorization,
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

/// Connections to some addresses on a port, and where they go.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpRoute {
    /// Destination port.
    pub port: u16,
    /// Destination addresses; any when there are none.
    pub addresses: Vec<Cidr>,
    /// Where they go.
    pub upstream: Upstream,
}

/// Requests for some hosts on a port, and where they go.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRoute {
    /// Destination port.
    pub port: u16,
    /// The address that the hosts' names resolve to, where only the mesh knows what is behind it: a connection to it is
    /// for this route, whatever it says. `None` for hosts outside of the mesh.
    pub virtual_ip: Option<Ipv4Addr>,
    /// Values of `Host`, without the port, that match; `*.` at the start as in [`SniRoute::names`]. First match wins.
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
    /// What has to be inside of it.
    pub inner: InnerTls,
    /// Who may connect.
    pub authorization: Authorization,
    /// Where they go.
    pub upstream: Upstream,
}

/// What has to be inside the TLS that a gateway terminates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum InnerTls {
    /// Anything: the gateway passes its TLS through, or the upstream's port is plain TCP.
    Any,
    /// TLS again, whose server name is checked: the upstream's port has protocol TLS. Were it not, a workload could name one
    /// host to the gateway's policy and another to the world.
    ServerName {
        /// Names that it may send, as in [`SniRoute::names`].
        names: Vec<String>,
        /// Outer names that DestinationRules make sidecars send (`tls.sni`): under these, any of `names` may be inside.
        /// Under another, the inner name has to be the outer one.
        fixed_outer: Vec<String>,
    },
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
    /// What DNS says of the connection's own server name, which matches the route's (`DYNAMIC_DNS`).
    ServerName {
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
    /// TLS that the application does not speak itself (`SIMPLE`, `MUTUAL`).
    Originate(Origination),
}

/// TLS to a host outside of the mesh, spoken by the proxy for its application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origination {
    /// Server name sent.
    pub sni: String,
    /// DNS names of which the server's certificate has to have one.
    pub subject_alt_names: Vec<String>,
    /// Authorities of the server's certificate, PEM; the system's when there is none.
    pub ca_certificates: Option<PathBuf>,
    /// What the proxy presents (`MUTUAL`).
    pub client: Option<ClientCertificate>,
}
