//! What was compared, on what, and how to do it again.

use super::{
    part::{case_tag, table},
    section,
    topology::{legend, topology},
};
use crate::{
    csv::COLUMNS,
    format::{self, THIN},
    results::{NamedValue, Results},
    words,
};
use maud::{Markup, html};

/// The cases, drawn.
pub(super) fn topologies(results: &Results) -> Markup {
    let services = |case| results.surroundings.iter().find(|one| one.case == case).map_or(1, |one| one.services.len());
    let body = html! {
        p { "Only the path to the database differs. Traffic between the services passes their sidecars in every case." }
        (legend())
        div.topologies tabindex="0" role="region" aria-label="The cases, drawn" {
            @for case in &results.cases {
                figure {
                    h3 { (case_tag(results, &case.name)) }
                    (topology(case, services(case.name.clone())))
                    figcaption { (case.description) }
                }
            }
        }
    };
    section("paths", body)
}

/// What is the same for every subject.
pub(super) fn fairness(results: &Results) -> Markup {
    let body = html! {
        @if results.fairness.is_empty() { p { "Nothing was recorded." } } @else { (pairs("fairness-table", "Settings of every proxy", &results.fairness)) }
    };
    section("fairness", body)
}

/// Machine, versions, and how to make the report again.
pub(super) fn environment(results: &Results) -> Markup {
    let (run, machine) = (&results.run, &results.environment);
    let named = |name: &str, value: String| NamedValue { name: name.to_owned(), value };
    let mut rows = vec![
        named("kernel", machine.kernel.clone()),
        named("CPU", format!("{}, {} online", machine.cpu_model, machine.cpus)),
        named("memory", format::bytes(machine.memory_bytes as f64)),
        named("testbed", if machine.rootless { "rootless, in a user namespace" } else { "as root" }.to_owned()),
        named("Meshtoll", machine.meshtoll.clone()),
    ];
    rows.extend(machine.versions.iter().cloned());
    let experiment = vec![
        named("started", run.started.clone()),
        named("ended", run.ended.clone().unwrap_or_else(|| "cut off".to_owned())),
        named("profile", format!("{}, {} rounds planned", run.profile, run.planned_rounds)),
        named("slice", format!("{}{THIN}s after a lead-in of {}{THIN}s", run.slice_seconds, run.lead_in_seconds)),
        named(
            "work of the application",
            format!("{} µs of CPU a request, on purpose", format::number(run.app_work_micros)),
        ),
        named("database", format!("{}, {} customers", run.database, format::count(u64::from(run.customers)))),
        named("response body", mean_body(results)),
        named("seed", run.seed.to_string()),
    ];
    let body = html! {
        div.pair {
            (pairs("machine", "Machine and versions", &rows))
            (pairs("asked", "What was asked", &experiment))
        }
        (operations(results))
        p { "The run’s raw slices are in the store. To make this report again from them:" }
        pre { code { "meshtoll report " (run.id) } }
        p {
            "Beside this page: " code { "results.json" } " with every number (" code { "results.schema.json" } " says what \
             they mean), " code { "results.csv" } " with one row a cell, " code { "report.md" } " for text."
        }
        details {
            summary { "Columns of results.csv" }
            dl.glossary { @for column in &COLUMNS { div { dt { code { (column.name) } } dd { (column.meaning) } } } }
        }
    };
    section("environment", body)
}

fn mean_body(results: &Results) -> String {
    let (bytes, transactions) = results
        .cells
        .iter()
        .filter_map(|cell| Some((cell.mean_body_bytes? * cell.transactions as f64, cell.transactions as f64)))
        .fold((0.0, 0.0), |sums, cell| (sums.0 + cell.0, sums.1 + cell.1));
    if transactions > 0.0 { format!("{}, mean", format::bytes(bytes / transactions)) } else { "–".to_owned() }
}

/// The request mix, at the reference level of the baseline.
fn operations(results: &Results) -> Markup {
    let cells = results.cells.iter().filter(|cell| cell.case == results.run.baseline && !cell.operations.is_empty());
    let cell = cells.clone().find(|cell| Some(cell.level) == results.reference_level).or(cells.clone().next());
    let mut shares: Vec<_> = cell.map(|cell| cell.operations.iter().collect()).unwrap_or_default();
    shares.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let shares: Vec<String> =
        shares.iter().map(|(name, share)| format!("{name} {}", format::percent(**share))).collect();
    html! { @if !shares.is_empty() { p { "Request mix on the baseline: " (shares.join(", ")) "." } } }
}

fn pairs(id: &str, caption: &str, rows: &[NamedValue]) -> Markup {
    let body = html! { @for row in rows { tr { th scope="row" { (row.name) } td.text { (row.value) } } } };
    table(id, html! { (caption) }, html! {}, body)
}

/// Short explanations.
pub(super) fn glossary() -> Markup {
    let body = html! {
        dl.glossary { @for (word, meaning) in words::GLOSSARY { div { dt { (word) } dd { (meaning) } } } }
    };
    section("glossary", body)
}
