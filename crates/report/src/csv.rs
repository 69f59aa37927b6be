//! `results.csv`: one row a cell, the same columns in every run; empty where there is no value.

use crate::results::{Cell, Comparison, Cost, Cpu, Estimate, Latency, ProofState, Results};
use meshtoll_model::{process::Role, units::LoadLevel};

/// A row's cell, and its comparison with the baseline where there is one.
type Row<'a> = (&'a Cell, Option<&'a Comparison>);

/// A column: its name, what it says with its unit, and how it is made.
pub struct Column {
    /// Name in the header line.
    pub name: &'static str,
    /// What it says, with its unit.
    pub meaning: &'static str,
    value: fn(&Row<'_>) -> Option<String>,
}

macro_rules! columns {
    ($($name:literal, $meaning:literal, $value:expr;)*) => {
        [$(Column { name: $name, meaning: $meaning, value: $value }),*]
    };
}

/// The columns, in their order.
pub static COLUMNS: [Column; 46] = columns! {
    "case", "the case", |(cell, _)| Some(cell.case.to_string());
    "subject", "the data plane that carries it", |(cell, _)| Some(cell.subject.to_string());
    "loop", "closed or open", |(cell, _)| Some(match cell.level {
        LoadLevel::Clients(_) => "closed",
        LoadLevel::Rate(_) => "open",
    }.to_owned());
    "level", "clients of a closed loop, requests a second of an open one", |(cell, _)| match cell.level {
        LoadLevel::Clients(amount) | LoadLevel::Rate(amount) => Some(amount.to_string()),
    };
    "rounds", "rounds measured", |(cell, _)| Some(cell.slices.to_string());
    "transactions", "transactions of all slices, lead-ins and tails included", |(cell, _)| Some(cell.transactions.to_string());
    "failed", "failed requests of all kinds", |(cell, _)| Some(cell.failed().to_string());
    "throughput", "transactions a second in the measured windows, mean over rounds", |row| rate(row, |rate| rate.mean);
    "throughput_sd", "its standard deviation over rounds", |row| rate(row, |rate| rate.standard_deviation);
    "throughput_min", "its smallest round", |row| rate(row, |rate| rate.min);
    "throughput_max", "its largest round", |row| rate(row, |rate| rate.max);
    "latency_mean_ms", "mean response time of all slices together, ms", |row| latency(row, |latency| latency.mean);
    "latency_p50_ms", "median, ms", |row| latency(row, |latency| latency.p50);
    "latency_p90_ms", "90th percentile, ms", |row| latency(row, |latency| latency.p90);
    "latency_p95_ms", "95th percentile, ms", |row| latency(row, |latency| latency.p95);
    "latency_p99_ms", "99th percentile, ms", |row| latency(row, |latency| latency.p99);
    "latency_max_ms", "largest, ms", |row| latency(row, |latency| latency.max);
    "lateness_p99_ms", "open loop: 99th percentile of how late requests were sent, ms", |(cell, _)| number(cell.lateness.map(|lateness| lateness.p99));
    "mesh_us", "CPU µs a transaction of all sidecars, gateway and SNI proxy", |row| cpu(row, |cpu| Some(cpu.mesh.micros));
    "mesh_us_sd", "its standard deviation over rounds", |row| cpu(row, |cpu| Some(cpu.mesh.rounds.standard_deviation));
    "mesh_user_us", "of it in user mode (sampled split)", |row| cpu(row, |cpu| cpu.mesh.user);
    "mesh_system_us", "of it in system mode (sampled split)", |row| cpu(row, |cpu| cpu.mesh.system);
    "sidecars_us", "CPU µs a transaction of all sidecars", |row| cpu(row, |cpu| of_role(cpu, Role::Sidecar));
    "gateway_us", "CPU µs a transaction of the egress gateway", |row| cpu(row, |cpu| of_role(cpu, Role::Gateway));
    "sni_proxy_us", "CPU µs a transaction of the SNI proxy", |row| cpu(row, |cpu| of_role(cpu, Role::SniProxy));
    "application_us", "CPU µs a transaction of all services", |row| cpu(row, |cpu| Some(cpu.application.micros));
    "application_user_us", "of it in user mode (sampled split)", |row| cpu(row, |cpu| cpu.application.user);
    "application_system_us", "of it in system mode (sampled split)", |row| cpu(row, |cpu| cpu.application.system);
    "database_us", "CPU µs a transaction of the database", |row| cpu(row, |cpu| Some(cpu.database.micros));
    "load_us_a_request", "CPU µs a request of the load generator", |row| cpu(row, |cpu| Some(cpu.load_micros_a_request));
    "unattributed_kernel_us", "kernel work that no hop is charged with, µs a transaction", |row| cpu(row, |cpu| Some(cpu.machine.unattributed_kernel));
    "busy_us", "all CPUs' busy time, µs a transaction", |row| cpu(row, |cpu| Some(cpu.machine.busy));
    "closure", "time charged to someone by busy time", |row| cpu(row, |cpu| cpu.machine.closure);
    "closure_with_interrupts", "the same with sampled interrupts counted once more", |row| cpu(row, |cpu| cpu.machine.closure_with_interrupts);
    "steal_share", "time stolen by the hypervisor, as a share of all CPUs' time", |(cell, _)| number(Some(cell.disturbance.steal_share));
    "foreign_share", "CPU time of processes outside the run, as a share of busy time", |(cell, _)| number(Some(cell.disturbance.foreign_share));
    "disturbed_slices", "slices with more than 1 % steal or 2 % foreign load", |(cell, _)| Some(cell.disturbance.slices.to_string());
    "mean_body_bytes", "mean size of a response body, bytes", |(cell, _)| number(cell.mean_body_bytes);
    "proof", "proven, failed or missing", |(cell, _)| Some(match ProofState::of(&cell.proof) {
        ProofState::Proven => "proven",
        ProofState::Failed => "failed",
        ProofState::Missing => "missing",
    }.to_owned());
    "throughput_ratio", "throughput by the baseline's of the same round, mean", |row| against(row, |one| one.throughput_ratio, |ratio| Some(ratio.mean));
    "throughput_ratio_sd", "its standard deviation over rounds", |row| against(row, |one| one.throughput_ratio, |ratio| Some(ratio.standard_deviation));
    "throughput_ratio_margin", "half its 95 % confidence interval", |row| against(row, |one| one.throughput_ratio, |ratio| ratio.margin);
    "toll_us", "mesh CPU µs a transaction minus the baseline's of the same round, mean", |row| against(row, |one| one.mesh_micros, |toll| Some(toll.mean));
    "toll_us_margin", "half its 95 % confidence interval", |row| against(row, |one| one.mesh_micros, |toll| toll.margin);
    "p50_difference_ms", "median of a slice minus the baseline's of the same round, mean, ms", |row| against(row, |one| one.p50_ms, |difference| Some(difference.mean));
    "p99_difference_ms", "99th percentile of a slice minus the baseline's of the same round, mean, ms", |row| against(row, |one| one.p99_ms, |difference| Some(difference.mean));
};

/// The file's text, header line included.
pub fn csv(results: &Results) -> String {
    let mut text = line(COLUMNS.iter().map(|column| column.name.to_owned()));
    for cell in &results.cells {
        let row = (cell, results.comparison(&cell.case, &cell.subject, cell.level));
        text.push_str(&line(COLUMNS.iter().map(|column| (column.value)(&row).unwrap_or_default())));
    }
    text
}

/// Fields as RFC 4180 has them, but with a bare newline at the end.
fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted = fields.map(|field| match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    });
    let mut line = quoted.collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

fn number(value: Option<f64>) -> Option<String> {
    value.map(|value| format!("{value:.4}"))
}

fn rate((cell, _): &Row<'_>, of: fn(&Estimate) -> f64) -> Option<String> {
    number(cell.throughput.as_ref().map(of))
}

fn latency((cell, _): &Row<'_>, of: fn(&Latency) -> f64) -> Option<String> {
    number(cell.latency.as_ref().map(of))
}

fn cpu((cell, _): &Row<'_>, of: fn(&Cpu) -> Option<f64>) -> Option<String> {
    number(cell.cpu.as_ref().and_then(of))
}

/// Sum of all hops of a role; `None` where the case has none.
fn of_role(cpu: &Cpu, role: Role) -> Option<f64> {
    let costs = || cpu.hops.iter().filter(|hop| hop.role == role).map(|hop| hop.cost);
    costs().next()?;
    Some(costs().map(|Cost { micros, .. }| micros).sum())
}

fn against(
    (_, comparison): &Row<'_>,
    which: fn(&Comparison) -> Option<Estimate>,
    of: fn(&Estimate) -> Option<f64>,
) -> Option<String> {
    number(comparison.and_then(which).as_ref().and_then(of))
}
