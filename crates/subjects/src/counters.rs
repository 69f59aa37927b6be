//! A hop's own counters, in terms that are the same for every subject: the evidence for the path of a case.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Cumulative since the proxy's start, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Traffic to each upstream, by Istio's name (`outbound|27017||airline.mongodb.example`, `inbound|9080||`,
    /// `PassthroughCluster`, …). Upstreams without traffic are there too, with zeros.
    pub upstreams: BTreeMap<String, UpstreamCounters>,
    /// TLS that the proxy terminated.
    pub terminated: TlsCounters,
}

/// Traffic of one upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamCounters {
    /// Connections opened.
    pub connections: u64,
    /// Connections open now (a gauge).
    pub active: u64,
    /// Bytes sent to it, before the proxy's own encryption.
    pub sent_bytes: u64,
    /// Bytes received from it, after the proxy's own decryption.
    pub received_bytes: u64,
    /// HTTP requests, where the proxy reads HTTP; else zero.
    pub requests: u64,
    /// TLS handshakes completed with it.
    pub tls_handshakes: u64,
}

/// TLS terminated by the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsCounters {
    /// Handshakes completed.
    pub handshakes: u64,
    /// Of these, without a client certificate.
    pub without_client_certificate: u64,
    /// Handshakes that failed, certificates refused included.
    pub failed: u64,
}

/// Why a proxy's answer says nothing about its counters.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Envoy's answer is not its JSON format of statistics.
    #[error("the answer is not Envoy's statistics as JSON; is another process on the admin port?")]
    EnvoyStats {
        /// Where it differs.
        source: serde_json::Error,
    },
    /// Meshtoll's answer is not its counters.
    #[error("the answer is not Meshtoll's counters as JSON; is another process on the admin port?")]
    Meshtoll {
        /// Where it differs.
        source: serde_json::Error,
    },
    /// nginx's answer is not the text of its `stub_status` module.
    #[error("'{answer}' is not an answer of nginx's stub_status; is another process on the status port?")]
    StubStatus {
        /// What was answered.
        answer: String,
    },
}
