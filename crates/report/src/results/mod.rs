//! The published results: what a run says, computed once from its raw slices, as plain data with a JSON schema.

mod against;
mod cell;
mod compare;
mod cpu;
mod estimate;
mod names;
mod notice;
mod proof;
mod setting;
mod share;

pub use against::{Ratios, Step, SubjectComparison};
pub use cell::{Cell, Disturbance, Latency};
pub use compare::Comparison;
pub use cpu::{Cost, Cpu, Hop, Machine};
pub use estimate::{Estimate, Verdict};
pub use notice::{Notice, Severity};
pub use proof::{Claim, ProofState};
pub use setting::{Case, Environment, Finding, NamedValue, Run, Surroundings};
pub use share::{PredictedShare, Share, ShareHere};

use meshtoll_lab::record::RunRecord;
use meshtoll_model::{
    ids::{CaseName, SubjectName},
    topology::HttpHandling,
    units::LoadLevel,
};
use names::LevelSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The closed-loop level at which response times and CPU are shown; the nearest one is taken where it was not
/// driven. The published investigation shows them at 20 clients.
pub const REFERENCE_CLIENTS: u32 = 20;

/// What a run says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Meshtoll results")]
pub struct Results {
    /// Version of this format; raised when a field changes its meaning or goes.
    pub version: u32,
    /// What was asked of the run, and how.
    pub run: Run,
    /// The machine and the versions of everything that ran.
    pub environment: Environment,
    /// What is the same for every subject.
    pub fairness: Vec<NamedValue>,
    /// The cases that ran, in the experiment's order.
    pub cases: Vec<Case>,
    /// What each topology consists of.
    pub surroundings: Vec<Surroundings>,
    /// What a reader has to know before any number; faults first.
    pub notices: Vec<Notice>,
    /// The closed-loop level at which cases are compared in charts: 20 clients or the nearest one driven; absent
    /// when no closed-loop slice was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<LevelSchema>")]
    pub reference_level: Option<LoadLevel>,
    /// Every cell of the plan, measured or not.
    pub cells: Vec<Cell>,
    /// Each case against the baseline, at each level of each subject, paired by round.
    pub comparisons: Vec<Comparison>,
    /// Each further subject against the run's first, at each level of each case, paired by round.
    pub subject_comparisons: Vec<SubjectComparison>,
    /// What a case adds to the one before it (`gateway-mtls` to `gateway`, …), where both ran.
    pub steps: Vec<Step>,
    /// What the toll means for applications of other sizes, at the reference level.
    pub shares: Vec<Share>,
}

/// Computes the results of a run: a pure function of the record.
pub fn results(record: &RunRecord) -> Results {
    let cells: Vec<Cell> = record.cells.iter().map(|cell| cell::cell(record, cell)).collect();
    let reference_level = reference_level(&cells);
    let comparisons = compare::comparisons(record);
    let shares = reference_level.map(|level| share::shares(record, &cells, &comparisons, level)).unwrap_or_default();
    Results {
        version: 2,
        run: setting::run(record),
        environment: setting::environment(&record.header.environment),
        fairness: setting::named(&record.header.environment.fairness),
        cases: setting::cases(&record.header.cases),
        surroundings: setting::surroundings(&record.topologies),
        notices: notice::notices(record, &cells),
        reference_level,
        cells,
        comparisons,
        subject_comparisons: against::subject_comparisons(record),
        steps: against::steps(record),
        shares,
    }
}

/// The JSON schema (draft 2020-12) that every serialised [`Results`] meets.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Results).to_value()
}

impl Results {
    /// The cell of a case, if it was planned.
    pub fn cell(&self, case: &CaseName, subject: &SubjectName, level: LoadLevel) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.case == *case && cell.subject == *subject && cell.level == level)
    }

    /// The comparison of a case with the baseline, if both were measured in at least one round.
    pub fn comparison(&self, case: &CaseName, subject: &SubjectName, level: LoadLevel) -> Option<&Comparison> {
        self.comparisons.iter().find(|one| one.case == *case && one.subject == *subject && one.level == level)
    }

    /// The comparison of a subject with the run's first, if both were measured in at least one round.
    pub fn subject_comparison(
        &self,
        case: &CaseName,
        subject: &SubjectName,
        level: LoadLevel,
    ) -> Option<&SubjectComparison> {
        self.subject_comparisons.iter().find(|one| one.case == *case && one.subject == *subject && one.level == level)
    }

    /// What the sidecars of a subject read of HTTP between the services.
    pub fn http(&self, subject: &SubjectName) -> Option<HttpHandling> {
        self.surroundings.iter().find(|one| one.subject == *subject).map(|one| one.http)
    }

    /// The claims about the path of a case, over all levels.
    pub fn proof(&self, case: &CaseName, subject: &SubjectName) -> Vec<Claim> {
        proof_of(&self.cells, case, subject)
    }

    /// The closed-loop levels that were planned, fewest clients first.
    pub fn closed_levels(&self) -> Vec<LoadLevel> {
        levels(&self.cells, |level| matches!(level, LoadLevel::Clients(_)))
    }

    /// The open-loop levels that were planned, lowest rate first.
    pub fn open_levels(&self) -> Vec<LoadLevel> {
        levels(&self.cells, |level| matches!(level, LoadLevel::Rate(_)))
    }
}

fn proof_of(cells: &[Cell], case: &CaseName, subject: &SubjectName) -> Vec<Claim> {
    let cells = cells.iter().filter(|cell| cell.case == *case && cell.subject == *subject);
    proof::merged(cells.flat_map(|cell| cell.proof.clone()))
}

fn levels(cells: &[Cell], wanted: impl Fn(LoadLevel) -> bool) -> Vec<LoadLevel> {
    let mut levels: Vec<LoadLevel> = cells.iter().map(|cell| cell.level).filter(|level| wanted(*level)).collect();
    levels.sort_by_key(|level| match level {
        LoadLevel::Clients(amount) | LoadLevel::Rate(amount) => *amount,
    });
    levels.dedup();
    levels
}

fn reference_level(cells: &[Cell]) -> Option<LoadLevel> {
    let measured = cells.iter().filter(|cell| cell.slices > 0);
    let clients = measured.filter_map(|cell| match cell.level {
        LoadLevel::Clients(clients) => Some(clients),
        LoadLevel::Rate(_) => None,
    });
    clients.min_by_key(|clients| (clients.abs_diff(REFERENCE_CLIENTS), *clients)).map(LoadLevel::Clients)
}
