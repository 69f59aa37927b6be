//! The admin port: a little HTTP for whoever runs the proxy. It tells and changes nothing, and it has no keys to tell.

use crate::telemetry::Metrics;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use meshtoll_identity::Credentials;
use meshtoll_model::ids::SpiffeId;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde_json::Value;
use std::{
    convert::Infallible,
    error::Error,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Connections at a time. The port is for a few readers.
const MAX_CONNECTIONS: usize = 16;
/// A client has this long to ask.
const HEADER_LIMIT: Duration = Duration::from_secs(5);
/// A client has this long for question and answer.
const CONNECTION_LIMIT: Duration = Duration::from_secs(30);
/// After an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the admin port tells.
pub struct AdminState {
    /// Whether the proxy is ready.
    pub readiness: Readiness,
    /// Where all metrics are registered.
    pub registry: Registry,
    /// The data plane's own ones.
    pub metrics: Arc<Metrics>,
    /// The routes in force.
    pub routes: Box<dyn Fn() -> Value + Send + Sync>,
    /// The credentials in force; none for a proxy that is no workload of a mesh.
    pub credentials: Box<dyn Fn() -> Option<Arc<Credentials>> + Send + Sync>,
    /// What the proxy was started with.
    pub settings: Value,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState").field("readiness", &self.readiness).finish_non_exhaustive()
    }
}

/// What still has to happen before the proxy is ready. It is ready when nothing is [pending](Readiness::pending).
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Vec<&'static str>>>);

impl Readiness {
    /// Not ready until what is returned is dropped. A drain begins with one, too.
    pub fn pending(&self, what: &'static str) -> Pending {
        self.lock().push(what);
        Pending { readiness: self.clone(), what }
    }

    /// Whether nothing is pending.
    pub fn is_ready(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<&'static str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that is not done; it is when this is dropped.
#[derive(Debug)]
#[must_use = "the proxy is ready once this is dropped"]
pub struct Pending {
    readiness: Readiness,
    what: &'static str,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut all = self.readiness.lock();
        if let Some(index) = all.iter().position(|what| *what == self.what) {
            all.swap_remove(index);
        }
    }
}

/// Answers on `listener` until `shutdown` is done, whoever is being answered then included.
pub async fn run(listener: TcpListener, state: Arc<AdminState>, shutdown: impl Future<Output = ()>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let (closing, connections) = (CancellationToken::new(), TaskTracker::new());
    let accept = async {
        loop {
            // A connection that has to wait does so in the listener's queue.
            let Ok(slot) = slots.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (state, closing) = (state.clone(), closing.clone());
                    connections.spawn(async move {
                        closing.run_until_cancelled(serve(stream, &state)).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn Error, "a connection to the admin port was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = shutdown => {}
    }
    closing.cancel();
    connections.close();
    connections.wait().await;
}

async fn serve(stream: TcpStream, state: &AdminState) {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, state))));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_LIMIT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error = &error as &dyn Error, "admin request failed"),
        Err(_) => tracing::debug!("admin request took too long"),
    }
}

fn answer(request: &Request<Incoming>, state: &AdminState) -> Response<Full<Bytes>> {
    let answers: fn(&AdminState) -> Answer = match request.uri().path() {
        "/healthz/ready" => readiness,
        "/metrics" => metrics,
        "/config_dump" => config_dump,
        "/counters" => |state| Answer::json(&state.metrics.counters()),
        _ => {
            let known = "there are /healthz/ready, /metrics, /config_dump and /counters\n";
            return Answer::text(StatusCode::NOT_FOUND, known.to_owned()).into_response();
        }
    };
    if *request.method() == Method::GET || *request.method() == Method::HEAD {
        return answers(state).into_response();
    }
    let refused = Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here\n".to_owned());
    let mut response = refused.into_response();
    response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
    response
}

fn readiness(state: &AdminState) -> Answer {
    let pending = state.readiness.lock().join(", ");
    if pending.is_empty() {
        Answer::text(StatusCode::OK, "ready\n".to_owned())
    } else {
        Answer::text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {pending}\n"))
    }
}

fn metrics(state: &AdminState) -> Answer {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &state.registry) {
        Ok(()) => Answer { status: StatusCode::OK, kind: OPEN_METRICS, body: text.into() },
        Err(error) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn config_dump(state: &AdminState) -> Answer {
    /// All there is to know of a certificate; its key is not.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Certificate {
        subject: String,
        not_before: Option<String>,
        not_after: Option<String>,
        expired: bool,
    }
    #[derive(Serialize)]
    struct ConfigDump<'a> {
        settings: &'a Value,
        certificate: Option<Certificate>,
        routes: Value,
    }
    let rfc3339 = |time: SystemTime| OffsetDateTime::from(time).format(&Rfc3339).ok();
    let certificate = (state.credentials)().map(|credentials| Certificate {
        subject: SpiffeId::to_string(credentials.identity()),
        not_before: rfc3339(credentials.not_before()),
        not_after: rfc3339(credentials.not_after()),
        expired: credentials.not_after() <= SystemTime::now(),
    });
    Answer::json(&ConfigDump { settings: &state.settings, certificate, routes: (state.routes)() })
}

struct Answer {
    status: StatusCode,
    kind: &'static str,
    body: Bytes,
}

impl Answer {
    fn text(status: StatusCode, text: String) -> Self {
        Self { status, kind: TEXT, body: text.into() }
    }

    fn json(value: &impl Serialize) -> Self {
        match serde_json::to_vec_pretty(value) {
            Ok(json) => Self { status: StatusCode::OK, kind: JSON, body: json.into() },
            Err(error) => Self::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body));
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(self.kind));
        response
    }
}

#[cfg(test)]
mod tests;
