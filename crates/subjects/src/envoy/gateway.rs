//! An egress gateway's listeners: one a server port, with a filter chain a route.

use super::{
    Resources,
    cluster::{Clusters, Traffic},
    filters::{self, Direction},
    tls,
};
use crate::{Unsupported, names};
use meshtoll_model::{ids::HopName, topology::ProxySettings};
use meshtoll_policy::routes::{Endpoints, GatewayRoutes, GatewayTls};
use serde_json::json;

pub(super) fn resources(
    hop: &HopName,
    routes: &GatewayRoutes,
    settings: &ProxySettings,
) -> Result<Resources, Unsupported> {
    let mut clusters = Clusters::new(hop);
    let mut listeners = Vec::new();
    for server in &routes.servers {
        let mut chains = Vec::new();
        for (route, names) in names::reachable(hop, &server.routes, |route| &route.names)? {
            let upstream = &route.upstream;
            if upstream.endpoints == Endpoints::OriginalDestination {
                let upstream = upstream.name.clone();
                return Err(Unsupported::OriginalDestination { hop: hop.clone(), upstream });
            }
            clusters.add_upstream(upstream, Traffic::Tcp)?;
            let mut chain = filters::relay(&upstream.name, &upstream.name, settings);
            chain["filter_chain_match"] = json!({ "server_names": names });
            if route.tls == GatewayTls::IstioMutual {
                chain["transport_socket"] = tls::downstream(&routes.identity.trust_domain);
            }
            chains.push(chain);
        }
        let name = format!("0.0.0.0_{}", server.port);
        let mut listener = filters::listener(&name, server.port, Direction::Outbound, chains);
        listener["listener_filters"] = json!([filters::tls_inspector()]);
        listeners.push(listener);
    }
    Ok(Resources { listeners, clusters: clusters.into_vec() })
}
