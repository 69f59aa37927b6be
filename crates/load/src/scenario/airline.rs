//! The airline's request mix: docs/AIRLINE.md, "The request mix".

mod answers;

use super::{
    Request, Scenario, UnexpectedAnswer,
    config::{AirlineConfig, ScenarioError, Service, service},
};
use crate::client::Response;
use answers::Trip;
use rand::{
    Rng, SeedableRng,
    rngs::{SmallRng, StdRng},
};
use std::{collections::VecDeque, net::SocketAddr, rc::Rc};
use time::Duration;

/// Path of a flight query.
pub(super) const QUERY_PATH: &str = "/flight/queryflights";
/// Content type of forms.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

const COOKIE: &str = "airline_session";
const PASSWORD: &str = "password";

/// Share of laps that begin with a login; in the others the session goes on.
const LOGIN_SHARE: f64 = 0.6;
/// Flight queries a lap.
const QUERIES: u32 = 5;
/// Share of laps in which the customer's profile is viewed and then updated.
const PROFILE_SHARE: f64 = 0.25;
/// Share of laps in which bookings are cancelled.
const CANCEL_SHARE: f64 = 0.25;
/// Bookings that cancelling leaves.
const BOOKINGS_KEPT: usize = 2;

/// Customers are dealt out to this many sessions, so that no two sessions act for the same customer, whose bookings one
/// would cancel while the other still lists them. Sessions beyond that many share.
const SESSIONS_APART: u32 = 1024;

/// The fields of the form of a flight query, for a return trip.
pub(super) fn query_form<'a>(from: &'a str, to: &'a str, out: &'a str, back: &'a str) -> [(&'static str, &'a str); 5] {
    [("fromAirport", from), ("toAirport", to), ("fromDate", out), ("returnDate", back), ("oneWay", "false")]
}

/// What all sessions of the airline share.
#[derive(Debug)]
pub(super) struct Plan {
    auth: Service,
    customer: Service,
    flight: Service,
    booking: Service,
    airports: Vec<String>,
    days: Vec<String>,
    customers: u32,
}

impl Plan {
    /// Checks what was written, and adds the services' addresses.
    pub(super) fn check(config: &AirlineConfig, addresses: &mut Vec<SocketAddr>) -> Result<Self, ScenarioError> {
        let &AirlineConfig { first_day, days, customers, .. } = config;
        if config.airports.len() < 2 {
            return Err(ScenarioError::TooFewAirports(config.airports.len()));
        }
        if customers == 0 {
            return Err(ScenarioError::NoCustomers);
        }
        let dates = (0..days).map(|day| Some(first_day.checked_add(Duration::days(day.into()))?.to_string()));
        let dates = dates.collect::<Option<Vec<_>>>().filter(|dates| !dates.is_empty());
        Ok(Self {
            auth: service(&config.services.auth, addresses)?,
            customer: service(&config.services.customer, addresses)?,
            flight: service(&config.services.flight, addresses)?,
            booking: service(&config.services.booking, addresses)?,
            airports: config.airports.clone(),
            days: dates.ok_or(ScenarioError::Days { first_day, days })?,
            customers,
        })
    }

    /// One of the customers that are this session's, at random.
    fn customer_of(&self, session: u32, random: &mut SmallRng) -> String {
        let apart = SESSIONS_APART.min(self.customers);
        let first = session % apart;
        let rounds = (self.customers - first).div_ceil(apart);
        format!("uid{}@airline.example", first + apart * random.random_range(0..rounds))
    }

    /// A return trip between two different airports, on dates within the window.
    fn random_query(&self, random: &mut SmallRng) -> [(&'static str, &str); 5] {
        let from = random.random_range(0..self.airports.len());
        let to = (from + random.random_range(1..self.airports.len())) % self.airports.len();
        let mut day = || random.random_range(0..self.days.len());
        let (one, other) = (day(), day());
        let (out, back) = (&self.days[one.min(other)], &self.days[one.max(other)]);
        query_form(&self.airports[from], &self.airports[to], out, back)
    }
}

/// One session at the airline.
pub(super) struct Airline {
    plan: Rc<Plan>,
    session: u32,
    random: SmallRng,
    customer: String,
    cookie: Option<String>,
    queries_left: u32,
    to_cancel: VecDeque<String>,
    step: Step,
}

/// What is asked next, or was asked just now.
enum Step {
    Login,
    Query,
    Book(Trip),
    List,
    View,
    Update { phone: String, body: String },
    Cancel,
}

impl Step {
    fn operation(&self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Query => "query",
            Self::Book(_) => "book",
            Self::List => "list",
            Self::View => "view",
            Self::Update { .. } => "update",
            Self::Cancel => "cancel",
        }
    }
}

impl Airline {
    /// The session of this number, not logged in.
    pub(super) fn new(plan: Rc<Plan>, session: u32, seed: u64) -> Self {
        let mut origin = [0; 32];
        origin[..8].copy_from_slice(&seed.to_le_bytes());
        origin[8..12].copy_from_slice(&session.to_le_bytes());
        // By way of a cryptographic generator, so that neighbouring seeds and sessions have nothing in common.
        let random = SmallRng::from_rng(&mut StdRng::from_seed(origin));
        Self {
            plan,
            session,
            random,
            customer: String::new(),
            cookie: None,
            queries_left: QUERIES,
            to_cancel: VecDeque::new(),
            step: Step::Login,
        }
    }

    fn next_lap(&mut self) -> Step {
        self.queries_left = QUERIES;
        if self.random.random_bool(LOGIN_SHARE) { Step::Login } else { Step::Query }
    }

    fn next_query(&self) -> Step {
        if self.queries_left > 0 { Step::Query } else { Step::List }
    }

    fn next_cancel(&mut self) -> Step {
        if self.to_cancel.is_empty() { self.next_lap() } else { Step::Cancel }
    }
}

impl Scenario for Airline {
    fn next(&mut self, request: &mut Request) {
        if matches!(self.step, Step::Login) {
            self.cookie = None;
            self.customer = self.plan.customer_of(self.session, &mut self.random);
        }
        let Self { plan, random, customer, cookie, to_cancel, step, .. } = self;
        let customer = customer.as_str();
        let (method, service, path) = match step {
            Step::Login => ("POST", &plan.auth, ["/auth/login", ""]),
            Step::Query => ("POST", &plan.flight, [QUERY_PATH, ""]),
            Step::Book(_) => ("POST", &plan.booking, ["/booking/bookflights", ""]),
            Step::List => ("GET", &plan.booking, ["/booking/byuser/", customer]),
            Step::View => ("GET", &plan.customer, ["/customer/byid/", customer]),
            Step::Update { .. } => ("POST", &plan.customer, ["/customer/byid/", customer]),
            Step::Cancel => ("POST", &plan.booking, ["/booking/cancelbooking", ""]),
        };
        let request = request.start(step.operation(), method, service, &path).cookie(COOKIE, cookie.as_deref());
        match step {
            Step::Login => request.form([("login", customer), ("password", PASSWORD)]),
            Step::Query => request.form(plan.random_query(random)),
            Step::Book(trip) => request.form([
                ("userid", customer),
                ("toFlightId", &trip.out.flight),
                ("toFlightSegId", &trip.out.segment),
                ("retFlightId", &trip.back.flight),
                ("retFlightSegId", &trip.back.segment),
                ("oneWayFlight", "false"),
            ]),
            Step::List | Step::View => request.no_body(),
            Step::Update { body, .. } => request.body("application/json", body),
            Step::Cancel => {
                request.form([("userid", customer), ("number", to_cancel.front().map_or("", String::as_str))])
            }
        }
    }

    fn answered(&mut self, response: &Response<'_>) -> Result<(), UnexpectedAnswer> {
        self.step = match &self.step {
            Step::Login => {
                self.cookie = Some(answers::session_cookie(response, COOKIE)?);
                Step::Query
            }
            Step::Query => {
                self.queries_left -= 1;
                answers::trip(response.body)?.map_or_else(|| self.next_query(), Step::Book)
            }
            Step::Book(_) => {
                answers::booked(response.body)?;
                self.next_query()
            }
            Step::List => {
                let bookings = answers::bookings(response.body)?;
                let (profile, cancel) = (self.random.random_bool(PROFILE_SHARE), self.random.random_bool(CANCEL_SHARE));
                let surplus = if cancel { bookings.len().saturating_sub(BOOKINGS_KEPT) } else { 0 };
                self.to_cancel.clear();
                self.to_cancel.extend(bookings.into_iter().take(surplus).map(answers::Booking::into_id));
                if profile { Step::View } else { self.next_cancel() }
            }
            Step::View => {
                let phone = format!("919-555-{:04}", self.random.random_range(0..10_000));
                let body = answers::profile_with(&phone, response.body)?;
                Step::Update { phone, body }
            }
            Step::Update { phone, .. } => {
                answers::updated(phone, response.body)?;
                self.next_cancel()
            }
            Step::Cancel => {
                if let Some(number) = self.to_cancel.pop_front() {
                    answers::cancelled(&number, response.body)?;
                }
                self.next_cancel()
            }
        };
        Ok(())
    }

    fn restart(&mut self) {
        self.cookie = None;
        self.queries_left = QUERIES;
        self.to_cancel.clear();
        self.step = Step::Login;
    }

    fn is_set_up(&self) -> bool {
        self.cookie.is_some()
    }
}
