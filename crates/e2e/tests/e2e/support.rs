//! What every test needs: the binary, one test at a time, and copies of the experiment to change.

use std::{
    env,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long anything that is waited for may take, on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// Cargo's folder for files of integration tests, in the target folder.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// The real binary, to be run in the workspace's root.
pub(crate) fn meshtoll() -> Command {
    let mut command = Command::new(binary());
    command.current_dir(workspace());
    for name in ["MESHTOLL_LOG", "MESHTOLL_DATABASE", "MESHTOLL_RUN_DATABASE"] {
        command.env_remove(name);
    }
    command
}

/// Where the binary is: `MESHTOLL_BIN`, or in the target folder of these tests, or in the usual one.
pub(crate) fn binary() -> PathBuf {
    if let Some(named) = env::var_os("MESHTOLL_BIN") {
        return named.into();
    }
    let targets = [Path::new(SCRATCH).join(".."), workspace().join("target")];
    let found = targets.iter().filter_map(|target| target.join("release/meshtoll").canonicalize().ok()).next();
    found.expect("there is no meshtoll binary: run `cargo build --release -p meshtoll-cli`, or set MESHTOLL_BIN")
}

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Holds every other test off, those of other processes included: two runs would disturb each other's figures, and a test
/// that looks at the host would see the other's processes.
#[must_use]
pub(crate) fn alone() -> File {
    let lock = File::create(Path::new(SCRATCH).join("e2e.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Whether the caller is root; says that the test is skipped otherwise.
pub(crate) fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: needs root");
    }
    root
}

/// A folder in the scratch folder that several tests use, emptied.
pub(crate) fn emptied(name: &str) -> PathBuf {
    let folder = Path::new(SCRATCH).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Waits until something holds that cannot be waited for otherwise.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "waited in vain for this: {what}");
        #[expect(clippy::disallowed_methods, reason = "other processes' doings can only be looked at")]
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A copy of the egress experiment, to be changed.
pub(crate) struct Copy {
    folder: TempDir,
}

impl Copy {
    /// A copy whose baseline is `case`, so that nothing else needs to run.
    pub(crate) fn of(case: &str) -> Self {
        let copy = Self { folder: tempfile::tempdir().unwrap() };
        copy_folder(&workspace().join("experiments/egress"), copy.path());
        if case != "bypass" {
            copy.replace("experiment.yaml", "baseline: bypass", &format!("baseline: {case}"));
        }
        copy
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces a text that has to be there.
    pub(crate) fn replace(&self, file: &str, from: &str, to: &str) -> &Self {
        let path = self.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{} has no {from:?}", path.display());
        fs::write(path, text.replace(from, to)).unwrap();
        self
    }

    /// Replaces a file by another of the egress experiment.
    pub(crate) fn take(&self, file: &str, instead: &str) -> &Self {
        fs::copy(workspace().join("experiments/egress").join(instead), self.path().join(file)).unwrap();
        self
    }

    /// Puts a fixture of this crate into a case's folder.
    pub(crate) fn put(&self, file: &str, fixture: &str) -> &Self {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        fs::copy(fixtures.join(fixture), self.path().join(file)).unwrap();
        self
    }
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
