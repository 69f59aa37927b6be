//! From options to a running service, and to its end.

use super::{
    auth, booking,
    client::{BaseUrlError, InternalClient},
    customer,
    database::{self, DatabaseError},
    flight, router,
    session::SessionKey,
    work::Work,
};
use axum::{Router, serve::ListenerExt as _};
use std::{future::Future, io, net::SocketAddr, path::PathBuf, time::Duration};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

/// How long requests in progress may take to finish once the service has been told to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// One of the application's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AirlineService {
    /// Logs customers in.
    Auth,
    /// Keeps the customers' profiles.
    Customer,
    /// Finds flights.
    Flight,
    /// Books and cancels.
    Booking,
}

impl AirlineService {
    /// Its name, as in `docs/AIRLINE.md`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Customer => "customer",
            Self::Flight => "flight",
            Self::Booking => "booking",
        }
    }
}

/// What a service needs to run.
#[derive(Clone)]
pub struct ServiceOptions {
    /// Which one it is.
    pub service: AirlineService,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The database's `mongodb://` URI. The connection is always TLS, and the name in it is what the
    /// server's certificate has to be for.
    pub database: String,
    /// PEM file with the certificates that the database's is checked against; the public ones when there is none.
    pub database_ca: Option<PathBuf>,
    /// Name of the database, `airline` by default.
    pub database_name: String,
    /// Base URL of the customer service, which auth and booking call: `http://HOST[:PORT]`.
    pub customer_url: String,
    /// Base URL of the flight service, which booking calls.
    pub flight_url: String,
    /// The key that all four services share.
    pub session_key: SessionKey,
    /// CPU time that every request from outside burns besides what it needs.
    pub app_work: Duration,
    /// Connections to the database, all opened before the service is ready.
    pub pool_size: u32,
}

/// Why a service could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The runtime did not start.
    #[error("cannot start the service's runtime")]
    Runtime(#[source] io::Error),
    /// Signals cannot be waited for.
    #[error("cannot wait for SIGTERM and SIGINT")]
    Signals(#[source] io::Error),
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The URL of another service is wrong.
    #[error(transparent)]
    BaseUrl(#[from] BaseUrlError),
    /// The CPU clock that work is calibrated against cannot be read.
    #[error("cannot read the thread's CPU clock")]
    Clock(#[source] nix::errno::Errno),
    /// The address is not to be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The listening socket failed.
    #[error("the service's listening socket failed")]
    Serve(#[source] io::Error),
}

/// Runs a service until SIGTERM or SIGINT, then lets requests in progress finish.
///
/// It listens only once its connections to the database are open, so whoever gets a connection gets an answer.
pub fn serve(options: ServiceOptions) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
        let stop = CancellationToken::new();
        let told = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            told.cancel();
        });
        let started = stop.run_until_cancelled(async {
            let router = open(&options).await?;
            let address = options.listen;
            let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
            Ok::<_, ServeError>((listener, router))
        });
        let Some(started) = started.await else { return Ok(()) };
        let (listener, router) = started?;
        tracing::info!(service = options.service.name(), address = %options.listen, "ready");
        run(listener, router, stop.cancelled()).await
    })
}

/// Opens what a service needs, the whole pool of database connections with it, and gives back its routes.
pub async fn open(options: &ServiceOptions) -> Result<Router, ServeError> {
    let work = Work::calibrated(options.app_work).map_err(ServeError::Clock)?;
    let name = options.service.name();
    let client = database::connect(&options.database, options.database_ca.as_deref(), name, options.pool_size).await?;
    let database = client.database(&options.database_name);
    let key = options.session_key.clone();
    let routes = match options.service {
        AirlineService::Auth => auth::routes(InternalClient::new(&options.customer_url)?, key),
        AirlineService::Customer => customer::routes(&database, key),
        AirlineService::Flight => flight::routes(&database),
        AirlineService::Booking => booking::routes(
            &database,
            InternalClient::new(&options.customer_url)?,
            InternalClient::new(&options.flight_url)?,
            key,
        ),
    };
    Ok(router::assemble(routes, work, database))
}

/// Answers requests until `shutdown`, then lets those in progress finish, though no longer than five seconds.
pub async fn run(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
    });
    let drain = CancellationToken::new();
    let server = axum::serve(listener, router).with_graceful_shutdown(drain.clone().cancelled_owned());
    let deadline = async {
        shutdown.await;
        drain.cancel();
        tokio::time::sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        ended = server => ended.map_err(ServeError::Serve),
        () = deadline => {
            tracing::warn!(seconds = DRAIN_TIMEOUT.as_secs(), "requests still in progress were dropped");
            Ok(())
        }
    }
}
