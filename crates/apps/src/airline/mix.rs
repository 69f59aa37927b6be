//! The request mix: how a client goes through its laps, and the bookings that customers hold when many laps have been gone.
//!
//! A population that starts without bookings needs several laps of every customer before as many bookings are
//! cancelled as made, longer than a measurement lasts. So the loader gives customers the bookings that they would
//! hold by then.

use super::data::FLOWN_SHARE;

/// Share of the laps that start with a login, as a random customer; the others go on in the session of the lap before.
pub const LOGIN_SHARE: f64 = 0.6;
/// Flight queries a lap, for return trips; each is followed by a booking when there are flights both ways.
pub const QUERIES: u32 = 5;
/// Share of the laps in which the profile is viewed, then updated.
pub const PROFILE_SHARE: f64 = 0.25;
/// Share of the laps in which bookings are cancelled.
pub const CANCEL_SHARE: f64 = 0.25;
/// Bookings that are left then.
pub const KEPT_BOOKINGS: u32 = 2;
/// Bookings that one booking request makes: one a leg.
pub const BOOKINGS_PER_TRIP: u32 = 2;

/// Return trips beyond this are so rare (less than once in 10⁶ customers) that they are counted here.
const MAX_TRIPS: usize = 80;
/// Steps of the iteration below; what it starts from fades by [`CANCEL_SHARE`] a step.
const STEPS: u32 = 200;

/// The probability, by number of return trips, that a customer holds that many between two laps, in the long run.
///
/// The stationary distribution of a Markov chain whose step is a lap: a binomial number of trips is booked, then, in some of the laps,
/// all but one are cancelled. How laps are grouped into sessions does not matter, as nothing in them
/// depends on it.
pub fn steady_trips() -> Vec<f64> {
    let booked: Vec<f64> = (0..=QUERIES).map(|trips| binomial(QUERIES, trips, FLOWN_SHARE)).collect();
    let kept = (KEPT_BOOKINGS / BOOKINGS_PER_TRIP) as usize;
    let mut now = vec![0.0; MAX_TRIPS + 1];
    now[0] = 1.0;
    for _ in 0..STEPS {
        let mut next = vec![0.0; MAX_TRIPS + 1];
        for (held, held_share) in now.iter().enumerate() {
            for (more, more_share) in booked.iter().enumerate() {
                let share = held_share * more_share;
                next[(held + more).min(MAX_TRIPS)] += share * (1.0 - CANCEL_SHARE);
                next[(held + more).min(kept)] += share * CANCEL_SHARE;
            }
        }
        now = next;
    }
    now
}

/// How many return trips each of `customers` customers holds at the start: the quantiles of [`steady_trips`].
///
/// Each customer takes the quantile at the fractional part of a multiple of the golden ratio: those spread
/// evenly for any number of customers, and customers with many trips are not next to each other.
pub fn trips_held(customers: u32) -> impl Iterator<Item = u32> {
    let mut cumulative = steady_trips();
    let mut sum = 0.0;
    for share in &mut cumulative {
        sum += *share;
        *share = sum;
    }
    (1..=customers).map(move |customer| {
        let quantile = (f64::from(customer) * std::f64::consts::GOLDEN_RATIO).fract();
        cumulative.partition_point(|&share| share <= quantile).min(MAX_TRIPS) as u32
    })
}

/// The probability of `successes` in `trials`, each with probability `p`.
fn binomial(trials: u32, successes: u32, p: f64) -> f64 {
    let ways: f64 = (0..successes).map(|i| f64::from(trials - i) / f64::from(i + 1)).product();
    ways * p.powi(successes as i32) * (1.0 - p).powi((trials - successes) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::airline::{
        data::{self, CUSTOMERS},
        documents::{Flight, TripFlights, TripLeg},
    };
    use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
    use serde_json::json;

    /// Requests by operation.
    #[derive(Debug, Default)]
    struct Requests {
        login: u32,
        query: u32,
        book: u32,
        list: u32,
        view: u32,
        update: u32,
        cancel: u32,
    }

    impl Requests {
        fn percent(&self, requests: u32) -> f64 {
            let Self { login, query, book, list, view, update, cancel } = self;
            let all = login + query + book + list + view + update + cancel;
            (f64::from(requests) / f64::from(all) * 1000.0).round() / 10.0
        }
    }

    /// Laps of 20 clients; `bookings` by customer.
    fn drive(bookings: &mut [u32], laps: u32, random: &mut StdRng) -> Requests {
        let mut requests = Requests::default();
        let mut customers: Vec<usize> = (0..20).map(|_| random.random_range(0..bookings.len())).collect();
        for lap in 0..laps {
            let customer = &mut customers[lap as usize % 20];
            if random.random_bool(LOGIN_SHARE) {
                *customer = random.random_range(0..bookings.len());
                requests.login += 1;
            }
            let held = &mut bookings[*customer];
            for _ in 0..QUERIES {
                requests.query += 1;
                if random.random_bool(FLOWN_SHARE) {
                    requests.book += 1;
                    *held += BOOKINGS_PER_TRIP;
                }
            }
            requests.list += 1;
            if random.random_bool(PROFILE_SHARE) {
                requests.view += 1;
                requests.update += 1;
            }
            if random.random_bool(CANCEL_SHARE) {
                requests.cancel += held.saturating_sub(KEPT_BOOKINGS);
                *held = (*held).min(KEPT_BOOKINGS);
            }
        }
        requests
    }

    fn assert_published(requests: &Requests) {
        let within = |requests_of, range: std::ops::RangeInclusive<f64>| {
            let percent = requests.percent(requests_of);
            assert!(range.contains(&percent), "{percent} % is not in {range:?}: {requests:?}");
        };
        within(requests.query, 51.0..=56.0);
        within(requests.list, 10.0..=11.0);
        within(requests.view, 2.6..=2.8);
        within(requests.update, 2.6..=2.8);
        within(requests.login, 2.0..=10.0);
        // As many bookings are cancelled as made, so both published ranges hold only at this one point: the tolerance
        // is the simulation's own spread.
        within(requests.book, 7.9..=9.0);
        within(requests.cancel, 15.0..=16.2);
    }

    #[test]
    fn the_mix_is_the_published_one_from_the_first_lap_and_stays() {
        let mut random = StdRng::seed_from_u64(1);
        let mut bookings: Vec<u32> = trips_held(CUSTOMERS).map(|trips| trips * BOOKINGS_PER_TRIP).collect();
        for _ in 0..4 {
            assert_published(&drive(&mut bookings, 100_000, &mut random));
        }
    }

    #[test]
    fn exact_shares_of_the_steady_state() {
        let booked = f64::from(QUERIES) * FLOWN_SHARE;
        let cancelled = booked * f64::from(BOOKINGS_PER_TRIP);
        let lap = LOGIN_SHARE + f64::from(QUERIES) + booked + 1.0 + 2.0 * PROFILE_SHARE + cancelled;
        let percent = |requests: f64| (requests / lap * 10_000.0).round() / 100.0;
        let shares =
            [f64::from(QUERIES), cancelled, 1.0, booked, PROFILE_SHARE, PROFILE_SHARE, LOGIN_SHARE].map(percent);
        assert_eq!(shares, [53.53, 16.0, 10.71, 8.0, 2.68, 2.68, 6.42]);
    }

    #[test]
    fn mean_response_body() {
        let segment = &data::segments()[30];
        let mut flights: Vec<Flight> = data::flights(segment).take(data::FLIGHTS_PER_DAY as usize).collect();
        for flight in &mut flights {
            flight.flight_segment = Some(segment.clone());
        }
        let trip = |flights| {
            let leg = TripLeg::of(flights);
            json_bytes(&TripFlights { trip_legs: 2, trip_flights: vec![leg.clone(), leg] })
        };
        let (customer, _, bookings) = data::customers(6000).last().unwrap();
        let booking = json_bytes(&bookings[0]);
        let booked = f64::from(QUERIES) * FLOWN_SHARE;
        let held: f64 = steady_trips().iter().enumerate().map(|(trips, share)| trips as f64 * share).sum();
        let listed = f64::from(BOOKINGS_PER_TRIP) * (held + booked);
        let cancelled = f64::from(BOOKINGS_PER_TRIP) * booked;
        let id = &bookings[0].id;
        let booked_bytes = json_bytes(&json!({ "oneWay": false, "departBookingId": id, "returnBookingId": id }));
        let cancelled_bytes = format!("booking {id} deleted").len() as f64;
        let requests_and_bytes = [
            (LOGIN_SHARE, "logged in".len() as f64),
            (booked, trip(flights)),
            (f64::from(QUERIES) - booked, trip(Vec::new())),
            (booked, booked_bytes),
            (1.0, 2.0 + listed * (booking + 1.0)),
            (2.0 * PROFILE_SHARE, json_bytes(&customer)),
            (cancelled, cancelled_bytes),
        ];
        let requests: f64 = requests_and_bytes.iter().map(|(requests, _)| requests).sum();
        let mean = requests_and_bytes.iter().map(|(requests, bytes)| requests * bytes).sum::<f64>() / requests;
        assert!((610.0..=630.0).contains(&mean), "{mean} bytes; (requests a lap, bytes): {requests_and_bytes:?}");
    }

    fn json_bytes(value: &impl serde::Serialize) -> f64 {
        serde_json::to_vec(value).unwrap().len() as f64
    }

    #[test]
    fn laps_from_nothing_end_where_the_loader_starts() {
        let mut random = StdRng::seed_from_u64(2);
        let mut bookings = vec![0; CUSTOMERS as usize];
        drive(&mut bookings, 20 * CUSTOMERS, &mut random);
        let simulated = f64::from(bookings.iter().sum::<u32>()) / f64::from(CUSTOMERS);
        let loaded = f64::from(BOOKINGS_PER_TRIP * trips_held(CUSTOMERS).sum::<u32>()) / f64::from(CUSTOMERS);
        assert!((simulated / loaded - 1.0).abs() < 0.03, "simulated {simulated}, loaded {loaded}");
    }

    #[test]
    fn steady_trips_is_a_distribution_that_a_lap_leaves_as_it_is() {
        let steady = steady_trips();
        assert!((steady.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(steady[MAX_TRIPS] < 1e-6, "{}", steady[MAX_TRIPS]);
        // As many trips are cancelled a lap as booked.
        let after_booking: f64 = steady
            .iter()
            .enumerate()
            .flat_map(|(held, share)| {
                (0..=QUERIES).map(move |more| {
                    share * binomial(QUERIES, more, FLOWN_SHARE) * (held as f64 + f64::from(more) - 1.0).max(0.0)
                })
            })
            .sum();
        assert!((CANCEL_SHARE * after_booking - f64::from(QUERIES) * FLOWN_SHARE).abs() < 1e-6);
    }

    #[test]
    fn few_customers_hold_about_as_many_each() {
        let mean = |customers| f64::from(trips_held(customers).sum::<u32>()) / f64::from(customers);
        let (few, many) = (mean(50), mean(CUSTOMERS));
        assert!((few / many - 1.0).abs() < 0.1, "{few} {many}");
    }
}
