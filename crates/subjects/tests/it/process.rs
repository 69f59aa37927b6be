//! Running what a [`ProcessSpec`] says, as an unprivileged user, in a directory of its own.

use meshtoll_model::process::{ProcessSpec, Program, Ready};
use meshtoll_subjects::Subject;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fmt::Arguments,
    fs,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Output},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who runs a process.
#[derive(Clone, Copy)]
pub(crate) enum User {
    Proxy,
    /// May mark its sockets.
    Root,
}

/// A process that ends with this value, and with this thread.
pub(crate) struct Running {
    child: Child,
    directory: TempDir,
}

impl Running {
    pub(crate) fn start(spec: &ProcessSpec, program: &Path, user: User) -> Self {
        let directory = directory(spec, user);
        let child = command(program, user, directory.path()).args(&spec.args).spawn().unwrap();
        let running = Self { child, directory };
        let Ready::Http { port, path } = &spec.ready else { panic!("{:?} is not awaited here", spec.ready) };
        until(|| http_get(*port, path).filter(|(status, _)| *status == 200).map(drop), "the proxy is not ready");
        running
    }

    /// Ends it in good order: with its files written.
    pub(crate) fn end(mut self) -> Self {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap();
        self
    }

    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Runs the program once on the spec's files, with these arguments.
pub(crate) fn check(spec: &ProcessSpec, program: &Path, args: &[&str]) -> Output {
    let directory = directory(spec, User::Root);
    command(program, User::Root, directory.path()).args(args).output().unwrap()
}

fn directory(spec: &ProcessSpec, user: User) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let own = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        if matches!(user, User::Proxy) {
            chown(path, Some(1337), Some(1337)).unwrap();
        }
    };
    own(directory.path(), 0o700);
    for file in &spec.files {
        let path = directory.path().join(&file.name);
        fs::write(&path, &file.contents).unwrap();
        own(&path, if file.secret { 0o600 } else { 0o644 });
    }
    directory
}

fn command(program: &Path, user: User, directory: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if matches!(user, User::Proxy) {
        command.args(["--reuid", "1337", "--regid", "1337", "--clear-groups"]);
    }
    command.args(["--pdeathsig", "KILL"]).arg(program).current_dir(directory).env_clear();
    command
}

/// Where a program is, or `None` after saying that the test is skipped.
pub(crate) fn find(program: &Program) -> Option<PathBuf> {
    let found = match program {
        Program::Envoy => envoy(),
        Program::Nginx => Some(PathBuf::from("/usr/sbin/nginx")),
        Program::Meshtoll => None,
    };
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        skipped(format_args!("{program:?} is not installed (Envoy is looked for in MESHTOLL_ENVOY and .tools/envoy)"));
    }
    found
}

/// Says why a test is skipped.
#[expect(clippy::explicit_write, reason = "the harness keeps back what passing tests print with eprintln")]
pub(crate) fn skipped(why: Arguments<'_>) {
    writeln!(std::io::stderr(), "skipped: {why}").unwrap();
}

fn envoy() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("MESHTOLL_ENVOY") {
        return Some(path.into());
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/envoy/lib");
    let pythons = fs::read_dir(lib).ok()?.map(|entry| entry.unwrap().path());
    pythons.map(|python| python.join("site-packages/envoy/_bin/envoy")).find(|path| path.exists())
}

/// Status and body of `GET path` on 127.0.0.1, when there is an answer.
pub(crate) fn http_get(port: u16, path: &str) -> Option<(u16, String)> {
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    http_get_on(connection, path, "localhost")
}

pub(crate) fn http_get_on(mut connection: TcpStream, path: &str, host: &str) -> Option<(u16, String)> {
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let body =
        if head.to_lowercase().contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    Some((head.split(' ').nth(1)?.parse().ok()?, body))
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
        if length == 0 {
            break;
        }
    }
    whole
}

/// The counters of the proxy in this namespace once `expected` holds for them.
pub(crate) fn counters_when(
    subject: &dyn Subject,
    expected: impl Fn(&meshtoll_subjects::counters::Counters) -> bool,
) -> meshtoll_subjects::counters::Counters {
    let mut last = None;
    let read = || {
        let (_, answer) = http_get(15000, subject.counters_path())?;
        let counters = subject.counters(&answer).unwrap();
        last = Some(counters.clone());
        expected(&counters).then_some(counters)
    };
    try_until(read).unwrap_or_else(|| panic!("the counters stay at {last:#?}"))
}

pub(crate) fn until<T>(condition: impl FnMut() -> Option<T>, otherwise: &str) -> T {
    try_until(condition).unwrap_or_else(|| panic!("{otherwise}"))
}

#[expect(clippy::disallowed_methods, reason = "other processes have no other way to say that they are ready")]
fn try_until<T>(mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let value = condition();
        if value.is_some() || start.elapsed() > PATIENCE {
            return value;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
