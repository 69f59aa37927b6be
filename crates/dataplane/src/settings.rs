//! Limits and times of a proxy. Each has a default that is safe on its own.

use meshtoll_model::cidr::Cidr;
use serde::Serialize;
use std::{net::IpAddr, time::Duration};

/// Limits and times.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Relay threads, and as many that set connections up.
    pub threads: usize,
    /// Address that listeners are bound to.
    pub listen: IpAddr,
    /// Mark of the proxy's own connections, where they are not told apart by its uid (`SO_MARK`).
    pub socket_mark: Option<u32>,
    /// Connections at once; more wait in the kernel's queue.
    pub max_connections: usize,
    /// Connections at once that have not said yet who they are or what they want; more are closed.
    pub max_pending: usize,
    /// How long a connection may take to say what it wants.
    pub opening_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long connecting to an upstream may take, over all its addresses.
    pub connect_timeout: Duration,
    /// How long nothing may be sent on a connection.
    pub idle_timeout: Option<Duration>,
    /// How long connections may go on when the proxy is told to end.
    pub drain_timeout: Duration,
    /// Private addresses that wildcard hosts may resolve to all the same.
    pub private_allowed: Vec<Cidr>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: 1,
            listen: IpAddr::from([0, 0, 0, 0]),
            socket_mark: None,
            max_connections: 65_536,
            max_pending: 1024,
            opening_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            // Istio's default for TCP.
            idle_timeout: Some(Duration::from_secs(3600)),
            drain_timeout: Duration::from_secs(30),
            private_allowed: Vec::new(),
        }
    }
}
