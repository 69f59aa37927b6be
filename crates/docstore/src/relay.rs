//! A relay in the database's place, for a database that runs elsewhere: passes the bytes of each connection on as they
//! are, and keeps the same record of who connected as the embedded database does.
//!
//! A relay cannot read commands inside TLS. In its record, `operations` are therefore the pieces of data received from
//! clients, drivers' own heartbeats among them; the bytes are those of the connections, TLS included; and `tls` is
//! `TLS` in any version, because the server chooses that later on.
//!
//! Out of scope: TLS of its own, and where the connections to the database come from.

mod opening;

use crate::{
    admin,
    serve::{ServeError, listen, termination},
    server::recover_from_accept,
    stats::{Counters, Stats},
};
use bytes::BytesMut;
use opening::{MalformedHello, Opening};
use std::{
    error::Error,
    io,
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A client has this long for its first bytes.
const OPENING_LIMIT: Duration = Duration::from_secs(10);
/// Most of a client's first bytes that are kept while it is not known what they are. A ClientHello has about 2 kB.
const OPENING_BYTES: usize = 64 * 1024;
/// Room for one read.
const READ_BYTES: usize = 16 * 1024;
/// What the record says of TLS.
const TLS: &str = "TLS";

/// Where to relay.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the database that the relay stands for.
    pub listen: SocketAddr,
    /// Address of the admin port, as the embedded database's.
    pub admin: SocketAddr,
}

/// Why a connection ended otherwise than by both sides' wish.
#[derive(Debug, thiserror::Error)]
enum RelayError {
    #[error("client did not send its first bytes within {} s", OPENING_LIMIT.as_secs())]
    Silent,
    #[error("client's TLS ClientHello is longer than {OPENING_BYTES} bytes")]
    TooLong,
    #[error(transparent)]
    Malformed(#[from] MalformedHello),
    #[error("the database cannot be reached")]
    Unreachable(#[source] io::Error),
    #[error("connection broke")]
    Io(#[from] io::Error),
}

/// Relays on this thread until SIGTERM or SIGINT. `connect` makes a connection to the database; it may block.
pub fn serve<C>(options: &Options, connect: C) -> Result<(), ServeError>
where
    C: Fn() -> io::Result<std::net::TcpStream> + Send + Sync + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let served = runtime.block_on(async {
        let shutdown = termination()?;
        let listener = listen(options.listen).await?;
        let admin = listen(options.admin).await?;
        run(listener, admin, connect, shutdown).await;
        Ok(())
    });
    // A connection that is just being made is waited for by nobody any more.
    runtime.shutdown_background();
    served
}

/// Relays until `shutdown` completes, and then cuts all connections.
pub async fn run<C>(listener: TcpListener, admin: TcpListener, connect: C, shutdown: impl Future)
where
    C: Fn() -> io::Result<std::net::TcpStream> + Send + Sync + 'static,
{
    let (stats, connect, closing) = (Arc::new(Stats::default()), Arc::new(connect), CancellationToken::new());
    let tasks = TaskTracker::new();
    tasks.spawn(admin::serve(admin, Arc::clone(&stats), closing.clone()));
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            _ = &mut shutdown => break,
            accepted = listener.accept() => match accepted {
                Ok((client, peer)) => {
                    let (stats, connect, closing) = (Arc::clone(&stats), Arc::clone(&connect), closing.clone());
                    tasks.spawn(async move {
                        let relayed = closing.run_until_cancelled(relay(client, peer, &stats, connect)).await;
                        report(peer, relayed.unwrap_or(Ok(())));
                    });
                }
                Err(error) => recover_from_accept(&error).await,
            },
        }
    }
    closing.cancel();
    tasks.close();
    tasks.wait().await;
}

fn report(peer: SocketAddr, relayed: Result<(), RelayError>) {
    match relayed {
        Ok(()) => {}
        Err(error @ RelayError::Io(_)) => tracing::debug!(%peer, error = &error as &dyn Error, "connection closed"),
        Err(error) => tracing::warn!(%peer, error = &error as &dyn Error, "connection closed"),
    }
}

async fn relay<C>(mut client: TcpStream, peer: SocketAddr, stats: &Stats, connect: Arc<C>) -> Result<(), RelayError>
where
    C: Fn() -> io::Result<std::net::TcpStream> + Send + Sync + 'static,
{
    client.set_nodelay(true)?;
    let mut first = BytesMut::with_capacity(READ_BYTES);
    let opening = tokio::time::timeout(OPENING_LIMIT, read_opening(&mut client, &mut first)).await;
    let opening = opening.unwrap_or(Err(RelayError::Silent)).inspect_err(|_| stats.failed_handshake())?;
    let (server_name, tls) = match &opening {
        // It has closed the connection before it said what it wants.
        Opening::Incomplete => return Ok(()),
        Opening::Plain => (None, None),
        Opening::Tls { server_name } => (server_name.as_deref(), Some(TLS)),
    };
    let open = stats.open(peer.ip(), server_name, tls);
    let Counters { operations, bytes_in, bytes_out, .. } = &*open.counters;

    let connected = tokio::task::spawn_blocking(move || connect()).await;
    let connected = connected.unwrap_or_else(|error| Err(io::Error::other(error)));
    let database = connected.map_err(RelayError::Unreachable)?;
    database.set_nonblocking(true)?;
    let mut database = TcpStream::from_std(database)?;
    database.set_nodelay(true)?;

    let received = |length| {
        operations.fetch_add(1, Relaxed);
        count(bytes_in, length);
    };
    received(first.len());
    database.write_all(&first).await?;
    drop(first);
    let (from_client, to_client) = client.split();
    let (from_database, to_database) = database.split();
    tokio::try_join!(
        forward(from_client, to_database, received),
        forward(from_database, to_client, |length| count(bytes_out, length)),
    )?;
    Ok(())
}

fn count(bytes: &AtomicU64, length: usize) {
    bytes.fetch_add(length as u64, Relaxed);
}

/// Reads into `first` until it is known what the connection is, or the client has no more to say.
async fn read_opening(client: &mut TcpStream, first: &mut BytesMut) -> Result<Opening, RelayError> {
    loop {
        if client.read_buf(first).await? == 0 {
            return Ok(Opening::Incomplete);
        }
        match opening::read(first)? {
            Opening::Incomplete if first.len() > OPENING_BYTES => return Err(RelayError::TooLong),
            Opening::Incomplete => first.reserve(READ_BYTES),
            known => return Ok(known),
        }
    }
}

/// Passes one direction on to its end, and then the end.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    count: impl Fn(usize),
) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        count(length);
        to.write_all(&buffer[..length]).await?;
    }
}
