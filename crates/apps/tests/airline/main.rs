//! The airline's four services as a whole: real HTTP, real TLS, and databases that speak MongoDB's protocol.
//!
//! Every test runs once for each database, on customers of its own, so that tests of one database run side by side.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "clippy allows them in tests, and does not see that this program is one"
)]

mod app;
mod caller;
mod certificates;
mod contract;
mod docstore;
mod ferretdb;
mod lifecycle;
mod mix;
mod relay;

use app::{App, Size};
use libtest_mimic::{Arguments, Failed, Trial};
use std::{
    process::ExitCode,
    sync::{Arc, Mutex, OnceLock},
};

/// A test: what it is called, and what it does to the running application.
type Test = (&'static str, fn(&App));

/// A database to run all tests with.
struct Database {
    name: &'static str,
    /// Why it cannot run here, if it cannot.
    missing: Option<String>,
    start: fn() -> Result<app::Server, String>,
    /// What to load, and how long to use it: little where operations are slow.
    size: Size,
}

/// The application on one database, started by the first test that needs it and stopped after the last.
type Shared = Arc<OnceLock<Result<Mutex<Option<Arc<App>>>, String>>>;

fn main() -> ExitCode {
    if let Some(options) = lifecycle::options_of_service_alone() {
        return lifecycle::serve_alone(options);
    }
    let arguments = Arguments::from_args();
    let databases = [
        Database {
            name: "docstore",
            missing: None,
            start: docstore::start,
            size: Size { customers: 1000, laps: 1500 },
        },
        Database {
            name: "ferretdb",
            missing: ferretdb::missing(),
            start: ferretdb::start,
            size: Size { customers: 60, laps: 8 },
        },
    ];
    let tests: Vec<Test> = [contract::TESTS, lifecycle::TESTS, mix::TESTS].concat();
    let mut trials = Vec::new();
    let mut running = Vec::new();
    for database in databases {
        if let Some(reason) = &database.missing {
            eprintln!("tests with {} are skipped: {reason}", database.name);
        }
        let shared = Shared::default();
        let database = Arc::new(database);
        for &(name, test) in &tests {
            let (shared, database) = (Arc::clone(&shared), Arc::clone(&database));
            let skipped = database.missing.is_some();
            let name = format!("{}::{name}", database.name);
            let trial = Trial::test(name, move || run(&database, &shared, test)).with_ignored_flag(skipped);
            trials.push(trial);
        }
        running.push(shared);
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    for app in running.iter().filter_map(|shared| shared.get()?.as_ref().ok()) {
        drop(app.lock().unwrap().take());
    }
    conclusion.exit_code()
}

fn run(database: &Database, shared: &Shared, test: fn(&App)) -> Result<(), Failed> {
    let started = shared.get_or_init(|| {
        let app = App::start((database.start)()?, database.size)?;
        Ok(Mutex::new(Some(Arc::new(app))))
    });
    let app = started.as_ref().map_err(String::clone)?.lock().unwrap().clone();
    let app = app.ok_or("the application is stopped already")?;
    test(&app);
    Ok(())
}
