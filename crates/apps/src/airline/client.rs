//! Calls to the application's other services: plain HTTP/1.1 on kept connections, which a sidecar may intercept.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode, Uri, header};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{error::Error, fmt::Write as _, time::Duration};

/// Longest that a call may take, connecting included.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// A base URL of a service that cannot be called.
#[derive(Debug, thiserror::Error)]
#[error("`{url}` is not a service's base URL: write http://HOST or http://HOST:PORT")]
pub struct BaseUrlError {
    /// What was given.
    pub url: String,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// The question cannot be sent as it is.
    #[error("cannot make the request for {url}")]
    Question { url: String, source: Box<dyn Error + Send + Sync> },
    /// No answer: no connection, or it broke.
    #[error("no answer from {url}")]
    NoAnswer { url: String, source: hyper_util::client::legacy::Error },
    /// The answer did not come in time.
    #[error("no answer from {url} within {} s", CALL_TIMEOUT.as_secs())]
    Timeout { url: String },
    /// The answer was cut off, or is too long.
    #[error("cannot read the answer of {url}")]
    Body { url: String, source: Box<dyn Error + Send + Sync> },
    /// The service refused.
    #[error("{url} answered {status}: {body}")]
    Status { url: String, status: StatusCode, body: String },
    /// The answer is not what was expected.
    #[error("the answer of {url} makes no sense")]
    Answer { url: String, source: serde_json::Error },
}

/// Calls one service.
#[derive(Clone)]
pub(super) struct InternalClient {
    http: Client<HttpConnector, Full<Bytes>>,
    base: String,
}

impl InternalClient {
    /// A client of the service at `base`; connections open when they are needed, and stay.
    pub(super) fn new(base: &str) -> Result<Self, BaseUrlError> {
        let usable = |uri: &Uri| {
            uri.scheme_str() == Some("http")
                && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
                && uri.path_and_query().is_none_or(|path| path == "/")
        };
        let uri = base.parse().ok().filter(usable).ok_or_else(|| BaseUrlError { url: base.to_owned() })?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http = Client::builder(TokioExecutor::new()).pool_idle_timeout(None).build(connector);
        let base = format!("http://{}", uri.authority().map_or("", |authority| authority.as_str()));
        Ok(Self { http, base })
    }

    /// Posts JSON to a path that starts with a slash, and reads the JSON that comes back.
    pub(super) async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        question: &impl Serialize,
    ) -> Result<A, CallError> {
        let url = format!("{}{path}", self.base);
        match tokio::time::timeout(CALL_TIMEOUT, self.exchange(&url, question)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Timeout { url }),
        }
    }

    async fn exchange<A: DeserializeOwned>(&self, url: &str, question: &impl Serialize) -> Result<A, CallError> {
        let url = || url.to_owned();
        let body =
            serde_json::to_vec(question).map_err(|error| CallError::Question { url: url(), source: error.into() })?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(url())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| CallError::Question { url: url(), source: error.into() })?;
        let response = self.http.request(request).await.map_err(|source| CallError::NoAnswer { url: url(), source })?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES)
            .collect()
            .await
            .map_err(|source| CallError::Body { url: url(), source })?
            .to_bytes();
        if status != StatusCode::OK {
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(CallError::Status { url: url(), status, body });
        }
        serde_json::from_slice(&body).map_err(|source| CallError::Answer { url: url(), source })
    }
}

/// A string as one segment of a path (RFC 3986, section 3.3), so that no id can name another path.
pub(super) fn path_segment(text: &str) -> String {
    let mut segment = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => segment.push(byte.into()),
            _ => {
                let _ = write!(segment, "%{byte:02X}");
            }
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls() {
        for good in ["http://customer:9080", "http://customer.airline.svc.cluster.local/", "http://10.0.0.1:80"] {
            assert!(InternalClient::new(good).is_ok(), "{good}");
        }
        for bad in
            ["", "customer:9080", "https://customer", "http://", "http://c/path", "http://c/?q", "http://u@c", "/x"]
        {
            assert!(InternalClient::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ids_stay_one_segment() {
        assert_eq!(path_segment("uid0@airline.example"), "uid0@airline.example");
        assert_eq!(path_segment("../a b?ü"), "..%2Fa%20b%3F%C3%BC");
    }
}
