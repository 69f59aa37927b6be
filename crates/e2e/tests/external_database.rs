//! Runs of the egress experiment on databases outside of the sandbox: the path out of it and into the database, and how
//! long the process lives that is that path.

#![expect(clippy::unwrap_used, reason = "clippy allows it in tests, and does not see that this program is one")]

use libtest_mimic::{Arguments, Failed, Trial};
use meshtoll_identity::ExternalCa;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd as _, FromRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// The experiment's name of its database.
const NAME: &str = "airline.mongodb.example";
/// How long a busy machine may take for what takes an instant.
const DEADLINE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    // One run at a time, also beside those of the other test binaries: FerretDB reads whole collections for a query, which
    // takes too long where it has to share the machine.
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let lock = fs::File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e.lock")).unwrap();
    if !arguments.list {
        lock.lock().unwrap();
    }
    let no_go = Command::new("go").arg("version").output().is_err();
    let trials = vec![
        Trial::test("a_run_uses_docstore_outside", || measures(docstore, "2")),
        Trial::test("a_run_uses_ferretdb_outside", || measures(ferretdb, "1")).with_ignored_flag(no_go),
        Trial::test("an_unreachable_database_is_told", unreachable),
        Trial::test("a_certificate_of_another_authority_is_refused", wrong_authority),
        Trial::test("what_cannot_be_routed_is_refused", refused),
        Trial::test("the_way_out_ends_with_the_run", ends_with_the_run),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A database on loopback, outside of any sandbox.
struct Database {
    address: SocketAddr,
    files: TempDir,
    _process: Ended,
}

/// A process that ends with its test.
struct Ended(Child);

impl Database {
    fn ca(&self) -> PathBuf {
        self.files.path().join("ca.pem")
    }

    fn uri(&self) -> String {
        format!("mongodb://{}/?tls=true", self.address)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn certificates() -> TempDir {
    let ca = ExternalCa::new("test authority").unwrap();
    let server = ca.issue_server(&[NAME]).unwrap();
    let files = tempfile::tempdir().unwrap();
    for (name, pem) in
        [("ca.pem", ca.trust_bundle_pem()), ("certificate.pem", server.chain_pem), ("key.pem", server.key_pem)]
    {
        fs::write(files.path().join(name), pem).unwrap();
    }
    files
}

fn docstore() -> Database {
    let files = certificates();
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    // Held both at once, so that they differ.
    let (first, second) = (free(), free());
    let (address, admin) = (first.local_addr().unwrap(), second.local_addr().unwrap());
    drop((first, second));
    let child = Command::new(meshtoll())
        .args(["docstore", "--listen", &address.to_string(), "--admin", &admin.to_string()])
        .args(["--certificate", "certificate.pem", "--key", "key.pem"])
        .current_dir(files.path())
        .spawn()
        .unwrap();
    let database = Database { address, files, _process: Ended(child) };
    wait_until("docstore accepts", || TcpStream::connect(address).is_ok());
    database
}

fn ferretdb() -> Database {
    let program = workspace().join(".tools/ferretdb/ferretdb");
    let built = Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .args([&program, Path::new(".")])
        .current_dir(workspace().join("tools/ferretdb"))
        .status()
        .unwrap();
    assert!(built.success(), "`go build` in tools/ferretdb failed: {built}");
    let files = certificates();
    fs::create_dir(files.path().join("state")).unwrap();
    let child = Command::new(program)
        .args(["--listen", "127.0.0.1:0", "--certificate", "certificate.pem", "--key", "key.pem", "--state", "state"])
        .current_dir(files.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut process = Ended(child);
    let mut address = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    Database { address: address.trim().parse().unwrap(), files, _process: process }
}

/// Runs the experiment on the database, and looks at what the report says.
fn measures(start: fn() -> Database, clients: &str) -> Result<(), Failed> {
    let database = start();
    let (experiment, out) = (small_experiment(), tempfile::tempdir().unwrap());
    let output = run(experiment.path(), out.path())
        .args(["--cases", "sidecar", "--clients", clients, "--database", &database.uri(), "--database-ca"])
        .arg(database.ca())
        .output()?;
    succeeded(&output)?;

    let json = fs::read_to_string(out.path().join("results.json"))?;
    let results: serde_json::Value = serde_json::from_str(&json)?;
    let label = results.pointer("/run/database").and_then(serde_json::Value::as_str);
    assert_eq!(label, Some(database.address.to_string().as_str()));
    for file in fs::read_dir(out.path())? {
        let path = file?.path();
        let bytes = fs::read(&path)?;
        let uri = b"directConnection";
        assert!(!bytes.windows(uri.len()).any(|window| window == uri), "the URI is in {}", path.display());
    }
    Ok(())
}

fn unreachable() -> Result<(), Failed> {
    let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let out = tempfile::tempdir()?;
    let output = run(&egress(), out.path())
        .env("MESHTOLL_RUN_DATABASE", format!("mongodb://ada:lovelace@{closed}/?tls=true"))
        .output()?;
    failed_with(&output, &format!("the database of --database cannot be reached: cannot connect to {closed}"))
}

fn wrong_authority() -> Result<(), Failed> {
    let (database, other) = (docstore(), certificates());
    let out = tempfile::tempdir()?;
    let output = run(small_experiment().path(), out.path())
        .args(["--cases", "bypass", "--clients", "2", "--database", &database.uri(), "--database-ca"])
        .arg(other.path().join("ca.pem"))
        .output()?;
    failed_with(&output, &format!("the database at {NAME}:27017 does not answer"))
}

fn refused() -> Result<(), Failed> {
    let out = tempfile::tempdir()?;
    for (uri, reason) in [
        ("mongodb://ada:lovelace@db.example.com/", "add tls=true"),
        ("mongodb://ada:lovelace@a.example.com,b.example.com/?tls=true", "names 2 hosts"),
        ("mongodb+srv://ada:lovelace@cluster.example.com/", "mongodb+srv"),
    ] {
        failed_with(&run(&egress(), out.path()).args(["--database", uri]).output()?, reason)?;
    }
    Ok(())
}

/// However the run ends: here, it has no time to end anything itself.
fn ends_with_the_run() -> Result<(), Failed> {
    let (database, experiment, out) = (docstore(), small_experiment(), tempfile::tempdir()?);
    let outer = run(experiment.path(), out.path())
        .args(["--cases", "bypass", "--clients", "2", "--keep", "--database", &database.uri(), "--database-ca"])
        .arg(database.ca())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut outer = Ended(outer);
    let children = format!("/proc/{0}/task/{0}/children", outer.0.id());
    let children = || -> Vec<i32> {
        let pids = fs::read_to_string(&children).unwrap();
        pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    // The way out and the sandbox.
    wait_until("both children run", || children().len() == 2);
    let children: Vec<OwnedFd> = children().into_iter().map(pidfd).collect();
    outer.0.kill()?;
    outer.0.wait()?;
    for child in &children {
        let timeout = PollTimeout::try_from(DEADLINE)?;
        assert_eq!(poll(&mut [PollFd::new(child.as_fd(), PollFlags::POLLIN)], timeout)?, 1, "a child lives on");
    }
    Ok(())
}

fn pidfd(pid: i32) -> OwnedFd {
    // SAFETY: a system call without pointers.
    let fd = Errno::result(unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid, 0) }).unwrap();
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

fn run(experiment: &Path, out: &Path) -> Command {
    let mut command = Command::new(meshtoll());
    command
        .arg("run")
        .arg(experiment)
        .args(["--subjects", "envoy", "--rates", "0", "--rounds", "1", "--slice", "500ms", "--out"])
        .arg(out)
        .current_dir(workspace());
    command
}

fn succeeded(output: &Output) -> Result<(), Failed> {
    if output.status.success() { Ok(()) } else { Err(told(output).into()) }
}

fn failed_with(output: &Output, reason: &str) -> Result<(), Failed> {
    let told = told(output);
    // Credentials of the URIs that hold any.
    let as_expected = output.status.code() == Some(1) && told.contains(reason) && !told.contains("lovelace");
    if as_expected { Ok(()) } else { Err(format!("`{reason}` was expected of:\n{told}").into()) }
}

fn told(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}\n{err}", output.status)
}

/// The egress experiment, with few customers: a database that writes to a disk takes long for many.
fn small_experiment() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(egress()).unwrap().map(Result::unwrap) {
        let to = copy.path().join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&to).unwrap();
            for file in fs::read_dir(entry.path()).unwrap().map(Result::unwrap) {
                fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
    let yaml = copy.path().join("experiment.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    let small = text.replace("customers: 10000", "customers: 200");
    assert_ne!(small, text, "the experiment's number of customers has changed");
    fs::write(&yaml, small).unwrap();
    copy
}

fn egress() -> PathBuf {
    workspace().join("experiments/egress")
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The binary: `MESHTOLL_BIN`, or beside the folder of the tests, where cargo puts it.
fn meshtoll() -> PathBuf {
    if let Some(named) = env::var_os("MESHTOLL_BIN") {
        return named.into();
    }
    let folder = env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    let program = folder.join("meshtoll");
    assert!(program.is_file(), "there is no {}: build it first, with the tests' profile", program.display());
    program
}

#[expect(clippy::disallowed_methods, reason = "neither an accepting port nor a new child can be waited for")]
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let until = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < until, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
