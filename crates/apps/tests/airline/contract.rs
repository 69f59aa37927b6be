//! What docs/AIRLINE.md promises.

use super::{
    Test,
    app::{App, session_key},
    caller::{Answer, Body, Caller, id, profile},
};
use http::{Method, header};
use meshtoll_apps::airline::{
    data::{AIRPORTS, DAYS, FLIGHTS_PER_DAY, FLOWN_PAIRS, segments},
    documents::CustomerId,
    session::SessionKey,
};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

pub(crate) const TESTS: &[Test] = &[
    ("what_is_loaded", what_is_loaded),
    ("login", login),
    ("sessions_are_checked", sessions_are_checked),
    ("queries", queries),
    ("a_return_trip_is_booked_listed_and_cancelled", a_return_trip_is_booked_listed_and_cancelled),
    ("a_one_way_trip", a_one_way_trip),
    ("profiles", profiles),
    ("wrong_fields_are_named", wrong_fields_are_named),
    ("wrong_bookings_are_refused_whole", wrong_bookings_are_refused_whole),
    ("wrong_requests", wrong_requests),
    ("internal_calls", internal_calls),
    ("health", health),
];

/// Two airports with flights between them.
fn flown() -> (String, String) {
    let segment = segments().swap_remove(0);
    (segment.origin_port, segment.dest_port)
}

/// Two airports without.
fn not_flown() -> (&'static str, &'static str) {
    let segments = segments();
    let (from, _) = AIRPORTS[0];
    let flown = |to: &str| segments.iter().any(|segment| segment.origin_port == from && segment.dest_port == to);
    let (to, _) = AIRPORTS[1..].iter().find(|(to, _)| !flown(to)).unwrap();
    (from, to)
}

fn what_is_loaded(app: &App) {
    let segments = 2 * FLOWN_PAIRS as u64;
    assert_eq!(app.counts.customers, u64::from(app.size.customers));
    assert_eq!(app.counts.airports, 30);
    assert_eq!(app.counts.segments, segments);
    assert_eq!(app.counts.flights, segments * u64::from(DAYS) * u64::from(FLIGHTS_PER_DAY));
    assert!((4..=9).contains(&(app.counts.bookings / app.counts.customers)), "{:?}", app.counts);
}

fn login(app: &App) {
    let mut caller = Caller::new(app);
    let answer = caller.log_in(&id(0));
    assert_eq!(answer.body, "logged in");
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("airline_session=") && cookie.ends_with("; Path=/; HttpOnly"), "{cookie}");

    let try_with = |login: &str, password: &str| {
        caller.post(caller.to.auth, "/auth/login", &[("login", login), ("password", password)])
    };
    for (login, password) in [(&*id(0), "Password"), (&id(0), ""), ("nobody@airline.example", "password"), ("", "")] {
        let answer = try_with(login, password);
        assert!(!answer.headers.contains_key(header::SET_COOKIE));
        assert_eq!(answer.refused(403), "wrong login or password");
    }
}

fn sessions_are_checked(app: &App) {
    let mut caller = Caller::logged_in(app, 1);
    let good = caller.cookie.clone().unwrap();
    assert!(call_protected(&caller, &id(1)).iter().all(|answer| ![401, 403].contains(&answer.status.as_u16())));

    let soon = SystemTime::now() + Duration::from_secs(60);
    let issue = |key: &SessionKey, customer: &str, expires| key.issue(&CustomerId::new(customer), expires);
    let other_key = issue(&SessionKey::new(&[1; 32]).unwrap(), &id(1), soon);
    let expired = issue(&session_key(), &id(1), SystemTime::now() - Duration::from_secs(1));
    let (payload, _) =
        issue(&session_key(), &id(1), soon).split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (_, signature) =
        issue(&session_key(), &id(2), soon).split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let session = |token: &str| Some(format!("airline_session={token}"));
    let invalid = [
        None,
        session(""),
        session("."),
        session("noise"),
        session(&other_key),
        session(&expired),
        session(&payload),
        session(&format!("{payload}.{signature}")),
        Some(good.replace("airline_session", "session")),
    ];
    for cookie in invalid {
        caller.cookie.clone_from(&cookie);
        for answer in call_protected(&caller, &id(1)) {
            assert!(answer.refused(401).contains("/auth/login"), "{cookie:?}");
        }
    }

    caller.cookie = session(&issue(&session_key(), &id(2), soon));
    for answer in call_protected(&caller, &id(1)) {
        assert!(answer.refused(403).contains("another customer"));
    }

    caller.cookie = Some(format!("theme=dark; {good}; x=y"));
    caller.view(&id(1)).ok();
}

/// All calls that need a session, as the customer with this id.
fn call_protected(caller: &Caller, id: &str) -> [Answer; 5] {
    let flight = json!({ "_id": "AA999999-2026-01-05-0", "flightSegmentId": "AA999999" });
    [
        caller.view(id),
        caller.update(id, "1"),
        caller.list(id),
        caller.book(id, &[flight.clone(), flight]),
        caller.cancel(id, "none"),
    ]
}

fn queries(app: &App) {
    let caller = Caller::new(app);
    let (from, to) = flown();
    let (from, to) = (&*from, &*to);
    let found = caller.query(from, to, "2026-01-05", "2026-02-03").ok();
    assert_eq!(found.headers[header::CONTENT_TYPE], "application/json");
    let found = found.json();
    assert_eq!(found["tripLegs"], 2);
    for (leg, from, to, day) in [(0, from, to, "2026-01-05"), (1, to, from, "2026-02-03")] {
        let flights = found["tripFlights"][leg]["flights"].as_array().unwrap();
        assert_eq!(flights.len(), FLIGHTS_PER_DAY as usize);
        for flight in flights {
            assert_eq!(flight["scheduledDepartureDate"], day);
            assert_eq!(flight["flightSegment"]["originPort"], from);
            assert_eq!(flight["flightSegment"]["destPort"], to);
            assert_eq!(flight["flightSegment"]["_id"], flight["flightSegmentId"]);
        }
    }

    let (lonely, other) = not_flown();
    let nothing = caller.query(lonely, other, "2026-01-05", "2026-02-03").ok();
    assert_eq!(nothing.json()["tripLegs"], 2);
    assert!(nothing.json()["tripFlights"][1]["flights"].as_array().unwrap().is_empty());
    assert!(nothing.trip().is_none());

    assert!(caller.query(from, to, "2026-01-04", "2026-01-05").ok().trip().is_none());
    assert!(caller.query(from, to, "2026-01-05", "2026-02-04").ok().trip().is_none());

    let one_way = [("fromAirport", from), ("toAirport", to), ("fromDate", "2026-01-10"), ("oneWay", "true")];
    let found = caller.post(caller.to.flight, "/flight/queryflights", &one_way).ok().json();
    assert_eq!(found["tripLegs"], 1);
    assert_eq!(found["tripFlights"].as_array().unwrap().len(), 1);
}

fn trip(caller: &Caller) -> [Value; 2] {
    let (from, to) = flown();
    caller.query(&from, &to, "2026-01-10", "2026-01-20").ok().trip().unwrap()
}

fn miles_of(flight: &Value) -> i64 {
    flight["flightSegment"]["miles"].as_i64().unwrap()
}

fn a_return_trip_is_booked_listed_and_cancelled(app: &App) {
    let (caller, id) = (Caller::logged_in(app, 3), id(3));
    let (had, miles) = (caller.booking_ids(&id), caller.miles(&id));
    let trip = trip(&caller);
    let booked = caller.book(&id, &trip).ok().json();
    assert_eq!(booked["oneWay"], false);
    let numbers = ["departBookingId", "returnBookingId"].map(|field| booked[field].as_str().unwrap().to_owned());
    assert_eq!(caller.miles(&id), miles + miles_of(&trip[0]) + miles_of(&trip[1]));

    let listed = caller.list(&id).ok().json();
    for (number, flight) in numbers.iter().zip(&trip) {
        let booking = listed.as_array().unwrap().iter().find(|booking| booking["_id"] == **number).unwrap();
        assert_eq!(booking["customerId"], *id);
        assert_eq!(booking["flightId"], flight["_id"]);
        assert_eq!(booking["flightSegmentId"], flight["flightSegmentId"]);
    }
    assert_eq!(listed.as_array().unwrap().len(), had.len() + 2);

    let [first, second] = &numbers;
    assert_eq!(caller.cancel(&id, first).ok().body, format!("booking {first} deleted"));
    assert_eq!(caller.miles(&id), miles + miles_of(&trip[1]));
    assert_eq!(caller.cancel(&id, first).refused(404), "there is no such booking");
    caller.cancel(&id, second).ok();
    assert_eq!(caller.miles(&id), miles);
    assert_eq!(caller.booking_ids(&id), had);

    let stranger = Caller::logged_in(app, 4);
    if let Some(number) = had.first() {
        assert_eq!(stranger.cancel(&super::caller::id(4), number).refused(404), "there is no such booking");
    }
    assert_eq!(caller.booking_ids(&id), had);
}

fn a_one_way_trip(app: &App) {
    let (caller, id) = (Caller::logged_in(app, 5), id(5));
    let (had, miles) = (caller.booking_ids(&id), caller.miles(&id));
    let [out, _] = trip(&caller);
    let (flight, segment) = (out["_id"].as_str().unwrap(), out["flightSegmentId"].as_str().unwrap());
    let form = [("userid", &*id), ("toFlightId", flight), ("toFlightSegId", segment), ("oneWayFlight", "true")];
    let booked = caller.post(caller.to.booking, "/booking/bookflights", &form).ok().json();
    assert_eq!(booked["oneWay"], true);
    assert!(booked.get("returnBookingId").is_none());
    assert_eq!(caller.booking_ids(&id).len(), had.len() + 1);
    assert_eq!(caller.miles(&id), miles + miles_of(&out));
    caller.cancel(&id, booked["departBookingId"].as_str().unwrap()).ok();
    assert_eq!(caller.miles(&id), miles);
}

fn profiles(app: &App) {
    let (caller, id) = (Caller::logged_in(app, 6), id(6));
    let before = caller.view(&id).ok().json();
    assert_eq!(before["_id"], *id);
    assert!(before.get("password").is_none());
    let after = caller.update(&id, "919-555-0100").ok().json();
    let mut expected = before.clone();
    for (field, value) in profile("919-555-0100").as_object().unwrap() {
        expected[field] = value.clone();
    }
    assert_eq!(after, expected);
    assert_eq!(caller.view(&id).ok().json(), after);
}

fn wrong_fields_are_named(app: &App) {
    let (caller, id) = (Caller::logged_in(app, 7), id(7));
    let query = [
        ("fromAirport", "AMS"),
        ("toAirport", "FCO"),
        ("fromDate", "2026-01-10"),
        ("returnDate", "2026-01-11"),
        ("oneWay", "false"),
    ];
    let booking = [
        ("userid", &*id),
        ("toFlightId", "AA0-2026-01-05-0"),
        ("toFlightSegId", "AA0"),
        ("retFlightId", "AA1-2026-01-05-0"),
        ("retFlightSegId", "AA1"),
        ("oneWayFlight", "false"),
    ];
    let to = caller.to;
    let forms: [(_, _, &[(&str, &str)]); 4] = [
        (to.auth, "/auth/login", &[("login", "x"), ("password", "y")]),
        (to.flight, "/flight/queryflights", &query),
        (to.booking, "/booking/bookflights", &booking),
        (to.booking, "/booking/cancelbooking", &[("userid", &*id), ("number", "1")]),
    ];
    for (service, path, form) in forms {
        for (missing, _) in form {
            let rest: Vec<_> = form.iter().copied().filter(|(field, _)| field != missing).collect();
            let told = caller.post(service, path, &rest).refused(400);
            assert!(told.contains(missing), "{path} without {missing}: {told}");
        }
        let more: Vec<_> = form.iter().copied().chain([("surplus", "1")]).collect();
        let told = caller.post(service, path, &more).refused(400);
        assert!(told.contains("surplus"), "{path}: {told}");
    }

    let wrong = [
        ("fromAirport", "XXX"),
        ("fromAirport", ""),
        ("toAirport", "fco"),
        ("fromDate", "2026-13-01"),
        ("fromDate", "2026-02-29"),
        ("fromDate", "05.01.2026"),
        ("fromDate", "2026-1-5"),
        ("returnDate", ""),
        ("returnDate", "2026-01-05T00:00:00Z"),
        ("oneWay", "maybe"),
    ];
    for (field, value) in wrong {
        let form: Vec<_> = query.iter().map(|&(name, good)| (name, if name == field { value } else { good })).collect();
        let told = caller.post(to.flight, "/flight/queryflights", &form).refused(400);
        assert!(told.contains(field), "{field}={value}: {told}");
    }

    let path = format!("/customer/byid/{id}");
    for pointer in ["/phoneNumber", "/phoneNumberType", "/address", "/address/city", "/address/postalCode"] {
        let mut body = profile("1");
        *body.pointer_mut(pointer).unwrap() = json!(7);
        let told = caller.post_json(to.customer, &path, &body).refused(400);
        let field = pointer.rsplit('/').next().unwrap();
        assert!(told.contains(field), "{pointer}: {told}");
    }
    let mut body = profile("1");
    body["totalMiles"] = json!(1_000_000);
    assert!(caller.post_json(to.customer, &path, &body).refused(400).contains("totalMiles"));
}

fn wrong_bookings_are_refused_whole(app: &App) {
    let (caller, id) = (Caller::logged_in(app, 8), id(8));
    let (had, miles) = (caller.booking_ids(&id), caller.miles(&id));
    let [out, back] = trip(&caller);
    let flight = |flight: &str, segment: &str| json!({ "_id": flight, "flightSegmentId": segment });
    let nowhere = flight("AA777-2026-01-05-0", "AA777");
    let told = caller.book(&id, &[nowhere.clone(), back.clone()]).refused(400);
    assert_eq!(told, "toFlightSegId: there is no such flight segment");
    let told = caller.book(&id, &[out.clone(), nowhere]).refused(400);
    assert_eq!(told, "retFlightSegId: there is no such flight segment");
    let other = flight(out["_id"].as_str().unwrap(), back["flightSegmentId"].as_str().unwrap());
    assert_eq!(caller.book(&id, &[other, back]).refused(400), "toFlightId: not a flight of the segment");
    let told = caller.book(&id, &[out, flight("", "")]).refused(400);
    assert_eq!(told, "retFlightId: not a flight of the segment");
    assert_eq!((caller.booking_ids(&id), caller.miles(&id)), (had, miles));
}

fn wrong_requests(app: &App) {
    let caller = Caller::logged_in(app, 9);
    let to = caller.to;
    for service in [to.auth, to.customer, to.flight, to.booking] {
        for path in ["/", "/nowhere", "/auth", "/internal/nothing", "/customer/byid", "/booking/byuser/a/b"] {
            caller.get(service, path).refused(404);
        }
        caller.post(service, "/healthz", &[]).refused(405);
    }
    caller.get(to.auth, "/auth/login").refused(405);
    caller.get(to.flight, "/flight/queryflights").refused(405);
    caller.call(Method::DELETE, to.customer, &format!("/customer/byid/{}", id(9)), Body::None).refused(405);
    caller.get(to.booking, "/booking/cancelbooking").refused(405);
    caller.get(to.customer, "/internal/validate").refused(405);

    let long = "x".repeat(20_000);
    caller.post(to.auth, "/auth/login", &[("login", &long), ("password", "y")]).refused(413);
    caller.post(to.flight, "/flight/queryflights", &[("fromAirport", &long)]).refused(413);
    caller.update(&id(9), &long).refused(413);
    caller.post_json(to.customer, "/internal/validate", &json!({ "id": long, "password": "" })).refused(413);

    caller.post_json(to.auth, "/auth/login", &json!({ "login": "x", "password": "y" })).refused(415);
    caller.post(to.customer, &format!("/customer/byid/{}", id(9)), &[("phoneNumber", "1")]).refused(415);
    for body in ["", "{", "nonsense"] {
        let path = format!("/customer/byid/{}", id(9));
        caller.call(Method::POST, to.customer, &path, Body::Raw("application/json", body)).refused(400);
    }
}

fn internal_calls(app: &App) {
    let caller = Caller::new(app);
    let to = caller.to;
    let validate = |id: &str, password: &str| {
        caller.post_json(to.customer, "/internal/validate", &json!({ "id": id, "password": password })).ok().json()
    };
    assert_eq!(validate(&id(10), "password"), json!({ "valid": true }));
    assert_eq!(validate(&id(10), "wrong"), json!({ "valid": false }));
    assert_eq!(validate("nobody", "password"), json!({ "valid": false }));

    let reward =
        |segment: &str| caller.post_json(to.flight, "/internal/reward-miles", &json!({ "flightSegmentId": segment }));
    assert!(reward("AA0").ok().json()["miles"].as_i64().unwrap() > 0);
    reward("AA777").refused(404);

    let add = |id: &str, miles: i64| {
        caller.post_json(to.customer, &format!("/internal/miles/{id}"), &json!({ "miles": miles }))
    };
    let total = |answer: Answer| answer.ok().json()["totalMiles"].as_i64().unwrap();
    let miles = total(add(&id(10), 500)) - 500;
    assert_eq!(total(add(&id(10), -500)), miles);
    add("nobody", 1).refused(404);
    caller.post_json(to.customer, &format!("/internal/miles/{}", id(10)), &json!({ "miles": "many" })).refused(400);
}

fn health(app: &App) {
    let caller = Caller::new(app);
    let to = caller.to;
    for service in [to.auth, to.customer, to.flight, to.booking] {
        assert_eq!(caller.get(service, "/healthz").ok().body, "ok");
    }
}
