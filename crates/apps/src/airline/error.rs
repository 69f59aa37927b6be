//! What goes wrong with a request, and what its sender is told of it.

use super::client::CallError;
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::{error::Error, time::Duration};

/// Why a request was not carried out.
///
/// What is the sender's own mistake is said to the sender; what went wrong inside is logged, and the sender
/// learns only that it did.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceError {
    /// The body could not be read or is not what the endpoint takes.
    #[error("{message}")]
    Body {
        /// 400, 413 or 415.
        status: StatusCode,
        /// What is wrong with which field.
        message: String,
    },
    /// A field holds something that does not exist, or does not fit another field.
    #[error("{field}: {problem}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Login and password do not match.
    #[error("wrong login or password")]
    WrongCredentials,
    /// There is no session, or not a valid one.
    #[error("not logged in, or the session is over: log in at /auth/login")]
    NotLoggedIn,
    /// The session is another customer's.
    #[error("the session is another customer's")]
    AnotherCustomer,
    /// What is named does not exist.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The service has no such endpoint.
    #[error("there is nothing at this path")]
    UnknownPath,
    /// The endpoint exists, the method does not.
    #[error("this path does not take this method")]
    WrongMethod,
    /// The database failed.
    #[error("the database failed")]
    Database(#[source] mongodb::error::Error),
    /// Another service failed.
    #[error("another service failed")]
    Call(#[source] CallError),
    /// It took too long.
    #[error("not done after {} s", after.as_secs())]
    TimedOut {
        /// The limit.
        after: Duration,
    },
}

impl From<mongodb::error::Error> for ServiceError {
    fn from(error: mongodb::error::Error) -> Self {
        Self::Database(error)
    }
}

impl From<CallError> for ServiceError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl ServiceError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Body { status, .. } => *status,
            Self::Field { .. } => StatusCode::BAD_REQUEST,
            Self::NotLoggedIn => StatusCode::UNAUTHORIZED,
            Self::WrongCredentials | Self::AnotherCustomer => StatusCode::FORBIDDEN,
            Self::NotFound(_) | Self::UnknownPath => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Database(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Call(_) => StatusCode::BAD_GATEWAY,
            Self::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl IntoResponse for ServiceError {
    fn into_response(self) -> Response {
        let status = self.status();
        if status.is_server_error() {
            tracing::error!(%status, error = chain(&self), "request failed");
        } else {
            tracing::debug!(%status, error = %self, "request refused");
        }
        (status, Json(json!({ "error": self.to_string() }))).into_response()
    }
}

/// An error and its causes on one line.
fn chain(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line
}
