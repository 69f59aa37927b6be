//! A timer that is exact to microseconds: tokio's own ticks once a millisecond, at which a rate of 20 000 requests a
//! second would come in bursts of 20.

use nix::sys::{
    time::TimeSpec,
    timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    time::Duration,
};
use tokio::io::{Interest, unix::AsyncFd};

/// A `timerfd`.
pub(super) struct Timer(AsyncFd<Descriptor>);

struct Descriptor(TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Timer {
    /// A timer that is not set. Fails when the process has no file descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
        // SAFETY: `Descriptor` owns a `TimerFd`, which owns an open descriptor and closes it only when dropped; the field
        // is private to this module, never replaced, and lent out only shared, so that descriptor is the same one, open,
        // for as long as the `AsyncFd` lives.
        Ok(Self(unsafe { AsyncFd::register_with_interest(Descriptor(timer), Interest::READABLE) }?))
    }

    /// Waits this long, and lets the sessions run at least once even where it is no time at all.
    pub(super) async fn wait(&self, span: Duration) -> io::Result<()> {
        let span = span.max(Duration::from_nanos(1)); // 0 would unset it
        self.0.get_ref().0.set(Expiration::OneShot(TimeSpec::from_duration(span)), TimerSetTimeFlags::empty())?;
        // Setting it again takes the expiry back that was not read, so there is nothing to read in between.
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test(flavor = "current_thread")]
    async fn never_fires_early_however_often_it_is_set() {
        let timer = Timer::new().unwrap();
        for micros in [0, 100, 3000, 1, 500] {
            let (start, span) = (Instant::now(), Duration::from_micros(micros));
            timer.wait(span).await.unwrap();
            assert!(start.elapsed() >= span);
        }
    }
}
