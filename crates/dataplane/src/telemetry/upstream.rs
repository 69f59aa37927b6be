//! Counters of upstreams: bytes are counted while connections live, since some live for days.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Counters of one upstream.
#[derive(Debug, Default)]
pub struct UpstreamCounters {
    /// Connections opened.
    pub connections: AtomicU64,
    /// Connections open now.
    pub active: AtomicU64,
    /// Connections that could not be opened.
    pub failed: AtomicU64,
    /// Bytes sent to it, before the proxy's own encryption.
    pub sent_bytes: AtomicU64,
    /// Bytes received from it, after the proxy's own decryption.
    pub received_bytes: AtomicU64,
    /// TLS handshakes completed with it.
    pub tls_handshakes: AtomicU64,
}

/// The upstreams that there are, and were since the start. Their names come from resources, so that there are few.
#[derive(Debug, Default)]
pub struct Upstreams(Mutex<BTreeMap<Arc<str>, Arc<UpstreamCounters>>>);

impl Upstreams {
    /// The counters of the upstream of that name.
    pub fn named(&self, name: &str) -> (Arc<str>, Arc<UpstreamCounters>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, counters)) = all.get_key_value(name) {
            return (name.clone(), counters.clone());
        }
        let (name, counters) = (Arc::<str>::from(name), Arc::<UpstreamCounters>::default());
        all.insert(name.clone(), counters.clone());
        (name, counters)
    }

    /// All of them.
    pub fn all(&self) -> Vec<(Arc<str>, Arc<UpstreamCounters>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, counters)| (name.clone(), counters.clone())).collect()
    }
}

impl UpstreamCounters {
    /// A connection was opened; it is active until [`UpstreamCounters::closed`].
    pub fn opened(&self) {
        self.connections.fetch_add(1, Relaxed);
        self.active.fetch_add(1, Relaxed);
    }

    /// A connection that was opened ended.
    pub fn closed(&self) {
        self.active.fetch_sub(1, Relaxed);
    }
}
