//! A sidecar's two ways: out of its application, and in to it.

use super::{
    Means, Ready, Refusal, SetUp, decided,
    opening::{self, Kind, Opening, Wanted},
    original_destination,
    stream::{Stream, TlsStream},
    upstream::Wish,
};
use crate::{
    classify::matches,
    telemetry::{ConnectionRecord, Direction, Metrics},
};
use arc_swap::ArcSwap;
use meshtoll_identity::{CredentialsWatch, peer_identity};
use meshtoll_model::topology::{INBOUND_PORT, OUTBOUND_PORT};
use meshtoll_policy::{
    authorization::{Authorization, Connection},
    routes::{Endpoints, InboundPort, PeerMtls, SidecarRoutes, Unmatched, Upstream, UpstreamTls},
};
use rustls::ServerConnection;
use std::{
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    sync::Arc,
};
use tokio::{net::TcpStream, time::timeout};

/// Connections that the application opens.
pub(crate) struct Outbound {
    /// What to do with them.
    pub routes: Arc<ArcSwap<SidecarRoutes>>,
    /// With what.
    pub means: Means,
}

impl SetUp for Outbound {
    const DIRECTION: Direction = Direction::Outbound;

    async fn set_up(&self, mut socket: TcpStream, record: &mut ConnectionRecord) -> Result<Ready, Refusal> {
        let destination = original_destination(&socket, OUTBOUND_PORT, record)?;
        let routes = self.routes.load_full();
        let (upstream, opening) = match by_destination(&routes, destination) {
            Some(upstream) => (Some(upstream), Opening { bytes: Vec::new(), kind: Kind::Other }),
            None => {
                let opening = self.opening(&routes, destination.port(), &mut socket).await?;
                (by_opening(&routes, destination.port(), &opening.kind), opening)
            }
        };
        let server_name = match &opening.kind {
            Kind::Tls { server_name, .. } => server_name.as_deref(),
            Kind::Http { host } => Some(host.as_str()),
            Kind::Other => None,
        };
        record.requested_host = server_name.map(Box::from);
        let passthrough;
        let upstream = match (upstream, routes.unmatched) {
            (Some(upstream), _) => upstream,
            (None, Unmatched::AllowAny) => {
                passthrough = unmatched("PassthroughCluster");
                &passthrough
            }
            (None, Unmatched::RegistryOnly) => {
                record.upstream = Some(Arc::from("BlackHoleCluster"));
                return Err(Refusal::no_route("no resource names the host, and the mesh is REGISTRY_ONLY"));
            }
        };
        let wish = Wish { upstream, original: destination, server_name };
        let permit = Authorization::of_own_application();
        let dialed = self.means.dialer.open(&wish, permit, &mut record.upstream).await?;
        Ok(Ready { downstream: Stream::Plain(socket), prelude: opening.bytes, dialed })
    }
}

impl Outbound {
    /// Reads what the routes of the port need to know of the connection.
    async fn opening(&self, routes: &SidecarRoutes, port: u16, socket: &mut TcpStream) -> Result<Opening, Refusal> {
        let wanted = Wanted {
            tls: routes.sni.iter().any(|route| route.port == port),
            http: routes.http.iter().any(|route| route.port == port),
        };
        if !wanted.tls && !wanted.http {
            return Ok(Opening { bytes: Vec::new(), kind: Kind::Other });
        }
        let _pending = self.means.pending()?;
        opening::read(socket, wanted, &self.means.settings).await
    }
}

/// The route of a destination that says enough by itself.
fn by_destination(routes: &SidecarRoutes, destination: SocketAddr) -> Option<&Upstream> {
    let SocketAddr::V4(destination) = destination else { return None };
    let service = routes.http.iter().find(|route| {
        route.port == destination.port() && route.virtual_ip.is_some_and(|address| address == *destination.ip())
    });
    let address = || {
        routes.tcp.iter().find(|route| {
            route.port == destination.port() && route.addresses.iter().any(|range| range.contains(*destination.ip()))
        })
    };
    service.map(|route| &route.upstream).or_else(|| address().map(|route| &route.upstream))
}

/// The route that a connection's first words choose; else that of its port alone.
fn by_opening<'a>(routes: &'a SidecarRoutes, port: u16, kind: &Kind) -> Option<&'a Upstream> {
    let chosen = match kind {
        Kind::Tls { server_name: Some(name), .. } => {
            let mut of_port = routes.sni.iter().filter(|route| route.port == port);
            of_port.find(|route| matches(&route.names, name)).map(|route| &route.upstream)
        }
        Kind::Http { host } => {
            let mut of_port = routes.http.iter().filter(|route| route.port == port);
            of_port.find(|route| matches(&route.hosts, host)).map(|route| &route.upstream)
        }
        Kind::Tls { server_name: None, .. } | Kind::Other => None,
    };
    let any_address = || routes.tcp.iter().find(|route| route.port == port && route.addresses.is_empty());
    chosen.or_else(|| any_address().map(|route| &route.upstream))
}

fn unmatched(name: &str) -> Upstream {
    Upstream { name: name.to_owned(), endpoints: Endpoints::OriginalDestination, tls: UpstreamTls::None }
}

/// Connections that peers open to the application.
pub(crate) struct Inbound {
    /// What to do with them.
    pub routes: Arc<ArcSwap<SidecarRoutes>>,
    /// With what.
    pub means: Means,
    /// Who the proxy is.
    pub credentials: Arc<CredentialsWatch>,
    /// Counts TLS that is terminated.
    pub metrics: Arc<Metrics>,
}

impl SetUp for Inbound {
    const DIRECTION: Direction = Direction::Inbound;

    async fn set_up(&self, socket: TcpStream, record: &mut ConnectionRecord) -> Result<Ready, Refusal> {
        let destination = original_destination(&socket, INBOUND_PORT, record)?;
        let routes = self.routes.load_full();
        let port = routes.inbound.iter().find(|port| port.port == destination.port());
        let port = port.ok_or_else(|| Refusal::no_route("the workload has no such port"))?;
        let (stream, prelude) = self.admit(port, socket, record).await?;
        let connection = Connection {
            principal: record.source_identity.as_ref(),
            source: record.source.ip(),
            port: port.port,
            sni: record.requested_host.as_deref(),
        };
        let decision = port.authorization.decide(&connection);
        let permit = decided(decision, record)?;
        let application = Upstream {
            name: format!("inbound|{}||", port.port),
            endpoints: Endpoints::Addresses(vec![SocketAddrV4::new(Ipv4Addr::LOCALHOST, port.port)]),
            tls: UpstreamTls::None,
        };
        let wish = Wish { upstream: &application, original: destination, server_name: None };
        let dialed = self.means.dialer.open(&wish, permit, &mut record.upstream).await?;
        Ok(Ready { downstream: stream, prelude, dialed })
    }
}

impl Inbound {
    /// Asks of the peer what the port's mode asks.
    async fn admit(
        &self,
        port: &InboundPort,
        mut socket: TcpStream,
        record: &mut ConnectionRecord,
    ) -> Result<(Stream, Vec<u8>), Refusal> {
        if port.mtls == PeerMtls::Disable {
            return Ok((Stream::Plain(socket), Vec::new()));
        }
        let _pending = self.means.pending()?;
        let wanted = Wanted { tls: true, http: false };
        let Opening { bytes, kind } = opening::read(&mut socket, wanted, &self.means.settings).await?;
        match (kind, port.mtls) {
            (Kind::Tls { server_name, of_mesh }, mode) if of_mesh || mode == PeerMtls::Strict => {
                record.requested_host = server_name.map(Box::from);
                let stream = terminate(socket, &bytes, &self.credentials, &self.means, &self.metrics).await?;
                record.source_identity = Some(identity(&stream)?);
                Ok((Stream::Tls(Box::new(stream)), Vec::new()))
            }
            (_, PeerMtls::Strict) => Err(Refusal::downstream("it speaks no TLS, and the port's mode is STRICT")),
            _ => Ok((Stream::Plain(socket), bytes)),
        }
    }
}

/// Terminates the mesh's TLS.
pub(super) async fn terminate(
    socket: TcpStream,
    received: &[u8],
    credentials: &CredentialsWatch,
    means: &Means,
    metrics: &Metrics,
) -> Result<TlsStream, Refusal> {
    let shaken = async {
        let connection = ServerConnection::new(credentials.current().server_config())
            .map_err(|error| Refusal::downstream(format!("TLS: {error}")))?;
        match timeout(means.settings.handshake_timeout, TlsStream::handshake(socket, connection.into(), received)).await
        {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(Refusal::downstream(format!("TLS with the peer: {error}"))),
            Err(_) => Err(Refusal::downstream("TLS with the peer: the handshake took too long")),
        }
    };
    let shaken = shaken.await;
    match &shaken {
        Ok(stream) => metrics.handshake_completed(stream.connection().peer_certificates().is_some()),
        Err(_) => metrics.handshake_failed(),
    }
    shaken
}

/// Who a peer proved to be.
pub(super) fn identity(stream: &TlsStream) -> Result<meshtoll_model::ids::SpiffeId, Refusal> {
    let certificates = stream.connection().peer_certificates().unwrap_or_default();
    peer_identity(certificates).map_err(|error| Refusal::downstream(format!("the peer's certificate: {error}")))
}
