//! The airline's request mix, against services that keep docs/AIRLINE.md's contract in the least possible way.

use crate::support::{Asked, Load, Reply, Server};
use http_body_util::Full;
use hyper::Response;
use meshtoll_load::{
    protocol::Schedule,
    scenario::{AirlineConfig, AirlineServices, ScenarioConfig, Target},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, atomic::Ordering::SeqCst},
    time::Duration,
};

/// What the four services share.
#[derive(Default)]
struct Airline {
    bookings: HashMap<String, Vec<String>>,
    phones: HashMap<String, String>,
    queries: usize,
    booked: usize,
    /// How many sessions there were of a customer at most, one after the other.
    logins: HashMap<String, u32>,
    /// A query asked for an airport or date outside the configured ones, or for a trip that ends where it began.
    strange_query: Option<String>,
}

/// Every sixth query finds flights: near the share that leads to the published mix.
const FOUND_EVERY: usize = 6;

impl Airline {
    fn answer(&mut self, asked: &Asked) -> Reply {
        let form: HashMap<String, String> = form_urlencoded::parse(&asked.body).into_owned().collect();
        let (service, rest) = asked.path[1..].split_once('/').unwrap();
        let named = rest.split_once('/').map(|(_, id)| id.to_owned()).or_else(|| form.get("userid").cloned());
        if let Some(named) = &named {
            match asked.cookie.as_deref().and_then(|cookie| cookie.strip_prefix("airline_session=of-")) {
                None => return Reply::status(401),
                Some(customer) if customer != named => return Reply::status(403),
                Some(_) => {}
            }
        }
        let named = named.unwrap_or_default();
        match (&*asked.method, service, rest.split('/').next().unwrap()) {
            ("POST", "auth", "login") if form["password"] == "password" => {
                *self.logins.entry(form["login"].clone()).or_default() += 1;
                let cookie = format!("airline_session=of-{}; Path=/; HttpOnly", form["login"]);
                Reply::Answer(
                    Response::builder().header("set-cookie", cookie).body(Full::new("logged in".into())).unwrap(),
                )
            }
            ("POST", "flight", "queryflights") => {
                self.check_query(&form);
                self.queries += 1;
                let flights = |leg: &str| match self.queries % FOUND_EVERY {
                    0 => json!([{"_id": format!("{leg}-flight"), "flightSegmentId": format!("{leg}-segment")}]),
                    1 if leg == "out" => json!([{"_id": "lost", "flightSegmentId": "no way back"}]),
                    _ => json!([]),
                };
                let legs = json!([{"flights": flights("out")}, {"flights": flights("back")}]);
                Reply::ok(json!({"tripLegs": 2, "tripFlights": legs}).to_string())
            }
            ("POST", "booking", "bookflights") => {
                assert_eq!((&*form["toFlightId"], &*form["toFlightSegId"]), ("out-flight", "out-segment"));
                assert_eq!((&*form["retFlightId"], &*form["retFlightSegId"]), ("back-flight", "back-segment"));
                self.booked += 1;
                let ids = ["d", "r"].map(|leg| format!("{leg}{}", self.booked));
                self.bookings.entry(named).or_default().extend(ids.clone());
                Reply::ok(json!({"oneWay": false, "departBookingId": ids[0], "returnBookingId": ids[1]}).to_string())
            }
            ("GET", "booking", "byuser") => {
                let bookings = self.bookings.entry(named).or_default();
                Reply::ok(json!(bookings.iter().map(|id| json!({"_id": id})).collect::<Vec<_>>()).to_string())
            }
            ("POST", "booking", "cancelbooking") => {
                let (bookings, number) = (self.bookings.entry(named).or_default(), &form["number"]);
                match bookings.iter().position(|id| id == number) {
                    Some(place) => drop(bookings.remove(place)),
                    None => return Reply::status(404),
                }
                Reply::ok(format!("booking {number} deleted"))
            }
            ("GET", "customer", "byid") => Reply::ok(self.customer(&named)),
            ("POST", "customer", "byid") => {
                let update: serde_json::Value = serde_json::from_slice(&asked.body).unwrap();
                assert_eq!(
                    (&update["phoneNumberType"], &update["address"]["city"]),
                    (&json!("HOME"), &json!("Anytown"))
                );
                self.phones.insert(named.clone(), update["phoneNumber"].as_str().unwrap().to_owned());
                Reply::ok(self.customer(&named))
            }
            other => panic!("not in the contract: {other:?}"),
        }
    }

    fn customer(&self, id: &str) -> String {
        let phone = self.phones.get(id).map_or("1", String::as_str);
        json!({"_id": id, "phoneNumber": phone, "phoneNumberType": "HOME", "address": {"city": "Anytown"}}).to_string()
    }

    fn check_query(&mut self, form: &HashMap<String, String>) {
        let (from, to) = (&*form["fromAirport"], &*form["toAirport"]);
        let (out, back) = (&*form["fromDate"], &*form["returnDate"]);
        let known = ["CDG", "FRA", "LHR"];
        let window = "2026-01-30"..="2026-02-03";
        let good = known.contains(&from)
            && known.contains(&to)
            && from != to
            && window.contains(&out)
            && window.contains(&back)
            && out <= back
            && form["oneWay"] == "false";
        if !good {
            self.strange_query = Some(format!("{form:?}"));
        }
    }
}

/// Two servers, each for two services, over the same data.
fn services(airline: &Arc<Mutex<Airline>>) -> (Server, Server) {
    let server = || {
        let airline = Arc::clone(airline);
        Server::start(move |asked| {
            let reply = airline.lock().unwrap().answer(&asked);
            Box::pin(async { reply })
        })
    };
    (server(), server())
}

fn config(one: Target, other: Target) -> ScenarioConfig {
    let config = json!({
        "scenario": "airline",
        "services": AirlineServices { auth: one.clone(), customer: one, flight: other.clone(), booking: other },
        "airports": ["CDG", "FRA", "LHR"],
        "firstDay": "2026-01-30",
        "days": 5,
        "customers": 3000,
    });
    serde_json::from_value(config).unwrap()
}

#[test]
fn the_mix_is_the_documented_one() {
    let airline = Arc::new(Mutex::new(Airline::default()));
    let (one, other) = services(&airline);
    let mut load = Load::start(config(one.target(), other.target()));
    load.prepare(8).unwrap();
    let logins = airline.lock().unwrap().logins.clone();
    assert_eq!(logins.len(), 8, "each session logs in, each as another customer: {logins:?}");

    let slice = load.drive(Schedule::Closed { clients: 8 }, Duration::ZERO, Duration::from_millis(1500)).unwrap();
    assert_eq!(slice.errors, BTreeMap::new());
    assert!(slice.transactions > 3000, "{} transactions are too few to tell", slice.transactions);
    // A lap: 0.6 logins, 5 queries, 5/6 bookings, 1 list, 1/4 views and updates; each booking's two legs are cancelled.
    let lap = 0.6 + 5.0 + 5.0 / 6.0 + 1.0 + 0.5 + 2.0 * 5.0 / 6.0;
    let expected = [
        ("login", 0.6),
        ("query", 5.0),
        ("book", 5.0 / 6.0),
        ("list", 1.0),
        ("view", 0.25),
        ("update", 0.25),
        ("cancel", 10.0 / 6.0),
    ];
    for (operation, a_lap) in expected {
        let share = 100.0 * slice.operations[operation] as f64 / slice.transactions as f64;
        let expected = 100.0 * a_lap / lap;
        assert!((share - expected).abs() < 2.0, "{operation} is {share:.1} % of requests, not {expected:.1} %");
    }

    assert_eq!(one.seen.accepted.load(SeqCst), 8, "a session has one connection an address");
    assert_eq!(other.seen.accepted.load(SeqCst), 8);
    let airline = airline.lock().unwrap();
    assert_eq!(airline.strange_query, None);
    assert!(airline.logins.len() > 8, "a session logs in as different customers");
    assert!(airline.logins.keys().all(|login| login.ends_with("@airline.example")));
}

#[test]
fn after_an_error_a_session_begins_with_a_login() {
    let airline = Arc::new(Mutex::new(Airline::default()));
    let asked_for = Arc::new(Mutex::new(Vec::new()));
    let (shared, paths) = (Arc::clone(&airline), Arc::clone(&asked_for));
    let server = Server::start(move |asked| {
        paths.lock().unwrap().push(asked.path.clone());
        let reply = match asked.number % 7 {
            6 => Reply::status(500),
            _ => shared.lock().unwrap().answer(&asked),
        };
        Box::pin(async { reply })
    });
    let mut load = Load::start(config(server.target(), server.target()));
    let slice = load.drive(Schedule::Closed { clients: 1 }, Duration::ZERO, Duration::from_millis(400)).unwrap();
    assert_eq!(slice.errors.keys().collect::<Vec<_>>(), ["status 500"]);
    let asked_for = asked_for.lock().unwrap();
    assert!(asked_for.len() > 14);
    assert!(asked_for.iter().skip(7).step_by(7).all(|path| path == "/auth/login"), "{asked_for:?}");
}

#[test]
fn a_success_with_the_wrong_body_is_a_body_error() {
    let airline = Arc::new(Mutex::new(Airline::default()));
    let server = Server::start(move |asked| {
        let reply = match &*asked.path {
            "/flight/queryflights" => Reply::ok("<html>welcome</html>"),
            _ => airline.lock().unwrap().answer(&asked),
        };
        Box::pin(async { reply })
    });
    let mut load = Load::start(config(server.target(), server.target()));
    let slice = load.drive(Schedule::Closed { clients: 2 }, Duration::ZERO, Duration::from_millis(50)).unwrap();
    assert_eq!(slice.errors.keys().collect::<Vec<_>>(), ["body"]);
    assert_eq!(slice.operations.keys().collect::<Vec<_>>(), ["login"]);
}

#[test]
fn a_login_without_a_cookie_cannot_prepare_a_session() {
    let server = Server::start(|_| Box::pin(async { Reply::ok("logged in") }));
    let refused = Load::start(config(server.target(), server.target())).prepare(1).unwrap_err();
    assert!(refused.to_string().contains("the session's cookie"), "{refused}");
}

#[test]
fn impossible_data_is_refused_at_the_start() {
    let target = Target { address: "127.0.0.1:1".parse().unwrap(), host: "a".to_owned() };
    let ScenarioConfig::Airline(good) = config(target.clone(), target) else { panic!("not the airline") };
    let refused = |config: AirlineConfig| {
        let options = meshtoll_load::Options { scenario: ScenarioConfig::Airline(config), seed: 1 };
        let error = meshtoll_load::serve_on(&options, &b""[..], Vec::new()).unwrap_err();
        std::error::Error::source(&error).unwrap().to_string()
    };
    assert!(refused(AirlineConfig { airports: vec!["CDG".to_owned()], ..good.clone() }).contains("2 at least"));
    assert!(refused(AirlineConfig { days: 0, ..good.clone() }).contains("`days` is 0"));
    assert!(refused(AirlineConfig { customers: 0, ..good.clone() }).contains("`customers` is 0"));
    assert!(
        meshtoll_load::serve_on(
            &meshtoll_load::Options { scenario: ScenarioConfig::Airline(good), seed: 1 },
            &b""[..],
            Vec::new()
        )
        .is_ok()
    );
}
