//! A quantity with its spread over rounds.

use meshtoll_stats::{interval::margin_95, spread::Spread};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mean and spread of a quantity over rounds, one value a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Estimate {
    /// Arithmetic mean of the rounds' values.
    pub mean: f64,
    /// Sample standard deviation over rounds; 0 for a single round.
    pub standard_deviation: f64,
    /// Smallest round.
    pub min: f64,
    /// Largest round.
    pub max: f64,
    /// Number of rounds.
    pub rounds: u32,
    /// Half the width of the 95 % confidence interval of the mean (Student's t over rounds); absent for a single
    /// round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
}

/// What an estimate says about being different from a neutral value (1 for ratios, 0 for differences).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The 95 % interval lies below the neutral value.
    Less,
    /// The 95 % interval lies above it.
    More,
    /// The 95 % interval covers it: the rounds differ too much among themselves to tell.
    Unclear,
    /// A single round: nothing is known about the spread.
    OneRound,
}

impl Estimate {
    /// The estimate of these rounds; `None` without any.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        Spread::of(values).map(Self::from)
    }

    /// Whether this is less or more than `neutral`, or cannot be told from it.
    pub fn verdict(&self, neutral: f64) -> Verdict {
        match self.margin {
            None => Verdict::OneRound,
            Some(margin) if self.mean + margin < neutral => Verdict::Less,
            Some(margin) if self.mean - margin > neutral => Verdict::More,
            Some(_) => Verdict::Unclear,
        }
    }
}

impl From<Spread> for Estimate {
    fn from(spread: Spread) -> Self {
        Self {
            mean: spread.mean,
            standard_deviation: spread.standard_deviation,
            min: spread.min,
            max: spread.max,
            rounds: spread.count,
            margin: margin_95(&spread),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_smaller_than_its_spread_is_unclear() {
        assert_eq!(Estimate::of([0.97, 1.02, 0.99, 1.01]).unwrap().verdict(1.0), Verdict::Unclear);
        assert_eq!(Estimate::of([0.90, 0.91, 0.89, 0.90]).unwrap().verdict(1.0), Verdict::Less);
        assert_eq!(Estimate::of([410.0, 395.0, 402.0]).unwrap().verdict(0.0), Verdict::More);
        assert_eq!(Estimate::of([0.5]).unwrap().verdict(1.0), Verdict::OneRound);
    }
}
