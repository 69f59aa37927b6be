//! Tests that need namespaces. Each case runs in a process of its own that enters a sandbox, as root and rootless,
//! so this program has three uses: the test runner, a case (`--case`), and a process in a pod (`--process`).

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is a program of its own")]

mod agent;
mod cases;
mod remains;

use libtest_mimic::{Arguments, Failed, Trial};
use meshtoll_testbed::sandbox::{Entered, Mode, enter};
use std::{
    env, fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::PathBuf,
    process::{Command, ExitCode},
    sync::Arc,
};

/// Somebody without any rights: `nobody` on most systems.
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--process", rest @ ..] => report(agent::run(rest)),
        ["--case", name] => match enter(Mode::Automatic) {
            Ok(Entered::Inside(sandbox)) => report(cases::run(name, sandbox)),
            Ok(Entered::Ended(code)) => ExitCode::from(code),
            Err(error) => report(Err(error.into())),
        },
        _ => run_tests(),
    }
}

fn report(result: Result<(), cases::Problem>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let mut source = Some(&*error as &dyn std::error::Error);
    while let Some(error) = source {
        eprintln!("{error}");
        source = error.source();
    }
    ExitCode::FAILURE
}

fn run_tests() -> ExitCode {
    // A place that others than the owner of the build can reach.
    let folder = tempfile::tempdir().expect("a folder for the program under test");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a folder that all may enter");
    let program = folder.path().join("namespaces");
    fs::copy(env::current_exe().expect("this program"), &program).expect("a copy of this program");

    let root = nix::unistd::geteuid().is_root();
    let users: &[Option<u32>] = if root { &[None, Some(NOBODY)] } else { &[None] };
    let mut trials = Vec::new();
    for user in users {
        let runner = Arc::new(Runner { program: program.clone(), user: *user });
        let kind = if root && user.is_none() { "root" } else { "rootless" };
        for name in cases::NAMES {
            if kind == "rootless" && cases::NEEDS_ROOT.contains(name) {
                continue;
            }
            let runner = Arc::clone(&runner);
            trials.push(Trial::test(*name, move || runner.run(name)).with_kind(kind));
        }
        for (name, test) in remains::TESTS {
            let runner = Arc::clone(&runner);
            trials.push(Trial::test(*name, move || test(&runner)).with_kind(kind));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Starts cases as one user.
struct Runner {
    program: PathBuf,
    user: Option<u32>,
}

impl Runner {
    fn command(&self, case: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--case", case]);
        self.as_user(&mut command);
        command
    }

    fn as_user(&self, command: &mut Command) {
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
    }

    fn run(&self, case: &str) -> Result<(), Failed> {
        let output = self.command(case).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into())
    }
}
