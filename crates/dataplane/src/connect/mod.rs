//! Connections to upstreams: from a permit and a target to a connected socket.
//!
//! A target's addresses are looked up, filtered, ordered and tried as RFC 8305 ("happy eyeballs") has it; addresses that failed
//! lately are tried last. TLS to the upstream is somebody else's.

mod eject;
mod error;
mod public;
mod race;
mod resolve;
mod runtime;

pub use error::{Attempt, Attempts, ConnectError};
pub use resolve::{NameServers, ResolveError, Resolver, ResolverError, ResolverSettings};

use eject::Ejections;
use meshtoll_model::cidr::Cidr;
use meshtoll_policy::authorization::Permit;
use std::{
    array,
    hash::{DefaultHasher, Hash, Hasher},
    net::{IpAddr, SocketAddr, SocketAddrV4},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

/// Addresses that are tried for one connection at most: a name's owner says how many addresses it has, and each attempt holds
/// a descriptor.
const MAX_ATTEMPTS: usize = 8;

/// Opens connections to upstreams, to those who have a permit.
///
/// ```compile_fail,E0061
/// async fn without_permit(connector: &meshtoll_dataplane::connect::Connector) {
///     let _ = connector.connect(&meshtoll_dataplane::connect::Target::Addresses(&[])).await;
/// }
/// ```
#[derive(Debug)]
pub struct Connector {
    resolver: Resolver,
    settings: ConnectSettings,
    ejections: Ejections,
    /// Where to start among the addresses of a target, counted up with each connection. Targets share counters by hash, so
    /// that there are few; one counter for all would let targets that take turns get the same address each time.
    starts: [AtomicUsize; 64],
}

/// How connections are opened.
#[derive(Clone, Debug)]
pub struct ConnectSettings {
    /// Within this a connection stands or has failed, lookup and all attempts included.
    pub connect_timeout: Duration,
    /// How long an attempt is alone before the next address is tried beside it (RFC 8305 section 5).
    pub attempt_delay: Duration,
    /// Mark of the sockets (`SO_MARK`), where interception knows the proxy's own traffic by it. Needs `CAP_NET_ADMIN`.
    pub socket_mark: Option<u32>,
    /// Ranges in which an address may be although it is not public.
    pub private_allowed: Vec<Cidr>,
}

impl Default for ConnectSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            attempt_delay: Duration::from_millis(250),
            socket_mark: None,
            private_allowed: Vec::new(),
        }
    }
}

/// What is connected to.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Target<'a> {
    /// One of these addresses, in turn.
    Addresses(&'a [SocketAddrV4]),
    /// A host.
    Name {
        /// Its full name (search domains are not applied), or an address.
        host: &'a str,
        /// The port.
        port: u16,
        /// Whether addresses that are not public are refused: the client chose the name, and could choose one whose owner
        /// has it lead into the mesh (DNS rebinding).
        only_public: bool,
    },
}

/// A connection that stands.
#[derive(Debug)]
pub struct Connected {
    /// The connection, with `TCP_NODELAY`.
    pub stream: TcpStream,
    /// The address that it leads to.
    pub address: SocketAddr,
}

impl Connector {
    /// A connector that looks names up with `resolver`.
    pub fn new(resolver: Resolver, settings: ConnectSettings) -> Self {
        let starts = array::from_fn(|_| AtomicUsize::new(0));
        Self { resolver, settings, ejections: Ejections::default(), starts }
    }

    /// Opens a connection to `target`; the permit is used up by it.
    pub async fn connect(&self, target: &Target<'_>, _permit: Permit) -> Result<Connected, ConnectError> {
        let deadline = Instant::now() + self.settings.connect_timeout;
        let lookup = timeout_at(deadline, self.addresses(target)).await;
        let addresses = lookup.unwrap_or_else(|_| {
            Err(ConnectError::Timeout { timeout: self.settings.connect_timeout, attempts: Attempts::default() })
        })?;
        self.race(&self.in_order(target, addresses), deadline).await
    }

    /// The addresses that may be connected to: at least one.
    async fn addresses(&self, target: &Target<'_>) -> Result<Vec<SocketAddr>, ConnectError> {
        let (host, port, only_public) = match *target {
            Target::Addresses([]) => return Err(ConnectError::NoAddress { host: "the upstream".into() }),
            Target::Addresses(addresses) => return Ok(addresses.iter().copied().map(SocketAddr::V4).collect()),
            Target::Name { host, port, only_public } => (host, port, only_public),
        };
        let all = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.resolver.lookup(host).await.map_err(|error| ConnectError::from_lookup(host, error))?,
        };
        let is_allowed =
            |address: &IpAddr| !only_public || public::is_allowed(*address, &self.settings.private_allowed);
        let (allowed, refused): (Vec<_>, Vec<_>) =
            all.into_iter().map(|address| address.to_canonical()).partition(is_allowed);
        match refused.first() {
            Some(address) if allowed.is_empty() => {
                Err(ConnectError::RefusedAddress { host: host.into(), address: *address })
            }
            _ => Ok(allowed.into_iter().map(|address| SocketAddr::new(address, port)).collect()),
        }
    }

    /// The addresses to try, in order: families in turn, IPv6 first (RFC 8305 section 4), each family beginning one
    /// address further than for the connection before; ejected ones last.
    fn in_order(&self, target: &Target<'_>, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let (mut six, mut four): (Vec<_>, Vec<_>) = addresses.into_iter().partition(SocketAddr::is_ipv6);
        let start = self.start(target);
        for family in [&mut six, &mut four] {
            if !family.is_empty() {
                let start = start % family.len();
                family.rotate_left(start);
            }
        }
        let longer = six.len().max(four.len());
        let in_turn = (0..longer).flat_map(|index| [six.get(index), four.get(index)]).flatten().copied();
        let mut ordered = self.ejections.last(in_turn, Instant::now());
        ordered.truncate(MAX_ATTEMPTS);
        ordered
    }

    fn start(&self, target: &Target<'_>) -> usize {
        let mut hasher = DefaultHasher::new();
        target.hash(&mut hasher);
        let counter = hasher.finish() % self.starts.len() as u64;
        self.starts[counter as usize].fetch_add(1, Relaxed)
    }
}

#[cfg(test)]
mod tests;
