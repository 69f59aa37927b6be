//! Addresses of names.

use super::runtime::{LastOpening, MarkedRuntime};
use crate::classify::is_host_name;
use hickory_resolver::{
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{Name, RecordType},
    },
    system_conf::read_system_conf,
};
use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    pin::pin,
    time::Duration,
};
use tokio::time::timeout;

/// How long the addresses of one family wait for those of the other (RFC 8305 section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// Looks names up in DNS, and remembers what it learned for as long as DNS allows. Cheap to clone; clones share what they know.
///
/// Names are taken as they are: no search domains, no hosts file. Lookups of a name that are under way at the same time
/// are one.
#[derive(Clone)]
pub struct Resolver {
    inner: hickory_resolver::Resolver<MarkedRuntime>,
    last_opening: LastOpening,
}

/// How names are looked up.
#[derive(Clone, Debug)]
pub struct ResolverSettings {
    /// Whom to ask.
    pub name_servers: NameServers,
    /// Bounds within which the TTL of an answer is kept to.
    pub ttl: RangeInclusive<Duration>,
    /// The same for the answer that there is none; the lower one where its TTL is not said (no SOA record).
    pub negative_ttl: RangeInclusive<Duration>,
    /// How long a try of one lookup may take.
    pub timeout: Duration,
    /// How many more tries there are.
    pub retries: usize,
    /// Answers remembered, two a name: clients that choose names can make it any number.
    pub cache_entries: u64,
    /// Mark of the sockets, as for connections.
    pub socket_mark: Option<u32>,
}

/// Whom to ask.
#[derive(Clone, Debug)]
pub enum NameServers {
    /// Those of `/etc/resolv.conf`, as it was at the start.
    System,
    /// These.
    Given(Vec<SocketAddr>),
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self {
            name_servers: NameServers::System,
            ttl: Duration::from_secs(1)..=Duration::from_secs(300),
            negative_ttl: Duration::from_secs(5)..=Duration::from_secs(300),
            timeout: Duration::from_secs(2),
            retries: 1,
            cache_entries: 4096,
            socket_mark: None,
        }
    }
}

/// Why there is no resolver.
#[derive(Debug, thiserror::Error)]
pub enum ResolverError {
    /// The system's name servers are not known.
    #[error("cannot read name servers from /etc/resolv.conf: {0}")]
    System(#[source] NetError),
    /// There are no name servers.
    #[error("there are no name servers: name at least one")]
    NoNameServers,
    /// The resolver could not be made.
    #[error("cannot set the resolver up: {0}")]
    Setup(#[source] NetError),
}

/// Why a name has no addresses.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// There is no such name, or it has no address.
    #[error("no such name, or it has no address")]
    NoRecords,
    /// It is not the name of a host.
    #[error("it is not the name of a host")]
    BadName,
    /// Nobody answered in time.
    #[error("no name server answered in time")]
    Timeout,
    /// A name server says that it failed.
    #[error("the name server answered {0}")]
    Server(ResponseCode),
    /// This process or machine has no more descriptors or memory for sockets.
    #[error("out of sockets: {0}")]
    LocalLimit(#[source] io::Error),
    /// No name server could be asked, or its answer could not be read.
    #[error("{0}")]
    Exchange(#[source] NetError),
}

impl Resolver {
    /// A resolver that knows nothing yet. Needs no runtime until it is asked.
    pub fn new(settings: ResolverSettings) -> Result<Self, ResolverError> {
        let servers = match settings.name_servers {
            NameServers::System => {
                let (config, _) = read_system_conf().map_err(ResolverError::System)?;
                config.name_servers().to_vec()
            }
            NameServers::Given(addresses) => addresses.into_iter().map(name_server).collect(),
        };
        if servers.is_empty() {
            return Err(ResolverError::NoNameServers);
        }
        let last_opening = LastOpening::default();
        let runtime = MarkedRuntime {
            tokio: TokioRuntimeProvider::default(),
            socket_mark: settings.socket_mark,
            last_opening: last_opening.clone(),
        };
        let config = ResolverConfig::from_name_servers(servers);
        let mut builder = hickory_resolver::Resolver::builder_with_config(config, runtime);
        let options: &mut ResolverOpts = builder.options_mut();
        options.use_hosts_file = ResolveHosts::Never;
        options.cache_size = settings.cache_entries;
        options.timeout = settings.timeout;
        options.attempts = settings.retries;
        options.positive_min_ttl = Some(*settings.ttl.start());
        options.positive_max_ttl = Some(*settings.ttl.end());
        options.negative_min_ttl = Some(*settings.negative_ttl.start());
        options.negative_max_ttl = Some(*settings.negative_ttl.end());
        let inner = builder.build().map_err(ResolverError::Setup)?;
        Ok(Self { inner, last_opening })
    }

    /// All addresses of a host: at least one, IPv6 before IPv4.
    pub async fn lookup(&self, host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let host = host.strip_suffix('.').unwrap_or(host);
        if !is_host_name(host.as_bytes()) {
            return Err(ResolveError::BadName);
        }
        let mut name = Name::from_ascii(host.to_ascii_lowercase()).map_err(|_| ResolveError::BadName)?;
        name.set_fqdn(true);
        let six = self.lookup_family(name.clone(), RecordType::AAAA);
        let four = self.lookup_family(name, RecordType::A);
        match both_or_soon(six, four).await {
            (Some(Err(six)), Some(Err(four))) => Err(worse(six, four)),
            (six, four) => Ok([six, four].into_iter().flatten().flatten().flatten().collect()),
        }
    }

    async fn lookup_family(&self, name: Name, family: RecordType) -> Result<Vec<IpAddr>, ResolveError> {
        let answer = self.inner.lookup(name, family).await.map_err(|error| self.explain(error))?;
        let addresses: Vec<_> = answer.answers().iter().filter_map(|record| record.data.ip_addr()).collect();
        if addresses.is_empty() { Err(ResolveError::NoRecords) } else { Ok(addresses) }
    }

    fn explain(&self, error: NetError) -> ResolveError {
        match error {
            NetError::Dns(DnsError::NoRecordsFound(_)) => ResolveError::NoRecords,
            NetError::Dns(DnsError::ResponseCode(code)) => ResolveError::Server(code),
            error => match (self.last_opening.local_limit(), error) {
                (Some(limit), _) => ResolveError::LocalLimit(limit),
                (None, NetError::Timeout) => ResolveError::Timeout,
                (None, error) => ResolveError::Exchange(error),
            },
        }
    }
}

/// Both answers, or the one that is good while the other is late: some name servers never answer for IPv6.
async fn both_or_soon<T, E>(
    one: impl Future<Output = Result<T, E>>,
    other: impl Future<Output = Result<T, E>>,
) -> (Option<Result<T, E>>, Option<Result<T, E>>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    tokio::select! {
        biased;
        first = &mut one => {
            let second = if first.is_ok() { timeout(RESOLUTION_DELAY, other).await.ok() } else { Some(other.await) };
            (Some(first), second)
        }
        first = &mut other => {
            let second = if first.is_ok() { timeout(RESOLUTION_DELAY, one).await.ok() } else { Some(one.await) };
            (second, Some(first))
        }
    }
}

/// Of two failures, the one that says more: that one family has no address means nothing while the other is not known.
fn worse(one: ResolveError, other: ResolveError) -> ResolveError {
    if matches!(one, ResolveError::NoRecords) { other } else { one }
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    connections.iter_mut().for_each(|connection| connection.port = address.port());
    NameServerConfig::new(address.ip(), true, connections)
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}
