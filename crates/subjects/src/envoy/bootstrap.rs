//! What a process of Envoy is told besides its listeners and clusters.

use super::{Resources, server_name};
use crate::ProxyContext;
use meshtoll_model::{
    ids::HopName,
    topology::{ADMIN_PORT, PROXY_MARK, ProxyMarking},
};
use serde_json::{Value, json};

/// Linux's `SOL_SOCKET` and `SO_MARK`.
const SOL_SOCKET: u32 = 1;
const SO_MARK: u32 = 36;

pub(super) fn bootstrap(hop: &HopName, resources: Resources, context: &ProxyContext<'_>) -> Value {
    let has_internal = resources.listeners.iter().any(|listener| listener.get("internal_listener").is_some());
    let mut bootstrap = json!({
        "node": { "id": hop.as_str(), "cluster": context.workload },
        "admin": { "address": { "socket_address": { "address": "127.0.0.1", "port_value": ADMIN_PORT } } },
        "typed_dns_resolver_config": server_name::resolver(context.dns),
        // As Istio: no limit. Envoy warns when it is told nothing.
        "overload_manager": {
            "resource_monitors": [{
                "name": "envoy.resource_monitors.global_downstream_max_connections",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
                    "max_active_downstream_connections": i32::MAX,
                },
            }],
        },
        "static_resources": { "listeners": resources.listeners, "clusters": resources.clusters },
    });
    if has_internal {
        bootstrap["bootstrap_extensions"] = json!([{
            "name": "envoy.bootstrap.internal_listener",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener",
            },
        }]);
    }
    if context.marking == ProxyMarking::SocketMark {
        bootstrap["cluster_manager"] = json!({
            "upstream_bind_config": {
                "socket_options": [{
                    "description": "tells the proxy's own connections from its application's",
                    "level": SOL_SOCKET,
                    "name": SO_MARK,
                    "int_value": PROXY_MARK,
                    "state": "STATE_PREBIND",
                }],
            },
        });
    }
    bootstrap
}
