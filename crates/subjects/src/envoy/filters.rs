//! Listeners, their filter chains and what reads a connection.

use meshtoll_model::{cidr::Cidr, topology::ProxySettings};
use serde_json::{Value, json};

/// Istio's default text format.
const ACCESS_LOG_FORMAT: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" \
    %RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% \
    \"%UPSTREAM_TRANSPORT_FAILURE_REASON%\" %BYTES_RECEIVED% %BYTES_SENT% %DURATION% \
    %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" \
    \"%REQ(:AUTHORITY)%\" \"%UPSTREAM_HOST%\" %UPSTREAM_CLUSTER_RAW% %UPSTREAM_LOCAL_ADDRESS% \
    %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n";

/// Which way a listener's traffic goes, seen from the workload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Inbound,
    Outbound,
}

/// A listener on every address, without time-out for what its listener filters wait for, as Istio's.
pub(super) fn listener(name: &str, port: u16, direction: Direction, chains: Vec<Value>) -> Value {
    json!({
        "name": name,
        "address": { "socket_address": { "address": "0.0.0.0", "port_value": port } },
        "traffic_direction": if direction == Direction::Inbound { "INBOUND" } else { "OUTBOUND" },
        "listener_filters_timeout": "0s",
        "continue_on_listener_filters_timeout": true,
        "filter_chains": chains,
    })
}

/// Reads the ClientHello, for matches on server name, ALPN and whether it is TLS at all.
pub(super) fn tls_inspector() -> Value {
    json!({
        "name": "envoy.filters.listener.tls_inspector",
        "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector" },
    })
}

/// Asks the kernel where a redirected connection was going.
pub(super) fn original_destination() -> Value {
    json!({
        "name": "envoy.filters.listener.original_dst",
        "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.listener.original_dst.v3.OriginalDst" },
    })
}

/// Ranges of addresses, as filter chains match them.
pub(super) fn ranges(cidrs: &[Cidr]) -> Value {
    cidrs.iter().map(|cidr| range(*cidr)).collect()
}

/// One range of addresses.
pub(super) fn range(cidr: Cidr) -> Value {
    json!({ "address_prefix": cidr.network(), "prefix_len": cidr.prefix() })
}

/// Puts a filter before all others of a chain.
pub(super) fn put_first(chain: &mut Value, filter: Value) {
    if let Some(filters) = chain["filters"].as_array_mut() {
        filters.insert(0, filter);
    }
}

/// A filter chain that relays connections to a cluster.
pub(super) fn relay(name: &str, cluster: &str, settings: &ProxySettings) -> Value {
    let mut proxy = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": cluster,
        "cluster": cluster,
    });
    if settings.access_log {
        proxy["access_log"] = access_log();
    }
    json!({ "name": name, "filters": [{ "name": "envoy.filters.network.tcp_proxy", "typed_config": proxy }] })
}

/// A filter chain that reads HTTP and routes requests.
pub(super) fn http(name: &str, direction: Direction, virtual_hosts: Vec<Value>, settings: &ProxySettings) -> Value {
    let mut manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "codec_type": "AUTO",
        "use_remote_address": false,
        "generate_request_id": true,
        "normalize_path": true,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "stream_idle_timeout": "0s",
        "route_config": {
            "name": name,
            "validate_clusters": true,
            "ignore_port_in_host_matching": true,
            "virtual_hosts": virtual_hosts,
        },
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" },
        }],
    });
    if direction == Direction::Inbound {
        manager["server_name"] = json!("istio-envoy");
        manager["forward_client_cert_details"] = json!("APPEND_FORWARD");
        manager["set_current_client_cert_details"] = json!({ "subject": true, "dns": true, "uri": true });
    }
    if settings.access_log {
        manager["access_log"] = access_log();
    }
    json!({
        "name": name,
        "filters": [{ "name": "envoy.filters.network.http_connection_manager", "typed_config": manager }],
    })
}

fn access_log() -> Value {
    json!([{
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": "access.log",
            "log_format": { "text_format_source": { "inline_string": ACCESS_LOG_FORMAT } },
        },
    }])
}
