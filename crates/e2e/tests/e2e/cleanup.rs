//! However a run ends, nothing of it is left on the host, and what it measured is in the store.

use crate::{
    host::{Host, Traces},
    outputs::open,
    results::Results,
    running::{Ended, Running, run},
    support::{alone, meshtoll, stdout},
};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::{fs, path::Path};
use tempfile::TempDir;

/// Of 20 slices.
const ARGUMENTS: &str = "--cases bypass --clients 1,2,3,4 --rates 0 --rounds 5 --slice 200ms --seed 7";

/// A run under way, and the host before it.
struct Watched {
    run: Running,
    before: Host,
    folder: TempDir,
}

impl Watched {
    fn start(arguments: &str) -> Self {
        let (before, folder) = (Host::look(), tempfile::tempdir().unwrap());
        let temporary = folder.path().join("temporary");
        fs::create_dir(&temporary).unwrap();
        let mut command = meshtoll();
        command.env("TMPDIR", temporary);
        let run = Running::start_as(command, Path::new("egress"), arguments, &folder.path().join("out"));
        Self { run, before, folder }
    }

    /// Ends the run by `end`, and makes sure that nothing is left.
    #[track_caller]
    fn ends(self, end: impl FnOnce(&Running)) -> (Ended, TempDir) {
        let traces = Traces::of(&self.run.processes(), &self.run.out);
        end(&self.run);
        let ended = self.run.end();
        traces.until_gone();
        assert_eq!(Host::look(), self.before);
        assert_eq!(fs::read_dir(self.folder.path().join("temporary")).unwrap().count(), 0, "temporary files are left");
        (ended, self.folder)
    }
}

#[test]
fn after_success() {
    let _alone = alone();
    let watched = Watched::start("--cases bypass --clients 1 --rates 0 --rounds 1 --slice 300ms");
    watched.run.until_measuring();
    watched.ends(|_| ()).0.with(0);
}

#[test]
fn after_the_failure_of_a_proxy_to_start() {
    let _alone = alone();
    let (before, folder) = (Host::look(), tempfile::tempdir().unwrap());
    let out = folder.path().join("out");
    let mut command = meshtoll();
    command.env("MESHTOLL_ENVOY", "/bin/false");
    let run = Running::start_as(command, Path::new("egress"), "--cases bypass --clients 1 --rates 0", &out);
    // The database's process is up before any proxy is started.
    run.process("bypass-envoy-database/docstore");
    let ended = run.end().with(1);
    assert!(ended.stderr.contains("/sidecar in pod `bypass-envoy-") && ended.stderr.contains("envoy"), "{ended:#?}");
    assert_eq!(ended.stdout, "");
    assert_eq!(Host::look(), before);
}

#[test]
fn after_a_missing_proxy() {
    let _alone = alone();
    let (before, folder) = (Host::look(), tempfile::tempdir().unwrap());
    let mut command = meshtoll();
    command.env("MESHTOLL_ENVOY", "/nonexistent/envoy");
    let run = Running::start_as(command, Path::new("egress"), "--cases bypass --clients 1", folder.path());
    run.end().with(1).saying("/nonexistent/envoy").saying("meshtoll doctor");
    assert_eq!(Host::look(), before);
}

#[test]
fn after_ctrl_c_with_what_was_measured_in_the_store() {
    let _alone = alone();
    let watched = Watched::start(ARGUMENTS);
    watched.run.until_told(" 10 %  ");
    let (ended, folder) = watched.ends(|run| run.interrupt(Signal::SIGINT));
    ended.with(130).saying("interrupted; what was measured is run ");

    let out = folder.path().join("out");
    let slices = slices(&out);
    assert!((2..20).contains(&slices), "{slices} slices of 20");
    let results = reports(&out);
    let counted: i64 = results.cells().iter().map(|cell| cell["slices"].as_i64().unwrap()).sum();
    assert_eq!(counted, slices);
    assert_eq!(results.refuted(), []);
}

#[test]
fn after_sigterm() {
    let _alone = alone();
    let watched = Watched::start(ARGUMENTS);
    watched.run.until_measuring();
    watched.ends(|run| kill(run.outer(), Signal::SIGTERM).unwrap()).0.with(130).saying("interrupted");
}

#[test]
fn after_ctrl_c_while_pods_are_brought_up() {
    let _alone = alone();
    let watched = Watched::start(ARGUMENTS);
    watched.run.process("bypass-envoy-booking/sidecar");
    let (ended, folder) = watched.ends(|run| run.interrupt(Signal::SIGINT));
    ended.with(130).saying("interrupted");
    assert_eq!(slices(&folder.path().join("out")), 0);
}

#[test]
fn after_sigkill_of_the_outer_process() {
    let _alone = alone();
    let watched = Watched::start(ARGUMENTS);
    watched.run.until_told(" 10 %  ");
    let (ended, folder) = watched.ends(|run| kill(run.outer(), Signal::SIGKILL).unwrap());
    assert_eq!(ended.signal, Some(Signal::SIGKILL as i32));
    let out = folder.path().join("out");
    assert!(slices(&out) >= 2, "every finished slice is in the store");
    reports(&out);
}

#[test]
fn after_sigkill_of_the_lab() {
    let _alone = alone();
    let watched = Watched::start(ARGUMENTS);
    watched.run.until_measuring();
    watched.ends(|run| kill(run.lab(), Signal::SIGKILL).unwrap()).0.with(137);
}

/// Two runs into one folder: the second adds to the store, and does not disturb the first's.
#[test]
fn a_second_run_into_the_same_folder_is_stored_beside_the_first() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let arguments = "--cases bypass --clients 1 --rates 0 --rounds 1 --slice 100ms";
        run(Path::new("egress"), arguments, folder.path()).with(0);
    }
    let runs: i64 = open(folder.path())
        .query_row("SELECT count(*) FROM run WHERE ended IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(runs, 2);
}

/// Makes the report of a run that was cut off.
fn reports(out: &Path) -> Results {
    let report = meshtoll().args(["report", "latest", "--out"]).arg(out).output().unwrap();
    assert!(report.status.success(), "{report:?}");
    assert!(stdout(&report).contains("bypass"), "{report:?}");
    let results = Results::read(out);
    assert_eq!(results.0["run"]["ended"], Value::Null, "a run that was cut off has no end");
    results
}

/// Slices in the store.
fn slices(out: &Path) -> i64 {
    open(out).query_row("SELECT count(*) FROM slice", [], |row| row.get(0)).unwrap()
}
