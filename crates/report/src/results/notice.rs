//! What a reader has to know before any number.

use super::{cell::Cell, proof::Claim, proof_of};
use meshtoll_lab::record::{RunRecord, TopologyRecord};
use meshtoll_model::units::LoadLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// From this share of failed requests on, a cell's figures cannot be trusted.
const FAILED_LIMIT: f64 = 0.01;
/// Below this share of the rate asked for, an open-loop cell was not sustained.
const SUSTAINED: f64 = 0.98;

/// Something a reader has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Notice {
    /// How bad it is.
    pub severity: Severity,
    /// What, for a person.
    pub text: String,
}

/// How bad a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Figures concerned must not be used.
    Fault,
    /// Figures concerned are to be read with care.
    Caution,
}

pub(super) fn notices(record: &RunRecord, cells: &[Cell]) -> Vec<Notice> {
    let mut notices = Vec::new();
    notices.extend(unproven_paths(record, cells));
    notices.extend(baseline(record, cells));
    notices.extend(failures(cells));
    notices.extend(completeness(record, cells));
    notices.extend(unlike_http(record));
    notices.extend(unsustained(cells));
    notices.extend(disturbance(cells));
    notices.sort_by_key(|notice| notice.severity);
    notices
}

fn fault(text: String) -> Notice {
    Notice { severity: Severity::Fault, text }
}

fn caution(text: String) -> Notice {
    Notice { severity: Severity::Caution, text }
}

/// One notice a case, subject and claim, over all levels; a case that was not driven at all needs no proof.
fn unproven_paths(record: &RunRecord, cells: &[Cell]) -> Vec<Notice> {
    let cases = record.header.cases.iter().map(|case| &case.name);
    let pairs = cases.flat_map(|case| record.header.subjects.iter().map(move |subject| (case, subject)));
    pairs
        .flat_map(|(case, subject)| {
            let claims = proof_of(cells, case, subject);
            let driven = cells.iter().any(|cell| cell.case == *case && cell.subject == *subject && cell.slices > 0);
            if driven && claims.is_empty() {
                return vec![fault(format!("No evidence was recorded for the path of {case} on {subject}."))];
            }
            let broken = claims.into_iter().filter(|claim| !claim.holds());
            let notice = |Claim { claim, held, slices, evidence }| {
                fault(format!(
                    "Path of {case} on {subject} not proven: “{claim}” held in {held} of {slices} slices ({evidence}). \
                 Do not use the figures of this case."
                ))
            };
            broken.map(notice).collect()
        })
        .collect()
}

fn baseline(record: &RunRecord, cells: &[Cell]) -> Vec<Notice> {
    let baseline = &record.header.baseline;
    let lacking = record.header.subjects.iter().filter(|subject| {
        !cells.iter().any(|cell| cell.case == *baseline && cell.subject == **subject && cell.transactions > 0)
    });
    lacking
        .map(|subject| {
            fault(format!("The baseline {baseline} has no transactions on {subject}: nothing can be compared with it."))
        })
        .collect()
}

/// One notice a case and subject, over all levels.
fn failures(cells: &[Cell]) -> Vec<Notice> {
    let mut sums: BTreeMap<(&str, &str), (u64, u64, BTreeSet<&str>)> = BTreeMap::new();
    for cell in cells {
        let (failed, requests, kinds) = sums.entry((cell.case.as_str(), cell.subject.as_str())).or_default();
        *failed += cell.failed();
        *requests += cell.failed() + cell.transactions;
        kinds.extend(cell.errors.iter().filter(|(_, count)| **count > 0).map(|(kind, _)| kind.as_str()));
    }
    let failing = sums.into_iter().filter(|(_, (failed, ..))| *failed > 0);
    failing
        .map(|((case, subject), (failed, requests, kinds))| {
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
            let share = failed as f64 / requests as f64;
            let text = format!("{case} on {subject}: {failed} of {requests} requests failed ({kinds}).");
            if share >= FAILED_LIMIT { fault(text) } else { caution(text) }
        })
        .collect()
}

fn completeness(record: &RunRecord, cells: &[Cell]) -> Vec<Notice> {
    let planned = record.header.rounds;
    let fewest = cells.iter().map(|cell| cell.slices).min().unwrap_or(0);
    let most = cells.iter().map(|cell| cell.slices).max().unwrap_or(0);
    let mut notices = Vec::new();
    if record.ended.is_none() {
        notices.push(caution(format!(
            "The run was cut off: {fewest} of {planned} planned rounds are complete. What was measured until then is \
             shown."
        )));
    } else if fewest < planned {
        notices.push(caution(format!("{planned} rounds were planned, {fewest} are complete.")));
    }
    let empty = cells.iter().filter(|cell| cell.slices == 0).count();
    if empty > 0 {
        notices.push(caution(format!("{empty} of {} cells have no slices.", cells.len())));
    }
    if most == 1 {
        notices.push(caution(
            "Only one round was measured: nothing is known about the spread, so no difference can be told from noise."
                .to_owned(),
        ));
    }
    notices
}

/// Subjects that do not do the same are not compared like with like.
fn unlike_http(record: &RunRecord) -> Option<Notice> {
    let handling = |topology: &TopologyRecord| topology.topology.proxy.http;
    let first = record.topologies.first().map(handling)?;
    record.topologies.iter().any(|topology| handling(topology) != first).then(|| {
        caution(
            "Not every subject reads the HTTP between the services: some pass it as TCP, which costs less. `--http tcp` \
             compares like with like."
                .to_owned(),
        )
    })
}

fn unsustained(cells: &[Cell]) -> Vec<Notice> {
    let too_slow = cells.iter().filter_map(|cell| match (cell.level, cell.throughput) {
        (LoadLevel::Rate(rate), Some(done)) if done.mean < SUSTAINED * f64::from(rate) => Some((cell, rate, done)),
        _ => None,
    });
    too_slow
        .map(|(cell, rate, done)| {
            caution(format!(
                "{} on {} did not sustain {rate} requests/s (it did {:.0}): its open-loop latency is mostly waiting in \
                 line.",
                cell.case, cell.subject, done.mean
            ))
        })
        .collect()
}

fn disturbance(cells: &[Cell]) -> Option<Notice> {
    let disturbed: u32 = cells.iter().map(|cell| cell.disturbance.slices).sum();
    let all: u32 = cells.iter().map(|cell| cell.slices).sum();
    (disturbed > 0).then(|| {
        caution(format!(
            "{disturbed} of {all} slices were disturbed (more than 1 % of CPU time stolen by the hypervisor, or more \
             than 2 % used by processes outside the run). They are included."
        ))
    })
}
