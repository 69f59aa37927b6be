//! Passes bytes between the two sides of a connection, as far as both can without waiting. Independent of who says
//! when that is: the relay threads' epoll, or, in a benchmark, tokio.

use super::{Account, Established, Leg, LegError};
use crate::telemetry::{ConnectionRecord, ResponseFlag};
use nix::sys::epoll::EpollFlags;
use std::sync::atomic::Ordering::Relaxed;

/// Reads for one connection before others have their turn.
const READS_A_TURN: u32 = 16;

/// A connection that is relayed.
pub struct Pump {
    downstream: Leg,
    upstream: Leg,
    sent_bytes: u64,
    received_bytes: u64,
    account: Account,
}

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That of the one who opened it.
    Downstream,
    /// That of the upstream.
    Upstream,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// For a socket.
    Waiting,
    /// For its next turn: there is more to do.
    Busy,
    /// For nothing: both directions ended.
    Done,
}

/// A connection that cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{side:?}: {source}")]
pub struct Broken {
    /// Whose fault it is.
    pub side: Side,
    /// What happened.
    pub source: LegError,
}

impl Pump {
    /// Starts with what was read of the connection already.
    pub fn new(mut established: Established) -> Result<Self, (Broken, Account)> {
        let prelude = established.prelude.len() as u64;
        if prelude > 0
            && let Err(source) = established.upstream.send(&established.prelude)
        {
            return Err((Broken { side: Side::Upstream, source }, established.account));
        }
        established.account.upstream.sent_bytes.fetch_add(prelude, Relaxed);
        let Established { downstream, upstream, account, .. } = established;
        Ok(Self { downstream, upstream, sent_bytes: prelude, received_bytes: 0, account })
    }

    /// The socket of a side.
    pub fn leg(&self, side: Side) -> &Leg {
        match side {
            Side::Downstream => &self.downstream,
            Side::Upstream => &self.upstream,
        }
    }

    /// Takes note of what epoll says of a side.
    pub fn note(&mut self, side: Side, events: EpollFlags) {
        match side {
            Side::Downstream => self.downstream.note(events),
            Side::Upstream => self.upstream.note(events),
        }
    }

    /// Passes on what can be passed on. `buffer` is scratch space, and may be any connection's.
    pub fn drive(&mut self, buffer: &mut [u8]) -> Result<State, Broken> {
        let mut reads = READS_A_TURN;
        let sent_before = self.sent_bytes;
        let received_before = self.received_bytes;
        let state = loop {
            let sent = pass(&mut self.downstream, &mut self.upstream, buffer, &mut reads, &mut self.sent_bytes);
            let sent = sent.map_err(|broken| broken.at(Side::Downstream, Side::Upstream))?;
            let received = pass(&mut self.upstream, &mut self.downstream, buffer, &mut reads, &mut self.received_bytes);
            let received = received.map_err(|broken| broken.at(Side::Upstream, Side::Downstream))?;
            if self.downstream.sent_end() && self.upstream.sent_end() {
                break State::Done;
            }
            if reads == 0 {
                break State::Busy;
            }
            if !sent && !received {
                break State::Waiting;
            }
        };
        let counters = &self.account.upstream;
        if self.sent_bytes > sent_before {
            counters.sent_bytes.fetch_add(self.sent_bytes - sent_before, Relaxed);
        }
        if self.received_bytes > received_before {
            counters.received_bytes.fetch_add(self.received_bytes - received_before, Relaxed);
        }
        Ok(state)
    }

    /// What is to be said of the connection, which is closed by this: by a reset unless both directions ended.
    pub fn finish(self, flag: ResponseFlag, details: Option<String>) -> ConnectionRecord {
        if flag != ResponseFlag::None {
            self.downstream.reset_on_close();
            self.upstream.reset_on_close();
        }
        let mut record = self.account.end(flag, details);
        record.sent_bytes = self.sent_bytes;
        record.received_bytes = self.received_bytes;
        record
    }
}

impl Account {
    /// The record of a connection that ended.
    pub(super) fn end(self, flag: ResponseFlag, details: Option<String>) -> ConnectionRecord {
        self.upstream.closed();
        let mut record = *self.record;
        record.duration = self.accepted.elapsed();
        record.flag = flag;
        record.details = details.map(String::into_boxed_str).or(record.details);
        record
    }
}

impl Broken {
    /// The flag of a connection that broke so.
    pub fn flag(&self) -> ResponseFlag {
        match self.side {
            Side::Downstream => ResponseFlag::DownstreamClosed,
            Side::Upstream => ResponseFlag::UpstreamClosed,
        }
    }
}

enum PassError {
    From(LegError),
    To(LegError),
}

impl PassError {
    fn at(self, from: Side, to: Side) -> Broken {
        match self {
            Self::From(source) => Broken { side: from, source },
            Self::To(source) => Broken { side: to, source },
        }
    }
}

/// Passes on in one direction. Whether anything was done, so that the other direction may have become possible.
fn pass(from: &mut Leg, to: &mut Leg, buffer: &mut [u8], reads: &mut u32, passed: &mut u64) -> Result<bool, PassError> {
    let mut progress = false;
    if to.has_unsent() {
        if !to.flush().map_err(PassError::To)? {
            return Ok(false);
        }
        progress = true;
    }
    while from.has_input() && *reads > 0 {
        *reads -= 1;
        let mut failed = None;
        let read = from.receive(buffer, |bytes| {
            if failed.is_none() {
                failed = to.send(bytes).err();
            }
        });
        // What arrived before a side broke is still for the other one.
        let all_sent = to.flush();
        let read = read.map_err(PassError::From)?;
        if let Some(error) = failed {
            return Err(PassError::To(error));
        }
        *passed += read as u64;
        progress |= read > 0;
        if !all_sent.map_err(PassError::To)? {
            break;
        }
    }
    if from.received_end() && !to.sent_end() {
        progress = true;
        to.end().map_err(PassError::To)?;
        progress &= to.sent_end();
    }
    Ok(progress)
}
