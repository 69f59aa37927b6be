//! A sidecar's listeners: the two that connections are redirected to, and one a destination port.

use super::{
    Resources,
    cluster::{BLACK_HOLE, Clusters, PASSTHROUGH, Traffic},
    filters::{self, Direction},
    rbac, server_name, tls,
};
use crate::{ProxyContext, Unsupported, names};
use meshtoll_model::{
    cidr::Cidr,
    ids::HopName,
    topology::{HttpHandling, INBOUND_PORT, OUTBOUND_PORT, ProxySettings},
};
use meshtoll_policy::routes::{HttpRoute, InboundPort, PeerMtls, SidecarRoutes, SniRoute, Unmatched, Upstream};
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::Ipv4Addr};

pub(super) fn resources(
    hop: &HopName,
    routes: &SidecarRoutes,
    context: &ProxyContext<'_>,
) -> Result<Resources, Unsupported> {
    let clusters = Clusters::new(hop, context.dns);
    let mut sidecar = Sidecar { hop, routes, settings: context.settings, dns: context.dns, clusters };
    let mut listeners = vec![sidecar.outbound()?, sidecar.inbound()?];
    let http = routes.http.iter().map(|route| route.port);
    let ports: BTreeSet<u16> = http
        .chain(routes.sni.iter().map(|route| route.port))
        .chain(routes.tcp.iter().map(|route| route.port))
        .collect();
    for port in ports {
        listeners.push(sidecar.destination_port(port)?);
    }
    Ok(Resources { listeners, clusters: sidecar.clusters.into_vec() })
}

struct Sidecar<'a> {
    hop: &'a HopName,
    routes: &'a SidecarRoutes,
    settings: &'a ProxySettings,
    dns: Ipv4Addr,
    clusters: Clusters<'a>,
}

impl<'a> Sidecar<'a> {
    /// Takes what the application opens, and hands it over to the listener of its destination port where there is one.
    fn outbound(&mut self) -> Result<Value, Unsupported> {
        self.clusters.add_unmatched(self.unmatched())?;
        let unmatched = filters::relay("virtualOutbound-catchall-tcp", self.unmatched(), self.settings);
        let chains = vec![self.loop_guard("virtualOutbound-blackhole", OUTBOUND_PORT)?, unmatched];
        let mut listener = filters::listener("virtualOutbound", OUTBOUND_PORT, Direction::Outbound, chains);
        listener["use_original_dst"] = json!(true);
        Ok(listener)
    }

    /// Takes what peers open to the application. Ports that are not the service's are closed to them.
    fn inbound(&mut self) -> Result<Value, Unsupported> {
        let mut chains = vec![self.loop_guard("virtualInbound-blackhole", INBOUND_PORT)?];
        for port in &self.routes.inbound {
            let cluster = self.clusters.add_inbound(port.port, self.traffic_between_services())?;
            chains.extend(self.inbound_port(port, &cluster));
        }
        let mut listener = filters::listener("virtualInbound", INBOUND_PORT, Direction::Inbound, chains);
        listener["listener_filters"] = json!([filters::original_destination(), filters::tls_inspector()]);
        Ok(listener)
    }

    /// Closes what was not redirected, but opened to this port: relayed, it would come back for ever.
    fn loop_guard(&mut self, name: &str, port: u16) -> Result<Value, Unsupported> {
        self.clusters.add_unmatched(BLACK_HOLE)?;
        let mut chain = filters::relay(name, BLACK_HOLE, self.settings);
        chain["filter_chain_match"] = json!({ "destination_port": port });
        Ok(chain)
    }

    fn inbound_port(&self, inbound: &InboundPort, cluster: &str) -> Vec<Value> {
        let port = inbound.port;
        let host = json!({ "name": format!("inbound|http|{port}"), "domains": ["*"], "routes": [route(cluster)] });
        let chain = |matched: Value| {
            let mut chain = match self.settings.http {
                HttpHandling::Full => filters::http(cluster, Direction::Inbound, vec![host.clone()], self.settings),
                HttpHandling::Tcp => filters::relay(cluster, cluster, self.settings),
            };
            chain["filter_chain_match"] = matched;
            rbac::guard(chain, &inbound.authorization)
        };
        let mutual_tls = |matched: Value| {
            let mut chain = chain(matched);
            chain["transport_socket"] = tls::downstream(&self.routes.identity.trust_domain);
            chain
        };
        match inbound.mtls {
            PeerMtls::Strict => vec![mutual_tls(json!({ "destination_port": port, "transport_protocol": "tls" }))],
            PeerMtls::Permissive => {
                let mut chains = vec![
                    mutual_tls(json!({
                        "destination_port": port,
                        "transport_protocol": "tls",
                        "application_protocols": tls::ISTIO_ALPN,
                    })),
                    chain(json!({ "destination_port": port, "transport_protocol": "raw_buffer" })),
                ];
                // TLS that is not the mesh's is the application's own, which Istio relays on ports that are TCP to it.
                if self.settings.http == HttpHandling::Tcp {
                    chains.push(chain(json!({ "destination_port": port, "transport_protocol": "tls" })));
                }
                chains
            }
            PeerMtls::Disable => vec![chain(json!({ "destination_port": port, "transport_protocol": "raw_buffer" }))],
        }
    }

    fn traffic_between_services(&self) -> Traffic {
        match self.settings.http {
            HttpHandling::Full => Traffic::Http,
            HttpHandling::Tcp => Traffic::Tcp,
        }
    }

    /// Has no socket: connections are handed over to it by `virtualOutbound`. What is told apart by its destination comes
    /// first, as Envoy compares addresses before names.
    fn destination_port(&mut self, port: u16) -> Result<Value, Unsupported> {
        let name = format!("0.0.0.0_{port}");
        let http = self.routes.http.iter().filter(|route| route.port == port && !self.is_relayed(route));
        let http = names::reachable(self.hop, http, |route| &route.hosts)?;
        let sni = self.routes.sni.iter().filter(|route| route.port == port);
        let sni = names::reachable(self.hop, sni, |route| &route.names)?;

        let mut listener = filters::listener(&name, port, Direction::Outbound, Vec::new());
        listener["bind_to_port"] = json!(false);
        let (mut chains, to_any_address) = self.addresses(port)?;
        chains.extend(self.server_names(&sni)?);
        if http.is_empty() {
            let otherwise = to_any_address.map_or(self.unmatched(), |upstream| &upstream.name);
            listener["default_filter_chain"] = filters::relay(otherwise, otherwise, self.settings);
        } else if let Some(upstream) = to_any_address {
            let upstream = upstream.name.clone();
            return Err(Unsupported::HttpBesideAnyAddress { hop: self.hop.clone(), port, upstream });
        } else {
            let mut chain = self.http(&port.to_string(), &http)?;
            if !sni.is_empty() {
                chain["filter_chain_match"] = json!({ "transport_protocol": "raw_buffer" });
                listener["default_filter_chain"] = filters::relay(self.unmatched(), self.unmatched(), self.settings);
            }
            chains.push(chain);
        }
        if !sni.is_empty() {
            listener["listener_filters"] = json!([filters::tls_inspector()]);
        }
        listener["filter_chains"] = Value::Array(chains);
        Ok(listener)
    }

    /// Whether a service's requests are not read, so that its address alone says where they go. A host outside of the
    /// mesh has none that is its own.
    fn is_relayed(&self, route: &HttpRoute) -> bool {
        self.settings.http == HttpHandling::Tcp && route.virtual_ip.is_some()
    }

    /// The chains of destination addresses on a port, and the upstream of all others if there is one.
    ///
    /// The first match wins in routes, the longest prefix in Envoy. These agree once what an earlier route covers is left out.
    fn addresses(&mut self, port: u16) -> Result<(Vec<Value>, Option<&'a Upstream>), Unsupported> {
        let tcp = self.routes.tcp.iter().filter(|route| route.port == port);
        let tcp = tcp.map(|route| (route.addresses.clone(), &route.upstream));
        let relayed = self.routes.http.iter().filter(|route| route.port == port && self.is_relayed(route));
        let relayed = relayed.map(|route| {
            (route.virtual_ip.map(|address| Cidr::around(address, 32)).into_iter().collect(), &route.upstream)
        });
        let routes: Vec<(Vec<Cidr>, &Upstream)> = tcp.chain(relayed).collect();
        let mut chains = Vec::new();
        let mut seen: Vec<Cidr> = Vec::new();
        for (addresses, upstream) in routes {
            self.clusters.add_upstream(upstream, Traffic::Tcp)?;
            if addresses.is_empty() {
                return Ok((chains, Some(upstream)));
            }
            let mut own = Vec::new();
            for address in addresses {
                if !seen.iter().any(|earlier| covers(*earlier, address)) {
                    seen.push(address);
                    own.push(address);
                }
            }
            if own.is_empty() {
                continue;
            }
            let mut chain = filters::relay(&upstream.name, &upstream.name, self.settings);
            chain["filter_chain_match"] = json!({ "prefix_ranges": filters::ranges(&own) });
            chains.push(chain);
        }
        Ok((chains, None))
    }

    fn server_names(&mut self, routes: &[(&SniRoute, Vec<&str>)]) -> Result<Vec<Value>, Unsupported> {
        let mut chains = Vec::new();
        for (route, names) in routes {
            let mut chain = server_name::relay(&mut self.clusters, &route.upstream, self.dns, self.settings)?;
            chain["filter_chain_match"] = json!({ "server_names": names });
            chains.push(chain);
        }
        Ok(chains)
    }

    fn http(&mut self, name: &str, routes: &[(&HttpRoute, Vec<&str>)]) -> Result<Value, Unsupported> {
        let mut hosts = Vec::new();
        for (http, names) in routes {
            self.clusters.add_upstream(&http.upstream, Traffic::Http)?;
            hosts.push(json!({
                "name": format!("{}:{}", names[0], http.port),
                "domains": names,
                "routes": [with_retries(route(&http.upstream.name))],
            }));
        }
        hosts.push(match self.routes.unmatched {
            Unmatched::AllowAny => json!({ "name": "allow_any", "domains": ["*"], "routes": [route(PASSTHROUGH)] }),
            Unmatched::RegistryOnly => json!({
                "name": "block_all",
                "domains": ["*"],
                "routes": [{ "match": { "prefix": "/" }, "direct_response": { "status": 502 } }],
            }),
        });
        Ok(filters::http(name, Direction::Outbound, hosts, self.settings))
    }

    fn unmatched(&self) -> &'static str {
        match self.routes.unmatched {
            Unmatched::AllowAny => PASSTHROUGH,
            Unmatched::RegistryOnly => BLACK_HOLE,
        }
    }
}

fn covers(earlier: Cidr, later: Cidr) -> bool {
    earlier.prefix() <= later.prefix() && earlier.contains(later.network())
}

/// Every request to a cluster, without time-out.
fn route(cluster: &str) -> Value {
    json!({ "match": { "prefix": "/" }, "route": { "cluster": cluster, "timeout": "0s" } })
}

/// Istio's default for routes to services: twice again where the request cannot have been processed.
fn with_retries(mut route: Value) -> Value {
    route["route"]["retry_policy"] = json!({
        "retry_on": "connect-failure,refused-stream,unavailable,cancelled",
        "num_retries": 2,
        "host_selection_retry_max_attempts": 5,
        "retry_host_predicate": [{
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
            },
        }],
    });
    route
}
