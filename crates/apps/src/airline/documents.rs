//! What the database holds, and what the services answer with.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Names of the collections.
pub mod collections {
    /// [`Customer`](super::Customer)s, with their password's hash.
    pub const CUSTOMER: &str = "customer";
    /// [`Airport`](super::Airport)s.
    pub const AIRPORT: &str = "airportCodeMapping";
    /// [`FlightSegment`](super::FlightSegment)s.
    pub const SEGMENT: &str = "flightSegment";
    /// [`Flight`](super::Flight)s.
    pub const FLIGHT: &str = "flight";
    /// [`Booking`](super::Booking)s.
    pub const BOOKING: &str = "booking";
}

/// A customer's login name, which is also the document's key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CustomerId(String);

impl CustomerId {
    /// Wraps an id as it is.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CustomerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A customer as callers see it; the document also has the password's hash ([`Credentials`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Customer {
    /// Key.
    #[serde(rename = "_id")]
    pub id: CustomerId,
    /// Standing with the airline.
    pub status: String,
    /// Miles of all bookings.
    pub total_miles: i64,
    /// What the customer can change.
    #[serde(flatten)]
    pub profile: Profile,
}

/// The part of a customer that the customer can change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// Telephone number.
    pub phone_number: String,
    /// Where that telephone is: `HOME`, `BUSINESS`, `MOBILE`.
    pub phone_number_type: String,
    /// Postal address.
    pub address: Address,
}

/// A postal address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Address {
    /// Street and number.
    pub street_address1: String,
    /// City.
    pub city: String,
    /// State or province.
    pub state_province: String,
    /// Country.
    pub country: String,
    /// Postal code.
    pub postal_code: String,
}

/// What a password is checked against: a field of the customer's document that no answer has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Credentials {
    /// `SALT$HASH`, both base64: SHA-256 of the salt, then the password.
    pub password: String,
}

/// An airport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Airport {
    /// IATA code.
    #[serde(rename = "_id")]
    pub code: String,
    /// City.
    pub airport_name: String,
}

/// A pair of airports with flights from one to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FlightSegment {
    /// Key: `AA12`.
    #[serde(rename = "_id")]
    pub id: String,
    /// IATA code of where its flights start.
    pub origin_port: String,
    /// IATA code of where they end.
    pub dest_port: String,
    /// What a booking earns.
    pub miles: i64,
}

/// One flight of a segment on one day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Flight {
    /// Key: `AA12-2026-01-05-0`.
    #[serde(rename = "_id")]
    pub id: String,
    /// Key of its segment.
    pub flight_segment_id: String,
    /// Day of departure, `YYYY-MM-DD`.
    pub scheduled_departure_date: String,
    /// Time of departure, RFC 3339.
    pub scheduled_departure_time: String,
    /// Time of arrival, RFC 3339.
    pub scheduled_arrival_time: String,
    /// Price of a first class seat.
    pub first_class_base_cost: i32,
    /// Price of an economy class seat.
    pub economy_class_base_cost: i32,
    /// First class seats.
    pub num_first_class_seats: i32,
    /// Economy class seats.
    pub num_economy_class_seats: i32,
    /// Type of the airplane.
    pub airplane_type_id: String,
    /// Its segment: in answers, not in the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flight_segment: Option<FlightSegment>,
}

/// One booked flight of one customer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Booking {
    /// Key: an object id in hexadecimal.
    #[serde(rename = "_id")]
    pub id: String,
    /// Whose it is.
    pub customer_id: CustomerId,
    /// The flight's key.
    pub flight_id: String,
    /// The key of the flight's segment.
    pub flight_segment_id: String,
    /// When it was made, RFC 3339.
    pub date_of_booking: String,
    /// Class of the seat.
    pub cabin: String,
    /// Whether a car was booked with it.
    pub car_booked: String,
    /// Price of the flight.
    pub flight_price: i32,
    /// Price of the car.
    pub car_price: i32,
    /// Both.
    pub total_price: i32,
    /// Currency of the prices.
    pub currency: String,
}

/// The answer to a flight query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TripFlights {
    /// Number of legs: 1, or 2 for a return trip.
    pub trip_legs: usize,
    /// The legs, outbound first.
    pub trip_flights: Vec<TripLeg>,
}

/// The flights to choose from for one leg of a trip; always one page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TripLeg {
    /// Pages of flights.
    pub num_pages: u32,
    /// The flights.
    pub flights: Vec<Flight>,
    /// The page that this is.
    pub current_page: u32,
    /// Whether there are more pages.
    pub has_more_options: bool,
    /// Flights a page.
    pub page_size: u32,
}

impl TripLeg {
    /// The one page that holds these flights.
    pub fn of(flights: Vec<Flight>) -> Self {
        Self { num_pages: 1, flights, current_page: 0, has_more_options: false, page_size: 10 }
    }
}
