//! What the host has: processes, namespaces, mounts, interfaces, and files where programs put what they share.

use crate::support::{until, workspace};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A process of the host, as far as it is of interest.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// Its current folder, where it may be read.
    pub(crate) folder: Option<PathBuf>,
}

/// What a run could leave behind and is not told apart by namespace. Runs of others on the same machine do not show here: their
/// mounts and interfaces are in namespaces of their own as well.
#[derive(Debug, PartialEq)]
pub(crate) struct Host {
    mounts: String,
    interfaces: BTreeSet<String>,
    files: BTreeSet<PathBuf>,
}

/// What shows that a run is there.
#[derive(Debug)]
pub(crate) struct Traces {
    namespaces: BTreeSet<String>,
    /// A text in its command line that no other process has.
    argument: String,
}

impl Host {
    pub(crate) fn look() -> Self {
        // Folders that everyone writes to; of them only what carries a name of what a run consists of.
        let shared = ["/tmp", "/var/tmp", "/run", "/var/lib", "/var/log"].into_iter().flat_map(names);
        let parts = ["meshtoll", "envoy", "nginx"];
        let of_a_run = shared.filter(|path| parts.iter().any(|part| path.to_string_lossy().contains(part)));
        let quiet = names("/dev/shm").into_iter().chain(names(workspace()));
        Self {
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap(),
            interfaces: names("/sys/class/net").iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            files: of_a_run.chain(quiet).collect(),
        }
    }
}

impl Traces {
    /// Those of processes that run, one of which has `argument` in its command line.
    pub(crate) fn of(processes: &[Process], argument: &Path) -> Self {
        let own = namespaces(std::process::id().cast_signed());
        let all: BTreeSet<String> = processes.iter().flat_map(|process| namespaces(process.pid)).collect();
        let traces = Self { namespaces: &all - &own, argument: argument.to_string_lossy().into_owned() };
        assert!(traces.namespaces.len() >= 10, "a run has namespaces for each of its pods, not only {traces:?}");
        assert!(traces.present().is_some());
        traces
    }

    /// Waits until no process is left of the run and none in its namespaces. A PID namespace has every process of a run, and
    /// what else a namespace has goes with its last process.
    pub(crate) fn until_gone(&self) {
        until("the end of all processes and namespaces of the run", || match self.present() {
            Some(_) => None,
            None => Some(()),
        });
    }

    fn present(&self) -> Option<i32> {
        everybody().into_iter().map(|process| process.pid).find(|pid| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).contains(&self.argument)
                || !namespaces(*pid).is_disjoint(&self.namespaces)
        })
    }
}

/// A process and all that it and its children have started, itself first.
pub(crate) fn descendants(ancestor: i32) -> Vec<Process> {
    let all = everybody();
    let mut found: Vec<Process> = all.iter().filter(|process| process.pid == ancestor).cloned().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|process| process.pid) {
        found.extend(all.iter().filter(|process| process.parent == parent).cloned());
        next += 1;
    }
    found
}

/// All processes, besides those that have ended and wait for their parent to notice.
fn everybody() -> Vec<Process> {
    let pids = names("/proc").into_iter().filter_map(|path| path.file_name()?.to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in parentheses, may have anything in it: proc_pid_stat(5).
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?.parse().ok()?);
        let folder = fs::read_link(format!("/proc/{pid}/cwd")).ok();
        (state != "Z").then_some(Process { pid, parent, folder })
    })
    .collect()
}

fn namespaces(pid: i32) -> BTreeSet<String> {
    let links = names(format!("/proc/{pid}/ns")).into_iter().filter_map(|link| fs::read_link(link).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

/// What is in a folder; nothing, when it is gone or closed to us.
fn names(folder: impl AsRef<Path>) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
