//! The order in which cells are driven: in every round each cell once, in an order drawn afresh, so that drift of the
//! machine falls on all cells alike (randomised complete block design: R. A. Fisher, The Design of Experiments, 1935).

use rand::{SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

/// The orders of all rounds: permutations of `0..cells`. The same seed gives the same orders.
pub fn orders(seed: u64, cells: usize, rounds: u32) -> impl Iterator<Item = Vec<usize>> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..rounds).map(move |_| {
        let mut order: Vec<usize> = (0..cells).collect();
        order.shuffle(&mut random);
        order
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_round_has_each_cell_once(seed: u64, cells in 0_usize..60, rounds in 0_u32..20) {
            let all: Vec<Vec<usize>> = orders(seed, cells, rounds).collect();
            prop_assert_eq!(all.len(), rounds as usize);
            for mut order in all {
                order.sort_unstable();
                prop_assert_eq!(order, (0..cells).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn rounds_differ_and_the_seed_decides() {
        let of = |seed| orders(seed, 25, 8).collect::<Vec<_>>();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_ne!(of(1)[0], of(1)[1]);
    }
}
