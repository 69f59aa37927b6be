//! Due times of an open loop.

use std::{num::NonZeroU32, time::Duration};

/// When the request of this index (from 0) is due, since the slice's start: `index / rate` seconds, to the nanosecond.
///
/// Computed from the index rather than by adding intervals up, so that no rounding drifts the rate.
pub(super) fn due(rate: NonZeroU32, index: u64) -> Duration {
    let rate = u64::from(rate.get());
    Duration::from_secs(index / rate) + Duration::from_nanos((index % rate) * 1_000_000_000 / rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_thousand_a_second_are_a_millisecond_apart() {
        let rate = NonZeroU32::new(1000).unwrap();
        assert_eq!([0, 1, 2500].map(|index| due(rate, index)), [0, 1, 2500].map(Duration::from_millis));
    }

    proptest! {
        #[test]
        fn every_second_has_exactly_as_many_as_the_rate(rate in 1..2_000_000u32, second in 0..100_000u64) {
            let rate = NonZeroU32::new(rate).unwrap();
            let first = second * u64::from(rate.get());
            prop_assert_eq!(due(rate, first), Duration::from_secs(second));
            prop_assert!(due(rate, first + u64::from(rate.get()) - 1) < Duration::from_secs(second + 1));
        }

        #[test]
        fn intervals_differ_by_a_nanosecond_at_most(rate in 1..2_000_000u32, index in 0..10_000_000_000u64) {
            let rate = NonZeroU32::new(rate).unwrap();
            let interval = due(rate, index + 1) - due(rate, index);
            let exact = 1e9 / f64::from(rate.get());
            prop_assert!((interval.as_nanos() as f64 - exact).abs() <= 1.0, "{:?} is not {} ns", interval, exact);
        }
    }
}
