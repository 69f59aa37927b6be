//! How data planes behave: one table, run against Envoy and Meshtoll, in network namespaces.
//!
//! `docs/CONFORMANCE.md` is made from the table: `MESHTOLL_WRITE_CONFORMANCE=1 cargo test --release -p meshtoll-e2e --test
//! conformance document`. Each group of rows runs in a process of its own that enters a sandbox, so this program has two uses:
//! the test runner, and a group on a subject (`--group GROUP SUBJECT`).

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a test program of its own"
)]

mod client;
mod dns;
mod document;
mod programs;
mod rows;
mod runner;
mod servers;
mod table;
mod tls;
mod wire;
mod world;

use libtest_mimic::{Arguments, Trial};
use meshtoll_testbed::sandbox::{Entered, Mode, enter};
use std::{env, fs::File, path::Path, process::ExitCode, sync::Arc};

const SUBJECTS: [&str; 2] = ["envoy", "meshtoll"];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--group", group, subject] => match enter(Mode::Automatic) {
            Ok(Entered::Inside(sandbox)) => match runner::run_inside(group, subject, sandbox) {
                Ok(()) => ExitCode::SUCCESS,
                Err(problem) => {
                    eprintln!("{}", runner::told(&*problem));
                    ExitCode::FAILURE
                }
            },
            Ok(Entered::Ended(code)) => ExitCode::from(code),
            Err(error) => {
                eprintln!("{}", runner::told(&error));
                ExitCode::FAILURE
            }
        },
        _ => run_tests(),
    }
}

fn run_tests() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::test("document", || Ok(document::is_current()?)),
        Trial::test("table", || Ok(document::is_sound()?)),
    ];
    let mut runs = Vec::new();
    for group in table::GROUPS {
        for subject in SUBJECTS {
            let run = Arc::new(runner::Run::new(group, subject));
            let mut wanted = false;
            for row in group.rows {
                let name = format!("[{subject}] {}", row.name);
                wanted |= is_wanted(&arguments, &name);
                let run = run.clone();
                trials.push(Trial::test(name, move || Ok(run.outcome_of(row)?)));
            }
            if wanted {
                runs.push(run);
            }
        }
    }
    // Tests of other binaries look at the whole host, or measure.
    let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2e.lock")).unwrap();
    if !arguments.list && !runs.is_empty() {
        lock.lock().unwrap();
        runner::start(runs);
    }
    // Trials only wait for the runs.
    arguments.test_threads = arguments.test_threads.or(Some(8));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Whether a trial of that name will be run.
fn is_wanted(arguments: &Arguments, name: &str) -> bool {
    let matches = |filter: &String| if arguments.exact { name == filter } else { name.contains(filter.as_str()) };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}
