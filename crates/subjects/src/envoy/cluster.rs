//! Upstreams as Envoy's clusters.

use super::{server_name, tls};
use crate::Unsupported;
use meshtoll_model::ids::HopName;
use meshtoll_policy::routes::{Endpoints, Upstream, UpstreamTls};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddrV4},
};

/// Where a sidecar sends what no route matches when it may go anywhere.
pub(super) const PASSTHROUGH: &str = "PassthroughCluster";
/// Where it sends it when it may not: a cluster without endpoints.
pub(super) const BLACK_HOLE: &str = "BlackHoleCluster";

/// The clusters of one proxy, by name: routes share them.
pub(super) struct Clusters<'a> {
    hop: &'a HopName,
    dns: Ipv4Addr,
    by_name: BTreeMap<String, Value>,
}

/// What a proxy reads of the traffic to a cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    Http,
    Tcp,
}

impl<'a> Clusters<'a> {
    /// `dns` is the server that resolves names of connections.
    pub(super) fn new(hop: &'a HopName, dns: Ipv4Addr) -> Self {
        Self { hop, dns, by_name: BTreeMap::new() }
    }

    /// Adds the cluster of an upstream, unless it is there already.
    pub(super) fn add_upstream(&mut self, upstream: &Upstream, traffic: Traffic) -> Result<(), Unsupported> {
        let mut cluster = match &upstream.endpoints {
            Endpoints::Addresses(addresses) => fixed(&upstream.name, addresses, traffic),
            Endpoints::Dns { host, port } => dns(&upstream.name, host, *port, traffic),
            Endpoints::ServerName { .. } if traffic == Traffic::Tcp && upstream.tls == UpstreamTls::None => {
                by_server_name(&upstream.name, self.dns)
            }
            Endpoints::ServerName { .. } => return Err(self.without_server_name(upstream)),
            Endpoints::OriginalDestination => original_destination(&upstream.name, traffic),
        };
        match &upstream.tls {
            UpstreamTls::None => {}
            UpstreamTls::IstioMutual { sni, peer } => cluster["transport_socket"] = tls::upstream(sni, peer),
            UpstreamTls::Originate(origination) => cluster["transport_socket"] = tls::origination(origination),
        }
        self.add(&upstream.name, cluster)
    }

    /// Adds the cluster that leads to an internal listener of the same process.
    pub(super) fn add_internal(&mut self, name: &str) -> Result<(), Unsupported> {
        let mut internal = cluster(name, Traffic::Tcp);
        internal["type"] = json!("STATIC");
        let address = json!({ "envoy_internal_address": { "server_listener_name": name } });
        internal["load_assignment"] = assignment(name, vec![json!({ "endpoint": { "address": address } })]);
        internal["transport_socket"] = json!({
            "name": "envoy.transport_sockets.internal_upstream",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.internal_upstream.v3.InternalUpstreamTransport",
                "transport_socket": {
                    "name": "envoy.transport_sockets.raw_buffer",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
                    },
                },
            },
        });
        self.add(name, internal)
    }

    /// Why an upstream cannot be reached by the name of connections that have none, or whose name would be encrypted.
    pub(super) fn without_server_name(&self, upstream: &Upstream) -> Unsupported {
        Unsupported::ServerName { hop: self.hop.clone(), upstream: upstream.name.clone() }
    }

    /// Adds the cluster of the application's own port, named as Istio names it, and says that name.
    pub(super) fn add_inbound(&mut self, port: u16, traffic: Traffic) -> Result<String, Unsupported> {
        let name = format!("inbound|{port}||");
        let application = SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port);
        self.add(&name, fixed(&name, &[application], traffic))?;
        Ok(name)
    }

    /// Adds the cluster of what no route matches.
    pub(super) fn add_unmatched(&mut self, name: &str) -> Result<(), Unsupported> {
        let cluster = if name == PASSTHROUGH {
            original_destination(name, Traffic::Http)
        } else {
            fixed(name, &[], Traffic::Tcp)
        };
        self.add(name, cluster)
    }

    pub(super) fn into_vec(self) -> Vec<Value> {
        self.by_name.into_values().collect()
    }

    fn add(&mut self, name: &str, cluster: Value) -> Result<(), Unsupported> {
        match self.by_name.get(name) {
            Some(present) if *present != cluster => {
                Err(Unsupported::AmbiguousUpstream { hop: self.hop.clone(), upstream: name.to_owned() })
            }
            Some(_) => Ok(()),
            None => {
                self.by_name.insert(name.to_owned(), cluster);
                Ok(())
            }
        }
    }
}

fn fixed(name: &str, addresses: &[SocketAddrV4], traffic: Traffic) -> Value {
    let endpoints = addresses.iter().map(|address| endpoint(&address.ip().to_string(), address.port()));
    let mut cluster = cluster(name, traffic);
    cluster["type"] = json!("STATIC");
    cluster["lb_policy"] = json!("LEAST_REQUEST");
    cluster["load_assignment"] = assignment(name, endpoints.collect());
    cluster
}

fn dns(name: &str, host: &str, port: u16, traffic: Traffic) -> Value {
    let mut cluster = cluster(name, traffic);
    cluster["lb_policy"] = json!("LEAST_REQUEST");
    cluster["load_assignment"] = assignment(name, vec![endpoint(host, port)]);
    // What Istio still calls STRICT_DNS.
    cluster["cluster_type"] = json!({
        "name": "envoy.cluster.dns",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster",
            "dns_lookup_family": "V4_ONLY",
            "dns_refresh_rate": "60s",
            "respect_dns_ttl": true,
            // Else a name that could not be resolved at once would stay without an address for a whole refresh.
            "dns_failure_refresh_rate": { "base_interval": "0.5s", "max_interval": "5s" },
        },
    });
    cluster
}

/// What Istio makes of `DYNAMIC_DNS`: each connection goes to what DNS says of its own server name.
fn by_server_name(name: &str, dns: Ipv4Addr) -> Value {
    let mut cluster = cluster(name, Traffic::Tcp);
    cluster["lb_policy"] = json!("CLUSTER_PROVIDED");
    cluster["cluster_type"] = json!({
        "name": "envoy.clusters.dynamic_forward_proxy",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig",
            "dns_cache_config": server_name::dns_cache(dns),
        },
    });
    cluster
}

fn original_destination(name: &str, traffic: Traffic) -> Value {
    let mut cluster = cluster(name, traffic);
    cluster["type"] = json!("ORIGINAL_DST");
    cluster["lb_policy"] = json!("CLUSTER_PROVIDED");
    cluster
}

fn cluster(name: &str, traffic: Traffic) -> Value {
    let mut cluster = json!({
        "name": name,
        "connect_timeout": "10s",
        // Istio lifts Envoy's limits of 1024 connections and requests an upstream.
        "circuit_breakers": {
            "thresholds": [{
                "max_connections": u32::MAX,
                "max_pending_requests": u32::MAX,
                "max_requests": u32::MAX,
                "max_retries": u32::MAX,
                "track_remaining": true,
            }],
        },
    });
    if traffic == Traffic::Http {
        cluster["typed_extension_protocol_options"] = json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "use_downstream_protocol_config": { "http_protocol_options": {}, "http2_protocol_options": {} },
            },
        });
    }
    cluster
}

fn assignment(name: &str, endpoints: Vec<Value>) -> Value {
    json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": endpoints }] })
}

fn endpoint(address: &str, port: u16) -> Value {
    json!({ "endpoint": { "address": { "socket_address": { "address": address, "port_value": port } } } })
}
