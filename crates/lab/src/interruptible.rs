//! Reading from a process without missing that somebody asks the run to stop.

use meshtoll_testbed::sandbox::Interruption;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    io::{self, Read},
    os::fd::AsFd,
};

/// A reader that fails when somebody asks the run to stop before there is something to read.
#[derive(Debug)]
pub(crate) struct Interruptible<R> {
    reader: R,
    interruption: Interruption,
}

impl<R> Interruptible<R> {
    pub(crate) fn new(reader: R, interruption: Interruption) -> Self {
        Self { reader, interruption }
    }
}

impl<R: Read + AsFd> Read for Interruptible<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut watched = [
                PollFd::new(self.reader.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.interruption.fd(), PollFlags::POLLIN),
            ];
            match poll(&mut watched, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
                // Not `Interrupted`, which readers take for a reason to try again.
                Ok(_) if self.interruption.is_raised() => return Err(io::Error::other("interrupted")),
                Ok(_) => return self.reader.read(buffer),
            }
        }
    }
}
