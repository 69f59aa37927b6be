//! The dataset: the same every time it is generated, so that runs can be compared.

use super::{
    documents::{Address, Airport, Booking, Credentials, Customer, CustomerId, Flight, FlightSegment, Profile},
    mix,
};
use aws_lc_rs::{constant_time, digest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use mongodb::bson::oid::ObjectId;
use time::{
    Date, Duration, OffsetDateTime, Time,
    format_description::StaticFormatDescription,
    macros::{date, format_description},
};

/// Customers that are loaded unless told otherwise, as in the published investigation.
pub const CUSTOMERS: u32 = 10_000;
/// Every customer's password.
pub const PASSWORD: &str = "password";
/// First day with flights.
pub const FIRST_DAY: Date = date!(2026 - 01 - 05);
/// Number of days with flights. Pinned: queries for days without flights would change the mix.
pub const DAYS: u16 = 30;
/// Flights a segment a day.
pub const FLIGHTS_PER_DAY: u32 = 4;
/// Pairs of airports between which there are flights, both ways: what makes the mix the published one.
pub const FLOWN_PAIRS: usize = 65;
/// All pairs of airports.
pub const PAIRS: usize = AIRPORTS.len() * (AIRPORTS.len() - 1) / 2;
/// Probability that there are flights between two different airports picked at random.
pub const FLOWN_SHARE: f64 = FLOWN_PAIRS as f64 / PAIRS as f64;

/// IATA code and city of each airport.
pub const AIRPORTS: [(&str, &str); 30] = [
    ("AMS", "Amsterdam"),
    ("BOM", "Mumbai"),
    ("BRU", "Brussels"),
    ("CAI", "Cairo"),
    ("CDG", "Paris"),
    ("DEL", "Delhi"),
    ("DXB", "Dubai"),
    ("EZE", "Buenos Aires"),
    ("FCO", "Rome"),
    ("FRA", "Frankfurt"),
    ("GRU", "Sao Paulo"),
    ("HKG", "Hong Kong"),
    ("IKA", "Tehran"),
    ("IST", "Istanbul"),
    ("JED", "Jeddah"),
    ("JFK", "New York"),
    ("JNB", "Johannesburg"),
    ("KHI", "Karachi"),
    ("LHR", "London"),
    ("LOS", "Lagos"),
    ("MAD", "Madrid"),
    ("MEX", "Mexico City"),
    ("MNL", "Manila"),
    ("NBO", "Nairobi"),
    ("NRT", "Tokyo"),
    ("ORD", "Chicago"),
    ("SIN", "Singapore"),
    ("SVO", "Moscow"),
    ("SYD", "Sydney"),
    ("YUL", "Montreal"),
];

/// How days are written everywhere: `YYYY-MM-DD`.
pub const DAY_FORMAT: StaticFormatDescription = format_description!("[year]-[month]-[day]");

/// Distinguishes the salts from other uses of SHA-256 on ids.
const SALT_PREFIX: &str = "meshtoll airline salt ";
const SALT_BYTES: usize = 16;

/// The id of the customer with this index, from 0.
pub fn customer_id(index: u32) -> CustomerId {
    CustomerId::new(format!("uid{index}@airline.example"))
}

/// The airports.
pub fn airports() -> impl Iterator<Item = Airport> {
    AIRPORTS.iter().map(|&(code, city)| Airport { code: code.into(), airport_name: city.into() })
}

/// The segments: those from `a` to `b` have an even index, the one back follows it.
///
/// The flown pairs are spread evenly over the list of all pairs.
pub fn segments() -> Vec<FlightSegment> {
    let pairs = (0..AIRPORTS.len()).flat_map(|a| (a + 1..AIRPORTS.len()).map(move |b| (a, b)));
    let flown = pairs.enumerate().filter(|(i, _)| (i + 1) * FLOWN_PAIRS / PAIRS > i * FLOWN_PAIRS / PAIRS);
    let both_ways = flown.flat_map(|(_, (a, b))| [(a, b), (b, a)]);
    both_ways
        .enumerate()
        .map(|(index, (from, to))| FlightSegment {
            id: format!("AA{index}"),
            origin_port: AIRPORTS[from].0.into(),
            dest_port: AIRPORTS[to].0.into(),
            miles: 500 + 250 * (((from + to) % 24) as i64),
        })
        .collect()
}

/// All flights of a segment.
pub fn flights(segment: &FlightSegment) -> impl Iterator<Item = Flight> {
    (0..DAYS).flat_map(move |day| (0..FLIGHTS_PER_DAY).map(move |number| flight(segment, day, number)))
}

fn flight(segment: &FlightSegment, day: u16, number: u32) -> Flight {
    let day = FIRST_DAY + Duration::days(day.into());
    let departure = day.midnight().assume_utc() + Duration::minutes(6 * 60 + 255 * i64::from(number));
    let arrival = departure + Duration::minutes(30 + segment.miles / 8);
    Flight {
        id: flight_id(&segment.id, day, number),
        flight_segment_id: segment.id.clone(),
        scheduled_departure_date: format_day(day),
        scheduled_departure_time: format_instant(departure),
        scheduled_arrival_time: format_instant(arrival),
        first_class_base_cost: 500,
        economy_class_base_cost: 200,
        num_first_class_seats: 10,
        num_economy_class_seats: 200,
        airplane_type_id: "B747".into(),
        flight_segment: None,
    }
}

fn flight_id(segment: &str, day: Date, number: u32) -> String {
    format!("{segment}-{}-{number}", format_day(day))
}

/// Customers with what they have booked already: the steady state of the request mix ([`mix::trips_held`]).
pub fn customers(count: u32) -> impl Iterator<Item = (Customer, Credentials, Vec<Booking>)> {
    let segments = segments();
    let mut trip = 0;
    mix::trips_held(count).enumerate().map(move |(index, trips)| {
        let id = customer_id(index as u32);
        let mut total_miles = 0;
        let mut bookings = Vec::new();
        for _ in 0..trips {
            for (leg, segment) in trip_segments(&segments, trip).iter().enumerate() {
                total_miles += segment.miles;
                bookings.push(past_booking(&id, segment, trip, leg as u32));
            }
            trip += 1;
        }
        let customer = Customer { status: "GOLD".into(), total_miles, profile: profile(index as u32), id };
        let credentials = Credentials { password: hash_password(&customer.id, PASSWORD) };
        (customer, credentials, bookings)
    })
}

/// The segments there and back of the preloaded trip with this number.
fn trip_segments(segments: &[FlightSegment], trip: u32) -> &[FlightSegment] {
    let pair = trip as usize % FLOWN_PAIRS;
    &segments[2 * pair..2 * pair + 2]
}

fn past_booking(customer: &CustomerId, segment: &FlightSegment, trip: u32, leg: u32) -> Booking {
    let made = FIRST_DAY.with_time(Time::MIDNIGHT).assume_utc() - Duration::days(1);
    let mut id = [0; 12];
    id[..4].copy_from_slice(&(made.unix_timestamp() as u32).to_be_bytes());
    id[8..].copy_from_slice(&(2 * trip + leg).to_be_bytes());
    let day = FIRST_DAY + Duration::days(i64::from((trip / 2 + 7 * leg) % u32::from(DAYS)));
    let flight = flight_id(&segment.id, day, trip % FLIGHTS_PER_DAY);
    booking(ObjectId::from_bytes(id), customer.clone(), flight, segment.id.clone(), made)
}

/// A booking with the fields that are the same for all.
pub fn booking(
    id: ObjectId,
    customer_id: CustomerId,
    flight_id: String,
    flight_segment_id: String,
    made: OffsetDateTime,
) -> Booking {
    Booking {
        id: id.to_hex(),
        customer_id,
        flight_id,
        flight_segment_id,
        date_of_booking: format_instant(made),
        cabin: "ECONOMY".into(),
        car_booked: "NONE".into(),
        flight_price: 200,
        car_price: 0,
        total_price: 200,
        currency: "USD".into(),
    }
}

fn profile(index: u32) -> Profile {
    Profile {
        phone_number: format!("919-{:03}-{:04}", index / 10_000 % 1000, index % 10_000),
        phone_number_type: "BUSINESS".into(),
        address: Address {
            street_address1: format!("{index} Main Street"),
            city: "Anytown".into(),
            state_province: "North Carolina".into(),
            country: "United States".into(),
            postal_code: format!("{:05}", 27_000 + index % 1000),
        },
    }
}

/// What [`Credentials`] hold for a customer's password. The salt comes from the id, so that the data are the same every time.
fn hash_password(id: &CustomerId, password: &str) -> String {
    let salt = digest::digest(&digest::SHA256, format!("{SALT_PREFIX}{id}").as_bytes());
    let salt = &salt.as_ref()[..SALT_BYTES];
    format!("{}${}", STANDARD.encode(salt), STANDARD.encode(salted_hash(salt, password)))
}

/// Whether this is the password. Takes as long for a wrong one.
pub fn password_matches(credentials: &Credentials, password: &str) -> bool {
    let Some((salt, hash)) = credentials.password.split_once('$') else { return false };
    let (Ok(salt), Ok(hash)) = (STANDARD.decode(salt), STANDARD.decode(hash)) else { return false };
    constant_time::verify_slices_are_equal(salted_hash(&salt, password).as_ref(), &hash).is_ok()
}

fn salted_hash(salt: &[u8], password: &str) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(salt);
    context.update(password.as_bytes());
    context.finish()
}

/// A day in [`DAY_FORMAT`].
pub fn format_day(day: Date) -> String {
    let (year, month, day) = (day.year(), u8::from(day.month()), day.day());
    format!("{year:04}-{month:02}-{day:02}")
}

/// An instant as it is written everywhere: RFC 3339, in UTC, to the second. Written by hand, as every booking has one.
pub fn format_instant(instant: OffsetDateTime) -> String {
    let (hour, minute, second) = instant.to_hms();
    format!("{}T{hour:02}:{minute:02}:{second:02}Z", format_day(instant.date()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn as_many_pairs_are_flown_as_said_and_both_ways() {
        let segments = segments();
        let ports: BTreeSet<_> = segments.iter().map(|s| (s.origin_port.clone(), s.dest_port.clone())).collect();
        assert_eq!(ports.len(), 2 * FLOWN_PAIRS);
        assert!(ports.iter().all(|(from, to)| ports.contains(&(to.clone(), from.clone()))));
        let served: BTreeSet<_> = ports.iter().map(|(from, _)| from.as_str()).collect();
        assert_eq!(served, AIRPORTS.iter().map(|&(code, _)| code).collect());
    }

    #[test]
    fn every_segment_has_its_flights_every_day() {
        let mut ids = BTreeSet::new();
        for segment in segments() {
            let mut by_day = BTreeMap::<_, u32>::new();
            for flight in flights(&segment) {
                assert!(flight.id.starts_with(&format!("{}-", segment.id)));
                assert!(flight.scheduled_departure_time.starts_with(&flight.scheduled_departure_date));
                assert!(flight.scheduled_departure_time < flight.scheduled_arrival_time);
                assert!(ids.insert(flight.id));
                *by_day.entry(flight.scheduled_departure_date).or_default() += 1;
            }
            assert_eq!(by_day.len(), usize::from(DAYS));
            assert_eq!(by_day.first_key_value(), Some((&"2026-01-05".to_owned(), &FLIGHTS_PER_DAY)));
            assert_eq!(by_day.last_key_value(), Some((&"2026-02-03".to_owned(), &FLIGHTS_PER_DAY)));
        }
    }

    #[test]
    fn customers_have_the_miles_of_their_bookings_of_flights_that_exist() {
        let segments: BTreeMap<_, _> = segments().into_iter().map(|segment| (segment.id.clone(), segment)).collect();
        let flights: BTreeSet<_> = segments.values().flat_map(flights).map(|flight| flight.id).collect();
        let mut ids = BTreeSet::new();
        for (customer, credentials, bookings) in customers(1000) {
            assert!(password_matches(&credentials, PASSWORD));
            let miles: i64 = bookings.iter().map(|booking| segments[&booking.flight_segment_id].miles).sum();
            assert_eq!(customer.total_miles, miles);
            for booking in bookings {
                assert_eq!(booking.customer_id, customer.id);
                assert!(flights.contains(&booking.flight_id), "{}", booking.flight_id);
                assert!(ids.insert(booking.id));
            }
        }
    }

    #[test]
    fn passwords() {
        let id = customer_id(7);
        let credentials = |password: &str| Credentials { password: password.to_owned() };
        let stored = credentials(&hash_password(&id, "secret"));
        assert!(password_matches(&stored, "secret"));
        assert!(!password_matches(&stored, "Secret"));
        assert_ne!(stored.password, hash_password(&customer_id(8), "secret"));
        for damaged in ["", "$", "secret", "a$b", "====$===="] {
            assert!(!password_matches(&credentials(damaged), ""), "{damaged}");
        }
    }

    #[test]
    fn instants_are_rfc_3339() {
        let instant = time::macros::datetime!(2026-01-05 06:07:08.9 UTC);
        assert_eq!(format_instant(instant), "2026-01-05T06:07:08Z");
        assert_eq!(Date::parse("2026-01-05", DAY_FORMAT).unwrap(), FIRST_DAY);
        assert_eq!(format_day(FIRST_DAY), "2026-01-05");
    }
}
