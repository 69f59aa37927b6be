//! Mean and spread of a quantity over rounds.

use serde::{Deserialize, Serialize};

/// Mean and spread of the values of one quantity, one value a round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divisor n − 1); 0 for a single value.
    pub standard_deviation: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: u32,
}

impl Spread {
    /// Mean and spread by Welford's algorithm (B. P. Welford, Technometrics 4(3), 1962), which does not lose
    /// digits when the values lie close together. `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values = values.into_iter();
        let first = values.next()?;
        let mut spread = Self { mean: first, standard_deviation: 0.0, min: first, max: first, count: 1 };
        let mut squares = 0.0;
        for value in values {
            spread.count += 1;
            let delta = value - spread.mean;
            spread.mean += delta / f64::from(spread.count);
            squares += delta * (value - spread.mean);
            spread.min = spread.min.min(value);
            spread.max = spread.max.max(value);
        }
        if spread.count > 1 {
            spread.standard_deviation = (squares / f64::from(spread.count - 1)).sqrt();
        }
        Some(spread)
    }

    /// Spread of `value / reference` over pairs of the same round: what drifts slowly cancels out.
    pub fn of_ratios(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        Self::of(pairs.into_iter().map(|(value, reference)| value / reference))
    }

    /// Spread of `value - reference` over pairs of the same round.
    pub fn of_differences(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        Self::of(pairs.into_iter().map(|(value, reference)| value - reference))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_far_from_zero_keep_their_digits() {
        let spread = Spread::of([1e9 + 4.0, 1e9 + 7.0, 1e9 + 13.0, 1e9 + 16.0]).unwrap();
        assert!((spread.standard_deviation.powi(2) - 30.0).abs() < 1e-6);
        assert_eq!((spread.min, spread.max, spread.count), (1e9 + 4.0, 1e9 + 16.0, 4));
    }

    #[test]
    fn nothing_has_no_spread() {
        assert_eq!(Spread::of([]), None);
    }

    proptest! {
        #[test]
        fn drift_common_to_both_cancels_in_ratios(drifts in prop::collection::vec(0.5f64..2.0, 2..20)) {
            let ratios = Spread::of_ratios(drifts.iter().map(|drift| (0.9 * drift, *drift))).unwrap();
            prop_assert!((ratios.mean - 0.9).abs() < 1e-12 && ratios.standard_deviation < 1e-9);
        }

        #[test]
        fn mean_lies_between_the_extremes(values in prop::collection::vec(-1e6f64..1e6, 1..50)) {
            let spread = Spread::of(values).unwrap();
            prop_assert!(spread.min <= spread.mean + 1e-6 && spread.mean <= spread.max + 1e-6);
        }
    }
}
