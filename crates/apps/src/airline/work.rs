//! CPU work of an adjustable length, so that the same mesh can be measured behind heavier and lighter services.

use nix::time::{ClockId, clock_gettime};
use std::{hint::black_box, time::Duration};

/// Rounds of a calibration.
const ROUNDS: u32 = 64;
/// Iterations of a round: about half a millisecond, against which reading the clock is nothing.
const ROUND_ITERATIONS: u64 = 250_000;

/// A fixed number of iterations of a loop that touches no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    iterations: u64,
}

impl Work {
    /// As many iterations as take `cpu_time` of this machine's CPU when nothing disturbs it.
    ///
    /// The fastest of the rounds decides: interrupts, a busy sibling thread or a stolen CPU can only make a
    /// round slower, so the fastest is what processes agree on that are started at different moments, and the services
    /// of all topologies of a run have to do the same work.
    pub fn calibrated(cpu_time: Duration) -> nix::Result<Self> {
        if cpu_time.is_zero() {
            return Ok(Self { iterations: 0 });
        }
        let mut fastest = Duration::MAX;
        for _ in 0..ROUNDS {
            let start = thread_cpu_time()?;
            burn(ROUND_ITERATIONS);
            fastest = fastest.min(thread_cpu_time()?.saturating_sub(start));
        }
        let iterations = u128::from(ROUND_ITERATIONS) * cpu_time.as_nanos() / fastest.as_nanos().max(1);
        Ok(Self { iterations: u64::try_from(iterations).unwrap_or(u64::MAX) })
    }

    /// Whether there is nothing to do.
    pub fn is_nothing(self) -> bool {
        self.iterations == 0
    }

    /// Does it, on the calling thread.
    pub fn run(self) {
        burn(self.iterations);
    }
}

/// Xorshift: each step needs the one before it, so neither the compiler nor the CPU can shorten the loop.
fn burn(iterations: u64) {
    let mut x = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for _ in 0..iterations {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

fn thread_cpu_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_of_work_takes_a_millisecond_of_cpu() {
        let work = Work::calibrated(Duration::from_micros(1000)).unwrap();
        // The fastest of many, as in the calibration: other tests run on the same cores.
        let took = (0..200)
            .map(|_| {
                let start = thread_cpu_time().unwrap();
                work.run();
                thread_cpu_time().unwrap() - start
            })
            .min()
            .unwrap();
        assert!((900..=1100).contains(&took.as_micros()), "{took:?}");
    }

    #[test]
    fn no_work_is_nothing() {
        assert!(Work::calibrated(Duration::ZERO).unwrap().is_nothing());
    }
}
