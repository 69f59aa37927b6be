//! Addresses that could not be connected to lately.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long the first failure ejects an address; each further one in a row doubles it.
const FIRST: Duration = Duration::from_secs(30);
/// How long an address is ejected at most.
const LONGEST: Duration = Duration::from_secs(300);
/// Addresses remembered. Names that clients choose may lead to any number; what is forgotten is tried as if it were well.
const CAPACITY: usize = 1024;

/// The addresses that failed, until a connection to them succeeds.
#[derive(Debug, Default)]
pub(super) struct Ejections(Mutex<HashMap<SocketAddr, Ejection>>);

#[derive(Clone, Copy, Debug)]
struct Ejection {
    failures: u32,
    until: Instant,
}

impl Ejections {
    /// The addresses, those that are ejected at `now` behind the others.
    pub(super) fn last(&self, addresses: impl Iterator<Item = SocketAddr>, now: Instant) -> Vec<SocketAddr> {
        let ejections = self.lock();
        let is_ejected = |address: &SocketAddr| ejections.get(address).is_some_and(|ejection| now < ejection.until);
        let (ejected, mut ordered): (Vec<_>, Vec<_>) = addresses.partition(is_ejected);
        ordered.extend(ejected);
        ordered
    }

    /// The address could not be connected to. Failures while it is ejected count once: they may be of attempts that were
    /// on their way together.
    pub(super) fn failed(&self, address: SocketAddr, now: Instant) {
        let mut ejections = self.lock();
        if ejections.len() >= CAPACITY && !ejections.contains_key(&address) {
            let soonest = ejections.iter().min_by_key(|(_, ejection)| ejection.until).map(|(address, _)| *address);
            soonest.map(|address| ejections.remove(&address));
        }
        let ejection = ejections.entry(address).or_insert(Ejection { failures: 0, until: now });
        if ejection.until <= now {
            let period = FIRST.saturating_mul(2_u32.saturating_pow(ejection.failures)).min(LONGEST);
            *ejection = Ejection { failures: ejection.failures.saturating_add(1), until: now + period };
        }
    }

    /// The address was connected to.
    pub(super) fn succeeded(&self, address: SocketAddr) {
        self.lock().remove(&address);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, Ejection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn address(index: u32) -> SocketAddr {
        SocketAddrV4::new(Ipv4Addr::from_bits(index), 1).into()
    }

    #[test]
    fn an_address_that_failed_is_last_until_its_time_is_over() {
        let (ejections, now) = (Ejections::default(), Instant::now());
        let order = |now| ejections.last((1..=3).map(address), now);
        ejections.failed(address(1), now);
        assert_eq!(order(now), [address(2), address(3), address(1)]);
        assert_eq!(order(now + FIRST), [address(1), address(2), address(3)]);
        ejections.failed(address(2), now);
        ejections.failed(address(3), now);
        assert_eq!(order(now), [address(1), address(2), address(3)], "all of them: as if none");
        ejections.succeeded(address(1));
        assert_eq!(order(now), [address(1), address(2), address(3)]);
    }

    #[test]
    fn each_failure_in_a_row_doubles_the_time_up_to_the_longest() {
        let (ejections, mut now) = (Ejections::default(), Instant::now());
        let ejected = |now| ejections.last([address(1), address(2)].into_iter(), now)[0] == address(2);
        for seconds in [30, 60, 120, 240, 300, 300] {
            ejections.failed(address(1), now);
            ejections.failed(address(1), now);
            let end = now + Duration::from_secs(seconds);
            assert!(ejected(end - Duration::from_millis(1)) && !ejected(end), "{seconds} s");
            now = end;
        }
        ejections.succeeded(address(1));
        ejections.failed(address(1), now);
        assert!(!ejected(now + FIRST), "a success forgets");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (ejections, now) = (Ejections::default(), Instant::now());
        for index in 0..2 * CAPACITY as u32 {
            ejections.failed(address(index), now + Duration::from_millis(index.into()));
        }
        let remembered = ejections.lock();
        assert_eq!(remembered.len(), CAPACITY);
        assert!(remembered.contains_key(&address(2 * CAPACITY as u32 - 1)) && !remembered.contains_key(&address(0)));
    }
}
