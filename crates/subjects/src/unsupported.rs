use meshtoll_model::ids::HopName;

/// Why a subject cannot do what the routes ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A name to match is neither a host name nor a wildcard of whole labels.
    #[error("{hop} cannot match '{name}': use a host name in lower case, or one with '*.' in front")]
    HostName {
        /// The proxy.
        hop: HopName,
        /// The name.
        name: String,
    },
    /// Two upstreams would be told apart by nothing but their content.
    #[error("{hop} has two different upstreams named '{upstream}'; give one of them a subset or a port of its own")]
    AmbiguousUpstream {
        /// The proxy.
        hop: HopName,
        /// Their name.
        upstream: String,
    },
    /// A gateway's connections have no original destination.
    #[error(
        "{hop} cannot send '{upstream}' to its original destination: connections to a gateway have none; give its hosts addresses or DNS resolution"
    )]
    OriginalDestination {
        /// The gateway.
        hop: HopName,
        /// The upstream.
        upstream: String,
    },
    /// Names that are known only when connections come have to be in a ClientHello that the proxy reads.
    #[error(
        "{hop} cannot resolve the server names of connections to '{upstream}': name the hosts, or make the port one of protocol TLS that the proxy passes through"
    )]
    ServerName {
        /// The proxy.
        hop: HopName,
        /// The upstream.
        upstream: String,
    },
    /// A port's connections are either read as HTTP or not.
    #[error(
        "{hop} cannot tell HTTP on port {port} from what goes to '{upstream}' there, whatever its address: give the latter's hosts addresses"
    )]
    HttpBesideAnyAddress {
        /// The proxy.
        hop: HopName,
        /// The port.
        port: u16,
        /// The upstream of other connections.
        upstream: String,
    },
    /// nginx runs as one process, so that none outlives it.
    #[error("{hop} runs as one process with one thread, not {threads}: set 1 worker thread for the topology")]
    WorkerThreads {
        /// The proxy.
        hop: HopName,
        /// What the settings ask for.
        threads: u32,
    },
}
