//! Envoy's statistics (`/stats`) as counters.

use super::server_name::INTERNAL;
use crate::counters::{Counters, Unreadable};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The counters of [`parse`], as JSON. Decoded, the filter is `^(cluster\.….|listener\.….)(suffix|suffix|…)$`.
pub(super) const PATH: &str = "/stats?format=json&filter=%5E(\
    cluster%5C..*%5C.(\
    upstream_cx_(total|active|http1_total|http2_total|tx_bytes_total|rx_bytes_total)|upstream_rq_total|ssl%5C.handshake\
    )|\
    listener%5C..*%5C.ssl%5C.(handshake|no_certificate|connection_error|fail_verify_.*)\
    )$";

#[derive(Deserialize)]
struct Answer {
    stats: Vec<Statistic>,
}

#[derive(Deserialize)]
struct Statistic {
    name: String,
    value: u64,
}

/// What the answer to [`PATH`] says, without what goes from one listener of the process to another. Upstreams have the name that they were configured with, as long as it has no
/// colon, which Envoy replaces.
pub(super) fn parse(answer: &str) -> Result<Counters, Unreadable> {
    let answer: Answer = serde_json::from_str(answer).map_err(|source| Unreadable::EnvoyStats { source })?;
    let mut counters = Counters::default();
    let mut read_as_http = BTreeSet::new();
    for Statistic { name, value } in answer.stats {
        if let Some((upstream, counter)) = name.strip_prefix("cluster.").and_then(split_upstream) {
            if upstream.starts_with(INTERNAL) {
                continue;
            }
            let of_upstream = counters.upstreams.entry(upstream.to_owned()).or_default();
            match counter {
                "upstream_cx_total" => of_upstream.connections = value,
                "upstream_cx_active" => of_upstream.active = value,
                "upstream_cx_tx_bytes_total" => of_upstream.sent_bytes = value,
                "upstream_cx_rx_bytes_total" => of_upstream.received_bytes = value,
                "upstream_rq_total" => of_upstream.requests = value,
                "ssl.handshake" => of_upstream.tls_handshakes = value,
                _ if value > 0 => drop(read_as_http.insert(upstream.to_owned())),
                _ => {}
            }
        } else if let Some((_, counter)) = name.strip_prefix("listener.").and_then(|name| name.split_once(".ssl.")) {
            match counter {
                "handshake" => counters.terminated.handshakes += value,
                "no_certificate" => counters.terminated.without_client_certificate += value,
                _ => counters.terminated.failed += value,
            }
        }
    }
    // Envoy counts a request for each TCP connection that it relays, too.
    for (upstream, of_upstream) in &mut counters.upstreams {
        if !read_as_http.contains(upstream) {
            of_upstream.requests = 0;
        }
    }
    Ok(counters)
}

/// `outbound|27017||airline.mongodb.example.ssl.handshake` as upstream and counter. Both may have dots.
fn split_upstream(name: &str) -> Option<(&str, &'static str)> {
    const COUNTERS: [&str; 8] = [
        "upstream_cx_total",
        "upstream_cx_active",
        "upstream_cx_http1_total",
        "upstream_cx_http2_total",
        "upstream_cx_tx_bytes_total",
        "upstream_cx_rx_bytes_total",
        "upstream_rq_total",
        "ssl.handshake",
    ];
    COUNTERS.into_iter().find_map(|counter| Some((name.strip_suffix(counter)?.strip_suffix('.')?, counter)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::TlsCounters;
    use proptest::prelude::*;

    fn answer(statistics: &[(String, u64)]) -> String {
        let statistics: Vec<_> =
            statistics.iter().map(|(name, value)| serde_json::json!({ "name": name, "value": value })).collect();
        serde_json::json!({ "stats": statistics }).to_string()
    }

    proptest! {
        #[test]
        fn upstreams_keep_their_names(name in "[a-z|*._-]{1,40}", bytes in any::<u64>()) {
            let counters = parse(&answer(&[(format!("cluster.{name}.upstream_cx_rx_bytes_total"), bytes)])).unwrap();
            prop_assert_eq!(counters.upstreams[&name].received_bytes, bytes);
        }

        #[test]
        fn any_answer_is_read_or_refused(answer in ".*") {
            let _ = parse(&answer);
        }
    }

    #[test]
    fn requests_are_counted_where_http_is_read() {
        let statistics = [("a", "1"), ("b", "2")].map(|(name, version)| {
            let http = u64::from(name == "a");
            [
                (format!("cluster.{name}.upstream_rq_total"), 7),
                (format!("cluster.{name}.upstream_cx_http{version}_total"), http),
            ]
        });
        let counters = parse(&answer(&statistics.concat())).unwrap();
        assert_eq!(counters.upstreams["a"].requests, 7);
        assert_eq!(counters.upstreams["b"].requests, 0);
    }

    #[test]
    fn what_stays_within_the_process_is_left_out() {
        let name = "internal|8443|0|outbound|27017||*.mongodb.example";
        let counters = parse(&answer(&[(format!("cluster.{name}.upstream_cx_tx_bytes_total"), 7)])).unwrap();
        assert!(counters.upstreams.is_empty(), "{counters:?}");
    }

    #[test]
    fn failures_of_every_kind_and_listener_add_up() {
        let statistics = [
            ("listener.0.0.0.0_15006.ssl.handshake", 5),
            ("listener.0.0.0.0_8443.ssl.handshake", 4),
            ("listener.0.0.0.0_8443.ssl.no_certificate", 1),
            ("listener.0.0.0.0_8443.ssl.fail_verify_san", 2),
            ("listener.0.0.0.0_15006.ssl.connection_error", 3),
        ];
        let counters = parse(&answer(&statistics.map(|(name, value)| (name.to_owned(), value)))).unwrap();
        assert_eq!(counters.terminated, TlsCounters { handshakes: 9, without_client_certificate: 1, failed: 5 });
    }

    #[test]
    fn what_is_not_envoys_answer_is_refused() {
        for answer in ["", "{}", "no healthy upstream", r#"{"stats": [{"name": "cluster.a.upstream_cx_total"}]}"#] {
            assert!(matches!(parse(answer), Err(Unreadable::EnvoyStats { .. })), "{answer}");
        }
    }
}
