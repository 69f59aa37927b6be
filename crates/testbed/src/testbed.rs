use crate::{
    files::{make_file, make_folder},
    http::HttpError,
    network::{self, NamespaceError, NodeError},
    pod::{Pod, PodError, PodId, PodSpec},
    process::{Process, ProcessDied, ProcessId, Programs},
    sandbox::{Interruption, Sandbox},
};
use meshtoll_model::{
    ids::HopName,
    process::{Program, Ready},
};
use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
    sys::resource::{Resource, getrlimit, setrlimit},
};
use std::{
    fs, io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// The node, its pods and their processes. Dropping it ends every process.
#[derive(Debug)]
pub struct Testbed {
    pub(crate) rootless: bool,
    pub(crate) interruption: Interruption,
    /// The node, then the pods.
    pub(crate) pods: Vec<Pod>,
    pub(crate) processes: Vec<Process>,
    programs: Programs,
}

/// What goes wrong in a testbed.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// The node's network.
    #[error("cannot set the node's network up")]
    Node(#[from] NodeError),
    /// The limit of open files.
    #[error("cannot raise the limit of open files: see `ulimit -Hn`")]
    OpenFiles {
        /// Why.
        source: Errno,
    },
    /// A pod.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// Entering a pod.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A program is not where it should be.
    #[error("{program:?} is not at {}: see `meshtoll doctor`", path.display())]
    Program {
        /// Which.
        program: Program,
        /// Where it should be.
        path: PathBuf,
    },
    /// A program cannot be made visible to the pods' users.
    #[error("cannot bind {} into the sandbox", path.display())]
    Bind {
        /// Which.
        path: PathBuf,
        /// Why.
        source: Errno,
    },
    /// A process's name has no last part that could be a folder's name.
    #[error("`{hop}` cannot be a process's name: write POD/PROCESS")]
    ProcessName {
        /// Its name.
        hop: HopName,
    },
    /// A configuration file's name is a path.
    #[error("{hop}: `{name}` cannot be a file's name: write it without slashes")]
    FileName {
        /// Whose.
        hop: HopName,
        /// The name.
        name: String,
    },
    /// A file or folder cannot be made.
    #[error("cannot create {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A process cannot be started.
    #[error("cannot start {hop} in pod `{pod}`")]
    Start {
        /// Its name.
        hop: HopName,
        /// Its pod.
        pod: String,
        /// Why: what its program's loading, or entering the pod, met.
        source: io::Error,
    },
    /// A process has ended by itself.
    #[error(transparent)]
    Exited(#[from] ProcessDied),
    /// Processes did not become ready in time.
    #[error(
        "not ready within {timeout:?}: {hops}; the first waits for {ready:?}, and the end of its standard error is:\n{stderr}"
    )]
    NotReady {
        /// Which.
        hops: String,
        /// How long they had.
        timeout: Duration,
        /// What the first of them was to show.
        ready: Ready,
        /// What the first of them says.
        stderr: String,
    },
    /// Somebody asked the run to stop.
    #[error("interrupted")]
    Interrupted,
    /// A process cannot be waited for.
    #[error("cannot wait for {hop}")]
    Wait {
        /// Its name.
        hop: HopName,
        /// Why.
        source: io::Error,
    },
    /// A question to a pod was not answered.
    #[error("GET 127.0.0.1:{port}{path} in pod `{pod}` failed")]
    Http {
        /// Where.
        pod: String,
        /// On which port.
        port: u16,
        /// What was asked for.
        path: String,
        /// Why.
        source: HttpError,
    },
    /// A process's number outside of the sandbox cannot be found out.
    #[error("cannot tell the host's number of {what}")]
    HostPid {
        /// Of what.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// A pod without processes cannot be entered from outside.
    #[error("no process runs in pod `{pod}`, so it cannot be entered")]
    Empty {
        /// Which.
        pod: String,
    },
}

impl Testbed {
    /// Makes the sandbox the node of a testbed without pods.
    pub fn new(sandbox: Sandbox, programs: Programs) -> Result<Self, TestbedError> {
        network::set_up_node()?;
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|source| TestbedError::OpenFiles { source })?;
        setrlimit(Resource::RLIMIT_NOFILE, most, most).map_err(|source| TestbedError::OpenFiles { source })?;
        bind_programs(&programs)?;
        let (rootless, interruption) = (sandbox.is_rootless(), sandbox.interruption());
        Ok(Self { rootless, interruption, pods: vec![Pod::node()?], processes: Vec::new(), programs })
    }

    /// Makes a pod and connects it.
    pub fn add_pod(&mut self, spec: &PodSpec) -> Result<PodId, TestbedError> {
        if self.pods.iter().any(|pod| pod.name == spec.name) {
            return Err(PodError::Name { name: spec.name.clone() }.into());
        }
        let node = spec.network.node_address();
        if spec.address == node || self.pods.iter().any(|pod| pod.address == spec.address) {
            let (name, address, network) = (spec.name.clone(), spec.address, spec.network.block());
            return Err(PodError::Address { name, address, network }.into());
        }
        self.pods.push(Pod::create(spec, self.pods.len())?);
        Ok(PodId(self.pods.len() - 1))
    }

    /// Where a program is inside the sandbox.
    pub(crate) fn program(&self, program: &Program) -> Result<PathBuf, TestbedError> {
        let path = bound_at(program);
        if path.is_file() {
            return Ok(path);
        }
        let missing = self.programs.all().into_iter().find(|(each, _)| each == program);
        let path = missing.map(|(_, path)| path.to_owned()).unwrap_or_default();
        Err(TestbedError::Program { program: program.clone(), path })
    }

    /// A process's number on the host: what `top` and `perf` outside of the sandbox call it.
    pub fn host_pid(&self, id: ProcessId) -> Result<u32, TestbedError> {
        let process = &self.processes[id.0];
        host_pid(process.pidfd.as_raw_fd())
            .map_err(|source| TestbedError::HostPid { what: process.hop.to_string(), source })
    }

    /// The command that opens a shell in the pod from outside of the sandbox, by way of one of its processes.
    pub fn enter_command(&mut self, pod: PodId) -> Result<String, TestbedError> {
        let of_pod: Vec<_> =
            (0..self.processes.len()).filter(|i| self.processes[*i].pod == pod).map(ProcessId).collect();
        let alive = of_pod.into_iter().find(|id| self.is_running(*id));
        let Some(process) = alive else { return Err(TestbedError::Empty { pod: self.pods[pod.0].name.clone() }) };
        let user = if self.rootless { "--user --preserve-credentials " } else { "" };
        Ok(format!("nsenter --target {} {user}--pid --net --mount -- bash", self.host_pid(process)?))
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.kill_all();
    }
}

fn bound_at(program: &Program) -> PathBuf {
    let name = match program {
        Program::Meshtoll => "meshtoll",
        Program::Envoy => "envoy",
        Program::Nginx => "nginx",
    };
    Sandbox::folder("programs").join(name)
}

/// Binds the programs that exist to a place that every uid can reach; they may be in a home folder that is closed to others.
/// One that is missing is told when it is to be run, since not every experiment needs every program.
fn bind_programs(programs: &Programs) -> Result<(), TestbedError> {
    let folder = Sandbox::folder("programs");
    make_folder(&folder, None).map_err(|source| TestbedError::File { path: folder, source })?;
    for (program, path) in programs.all() {
        if !path.is_file() {
            continue;
        }
        let target = bound_at(&program);
        make_file(&target, "", 0o755, None).map_err(|source| TestbedError::File { path: target.clone(), source })?;
        // By its name: `/proc/self/exe` leads to a mount of the host's, which cannot be bound.
        let path = path.canonicalize().map_err(|source| TestbedError::File { path: path.to_owned(), source })?;
        mount(Some(&path), &target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(|source| TestbedError::Bind { path, source })?;
    }
    Ok(())
}

/// The number that the host's `/proc` gives the process behind a pidfd.
pub(crate) fn host_pid(pidfd: i32) -> io::Result<u32> {
    let path: PathBuf = [&Sandbox::host_proc(), Path::new(&format!("self/fdinfo/{pidfd}"))].iter().collect();
    let text = fs::read_to_string(path)?;
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse().ok());
    pid.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the process has ended"))
}
