//! The whole process: files, ports, signals.

use crate::{
    server::{ServerConfig, run},
    tls::{TlsError, server_config},
};
use std::{io, net::SocketAddr, path::PathBuf};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

/// Where to serve, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the database.
    pub listen: SocketAddr,
    /// Address of the admin port; it shows who connects, so 127.0.0.1 is the place for it.
    pub admin: SocketAddr,
    /// The server's certificate; without it connections are plain.
    pub tls: Option<TlsFiles>,
}

/// A certificate and its key, PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate chain, the server's own first.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why the database cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A PEM file cannot be read.
    #[error("cannot read {}; check the path and its permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The certificate and key are no good.
    #[error("cannot use certificate {} with its key", certificate.display())]
    Tls {
        /// The certificate's file.
        certificate: PathBuf,
        /// Why.
        source: TlsError,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}; choose an address of this machine and a free port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The asynchronous runtime does not start, or takes no signals.
    #[error("cannot start the runtime; check the limits on files and processes")]
    Runtime(#[source] io::Error),
}

/// Serves an empty database on this thread until SIGTERM or SIGINT.
pub fn serve(options: Options) -> Result<(), ServeError> {
    let tls = match options.tls {
        Some(files) => {
            let (certificate, key) = (read(&files.certificate)?, read(&files.key)?);
            let config = server_config(&certificate, &key)
                .map_err(|source| ServeError::Tls { certificate: files.certificate, source })?;
            Some(config)
        }
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(async {
        let shutdown = termination()?;
        let listener = listen(options.listen).await?;
        let admin = listen(options.admin).await?;
        tracing::info!(listen = %options.listen, admin = %options.admin, tls = tls.is_some(), "serving");
        run(listener, ServerConfig { tls, admin: Some(admin) }, shutdown).await;
        Ok(())
    })
}

fn read(path: &PathBuf) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|source| ServeError::Read { path: path.clone(), source })
}

/// Completes at SIGTERM or SIGINT, which from now on do nothing else.
pub(crate) fn termination() -> Result<impl Future<Output = ()>, ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })
}
