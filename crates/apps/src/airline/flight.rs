//! The flight service: finds flights, and says what they earn.

use super::{
    data::{AIRPORTS, DAY_FORMAT, format_day},
    documents::{Flight, FlightSegment, TripFlights, TripLeg, collections},
    error::ServiceError,
    extract::{Form, Json},
    router::Routes,
};
use axum::{Router, extract::State, routing::post};
use futures_util::TryStreamExt as _;
use mongodb::{Collection, Database, bson::doc};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use time::Date;

#[derive(Clone)]
struct Flights {
    segments: Collection<FlightSegment>,
    flights: Collection<Flight>,
}

pub(super) fn routes(database: &Database) -> Routes {
    let state = Flights {
        segments: database.collection(collections::SEGMENT),
        flights: database.collection(collections::FLIGHT),
    };
    Routes {
        outside: Router::new().route("/flight/queryflights", post(query)).with_state(state.clone()),
        internal: Router::new().route("/internal/reward-miles", post(reward_miles)).with_state(state),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    from_airport: AirportCode,
    to_airport: AirportCode,
    from_date: Day,
    return_date: Option<Day>,
    one_way: bool,
}

/// The code of an airport that exists.
#[derive(Clone, Copy)]
struct AirportCode(&'static str);

impl<'de> Deserialize<'de> for AirportCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = AIRPORTS.iter().find(|(code, _)| *code == text);
        known.map(|(code, _)| Self(code)).ok_or_else(|| D::Error::custom("not the code of an airport that is served"))
    }
}

/// A day, as the database writes it.
struct Day(String);

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let day = Date::parse(&text, DAY_FORMAT).map_err(|_| D::Error::custom("not a date, YYYY-MM-DD"))?;
        Ok(Self(format_day(day)))
    }
}

async fn query(
    State(state): State<Flights>,
    Form(query): Form<Query>,
) -> Result<axum::Json<TripFlights>, ServiceError> {
    let Query { from_airport, to_airport, from_date, return_date, one_way } = query;
    let mut trip_flights = Vec::with_capacity(2);
    if one_way {
        trip_flights.push(state.leg(from_airport, to_airport, from_date).await?);
    } else {
        let missing = ServiceError::Field { field: "returnDate", problem: "a return trip needs it" };
        let return_date = return_date.ok_or(missing)?;
        trip_flights.push(state.leg(from_airport, to_airport, from_date).await?);
        trip_flights.push(state.leg(to_airport, from_airport, return_date).await?);
    }
    Ok(axum::Json(TripFlights { trip_legs: trip_flights.len(), trip_flights }))
}

impl Flights {
    async fn leg(&self, from: AirportCode, to: AirportCode, day: Day) -> Result<TripLeg, ServiceError> {
        let ports = doc! { "originPort": from.0, "destPort": to.0 };
        let Some(segment) = self.segments.find_one(ports).await? else { return Ok(TripLeg::of(Vec::new())) };
        let of_the_day = doc! { "flightSegmentId": &segment.id, "scheduledDepartureDate": day.0 };
        let mut flights: Vec<Flight> = self.flights.find(of_the_day).await?.try_collect().await?;
        for flight in &mut flights {
            flight.flight_segment = Some(segment.clone());
        }
        Ok(TripLeg::of(flights))
    }
}

/// The question of booking: what a flight of a segment earns.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RewardMiles {
    pub(super) flight_segment_id: String,
}

/// The answer to it.
#[derive(Serialize, Deserialize)]
pub(super) struct Miles {
    pub(super) miles: i64,
}

async fn reward_miles(
    State(state): State<Flights>,
    Json(question): Json<RewardMiles>,
) -> Result<axum::Json<Miles>, ServiceError> {
    let segment = state.segments.find_one(doc! { "_id": question.flight_segment_id }).await?;
    let FlightSegment { miles, .. } = segment.ok_or(ServiceError::NotFound("flight segment"))?;
    Ok(axum::Json(Miles { miles }))
}
