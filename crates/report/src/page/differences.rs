//! Each case against the baseline, and what that means for applications of other sizes.

use super::{
    chart::{
        Name, both,
        interval::{self, Interval},
    },
    part::{case_tag, each_subject, figure, style, table},
    section,
    subjects::steps,
};
use crate::{
    format::{self, THIN},
    results::{Comparison, Estimate, Results, Share},
    words,
};
use maud::{Markup, html};
use meshtoll_model::{ids::SubjectName, units::LoadLevel};

pub(super) fn differences(results: &Results) -> Markup {
    let body = html! {
        p {
            "Every difference is taken within a round, against " (case_tag(results, &results.run.baseline)) " at the \
             same load: what drifts slowly cancels out. ± is half the 95 % confidence interval of the mean; where it \
             covers “none”, the difference is not clear."
        }
        (each_subject(results, |subject| html! {
            @if results.comparisons.iter().any(|comparison| comparison.subject == *subject) {
                @if let Some(level) = results.reference_level { (intervals(results, subject, level)) }
                (by_level(results, subject))
                (steps(results, subject))
            } @else {
                p { "No round has measured both the baseline and another case." }
            }
        }))
    };
    section("differences", body)
}

/// What a chart of differences is made of: the estimate, the value drawn, and its words.
struct Quantity {
    id: &'static str,
    title: &'static str,
    none: &'static str,
    of: fn(&Comparison) -> Option<Estimate>,
    /// From the estimate's scale to the chart's.
    scaled: fn(f64) -> f64,
    text: fn(&Estimate) -> String,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity {
        id: "throughput",
        title: "Throughput against the baseline",
        none: "no difference",
        of: |comparison| comparison.throughput_ratio,
        scaled: |ratio| ratio - 1.0,
        text: words::change_with_margin,
    },
    Quantity {
        id: "cpu",
        title: "Mesh CPU against the baseline, µs a transaction,",
        none: "no difference",
        of: |comparison| comparison.mesh_micros,
        scaled: |micros| micros,
        text: words::difference_with_margin,
    },
];

fn intervals(results: &Results, subject: &SubjectName, level: LoadLevel) -> Markup {
    let draw = |quantity: &Quantity| {
        let scaled = quantity.scaled;
        let row = |comparison: &Comparison| {
            let estimate = (quantity.of)(comparison)?;
            Some(Interval {
                label: comparison.case.to_string(),
                style: style(results, &comparison.case),
                mean: scaled(estimate.mean),
                margin: estimate.margin,
                range: (scaled(estimate.min), scaled(estimate.max)),
                text: (quantity.text)(&estimate),
            })
        };
        let compared = results.cases.iter().filter_map(|case| results.comparison(&case.name, subject, level));
        let rows: Vec<Interval> = compared.filter_map(row).collect();
        let describe = |row: &Interval| format!("{}: {}.", row.label, row.text);
        let name = Name {
            id: format!("difference-{}-{subject}", quantity.id),
            title: format!("{} at {level} on {subject}", quantity.title),
            description: rows.iter().map(describe).collect::<Vec<_>>().join(" "),
        };
        let drawn = both(|frame| interval::intervals(frame, &name, quantity.none, &rows));
        figure(
            html! { (name.title) ". Thick: 95 % interval of the mean; thin: smallest to largest round." },
            drawn,
            None,
        )
    };
    html! { div.pair { @for quantity in &QUANTITIES { (draw(quantity)) } } }
}

fn by_level(results: &Results, subject: &SubjectName) -> Markup {
    let cases = results.cases.iter().filter(|case| case.name != results.run.baseline);
    let levels = results.closed_levels();
    let compared: Vec<&Comparison> = cases
        .flat_map(|case| levels.iter().filter_map(|level| results.comparison(&case.name, subject, *level)))
        .collect();
    let head = html! {
        tr {
            th scope="col" rowspan="2" { "case" }
            th scope="col" rowspan="2" { "load" }
            th scope="colgroup" colspan="4" { "throughput" }
            th scope="colgroup" colspan="4" { "mesh CPU, µs a transaction" }
            th scope="col" rowspan="2" { "rounds" }
        }
        tr { @for _ in 0..2 {
            th scope="col" { "mean ±" } th scope="col" { "sd" } th scope="col" { "min … max" } th.text scope="col" { "verdict" }
        } }
    };
    let rows = html! { @for comparison in &compared { (row(results, comparison)) } };
    let caption =
        |what| html! { (what) " against " (results.run.baseline) " on " (subject) ", closed loop, paired by round" };
    let times = html! {
        tr {
            th scope="col" rowspan="2" { "case" }
            th scope="col" rowspan="2" { "load" }
            th scope="colgroup" colspan="2" { "mean, ms" }
            th scope="colgroup" colspan="2" { "median, ms" }
            th scope="colgroup" colspan="2" { "99 %, ms" }
            th scope="col" rowspan="2" { "rounds" }
        }
        tr { @for _ in 0..3 { th scope="col" { "mean ±" } th scope="col" { "sd" } } }
    };
    let time_rows = html! { @for comparison in &compared { (time_row(results, comparison)) } };
    html! {
        (table(&format!("differences-{subject}"), caption("Throughput and CPU"), head, rows))
        (table(&format!("time-differences-{subject}"), caption("Response times"), times, time_rows))
    }
}

fn row(results: &Results, comparison: &Comparison) -> Markup {
    html! {
        tr.reference[results.reference_level == Some(comparison.level)] {
            th scope="row" { (case_tag(results, &comparison.case)) }
            td { (comparison.level) }
            @match comparison.throughput_ratio {
                Some(ratio) => {
                    td.strong { (words::change_with_margin(&ratio)) }
                    td { (format!("{:.1}", ratio.standard_deviation * 100.0)) }
                    td { (format::change(ratio.min)) " … " (format::change(ratio.max)) }
                    td.text { (words::verdict(&ratio, 1.0)) }
                }
                None => (dashes(4)),
            }
            @match comparison.mesh_micros {
                Some(toll) => {
                    td.strong { (words::difference_with_margin(&toll)) }
                    td { (format::number(toll.standard_deviation)) }
                    td { (format::signed(toll.min)) " … " (format::signed(toll.max)) }
                    td.text { (words::verdict(&toll, 0.0)) }
                }
                None => (dashes(4)),
            }
            td { (comparison.rounds) }
        }
    }
}

fn time_row(results: &Results, comparison: &Comparison) -> Markup {
    html! {
        tr.reference[results.reference_level == Some(comparison.level)] {
            th scope="row" { (case_tag(results, &comparison.case)) }
            td { (comparison.level) }
            @for difference in [comparison.mean_ms, comparison.p50_ms, comparison.p99_ms] {
                @match difference {
                    Some(difference) => {
                        td.strong { (words::difference_with_margin(&difference)) }
                        td { (format::number(difference.standard_deviation)) }
                    }
                    None => (dashes(2)),
                }
            }
            td { (comparison.rounds) }
        }
    }
}

fn dashes(columns: usize) -> Markup {
    html! { @for _ in 0..columns { td { "–" } } }
}

pub(super) fn shares(results: &Results) -> Markup {
    let body = html! {
        p {
            "The same toll is a large share of a small application and a small share of a large one. Where CPU is what \
             limits throughput, a closed loop completes as many transactions as its CPUs have time for. If a \
             transaction takes " var { "W" } " of CPU time on the baseline’s path, all in all, and a case adds its toll, \
             throughput against the baseline is " var { "W" } " / (" var { "W" } " + toll)."
        }
        (each_subject(results, |subject| share_table(results, subject)))
    };
    section("shares", body)
}

fn share_table(results: &Results, subject: &SubjectName) -> Markup {
    let shares: Vec<&Share> = results.shares.iter().filter(|share| share.subject == *subject).collect();
    let (Some(first), Some(level)) = (shares.first(), results.reference_level) else {
        return html! { p { "No toll was measured." } };
    };
    let here = first.here.map(|here| here.application_ms);
    let head = html! {
        tr {
            th scope="col" rowspan="2" { "case" }
            th scope="col" rowspan="2" { "toll, µs" }
            th scope="colgroup" colspan=(first.predicted.len()) { "predicted throughput for " var { "W" } " =" }
            th scope="colgroup" colspan="2" { "this lab" @if let Some(work) = here { ", " var { "W" } " = " (format::number(work)) (THIN) "ms" } }
        }
        tr {
            @for one in &first.predicted { th scope="col" { (one.application_ms) (THIN) "ms" } }
            th scope="col" { "predicted" }
            th scope="col" { "measured" }
        }
    };
    let body = html! {
        @for share in &shares {
            tr {
                th scope="row" { (case_tag(results, &share.case)) }
                td { (words::difference_with_margin(&share.toll_micros)) @if !share.is_clear() { " (not clear)" } }
                @for one in &share.predicted { td.strong { (format::change(one.throughput_ratio)) } }
                td { (share.here.map_or_else(|| "–".to_owned(), |here| format::change(here.predicted_ratio))) }
                td { (share.here.map_or_else(|| "–".to_owned(), |here| format::change(here.measured_ratio))) }
            }
        }
    };
    let caption = html! {
        "Change of throughput that the toll at " (level) " on " (subject) " means for applications of other sizes; the last \
         two columns put the formula to the test"
    };
    table(&format!("shares-{subject}"), caption, head, body)
}
