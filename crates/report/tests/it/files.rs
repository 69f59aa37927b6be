//! Everything that is written besides the page.

use crate::{cell_mut, fixture};
use meshtoll_model::units::LoadLevel;
use meshtoll_report::{
    WriteError,
    csv::{COLUMNS, csv},
    markdown::markdown,
    results::{Results, results, schema},
    terminal::terminal,
    write_all,
};
use std::{env, fs, path::Path};

#[test]
fn all_files_appear_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("new/report");
    let record = fixture::record(&["envoy"]);
    let written = write_all(&record, &report).unwrap();
    let again = write_all(&record, &report).unwrap();
    assert_eq!(written, again, "a report can be made again in the same place");
    let mut names: Vec<_> = fs::read_dir(&report).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["report.html", "report.md", "results.csv", "results.json", "results.schema.json"]);
    let read: Results = serde_json::from_slice(&fs::read(&written.json).unwrap()).unwrap();
    assert_eq!(read, results(&record), "no number is lost in JSON");
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = write_all(&fixture::record(&["envoy"]), file.path()).unwrap_err();
    assert!(matches!(&error, WriteError::Folder { path, .. } if path == file.path()), "{error}");
}

/// `UPDATE_SCHEMA=1 cargo test -p meshtoll-report` writes it anew.
#[test]
fn the_published_schema_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.schema.json");
    let now = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &now).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == now, "run this test with UPDATE_SCHEMA=1 and look at the difference");
}

#[test]
fn results_meet_the_schema() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut bare = fixture::record(&["envoy"]);
    bare.ended = None;
    bare.cells.iter_mut().for_each(|cell| cell.slices.clear());
    for record in [fixture::record(&["envoy", "meshtoll"]), bare] {
        let results = serde_json::to_value(results(&record)).unwrap();
        let errors: Vec<String> = validator.iter_errors(&results).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
    let mut unknown = serde_json::to_value(results(&fixture::record(&["envoy"]))).unwrap();
    unknown["cells"][0]["surprise"] = 1.into();
    assert!(!validator.is_valid(&unknown));
}

#[test]
fn the_markdown_report() {
    insta::assert_snapshot!(markdown(&results(&fixture::record(&["envoy"]))));
}

#[test]
fn the_markdown_report_keeps_its_tables_whole() {
    let mut record = fixture::record(&["envoy", "meshtoll"]);
    let clients = LoadLevel::Clients(20);
    cell_mut(&mut record, "sidecar", clients).slices[0].proof[0].evidence = "outbound|27017||*.example\nnext".into();
    let text = markdown(&results(&record));
    for paragraph in text.split("\n\n") {
        let borders: Vec<usize> = paragraph.lines().map(|line| line.replace("\\|", "").matches('|').count()).collect();
        assert!(borders.iter().all(|count| *count == borders[0]), "{paragraph}");
    }
}

#[test]
fn the_terminal_table_fits() {
    let mut record = fixture::record(&["envoy", "meshtoll"]);
    record.ended = None;
    cell_mut(&mut record, "gateway-sni", LoadLevel::Clients(20)).slices[0].proof[0].holds = false;
    let text = terminal(&results(&record));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn every_row_of_the_csv_has_every_column() {
    let results = results(&fixture::record(&["envoy"]));
    let text = csv(&results);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 1 + results.cells.len());
    assert!(rows.iter().all(|row| row.len() == COLUMNS.len()));
    let at = |row: usize, name: &str| rows[row][COLUMNS.iter().position(|column| column.name == name).unwrap()];
    assert_eq!((at(1, "case"), at(1, "loop"), at(1, "level")), ("bypass", "closed", "1"));
    assert_eq!(at(1, "throughput_ratio"), "", "the baseline is not compared with itself");
    assert_eq!(at(1, "gateway_us"), "", "the baseline has no gateway");
    let parts: f64 =
        ["sidecars_us", "gateway_us", "sni_proxy_us"].map(|name| at(23, name).parse::<f64>().unwrap()).iter().sum();
    assert!((parts - at(23, "mesh_us").parse::<f64>().unwrap()).abs() < 0.001);
}
