//! The process tree that a run lives in, with namespaces of its own, so that nothing of it can outlive it.
//!
//! Three processes: the *outer* one stays in the host's PID namespace, forwards signals and waits. *Init* is
//! PID 1 inside: it only reaps, so it can wait for any child without taking the exit status of one that the lab
//! waits for. The *lab* is its child, an ordinary process, and goes on with `main`. When the outer process
//! dies, however it dies, init gets SIGKILL (`PR_SET_PDEATHSIG`); when init or the lab dies, the kernel ends
//! every process of the PID namespace, and with the last process go mounts, interfaces and rules.

mod error;
mod signals;
mod userns;

pub use error::SandboxError;
pub use signals::Interruption;
pub(crate) use userns::mend as mend_user_namespaces;

use crate::tools::{IP, NFT};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    mount::{MsFlags, mount},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, unshare},
    sys::{
        prctl,
        signal::{SigSet, Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, fork, geteuid, pipe2, setsid},
};
use std::{
    fs,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

/// Where the sandbox has its private file system in memory. It covers the host's folder of that name, which
/// exists on every Linux and holds only what processes share while they run.
const PRIVATE: &str = "/dev/shm";

/// How the sandbox gets its privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As root when the caller is root, else rootless.
    Automatic,
    /// In a user namespace, whoever the caller is.
    Rootless,
}

/// Which side of the fork the caller is on.
#[derive(Debug)]
pub enum Entered {
    /// Inside: go on as the lab. The exit code of `main` becomes that of the outer process.
    Inside(Sandbox),
    /// Outside: the sandbox has ended with this exit code (128 + number when by a signal, as in a shell).
    Ended(u8),
}

/// The sandbox that the calling process is in.
#[derive(Debug)]
pub struct Sandbox {
    rootless: bool,
    interruption: Interruption,
}

impl Sandbox {
    /// Whether only one uid exists inside (a user namespace), so that proxies are told apart by a socket mark.
    pub fn is_rootless(&self) -> bool {
        self.rootless
    }

    /// Whether somebody asked the run to stop: SIGINT, SIGTERM or SIGHUP. A second one ends it at once.
    pub fn interruption(&self) -> Interruption {
        self.interruption
    }

    /// The host's `/proc`, with kernel threads and everyone's processes in it.
    pub fn host_proc() -> PathBuf {
        Path::new(PRIVATE).join("host-proc")
    }

    /// Folder for what the run keeps in memory; private keys and configurations never touch a disk.
    pub(crate) fn folder(name: &str) -> PathBuf {
        Path::new(PRIVATE).join(name)
    }

    /// Whether a file written to this absolute path would vanish with the sandbox: nothing that is to be kept may be put there.
    pub fn is_private(path: &Path) -> bool {
        path.starts_with(PRIVATE)
    }
}

/// Enters a new sandbox. Has to be called before the process has a second thread: it forks, and namespaces of a
/// process with threads cannot be changed.
///
/// Returns twice, as `fork` does: [`Entered::Inside`] in the new process, [`Entered::Ended`] outside, after the
/// inside has ended.
pub fn enter(mode: Mode) -> Result<Entered, SandboxError> {
    let threads = fs::read_dir("/proc/self/task").map_err(|source| SandboxError::NoProc { source })?.count();
    if threads != 1 {
        return Err(SandboxError::Threads { threads });
    }
    IP.find()?;
    NFT.find()?;

    let forwarded = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD]);
    forwarded.thread_block().map_err(|source| SandboxError::Signals { source })?;
    let (life, outer_lives) = pipe2(OFlag::O_CLOEXEC).map_err(|source| SandboxError::Fork { source })?;

    let rootless = mode == Mode::Rootless || !geteuid().is_root();
    if rootless {
        userns::enter()?;
    }
    unshare(
        CloneFlags::CLONE_NEWNS
            | CloneFlags::CLONE_NEWNET
            | CloneFlags::CLONE_NEWPID
            | CloneFlags::CLONE_NEWIPC
            | CloneFlags::CLONE_NEWUTS,
    )
    .map_err(|source| SandboxError::Namespaces { source, mend: userns::mend_namespaces(rootless) })?;

    // SAFETY: the process has one thread (checked above), so the child may go on as if nothing had happened.
    match unsafe { fork() }.map_err(|source| SandboxError::Fork { source })? {
        ForkResult::Parent { child } => {
            drop(life);
            let code = watch(child, &forwarded);
            drop(outer_lives);
            code.map(Entered::Ended)
        }
        ForkResult::Child => {
            drop(outer_lives);
            enter_inside(rootless, &forwarded, life)
        }
    }
}

/// What PID 1 does first: tie its life to the outer process's, then fork the lab.
fn enter_inside(rootless: bool, forwarded: &SigSet, life: OwnedFd) -> Result<Entered, SandboxError> {
    // A session of its own: Ctrl-C reaches the outer process alone, which forwards it once.
    setsid().map_err(|source| SandboxError::Fork { source })?;
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|source| SandboxError::Fork { source })?;
    let mut hung_up = [PollFd::new(life.as_fd(), PollFlags::empty())];
    if poll(&mut hung_up, PollTimeout::ZERO).map_err(|source| SandboxError::Fork { source })? > 0 {
        return Err(SandboxError::Orphaned);
    }
    drop(life);

    // SAFETY: this process is the child of a fork of a process with one thread, and has started none.
    match unsafe { fork() }.map_err(|source| SandboxError::Fork { source })? {
        ForkResult::Parent { child } => {
            let code = watch(child, forwarded)?;
            // SAFETY: `_exit` only ends the process. Init has nothing to drop, and must not run `main`'s rest.
            unsafe { libc::_exit(code.into()) }
        }
        ForkResult::Child => {
            let interruption = signals::listen(forwarded)?;
            mount_private()?;
            IP.feed(&["link", "set", "lo", "up"], "")?;
            Ok(Entered::Inside(Sandbox { rootless, interruption }))
        }
    }
}

/// Forwards signals to `child` and reaps whatever ends, until `child` has ended; its exit code.
fn watch(child: Pid, forwarded: &SigSet) -> Result<u8, SandboxError> {
    loop {
        let signal = match forwarded.wait() {
            Ok(signal) => signal,
            Err(Errno::EINTR) => continue,
            Err(source) => return Err(SandboxError::Signals { source }),
        };
        if signal != Signal::SIGCHLD {
            // It may have ended already, which the next SIGCHLD tells.
            let _ = kill(child, signal);
            continue;
        }
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == child => return Ok(code as u8),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return Ok(128 + signal as u8),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(source) => return Err(SandboxError::Signals { source }),
            }
        }
    }
}

/// Cuts mounts off from the host's, and mounts the private file system and a `/proc` of this PID namespace.
fn mount_private() -> Result<(), SandboxError> {
    const NONE: Option<&str> = None;
    let failed = |what: &'static str, mend: &'static str| move |source| SandboxError::Mount { what, source, mend };
    let mend = "run outside of a container, or in one with `--privileged`";
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;

    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).map_err(failed("make mounts private", mend))?;
    // Programs are bound into it and run from there, so not `noexec`; shared memory is for everyone, as on the host.
    mount(Some("meshtoll"), PRIVATE, Some("tmpfs"), plain, Some("mode=1777"))
        .map_err(failed("mount a private tmpfs on /dev/shm", mend))?;
    let host_proc = Sandbox::host_proc();
    fs::create_dir(&host_proc).map_err(|source| SandboxError::Folder { path: host_proc.clone(), source })?;
    mount(Some("/proc"), &host_proc, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)
        .map_err(failed("keep the host's /proc", mend))?;
    mount(Some("proc"), "/proc", Some("proc"), plain | MsFlags::MS_NOEXEC, NONE).map_err(failed(
        "mount /proc of the new PID namespace",
        "a container hides parts of /proc: run outside of it, or with `--privileged` or `--security-opt systempaths=unconfined`",
    ))
}
