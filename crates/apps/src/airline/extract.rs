//! Request parts in the contract's terms: forms and JSON with errors that name the field, and the session.

use super::{documents::CustomerId, error::ServiceError, session::SessionKey};
use axum::{
    extract::{
        FromRef, FromRequest, FromRequestParts, Request,
        rejection::{FormRejection, JsonRejection},
    },
    http::{StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;
use std::time::SystemTime;

/// A form's fields.
pub(super) struct Form<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Form<T> {
    type Rejection = ServiceError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ServiceError> {
        match axum::Form::from_request(request, state).await {
            Ok(axum::Form(fields)) => Ok(Self(fields)),
            Err(rejection) => Err(match &rejection {
                FormRejection::FailedToDeserializeFormBody(_) => bad_request(rejection.body_text()),
                _ => ServiceError::Body { status: rejection.status(), message: rejection.body_text() },
            }),
        }
    }
}

/// A JSON body.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ServiceError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ServiceError> {
        match axum::Json::from_request(request, state).await {
            Ok(axum::Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(match &rejection {
                JsonRejection::JsonDataError(_) => bad_request(rejection.body_text()),
                _ => ServiceError::Body { status: rejection.status(), message: rejection.body_text() },
            }),
        }
    }
}

/// The contract has one status for whatever a field holds that it may not, where axum has 422 for some.
fn bad_request(message: String) -> ServiceError {
    ServiceError::Body { status: StatusCode::BAD_REQUEST, message }
}

/// The customer whose session the request belongs to.
pub(super) struct LoggedIn(CustomerId);

impl LoggedIn {
    /// The customer, if it is the one that the request names.
    pub(super) fn must_be(self, named: &str) -> Result<CustomerId, ServiceError> {
        if self.0.as_str() == named { Ok(self.0) } else { Err(ServiceError::AnotherCustomer) }
    }
}

impl<S: Sync> FromRequestParts<S> for LoggedIn
where
    SessionKey: FromRef<S>,
{
    type Rejection = ServiceError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ServiceError> {
        let cookies = parts.headers.get_all(header::COOKIE);
        let token = cookies
            .iter()
            .filter_map(|cookies| cookies.to_str().ok())
            .flat_map(|cookies| cookies.split(';'))
            .find_map(|cookie| cookie.trim().strip_prefix(super::session::COOKIE_NAME)?.strip_prefix('='))
            .ok_or(ServiceError::NotLoggedIn)?;
        SessionKey::from_ref(state).verify(token, SystemTime::now()).map(Self).map_err(|_| ServiceError::NotLoggedIn)
    }
}
