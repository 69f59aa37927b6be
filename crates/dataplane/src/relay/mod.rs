//! Relaying: what happens to a connection once it is set up, and the only code that runs for every message.

mod epoll;
mod leg;
mod pump;

pub use epoll::EpollRelay;
pub use leg::{Leg, LegError};
pub use pump::{Broken, Pump, Side, State};

use crate::telemetry::{ConnectionRecord, UpstreamCounters};
use std::{sync::Arc, time::Instant};
use tokio::sync::OwnedSemaphorePermit;

/// A way to relay. Userspace copy is the one there is; a multiplexed tunnel or a shortcut in the kernel would be others.
pub trait Strategy: Send + Sync {
    /// Its name, for the configuration dump.
    fn name(&self) -> &'static str;

    /// Takes over a connection that is set up.
    fn adopt(&self, established: Established);

    /// Breaks off all connections that it has.
    fn close_all(&self);
}

/// A connection that is set up: two sockets, and what is known of it.
pub struct Established {
    /// The side of the one who opened it.
    pub downstream: Leg,
    /// The side of the upstream.
    pub upstream: Leg,
    /// What was read of it while it was classified, and has to reach the upstream first.
    pub prelude: Vec<u8>,
    /// What is known of it, for the time when it ends.
    pub account: Account,
}

/// What is kept of a connection while it is relayed.
pub struct Account {
    /// Its record; bytes, duration and flag are filled in when it ends.
    pub record: Box<ConnectionRecord>,
    /// When it was accepted.
    pub accepted: Instant,
    /// Its upstream's counters.
    pub upstream: Arc<UpstreamCounters>,
    /// Its place among the connections that are allowed at once.
    pub slot: OwnedSemaphorePermit,
}

/// Told of every connection that ended.
pub type OnEnd = Arc<dyn Fn(ConnectionRecord) + Send + Sync>;
