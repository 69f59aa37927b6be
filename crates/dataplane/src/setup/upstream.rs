//! From a route's upstream to an open connection.

use super::{
    Refusal,
    stream::{Stream, TlsStream},
};
use crate::{
    connect::{ConnectError, Connector, Target},
    origination::Originations,
    settings::Settings,
    telemetry::{DnsResult, Metrics, ResponseFlag, UpstreamCounters},
};
use meshtoll_identity::CredentialsWatch;
use meshtoll_policy::{
    authorization::Permit,
    routes::{Endpoints, Upstream, UpstreamTls},
};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use std::{
    net::{SocketAddr, SocketAddrV4},
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tokio::time::timeout;

/// Opens connections to upstreams.
pub(crate) struct Dialer {
    /// Resolves and connects.
    pub connector: Connector,
    /// Who the proxy is.
    pub credentials: Arc<CredentialsWatch>,
    /// TLS to hosts outside of the mesh.
    pub originations: Originations,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Times.
    pub settings: Arc<Settings>,
}

/// What a connection is to lead to.
pub(super) struct Wish<'a> {
    pub(super) upstream: &'a Upstream,
    /// Where the one who opened it sent it.
    pub(super) original: SocketAddr,
    /// The server name that it sent.
    pub(super) server_name: Option<&'a str>,
}

/// A connection to an upstream.
pub(super) struct Dialed {
    pub(super) stream: Stream,
    pub(super) address: SocketAddr,
    pub(super) counters: Arc<UpstreamCounters>,
}

impl Dialer {
    pub(super) async fn open(
        &self,
        wish: &Wish<'_>,
        permit: Permit,
        name: &mut Option<Arc<str>>,
    ) -> Result<Dialed, Refusal> {
        let (upstream_name, counters) = self.metrics.upstreams().named(&wish.upstream.name);
        *name = Some(upstream_name);
        let opened = self.try_open(wish, permit, &counters).await;
        opened.map(|(stream, address)| Dialed { stream, address, counters: counters.clone() }).inspect_err(|_| {
            counters.failed.fetch_add(1, Relaxed);
        })
    }

    async fn try_open(
        &self,
        wish: &Wish<'_>,
        permit: Permit,
        counters: &UpstreamCounters,
    ) -> Result<(Stream, SocketAddr), Refusal> {
        let original: [SocketAddrV4; 1];
        let target = match &wish.upstream.endpoints {
            Endpoints::Addresses(addresses) => Target::Addresses(addresses),
            Endpoints::Dns { host, port } => Target::Name { host, port: *port, only_public: false },
            Endpoints::ServerName { port } => match wish.server_name {
                // The peer chooses the name, so that it must not lead to what only the proxy can reach.
                Some(host) => Target::Name { host, port: *port, only_public: true },
                None => return Err(Refusal::no_route("it sent no server name to resolve")),
            },
            Endpoints::OriginalDestination => match wish.original {
                SocketAddr::V4(address) => {
                    original = [address];
                    Target::Addresses(&original)
                }
                SocketAddr::V6(_) => return Err(Refusal::no_route("its destination is no IPv4 address")),
            },
        };
        let connected = self.connector.connect(&target, permit).await;
        if let Target::Name { .. } = target {
            self.metrics.looked_up(looked_up(connected.as_ref().err()));
        }
        let connected = connected.map_err(refused)?;
        let (config, server_name) = match &wish.upstream.tls {
            UpstreamTls::None => return Ok((Stream::Plain(connected.stream), connected.address)),
            UpstreamTls::IstioMutual { sni, peer } => (self.credentials.current().client_config(peer), sni.as_str()),
            UpstreamTls::Originate(origination) => {
                let config = self.originations.config(origination);
                let config = config.map_err(|error| failed(format!("TLS cannot be set up: {error}")))?;
                (config, origination.sni.as_str())
            }
        };
        let stream = self.handshake(connected.stream, config, server_name).await?;
        counters.tls_handshakes.fetch_add(1, Relaxed);
        Ok((Stream::Tls(Box::new(stream)), connected.address))
    }

    async fn handshake(
        &self,
        socket: tokio::net::TcpStream,
        config: Arc<ClientConfig>,
        server_name: &str,
    ) -> Result<TlsStream, Refusal> {
        let name = ServerName::try_from(server_name.to_owned());
        let name = name.map_err(|_| failed(format!("`{server_name}` cannot be sent as a server name")))?;
        let connection = ClientConnection::new(config, name).map_err(|error| failed(format!("TLS: {error}")))?;
        match timeout(self.settings.handshake_timeout, TlsStream::handshake(socket, connection.into(), &[])).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(failed(format!("TLS with the upstream: {error}"))),
            Err(_) => Err(failed("TLS with the upstream: the handshake took too long".to_owned())),
        }
    }
}

fn failed(details: String) -> Refusal {
    Refusal::new(ResponseFlag::UpstreamFailed, details)
}

/// What the end of an attempt to connect to a name says of its lookup.
fn looked_up(error: Option<&ConnectError>) -> DnsResult {
    match error {
        Some(ConnectError::Resolve { .. }) => DnsResult::Failed,
        Some(ConnectError::Timeout { attempts, .. }) if attempts.0.is_empty() => DnsResult::Failed,
        Some(ConnectError::NoAddress { .. }) => DnsResult::NoAddress,
        Some(ConnectError::RefusedAddress { .. }) => DnsResult::Refused,
        None | Some(ConnectError::Timeout { .. } | ConnectError::Failed { .. } | ConnectError::LocalLimit { .. }) => {
            DnsResult::Resolved
        }
    }
}

fn refused(error: ConnectError) -> Refusal {
    let flag = match error {
        ConnectError::Resolve { .. } | ConnectError::NoAddress { .. } | ConnectError::RefusedAddress { .. } => {
            ResponseFlag::DnsFailed
        }
        ConnectError::LocalLimit { .. } => ResponseFlag::Overflow,
        ConnectError::Timeout { .. } | ConnectError::Failed { .. } => ResponseFlag::UpstreamFailed,
    };
    Refusal::new(flag, error.to_string())
}
