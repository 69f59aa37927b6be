//! The connection to the database: the official driver, TLS always, and a pool that neither grows nor shrinks.

use mongodb::{
    Client,
    bson::doc,
    event::{
        EventHandler,
        cmap::{CmapEvent, ConnectionClosedReason},
    },
    options::{ClientOptions, Tls, TlsOptions},
};
use rustls::pki_types::{
    CertificateDer,
    pem::{self, PemObject as _},
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::sync::watch;

/// How long an operation, the first one too, looks for the server before it fails.
const SERVER_SELECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long opening the whole pool may take.
const WARM_UP_TIMEOUT: Duration = Duration::from_secs(15);

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The URI cannot be understood. It is not shown, as it may hold a password.
    #[error("the database's URI is wrong: write mongodb://HOST[:PORT]/")]
    Uri(#[source] mongodb::error::Error),
    /// The URI asks for less than verified TLS.
    #[error("the database's URI turns TLS, or the check of its certificate, off: leave its tls… options out")]
    Insecure,
    /// The pool would be empty.
    #[error("the pool of database connections needs at least 1 connection")]
    EmptyPool,
    /// The file of CA certificates cannot be used.
    #[error("cannot read the database's CA certificates from {}", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// The file holds no certificate.
    #[error("there is no PEM certificate in {}", path.display())]
    NoCa {
        /// The file.
        path: PathBuf,
    },
    /// The driver does not take the options.
    #[error("cannot set the database's driver up")]
    Driver(#[source] mongodb::error::Error),
    /// The database does not answer.
    #[error("the database at {hosts} does not answer")]
    Unreachable {
        /// `HOST:PORT`s of the URI.
        hosts: String,
        /// What the driver says.
        source: mongodb::error::Error,
    },
    /// It answers, but the pool does not fill.
    #[error("only {open} of {wanted} connections to the database at {hosts} opened within {} s", WARM_UP_TIMEOUT.as_secs())]
    WarmUp {
        /// `HOST:PORT`s of the URI.
        hosts: String,
        /// Connections open.
        open: u32,
        /// Connections wanted.
        wanted: u32,
    },
}

/// Connects, and opens the whole pool, so that no handshake falls into a measurement.
pub(super) async fn connect(uri: &str, ca: Option<&Path>, app: &str, pool_size: u32) -> Result<Client, DatabaseError> {
    let mut options = ClientOptions::parse(uri).await.map_err(DatabaseError::Uri)?;
    if pool_size == 0 {
        return Err(DatabaseError::EmptyPool);
    }
    let hosts = options.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    options.tls = Some(Tls::Enabled(verified_tls(options.tls.take(), ca)?));
    options.app_name = Some(format!("airline-{app}"));
    options.min_pool_size = Some(pool_size);
    options.max_pool_size = Some(pool_size);
    options.max_connecting = Some(pool_size);
    options.server_selection_timeout = Some(SERVER_SELECTION_TIMEOUT);
    options.connect_timeout = Some(SERVER_SELECTION_TIMEOUT);
    // They need a replica set, which neither docstore nor FerretDB is.
    options.retry_writes = Some(false);
    let mut open = count_connections(&mut options);

    let client = Client::with_options(options).map_err(DatabaseError::Driver)?;
    let ping = client.database("admin").run_command(doc! { "ping": 1 }).await;
    ping.map_err(|source| DatabaseError::Unreachable { hosts: hosts.clone(), source })?;
    // It returns when connections are on their way, not when they are there.
    client.warm_connection_pool().await;
    let filled = async { open.wait_for(|open| *open >= pool_size).await.is_ok() };
    if tokio::time::timeout(WARM_UP_TIMEOUT, filled).await != Ok(true) {
        return Err(DatabaseError::WarmUp { hosts, open: *open.borrow(), wanted: pool_size });
    }
    Ok(client)
}

/// TLS with the given CA, or the public ones, whatever else the URI says of it.
fn verified_tls(from_uri: Option<Tls>, ca: Option<&Path>) -> Result<TlsOptions, DatabaseError> {
    let mut tls = match from_uri {
        None => TlsOptions::default(),
        Some(Tls::Enabled(tls)) if tls.allow_invalid_certificates != Some(true) => tls,
        Some(Tls::Enabled(_) | Tls::Disabled) => return Err(DatabaseError::Insecure),
    };
    if let Some(path) = ca {
        // The driver skips what it cannot parse, and would then fail at the handshake without saying why.
        let failed = |source| DatabaseError::Ca { path: path.to_owned(), source };
        let certificates = CertificateDer::pem_file_iter(path).map_err(failed)?;
        let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        if certificates.is_empty() {
            return Err(DatabaseError::NoCa { path: path.to_owned() });
        }
        tls.ca_file_path = Some(path.to_owned());
    }
    Ok(tls)
}

/// How many connections of the pool are open, from now on.
fn count_connections(options: &mut ClientOptions) -> watch::Receiver<u32> {
    let (open, receiver) = watch::channel(0_u32);
    options.cmap_event_handler = Some(EventHandler::callback(move |event| match event {
        CmapEvent::ConnectionReady(_) => open.send_modify(|open| *open += 1),
        CmapEvent::ConnectionClosed(closed) => {
            if closed.reason != ConnectionClosedReason::PoolClosed {
                tracing::warn!(reason = ?closed.reason, "a connection to the database closed");
            }
            open.send_modify(|open| *open = open.saturating_sub(1));
        }
        _ => {}
    }));
    receiver
}
