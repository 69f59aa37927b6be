//! The auth service: logs customers in.

use super::{
    client::InternalClient,
    customer::{Validate, Validity},
    documents::CustomerId,
    error::ServiceError,
    extract::Form,
    router::Routes,
    session::{COOKIE_NAME, LIFETIME, SessionKey},
};
use axum::{
    Router,
    extract::State,
    http::header,
    response::{AppendHeaders, IntoResponse},
    routing::post,
};
use serde::Deserialize;
use std::time::SystemTime;

#[derive(Clone)]
struct Auth {
    customers: InternalClient,
    key: SessionKey,
}

pub(super) fn routes(customers: InternalClient, key: SessionKey) -> Routes {
    let outside = Router::new().route("/auth/login", post(log_in)).with_state(Auth { customers, key });
    Routes { outside, internal: Router::new() }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    login: String,
    password: String,
}

async fn log_in(State(auth): State<Auth>, Form(form): Form<Login>) -> Result<impl IntoResponse, ServiceError> {
    let question = Validate { id: CustomerId::new(form.login), password: form.password };
    let answer: Validity = auth.customers.post("/internal/validate", &question).await?;
    if !answer.valid {
        return Err(ServiceError::WrongCredentials);
    }
    let token = auth.key.issue(&question.id, SystemTime::now() + LIFETIME);
    let cookie = format!("{COOKIE_NAME}={token}; Path=/; HttpOnly");
    Ok((AppendHeaders([(header::SET_COOKIE, cookie)]), "logged in"))
}
