//! The booking service: books flights, lists bookings, cancels them.

use super::{
    client::{CallError, InternalClient, path_segment},
    customer::{AddMiles, TotalMiles},
    data,
    documents::{Booking, CustomerId, collections},
    error::ServiceError,
    extract::{Form, LoggedIn},
    flight::{Miles, RewardMiles},
    router::Routes,
    session::SessionKey,
};
use axum::{
    Router,
    extract::{FromRef, Path, State},
    routing::{get, post},
};
use futures_util::TryStreamExt as _;
use http::StatusCode;
use mongodb::{
    Collection, Database,
    bson::{doc, oid::ObjectId},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

#[derive(Clone)]
struct Bookings {
    bookings: Collection<Booking>,
    customers: InternalClient,
    flights: InternalClient,
    key: SessionKey,
}

impl FromRef<Bookings> for SessionKey {
    fn from_ref(state: &Bookings) -> Self {
        state.key.clone()
    }
}

pub(super) fn routes(
    database: &Database,
    customers: InternalClient,
    flights: InternalClient,
    key: SessionKey,
) -> Routes {
    let state = Bookings { bookings: database.collection(collections::BOOKING), customers, flights, key };
    let outside = Router::new()
        .route("/booking/bookflights", post(book))
        .route("/booking/byuser/{id}", get(list))
        .route("/booking/cancelbooking", post(cancel))
        .with_state(state);
    Routes { outside, internal: Router::new() }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BookFlights {
    userid: String,
    to_flight_id: String,
    to_flight_seg_id: String,
    ret_flight_id: Option<String>,
    ret_flight_seg_id: Option<String>,
    one_way_flight: bool,
}

/// The flight of one leg, and its segment.
struct Leg {
    flight: String,
    segment: String,
}

impl BookFlights {
    fn outbound(&mut self) -> Result<Leg, ServiceError> {
        let (flight, segment) = (Some(&mut self.to_flight_id), Some(&mut self.to_flight_seg_id));
        Leg::taken(flight, segment, "toFlightId", "toFlightSegId")
    }

    fn inbound(&mut self) -> Result<Option<Leg>, ServiceError> {
        if self.one_way_flight {
            return Ok(None);
        }
        let (flight, segment) = (self.ret_flight_id.as_mut(), self.ret_flight_seg_id.as_mut());
        Leg::taken(flight, segment, "retFlightId", "retFlightSegId").map(Some)
    }
}

impl Leg {
    /// The fields of one leg; a flight's id starts with its segment's.
    fn taken(
        flight: Option<&mut String>,
        segment: Option<&mut String>,
        flight_field: &'static str,
        segment_field: &'static str,
    ) -> Result<Self, ServiceError> {
        let missing = |field| ServiceError::Field { field, problem: "a return trip needs it" };
        let flight = std::mem::take(flight.ok_or_else(|| missing(flight_field))?);
        let segment = std::mem::take(segment.ok_or_else(|| missing(segment_field))?);
        let of_segment = flight.strip_prefix(&segment).is_some_and(|rest| rest.starts_with('-'));
        if segment.is_empty() || !of_segment {
            return Err(ServiceError::Field { field: flight_field, problem: "not a flight of the segment" });
        }
        Ok(Self { flight, segment })
    }
}

/// The answer to a booking.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Booked {
    one_way: bool,
    depart_booking_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_booking_id: Option<String>,
}

async fn book(
    State(state): State<Bookings>,
    session: LoggedIn,
    Form(mut form): Form<BookFlights>,
) -> Result<axum::Json<Booked>, ServiceError> {
    let customer = session.must_be(&form.userid)?;
    let (outbound, inbound) = (form.outbound()?, form.inbound()?);
    // Both are looked up first, so that a wrong second leg does not leave the first one booked.
    let outbound_miles = state.miles_of(&outbound, "toFlightSegId").await?;
    let inbound = match inbound {
        Some(leg) => Some((state.miles_of(&leg, "retFlightSegId").await?, leg)),
        None => None,
    };
    let depart_booking_id = state.book_leg(&customer, outbound, outbound_miles).await?;
    let return_booking_id = match inbound {
        Some((miles, leg)) => Some(state.book_leg(&customer, leg, miles).await?),
        None => None,
    };
    Ok(axum::Json(Booked { one_way: form.one_way_flight, depart_booking_id, return_booking_id }))
}

async fn list(
    State(state): State<Bookings>,
    session: LoggedIn,
    Path(id): Path<String>,
) -> Result<axum::Json<Vec<Booking>>, ServiceError> {
    let customer = session.must_be(&id)?;
    let bookings = state.bookings.find(doc! { "customerId": customer.as_str() }).await?.try_collect().await?;
    Ok(axum::Json(bookings))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelBooking {
    userid: String,
    number: String,
}

async fn cancel(
    State(state): State<Bookings>,
    session: LoggedIn,
    Form(form): Form<CancelBooking>,
) -> Result<String, ServiceError> {
    let customer = session.must_be(&form.userid)?;
    let this = doc! { "_id": &form.number, "customerId": customer.as_str() };
    let booking = state.bookings.find_one(this.clone()).await?.ok_or(ServiceError::NotFound("booking"))?;
    if state.bookings.delete_one(this).await?.deleted_count == 0 {
        // Another request was faster, and takes the miles back.
        return Err(ServiceError::NotFound("booking"));
    }
    let miles = state.reward_miles(booking.flight_segment_id).await?;
    state.add_miles(&customer, -miles).await?;
    Ok(format!("booking {} deleted", form.number))
}

impl Bookings {
    /// What a leg earns; that its segment does not exist is the fault of a form's field.
    async fn miles_of(&self, leg: &Leg, field: &'static str) -> Result<i64, ServiceError> {
        self.reward_miles(leg.segment.clone()).await.map_err(|error| match error {
            CallError::Status { status: StatusCode::NOT_FOUND, .. } => {
                ServiceError::Field { field, problem: "there is no such flight segment" }
            }
            other => other.into(),
        })
    }

    async fn reward_miles(&self, flight_segment_id: String) -> Result<i64, CallError> {
        let question = RewardMiles { flight_segment_id };
        let Miles { miles } = self.flights.post("/internal/reward-miles", &question).await?;
        Ok(miles)
    }

    async fn add_miles(&self, customer: &CustomerId, miles: i64) -> Result<(), CallError> {
        let path = format!("/internal/miles/{}", path_segment(customer.as_str()));
        let TotalMiles { .. } = self.customers.post(&path, &AddMiles { miles }).await?;
        Ok(())
    }

    async fn book_leg(&self, customer: &CustomerId, leg: Leg, miles: i64) -> Result<String, ServiceError> {
        self.add_miles(customer, miles).await?;
        let now = OffsetDateTime::now_utc();
        let booking = data::booking(ObjectId::new(), customer.clone(), leg.flight, leg.segment, now);
        self.bookings.insert_one(&booking).await?;
        Ok(booking.id)
    }
}
