//! What the airline answers, read no further than the next request needs it. Texts are borrowed where JSON allows it.

use super::super::UnexpectedAnswer;
use crate::client::Response;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// Flights out and back that can be booked.
pub(super) struct Trip {
    pub(super) out: Flight,
    pub(super) back: Flight,
}

/// One flight of a trip.
pub(super) struct Flight {
    pub(super) flight: String,
    pub(super) segment: String,
}

/// The cookie that logging in sets.
pub(super) fn session_cookie(response: &Response<'_>, name: &str) -> Result<String, UnexpectedAnswer> {
    response.set_cookie(name).map(str::to_owned).ok_or(missing("login", "the session's cookie"))
}

/// The first flight each way, where a return trip has flights both ways.
pub(super) fn trip(body: &[u8]) -> Result<Option<Trip>, UnexpectedAnswer> {
    #[derive(Deserialize)]
    struct Found<'a> {
        #[serde(rename = "tripFlights", borrow)]
        legs: [Leg<'a>; 2],
    }
    #[derive(Deserialize)]
    struct Leg<'a> {
        #[serde(borrow)]
        flights: Vec<Listed<'a>>,
    }
    #[derive(Deserialize)]
    struct Listed<'a> {
        #[serde(rename = "_id", borrow)]
        id: Cow<'a, str>,
        #[serde(rename = "flightSegmentId", borrow)]
        segment: Cow<'a, str>,
    }
    let Found { legs } = json("query", body)?;
    let [out, back] = legs.map(|leg| leg.flights.into_iter().next());
    let flight = |listed: Listed<'_>| Flight { flight: listed.id.into_owned(), segment: listed.segment.into_owned() };
    Ok(out.zip(back).map(|(out, back)| Trip { out: flight(out), back: flight(back) }))
}

/// Checks that both flights were booked.
pub(super) fn booked(body: &[u8]) -> Result<(), UnexpectedAnswer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Booked<'a> {
        #[serde(borrow)]
        depart_booking_id: Cow<'a, str>,
        #[serde(borrow)]
        return_booking_id: Cow<'a, str>,
    }
    let booked: Booked<'_> = json("book", body)?;
    if booked.depart_booking_id.is_empty() || booked.return_booking_id.is_empty() {
        return Err(missing("book", "a booking id"));
    }
    Ok(())
}

/// A booking as listed.
#[derive(Deserialize)]
pub(super) struct Booking<'a> {
    #[serde(rename = "_id", borrow)]
    id: Cow<'a, str>,
}

impl Booking<'_> {
    /// Its number.
    pub(super) fn into_id(self) -> String {
        self.id.into_owned()
    }
}

/// The customer's bookings, as listed.
pub(super) fn bookings(body: &[u8]) -> Result<Vec<Booking<'_>>, UnexpectedAnswer> {
    json("list", body)
}

/// The update that gives the customer another phone number, and leaves the rest as it was viewed.
pub(super) fn profile_with(phone: &str, viewed: &[u8]) -> Result<String, UnexpectedAnswer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Customer {
        phone_number_type: Value,
        address: Value,
    }
    let Customer { phone_number_type, address } = json("view", viewed)?;
    let update = serde_json::json!({ "phoneNumber": phone, "phoneNumberType": phone_number_type, "address": address });
    Ok(update.to_string())
}

/// Checks that the customer has the new phone number.
pub(super) fn updated(phone: &str, body: &[u8]) -> Result<(), UnexpectedAnswer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Customer<'a> {
        #[serde(borrow)]
        phone_number: Cow<'a, str>,
    }
    let customer: Customer<'_> = json("update", body)?;
    if customer.phone_number == phone { Ok(()) } else { Err(missing("update", "the new phone number")) }
}

/// Checks that this booking was cancelled: `booking NUMBER deleted`.
pub(super) fn cancelled(number: &str, body: &[u8]) -> Result<(), UnexpectedAnswer> {
    let named = body.strip_prefix(b"booking ").and_then(|rest| rest.strip_suffix(b" deleted"));
    if named == Some(number.as_bytes()) { Ok(()) } else { Err(missing("cancel", "`booking NUMBER deleted`")) }
}

fn json<'a, T: Deserialize<'a>>(operation: &'static str, body: &'a [u8]) -> Result<T, UnexpectedAnswer> {
    serde_json::from_slice(body).map_err(|source| UnexpectedAnswer::Json { operation, source })
}

fn missing(operation: &'static str, what: &'static str) -> UnexpectedAnswer {
    UnexpectedAnswer::Missing { operation, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_needs_a_flight_each_way() {
        let leg = |flights: &str| format!(r#"{{"numPages": 1, "flights": [{flights}]}}"#);
        let found =
            |out: &str, back: &str| format!(r#"{{"tripLegs": 2, "tripFlights": [{},{}]}}"#, leg(out), leg(back));
        let (one, two) =
            (r#"{"_id": "f1", "flightSegmentId": "AA\"1", "more": 1}"#, r#"{"_id": "f2", "flightSegmentId": "s"}"#);
        let trip_found = trip(found(&format!("{one},{two}"), two).as_bytes()).unwrap().unwrap();
        let Trip { out, back } = trip_found;
        assert_eq!((&*out.flight, &*out.segment, &*back.flight, &*back.segment), ("f1", "AA\"1", "f2", "s"));
        assert!(trip(found("", two).as_bytes()).unwrap().is_none());
        assert!(trip(found(one, "").as_bytes()).unwrap().is_none());
        assert!(trip(br#"{"tripLegs": 1, "tripFlights": [{"flights": []}]}"#).is_err());
        assert!(trip(b"<html>").is_err());
    }

    #[test]
    fn answers_without_what_they_promise_are_errors() {
        assert!(booked(br#"{"oneWay": false, "departBookingId": "a", "returnBookingId": "b"}"#).is_ok());
        assert!(booked(br#"{"oneWay": false, "departBookingId": "a", "returnBookingId": ""}"#).is_err());
        assert!(booked(br#"{"oneWay": false, "departBookingId": "a"}"#).is_err());
        assert_eq!(bookings(br#"[{"_id": "a", "x": 1}, {"_id": "b"}]"#).unwrap().len(), 2);
        assert!(bookings(br#"[{"id": "a"}]"#).is_err());
        assert!(cancelled("a1", b"booking a1 deleted").is_ok());
        assert!(cancelled("a1", b"booking a2 deleted").is_err());
    }

    #[test]
    fn an_update_keeps_what_was_viewed() {
        let viewed = br#"{"_id": "u", "phoneNumber": "1", "phoneNumberType": "BUSINESS", "address": {"city": "X"}}"#;
        let update = profile_with("919-555-0001", viewed).unwrap();
        let expected =
            serde_json::json!({"phoneNumber": "919-555-0001", "phoneNumberType": "BUSINESS", "address": {"city": "X"}});
        assert_eq!(serde_json::from_str::<Value>(&update).unwrap(), expected);
        assert!(updated("919-555-0001", update.as_bytes()).is_ok());
        assert!(updated("919-555-0002", update.as_bytes()).is_err());
        assert!(profile_with("1", br#"{"_id": "u"}"#).is_err());
    }
}
