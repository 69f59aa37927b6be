//! nginx as the egress gateway's SNI proxy: it relays TLS to the host that the ClientHello names.
//!
//! The gateway cannot do that itself in the case that needs it: inside the mesh's TLS it relays bytes, and a wildcard has
//! no one address.

use crate::{Unsupported, counters::Unreadable, names};
use meshtoll_model::{
    ids::HopName,
    process::{ConfigFile, ProcessSpec, Program, Ready, Role, RunAs},
    topology::ProxySettings,
};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Port of the SNI proxy's status page, on 127.0.0.1 of its pod.
pub const STATUS_PORT: u16 = 15090;
/// `GET` on [`STATUS_PORT`] that answers with the SNI proxy's counters.
pub const STATUS_PATH: &str = "/status";

/// What the SNI proxy in a gateway's pod does.
#[derive(Clone, Debug)]
pub struct SniProxy<'a> {
    /// Name of the gateway's workload, the first part of the hop's name: `WORKLOAD/sni-proxy`.
    pub workload: &'a str,
    /// Where it listens, on 127.0.0.1.
    pub listen_port: u16,
    /// Server names that it relays, as in the gateway's routes; it closes the connections of all others.
    pub names: &'a [String],
    /// The hosts' port.
    pub upstream_port: u16,
    /// DNS server to ask.
    pub dns: Ipv4Addr,
    /// Settings that are the same for every proxy.
    pub settings: &'a ProxySettings,
}

const CONFIG: &str = "nginx.conf";

/// The process that serves as SNI proxy.
///
/// One process, with neither a master nor a daemon: whoever ends it leaves no worker behind. Its sockets carry no mark,
/// since nothing is intercepted in a gateway's pod.
pub fn sni_proxy(proxy: &SniProxy<'_>) -> Result<ProcessSpec, Unsupported> {
    let hop = HopName::new(format!("{}/sni-proxy", proxy.workload));
    let threads = proxy.settings.worker_threads;
    if threads != 1 {
        return Err(Unsupported::WorkerThreads { hop, threads });
    }
    let names = names::reachable(&hop, [proxy], |proxy| proxy.names)?.into_iter().flat_map(|(_, names)| names);
    let config = config(proxy, names);
    Ok(ProcessSpec {
        hop,
        role: Role::SniProxy,
        program: Program::Nginx,
        args: ["-p", ".", "-c", CONFIG, "-e", "stderr"].map(str::to_owned).to_vec(),
        env: Vec::new(),
        files: vec![ConfigFile::public(CONFIG, config)],
        run_as: RunAs::Proxy,
        ready: Ready::Http { port: STATUS_PORT, path: STATUS_PATH.to_owned() },
    })
}

fn config<'a>(proxy: &SniProxy<'_>, names: impl Iterator<Item = &'a str>) -> String {
    let SniProxy { listen_port, upstream_port, dns, .. } = proxy;
    let names: String =
        names.map(|name| format!("\n        {name} $ssl_preread_server_name:{upstream_port};")).collect();
    let access_log = if proxy.settings.access_log { "access.log connection" } else { "off" };
    format!(
        r#"load_module /usr/lib/nginx/modules/ngx_stream_module.so;
# Where it runs as root, in a user namespace, there is no other user to whom it could give its folders.
user root;
daemon off;
master_process off;
worker_processes 1;
pid nginx.pid;
error_log stderr warn;

events {{
    worker_connections 16384;
}}

stream {{
    # No upstream: the connection is closed.
    map $ssl_preread_server_name $upstream {{
        hostnames;
        default "";{names}
    }}

    log_format connection '[$time_iso8601] $remote_addr $ssl_preread_server_name $upstream_addr $status '
                          '$bytes_received $bytes_sent $session_time';
    access_log {access_log};
    resolver {dns} valid=30s ipv6=off;

    server {{
        listen 127.0.0.1:{listen_port};
        ssl_preread on;
        proxy_pass $upstream;
        proxy_connect_timeout 10s;
        # As Envoy's: a pooled connection may rest for long.
        proxy_timeout 1h;
    }}
}}

http {{
    access_log off;
    client_body_temp_path temp-body;
    proxy_temp_path temp-proxy;
    fastcgi_temp_path temp-fastcgi;
    uwsgi_temp_path temp-uwsgi;
    scgi_temp_path temp-scgi;

    server {{
        listen 127.0.0.1:{STATUS_PORT};
        # A connection a request: so the status page's own connections can be told from the SNI proxy's.
        keepalive_timeout 0;
        location = {STATUS_PATH} {{
            stub_status;
        }}
    }}
}}
"#
    )
}

/// What the SNI proxy did since its start, the status page's own connections left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SniProxyCounters {
    /// Connections accepted, whether relayed or closed for their server name.
    pub connections: u64,
    /// Of these, open now (a gauge).
    pub active: u64,
    /// Connections closed at once for want of room (`worker_connections`).
    pub dropped: u64,
}

/// What the answer to [`STATUS_PATH`] says.
///
/// nginx counts connections of all its listeners together, but requests of the status page alone; as that page
/// closes each connection after one request, its requests are its connections. Those of it that are open now are
/// the ones whose request is being read or answered.
pub fn counters(answer: &str) -> Result<SniProxyCounters, Unreadable> {
    let numbers: Vec<u64> = answer.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
    let all: &[u64; 7] = numbers.as_slice().try_into().map_err(|_| unreadable(answer))?;
    let [active, accepted, handled, requests, reading, writing, _waiting] = *all;
    if !answer.starts_with("Active connections: ") {
        return Err(unreadable(answer));
    }
    Ok(SniProxyCounters {
        connections: accepted.saturating_sub(requests),
        active: active.saturating_sub(reading.saturating_add(writing)),
        dropped: accepted.saturating_sub(handled),
    })
}

fn unreadable(answer: &str) -> Unreadable {
    Unreadable::StubStatus { answer: answer.chars().take(200).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_status_pages_own_connections_are_left_out() {
        let answer =
            "Active connections: 4 \nserver accepts handled requests\n 12 11 5 \nReading: 0 Writing: 1 Waiting: 0 \n";
        assert_eq!(counters(answer).unwrap(), SniProxyCounters { connections: 7, active: 3, dropped: 1 });
    }

    #[test]
    fn another_answer_is_refused() {
        for answer in ["", "404 Not Found", "Active connections: 4 \n", "1 2 3 4 5 6 7"] {
            assert!(matches!(counters(answer), Err(Unreadable::StubStatus { .. })), "{answer}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(answer in "(Active connections: )?([0-9]{1,22} ){0,8}.*") {
            let _ = counters(&answer);
        }
    }

    #[test]
    fn more_than_one_thread_is_refused() {
        let settings = ProxySettings {
            worker_threads: 2,
            access_log: false,
            http: meshtoll_model::topology::HttpHandling::Full,
            registry_only: true,
        };
        let names = ["*.mongodb.example".to_owned()];
        let proxy = SniProxy {
            workload: "egress-gateway",
            listen_port: 18443,
            names: &names,
            upstream_port: 27017,
            dns: Ipv4Addr::LOCALHOST,
            settings: &settings,
        };
        assert!(matches!(sni_proxy(&proxy), Err(Unsupported::WorkerThreads { threads: 2, .. })));
    }
}
