//! Upstreams that are resolved for each connection by its own server name (`DYNAMIC_DNS`), as Istio configures them and
//! its documentation does for wildcard hosts at an egress gateway.
//!
//! Where the mesh's TLS is terminated, that name is the inner one, which a listener's filters cannot see any more: what is inside
//! goes through a listener within the same process, which reads it anew.

use super::{
    cluster::{Clusters, Traffic},
    filters,
};
use crate::Unsupported;
use meshtoll_model::topology::ProxySettings;
use meshtoll_policy::routes::{Endpoints, Upstream};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

/// What clusters within the process are named with. Their traffic comes back to this very proxy, so that the counters
/// leave them out: what they carry is counted at the cluster that it leaves the proxy by.
pub(super) const INTERNAL: &str = "internal|";

/// A filter chain of connections whose ClientHello is read: relays them to an upstream, whose cluster it adds.
pub(super) fn relay(
    clusters: &mut Clusters<'_>,
    upstream: &Upstream,
    dns: Ipv4Addr,
    settings: &ProxySettings,
) -> Result<Value, Unsupported> {
    clusters.add_upstream(upstream, Traffic::Tcp)?;
    let mut chain = filters::relay(&upstream.name, &upstream.name, settings);
    if let Endpoints::ServerName { port } = upstream.endpoints {
        filters::put_first(&mut chain, resolve(port, dns));
    }
    Ok(chain)
}

/// A listener that no socket leads to, but the cluster of the same name, which it adds: relays TLS of these server names
/// to an upstream, and closes the rest.
pub(super) fn internal_listener(
    name: &str,
    clusters: &mut Clusters<'_>,
    names: &[String],
    upstream: &Upstream,
    dns: Ipv4Addr,
    settings: &ProxySettings,
) -> Result<Value, Unsupported> {
    clusters.add_internal(name)?;
    let mut chain = relay(clusters, upstream, dns, settings)?;
    chain["filter_chain_match"] = json!({ "server_names": names });
    Ok(json!({
        "name": name,
        "internal_listener": {},
        "listener_filters": [filters::tls_inspector()],
        "filter_chains": [chain],
    }))
}

/// Has the connection's server name resolved before it is relayed.
fn resolve(port: u16, dns: Ipv4Addr) -> Value {
    json!({
        "name": "envoy.filters.network.sni_dynamic_forward_proxy",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.sni_dynamic_forward_proxy.v3.FilterConfig",
            "port_value": port,
            "dns_cache_config": dns_cache(dns),
        },
    })
}

/// What filters and clusters share: Envoy tells caches apart by name, and demands that all of a name are the same.
pub(super) fn dns_cache(dns: Ipv4Addr) -> Value {
    json!({
        "name": "server-names",
        "dns_lookup_family": "V4_ONLY",
        "dns_refresh_rate": "60s",
        "dns_failure_refresh_rate": { "base_interval": "0.5s", "max_interval": "5s" },
        "typed_dns_resolver_config": resolver(dns),
    })
}

/// The pod's resolver.
pub(super) fn resolver(dns: Ipv4Addr) -> Value {
    json!({
        "name": "envoy.network.dns_resolver.cares",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
            "resolvers": [{ "socket_address": { "address": dns, "port_value": 53 } }],
            "dns_resolver_options": { "no_default_search_domain": true },
        },
    })
}
