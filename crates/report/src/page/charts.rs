//! The three charts of the investigation, beside what it found.

use super::{
    chart::{
        Name,
        bars::{self, Bar, Group},
        both,
        line::{self, Point, Series},
        stacked::{self, Stack},
    },
    part::{case_tag, each_subject, figure, style},
    section,
};
use crate::{
    format,
    published::{self, Chart},
    results::{Cell, Results},
    words,
};
use maud::{Markup, html};
use meshtoll_model::{ids::SubjectName, process::Role, units::LoadLevel};

/// Throughput against number of clients, one line a case.
pub(super) fn throughput(results: &Results) -> Markup {
    let closed = |cell: &&Cell| matches!(cell.level, LoadLevel::Clients(_));
    let cells = results.cells.iter().filter(closed).filter_map(|cell| cell.throughput);
    let top = cells.map(|rate| rate.mean + rate.standard_deviation).fold(0.0, f64::max);
    let body = html! {
        p {
            "Closed loop: each client sends its next request when the answer to the one before is complete. \
             Whiskers are one standard deviation over rounds."
        }
        @if results.run.subjects.len() > 1 { (every_line(results, top)) }
        (each_subject(results, |subject| {
            let series: Vec<Series> = results.cases.iter().map(|case| series(results, subject, &case.name)).collect();
            let name = Name {
                id: format!("throughput-{subject}"),
                title: format!("Throughput against number of clients on {subject}"),
                description: describe_lines(&series),
            };
            let drawn = both(|frame| line::lines(frame, &name, ["clients", "transactions a second"], top, &series));
            figure(html! { "Throughput against number of clients on " (subject) }, drawn, Some(published_ratios(results, subject)))
        }))
    };
    section("throughput", body)
}

/// One line a case and subject: the case by colour and shape of mark, the subject by dashes and hollow marks, both in words.
fn every_line(results: &Results, top: f64) -> Markup {
    let lines = |(variant, subject): (usize, &SubjectName)| {
        let lines: Vec<Series> = results
            .cases
            .iter()
            .map(|case| Series {
                variant,
                label: format!("{}, {}", case.name, words::subject(subject)),
                ..series(results, subject, &case.name)
            })
            .collect();
        lines
    };
    let series: Vec<Series> = results.run.subjects.iter().enumerate().flat_map(lines).collect();
    let name = Name {
        id: "throughput-all".to_owned(),
        title: "Throughput against number of clients, every subject".to_owned(),
        description: describe_lines(&series),
    };
    let drawn = both(|frame| line::lines(frame, &name, ["clients", "transactions a second"], top, &series));
    figure(html! { (name.title) ". HTTP between services: " (words::http(results)) "." }, drawn, None)
}

fn series(results: &Results, subject: &SubjectName, case: &meshtoll_model::ids::CaseName) -> Series {
    let point = |level| match level {
        LoadLevel::Clients(clients) => {
            let rate = results.cell(case, subject, level)?.throughput?;
            Some(Point { x: f64::from(clients), y: rate.mean, spread: rate.standard_deviation })
        }
        LoadLevel::Rate(_) => None,
    };
    let points = results.closed_levels().into_iter().filter_map(point).collect();
    Series { label: case.to_string(), style: style(results, case), variant: 0, points }
}

fn describe_lines(series: &[Series]) -> String {
    let line = |one: &Series| {
        let points = one.points.iter().map(|point| format!("{} at {}", format::number(point.y), point.x));
        format!("{}: {}.", one.label, points.collect::<Vec<_>>().join(", "))
    };
    series.iter().map(line).collect::<Vec<_>>().join(" ")
}

/// Published ratios beside ours.
fn published_ratios(results: &Results, subject: &SubjectName) -> Markup {
    let ratio = |case| results.comparison(case, subject, results.reference_level?)?.throughput_ratio;
    html! {
        h4 { "Published" }
        @if let Some(finding) = published::finding(&results.run.experiment, Chart::Throughput) { p { (finding) } }
        table.mini {
            caption { "Throughput against " (results.run.baseline) }
            thead { tr {
                th scope="col" { "case" } th scope="col" { "published, about" }
                th scope="col" { "here" @if let Some(level) = results.reference_level { ", " (level) } }
            } }
            tbody {
                @for case in results.cases.iter().filter(|case| case.name != results.run.baseline) {
                    tr {
                        th scope="row" { (case_tag(results, &case.name)) }
                        td { @match case.published.as_ref().and_then(|found| found.throughput_ratio) {
                            Some(ratio) if ratio == 1.0 => "equal",
                            Some(ratio) => (format::change(ratio).replace(".0", "")),
                            None => "–",
                        } }
                        td { @match ratio(&case.name) { Some(ratio) => (words::change_with_margin(&ratio)), None => "–" } }
                    }
                }
            }
        }
        @if results.run.subjects.first() == Some(subject) && let Some(setting) = published::setting(&results.run.experiment) {
            p.muted { (setting) }
        }
    }
}

fn finding(results: &Results, chart: Chart) -> Option<Markup> {
    let finding = published::finding(&results.run.experiment, chart);
    let texts = results.cases.iter().filter_map(|case| Some((&case.name, &case.published.as_ref()?.text)));
    let texts: Vec<_> = texts.collect();
    (finding.is_some() || !texts.is_empty()).then(|| {
        html! {
            h4 { "Published" }
            @if let Some(finding) = finding {
                p { (finding) }
            } @else {
                dl { @for (case, text) in texts { div { dt { (case_tag(results, case)) } dd { (text) } } } }
            }
        }
    })
}

/// A sentence on the level that is shown; `None` when there is no closed-loop level.
pub(super) fn level_sentence(results: &Results) -> Option<Markup> {
    let level = results.reference_level?;
    Some(
        html! { "Closed loop at " (level) ". " @if let Some(remark) = words::level_remark(results) { strong { (remark) } } },
    )
}

/// Response times at the reference level, one group a case.
pub(super) fn response_times(results: &Results) -> Markup {
    let body = match (results.reference_level, level_sentence(results)) {
        (Some(level), Some(sentence)) => html! {
            p { (sentence) " Percentiles are of all rounds’ transactions together. The tick across each bar is the baseline." }
            (each_subject(results, |subject| {
                let name = format!("Response times at {level} on {subject}, ms");
                figure(html! { (name) }, latency_bars(results, subject, level, &name), finding(results, Chart::ResponseTime))
            }))
        },
        _ => html! { p { "No closed-loop level was measured." } },
    };
    section("response-times", body)
}

/// Mean, median, 90, 95 and 99 % of each case.
pub(super) fn latency_bars(results: &Results, subject: &SubjectName, level: LoadLevel, title: &str) -> Markup {
    let latency = |case| results.cell(case, subject, level)?.latency;
    let baseline = latency(&results.run.baseline);
    let groups: Vec<Group> = results
        .cases
        .iter()
        .filter_map(|case| {
            let latency = latency(&case.name)?;
            let reference = baseline.filter(|_| case.name != results.run.baseline);
            let bar = |label, of: fn(&crate::results::Latency) -> f64| Bar {
                label,
                value: of(&latency),
                reference: reference.as_ref().map(of),
            };
            let bars = vec![
                bar("mean", |latency| latency.mean),
                bar("median", |latency| latency.p50),
                bar("90 %", |latency| latency.p90),
                bar("95 %", |latency| latency.p95),
                bar("99 %", |latency| latency.p99),
            ];
            Some(Group { label: case.name.to_string(), style: style(results, &case.name), bars })
        })
        .collect();
    let describe = |group: &Group| {
        let bars = group.bars.iter().map(|bar| format!("{} {}", bar.label, format::number(bar.value)));
        format!("{}: {}.", group.label, bars.collect::<Vec<_>>().join(", "))
    };
    let measured = results.cells.iter().filter(|cell| cell.level == level);
    let top = measured.filter_map(|cell| cell.latency).map(|latency| latency.p99.max(latency.mean)).fold(0.0, f64::max);
    let name = Name {
        id: format!("latency-{subject}-{}", level.to_string().replace([' ', '/'], "-")),
        title: title.to_owned(),
        description: groups.iter().map(describe).collect::<Vec<_>>().join(" "),
    };
    both(|frame| bars::groups(frame, &name, top, &groups))
}

/// Kinds of mesh components in the order of a bar's parts.
const KINDS: [(Role, &str); 3] =
    [(Role::Sidecar, "sidecars"), (Role::Gateway, "gateway"), (Role::SniProxy, "SNI proxy")];

/// CPU of all mesh components a transaction, stacked by kind of hop.
pub(super) fn mesh_cpu(results: &Results) -> Markup {
    let body = match (results.reference_level, level_sentence(results)) {
        (Some(level), Some(sentence)) => html! {
            p {
                (sentence) " µs of CPU time a transaction, user and system. The whisker is one standard deviation over \
                 rounds; the dashed line is the baseline, whose sidecars serve the calls between the services."
            }
            (each_subject(results, |subject| {
                let caption = format!("CPU of all mesh components at {level} on {subject}, µs a transaction");
                figure(html! { (caption) }, cpu_stacks(results, subject, level, &caption), finding(results, Chart::Cpu))
            }))
        },
        _ => html! { p { "No closed-loop level was measured." } },
    };
    section("mesh-cpu", body)
}

fn cpu_stacks(results: &Results, subject: &SubjectName, level: LoadLevel, title: &str) -> Markup {
    let cpu = |case| results.cell(case, subject, level)?.cpu.as_ref();
    let stacks: Vec<Stack> = results
        .cases
        .iter()
        .filter_map(|case| {
            let cpu = cpu(&case.name)?;
            let of = |role| cpu.hops.iter().filter(|hop| hop.role == role).map(|hop| hop.cost.micros).sum();
            Some(Stack {
                label: case.name.to_string(),
                style: style(results, &case.name),
                parts: KINDS.map(|(role, _)| of(role)).to_vec(),
                spread: cpu.mesh.rounds.standard_deviation,
            })
        })
        .collect();
    let kinds = KINDS.map(|(_, kind)| kind);
    let describe = |stack: &Stack| {
        let parts = kinds.iter().zip(&stack.parts).filter(|(_, size)| **size > 0.0);
        let parts = parts.map(|(kind, size)| format!("{kind} {}", format::number(*size))).collect::<Vec<_>>();
        format!("{}: {}.", stack.label, parts.join(", "))
    };
    let name = Name {
        id: format!("cpu-{subject}"),
        title: title.to_owned(),
        description: stacks.iter().map(describe).collect::<Vec<_>>().join(" "),
    };
    let measured = results.cells.iter().filter(|cell| cell.level == level).filter_map(|cell| cell.cpu.as_ref());
    let top = measured.map(|cpu| cpu.mesh.micros + cpu.mesh.rounds.standard_deviation).fold(0.0, f64::max);
    let reference = cpu(&results.run.baseline).map(|cpu| cpu.mesh.micros);
    both(|frame| stacked::stacks(frame, &name, top, &kinds, reference, &stacks))
}
