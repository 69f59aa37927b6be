//! Estimates of one cell.

use super::{
    cpu::{self, Cpu},
    estimate::Estimate,
    names::LevelSchema,
    proof::{self, Claim},
};
use hdrhistogram::Histogram;
use meshtoll_lab::record::{CellRecord, RunRecord, SliceRecord};
use meshtoll_load::protocol::Latencies;
use meshtoll_model::{
    ids::{CaseName, SubjectName},
    units::LoadLevel,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A slice counts as disturbed when the hypervisor took more than this share of the CPUs' time …
const STEAL_LIMIT: f64 = 0.01;
/// … or when processes outside the run used more than this share of the busy time.
const FOREIGN_LIMIT: f64 = 0.02;

/// Case × subject × load level: what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cell {
    /// The case.
    #[schemars(with = "String")]
    pub case: CaseName,
    /// The subject.
    #[schemars(with = "String")]
    pub subject: SubjectName,
    /// How hard it was driven.
    #[schemars(with = "LevelSchema")]
    pub level: LoadLevel,
    /// Slices that were measured, one a round.
    pub slices: u32,
    /// Transactions, lead-ins and tails included.
    pub transactions: u64,
    /// Failed requests by kind.
    pub errors: BTreeMap<String, u64>,
    /// Transactions a second in the measured windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Estimate>,
    /// Response times of all slices together. Closed loop: from sending. Open loop: from when the request was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Open loop: by how much requests were sent later than due, because the generator or the sessions were busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Latency>,
    /// CPU time a transaction; absent without transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Mean size of a response body, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_body_bytes: Option<f64>,
    /// Share of each operation in the transactions.
    pub operations: BTreeMap<String, f64>,
    /// What else took the machine's time.
    pub disturbance: Disturbance,
    /// Evidence for the path, by claim.
    pub proof: Vec<Claim>,
}

/// Response times in ms, from the merged histograms of all slices: never a percentile of percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Latency {
    /// Values in the histogram.
    pub count: u64,
    /// Mean, ms.
    pub mean: f64,
    /// Median, ms.
    pub p50: f64,
    /// 90th percentile, ms.
    pub p90: f64,
    /// 95th percentile, ms.
    pub p95: f64,
    /// 99th percentile, ms.
    pub p99: f64,
    /// Largest, ms.
    pub max: f64,
}

/// What else took the machine's time while the cell was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Disturbance {
    /// Time that the hypervisor gave to others, as a share of all CPUs' time.
    pub steal_share: f64,
    /// CPU time of processes outside the run, as a share of the busy time.
    pub foreign_share: f64,
    /// Slices with more than 1 % of steal or more than 2 % of foreign load. They are included everywhere.
    pub slices: u32,
}

impl Cell {
    /// Failed requests of every kind.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

pub(super) fn cell(record: &RunRecord, cell: &CellRecord) -> Cell {
    let slices = &cell.slices;
    let transactions: u64 = slices.iter().map(|slice| slice.load.transactions).sum();
    let body_bytes: u64 = slices.iter().map(|slice| slice.load.response_body_bytes).sum();
    Cell {
        case: cell.case.clone(),
        subject: cell.subject.clone(),
        level: cell.level,
        slices: u32::try_from(slices.len()).unwrap_or(u32::MAX),
        transactions,
        errors: total(slices.iter().map(|slice| &slice.load.errors)),
        throughput: Estimate::of(slices.iter().filter_map(throughput)),
        latency: merged(slices.iter().map(|slice| &slice.load.latency)),
        lateness: merged(slices.iter().map(|slice| &slice.load.lateness)),
        cpu: cpu::cpu(record, cell),
        mean_body_bytes: (transactions > 0).then(|| body_bytes as f64 / transactions as f64),
        operations: operations(slices),
        disturbance: disturbance(slices, record.header.environment.cpus),
        proof: proof::claims(slices),
    }
}

/// Transactions a second in a slice's window; `None` for a slice without a window.
pub(super) fn throughput(slice: &SliceRecord) -> Option<f64> {
    let load = &slice.load;
    (load.window_ns > 0).then(|| load.window_transactions as f64 / (load.window_ns as f64 / 1e9))
}

/// Nanoseconds of a histogram in ms.
pub(super) fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn merged<'a>(histograms: impl Iterator<Item = &'a Latencies>) -> Option<Latency> {
    let mut all: Histogram<u64> = Latencies::new().0;
    all.auto(true);
    for latencies in histograms {
        // Cannot fail: a histogram that resizes itself takes every value.
        if all.add(&latencies.0).is_err() {
            return None;
        }
    }
    let at = |quantile| millis(all.value_at_quantile(quantile));
    (!all.is_empty()).then(|| Latency {
        count: all.len(),
        mean: all.mean() / 1e6,
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        max: millis(all.max()),
    })
}

fn total<'a>(counts: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut total = BTreeMap::new();
    for (kind, count) in counts.flatten() {
        *total.entry(kind.clone()).or_default() += count;
    }
    total
}

fn operations(slices: &[SliceRecord]) -> BTreeMap<String, f64> {
    let counts = total(slices.iter().map(|slice| &slice.load.operations));
    let all: u64 = counts.values().sum();
    counts.into_iter().filter(|_| all > 0).map(|(operation, count)| (operation, count as f64 / all as f64)).collect()
}

fn disturbance(slices: &[SliceRecord], cpus: u32) -> Disturbance {
    let share = |part: u64, whole: f64| if whole > 0.0 { part as f64 / whole } else { 0.0 };
    let all_cpus = |slice: &SliceRecord| slice.machine.elapsed.0 as f64 * f64::from(cpus);
    let busy = |slice: &SliceRecord| slice.machine.busy.0 as f64;
    let disturbed = slices.iter().filter(|slice| {
        share(slice.machine.steal.0, all_cpus(slice)) > STEAL_LIMIT
            || share(slice.machine.foreign.0, busy(slice)) > FOREIGN_LIMIT
    });
    Disturbance {
        steal_share: share(slices.iter().map(|slice| slice.machine.steal.0).sum(), slices.iter().map(all_cpus).sum()),
        foreign_share: share(slices.iter().map(|slice| slice.machine.foreign.0).sum(), slices.iter().map(busy).sum()),
        slices: u32::try_from(disturbed.count()).unwrap_or(u32::MAX),
    }
}
