//! How sure the mean over rounds is.

use crate::spread::Spread;

/// Half the width of the 95 % confidence interval of the mean, by Student's t with `count - 1` degrees of
/// freedom: the true mean lies within `mean ± margin` in 19 of 20 such runs, when rounds are independent and
/// about normally distributed. `None` for a single value, of which nothing can be said.
pub fn margin_95(spread: &Spread) -> Option<f64> {
    let degrees_of_freedom = spread.count.checked_sub(1).filter(|&degrees| degrees > 0)?;
    Some(student_95(degrees_of_freedom) * spread.standard_deviation / f64::from(spread.count).sqrt())
}

/// Two-sided 95 % quantile of Student's t: from the table up to 30 degrees of freedom, then by the first terms
/// of the Cornish-Fisher expansion around the normal quantile (Abramowitz and Stegun, 26.7.5), which is right
/// to 4 digits there.
fn student_95(degrees_of_freedom: u32) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    const NORMAL: f64 = 1.959_964;
    let tabulated = usize::try_from(degrees_of_freedom).ok().and_then(|degrees| TABLE.get(degrees.checked_sub(1)?));
    tabulated.copied().unwrap_or_else(|| {
        let (z, degrees) = (NORMAL, f64::from(degrees_of_freedom));
        let first = (z.powi(3) + z) / 4.0;
        let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
        z + first / degrees + second / degrees.powi(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_agree_with_published_tables() {
        for (degrees, quantile) in [(1, 12.706), (7, 2.365), (30, 2.042), (40, 2.021), (60, 2.000), (120, 1.980)] {
            assert!((student_95(degrees) - quantile).abs() < 6e-4, "{degrees}: {}", student_95(degrees));
        }
    }

    #[test]
    fn margin_of_four_rounds_by_hand() {
        let spread = Spread::of([1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((margin_95(&spread).unwrap() - 3.182 * (5.0f64 / 3.0).sqrt() / 2.0).abs() < 1e-12);
    }

    #[test]
    fn one_round_has_no_margin() {
        assert_eq!(margin_95(&Spread::of([5.0]).unwrap()), None);
    }

    proptest! {
        #[test]
        fn quantiles_fall_with_more_rounds(degrees in 1u32..500) {
            prop_assert!(student_95(degrees) > student_95(degrees + 1));
        }
    }
}
