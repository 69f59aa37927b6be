//! The run's subjects against each other, case by case.

use super::{
    part::{case_tag, or_dash, table},
    section,
};
use crate::{
    results::{Estimate, Ratios, Results, SubjectComparison},
    words,
};
use maud::{Markup, html};
use meshtoll_model::ids::SubjectName;

pub(super) fn subjects(results: &Results) -> Markup {
    let body = match results.run.subjects.split_first() {
        Some((first, others)) if !others.is_empty() => html! {
            p {
                "HTTP between services: " (words::http(results)) ". Every ratio is taken within a round, on the same case at the \
                 same load: below 1, less than " (words::subject(first)) "; ± is half the 95 % confidence interval of the \
                 mean over rounds."
            }
            @for subject in others { (by_case(results, subject, first)) }
        },
        _ => html! { p { "This run has one subject. HTTP between services: " (words::http(results)) "." } },
    };
    section("subjects", body)
}

fn by_case(results: &Results, subject: &SubjectName, first: &SubjectName) -> Markup {
    let levels = [results.closed_levels(), results.open_levels()].concat();
    let compared: Vec<&SubjectComparison> = results
        .cases
        .iter()
        .flat_map(|case| levels.iter().filter_map(|level| results.subject_comparison(&case.name, subject, *level)))
        .collect();
    let head = html! {
        tr {
            th scope="col" rowspan="2" { "case" }
            th scope="col" rowspan="2" { "load" }
            th scope="colgroup" colspan="4" { "mesh CPU, µs a transaction" }
            th scope="colgroup" colspan="2" { "transactions/s" }
            th scope="col" { "99 %" }
            th scope="col" rowspan="2" { "rounds" }
        }
        tr {
            th scope="col" { (words::subject(first)) } th scope="col" { (words::subject(subject)) }
            th scope="col" { "ratio ±" } th.text scope="col" { "verdict" }
            th scope="col" { "change ±" } th.text scope="col" { "verdict" }
            th scope="col" { "ratio ±" }
        }
    };
    let body = html! { @for one in &compared { (row(results, one)) } };
    let caption =
        html! { "By case: " (words::subject(first)) " against " (words::subject(subject)) ", paired by round" };
    table(&format!("subjects-{subject}"), caption, head, body)
}

fn row(results: &Results, one: &SubjectComparison) -> Markup {
    let micros = |subject| Some(results.cell(&one.case, subject, one.level)?.cpu.as_ref()?.mesh.micros);
    html! {
        tr.reference[results.reference_level == Some(one.level)] {
            th scope="row" { (case_tag(results, &one.case)) }
            td { (one.level) }
            td { (or_dash(micros(&one.against))) }
            td { (or_dash(micros(&one.subject))) }
            (ratio_cells(&one.ratios))
        }
    }
}

/// CPU and throughput with their verdicts, the 99th percentile, and rounds.
fn ratio_cells(ratios: &Ratios) -> Markup {
    let text =
        |ratio: Option<Estimate>, of: fn(&Estimate) -> String| ratio.map_or_else(|| "–".to_owned(), |it| of(&it));
    let verdict = |ratio: Option<Estimate>| ratio.map_or("–", |ratio| words::verdict(&ratio, 1.0));
    html! {
        td.strong { (text(ratios.mesh_micros, words::ratio_with_margin)) }
        td.text { (verdict(ratios.mesh_micros)) }
        td.strong { (text(ratios.throughput, words::change_with_margin)) }
        td.text { (verdict(ratios.throughput)) }
        td { (text(ratios.p99, words::ratio_with_margin)) }
        td { (ratios.rounds) }
    }
}

/// What a case adds to the one before it, on one subject; nothing where no such pair ran.
pub(super) fn steps(results: &Results, subject: &SubjectName) -> Markup {
    let steps: Vec<_> = results.steps.iter().filter(|step| step.subject == *subject).collect();
    let head = html! {
        tr {
            th scope="col" rowspan="2" { "case" }
            th scope="col" rowspan="2" { "against" }
            th scope="col" rowspan="2" { "load" }
            th scope="colgroup" colspan="2" { "mesh CPU" }
            th scope="colgroup" colspan="2" { "transactions/s" }
            th scope="col" { "99 %" }
            th scope="col" rowspan="2" { "rounds" }
        }
        tr { @for _ in 0..2 { th scope="col" { "± of mean" } th.text scope="col" { "verdict" } } th scope="col" { "ratio ±" } }
    };
    let body = html! {
        @for step in &steps {
            tr.reference[results.reference_level == Some(step.level)] {
                th scope="row" { (case_tag(results, &step.case)) }
                td.text { (case_tag(results, &step.against)) }
                td { (step.level) }
                (ratio_cells(&step.ratios))
            }
        }
    };
    let caption = html! { "Case against case on " (subject) ", paired by round" };
    html! { @if !steps.is_empty() { (table(&format!("steps-{subject}"), caption, head, body)) } }
}
