//! The customer service: keeps the customers' profiles, passwords and miles.

use super::{
    data::password_matches,
    documents::{Credentials, Customer, CustomerId, Profile, collections},
    error::ServiceError,
    extract::{Json, LoggedIn},
    router::Routes,
    session::SessionKey,
};
use axum::{
    Router,
    extract::{FromRef, Path, State},
    routing::{get, post},
};
use mongodb::{
    Collection, Database,
    bson::{doc, serialize_to_bson},
    options::ReturnDocument,
};
use serde::{Deserialize, Serialize};

#[derive(Clone)]
struct Customers {
    customers: Collection<Customer>,
    credentials: Collection<Credentials>,
    miles: Collection<TotalMiles>,
    key: SessionKey,
}

impl FromRef<Customers> for SessionKey {
    fn from_ref(state: &Customers) -> Self {
        state.key.clone()
    }
}

pub(super) fn routes(database: &Database, key: SessionKey) -> Routes {
    let state = Customers {
        customers: database.collection(collections::CUSTOMER),
        credentials: database.collection(collections::CUSTOMER),
        miles: database.collection(collections::CUSTOMER),
        key,
    };
    let outside = Router::new().route("/customer/byid/{id}", get(view).post(update)).with_state(state.clone());
    let internal = Router::new()
        .route("/internal/validate", post(validate))
        .route("/internal/miles/{id}", post(add_miles))
        .with_state(state);
    Routes { outside, internal }
}

async fn view(
    State(state): State<Customers>,
    session: LoggedIn,
    Path(id): Path<String>,
) -> Result<axum::Json<Customer>, ServiceError> {
    let id = session.must_be(&id)?;
    find(&state, &id).await
}

async fn update(
    State(state): State<Customers>,
    session: LoggedIn,
    Path(id): Path<String>,
    Json(profile): Json<Profile>,
) -> Result<axum::Json<Customer>, ServiceError> {
    let id = session.must_be(&id)?;
    let Profile { phone_number, phone_number_type, address } = profile;
    let address = serialize_to_bson(&address).map_err(mongodb::error::Error::from)?;
    let fields = doc! { "phoneNumber": phone_number, "phoneNumberType": phone_number_type, "address": address };
    state.customers.update_one(doc! { "_id": id.as_str() }, doc! { "$set": fields }).await?;
    find(&state, &id).await
}

async fn find(state: &Customers, id: &CustomerId) -> Result<axum::Json<Customer>, ServiceError> {
    let customer = state.customers.find_one(doc! { "_id": id.as_str() }).await?;
    customer.map(axum::Json).ok_or(ServiceError::NotFound("customer"))
}

/// The question of auth.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Validate {
    pub(super) id: CustomerId,
    pub(super) password: String,
}

/// The answer to it.
#[derive(Serialize, Deserialize)]
pub(super) struct Validity {
    pub(super) valid: bool,
}

async fn validate(
    State(state): State<Customers>,
    Json(question): Json<Validate>,
) -> Result<axum::Json<Validity>, ServiceError> {
    let credentials = state.credentials.find_one(doc! { "_id": question.id.as_str() }).await?;
    let valid = credentials.is_some_and(|credentials| password_matches(&credentials, &question.password));
    Ok(axum::Json(Validity { valid }))
}

/// The question of booking: how many miles a customer gains or, with a negative number, loses.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AddMiles {
    pub(super) miles: i64,
}

/// The answer to it: how many there are then.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TotalMiles {
    pub(super) total_miles: i64,
}

async fn add_miles(
    State(state): State<Customers>,
    Path(id): Path<String>,
    Json(question): Json<AddMiles>,
) -> Result<axum::Json<TotalMiles>, ServiceError> {
    let change = doc! { "$inc": { "totalMiles": question.miles } };
    let after =
        state.miles.find_one_and_update(doc! { "_id": id }, change).return_document(ReturnDocument::After).await?;
    after.map(axum::Json).ok_or(ServiceError::NotFound("customer"))
}
