//! A run under way: what it says, when it ends, and what of it the host sees meanwhile.

use crate::{
    host::{self, Process},
    support::{DEADLINE, meshtoll, until},
};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use std::{
    io::{BufRead as _, BufReader, Read},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// A `meshtoll run` that has been started. It is killed when it is dropped before its end.
pub(crate) struct Running {
    child: Child,
    said: Arc<(Mutex<Said>, Condvar)>,
    pub(crate) out: PathBuf,
}

/// What a run has said so far.
#[derive(Default)]
struct Said {
    stdout: String,
    stderr: String,
    closed: u8,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// It, if it ended with this exit code.
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// It, if its standard error has this.
    #[track_caller]
    pub(crate) fn saying(self, what: &str) -> Self {
        assert!(self.stderr.contains(what), "no {what:?} in {self:#?}");
        self
    }
}

/// Runs to the end: `meshtoll run EXPERIMENT ARGUMENTS --out OUT`.
pub(crate) fn run(experiment: &Path, arguments: &str, out: &Path) -> Ended {
    Running::start(experiment, arguments, out).end()
}

impl Running {
    pub(crate) fn start(experiment: &Path, arguments: &str, out: &Path) -> Self {
        Self::start_as(meshtoll(), experiment, arguments, out)
    }

    /// On Envoy alone where nothing else is said: most tests are about the lab, and one subject is brought up sooner than two.
    /// Starts it as a shell does, in a process group of its own, which Ctrl-C goes to.
    pub(crate) fn start_as(mut meshtoll: Command, experiment: &Path, arguments: &str, out: &Path) -> Self {
        meshtoll.arg("run").arg(experiment).args(arguments.split_whitespace()).arg("--out").arg(out);
        if !arguments.contains("--subjects") {
            meshtoll.args(["--subjects", "envoy"]);
        }
        meshtoll.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = meshtoll.spawn().unwrap();
        let said = Arc::new((Mutex::new(Said::default()), Condvar::new()));
        follow(child.stdout.take().unwrap(), Arc::clone(&said), |said| &mut said.stdout);
        follow(child.stderr.take().unwrap(), Arc::clone(&said), |said| &mut said.stderr);
        Self { child, said, out: out.to_owned() }
    }

    /// Waits until its standard output has `what`; all of it so far.
    #[track_caller]
    pub(crate) fn until_printed(&self, what: &str) -> String {
        self.wait(what, |said| said.stdout.contains(what));
        self.said.0.lock().unwrap().stdout.clone()
    }

    /// Waits until its standard error has `what`.
    #[track_caller]
    pub(crate) fn until_told(&self, what: &str) {
        self.wait(what, |said| said.stderr.contains(what));
    }

    /// Waits until everything is up and the first slice under way.
    #[track_caller]
    pub(crate) fn until_measuring(&self) {
        self.until_told("  0 %  ");
    }

    #[track_caller]
    fn wait(&self, what: &str, holds: impl Fn(&Said) -> bool) {
        let (said, changed) = &*self.said;
        let waited = changed.wait_timeout_while(said.lock().unwrap(), DEADLINE, |said| !holds(said) && said.closed < 2);
        let (said, _) = waited.unwrap();
        let Said { stdout, stderr, .. } = &*said;
        assert!(holds(&said), "waited in vain for {what:?}; standard output:\n{stdout}\nstandard error:\n{stderr}");
    }

    /// Waits until it has ended, and everything that could still write to its output with it.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        self.wait("the end", |said| said.closed == 2);
        let status = self.child.wait().unwrap();
        let said = std::mem::take(&mut *self.said.0.lock().unwrap());
        Ended { code: status.code(), signal: status.signal(), stdout: said.stdout, stderr: said.stderr }
    }

    pub(crate) fn outer(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// As a terminal does.
    pub(crate) fn interrupt(&self, signal: Signal) {
        killpg(self.outer(), signal).unwrap();
    }

    /// Its processes as the host sees them, the outer one first.
    pub(crate) fn processes(&self) -> Vec<Process> {
        host::descendants(self.outer().as_raw())
    }

    /// The lab, which is the grandchild that does the work.
    pub(crate) fn lab(&self) -> Pid {
        let all = self.processes();
        let child = |parent: i32| all.iter().find(|process| process.parent == parent).map(|process| process.pid);
        Pid::from_raw(child(self.outer().as_raw()).and_then(child).expect("the run has a lab"))
    }

    /// The process of a pod with this name, such as `bypass-envoy-auth/sidecar`, as soon as there is one.
    pub(crate) fn process(&self, name: &str) -> Pid {
        let folder = Path::new("/dev/shm/pods").join(name);
        let found = until(name, || {
            assert!(!self.has_ended(), "the run ended before {name} was there");
            self.processes().into_iter().find(|process| process.folder.as_ref() == Some(&folder))
        });
        Pid::from_raw(found.pid)
    }

    fn has_ended(&self) -> bool {
        self.said.0.lock().unwrap().closed == 2
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its end was waited for already, or it is to end now; either way there is nothing to be told.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill(self.outer(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

fn follow(
    stream: impl Read + Send + 'static,
    said: Arc<(Mutex<Said>, Condvar)>,
    text: impl Fn(&mut Said) -> &mut String + Send + 'static,
) {
    thread::spawn(move || {
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line).unwrap_or(0);
            let mut said_so_far = said.0.lock().unwrap();
            if read == 0 {
                said_so_far.closed += 1;
            }
            text(&mut said_so_far).push_str(&String::from_utf8_lossy(&line));
            drop(said_so_far);
            said.1.notify_all();
            if read == 0 {
                return;
            }
        }
    });
}
