//! When requests are sent: drives sessions through one slice.

mod closed;
mod due;
mod open;
mod timer;

use crate::{
    protocol::{Schedule, SliceResult},
    recorder::{Recorder, Times},
    session::{Session, Transaction},
    window::Window,
};
use std::{
    cell::RefCell,
    io,
    num::NonZeroU32,
    time::{Duration, Instant},
};
use tokio::task::coop::unconstrained;

/// Drives the sessions until the window is over and every request that was sent is, too.
///
/// `sessions` are those that the schedule asks for, no more. Fails only when the system grants no timer.
pub(crate) async fn drive(schedule: Checked, window: Window, sessions: &mut [Session]) -> io::Result<SliceResult> {
    let slice = Slice { started: Instant::now(), window, recorder: RefCell::new(Recorder::new(window)) };
    // All sessions are polled within one task, whose cooperative budget would make the later ones wait in vain.
    match schedule {
        Checked::Closed { .. } => unconstrained(closed::drive(sessions, &slice)).await,
        Checked::Open { rate, .. } => unconstrained(open::drive(rate, sessions, &slice)).await?,
    }
    Ok(slice.recorder.into_inner().finish())
}

/// A [`Schedule`] that can be carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Checked {
    Closed { clients: NonZeroU32 },
    Open { rate: NonZeroU32, sessions: NonZeroU32 },
}

impl Checked {
    /// Checks what was asked for: `None` where a number is zero.
    pub(crate) fn check(schedule: Schedule) -> Option<Self> {
        Some(match schedule {
            Schedule::Closed { clients } => Self::Closed { clients: NonZeroU32::new(clients)? },
            Schedule::Open { rate, sessions } => {
                Self::Open { rate: NonZeroU32::new(rate)?, sessions: NonZeroU32::new(sessions)? }
            }
        })
    }

    /// How many sessions it drives.
    pub(crate) fn sessions(self) -> u32 {
        match self {
            Self::Closed { clients: sessions } | Self::Open { sessions, .. } => sessions.get(),
        }
    }
}

/// A slice while it is driven; shared by all its sessions, on one thread.
struct Slice {
    started: Instant,
    window: Window,
    recorder: RefCell<Recorder>,
}

impl Slice {
    /// Time since the slice's start.
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// When a request was sent and over, as times since the slice's start.
    fn times(&self, transaction: &Transaction) -> Times {
        let since = |at: Instant| at.saturating_duration_since(self.started);
        Times { sent: since(transaction.sent), answered: since(transaction.answered) }
    }

    /// Records a request that was due at `due`.
    fn record(&self, due: Duration, transaction: &Transaction) {
        let times = self.times(transaction);
        let mut recorder = self.recorder.borrow_mut();
        match &transaction.outcome {
            Ok(body_bytes) => recorder.succeeded(transaction.operation, due, times, *body_bytes),
            Err(failure) => recorder.failed(failure.kind(), times),
        }
    }
}
