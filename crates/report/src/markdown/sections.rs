//! The sections, in the page's order.

use super::{Text, escaped};
use crate::{
    format::{self, THIN},
    published::{self, Chart},
    results::{Cell, Comparison, Cost, Estimate, Latency, Machine, Results},
    words,
};
use meshtoll_model::{process::Role, units::LoadLevel};

pub(super) fn cases(text: &mut Text, results: &Results) {
    text.line("## The cases");
    let row = |case: &crate::results::Case| {
        let path: Vec<&str> = case.path.iter().map(|hop| words::role(*hop)).collect();
        let path = if path.is_empty() { "direct".to_owned() } else { path.join(" → ") };
        let mutual = if case.mesh_mtls { ", mutual TLS" } else { "" };
        let published = case.published.as_ref().map_or("–", |found| &found.text).to_owned();
        vec![case.name.to_string(), format!("{path}{mutual}"), case.description.clone(), published]
    };
    text.table(&[":case", ":path to the database", ":description", ":published"], results.cases.iter().map(row));
    if let Some(setting) = published::setting(&results.run.experiment) {
        text.line(setting);
    }
}

pub(super) fn throughput(text: &mut Text, results: &Results) {
    text.line("## Throughput against number of clients");
    published(text, results, Chart::Throughput);
    let levels = results.closed_levels();
    let names: Vec<String> = levels.iter().map(ToString::to_string).collect();
    let columns: Vec<&str> = [":case", ":subject"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let rate = |estimate: Estimate| format::with_uncertainty(estimate.mean, estimate.standard_deviation);
    let rows = named_cases(results, |case, subject| {
        let cells = levels.iter().map(|level| results.cell(case, subject, *level).and_then(|cell| cell.throughput));
        Some(cells.map(|estimate| estimate.map_or_else(dash, rate)).collect())
    });
    text.line("Transactions a second, mean ± standard deviation over rounds, closed loop.");
    text.table(&columns, rows);
}

pub(super) fn response_times(text: &mut Text, results: &Results) {
    text.line("## Response times");
    published(text, results, Chart::ResponseTime);
    let Some(level) = reference(text, results) else { return };
    let rows = named_cases(results, |case, subject| Some(percentiles(results.cell(case, subject, level)?.latency)));
    text.table(&[":case", ":subject", "mean ms", "p50", "p90", "p95", "p99", "max"], rows);
}

pub(super) fn cpu(text: &mut Text, results: &Results) {
    text.line("## CPU of the mesh");
    published(text, results, Chart::Cpu);
    let Some(level) = reference(text, results) else { return };
    let rows = named_cases(results, |case, subject| {
        let cpu = results.cell(case, subject, level)?.cpu.as_ref()?;
        let of = |role: Role| {
            let sum: f64 = cpu.hops.iter().filter(|hop| hop.role == role).map(|hop| hop.cost.micros).sum();
            if sum > 0.0 { format::number(sum) } else { dash() }
        };
        let mut row = vec![of(Role::Sidecar), of(Role::Gateway), of(Role::SniProxy)];
        row.extend(cost(&cpu.mesh));
        row.extend([&cpu.application, &cpu.database].map(|cost| format::number(cost.micros)));
        row.push(format::number(cpu.machine.unattributed_kernel));
        Some(row)
    });
    text.line("CPU µs a transaction.");
    let columns = [
        ":case",
        ":subject",
        "sidecars",
        "gateway",
        "SNI proxy",
        "mesh user",
        "mesh system",
        "mesh total",
        "sd",
        "application",
        "database",
        "unattributed kernel",
    ];
    text.table(&columns, rows);
}

pub(super) fn hops(text: &mut Text, results: &Results) {
    text.line("## Every hop");
    let Some(level) = reference(text, results) else { return };
    text.line(
        "CPU µs a transaction, and resident memory: when the process was ready, here on average, and at the run's end.",
    );
    let mut rows = Vec::new();
    for subject in &results.run.subjects {
        for case in &results.cases {
            let cpu = results.cell(&case.name, subject, level).and_then(|cell| cell.cpu.as_ref());
            for hop in cpu.iter().flat_map(|cpu| &cpu.hops) {
                let mut row = vec![case.name.to_string(), subject.to_string(), hop.hop.to_string()];
                row.extend(cost(&hop.cost));
                let memory = |bytes: Option<u64>| bytes.map_or_else(dash, |bytes| format::bytes(bytes as f64));
                row.push(memory(hop.resident_bytes_at_start));
                row.push(format::bytes(hop.resident_bytes));
                row.push(memory(hop.resident_bytes_at_end));
                rows.push(row);
            }
        }
    }
    text.table(&[":case", ":subject", ":hop", "user", "system", "total", "sd", "at start", "memory", "at end"], rows);
}

pub(super) fn differences(text: &mut Text, results: &Results) {
    text.line("## Difference from the baseline");
    text.line(format!(
        "Against `{}` at the same load, paired by round, closed loop. ± is half the 95 % confidence interval of the mean; \
         sd, min and max are over rounds.",
        results.run.baseline
    ));
    let row = |comparison: &Comparison| {
        let mut row = vec![comparison.case.to_string(), comparison.subject.to_string(), comparison.level.to_string()];
        row.extend(comparison.throughput_ratio.map_or([dash(), dash(), dash(), dash()], |ratio| {
            [
                words::change_with_margin(&ratio),
                format!("{:.1}", ratio.standard_deviation * 100.0),
                format!("{} … {}", format::change(ratio.min), format::change(ratio.max)),
                words::verdict(&ratio, 1.0).to_owned(),
            ]
        }));
        let difference = |of: Option<Estimate>| of.map_or_else(dash, |of| words::difference_with_margin(&of));
        row.extend([comparison.mesh_micros, comparison.p50_ms, comparison.p99_ms].map(difference));
        row.push(comparison.rounds.to_string());
        row
    };
    let closed = results.comparisons.iter().filter(|one| matches!(one.level, LoadLevel::Clients(_)));
    let columns = [
        ":case",
        ":subject",
        ":load",
        "throughput",
        "sd",
        "min … max",
        ":",
        "mesh CPU µs",
        "p50 ms",
        "p99 ms",
        "rounds",
    ];
    text.table(&columns, closed.map(row));
}

pub(super) fn shares(text: &mut Text, results: &Results) {
    text.line("## What it means for other applications");
    text.line(
        "Change of throughput, W / (W + toll), where CPU limits throughput and a transaction takes W of CPU time on the \
         baseline's path, all in all. The last two columns put the formula to the test in this lab.",
    );
    let Some(first) = results.shares.first() else {
        text.line("No toll was measured.");
        return;
    };
    let works: Vec<String> = first.predicted.iter().map(|one| format!("W = {}{THIN}ms", one.application_ms)).collect();
    let mut columns = vec![":case", ":subject", "toll µs"];
    columns.extend(works.iter().map(String::as_str));
    columns.extend(["this lab's W", "predicted", "measured"]);
    let row = |share: &crate::results::Share| {
        let unclear = if share.is_clear() { "" } else { " (not clear)" };
        let toll = words::difference_with_margin(&share.toll_micros);
        let mut row = vec![share.case.to_string(), share.subject.to_string(), format!("{toll}{unclear}")];
        row.extend(share.predicted.iter().map(|one| format::change(one.throughput_ratio)));
        row.extend(share.here.map_or([dash(), dash(), dash()], |here| {
            [
                format!("{}{THIN}ms", format::number(here.application_ms)),
                format::change(here.predicted_ratio),
                format::change(here.measured_ratio),
            ]
        }));
        row
    };
    text.table(&columns, results.shares.iter().map(row));
}

pub(super) fn open_loop(text: &mut Text, results: &Results) {
    text.line("## Latency at a fixed rate");
    if results.open_levels().is_empty() {
        text.line("This run has no open-loop level.");
    }
    for level in results.open_levels() {
        text.line(format!("Open loop at {level}: ms from when a request was due; lateness is how late it was sent."));
        let rows = named_cases(results, |case, subject| {
            let cell = results.cell(case, subject, level)?;
            let mut row = vec![cell.throughput.map_or_else(dash, |rate| format::number(rate.mean))];
            row.extend(percentiles(cell.latency));
            row.push(cell.lateness.map_or_else(dash, |lateness| format::number(lateness.p99)));
            row.push(cell.cpu.as_ref().map_or_else(dash, |cpu| format::number(cpu.mesh.micros)));
            Some(row)
        });
        let columns =
            [":case", ":subject", "done/s", "mean", "p50", "p90", "p95", "p99", "max", "lateness p99", "mesh CPU µs"];
        text.table(&columns, rows);
    }
}

pub(super) fn proof(text: &mut Text, results: &Results) {
    text.line("## Proof of the paths");
    let mut rows = Vec::new();
    for subject in &results.run.subjects {
        for case in &results.cases {
            for claim in results.proof(&case.name, subject) {
                let mark = if claim.holds() { "✓" } else { "✗" };
                let held = format!("{mark} {} of {}", claim.held, claim.slices);
                rows.push(vec![case.name.to_string(), subject.to_string(), claim.claim, held, claim.evidence]);
            }
        }
    }
    text.table(&[":case", ":subject", ":claim", ":held in slices", ":evidence of one slice"], rows);
}

pub(super) fn accounting(text: &mut Text, results: &Results) {
    text.line("## Where the machine's time went");
    let Some(level) = reference(text, results) else { return };
    text.line(
        "CPU µs a transaction. Closure is the sum by busy; interrupts are sampled and mostly inside the processes' times \
         too, so the truth lies between the two closures.",
    );
    let closure = |closure: Option<f64>| closure.map_or_else(dash, format::percent);
    let row = |cell: &Cell, machine: &Machine| {
        let parts =
            [machine.busy, machine.hops, machine.load, machine.testbed, machine.foreign, machine.kernel_threads];
        let mut row: Vec<String> = parts.map(format::number).to_vec();
        row.push(format::number(machine.charged));
        row.extend([closure(machine.closure), closure(machine.closure_with_interrupts)]);
        row.push(format::percent(cell.disturbance.steal_share));
        row.push(format!("{} of {}", cell.disturbance.slices, cell.slices));
        row
    };
    let rows = named_cases(results, |case, subject| {
        let cell = results.cell(case, subject, level)?;
        Some(row(cell, &cell.cpu.as_ref()?.machine))
    });
    let columns = [
        ":case",
        ":subject",
        "busy",
        "hops",
        "load",
        "testbed",
        "foreign",
        "kernel threads",
        "sum",
        "closure",
        "with interrupts",
        "stolen",
        "disturbed slices",
    ];
    text.table(&columns, rows);
}

pub(super) fn setting(text: &mut Text, results: &Results) {
    let (run, machine) = (&results.run, &results.environment);
    text.line("## The same for every proxy");
    let pairs = |values: &[crate::results::NamedValue]| -> Vec<String> {
        values.iter().map(|pair| escaped(&format!("{} {}", pair.name, pair.value))).collect()
    };
    let fairness = pairs(&results.fairness).join("; ");
    text.line(if fairness.is_empty() { "Nothing was recorded.".to_owned() } else { format!("{fairness}.") });
    text.line("## Environment");
    text.line(format!(
        "Linux {}; {}, {} CPUs, {}; {}; Meshtoll {}; {}.",
        escaped(&machine.kernel),
        escaped(&machine.cpu_model),
        machine.cpus,
        escaped(&format::bytes(machine.memory_bytes as f64)),
        if machine.rootless { "rootless" } else { "as root" },
        escaped(&machine.meshtoll),
        pairs(&machine.versions).join("; ")
    ));
    text.line(format!(
        "Profile {}, {} rounds planned, slices of {} s after {} s; database {} with {} customers; seed {}. To make this \
         report again: `meshtoll report {}`",
        run.profile,
        run.planned_rounds,
        run.slice_seconds,
        run.lead_in_seconds,
        escaped(&run.database),
        run.customers,
        run.seed,
        run.id
    ));
    text.line("## Words");
    for (word, meaning) in words::GLOSSARY {
        text.0.push_str(&format!("- **{word}**: {meaning}\n"));
    }
}

/// Rows of a table over subjects and cases, those without values left out.
fn named_cases(
    results: &Results,
    values: impl Fn(&meshtoll_model::ids::CaseName, &meshtoll_model::ids::SubjectName) -> Option<Vec<String>>,
) -> Vec<Vec<String>> {
    let pairs =
        results.run.subjects.iter().flat_map(|subject| results.cases.iter().map(move |case| (&case.name, subject)));
    pairs
        .filter_map(|(case, subject)| {
            let mut row = vec![case.to_string(), subject.to_string()];
            row.extend(values(case, subject)?);
            Some(row)
        })
        .collect()
}

/// Says which level is shown.
fn reference(text: &mut Text, results: &Results) -> Option<LoadLevel> {
    let Some(level) = results.reference_level else {
        text.line("No closed-loop level was measured.");
        return None;
    };
    let remark = words::level_remark(results).map(|remark| format!(" {remark}")).unwrap_or_default();
    text.line(format!("Closed loop at {level}.{remark}"));
    Some(level)
}

fn published(text: &mut Text, results: &Results, chart: Chart) {
    if let Some(finding) = published::finding(&results.run.experiment, chart) {
        text.line(format!("Published: {finding}"));
    }
}

fn percentiles(latency: Option<Latency>) -> Vec<String> {
    let values = latency.map(|of| [of.mean, of.p50, of.p90, of.p95, of.p99, of.max].map(format::number));
    values.unwrap_or_else(|| [const { String::new() }; 6].map(|_| dash())).to_vec()
}

/// User, system, total, standard deviation.
fn cost(cost: &Cost) -> [String; 4] {
    let part = |part: Option<f64>| part.map_or_else(dash, format::number);
    [part(cost.user), part(cost.system), format::number(cost.micros), format::number(cost.rounds.standard_deviation)]
}

pub(super) fn dash() -> String {
    "–".to_owned()
}
