//! Evidence for the path: whether a case measured what its name says.

use meshtoll_lab::record::SliceRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One claim about the path of a cell, over all its slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    /// What was checked.
    pub claim: String,
    /// Slices in which the evidence bears it out.
    pub held: u32,
    /// Slices in which it was checked.
    pub slices: u32,
    /// Evidence of one slice: of the first that fails, else of the first.
    pub evidence: String,
}

/// Whether a path was taken as promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofState {
    /// Every claim held in every slice.
    Proven,
    /// A claim failed in some slice: something else was measured than the case's name says.
    Failed,
    /// No evidence was recorded.
    Missing,
}

impl Claim {
    /// Whether it held wherever it was checked.
    pub fn holds(&self) -> bool {
        self.held == self.slices
    }
}

impl ProofState {
    /// What these claims amount to.
    pub fn of(claims: &[Claim]) -> Self {
        match claims.iter().all(Claim::holds) {
            false => Self::Failed,
            true if claims.is_empty() => Self::Missing,
            true => Self::Proven,
        }
    }
}

/// The claims of a cell's slices.
pub(super) fn claims(slices: &[SliceRecord]) -> Vec<Claim> {
    let lines = slices.iter().flat_map(|slice| &slice.proof);
    merged(lines.map(|line| Claim {
        claim: line.claim.clone(),
        held: u32::from(line.holds),
        slices: 1,
        evidence: line.evidence.clone(),
    }))
}

/// One claim of each wording, in the order of their first appearance.
pub(super) fn merged(claims: impl IntoIterator<Item = Claim>) -> Vec<Claim> {
    let mut merged: Vec<Claim> = Vec::new();
    for claim in claims {
        match merged.iter_mut().find(|known| known.claim == claim.claim) {
            Some(known) => {
                if known.holds() && !claim.holds() {
                    known.evidence = claim.evidence;
                }
                known.held += claim.held;
                known.slices += claim.slices;
            }
            None => merged.push(claim),
        }
    }
    merged
}
