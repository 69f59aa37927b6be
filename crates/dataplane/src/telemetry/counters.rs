//! A snapshot of the counters as JSON, in the form in which the lab reads every proxy's: the evidence for the path that traffic
//! took.

use serde::Serialize;
use std::collections::BTreeMap;

/// Cumulative since the start, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Traffic to each upstream, by Istio's name for it.
    pub upstreams: BTreeMap<String, UpstreamSnapshot>,
    /// TLS that the proxy terminated.
    pub terminated: TlsCounters,
}

/// Traffic of one upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamSnapshot {
    /// Connections opened.
    pub connections: u64,
    /// Connections open now.
    pub active: u64,
    /// Bytes sent to it, before the proxy's own encryption.
    pub sent_bytes: u64,
    /// Bytes received from it, after the proxy's own decryption.
    pub received_bytes: u64,
    /// HTTP requests: none, since the proxy reads no further than the first one's host.
    pub requests: u64,
    /// TLS handshakes completed with it.
    pub tls_handshakes: u64,
}

/// TLS terminated by the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsCounters {
    /// Handshakes completed.
    pub handshakes: u64,
    /// Of these, without a client certificate.
    pub without_client_certificate: u64,
    /// Handshakes that failed, certificates refused included.
    pub failed: u64,
}
