//! Each case against the baseline, paired by round: what drifts slowly cancels out.

use super::{
    cell::{millis, throughput},
    cpu::mesh_micros,
    estimate::Estimate,
    names::LevelSchema,
};
use meshtoll_lab::record::{CellRecord, RunRecord, SliceRecord};
use meshtoll_model::{
    ids::{CaseName, SubjectName},
    units::LoadLevel,
};
use meshtoll_stats::spread::Spread;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A case against the baseline of the same subject at the same level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Comparison {
    /// The case.
    #[schemars(with = "String")]
    pub case: CaseName,
    /// The subject.
    #[schemars(with = "String")]
    pub subject: SubjectName,
    /// How hard both were driven.
    #[schemars(with = "LevelSchema")]
    pub level: LoadLevel,
    /// Rounds in which both were measured.
    pub rounds: u32,
    /// Throughput by the baseline's of the same round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_ratio: Option<Estimate>,
    /// CPU µs a transaction of all mesh components, minus the baseline's: the toll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh_micros: Option<Estimate>,
    /// Mean response time of a slice minus the baseline's, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ms: Option<Estimate>,
    /// Median response time of a slice minus the baseline's, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<Estimate>,
    /// 99th percentile of a slice minus the baseline's, ms. Each value rests on the slowest hundredth of one slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<Estimate>,
}

pub(super) fn comparisons(record: &RunRecord) -> Vec<Comparison> {
    let baseline = &record.header.baseline;
    let others = record.cells.iter().filter(|cell| cell.case != *baseline);
    others
        .filter_map(|cell| {
            let reference = record
                .cells
                .iter()
                .find(|one| one.case == *baseline && one.subject == cell.subject && one.level == cell.level)?;
            compare(cell, reference)
        })
        .collect()
}

/// `None` when no round has both.
fn compare(cell: &CellRecord, baseline: &CellRecord) -> Option<Comparison> {
    let pairs = pairs(cell, baseline);
    let both = |of: fn(&SliceRecord) -> Option<f64>| {
        pairs.iter().filter_map(move |(slice, reference)| Some((of(slice)?, of(reference)?)))
    };
    let difference = |of| Spread::of_differences(both(of)).map(Estimate::from);
    (!pairs.is_empty()).then(|| Comparison {
        case: cell.case.clone(),
        subject: cell.subject.clone(),
        level: cell.level,
        rounds: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
        throughput_ratio: Spread::of_ratios(both(throughput).filter(|(_, reference)| *reference > 0.0))
            .map(Estimate::from),
        mesh_micros: difference(mesh_micros),
        mean_ms: difference(|slice| measured(slice).map(|latency| latency.mean() / 1e6)),
        p50_ms: difference(|slice| measured(slice).map(|latency| millis(latency.value_at_quantile(0.5)))),
        p99_ms: difference(|slice| measured(slice).map(|latency| millis(latency.value_at_quantile(0.99)))),
    })
}

/// Slices of two cells in the same round.
pub(super) fn pairs<'a>(cell: &'a CellRecord, other: &'a CellRecord) -> Vec<(&'a SliceRecord, &'a SliceRecord)> {
    let pair = |slice: &'a SliceRecord| Some((slice, other.slices.iter().find(|other| other.round == slice.round)?));
    cell.slices.iter().filter_map(pair).collect()
}

pub(super) fn measured(slice: &SliceRecord) -> Option<&hdrhistogram::Histogram<u64>> {
    Some(&slice.load.latency.0).filter(|latency| !latency.is_empty())
}
