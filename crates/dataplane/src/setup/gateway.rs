//! An egress gateway's way: from sidecars to what is outside of the mesh.

use super::{
    Means, Ready, Refusal, SetUp, decided,
    opening::{self, Kind, Opening, Wanted},
    sidecar::{identity, terminate},
    stream::{ReadMore, Stream},
    upstream::Wish,
};
use crate::{
    classify::matches,
    telemetry::{ConnectionRecord, Direction, Metrics, ResponseFlag},
};
use arc_swap::ArcSwap;
use meshtoll_identity::CredentialsWatch;
use meshtoll_policy::{
    authorization::Connection,
    routes::{GatewayRoute, GatewayRoutes, GatewayTls, InnerTls},
};
use std::sync::Arc;
use tokio::net::TcpStream;

/// Connections to one port of an egress gateway.
pub(crate) struct Gateway {
    /// The port.
    pub port: u16,
    /// What to do with them.
    pub routes: Arc<ArcSwap<GatewayRoutes>>,
    /// With what.
    pub means: Means,
    /// Who the proxy is.
    pub credentials: Arc<CredentialsWatch>,
    /// Counts TLS that is terminated.
    pub metrics: Arc<Metrics>,
}

impl SetUp for Gateway {
    const DIRECTION: Direction = Direction::Gateway;

    async fn set_up(&self, mut socket: TcpStream, record: &mut ConnectionRecord) -> Result<Ready, Refusal> {
        let destination = record.destination;
        let routes = self.routes.load_full();
        let pending = self.means.pending()?;
        let mut opening = self.hello(&mut socket).await?;
        record.requested_host = Some(Box::from(opening.server_name.as_str()));
        let route = self.route(&routes, &opening.server_name)?;
        let stream = match route.tls {
            GatewayTls::Passthrough => Stream::Plain(socket),
            GatewayTls::IstioMutual => {
                let received = std::mem::take(&mut opening.bytes);
                let mut tls = terminate(socket, &received, &self.credentials, &self.means, &self.metrics).await?;
                record.source_identity = Some(identity(&tls)?);
                if let InnerTls::ServerName { names, fixed_outer } = &route.inner {
                    let outer = opening.server_name;
                    opening = self.hello(&mut tls).await?;
                    record.requested_host = Some(Box::from(opening.server_name.as_str()));
                    inner_name(&opening.server_name, &outer, names, fixed_outer)?;
                }
                Stream::Tls(Box::new(tls))
            }
        };
        drop(pending);
        let connection = Connection {
            principal: record.source_identity.as_ref(),
            source: record.source.ip(),
            port: self.port,
            sni: Some(&opening.server_name),
        };
        let decision = route.authorization.decide(&connection);
        let permit = decided(decision, record)?;
        let wish = Wish { upstream: &route.upstream, original: destination, server_name: Some(&opening.server_name) };
        let dialed = self.means.dialer.open(&wish, permit, &mut record.upstream).await?;
        Ok(Ready { downstream: stream, prelude: opening.bytes, dialed })
    }
}

/// A hello, as read.
struct Hello {
    bytes: Vec<u8>,
    server_name: String,
}

impl Gateway {
    /// Reads the hello of TLS, without which a gateway does not know what is meant.
    async fn hello(&self, stream: &mut impl ReadMore) -> Result<Hello, Refusal> {
        let wanted = Wanted { tls: true, http: false };
        let Opening { bytes, kind } = opening::read(stream, wanted, &self.means.settings).await?;
        match kind {
            Kind::Tls { server_name: Some(server_name), .. } => Ok(Hello { bytes, server_name }),
            Kind::Tls { server_name: None, .. } => Err(Refusal::no_route("it sent no server name")),
            Kind::Http { .. } | Kind::Other => Err(Refusal::downstream("it does not speak TLS")),
        }
    }

    fn route<'a>(&self, routes: &'a GatewayRoutes, server_name: &str) -> Result<&'a GatewayRoute, Refusal> {
        let server = routes.servers.iter().find(|server| server.port == self.port);
        let mut of_port = server.iter().flat_map(|server| &server.routes);
        let route = of_port.find(|route| matches(&route.names, server_name));
        route.ok_or_else(|| Refusal::no_route(format!("no route of port {} has `{server_name}`", self.port)))
    }
}

/// A workload could name one host to the gateway's policy and another to the world.
fn inner_name(inner: &str, outer: &str, names: &[String], fixed_outer: &[String]) -> Result<(), Refusal> {
    let promised = inner == outer || fixed_outer.iter().any(|fixed| fixed.eq_ignore_ascii_case(outer));
    let refuse = |details: String| Err(Refusal::new(ResponseFlag::Unauthorized, details));
    if !matches(names, inner) {
        return refuse(format!("its inner server name `{inner}` is not one that the route is for"));
    }
    if !promised {
        return refuse(format!("its inner server name is `{inner}`, its outer one `{outer}`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inner_name_is_one_of_the_routes_and_the_outer_one_unless_that_is_fixed() {
        let (names, fixed) = (vec!["*.db.example".to_owned()], vec!["egress.db.example".to_owned()]);
        assert!(inner_name("a.db.example", "a.db.example", &names, &[]).is_ok());
        assert!(inner_name("a.db.example", "Egress.db.example", &names, &fixed).is_ok());
        for (inner, outer, fixed) in [
            ("b.db.example", "a.db.example", &fixed),
            ("a.db.example", "egress.db.example", &Vec::new()),
            ("elsewhere.example", "elsewhere.example", &fixed),
            ("elsewhere.example", "egress.db.example", &fixed),
            ("db.example", "egress.db.example", &fixed),
        ] {
            let refusal = inner_name(inner, outer, &names, fixed).unwrap_err();
            assert_eq!(refusal.flag, ResponseFlag::Unauthorized, "{inner} inside of {outer}");
        }
    }
}
