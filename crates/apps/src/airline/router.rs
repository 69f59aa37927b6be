//! What all services have in common around their own routes.

use super::{error::ServiceError, work::Work};
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request, State},
    middleware::{self, Next},
    response::Response,
    routing::get,
};
use mongodb::{Database, bson::doc};
use std::time::Duration;

/// Longest request body: several times the largest that the contract asks for.
const MAX_BODY_BYTES: usize = 16 * 1024;
/// Longest that a request may take; what hangs then gives its database connection up.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest that the database may take to answer a health check.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// A service's own routes.
pub(super) struct Routes {
    /// What clients call: each request does the configured work.
    pub(super) outside: Router,
    /// What other services call.
    pub(super) internal: Router,
}

/// The whole of what a service answers.
pub(super) fn assemble(routes: Routes, work: Work, database: Database) -> Router {
    let outside = if work.is_nothing() {
        routes.outside
    } else {
        routes.outside.route_layer(middleware::from_fn_with_state(work, do_work))
    };
    outside
        .merge(routes.internal)
        .layer(middleware::from_fn(limit_time))
        .route("/healthz", get(health).with_state(database))
        .fallback(async || ServiceError::UnknownPath)
        .method_not_allowed_fallback(async || ServiceError::WrongMethod)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
}

async fn do_work(State(work): State<Work>, request: Request, next: Next) -> Response {
    work.run();
    next.run(request).await
}

async fn limit_time(request: Request, next: Next) -> Result<Response, ServiceError> {
    tokio::time::timeout(REQUEST_TIMEOUT, next.run(request))
        .await
        .map_err(|_| ServiceError::TimedOut { after: REQUEST_TIMEOUT })
}

async fn health(State(database): State<Database>) -> Result<&'static str, ServiceError> {
    let ping = async { database.run_command(doc! { "ping": 1 }).await };
    match tokio::time::timeout(HEALTH_TIMEOUT, ping).await {
        Ok(answer) => answer.map(|_| "ok").map_err(ServiceError::Database),
        Err(_) => Err(ServiceError::TimedOut { after: HEALTH_TIMEOUT }),
    }
}
