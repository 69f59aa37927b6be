use super::ResolveError;
use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name could not be looked up: whether it has an address is not known.
    #[error("cannot look {host} up: {source}")]
    Resolve {
        /// The name.
        host: Box<str>,
        /// Why.
        source: ResolveError,
    },
    /// There is no such name, or it has no address.
    #[error("{host} has no address")]
    NoAddress {
        /// The name.
        host: Box<str>,
    },
    /// The name leads only to addresses that are not public, and only public ones are allowed.
    #[error(
        "{host} leads to {address}, which is not a public address: if it is meant to be reached by a name that clients \
         choose, allow its range"
    )]
    RefusedAddress {
        /// The name.
        host: Box<str>,
        /// One of its addresses.
        address: IpAddr,
    },
    /// There was neither a connection nor a failure of all attempts in time.
    #[error("no connection within {timeout:?}{attempts}")]
    Timeout {
        /// The time there was.
        timeout: Duration,
        /// What was tried; nothing where the lookup took all the time.
        attempts: Attempts,
    },
    /// All attempts failed.
    #[error("no address could be connected to{attempts}")]
    Failed {
        /// What was tried.
        attempts: Attempts,
    },
    /// This process or machine has no more descriptors or memory for sockets: not the upstream's fault.
    #[error("out of sockets: {source}; raise the limit of open files (RLIMIT_NOFILE), or limit connections")]
    LocalLimit {
        /// What the system said.
        source: io::Error,
    },
}

/// Attempts to connect, in the order in which they ended.
#[derive(Debug, Default)]
pub struct Attempts(pub Vec<Attempt>);

/// An attempt to connect that failed.
#[derive(Debug)]
pub struct Attempt {
    /// Where to.
    pub address: SocketAddr,
    /// Why it failed.
    pub error: io::Error,
}

impl ConnectError {
    pub(super) fn from_lookup(host: &str, error: ResolveError) -> Self {
        match error {
            ResolveError::NoRecords => Self::NoAddress { host: host.into() },
            ResolveError::LocalLimit(source) => Self::LocalLimit { source },
            source => Self::Resolve { host: host.into(), source },
        }
    }
}

impl fmt::Display for Attempts {
    /// Each as `; ADDRESS: ERROR`, behind what is told of the whole.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|attempt| write!(f, "; {}: {}", attempt.address, attempt.error))
    }
}

/// Whether the error says that this process or machine is out of descriptors or memory, which no other address mends.
pub(super) fn is_local_limit(error: &io::Error) -> bool {
    use nix::libc::{EMFILE, ENFILE, ENOBUFS, ENOMEM};
    matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS | ENOMEM))
}
