//! Latency at a fixed rate, never in one chart with closed loop.

use super::{
    charts::latency_bars,
    part::{case_tag, each_subject, figure, or_dash, table},
    section,
};
use crate::{format, results::Results};
use maud::{Markup, html};
use meshtoll_model::{ids::SubjectName, units::LoadLevel};

pub(super) fn open_loop(results: &Results) -> Markup {
    let levels = results.open_levels();
    let body = html! {
        @if levels.is_empty() {
            p { "This run has no open-loop level." }
        } @else {
            p {
                "Open loop: requests are due at a fixed rate whatever the answers, and latency counts from when a \
                 request was due, so that a stall is charged to every request that it delays. Lateness is by how much \
                 requests were sent later than due."
            }
        }
        @for level in levels {
            (each_subject(results, |subject| {
                let title = format!("Latency at {level} on {subject}, ms");
                html! {
                    (figure(html! { (title) }, latency_bars(results, subject, level, &title), None))
                    (latencies(results, subject, level))
                }
            }))
        }
    };
    section("open-loop", body)
}

fn latencies(results: &Results, subject: &SubjectName, level: LoadLevel) -> Markup {
    let head = html! {
        tr {
            th scope="col" rowspan="2" { "case" }
            th scope="col" rowspan="2" { "done/s" }
            th scope="colgroup" colspan="6" { "latency from due, ms" }
            th scope="colgroup" colspan="2" { "lateness, ms" }
            th scope="col" rowspan="2" { "mesh CPU" br; "µs" }
            th scope="col" rowspan="2" { "failed" }
            th scope="col" rowspan="2" { "rounds" }
        }
        tr { @for column in ["mean", "p50", "p90", "p95", "p99", "max", "mean", "p99"] { th scope="col" { (column) } } }
    };
    let cells = results.cases.iter().filter_map(|case| results.cell(&case.name, subject, level));
    let body = html! {
        @for cell in cells {
            tr {
                th scope="row" { (case_tag(results, &cell.case)) }
                td { (or_dash(cell.throughput.map(|rate| rate.mean))) }
                @let latency = cell.latency;
                td { (or_dash(latency.map(|latency| latency.mean))) }
                td { (or_dash(latency.map(|latency| latency.p50))) }
                td { (or_dash(latency.map(|latency| latency.p90))) }
                td { (or_dash(latency.map(|latency| latency.p95))) }
                td.strong { (or_dash(latency.map(|latency| latency.p99))) }
                td { (or_dash(latency.map(|latency| latency.max))) }
                td { (or_dash(cell.lateness.map(|lateness| lateness.mean))) }
                td { (or_dash(cell.lateness.map(|lateness| lateness.p99))) }
                td { (or_dash(cell.cpu.as_ref().map(|cpu| cpu.mesh.micros))) }
                td { (format::count(cell.failed())) }
                td { (cell.slices) }
            }
        }
    };
    let id = format!("open-loop-{subject}-{}", level.to_string().replace([' ', '/'], "-"));
    table(&id, html! { "Open loop at " (level) " on " (subject) }, head, body)
}
