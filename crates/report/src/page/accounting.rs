//! Busy time against the sum of its parts.

use super::{
    part::{case_tag, each_subject, table},
    section,
};
use crate::{
    format,
    results::{Cell, Machine, Results},
};
use maud::{Markup, html};

pub(super) fn accounting(results: &Results) -> Markup {
    let machines: Vec<&Machine> =
        results.cells.iter().filter_map(|cell| cell.cpu.as_ref()).map(|cpu| &cpu.machine).collect();
    let body = html! {
        p {
            "CPU µs a transaction. Busy is all CPUs’ time that was neither idle nor stolen. The parts are run times as the \
             scheduler counts them, those of foreign processes in ticks. Closure is their sum divided by busy. Interrupts \
             are sampled, and most of them are inside the processes’ times too: the second closure counts them once more, \
             so the truth lies between the two. "
            @if let Some((low, high)) = range(machines.iter().filter_map(|machine| machine.closure)) {
                "Over all " (machines.len()) " cells, closure lies between " (percent(low)) " and " (percent(high))
                @if let Some((low, high)) = range(machines.iter().filter_map(|machine| machine.closure_with_interrupts)) {
                    " (with interrupts: " (percent(low)) " to " (percent(high)) ")"
                }
                "."
            }
        }
        (each_subject(results, |subject| {
            let level = results.reference_level;
            let cells = results.cases.iter().filter_map(|case| results.cell(&case.name, subject, level?));
            let rows = html! { @for cell in cells { @if let Some(cpu) = &cell.cpu { (row(results, cell, &cpu.machine)) } } };
            let caption = html! { "Where the machine’s time went on " (subject) @if let Some(level) = level { ", at " (level) } };
            table(&format!("accounting-{subject}"), caption, head(), rows)
        }))
    };
    section("accounting", body)
}

fn head() -> Markup {
    let columns = [
        "busy",
        "hops",
        "load",
        "testbed",
        "foreign",
        "kernel threads",
        "sum",
        "closure",
        "interrupts",
        "closure with interrupts",
        "unattributed kernel",
        "stolen",
        "slices disturbed",
    ];
    html! { tr { th scope="col" { "case" } @for column in columns { th scope="col" { (column) } } } }
}

fn row(results: &Results, cell: &Cell, machine: &Machine) -> Markup {
    let closure = |closure: Option<f64>| closure.map_or_else(|| "–".to_owned(), percent);
    html! {
        tr {
            th scope="row" { (case_tag(results, &cell.case)) }
            td.strong { (format::number(machine.busy)) }
            @for part in [machine.hops, machine.load, machine.testbed, machine.foreign, machine.kernel_threads] {
                td { (format::number(part)) }
            }
            td.strong { (format::number(machine.charged)) }
            td { (closure(machine.closure)) }
            td { (format::number(machine.interrupts)) }
            td { (closure(machine.closure_with_interrupts)) }
            td { (format::number(machine.unattributed_kernel)) }
            td { (percent(cell.disturbance.steal_share)) }
            td { (cell.disturbance.slices) "/" (cell.slices) }
        }
    }
}

fn percent(share: f64) -> String {
    format::percent(share)
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((f64::min(low, value), f64::max(high, value)))
    })
}
