//! What the toll means for applications of other sizes.
//!
//! In a closed loop whose clients keep a fixed number `N` of CPUs busy, throughput is `N` divided by the CPU time
//! of one transaction (the utilisation law, `U = X · S`, at `U = N`). With `W` for all CPU time a transaction takes
//! on the baseline's path, and `toll` for what a case adds to it, throughput against the baseline is
//!
//! ```text
//! (N / (W + toll)) / (N / W) = W / (W + toll)
//! ```
//!
//! It holds where CPU limits throughput, and where `toll` does not depend on `W`.

use super::{
    cell::Cell,
    compare::Comparison,
    cpu::Cpu,
    estimate::{Estimate, Verdict},
};
use meshtoll_lab::record::RunRecord;
use meshtoll_model::{
    ids::{CaseName, SubjectName},
    units::LoadLevel,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time a transaction of the applications that are predicted, ms: a small service, a usual one, a heavy one.
const APPLICATIONS_MS: [f64; 3] = [0.5, 2.0, 10.0];

/// What the toll of a case at the reference level means for applications of other sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Share {
    /// The case.
    #[schemars(with = "String")]
    pub case: CaseName,
    /// The subject.
    #[schemars(with = "String")]
    pub subject: SubjectName,
    /// CPU µs a transaction that the case adds to the mesh's, against the baseline.
    pub toll_micros: Estimate,
    /// Predicted throughput against the baseline, for applications of several sizes.
    pub predicted: Vec<PredictedShare>,
    /// The same formula for this lab's own application, beside what was measured: how far it can be trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<ShareHere>,
}

/// A prediction for an application of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PredictedShare {
    /// CPU time a transaction takes on the baseline's path, all in all, ms.
    pub application_ms: f64,
    /// Predicted throughput against the baseline.
    pub throughput_ratio: f64,
}

/// The formula applied to this lab.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShareHere {
    /// CPU time a transaction took on the baseline's path: application, mesh, database and load generator, ms.
    pub application_ms: f64,
    /// Predicted throughput against the baseline.
    pub predicted_ratio: f64,
    /// Measured throughput against the baseline.
    pub measured_ratio: f64,
}

impl Share {
    /// Whether the toll can be told from nothing.
    pub fn is_clear(&self) -> bool {
        matches!(self.toll_micros.verdict(0.0), Verdict::More | Verdict::Less)
    }
}

pub(super) fn shares(record: &RunRecord, cells: &[Cell], comparisons: &[Comparison], level: LoadLevel) -> Vec<Share> {
    let at_level = comparisons.iter().filter(|comparison| comparison.level == level);
    at_level
        .filter_map(|comparison| {
            let toll = comparison.mesh_micros?;
            let baseline = cells.iter().find(|cell| {
                cell.case == record.header.baseline && cell.subject == comparison.subject && cell.level == level
            });
            Some(Share {
                case: comparison.case.clone(),
                subject: comparison.subject.clone(),
                toll_micros: toll,
                predicted: APPLICATIONS_MS.into_iter().filter_map(|work| predict(work, toll.mean)).collect(),
                here: baseline.and_then(|cell| here(cell.cpu.as_ref()?, comparison, toll.mean)),
            })
        })
        .collect()
}

fn here(baseline: &Cpu, comparison: &Comparison, toll_micros: f64) -> Option<ShareHere> {
    let work = (baseline.machine.hops + baseline.machine.load) / 1e3;
    Some(ShareHere {
        application_ms: work,
        predicted_ratio: predict(work, toll_micros)?.throughput_ratio,
        measured_ratio: comparison.throughput_ratio?.mean,
    })
}

/// `W / (W + toll)`; `None` when a negative toll eats the whole transaction.
fn predict(application_ms: f64, toll_micros: f64) -> Option<PredictedShare> {
    let with_toll = application_ms + toll_micros / 1e3;
    (application_ms > 0.0 && with_toll > 0.0)
        .then(|| PredictedShare { application_ms, throughput_ratio: application_ms / with_toll })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toll_as_large_as_the_application_halves_throughput() {
        assert_eq!(predict(0.5, 500.0).unwrap().throughput_ratio, 0.5);
        assert_eq!(predict(2.0, 500.0).unwrap().throughput_ratio, 0.8);
        assert_eq!(predict(10.0, 0.0).unwrap().throughput_ratio, 1.0);
        assert_eq!(predict(0.5, -500.0), None);
    }
}
