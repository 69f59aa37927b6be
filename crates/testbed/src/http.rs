//! One blocking `GET` from the calling thread's network namespace.

use http_body_util::BodyExt as _;
use hyper::{Request, StatusCode, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use std::{io, net::SocketAddrV4, string::FromUtf8Error, time::Duration};
use tokio::{net::TcpStream, runtime, time};

/// Why a `GET` brought no text.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No runtime to run it on.
    #[error("cannot start a runtime")]
    Runtime(#[source] io::Error),
    /// Nobody listens, or not here.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The path cannot be asked for.
    #[error("the path is malformed")]
    Request(#[from] hyper::http::Error),
    /// The connection broke, or no HTTP is spoken there.
    #[error("the exchange failed")]
    Exchange(#[from] hyper::Error),
    /// No whole answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The answer is not 200.
    #[error("the answer is {0}")]
    Status(StatusCode),
    /// The answer is no text.
    #[error("the answer is not UTF-8")]
    Text(#[from] FromUtf8Error),
}

/// The body of the answer 200 to `GET path`.
pub(crate) fn get(address: SocketAddrV4, path: &str, timeout: Duration) -> Result<String, HttpError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(HttpError::Runtime)?;
    runtime.block_on(async {
        time::timeout(timeout, exchange(address, path)).await.map_err(|_| HttpError::TimedOut(timeout))?
    })
}

async fn exchange(address: SocketAddrV4, path: &str) -> Result<String, HttpError> {
    let stream = TcpStream::connect(address).await.map_err(HttpError::Connect)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong with the connection, the request tells too; the task ends with the runtime.
    let _connection = tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, address.to_string()).body(String::new())?;
    let answer = sender.send_request(request).await?;
    if answer.status() != StatusCode::OK {
        return Err(HttpError::Status(answer.status()));
    }
    let body = answer.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec())?)
}
