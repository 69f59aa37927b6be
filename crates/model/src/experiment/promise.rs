//! What a case promises of the database's connections, against what the case is made of.

use super::{
    MeshTls, PathHop,
    written::{Written, WrittenCase},
};
use crate::{diagnostics::Diagnostics, istio, topology::SNI_PROXY_PORT};
use std::net::Ipv4Addr;

/// Whether the promise is one that can be made.
pub(super) fn possible(case: &WrittenCase, has_gateway: bool, problems: &mut Diagnostics) {
    let promise = &case.promise;
    let hops: Vec<PathHop> = promise.path.iter().map(|hop| hop.value).collect();
    let complete = [PathHop::Sidecar, PathHop::Gateway, PathHop::SniProxy].starts_with(&hops);
    if !complete {
        let message = "a path is one of: [], [sidecar], [sidecar, gateway], [sidecar, gateway, sni-proxy]";
        problems.error(&promise.path.place, message);
        return;
    }
    if let Some(hop) = promise.path.iter().find(|hop| hop.value == PathHop::Gateway)
        && !has_gateway
    {
        problems.error(&hop.place, "the experiment has no egressGateway: describe its workload there");
    }
    let sni_proxy = case.sni_proxy.as_ref().is_some_and(|sni_proxy| sni_proxy.value);
    if sni_proxy != hops.contains(&PathHop::SniProxy) {
        let message = if sni_proxy {
            "the case has an SNI proxy: add `sni-proxy` to the path, or leave `sniProxy` out"
        } else {
            "the path has an SNI proxy: set `sniProxy: true` in this case, or take it out of the path"
        };
        problems.error(&promise.path.place, message);
    }
    if promise.mesh_tls.value == MeshTls::Mutual && !hops.contains(&PathHop::Gateway) {
        let message =
            "mutual TLS of the mesh lies between sidecar and gateway: without a gateway in the path it is `none`";
        problems.error(&promise.mesh_tls.place, message);
    }
    match (&case.interception, hops.is_empty()) {
        (None, true) => {
            let message = "nothing bypasses the mesh: exclude the database's addresses by \
                           `interception.excludeOutboundIPRanges`, or name the sidecar in the path";
            problems.error(&promise.path.place, message);
        }
        (Some(interception), false) => {
            let message = "the excluded addresses bypass the mesh, but the promised path goes through it: \
                           remove the exclusion, or empty the path";
            problems.error(&interception.exclude_outbound_ip_ranges.place, message);
        }
        (None, false) | (Some(_), true) => {}
    }
}

/// Whether the resources, as far as they can be judged without compiling routes, lead where the promise says.
pub(super) fn kept(
    written: &Written,
    case: &WrittenCase,
    resources: &istio::CheckedResources,
    problems: &mut Diagnostics,
) {
    let path = &case.promise.path;
    let promised = path.iter().any(|hop| hop.value == PathHop::Gateway);
    let configured = !resources.gateways.is_empty();
    if promised != configured {
        let message = if promised {
            "the path has a gateway, but the case's resources have no Gateway: add one"
        } else {
            "the case's resources have a Gateway, but the path has none: add `gateway` to the path, or remove the Gateway"
        };
        problems.error(&path.place, message);
    }
    let database = &written.database;
    let listed = resources.service_entries.iter().any(|entry| {
        entry.hosts.iter().any(|host| host.matches(database.host.as_str()))
            && entry.ports.iter().any(|port| port.number == database.port.0)
    });
    if !path.is_empty() && !listed {
        let message = format!(
            "no ServiceEntry of the case has {}:{}, so no sidecar would know where its connections go: add one",
            database.host.value, database.port.0
        );
        problems.error(&path.place, message);
    }
    if path.iter().any(|hop| hop.value == PathHop::SniProxy) && !leads_to_sni_proxy(resources) {
        let message = format!(
            "no route leads to the SNI proxy: add a ServiceEntry with endpoint 127.0.0.1, port {SNI_PROXY_PORT}, and a tcp \
             route from the Gateway to it"
        );
        problems.error(&path.place, message);
    }
    let mutual =
        resources.gateways.iter().flat_map(|gateway| &gateway.servers).any(|s| s.tls == istio::ServerTls::IstioMutual);
    if promised && configured && mutual != (case.promise.mesh_tls.value == MeshTls::Mutual) {
        let message = if mutual {
            "the case's Gateway has a server of mode ISTIO_MUTUAL: the promise is `mutual`, or the mode PASSTHROUGH"
        } else {
            "no server of the case's Gateway has mode ISTIO_MUTUAL: the promise is `none`, or the mode ISTIO_MUTUAL"
        };
        problems.error(&case.promise.mesh_tls.place, message);
    }
}

fn leads_to_sni_proxy(resources: &istio::CheckedResources) -> bool {
    let local = |entry: &&istio::ServiceEntry| match &entry.resolution {
        istio::Resolution::Endpoints(endpoints) => endpoints.iter().any(|end| end.address == Ipv4Addr::LOCALHOST),
        _ => false,
    };
    let proxies = resources.service_entries.iter().filter(local);
    let mut hosts = proxies.flat_map(|entry| &entry.hosts);
    hosts.any(|host| {
        let mut routes = resources.virtual_services.iter().flat_map(|service| &service.tcp);
        routes.any(|route| route.destination.host == host.as_str())
    })
}
