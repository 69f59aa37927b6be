//! Who connected, how, and what for: the evidence of the path that traffic took.

use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Most paths that are told apart. The server name is what a client makes it, so the number has to be bounded.
const MAX_PATHS: usize = 1024;

/// A path without an open connection is forgotten after this long.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// All connections of the last hour, as the admin port's `/connections` answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Snapshot {
    /// One entry a path, sorted by it.
    pub connections: Vec<ConnectionStats>,
    /// Connections that are in no entry, because there were too many paths.
    pub unlisted: u64,
    /// Connections that ended before their TLS handshake did.
    pub failed_handshakes: u64,
}

/// The connections of one path: of one peer, server name and TLS version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectionStats {
    /// The address that the connections came from: of the last hop before the database.
    pub peer: IpAddr,
    /// The server name that the client asked for, if it did.
    pub sni: Option<String>,
    /// `TLSv1.2` or `TLSv1.3`; none without TLS.
    pub tls: Option<String>,
    /// Connections opened, handshake included.
    pub opened: u64,
    /// Connections open now.
    pub open: u64,
    /// Commands, without those of `housekeeping`.
    pub operations: u64,
    /// Commands that drivers send on their own account: `hello`, `ping`, `endSessions`.
    pub housekeeping: u64,
    /// Bytes of messages received, without TLS.
    pub bytes_in: u64,
    /// Bytes of messages sent, without TLS.
    pub bytes_out: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Path {
    peer: IpAddr,
    sni: Option<String>,
    tls: Option<String>,
}

/// The counters of one path.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) operations: AtomicU64,
    pub(crate) housekeeping: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    opened: AtomicU64,
    open: AtomicU64,
    last_close: Mutex<Instant>,
}

/// The counters of all paths.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    paths: Mutex<HashMap<Path, Arc<Counters>>>,
    unlisted: AtomicU64,
    failed_handshakes: AtomicU64,
}

/// An open connection; it counts as closed when this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    pub(crate) counters: Arc<Counters>,
}

impl Stats {
    /// Counts a connection that is open from now on.
    pub(crate) fn open(&self, peer: IpAddr, sni: Option<&str>, tls: Option<&str>) -> OpenConnection {
        let path = Path { peer: peer.to_canonical(), sni: sni.map(str::to_owned), tls: tls.map(str::to_owned) };
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        if !paths.contains_key(&path) && paths.len() >= MAX_PATHS {
            make_room(&mut paths, Instant::now());
        }
        let counters = if paths.contains_key(&path) || paths.len() < MAX_PATHS {
            Arc::clone(paths.entry(path).or_default())
        } else {
            self.unlisted.fetch_add(1, Relaxed);
            Arc::default()
        };
        counters.opened.fetch_add(1, Relaxed);
        counters.open.fetch_add(1, Relaxed);
        OpenConnection { counters }
    }

    /// Counts a connection that did not get through its handshake.
    pub(crate) fn failed_handshake(&self) {
        self.failed_handshakes.fetch_add(1, Relaxed);
    }

    /// What has been counted so far.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        paths.retain(|_, counters| !counters.is_forgotten(now));
        let mut paths: Vec<_> = paths.iter().collect();
        paths.sort_unstable_by_key(|(path, _)| *path);
        let connections = paths.into_iter().map(|(path, counters)| counters.read(path)).collect();
        Snapshot {
            connections,
            unlisted: self.unlisted.load(Relaxed),
            failed_handshakes: self.failed_handshakes.load(Relaxed),
        }
    }
}

/// Removes the paths that are to be forgotten, and at least the longest closed one if any is.
fn make_room(paths: &mut HashMap<Path, Arc<Counters>>, now: Instant) {
    paths.retain(|_, counters| !counters.is_forgotten(now));
    if paths.len() < MAX_PATHS {
        return;
    }
    let closed = paths.iter().filter(|(_, counters)| counters.open.load(Relaxed) == 0);
    if let Some(oldest) = closed.min_by_key(|(_, counters)| counters.closed_at()).map(|(path, _)| path.clone()) {
        paths.remove(&oldest);
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            operations: AtomicU64::new(0),
            housekeeping: AtomicU64::new(0),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            open: AtomicU64::new(0),
            last_close: Mutex::new(Instant::now()),
        }
    }
}

impl Counters {
    fn closed_at(&self) -> Instant {
        *self.last_close.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_forgotten(&self, now: Instant) -> bool {
        self.open.load(Relaxed) == 0 && now.duration_since(self.closed_at()) > REMEMBERED
    }

    fn read(&self, path: &Path) -> ConnectionStats {
        ConnectionStats {
            peer: path.peer,
            sni: path.sni.clone(),
            tls: path.tls.clone(),
            opened: self.opened.load(Relaxed),
            open: self.open.load(Relaxed),
            operations: self.operations.load(Relaxed),
            housekeeping: self.housekeeping.load(Relaxed),
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        *self.counters.last_close.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.counters.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn connections_are_counted_by_path() {
        let stats = Stats::default();
        let first = stats.open(PEER, Some("a.example"), Some("TLSv1.3"));
        let second = stats.open("::ffff:127.0.0.1".parse().unwrap(), Some("a.example"), Some("TLSv1.3"));
        let _other = stats.open(PEER, None, None);
        first.counters.operations.fetch_add(2, Relaxed);
        second.counters.operations.fetch_add(3, Relaxed);
        drop(first);
        let snapshot = stats.snapshot();
        let [plain, tls] = &snapshot.connections[..] else { panic!("{snapshot:?}") };
        assert_eq!((plain.sni.as_deref(), plain.opened, plain.open), (None, 1, 1));
        assert_eq!((tls.sni.as_deref(), tls.opened, tls.open, tls.operations), (Some("a.example"), 2, 1, 5));
        let json = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
    }

    #[test]
    fn paths_are_bounded_and_the_open_ones_stay() {
        let stats = Stats::default();
        let kept = stats.open(PEER, Some("kept"), None);
        for number in 0..2 * MAX_PATHS {
            stats.open(PEER, Some(&number.to_string()), None);
        }
        let snapshot = stats.snapshot();
        assert_eq!((snapshot.connections.len(), snapshot.unlisted), (MAX_PATHS, 0));
        assert!(snapshot.connections.iter().any(|path| path.sni.as_deref() == Some("kept")));
        drop(kept);
    }

    #[test]
    fn connections_without_room_are_reported() {
        let stats = Stats::default();
        let open = |number: usize| stats.open(PEER, Some(&number.to_string()), None);
        let _all: Vec<_> = (0..=MAX_PATHS).map(open).collect();
        assert_eq!(stats.snapshot().unlisted, 1);
    }
}
