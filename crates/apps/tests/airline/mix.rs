//! Laps of clients: shares of operations, sizes of answers, and whether the books balance afterwards.

use super::{
    Test,
    app::App,
    caller::{Answer, Caller, id},
};
use meshtoll_apps::airline::{
    data::{AIRPORTS, DAYS, FIRST_DAY, format_day, segments},
    mix::{CANCEL_SHARE, KEPT_BOOKINGS, LOGIN_SHARE, PROFILE_SHARE, QUERIES},
};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use std::collections::BTreeMap;
use time::Duration;

pub(crate) const TESTS: &[Test] = &[("laps", laps)];

/// Customers below are other tests'.
const FIRST_CUSTOMER: u32 = 20;
/// Fewer laps vary too much to say anything about shares.
const LAPS_FOR_SHARES: u32 = 1000;

/// What came of one operation.
#[derive(Debug, Default)]
struct Tally {
    requests: u32,
    body_bytes: usize,
}

fn laps(app: &App) {
    let mut random = StdRng::seed_from_u64(1);
    let mut tallies = BTreeMap::<_, Tally>::new();
    let mut caller = Caller::new(app);
    let mut customer = String::new();
    for lap in 0..app.size.laps {
        let mut tally = |operation: &'static str, answer: Answer| {
            let answer = answer.ok();
            let tally = tallies.entry(operation).or_default();
            tally.requests += 1;
            tally.body_bytes += answer.body.len();
            answer
        };
        if lap == 0 || random.random_bool(LOGIN_SHARE) {
            customer = id(random.random_range(FIRST_CUSTOMER..app.size.customers));
            tally("login", caller.log_in(&customer));
        }
        for _ in 0..QUERIES {
            let airports = rand::seq::index::sample(&mut random, AIRPORTS.len(), 2);
            let [from, to] = [0, 1].map(|i| AIRPORTS[airports.index(i)].0);
            let mut day = || format_day(FIRST_DAY + Duration::days(random.random_range(0..DAYS).into()));
            let found = tally("query", caller.query(from, to, &day(), &day()));
            if let Some(trip) = found.trip() {
                tally("book", caller.book(&customer, &trip));
            }
        }
        let listed = tally("list", caller.list(&customer)).json();
        if random.random_bool(PROFILE_SHARE) {
            tally("view", caller.view(&customer));
            tally("update", caller.update(&customer, "919-555-0123"));
        }
        if random.random_bool(CANCEL_SHARE) {
            let surplus = listed.as_array().unwrap().len().saturating_sub(KEPT_BOOKINGS as usize);
            for booking in &listed.as_array().unwrap()[..surplus] {
                tally("cancel", caller.cancel(&customer, booking["_id"].as_str().unwrap()));
            }
        }
    }

    let requests: u32 = tallies.values().map(|tally| tally.requests).sum();
    let bytes: usize = tallies.values().map(|tally| tally.body_bytes).sum();
    let mean = bytes as f64 / f64::from(requests);
    let percent = |operation: &str| 100.0 * f64::from(tallies[operation].requests) / f64::from(requests);
    let seen: Vec<_> = tallies.keys().map(|&operation| format!("{operation} {:.1} %", percent(operation))).collect();
    println!("{requests} requests, {mean:.0} bytes a body, {}", seen.join(", "));
    if app.size.laps >= LAPS_FOR_SHARES {
        assert!((580.0..=660.0).contains(&mean), "{mean} bytes: {tallies:?}");
        // Wider than the published ranges by what so few laps vary.
        for (operation, range) in [
            ("query", 50.0..57.0),
            ("list", 9.5..11.5),
            ("book", 6.5..9.5),
            ("cancel", 13.0..19.0),
            ("login", 2.0..10.0),
        ] {
            assert!(range.contains(&percent(operation)), "{operation}: {}", seen.join(", "));
        }
    }

    let miles: BTreeMap<_, _> = segments().into_iter().map(|segment| (segment.id, segment.miles)).collect();
    for customer in FIRST_CUSTOMER..app.size.customers {
        let (caller, id) = (Caller::logged_in(app, customer), id(customer));
        let bookings = caller.list(&id).ok().json();
        let earned = bookings.as_array().unwrap().iter().map(|b| miles[b["flightSegmentId"].as_str().unwrap()]);
        assert_eq!(caller.miles(&id), earned.sum::<i64>(), "{id}: {bookings}");
    }
}
