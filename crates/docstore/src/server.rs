//! The server: accepts connections and serves them until it is told to stop.

use crate::{
    admin,
    connection::{ConnectionError, serve_connection},
    stats::Stats,
    store::Store,
};
use std::{
    error::Error,
    future::Future,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A client has this long for its TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Connections have this long to send their last replies when the server stops.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);

/// How often idle cursors are looked for.
const CURSOR_CHECK: Duration = Duration::from_secs(60);

/// What a server needs beside its port.
#[derive(Debug, Default)]
pub struct ServerConfig {
    /// How to speak TLS; without it connections are plain.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Where `GET /connections` and `GET /healthz` are answered, over plain HTTP. It shows who connects: bind it to 127.0.0.1.
    pub admin: Option<TcpListener>,
}

/// What all connections share.
#[derive(Default)]
struct Shared {
    store: Mutex<Store>,
    stats: Arc<Stats>,
    closing: CancellationToken,
    closing_now: CancellationToken,
}

/// Serves an empty database until `shutdown` completes; then lets the replies under way be sent, for two seconds at most.
///
/// One thread is enough: a command takes less time than its two system calls.
pub async fn run(listener: TcpListener, config: ServerConfig, shutdown: impl Future) {
    let shared = Arc::new(Shared::default());
    let tasks = TaskTracker::new();
    if let Some(admin) = config.admin {
        tasks.spawn(admin::serve(admin, Arc::clone(&shared.stats), shared.closing.clone()));
    }
    let acceptor = config.tls.map(TlsAcceptor::from);
    let mut shutdown = pin!(shutdown);
    let mut cursor_check = tokio::time::interval(CURSOR_CHECK);
    let mut next_id = 1_i32;
    loop {
        tokio::select! {
            _ = &mut shutdown => break,
            _ = cursor_check.tick() => {
                shared.store.lock().unwrap_or_else(PoisonError::into_inner).cursors.close_idle(Instant::now());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    tasks.spawn(serve_client(stream, peer, next_id, acceptor.clone(), Arc::clone(&shared)));
                    next_id = next_id.checked_add(1).unwrap_or(1);
                }
                Err(error) => recover_from_accept(&error).await,
            },
        }
    }
    shared.closing.cancel();
    tasks.close();
    if tokio::time::timeout(DRAIN_LIMIT, tasks.wait()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "connections did not end in time and are cut off");
        shared.closing_now.cancel();
        tasks.wait().await;
    }
}

/// Out of descriptors, or a client that went away: neither is the listener's end. A pause, because the former lasts.
pub(crate) async fn recover_from_accept(error: &io::Error) {
    tracing::warn!(error = error as &dyn Error, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(10)).await;
}

async fn serve_client(
    stream: TcpStream,
    peer: SocketAddr,
    id: i32,
    acceptor: Option<TlsAcceptor>,
    shared: Arc<Shared>,
) {
    let served = shared.closing_now.run_until_cancelled(serve_stream(stream, peer, id, acceptor, &shared)).await;
    match served {
        Some(Ok(())) | None => {}
        Some(Err(error @ ConnectionError::Malformed(_))) => {
            tracing::warn!(%peer, error = &error as &dyn Error, "connection closed");
        }
        Some(Err(error)) => tracing::debug!(%peer, error = &error as &dyn Error, "connection closed"),
    }
}

async fn serve_stream(
    stream: TcpStream,
    peer: SocketAddr,
    id: i32,
    acceptor: Option<TlsAcceptor>,
    shared: &Shared,
) -> Result<(), ConnectionError> {
    stream.set_nodelay(true)?;
    let Some(acceptor) = acceptor else {
        let open = shared.stats.open(peer.ip(), None, None);
        return serve_connection(stream, id, &shared.store, &open.counters, &shared.closing).await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream));
    let accepted = match shared.closing.run_until_cancelled(handshake).await {
        None => return Ok(()),
        Some(Err(_)) => Err(io::Error::new(io::ErrorKind::TimedOut, "client did not finish its TLS handshake in time")),
        Some(Ok(accepted)) => accepted,
    };
    let stream = accepted.inspect_err(|_| shared.stats.failed_handshake())?;
    let (_, session) = stream.get_ref();
    let version = session.protocol_version().map(|version| match version {
        rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
        rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3",
        _ => "unknown",
    });
    let open = shared.stats.open(peer.ip(), session.server_name(), version);
    serve_connection(stream, id, &shared.store, &open.counters, &shared.closing).await
}
