//! What processes and the machine have spent so far. Every reading is a counter: take two, and the difference is
//! what was spent in between.
//!
//! | reading | source | exactness |
//! |---|---|---|
//! | a process's CPU time | its CPU clock | ns, all threads, ended ones too |
//! | its user and system part | `/proc/PID/stat` | split by sampled ticks, 10 ms |
//! | machine busy | wall time × CPUs − idle − stolen, idle from `/proc/stat` | 10 ms; idle is counted exactly by a tickless kernel |
//! | kernel threads | `/proc/PID/schedstat` | ns |
//! | foreign processes | `/proc/PID/stat`, with ended children | 10 ms a process |
//! | all tasks together | `cpuacct.usage` of the root control group (version 1 only) | ns |
//!
//! Processes, kernel threads and foreign processes add up to all tasks. Busy is more than that by the time in which no task runs:
//! see [`MachineTimes::outside_tasks`]. `cargo run --release --example closure` shows both on a machine.

mod host;
mod machine;
mod parse;

pub use host::HostTasks;
pub use machine::MachineTimes;
pub use parse::Malformed;

use crate::{process::ProcessId, testbed::Testbed};
use meshtoll_model::units::Nanos;
use nix::{
    errno::Errno,
    time::ClockId,
    unistd::{Pid, SysconfVar, sysconf},
};
use std::{
    fs, io,
    ops::Add,
    path::{Path, PathBuf},
};

/// Why a probe has no reading.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A file of `/proc` or `/sys` cannot be read, as a rule because its process has ended.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not say what its kind says.
    #[error("{} is not understood", path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Malformed,
    },
    /// A clock cannot be read, as a rule because its process has ended.
    #[error("cannot read {what}")]
    Clock {
        /// Which.
        what: String,
        /// Why.
        source: Errno,
    },
}

/// CPU time that a process and its descendants have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// All of it, exact.
    pub total: Nanos,
    /// In user mode, to 10 ms; its share of `user + system` is sampled by the timer tick.
    pub user: Nanos,
    /// In the kernel, likewise.
    pub system: Nanos,
}

impl CpuTime {
    /// What was used since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            total: self.total.since(earlier.total),
            user: self.user.since(earlier.user),
            system: self.system.since(earlier.system),
        }
    }
}

impl Add for CpuTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { total: self.total + other.total, user: self.user + other.user, system: self.system + other.system }
    }
}

/// How often the threads of a process gave the CPU up, or lost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextSwitches {
    /// Because they had to wait.
    pub voluntary: u64,
    /// Because their time was up.
    pub involuntary: u64,
}

impl Testbed {
    /// CPU time of a process and its descendants (nginx serves in a child).
    pub fn cpu(&self, process: ProcessId) -> Result<CpuTime, ProbeError> {
        let mut sum = CpuTime::default();
        each_of_tree(self.pid(process), &mut |pid| {
            sum = sum + cpu_of(pid)?;
            Ok(())
        })?;
        Ok(sum)
    }

    /// Resident memory of a process and its descendants, bytes; pages that they share count for each.
    pub fn memory(&self, process: ProcessId) -> Result<u64, ProbeError> {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().map_or(4096, |size| size as u64);
        let mut sum = 0;
        each_of_tree(self.pid(process), &mut |pid| {
            let path = format!("/proc/{pid}/statm");
            sum += page * read_and(Path::new(&path), parse::resident_pages)?;
            Ok(())
        })?;
        Ok(sum)
    }

    /// Context switches of the living threads of a process and its descendants.
    pub fn context_switches(&self, process: ProcessId) -> Result<ContextSwitches, ProbeError> {
        let mut sum = ContextSwitches::default();
        each_of_tree(self.pid(process), &mut |pid| {
            let threads = PathBuf::from(format!("/proc/{pid}/task"));
            let failed = |source| ProbeError::Read { path: threads.clone(), source };
            for thread in fs::read_dir(&threads).map_err(failed)? {
                let path = thread.map_err(failed)?.path().join("status");
                let switches = read_and(&path, parse::context_switches)?;
                sum.voluntary += switches.voluntary;
                sum.involuntary += switches.involuntary;
            }
            Ok(())
        })?;
        Ok(sum)
    }
}

fn cpu_of(pid: u32) -> Result<CpuTime, ProbeError> {
    let failed = |source| ProbeError::Clock { what: format!("the CPU clock of process {pid}"), source };
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid.cast_signed())).map_err(failed)?;
    let total = clock.now().map_err(failed)?;
    let stat = read_and(Path::new(&format!("/proc/{pid}/stat")), parse::process)?;
    Ok(CpuTime { total: nanos(total), user: ticks(stat.user), system: ticks(stat.system) })
}

/// Calls `visit` for a process and everything that its main threads have forked.
fn each_of_tree(pid: u32, visit: &mut impl FnMut(u32) -> Result<(), ProbeError>) -> Result<(), ProbeError> {
    visit(pid)?;
    let path = PathBuf::from(format!("/proc/{pid}/task/{pid}/children"));
    for child in read_and(&path, parse::numbers)? {
        each_of_tree(child, visit)?;
    }
    Ok(())
}

fn read_and<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> Result<T, ProbeError> {
    let text = fs::read_to_string(path).map_err(|source| ProbeError::Read { path: path.to_owned(), source })?;
    parse(&text).map_err(|source| ProbeError::Malformed { path: path.to_owned(), source })
}

fn nanos(time: nix::sys::time::TimeSpec) -> Nanos {
    Nanos(time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs())
}

/// The unit of `/proc`'s times.
fn ticks(count: u64) -> Nanos {
    let a_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100, |ticks| ticks.unsigned_abs());
    Nanos(count * (1_000_000_000 / a_second))
}
