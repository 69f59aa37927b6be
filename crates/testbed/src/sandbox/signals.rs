//! How the lab notices that it is asked to stop.

use super::SandboxError;
use nix::{
    errno::Errno,
    fcntl::OFlag,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction},
    unistd::pipe2,
};
use std::{
    os::fd::{BorrowedFd, IntoRawFd as _},
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
    time::Duration,
};

static RAISED: AtomicBool = AtomicBool::new(false);
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Whether somebody asked the run to stop. A copy of it is the same question.
#[derive(Clone, Copy, Debug)]
pub struct Interruption {
    fd: BorrowedFd<'static>,
}

impl Interruption {
    /// Whether it has been asked.
    pub fn is_raised(self) -> bool {
        RAISED.load(Ordering::SeqCst)
    }

    /// Becomes readable, for good, when it is asked: to be polled beside what one waits for.
    pub fn fd(self) -> BorrowedFd<'static> {
        self.fd
    }

    /// Waits until it is asked or `timeout` is over; whether it is asked.
    pub fn wait(self, timeout: Duration) -> bool {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        // A signal ends the poll early, and then the flag is up.
        let _ = poll(&mut [PollFd::new(self.fd, PollFlags::POLLIN)], timeout);
        self.is_raised()
    }
}

/// Installs the handlers and unblocks what was blocked for the forks.
pub(super) fn listen(blocked: &SigSet) -> Result<Interruption, SandboxError> {
    let failed = |source: Errno| SandboxError::Signals { source };
    let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(failed)?;
    WAKE.store(write.into_raw_fd(), Ordering::SeqCst);
    let action = SigAction::new(SigHandler::Handler(on_signal), SaFlags::SA_RESTART, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler only touches atomics and makes async-signal-safe system calls.
        unsafe { sigaction(signal, &action) }.map_err(failed)?;
    }
    blocked.thread_unblock().map_err(failed)?;
    // SAFETY: the descriptor was just made and is never closed, so it is valid for the rest of the process.
    Ok(Interruption { fd: unsafe { BorrowedFd::borrow_raw(read.into_raw_fd()) } })
}

extern "C" fn on_signal(signal: libc::c_int) {
    if RAISED.swap(true, Ordering::SeqCst) {
        // SAFETY: async-signal-safe; init and the kernel end everything else of the sandbox.
        unsafe { libc::_exit(128 + signal) }
    }
    // SAFETY: async-signal-safe; one byte from a valid place. `errno` of the interrupted code is kept.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(WAKE.load(Ordering::SeqCst), [0_u8].as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}
