//! The page: well-formed, self-contained, and loud where it has to be.

use crate::{cell_mut, fixture};
use meshtoll_lab::record::RunRecord;
use meshtoll_load::protocol::Latencies;
use meshtoll_model::units::LoadLevel;
use meshtoll_report::{page::page, results::results};
use std::collections::BTreeSet;

const LEVEL: LoadLevel = LoadLevel::Clients(20);

fn page_of(record: &RunRecord) -> String {
    page(&results(record))
}

/// Every element is closed in its order, no id is used twice, every reference to an id has its target, and nothing
/// that could not be written in text is in it.
fn check(page: &str) {
    const VOID: [&str; 3] = ["meta", "br", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut wanted = BTreeSet::new();
    let style_end = page.find("</style>").expect("a style sheet");
    let style_start = page.find("<style>").expect("a style sheet");
    let without_style = format!("{}{}", &page[..style_start], &page[style_end + "</style>".len()..]);
    let mut rest = without_style.as_str();
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("every tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "elements close in their order");
            continue;
        }
        let name = tag.split_whitespace().next().unwrap_or_default();
        if !VOID.contains(&name) {
            open.push(name);
        }
        for (attribute, value) in attributes(tag) {
            match attribute {
                "id" => assert!(ids.insert(value), "id {value} is used twice"),
                "aria-labelledby" => wanted.extend(value.split_whitespace()),
                "href" => drop(wanted.insert(value.strip_prefix('#').expect("links stay on the page"))),
                "src" | "srcset" => panic!("{value} would have to be fetched"),
                _ => assert!(!value.contains("NaN") && !value.contains("inf"), "{attribute}={value} in <{tag}>"),
            }
        }
        if let Some((_, id)) = tag.split_once("url(#") {
            wanted.insert(id.split(')').next().unwrap_or_default());
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    assert!(wanted.is_subset(&ids), "no such ids: {:?}", wanted.difference(&ids));
    assert!(!page.contains("NaN") && !page.contains("://") && !page.contains("<script"));
    assert!(!page[style_start..style_end].contains("url(") && !page[style_start..style_end].contains("@import"));
}

fn attributes(tag: &str) -> impl Iterator<Item = (&str, &str)> {
    tag.split('"')
        .collect::<Vec<_>>()
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|(name, value)| {
            let name = name.trim().trim_end_matches('=');
            (name.rsplit(' ').next().unwrap_or(name), value)
        })
}

#[test]
fn a_usual_run() {
    let page = page_of(&fixture::record(&["envoy"]));
    check(&page);
    assert!(!page.contains("role=\"alert\""));
}

#[test]
fn several_subjects() {
    let page = page_of(&fixture::record(&["envoy", "meshtoll"]));
    check(&page);
    assert!(page.contains("read by Envoy, passed as TCP by Meshtoll"));
    assert!(page.contains("By case: Envoy against Meshtoll"));
    assert!(page.contains("gateway-wildcard, Meshtoll"), "a line is labelled with its case and subject");
}

#[test]
fn subjects_that_do_the_same_with_http_are_said_to() {
    let mut record = fixture::record(&["envoy", "meshtoll"]);
    for topology in &mut record.topologies {
        topology.topology.proxy.http = meshtoll_model::topology::HttpHandling::Tcp;
    }
    let page = page_of(&record);
    assert!(page.contains("passed as TCP by both") && !page.contains("--http tcp"));
}

#[test]
fn names_with_markup_stay_text() {
    let mut record = fixture::record(&["envoy"]);
    record.header.question = "What does <b> cost?".into();
    cell_mut(&mut record, "sidecar", LEVEL).slices[0].proof[0].evidence = "<script>alert(1)</script>".into();
    check(&page_of(&record));
}

#[test]
fn a_failed_proof_stands_before_the_answer() {
    let mut record = fixture::record(&["envoy"]);
    cell_mut(&mut record, "gateway-sni", LEVEL).slices[3].proof[3].holds = false;
    let page = page_of(&record);
    check(&page);
    let alert = page.find("role=\"alert\"").expect("an alert");
    assert!(alert < page.find("<h2>Answer</h2>").expect("the answer"));
    assert!(page[alert..].contains("Path of gateway-sni on envoy not proven"));
    assert!(page.contains("with gateway-sni (path not proven)"));
    assert!(page.contains("✗ in 39 of 40 slices"));
}

#[test]
fn a_run_that_was_cut_off() {
    let mut record = fixture::record(&["envoy"]);
    record.ended = None;
    for (place, cell) in record.cells.iter_mut().enumerate() {
        cell.slices.truncate(if place % 2 == 0 { 4 } else { 3 });
    }
    let page = page_of(&record);
    check(&page);
    assert!(page.contains("The run was cut off: 3 of 8 planned rounds are complete."));
}

#[test]
fn a_run_of_one_round_claims_nothing() {
    let mut record = fixture::record(&["envoy"]);
    record.header.rounds = 1;
    record.cells.iter_mut().for_each(|cell| cell.slices.truncate(1));
    let page = page_of(&record);
    check(&page);
    assert!(page.contains("(one round: no spread is known)"));
}

#[test]
fn no_slices_at_all() {
    let mut record = fixture::record(&["envoy"]);
    record.cells.iter_mut().for_each(|cell| cell.slices.clear());
    let page = page_of(&record);
    check(&page);
    assert!(page.contains("No answer:"));
}

#[test]
fn a_cell_without_slices_and_one_without_transactions() {
    let mut record = fixture::record(&["envoy"]);
    cell_mut(&mut record, "gateway", LEVEL).slices.clear();
    for slice in &mut cell_mut(&mut record, "bypass", LEVEL).slices {
        slice.load.transactions = 0;
        slice.load.window_transactions = 0;
        slice.load.operations.clear();
        slice.load.latency = Latencies::new();
    }
    check(&page_of(&record));
}

#[test]
fn another_level_than_20_clients_is_said() {
    let mut record = fixture::record(&["envoy"]);
    record.cells.retain(|cell| cell.level != LEVEL);
    let page = page_of(&record);
    check(&page);
    assert!(page.contains("20 clients were not driven in this run; 10 clients is the nearest level that was."));
}

#[test]
fn only_open_loop() {
    let mut record = fixture::record(&["envoy"]);
    record.cells.retain(|cell| matches!(cell.level, LoadLevel::Rate(_)));
    check(&page_of(&record));
}
