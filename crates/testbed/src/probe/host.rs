//! Who else uses the machine: kernel threads, which work for the pods too, and foreign processes, which disturb.

use super::{Malformed, ProbeError, parse, ticks};
use crate::sandbox::Sandbox;
use meshtoll_model::units::Nanos;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// Longest text of a process's times: 52 numbers and a name.
const LONGEST: usize = 2048;

/// Counts the CPU time of tasks outside of the sandbox, as `/proc` of the host shows them.
///
/// Foreign processes are summed up together with their ended children: a process's time passes to its parent when that waits for
/// it, so short-lived ones (a compiler's) are not lost. Of a kernel thread that ends, what it did since the last reading is.
#[derive(Debug)]
pub struct HostTasks {
    proc: PathBuf,
    /// The sandbox's first process, by its host number: all processes of the sandbox descend from it.
    init: u32,
    tasks: BTreeMap<u32, Task>,
    kernel_threads: Nanos,
    /// What foreign processes had used at the start.
    foreign_before: Nanos,
}

#[derive(Debug)]
enum Task {
    /// Kept open, since opening costs more than reading.
    KernelThread {
        schedstat: File,
        seen: Nanos,
    },
    Foreign {
        stat: File,
    },
    /// Of the sandbox; charged elsewhere.
    Own,
}

impl HostTasks {
    /// Lists the tasks that there are; the counters start at zero.
    pub fn new() -> Result<Self, ProbeError> {
        let proc = Sandbox::host_proc();
        let path = proc.join("self/status");
        let lab = super::read_and(&path, |text| {
            let line = text.lines().find_map(|line| line.strip_prefix("Pid:"));
            line.and_then(|pid| pid.trim().parse::<u32>().ok()).ok_or(Malformed("number"))
        })?;
        let init = super::read_and(&proc.join(format!("{lab}/stat")), parse::process)?.parent;
        let (kernel_threads, foreign_before) = (Nanos(0), Nanos(0));
        let mut host = Self { proc, init, tasks: BTreeMap::new(), kernel_threads, foreign_before };
        host.foreign_before = host.foreign()?;
        // What kernel threads did before counts for nobody.
        host.kernel_threads = Nanos(0);
        Ok(host)
    }

    /// CPU time of kernel threads since [`HostTasks::new`]: of those that [`HostTasks::foreign`] has last listed.
    pub fn kernel_threads(&mut self) -> Result<Nanos, ProbeError> {
        self.tasks.retain(|pid, task| match task {
            Task::KernelThread { schedstat, seen } => {
                let time = read(schedstat, parse::run_time).map(Nanos);
                advance(*pid, time, seen, &mut self.kernel_threads)
            }
            Task::Foreign { .. } | Task::Own => true,
        });
        Ok(self.kernel_threads)
    }

    /// CPU time of processes that are neither kernel threads nor of the sandbox, since [`HostTasks::new`]. Lists the tasks anew.
    pub fn foreign(&mut self) -> Result<Nanos, ProbeError> {
        self.list()?;
        let mut sum = Nanos(0);
        self.tasks.retain(|_, task| match task {
            Task::Foreign { stat } => match read(stat, parse::process) {
                Ok(stat) => {
                    sum = sum + ticks(stat.user + stat.system + stat.children);
                    true
                }
                // It has ended since the listing.
                Err(_) => false,
            },
            Task::KernelThread { .. } | Task::Own => true,
        });
        Ok(sum.since(self.foreign_before))
    }

    /// Takes up tasks that are new, kernel threads with all that they have done; forgets those that are gone.
    fn list(&mut self) -> Result<(), ProbeError> {
        let failed = |source| ProbeError::Read { path: self.proc.clone(), source };
        let mut present = Vec::new();
        for entry in fs::read_dir(&self.proc).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            present.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        present.sort_unstable();
        self.tasks.retain(|pid, _| present.binary_search(pid).is_ok());
        present.retain(|pid| !self.tasks.contains_key(pid));

        let mut new: BTreeMap<u32, (File, parse::ProcessStat)> = BTreeMap::new();
        for pid in present {
            // It may have ended since the listing.
            if let Ok(file) = File::open(self.path(pid, "stat"))
                && let Ok(stat) = read(&file, parse::process)
            {
                new.insert(pid, (file, stat));
            }
        }
        let parents: BTreeMap<u32, u32> = new.iter().map(|(pid, (_, stat))| (*pid, stat.parent)).collect();
        for (pid, (file, stat)) in new {
            let task = if stat.is_kernel_thread {
                let Ok(schedstat) = File::open(self.path(pid, "schedstat")) else { continue };
                let Ok(seen) = read(&schedstat, parse::run_time).map(Nanos) else { continue };
                self.kernel_threads = self.kernel_threads + seen;
                Task::KernelThread { schedstat, seen }
            } else if self.is_own(pid, &parents) {
                Task::Own
            } else {
                Task::Foreign { stat: file }
            };
            if let Entry::Vacant(place) = self.tasks.entry(pid) {
                place.insert(task);
            }
        }
        Ok(())
    }

    /// Whether a new process descends from the sandbox's first one, through new processes or one known to be the sandbox's.
    fn is_own(&self, pid: u32, new: &BTreeMap<u32, u32>) -> bool {
        let mut pid = pid;
        loop {
            match (pid == self.init, self.tasks.get(&pid), new.get(&pid)) {
                (true, ..) | (_, Some(Task::Own), _) => return true,
                (_, None, Some(parent)) if *parent != pid => pid = *parent,
                _ => return false,
            }
        }
    }

    fn path(&self, pid: u32, file: &str) -> PathBuf {
        self.proc.join(Path::new(&pid.to_string())).join(file)
    }
}

/// Adds what a task has done since it was last seen; whether it still exists.
fn advance(pid: u32, time: io::Result<Nanos>, seen: &mut Nanos, sum: &mut Nanos) -> bool {
    match time {
        Ok(time) => {
            *sum = *sum + time.since(*seen);
            *seen = time;
            true
        }
        Err(error) => {
            tracing::trace!(pid, %error, "task is gone");
            false
        }
    }
}

fn read<T>(file: &File, parse: impl FnOnce(&str) -> Result<T, Malformed>) -> io::Result<T> {
    let mut buffer = [0; LONGEST];
    let length = file.read_at(&mut buffer, 0)?;
    // A command's name may be cut inside a character.
    parse(&String::from_utf8_lossy(&buffer[..length])).map_err(io::Error::other)
}
