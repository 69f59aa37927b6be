//! The admin port: a little HTTP for whoever runs the database.

use crate::{server::recover_from_accept, stats::Stats};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{convert::Infallible, error::Error, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

/// Requests at a time. The port is for one reader.
const MAX_CONNECTIONS: usize = 16;

/// A client has this long for its request.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// Answers `GET /connections` with a [`Snapshot`](crate::stats::Snapshot) and `GET /healthz` with 200 until `closing`
/// is cancelled.
pub(crate) async fn serve(listener: TcpListener, stats: Arc<Stats>, closing: CancellationToken) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let accept = async {
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (stats, closing) = (Arc::clone(&stats), closing.clone());
                    tokio::spawn(async move {
                        closing.run_until_cancelled(serve_request(stream, &stats)).await;
                        drop(slot);
                    });
                }
                Err(error) => recover_from_accept(&error).await,
            }
        }
    };
    closing.run_until_cancelled(accept).await;
}

async fn serve_request(stream: TcpStream, stats: &Stats) {
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, stats))));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_LIMIT)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(2 * REQUEST_LIMIT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error = &error as &dyn Error, "admin request failed"),
        Err(_) => tracing::debug!("admin request took too long"),
    }
}

fn answer(request: &Request<Incoming>, stats: &Stats) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/healthz") => (StatusCode::OK, "text/plain", Bytes::from_static(b"ok\n")),
        (&Method::GET, "/connections") => match serde_json::to_vec(&stats.snapshot()) {
            Ok(json) => (StatusCode::OK, "application/json", json.into()),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string().into()),
        },
        (_, "/healthz" | "/connections") => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", Bytes::from_static(b"only GET is allowed here\n"))
        }
        _ => (StatusCode::NOT_FOUND, "text/plain", Bytes::from_static(b"there are /healthz and /connections\n")),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
