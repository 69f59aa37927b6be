//! `results.csv`: one row a cell, the same columns in every run; empty where there is no value.

use crate::results::{Cell, Comparison, Cost, Cpu, Estimate, Latency, ProofState, Ratios, Results};
use meshtoll_model::{process::Role, topology::HttpHandling, units::LoadLevel};

/// A row: its cell, and the comparisons with the baseline and with the run's first subject, where there are any.
struct Row<'a> {
    cell: &'a Cell,
    comparison: Option<&'a Comparison>,
    ratios: Option<&'a Ratios>,
    http: Option<HttpHandling>,
}

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
pub static COLUMNS: [Column; 52] = columns! {
    "case", "the case", |Row { cell, .. }| Some(cell.case.to_string());
    "subject", "the data plane that carries it", |Row { cell, .. }| Some(cell.subject.to_string());
    "loop", "closed or open", |Row { cell, .. }| Some(match cell.level {
        LoadLevel::Clients(_) => "closed",
        LoadLevel::Rate(_) => "open",
    }.to_owned());
    "level", "clients of a closed loop, requests a second of an open one", |Row { cell, .. }| match cell.level {
        LoadLevel::Clients(amount) | LoadLevel::Rate(amount) => Some(amount.to_string()),
    };
    "rounds", "rounds measured", |Row { cell, .. }| Some(cell.slices.to_string());
    "transactions", "transactions of all slices, lead-ins and tails included", |Row { cell, .. }| Some(cell.transactions.to_string());
    "failed", "failed requests of all kinds", |Row { cell, .. }| Some(cell.failed().to_string());
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
    "lateness_p99_ms", "open loop: 99th percentile of how late requests were sent, ms", |Row { cell, .. }| number(cell.lateness.map(|lateness| lateness.p99));
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
    "steal_share", "time stolen by the hypervisor, as a share of all CPUs' time", |Row { cell, .. }| number(Some(cell.disturbance.steal_share));
    "foreign_share", "CPU time of processes outside the run, as a share of busy time", |Row { cell, .. }| number(Some(cell.disturbance.foreign_share));
    "disturbed_slices", "slices with more than 1 % steal or 2 % foreign load", |Row { cell, .. }| Some(cell.disturbance.slices.to_string());
    "mean_body_bytes", "mean size of a response body, bytes", |Row { cell, .. }| number(cell.mean_body_bytes);
    "proof", "proven, failed or missing", |Row { cell, .. }| Some(match ProofState::of(&cell.proof) {
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
    "http", "what the sidecars read of HTTP between the services: full, or tcp for nothing", |Row { http, .. }| http.map(|http| match http {
        HttpHandling::Full => "full",
        HttpHandling::Tcp => "tcp",
    }.to_owned());
    "subject_mesh_ratio", "mesh CPU µs a transaction by that of the run's first subject in the same case and round, mean", |row| by_first(row, |ratios| ratios.mesh_micros, |ratio| Some(ratio.mean));
    "subject_mesh_ratio_margin", "half its 95 % confidence interval", |row| by_first(row, |ratios| ratios.mesh_micros, |ratio| ratio.margin);
    "subject_throughput_ratio", "throughput by that of the run's first subject in the same case and round, mean", |row| by_first(row, |ratios| ratios.throughput, |ratio| Some(ratio.mean));
    "subject_throughput_ratio_margin", "half its 95 % confidence interval", |row| by_first(row, |ratios| ratios.throughput, |ratio| ratio.margin);
    "subject_p99_ratio", "99th percentile of a slice by that of the run's first subject in the same case and round, mean", |row| by_first(row, |ratios| ratios.p99, |ratio| Some(ratio.mean));
};

/// The file's text, header line included.
pub fn csv(results: &Results) -> String {
    let mut text = line(COLUMNS.iter().map(|column| column.name.to_owned()));
    for cell in &results.cells {
        let (case, subject, level) = (&cell.case, &cell.subject, cell.level);
        let row = Row {
            cell,
            comparison: results.comparison(case, subject, level),
            ratios: results.subject_comparison(case, subject, level).map(|one| &one.ratios),
            http: results.http(subject),
        };
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

fn rate(Row { cell, .. }: &Row<'_>, of: fn(&Estimate) -> f64) -> Option<String> {
    number(cell.throughput.as_ref().map(of))
}

fn latency(Row { cell, .. }: &Row<'_>, of: fn(&Latency) -> f64) -> Option<String> {
    number(cell.latency.as_ref().map(of))
}

fn cpu(Row { cell, .. }: &Row<'_>, of: fn(&Cpu) -> Option<f64>) -> Option<String> {
    number(cell.cpu.as_ref().and_then(of))
}

/// Sum of all hops of a role; `None` where the case has none.
fn of_role(cpu: &Cpu, role: Role) -> Option<f64> {
    let costs = || cpu.hops.iter().filter(|hop| hop.role == role).map(|hop| hop.cost);
    costs().next()?;
    Some(costs().map(|Cost { micros, .. }| micros).sum())
}

fn against(
    Row { comparison, .. }: &Row<'_>,
    which: fn(&Comparison) -> Option<Estimate>,
    of: fn(&Estimate) -> Option<f64>,
) -> Option<String> {
    number(comparison.and_then(which).as_ref().and_then(of))
}

fn by_first(
    Row { ratios, .. }: &Row<'_>,
    which: fn(&Ratios) -> Option<Estimate>,
    of: fn(&Estimate) -> Option<f64>,
) -> Option<String> {
    number(ratios.and_then(which).as_ref().and_then(of))
}
