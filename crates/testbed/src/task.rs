//! Processes that are to end by themselves, such as one that fills a database.

use crate::{
    pod::PodId,
    process::ProcessId,
    testbed::{Testbed, TestbedError},
};
use meshtoll_model::process::ProcessSpec;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    os::fd::AsFd as _,
    time::{Duration, Instant},
};

impl Testbed {
    /// Runs a process in a pod to its end. Fails when it ends with another exit code than 0, has not ended within
    /// `deadline`, or the run is interrupted; then it is killed.
    pub fn run_to_end(&mut self, pod: PodId, spec: &ProcessSpec, deadline: Duration) -> Result<(), TestbedError> {
        let id = self.spawn(pod, spec)?;
        let ended = self.wait_end(id, deadline);
        let status = self.stop(id, Duration::ZERO)?;
        match ended? {
            true if status.success() => Ok(()),
            true => Err(self.died(id, status)),
            false => Err(TestbedError::NotReady {
                hops: spec.hop.to_string(),
                timeout: deadline,
                ready: spec.ready.clone(),
                stderr: self.processes[id.0].last_words(),
            }),
        }
    }

    /// Whether a process ends within `deadline`.
    fn wait_end(&self, id: ProcessId, deadline: Duration) -> Result<bool, TestbedError> {
        let process = &self.processes[id.0];
        let until = Instant::now() + deadline;
        loop {
            let left =
                PollTimeout::try_from(until.saturating_duration_since(Instant::now())).unwrap_or(PollTimeout::MAX);
            let mut watched = [
                PollFd::new(process.pidfd.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.interruption.fd(), PollFlags::POLLIN),
            ];
            match poll(&mut watched, left) {
                Err(Errno::EINTR) => {}
                Err(error) => return Err(TestbedError::Wait { hop: process.hop.clone(), source: error.into() }),
                Ok(_) if self.interruption.is_raised() => return Err(TestbedError::Interrupted),
                Ok(0) if Instant::now() < until => {}
                Ok(events) => return Ok(events > 0),
            }
        }
    }
}
