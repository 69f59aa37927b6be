//! Processes of pods: where they run, as whom, with which files, and how they end.

use crate::{
    confine::Confinement,
    files::{make_file, make_folder},
    pod::{Pod, PodId},
    testbed::{Testbed, TestbedError},
};
use meshtoll_model::{
    ids::HopName,
    process::{ConfigFile, ProcessSpec, Program, Ready, Role, RunAs},
    topology::{PROXY_UID, ProxyMarking},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use std::{
    ffi::CString,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::{
        fd::{AsFd as _, FromRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// Uid and gid of applications where there is more than one: any but the proxy's.
const APPLICATION_UID: u32 = 1000;
/// How much of a dead process's standard error is told.
const TOLD_LINES: usize = 20;
/// How far back these lines are looked for.
const TOLD_BYTES: u64 = 64 * 1024;

/// A process of a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId(pub(crate) usize);

/// Where the programs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// [`Program::Meshtoll`], as a rule `/proc/self/exe`.
    pub meshtoll: PathBuf,
    /// [`Program::Envoy`].
    pub envoy: PathBuf,
    /// [`Program::Nginx`].
    pub nginx: PathBuf,
}

impl Programs {
    pub(crate) fn all(&self) -> [(Program, &Path); 3] {
        [(Program::Meshtoll, &self.meshtoll), (Program::Envoy, &self.envoy), (Program::Nginx, &self.nginx)]
    }
}

/// A process ended that should not have.
#[derive(Debug, thiserror::Error)]
#[error("{hop} in pod `{pod}` has ended ({status}); the end of its standard error:\n{stderr}")]
pub struct ProcessDied {
    /// Its name.
    pub hop: HopName,
    /// Its pod.
    pub pod: String,
    /// How it ended.
    pub status: ExitStatus,
    /// The last 20 lines of its standard error.
    pub stderr: String,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) hop: HopName,
    pub(crate) role: Role,
    pub(crate) pod: PodId,
    pub(crate) ready: Ready,
    pub(crate) pid: Pid,
    folder: PathBuf,
    child: Child,
    /// Readable once it has ended.
    pub(crate) pidfd: OwnedFd,
    /// Stopped on purpose.
    stopped: bool,
}

impl Process {
    /// The last lines of its standard error.
    pub(crate) fn last_words(&self) -> String {
        tail(&self.folder.join("stderr.log")).unwrap_or_else(|error| format!("(cannot be read: {error})"))
    }

    fn signal_group(&self, signal: Signal) {
        // The group may have ended already, which is what is wanted.
        let _ = killpg(self.pid, signal);
    }
}

/// A process's standard input and output.
enum Streams {
    /// No input; the output goes to a file.
    None,
    /// Both are talked to.
    Piped,
    /// This is the input; the output goes to a file.
    Input(OwnedFd),
}

impl Testbed {
    /// Starts a process in a pod, in a folder and a session of its own; its output goes to `stdout.log` and `stderr.log` in
    /// its folder. It has started, but is not ready: see [`Testbed::wait_ready`].
    pub fn spawn(&mut self, pod: PodId, spec: &ProcessSpec) -> Result<ProcessId, TestbedError> {
        self.start(pod, spec, Streams::None)
    }

    /// Starts a process whose standard input is `stdin`: how it is handed a descriptor.
    pub fn spawn_with_stdin(
        &mut self,
        pod: PodId,
        spec: &ProcessSpec,
        stdin: OwnedFd,
    ) -> Result<ProcessId, TestbedError> {
        self.start(pod, spec, Streams::Input(stdin))
    }

    /// Starts a process on the node, such as the DNS server.
    pub fn spawn_on_node(&mut self, spec: &ProcessSpec) -> Result<ProcessId, TestbedError> {
        self.spawn(PodId::NODE, spec)
    }

    /// Starts a process that is talked to through its standard input and output.
    pub fn spawn_piped(
        &mut self,
        pod: PodId,
        spec: &ProcessSpec,
    ) -> Result<(ProcessId, ChildStdin, ChildStdout), TestbedError> {
        let id = self.start(pod, spec, Streams::Piped)?;
        let child = &mut self.processes[id.0].child;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => Ok((id, stdin, stdout)),
            _ => unreachable!("both were asked for as pipes"),
        }
    }

    fn start(&mut self, pod_id: PodId, spec: &ProcessSpec, streams: Streams) -> Result<ProcessId, TestbedError> {
        let pod = &self.pods[pod_id.0];
        let program = self.program(&spec.program)?;
        let (uid, mark_sockets) = self.identity(pod, spec.run_as);
        let folder = create_folder(pod, spec, uid)?;

        let failed = |source| TestbedError::Start { hop: spec.hop.clone(), pod: pod.name.clone(), source };
        let path = CString::new(folder.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
        let confinement = Confinement::new(&pod.net, &pod.mount, path, uid, mark_sockets);
        let log = |name| {
            let path = folder.join(name);
            make_file(&path, "", 0o644, uid).map_err(|source| TestbedError::File { path, source })
        };
        let (stdin, stdout) = match streams {
            Streams::None => (Stdio::null(), log("stdout.log")?.into()),
            Streams::Piped => (Stdio::piped(), Stdio::piped()),
            Streams::Input(stdin) => (stdin.into(), log("stdout.log")?.into()),
        };
        let mut command = Command::new(program);
        command
            .args(&spec.args)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", &folder)
            .env("TMPDIR", &folder)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(log("stderr.log")?);
        // SAFETY: `apply` allocates nothing and makes async-signal-safe calls only.
        unsafe { command.pre_exec(move || confinement.apply()) };
        let mut child = command.spawn().map_err(failed)?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let pidfd = match pidfd_open(pid) {
            Ok(pidfd) => pidfd,
            Err(source) => {
                // Without it the process could not be watched; it must not be left either.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(failed(source.into()));
            }
        };
        let (hop, role, ready) = (spec.hop.clone(), spec.role, spec.ready.clone());
        tracing::debug!(%hop, pod = pod.name, %pid, "started");
        self.processes.push(Process { hop, role, pod: pod_id, ready, pid, folder, child, pidfd, stopped: false });
        Ok(ProcessId(self.processes.len() - 1))
    }

    /// As which uid a process runs (`None`: the only one) and whether it has to mark its sockets.
    fn identity(&self, pod: &Pod, run_as: RunAs) -> (Option<u32>, bool) {
        let marks = pod.interception.as_ref().is_some_and(|rules| rules.marking == ProxyMarking::SocketMark);
        let (uid, mark_sockets) = match run_as {
            RunAs::Application => (APPLICATION_UID, false),
            RunAs::Proxy => (PROXY_UID, marks || self.rootless),
        };
        (Some(uid).filter(|_| !self.rootless), mark_sockets)
    }

    /// Fails if any process has ended that was not stopped.
    pub fn check_alive(&mut self) -> Result<(), TestbedError> {
        (0..self.processes.len()).try_for_each(|index| self.check_process(ProcessId(index)))
    }

    /// As [`Testbed::check_alive`], for when a process does not answer: it may be about to end, which it does some moments after
    /// its sockets are closed.
    pub fn check_alive_soon(&mut self, deadline: Duration) -> Result<(), TestbedError> {
        let running = self.processes.iter().filter(|process| !process.stopped);
        // Whatever keeps it from waiting, what has ended is found next.
        let _ = ended_within(running.map(|process| &process.pidfd), deadline);
        self.check_alive()
    }

    pub(crate) fn check_process(&mut self, id: ProcessId) -> Result<(), TestbedError> {
        let process = &mut self.processes[id.0];
        if process.stopped {
            return Ok(());
        }
        let waited = process.child.try_wait();
        let status = waited.map_err(|source| TestbedError::Wait { hop: process.hop.clone(), source })?;
        status.map_or(Ok(()), |status| Err(self.died(id, status)))
    }

    pub(crate) fn died(&self, id: ProcessId, status: ExitStatus) -> TestbedError {
        let process = &self.processes[id.0];
        TestbedError::Exited(ProcessDied {
            hop: process.hop.clone(),
            pod: self.pods[process.pod.0].name.clone(),
            status,
            stderr: process.last_words(),
        })
    }

    /// Ends a process: SIGTERM, and SIGKILL to its whole session's group when it has not ended within `deadline`.
    pub fn stop(&mut self, id: ProcessId, deadline: Duration) -> Result<ExitStatus, TestbedError> {
        let process = &mut self.processes[id.0];
        process.stopped = true;
        let failed = |source| TestbedError::Wait { hop: process.hop.clone(), source };
        // Where it has ended already, its status is still to be had.
        let _ = kill(process.pid, Signal::SIGTERM);
        if !ended_within([&process.pidfd], deadline).map_err(failed)? {
            tracing::warn!(hop = %process.hop, "did not end in time and is killed");
        }
        process.signal_group(Signal::SIGKILL);
        process.child.wait().map_err(failed)
    }

    /// Ends all processes at once; what `Drop` does.
    pub(crate) fn kill_all(&mut self) {
        for process in &self.processes {
            process.signal_group(Signal::SIGKILL);
        }
        for process in &mut self.processes {
            if let Err(error) = process.child.wait() {
                tracing::warn!(hop = %process.hop, %error, "cannot be waited for");
            }
        }
    }

    pub(crate) fn is_running(&self, id: ProcessId) -> bool {
        ended_within([&self.processes[id.0].pidfd], Duration::ZERO).is_ok_and(|ended| !ended)
    }

    /// Number of a process in the sandbox's PID namespace.
    pub fn pid(&self, id: ProcessId) -> u32 {
        self.processes[id.0].pid.as_raw().cast_unsigned()
    }

    /// A process's folder: its files, `stdout.log` and `stderr.log`.
    pub fn folder(&self, id: ProcessId) -> &Path {
        &self.processes[id.0].folder
    }

    /// A process's name.
    pub fn hop(&self, id: ProcessId) -> &HopName {
        &self.processes[id.0].hop
    }

    /// The part that a process plays.
    pub fn role(&self, id: ProcessId) -> Role {
        self.processes[id.0].role
    }
}

/// Makes a process's folder with its files, all of them its own.
fn create_folder(pod: &Pod, spec: &ProcessSpec, uid: Option<u32>) -> Result<PathBuf, TestbedError> {
    let hop = spec.hop.as_str();
    let name = hop.rsplit_once('/').map_or(hop, |(_, name)| name);
    if !is_file_name(name) {
        return Err(TestbedError::ProcessName { hop: spec.hop.clone() });
    }
    let folder = Pod::folder(&pod.name).join(name);
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| TestbedError::File { path, source }
    };
    make_folder(&folder, uid).map_err(failed(&folder))?;
    for ConfigFile { name, contents, secret } in &spec.files {
        if !is_file_name(name) {
            return Err(TestbedError::FileName { hop: spec.hop.clone(), name: name.clone() });
        }
        let path = folder.join(name);
        make_file(&path, contents, if *secret { 0o600 } else { 0o644 }, uid).map_err(failed(&path))?;
    }
    Ok(folder)
}

fn is_file_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\0'])
}

fn pidfd_open(pid: Pid) -> Result<OwnedFd, Errno> {
    // SAFETY: a system call without pointers.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) })?;
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Waits for the end of any of these processes; `false` when none has come within `deadline`.
fn ended_within<'a>(pidfds: impl IntoIterator<Item = &'a OwnedFd>, deadline: Duration) -> io::Result<bool> {
    let mut ends: Vec<PollFd<'_>> =
        pidfds.into_iter().map(|pidfd| PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)).collect();
    let until = Instant::now() + deadline;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut ends, timeout) {
            Ok(0) if left.is_zero() || timeout != PollTimeout::MAX => return Ok(false),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TOLD_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(TOLD_LINES)..].join("\n"))
}
