//! `report.html`: one file that holds everything a reader needs, with nothing to fetch and no script.

mod accounting;
mod cases;
mod chart;
mod charts;
mod differences;
mod open_loop;
mod part;
mod proof;
mod setting;
mod subjects;
mod topology;

use crate::{
    answer::{answers, subjects_compared},
    results::{Results, Severity},
    words,
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The page of a run.
pub fn page(results: &Results) -> String {
    let run = &results.run;
    let title = format!("{}: what each hop costs ({})", run.experiment, run.id);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                header {
                    p.over { "Meshtoll · experiment " strong { (run.experiment) } " · run " code { (run.id) } }
                    h1 { (run.question) }
                    (notices(results, Severity::Fault))
                    (answer(results))
                    (notices(results, Severity::Caution))
                    (facts(results))
                    (contents())
                }
                main {
                    (setting::topologies(results))
                    (subjects::subjects(results))
                    (charts::throughput(results))
                    (charts::response_times(results))
                    (charts::mesh_cpu(results))
                    (cases::cases(results))
                    (differences::differences(results))
                    (differences::shares(results))
                    (open_loop::open_loop(results))
                    (proof::proof(results))
                    (accounting::accounting(results))
                    (setting::fairness(results))
                    (setting::environment(results))
                    (setting::glossary())
                }
            }
        }
    };
    markup.into_string()
}

/// Sections of the page: id and heading.
const SECTIONS: [(&str, &str); 14] = [
    ("paths", "The cases"),
    ("subjects", "Data planes compared"),
    ("throughput", "Throughput"),
    ("response-times", "Response times"),
    ("mesh-cpu", "CPU of the mesh"),
    ("case-tables", "Each case in numbers"),
    ("differences", "Difference from the baseline"),
    ("shares", "What it means for other applications"),
    ("open-loop", "Latency at a fixed rate"),
    ("proof", "Proof of the paths"),
    ("accounting", "Where the machine’s time went"),
    ("fairness", "The same for every proxy"),
    ("environment", "Environment, and how to make this again"),
    ("glossary", "Words"),
];

/// A section under its heading.
fn section(id: &'static str, body: Markup) -> Markup {
    let heading = SECTIONS.iter().find(|(known, _)| *known == id).map_or(id, |(_, heading)| heading);
    html! { section id=(id) aria-labelledby={ (id) "-heading" } { h2 id={ (id) "-heading" } { (heading) } (body) } }
}

fn contents() -> Markup {
    html! {
        nav aria-label="Contents" { ul { @for (id, heading) in SECTIONS { li { a href={ "#" (id) } { (heading) } } } } }
    }
}

fn answer(results: &Results) -> Markup {
    let several = results.run.subjects.len() > 1;
    html! {
        div.answer {
            h2 { "Answer" }
            @for sentence in subjects_compared(results) { p { (sentence) } }
            @for answer in answers(results) {
                @for (place, sentence) in answer.sentences.iter().enumerate() {
                    p { @if several && place == 0 { strong { (answer.subject) ": " } } (sentence) }
                }
            }
        }
    }
}

fn notices(results: &Results, severity: Severity) -> Markup {
    let notices: Vec<_> = results.notices.iter().filter(|notice| notice.severity == severity).collect();
    let (class, role) = match severity {
        Severity::Fault => ("fault", Some("alert")),
        Severity::Caution => ("caution", None),
    };
    html! {
        @if !notices.is_empty() {
            div.notice.(class) role=[role] {
                h2 { (words::severity(severity)) }
                ul { @for notice in notices { li { (notice.text) } } }
            }
        }
    }
}

fn facts(results: &Results) -> Markup {
    let run = &results.run;
    let fewest = results.cells.iter().map(|cell| cell.slices).min().unwrap_or(0);
    html! {
        dl.facts {
            div { dt { "Measured" } dd { (words::moment(&run.started)) @if let Some(took) = words::took(results) { ", in " (took) } } }
            div { dt { "Baseline" } dd { (part::case_tag(results, &run.baseline)) } }
            div { dt { "Subjects" } dd { (run.subjects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")) } }
            div { dt { "HTTP between services" } dd { (words::http(results)) } }
            div { dt { "Rounds" } dd { (fewest) @if fewest != run.planned_rounds { " of " (run.planned_rounds) } ", profile " (run.profile) } }
        }
    }
}
