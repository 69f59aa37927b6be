//! One connection, as the access log tells of it.

use meshtoll_model::ids::SpiffeId;
use serde::Serialize;
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A connection that ended, or that was refused.
#[derive(Clone, Debug)]
pub struct ConnectionRecord {
    /// Which way it went.
    pub direction: Direction,
    /// Where it came from.
    pub source: SocketAddr,
    /// Who opened it, by a certificate that was verified.
    pub source_identity: Option<SpiffeId>,
    /// Where it was headed.
    pub destination: SocketAddr,
    /// The host that it asked for: server name (the inner one, at a gateway that looks inside), or HTTP host.
    pub requested_host: Option<Box<str>>,
    /// Name of the upstream that was chosen.
    pub upstream: Option<Arc<str>>,
    /// The address that was connected to.
    pub connected: Option<SocketAddr>,
    /// When it was accepted.
    pub started: SystemTime,
    /// How long it lasted.
    pub duration: Duration,
    /// Bytes from the one who opened it to the upstream, without the data plane's own TLS.
    pub sent_bytes: u64,
    /// Bytes the other way.
    pub received_bytes: u64,
    /// How it ended.
    pub flag: ResponseFlag,
    /// More of why, for people.
    pub details: Option<Box<str>>,
    /// AUDIT rules that matched.
    pub audited: Vec<Box<str>>,
}

/// Which way a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From a sidecar's application.
    Outbound,
    /// To a sidecar's application.
    Inbound,
    /// Through an egress gateway.
    Gateway,
}

/// How a connection ended: Envoy's response flags where it has one for it
/// (<https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#response-flags>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum ResponseFlag {
    /// Both sides ended it.
    #[serde(rename = "-")]
    None,
    /// The one who opened it broke it off.
    #[serde(rename = "DC")]
    DownstreamClosed,
    /// The upstream broke it off.
    #[serde(rename = "UC")]
    UpstreamClosed,
    /// The upstream could not be connected to, or did not prove who it is.
    #[serde(rename = "UF")]
    UpstreamFailed,
    /// The upstream's name has no usable address.
    #[serde(rename = "DF")]
    DnsFailed,
    /// No route matches.
    #[serde(rename = "NR")]
    NoRoute,
    /// An authorization policy refused it, or a server name that is not the promised one.
    #[serde(rename = "UAEX")]
    Unauthorized,
    /// The one who opened it broke the protocol: no handshake, a malformed hello, too late, too large.
    #[serde(rename = "DPE")]
    DownstreamProtocol,
    /// A limit of the proxy was reached.
    #[serde(rename = "UO")]
    Overflow,
    /// Nothing was sent for too long.
    #[serde(rename = "SI")]
    IdleTimeout,
    /// The proxy was ending.
    #[serde(rename = "DR")]
    Drained,
}

impl Direction {
    /// As in access logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
            Self::Gateway => "gateway",
        }
    }
}

impl ResponseFlag {
    /// As in access logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "-",
            Self::DownstreamClosed => "DC",
            Self::UpstreamClosed => "UC",
            Self::UpstreamFailed => "UF",
            Self::DnsFailed => "DF",
            Self::NoRoute => "NR",
            Self::Unauthorized => "UAEX",
            Self::DownstreamProtocol => "DPE",
            Self::Overflow => "UO",
            Self::IdleTimeout => "SI",
            Self::Drained => "DR",
        }
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    /// A connection that was refused after 1.5 s.
    pub(crate) fn refused() -> ConnectionRecord {
        ConnectionRecord {
            direction: Direction::Outbound,
            source: "10.0.0.1:40000".parse().unwrap(),
            source_identity: "spiffe://cluster.local/ns/default/sa/booking".parse().ok(),
            destination: "192.0.2.1:27017".parse().unwrap(),
            requested_host: Some("airline.mongodb.example".into()),
            upstream: Some("outbound|27017||airline.mongodb.example".into()),
            connected: None,
            started: SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250),
            duration: Duration::from_millis(1500),
            sent_bytes: 517,
            received_bytes: 0,
            flag: ResponseFlag::NoRoute,
            details: Some("no route".into()),
            audited: vec!["default/audit[0]".into()],
        }
    }
}
