//! An egress gateway's listeners: one a server port, with a filter chain a route.
//!
//! Envoy matches routes and rules by the outer server name. It lets no inner one pass that the route does not have, but does not hold the
//! two against each other, and looks inside only where it resolves what it finds there.

use super::{
    Resources,
    cluster::Clusters,
    filters::{self, Direction},
    rbac, server_name, tls,
};
use crate::{ProxyContext, Unsupported, names};
use meshtoll_model::ids::HopName;
use meshtoll_policy::routes::{Endpoints, GatewayRoute, GatewayRoutes, GatewayTls, InnerTls};
use serde_json::{Value, json};

pub(super) fn resources(
    hop: &HopName,
    routes: &GatewayRoutes,
    context: &ProxyContext<'_>,
) -> Result<Resources, Unsupported> {
    let mut gateway = Gateway { hop, routes, context, clusters: Clusters::new(hop, context.dns), internal: Vec::new() };
    let mut listeners = Vec::new();
    for server in &routes.servers {
        let mut chains = Vec::new();
        for (route, names) in names::reachable(hop, &server.routes, |route| &route.names)? {
            let mut chain = gateway.chain(server.port, route)?;
            chain["filter_chain_match"] = json!({ "server_names": names });
            chains.push(rbac::guard(chain, &route.authorization));
        }
        let name = format!("0.0.0.0_{}", server.port);
        let mut listener = filters::listener(&name, server.port, Direction::Outbound, chains);
        listener["listener_filters"] = json!([filters::tls_inspector()]);
        listeners.push(listener);
    }
    listeners.extend(gateway.internal);
    Ok(Resources { listeners, clusters: gateway.clusters.into_vec() })
}

struct Gateway<'a> {
    hop: &'a HopName,
    routes: &'a GatewayRoutes,
    context: &'a ProxyContext<'a>,
    clusters: Clusters<'a>,
    internal: Vec<Value>,
}

impl Gateway<'_> {
    fn chain(&mut self, port: u16, route: &GatewayRoute) -> Result<Value, Unsupported> {
        let (upstream, settings, dns) = (&route.upstream, self.context.settings, self.context.dns);
        if upstream.endpoints == Endpoints::OriginalDestination {
            return Err(Unsupported::OriginalDestination { hop: self.hop.clone(), upstream: upstream.name.clone() });
        }
        if route.tls == GatewayTls::Passthrough {
            return server_name::relay(&mut self.clusters, upstream, dns, settings);
        }
        let mut chain = match upstream.endpoints {
            Endpoints::ServerName { .. } => {
                let name = format!("{}{port}|{}|{}", server_name::INTERNAL, self.internal.len(), upstream.name);
                let names = match &route.inner {
                    InnerTls::Any => &route.names,
                    InnerTls::ServerName { names, .. } => names,
                };
                // Refuses what is no host name, and what is covered: Envoy demands that names are said once.
                let reachable = names::reachable(self.hop, [names], |names| names)?;
                let names: Vec<String> =
                    reachable.into_iter().flat_map(|(_, names)| names).map(str::to_owned).collect();
                let listener =
                    server_name::internal_listener(&name, &mut self.clusters, &names, upstream, dns, settings)?;
                self.internal.push(listener);
                filters::relay(&name, &name, settings)
            }
            _ => server_name::relay(&mut self.clusters, upstream, dns, settings)?,
        };
        chain["transport_socket"] = tls::downstream(&self.routes.identity.trust_domain);
        Ok(chain)
    }
}
