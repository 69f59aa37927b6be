//! Nothing is left of a run, however it ends.

use crate::{
    Runner,
    cases::{Problem, pod, serve, testbed},
};
use libtest_mimic::Failed;
use meshtoll_model::process::RunAs;
use meshtoll_testbed::{network::Network, sandbox::Sandbox};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _},
    os::{
        fd::{AsFd as _, FromRawFd as _, OwnedFd},
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    time::Duration,
};

type Test = fn(&Runner) -> Result<(), Failed>;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("nothing_is_left_after_success", |runner| ends(runner, "until_told", |run| run.say_goodbye(), Some(0))),
    ("nothing_is_left_after_error", |runner| ends(runner, "error", |run| run.say_goodbye(), Some(1))),
    ("nothing_is_left_after_panic", |runner| ends(runner, "panic", |run| run.say_goodbye(), Some(101))),
    ("nothing_is_left_after_sigint", |runner| ends(runner, "until_told", |run| run.interrupt(Signal::SIGINT), Some(0))),
    ("nothing_is_left_after_sigterm", |runner| {
        ends(runner, "until_told", |run| run.interrupt(Signal::SIGTERM), Some(0))
    }),
    ("nothing_is_left_after_two_sigints", |runner| ends(runner, "stubborn", Run::interrupt_twice, Some(130))),
    ("nothing_is_left_after_sigkill_of_the_outer_process", |runner| {
        ends(runner, "until_told", |run| Ok(kill(run.outer(), Signal::SIGKILL)?), None)
    }),
    ("nothing_is_left_after_sigkill_of_init", |runner| {
        ends(runner, "until_told", |run| Ok(kill(Pid::from_raw(run.about.init), Signal::SIGKILL)?), Some(137))
    }),
    ("nothing_is_left_after_sigkill_of_the_lab", |runner| {
        ends(runner, "until_told", |run| Ok(kill(Pid::from_raw(run.about.lab), Signal::SIGKILL)?), Some(137))
    }),
    ("a_pod_can_be_entered_from_outside", entered),
];

/// What a case says about itself before it waits.
#[derive(Serialize, Deserialize)]
struct About {
    init: i32,
    lab: i32,
    /// Host numbers of processes in pods.
    processes: Vec<i32>,
    /// What opens a shell in the pod.
    enter: String,
}

/// Runs a pod with processes, says so, and waits to be told to end; `then` is how it ends.
fn rest(sandbox: Sandbox, then: impl FnOnce() -> Result<(), Problem>) -> Result<(), Problem> {
    let interruption = sandbox.interruption();
    let mut testbed = testbed(sandbox)?;
    let pod = testbed.add_pod(&pod("pod", Network::Mesh, 2))?;
    let processes = [
        serve(&mut testbed, pod, "pod/app", RunAs::Application, 80)?,
        serve(&mut testbed, pod, "pod/sidecar", RunAs::Proxy, 81)?,
    ];
    let status = fs::read_to_string(Sandbox::host_proc().join("self/status"))?;
    let field = |name: &str| -> Result<i32, Problem> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.ok_or("no such field")?.trim().parse()?)
    };
    let about = About {
        init: field("PPid:")?,
        lab: field("Pid:")?,
        processes: processes.iter().map(|id| testbed.host_pid(*id).map(|pid| pid as i32)).collect::<Result<_, _>>()?,
        enter: testbed.enter_command(pod)?,
    };
    println!("{}", serde_json::to_string(&about)?);

    // Either an interruption or the end of standard input.
    let stdin = std::io::stdin();
    let mut either = [PollFd::new(interruption.fd(), PollFlags::POLLIN), PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    while let Err(Errno::EINTR) = poll(&mut either, PollTimeout::NONE) {}
    // The interruption must not have reached the pods before the lab has.
    testbed.check_alive()?;
    println!("ending");
    then()
}

pub(crate) fn until_told(sandbox: Sandbox) -> Result<(), Problem> {
    rest(sandbox, || Ok(()))
}

pub(crate) fn stubborn(sandbox: Sandbox) -> Result<(), Problem> {
    rest(sandbox, || {
        let mut never = String::new();
        std::io::stdin().read_to_string(&mut never)?;
        Err("the second signal should have ended it".into())
    })
}

pub(crate) fn failing(sandbox: Sandbox) -> Result<(), Problem> {
    rest(sandbox, || Err("on purpose".into()))
}

pub(crate) fn panicking(sandbox: Sandbox) -> Result<(), Problem> {
    rest(sandbox, || panic!("on purpose"))
}

/// A case that rests.
struct Run {
    child: Child,
    /// Held here, since `Child::wait` would close it.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    about: About,
}

impl Run {
    fn start(runner: &Runner, case: &str) -> Result<Self, Failed> {
        let mut command = runner.command(case);
        // As a shell starts it: a process group of its own, which Ctrl-C goes to.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        if line.is_empty() {
            return Err(format!("{case} did not start: {}", complaints(&mut child)).into());
        }
        let stdin = child.stdin.take();
        Ok(Self { about: serde_json::from_str(&line)?, child, stdin, stdout })
    }

    fn outer(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    fn say_goodbye(&mut self) -> Result<(), Failed> {
        drop(self.stdin.take());
        Ok(())
    }

    /// As a terminal does.
    fn interrupt(&mut self, signal: Signal) -> Result<(), Failed> {
        Ok(killpg(self.outer(), signal)?)
    }

    fn interrupt_twice(&mut self) -> Result<(), Failed> {
        self.interrupt(Signal::SIGINT)?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        self.interrupt(Signal::SIGINT)
    }

    fn all(&self) -> Vec<i32> {
        let About { init, lab, processes, .. } = &self.about;
        [&[*init, *lab], processes.as_slice()].concat()
    }
}

/// What the host has besides processes: mounts, interfaces, files in memory and in the folder for temporary files.
#[derive(PartialEq, Debug)]
struct Host {
    mounts: String,
    interfaces: BTreeSet<String>,
    shared_memory: BTreeSet<String>,
}

impl Host {
    fn look() -> Result<Self, Failed> {
        let names = |path: &str| -> Result<BTreeSet<String>, Failed> {
            let entries = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            entries.collect()
        };
        Ok(Self {
            mounts: fs::read_to_string("/proc/self/mountinfo")?,
            interfaces: names("/sys/class/net")?,
            shared_memory: names("/dev/shm")?,
        })
    }
}

fn ends(
    runner: &Runner,
    case: &str,
    end: impl FnOnce(&mut Run) -> Result<(), Failed>,
    expected: Option<i32>,
) -> Result<(), Failed> {
    let before = Host::look()?;
    let mut run = Run::start(runner, case)?;
    let processes = run.all();
    let watched: Vec<OwnedFd> = processes.iter().map(|pid| pidfd_open(*pid)).collect::<Result<_, _>>()?;
    let namespaces: BTreeSet<String> = processes.iter().flat_map(|pid| foreign_namespaces(*pid)).collect();
    // The kernel gives numbers of namespaces out again, but not while they are held.
    let _held: Vec<Vec<File>> = processes.iter().map(|pid| hold_namespaces(*pid)).collect::<Result<_, _>>()?;
    if namespaces.len() < 6 {
        return Err(format!("the run should have namespaces of its own, not only {namespaces:?}").into());
    }

    end(&mut run)?;
    let status = run.child.wait()?;
    for (pid, fd) in processes.iter().zip(&watched) {
        let timeout = PollTimeout::try_from(Duration::from_secs(20))?;
        if poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout)? == 0 {
            return Err(format!("process {pid} is left").into());
        }
    }
    check_status(status, expected).map_err(|wrong| format!("{wrong}: {}", complaints(&mut run.child)))?;
    let left: Vec<String> =
        everybody()?.into_iter().flat_map(foreign_namespaces).filter(|it| namespaces.contains(it)).collect();
    if !left.is_empty() {
        return Err(format!("namespaces are left: {left:?}").into());
    }
    let after = Host::look()?;
    if after == before { Ok(()) } else { Err(format!("{before:?} became {after:?}").into()) }
}

fn check_status(status: ExitStatus, expected: Option<i32>) -> Result<(), String> {
    let right = match expected {
        Some(code) => status.code() == Some(code),
        None => status.signal() == Some(Signal::SIGKILL as i32),
    };
    if right { Ok(()) } else { Err(format!("{status} instead of {expected:?}")) }
}

fn entered(runner: &Runner) -> Result<(), Failed> {
    let mut run = Run::start(runner, "until_told")?;
    let about = &run.about;
    let mut words: Vec<&str> = about.enter.split(' ').collect();
    words.pop();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["sh", "-c", "cat /etc/resolv.conf; cat /proc/net/fib_trie"]);
    runner.as_user(&mut command);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    run.say_goodbye()?;
    run.child.wait()?;
    if text.contains("nameserver 10.44.0.1") && text.contains("10.44.0.2") {
        Ok(())
    } else {
        Err(format!("{:?}: {text}{}", command, String::from_utf8_lossy(&output.stderr)).into())
    }
}

fn hold_namespaces(pid: i32) -> Result<Vec<File>, Failed> {
    let links = fs::read_dir(format!("/proc/{pid}/ns"))?;
    links.map(|link| Ok(File::open(link?.path())?)).collect()
}

/// Namespaces of a process that are not this one's.
fn foreign_namespaces(pid: i32) -> BTreeSet<String> {
    let of = |pid: &str| -> BTreeSet<String> {
        let links = fs::read_dir(format!("/proc/{pid}/ns")).into_iter().flatten().flatten();
        links.filter_map(|link| fs::read_link(link.path()).ok()).map(|it| it.to_string_lossy().into_owned()).collect()
    };
    &of(&pid.to_string()) - &of("self")
}

/// All processes of the host, besides those that have ended and wait for the host's init to notice.
fn everybody() -> Result<Vec<i32>, Failed> {
    let names = fs::read_dir("/proc")?.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<Result<_, std::io::Error>>()?;
    let pids = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    let runs = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    Ok(pids.filter(runs).collect())
}

fn pidfd_open(pid: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: a system call without pointers.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn complaints(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        // What cannot be read is not there to be told.
        let _ = stderr.read_to_string(&mut text);
    }
    text
}
