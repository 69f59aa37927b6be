//! What a run of all cases writes, and whether the figures can be right.

use crate::{
    results::{CASES, PUBLISHED, Results, json, number},
    running::run,
    support::{alone, emptied, meshtoll, stdout},
};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

const SEED: u64 = 20_190_131;
const EGRESS: &str = "egress";

/// A small run of everything, closed and open loop.
fn small() -> &'static Path {
    static OUT: OnceLock<PathBuf> = OnceLock::new();
    OUT.get_or_init(|| {
        let out = emptied("small");
        let arguments =
            format!("--subjects envoy,meshtoll --clients 2 --rates 50 --rounds 2 --slice 500ms --seed {SEED}");
        run(Path::new(EGRESS), &arguments, &out).with(0);
        out
    })
}

/// A run at the load at which the published investigation compares CPU.
fn loaded() -> &'static Path {
    static OUT: OnceLock<PathBuf> = OnceLock::new();
    OUT.get_or_init(|| {
        let out = emptied("loaded");
        run(Path::new(EGRESS), &format!("--clients 20 --rounds 8 --slice 1s --seed {SEED}"), &out).with(0);
        out
    })
}

#[test]
fn every_file_is_written_and_nothing_else() {
    let _alone = alone();
    let names: BTreeSet<String> =
        fs::read_dir(small()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let expected =
        ["meshtoll.sqlite", "report.html", "report.md", "results.csv", "results.json", "results.schema.json"];
    assert_eq!(names, expected.map(str::to_owned).into());
}

#[test]
fn results_meet_their_schema() {
    let _alone = alone();
    for out in [small(), loaded()] {
        let schema = jsonschema::validator_for(&json(&out.join("results.schema.json"))).unwrap();
        let results = json(&out.join("results.json"));
        let errors: Vec<String> =
            schema.iter_errors(&results).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let mut wrong = results;
        wrong["cells"][0]["transactions"] = Value::from("many");
        assert!(!schema.is_valid(&wrong), "the schema accepts anything");
    }
}

#[test]
fn every_cell_has_transactions_and_no_errors() {
    let _alone = alone();
    let results = Results::read(small());
    assert_eq!(results.cells().len(), 2 * 2 * CASES.len());
    for case in CASES {
        for (level, amount) in [("clients", 2), ("rate", 50)] {
            let cell = results.cell(case, level, amount);
            assert_eq!(cell["slices"], 2, "{case}: {cell:#}");
            assert!(number(&cell["transactions"]) > 0.0, "{case}: {cell:#}");
            assert_eq!(cell["errors"], Value::Object(Default::default()), "{case}");
            assert!(number(&cell["cpu"]["mesh"]["micros"]) > 0.0, "{case}: {:#}", cell["cpu"]);
            let latency = &cell["latency"];
            let quantiles = ["p50", "p90", "p95", "p99", "max"].map(|name| number(&latency[name]));
            assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{case}: {latency}");
        }
    }
    assert_eq!(results.0["run"]["seed"], SEED);
    assert_eq!(
        results.0["notices"].as_array().unwrap().iter().filter(|notice| notice["severity"] == "fault").count(),
        0
    );
}

/// An open loop sends what is asked of it and waits for all answers, however slow the machine is.
#[test]
fn an_open_loop_sends_what_is_due() {
    let _alone = alone();
    let results = Results::read(small());
    let seconds = number(&results.0["run"]["leadInSeconds"]) + number(&results.0["run"]["sliceSeconds"]);
    let due = 50.0 * seconds * 2.0;
    for case in CASES {
        let cell = results.cell(case, "rate", 50);
        assert_eq!(number(&cell["transactions"]), due, "{case}: {cell:#}");
        assert!(number(&cell["throughput"]["max"]) <= 50.0, "{case}: {}", cell["throughput"]);
        assert!(number(&cell["lateness"]["p50"]) < 5.0, "{case}: {} ms late", cell["lateness"]);
    }
}

#[test]
fn every_claim_about_every_path_holds() {
    let _alone = alone();
    for out in [small(), loaded()] {
        assert_eq!(Results::read(out).refuted(), []);
    }
}

/// Each case adds a hop, or work to a hop, to the one before it: its CPU time a transaction has to be more.
///
/// It is taken as a multiple of the application's and the database's, which do the same in every case: whatever else slows the
/// machine's CPUs down for a moment slows both down. That matters for mutual TLS, whose toll is a few percent.
#[test]
fn mesh_cpu_rises_from_case_to_case() {
    let _alone = alone();
    let results = Results::read(loaded());
    let published = &CASES[..PUBLISHED];
    let multiples = Vec::from_iter(published.iter().map(|case| {
        let cpu = &results.cell(case, "clients", 20)["cpu"];
        let micros = |part: &str| number(&cpu[part]["micros"]);
        micros("mesh") / (micros("application") + micros("database"))
    }));
    assert!(multiples.is_sorted_by(|less, more| less < more), "{published:?}: {multiples:.3?}");
}

/// What processes are charged with is what the machine was busy with, within 5 %. Interrupts are between both bounds: some
/// fall into the processes' times, and some do not.
#[test]
fn the_accounting_closes() {
    let _alone = alone();
    let results = Results::read(loaded());
    for case in CASES {
        let cell = results.cell(case, "clients", 20);
        let machine = &cell["cpu"]["machine"];
        let (low, high) = (number(&machine["closure"]), number(&machine["closureWithInterrupts"]));
        let foreign = number(&cell["disturbance"]["foreignShare"]);
        assert!(
            low <= 1.05 && high >= 0.95,
            "{case}: {low:.3} to {high:.3} of the busy time is accounted for; {foreign:.3} of it is of others: {machine:#}"
        );
    }
}

#[test]
fn response_bodies_have_the_published_size() {
    let _alone = alone();
    let results = Results::read(loaded());
    for case in CASES {
        let bytes = number(&results.cell(case, "clients", 20)["meanBodyBytes"]);
        assert!((580.0..=660.0).contains(&bytes), "{case}: {bytes} bytes");
    }
}

#[test]
fn the_report_is_one_file_that_loads_nothing() {
    let _alone = alone();
    let page = fs::read_to_string(small().join("report.html")).unwrap();
    for loading in [
        "src=\"http",
        "src='http",
        "src=\"//",
        "href=\"//",
        "url(http",
        "url(\"http",
        "url('http",
        "@import",
        "<link",
        "<script src",
        "<iframe",
    ] {
        assert!(!page.contains(loading), "the report has {loading:?}");
    }
    for reference in page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(reference.starts_with('#'), "the report refers to {reference}");
    }
    for case in CASES {
        assert!(page.contains(case), "the report does not speak of {case}");
    }
}

#[test]
fn a_report_made_again_is_the_same() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again");
    let mut command = meshtoll();
    command.args(["report", "latest", "--store"]).arg(small().join("meshtoll.sqlite")).arg("--out").arg(&again);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(stdout(&output).contains("gateway-sni"), "{output:?}");
    for name in ["results.json", "results.csv", "results.schema.json", "report.md", "report.html"] {
        let (first, second) = (fs::read(small().join(name)).unwrap(), fs::read(again.join(name)).unwrap());
        assert!(first == second, "{name} is not the same again");
    }

    let unknown = meshtoll().args(["report", "nosuch", "--out"]).arg(small()).output().unwrap();
    assert_eq!(unknown.status.code(), Some(1));
    let said = String::from_utf8(unknown.stderr).unwrap();
    let id = Results::read(small()).0["run"]["id"].as_str().unwrap().to_owned();
    assert!(said.contains("no run `nosuch`") && said.contains(&id), "{said}");
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let orders = ["one", "two"].map(|name| {
        let out = folder.path().join(name);
        let arguments = "--cases bypass --clients 1,2,3,4 --rates 0 --rounds 3 --slice 20ms --seed 7";
        run(Path::new(EGRESS), arguments, &out).with(0);
        order(&out)
    });
    assert_eq!(orders[0].len(), 12);
    assert_eq!(orders[0], orders[1]);
    let rounds: Vec<&[String]> = orders[0].chunks(4).collect();
    assert!(rounds[0] != rounds[1] || rounds[1] != rounds[2], "rounds have an order of their own: {rounds:?}");
}

/// Load levels of the slices in the order in which they were driven.
fn order(out: &Path) -> Vec<String> {
    let store = open(out);
    let query = "SELECT level FROM slice JOIN cell ON cell.id = slice.cell ORDER BY started_unix_ns";
    let mut statement = store.prepare(query).unwrap();
    let levels = statement.query_map([], |row| row.get(0)).unwrap();
    levels.collect::<Result<_, _>>().unwrap()
}

/// The store in a run's folder.
pub(crate) fn open(out: &Path) -> Connection {
    Connection::open_with_flags(out.join("meshtoll.sqlite"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}
