//! A table a case: load levels, and every hop.

use super::{
    part::{case_tag, cost_cells, or_dash, table},
    section,
};
use crate::{
    format,
    results::{Case, Cell, Cpu, Results},
    words,
};
use maud::{Markup, html};
use meshtoll_model::ids::SubjectName;

pub(super) fn cases(results: &Results) -> Markup {
    let body = html! {
        @for case in &results.cases {
            div.case-block {
                h3 { (case_tag(results, &case.name)) }
                p { (case.description) @if let Some(found) = &case.published { " " span.muted { "Published: " (found.text) } } }
                @for subject in &results.run.subjects {
                    (levels(results, case, subject))
                    (hops(results, case, subject))
                }
            }
        }
    };
    section("case-tables", body)
}

fn id(prefix: &str, case: &Case, subject: &SubjectName) -> String {
    format!("{prefix}-{}-{subject}", case.name)
}

fn levels(results: &Results, case: &Case, subject: &SubjectName) -> Markup {
    let cells: Vec<&Cell> =
        results.closed_levels().into_iter().filter_map(|level| results.cell(&case.name, subject, level)).collect();
    let head = html! {
        tr {
            th scope="col" rowspan="2" { "load" }
            th scope="colgroup" colspan="2" { "transactions/s" }
            th scope="colgroup" colspan="6" { "response time, ms" }
            th scope="col" rowspan="2" { "mesh CPU" br; "µs" }
            th scope="col" rowspan="2" { "failed" }
            th scope="col" rowspan="2" { "rounds" }
        }
        tr { @for column in ["mean", "sd", "mean", "p50", "p90", "p95", "p99", "max"] { th scope="col" { (column) } } }
    };
    let body = html! {
        @for cell in cells {
            tr.reference[results.reference_level == Some(cell.level)] {
                th scope="row" { (cell.level) }
                td.strong { (or_dash(cell.throughput.map(|rate| rate.mean))) }
                td { (or_dash(cell.throughput.map(|rate| rate.standard_deviation))) }
                @let latency = cell.latency;
                td { (or_dash(latency.map(|latency| latency.mean))) }
                td { (or_dash(latency.map(|latency| latency.p50))) }
                td { (or_dash(latency.map(|latency| latency.p90))) }
                td { (or_dash(latency.map(|latency| latency.p95))) }
                td { (or_dash(latency.map(|latency| latency.p99))) }
                td { (or_dash(latency.map(|latency| latency.max))) }
                td { (or_dash(cell.cpu.as_ref().map(|cpu| cpu.mesh.micros))) }
                td { (format::count(cell.failed())) }
                td { (cell.slices) }
            }
        }
    };
    table(&id("levels", case, subject), html! { (case.name) " on " (subject) ": by load, closed loop" }, head, body)
}

fn hops(results: &Results, case: &Case, subject: &SubjectName) -> Markup {
    let cell = results.reference_level.and_then(|level| results.cell(&case.name, subject, level));
    let Some((cell, cpu)) = cell.and_then(|cell| Some((cell, cell.cpu.as_ref()?))) else {
        return html! { p { "No CPU time a transaction: no transactions were measured." } };
    };
    let head = html! {
        tr {
            th scope="col" rowspan="2" { "hop" }
            th.text.kind scope="col" rowspan="2" { "kind" }
            th scope="colgroup" colspan="4" { "CPU µs a transaction" }
            th scope="colgroup" colspan="3" { "resident memory" }
        }
        tr { @for column in ["user", "system", "total", "sd", "at start", "here", "at end"] { th scope="col" { (column) } } }
    };
    let caption = html! { (case.name) " on " (subject) ": CPU µs a transaction at " (cell.level) ", by hop" };
    table(&id("hops", case, subject), caption, head, hop_rows(cpu))
}

fn hop_rows(cpu: &Cpu) -> Markup {
    html! {
        @for hop in &cpu.hops {
            tr {
                th scope="row" { (hop.hop) }
                td.text.kind { (words::role(hop.role)) }
                (cost_cells(&hop.cost))
                @let memory = |bytes: Option<u64>| bytes.map_or_else(|| "–".to_owned(), |bytes| format::bytes(bytes as f64));
                td { (memory(hop.resident_bytes_at_start)) }
                td { (format::bytes(hop.resident_bytes)) }
                td { (memory(hop.resident_bytes_at_end)) }
            }
        }
        @for (label, cost) in [("all mesh components", &cpu.mesh), ("all services", &cpu.application)] {
            tr.total {
                th scope="row" { (label) }
                td.kind {}
                (cost_cells(cost))
                @for _ in 0..3 { td {} }
            }
        }
        tr {
            th scope="row" { "unattributed kernel" }
            td.text.kind { "kernel" }
            td { "–" }
            td { (format::number(cpu.machine.unattributed_kernel)) }
            td.strong { (format::number(cpu.machine.unattributed_kernel)) }
            td { "–" }
            @for _ in 0..3 { td {} }
        }
    }
}
