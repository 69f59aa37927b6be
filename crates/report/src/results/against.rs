//! One cell against another that is not its baseline: subject against subject, and case against the case before it.

use super::{
    cell::{millis, throughput},
    compare::{measured, pairs},
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

/// Which cases are steps on the way to others: what the second adds to the first.
const STEPS: [[&str; 2]; 3] =
    [["gateway", "gateway-mtls"], ["gateway-mtls", "gateway-wildcard"], ["gateway-sni", "gateway-wildcard"]];

/// A subject against the run's first one: the same case at the same level, paired by round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubjectComparison {
    /// The case.
    #[schemars(with = "String")]
    pub case: CaseName,
    /// The subject.
    #[schemars(with = "String")]
    pub subject: SubjectName,
    /// The subject that it is compared with: the first of the run.
    #[schemars(with = "String")]
    pub against: SubjectName,
    /// How hard both were driven.
    #[schemars(with = "LevelSchema")]
    pub level: LoadLevel,
    /// Its figures by the other's.
    pub ratios: Ratios,
}

/// A case against another than the baseline, on the same subject at the same level, paired by round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// The case.
    #[schemars(with = "String")]
    pub case: CaseName,
    /// The case that it is compared with.
    #[schemars(with = "String")]
    pub against: CaseName,
    /// The subject.
    #[schemars(with = "String")]
    pub subject: SubjectName,
    /// How hard both were driven.
    #[schemars(with = "LevelSchema")]
    pub level: LoadLevel,
    /// Its figures by the other's.
    pub ratios: Ratios,
}

/// Figures of one cell by those of another in the same round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ratios {
    /// Rounds in which both were measured.
    pub rounds: u32,
    /// Transactions a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Estimate>,
    /// CPU µs a transaction of all mesh components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh_micros: Option<Estimate>,
    /// 99th percentile of the response times of a slice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Estimate>,
}

pub(super) fn subject_comparisons(record: &RunRecord) -> Vec<SubjectComparison> {
    let Some((first, others)) = record.header.subjects.split_first() else { return Vec::new() };
    let cells = record.cells.iter().filter(|cell| others.contains(&cell.subject));
    cells
        .filter_map(|cell| {
            Some(SubjectComparison {
                case: cell.case.clone(),
                subject: cell.subject.clone(),
                against: first.clone(),
                level: cell.level,
                ratios: ratios(cell, find(record, &cell.case, first, cell.level)?)?,
            })
        })
        .collect()
}

pub(super) fn steps(record: &RunRecord) -> Vec<Step> {
    let step = |cell: &CellRecord, against: &str| {
        let against = CaseName::new(against);
        Some(Step {
            ratios: ratios(cell, find(record, &against, &cell.subject, cell.level)?)?,
            case: cell.case.clone(),
            against,
            subject: cell.subject.clone(),
            level: cell.level,
        })
    };
    let of_step = |[against, case]: [&'static str; 2]| {
        let cells = record.cells.iter().filter(move |cell| cell.case.as_str() == case);
        cells.filter_map(move |cell| step(cell, against))
    };
    STEPS.into_iter().flat_map(of_step).collect()
}

fn find<'a>(record: &'a RunRecord, case: &CaseName, subject: &SubjectName, level: LoadLevel) -> Option<&'a CellRecord> {
    record.cells.iter().find(|cell| cell.case == *case && cell.subject == *subject && cell.level == level)
}

/// `None` when no round has both.
fn ratios(cell: &CellRecord, against: &CellRecord) -> Option<Ratios> {
    let pairs = pairs(cell, against);
    let ratio = |of: fn(&SliceRecord) -> Option<f64>| {
        let both = pairs.iter().filter_map(|(slice, other)| Some((of(slice)?, of(other)?)));
        Spread::of_ratios(both.filter(|(_, other)| *other > 0.0)).map(Estimate::from)
    };
    (!pairs.is_empty()).then(|| Ratios {
        rounds: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
        throughput: ratio(throughput),
        mesh_micros: ratio(mesh_micros),
        p99: ratio(|slice| measured(slice).map(|latency| millis(latency.value_at_quantile(0.99)))),
    })
}
