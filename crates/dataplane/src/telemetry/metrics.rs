//! The data plane's metrics.

use super::{
    counters::{Counters, TlsCounters, UpstreamSnapshot},
    hosts::KnownHosts,
    labels::{Connection, Denial, DnsResult, HostLabel, Lookup, Reload, ReloadKind, ReloadResult, Requested, Upstream},
    record::ConnectionRecord,
    upstream::{UpstreamCounters, Upstreams},
};
use meshtoll_model::host::HostPattern;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{
        MetricType,
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
    },
    registry::Registry,
};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{self, Relaxed},
        },
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// Everything that is counted. Labels are bounded: names come from resources, everything else from enumerations.
#[derive(Debug)]
pub struct Metrics {
    upstreams: Arc<Upstreams>,
    known_hosts: KnownHosts,
    certificate: Arc<Certificate>,
    connections: Family<Connection, Counter>,
    requested: Family<Requested, Counter>,
    denials: Family<Denial, Counter>,
    reloads: Family<Reload, Counter>,
    lookups: Family<Lookup, Counter>,
    handshakes: Counter,
    handshakes_failed: Counter,
    without_client_certificate: Counter,
    accept_pauses: Counter,
    access_log_dropped: Counter,
}

impl Metrics {
    /// Metrics whose names start with `meshtoll_`, in this registry.
    pub fn new(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("meshtoll");
        let metrics = Self {
            upstreams: Arc::default(),
            known_hosts: KnownHosts::default(),
            certificate: Arc::default(),
            connections: Family::default(),
            requested: Family::default(),
            denials: Family::default(),
            reloads: Family::default(),
            lookups: Family::default(),
            handshakes: Counter::default(),
            handshakes_failed: Counter::default(),
            without_client_certificate: Counter::default(),
            accept_pauses: Counter::default(),
            access_log_dropped: Counter::default(),
        };
        let m = &metrics;
        registry.register("connections", "Connections that ended or were refused", m.connections.clone());
        registry.register("requested_hosts", "Connections by the host that was asked for", m.requested.clone());
        registry.register("denials", "Connections that were denied", m.denials.clone());
        registry.register("reloads", "Changed files that were read", m.reloads.clone());
        registry.register("dns_lookups", "Names that were looked up", m.lookups.clone());
        registry.register("mesh_handshakes", "Mesh TLS handshakes completed as server", m.handshakes.clone());
        registry.register(
            "mesh_handshakes_failed",
            "Mesh TLS handshakes failed as server",
            m.handshakes_failed.clone(),
        );
        registry.register(
            "mesh_handshakes_without_client_certificate",
            "Mesh TLS handshakes completed as server without a client certificate",
            m.without_client_certificate.clone(),
        );
        registry.register(
            "accept_pauses",
            "Times that no connection was accepted for a while",
            m.accept_pauses.clone(),
        );
        registry.register(
            "access_log_dropped",
            "Lines that the access log had no room for",
            m.access_log_dropped.clone(),
        );
        registry.register_collector(Box::new(m.certificate.clone()));
        registry.register_collector(Box::new(m.upstreams.clone()));
        metrics
    }

    /// The counters of upstreams, which connections keep up to date while they live.
    pub fn upstreams(&self) -> &Arc<Upstreams> {
        &self.upstreams
    }

    /// Only these hosts have labels of their own from now on.
    pub fn set_known_hosts<'a>(&self, hosts: impl IntoIterator<Item = &'a HostPattern>) {
        self.known_hosts.set(hosts);
    }

    /// A connection ended, or was refused.
    pub fn connection_ended(&self, record: &ConnectionRecord) {
        let labels = Connection { direction: record.direction, response_flag: record.flag };
        self.connections.get_or_create(&labels).inc();
        if let Some(host) = &record.requested_host {
            let host = HostLabel(self.known_hosts.label(host));
            self.requested.get_or_create(&Requested { host }).inc();
        }
    }

    /// A connection was denied. The reason is a word of the program, and nothing that came in.
    pub fn denied(&self, reason: &'static str) {
        self.denials.get_or_create(&Denial { reason }).inc();
    }

    /// A peer's mesh TLS was terminated.
    pub fn handshake_completed(&self, with_client_certificate: bool) {
        self.handshakes.inc();
        if !with_client_certificate {
            self.without_client_certificate.inc();
        }
    }

    /// A peer's mesh TLS could not be terminated.
    pub fn handshake_failed(&self) {
        self.handshakes_failed.inc();
    }

    /// The certificate in use ends then.
    pub fn certificate_ends(&self, not_after: SystemTime) {
        let seconds = not_after.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.certificate.not_after.store(seconds, Relaxed);
    }

    /// Changed files were read.
    pub fn reloaded(&self, kind: ReloadKind, result: ReloadResult) {
        self.reloads.get_or_create(&Reload { kind, result }).inc();
    }

    /// Changed credentials were read, as [`meshtoll_identity::CredentialsWatch`] tells it.
    pub fn credentials_reloaded(&self, reload: &meshtoll_identity::Reload<'_>) {
        let result = match reload {
            meshtoll_identity::Reload::Loaded(credentials) => {
                self.certificate_ends(credentials.not_after());
                ReloadResult::Loaded
            }
            meshtoll_identity::Reload::Refused(_) => ReloadResult::Refused,
        };
        self.reloaded(ReloadKind::Credentials, result);
    }

    /// Nothing is accepted for a while, since there are no descriptors or too many connections.
    pub fn accept_paused(&self) {
        self.accept_pauses.inc();
    }

    /// A name was looked up.
    pub fn looked_up(&self, result: DnsResult) {
        self.lookups.get_or_create(&Lookup { result }).inc();
    }

    /// A line of the access log was lost.
    pub(super) fn access_log_dropped(&self) {
        self.access_log_dropped.inc();
    }

    /// The counters as of now.
    pub fn counters(&self) -> Counters {
        let upstreams = self.upstreams.all().into_iter();
        Counters {
            upstreams: upstreams.map(|(name, counters)| (name.to_string(), counters.snapshot())).collect(),
            terminated: TlsCounters {
                handshakes: self.handshakes.get(),
                without_client_certificate: self.without_client_certificate.get(),
                failed: self.handshakes_failed.get(),
            },
        }
    }
}

impl UpstreamCounters {
    fn snapshot(&self) -> UpstreamSnapshot {
        UpstreamSnapshot {
            connections: self.connections.load(Relaxed),
            active: self.active.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            requests: 0,
            tls_handshakes: self.tls_handshakes.load(Relaxed),
        }
    }
}

/// The certificate in use.
#[derive(Debug, Default)]
struct Certificate {
    /// Seconds since 1970; 0 without a certificate.
    not_after: AtomicU64,
}

impl Collector for Certificate {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let not_after = self.not_after.load(Ordering::Relaxed);
        if not_after == 0 {
            return Ok(());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for (name, help, value) in [
            ("certificate_expiry_timestamp_seconds", "When the certificate in use ends", not_after),
            ("certificate_expired", "1 once the certificate in use has ended", u64::from(now >= not_after)),
        ] {
            ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

/// How one number of an upstream is shown.
type Shown = (&'static str, &'static str, MetricType, fn(&UpstreamCounters) -> &AtomicU64);

const SHOWN: [Shown; 6] = [
    ("upstream_connections", "Connections opened", MetricType::Counter, |c| &c.connections),
    ("upstream_connections_active", "Connections open now", MetricType::Gauge, |c| &c.active),
    ("upstream_connections_failed", "Connections that could not be opened", MetricType::Counter, |c| &c.failed),
    ("upstream_sent_bytes", "Bytes sent, before the proxy's encryption", MetricType::Counter, |c| &c.sent_bytes),
    ("upstream_received_bytes", "Bytes received, after the proxy's decryption", MetricType::Counter, |c| {
        &c.received_bytes
    }),
    ("upstream_tls_handshakes", "TLS handshakes completed", MetricType::Counter, |c| &c.tls_handshakes),
];

impl Collector for Upstreams {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.all();
        for (name, help, kind, number) in SHOWN {
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (upstream, counters) in &all {
                let labels = Upstream { upstream: HostLabel(upstream.clone()) };
                let (number, encoder) = (number(counters).load(Relaxed), metric.encode_family(&labels)?);
                match kind {
                    MetricType::Gauge => ConstGauge::new(number).encode(encoder)?,
                    _ => ConstCounter::new(number).encode(encoder)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::record::{Direction, ResponseFlag, samples::refused},
        *,
    };
    use std::time::Duration;

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn what_happens_is_counted_under_its_labels() {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let hosts = ["airline.mongodb.example".parse().unwrap()];
        metrics.set_known_hosts(&hosts);
        let ended = ConnectionRecord { flag: ResponseFlag::None, direction: Direction::Gateway, ..refused() };
        metrics.connection_ended(&ended);
        for host in ["a.evil.example", "b.evil.example", "c\n{}=\"\\"] {
            metrics.connection_ended(&ConnectionRecord { requested_host: Some(host.into()), ..refused() });
        }
        metrics.connection_ended(&ConnectionRecord { requested_host: None, ..refused() });
        metrics.denied("server_name_mismatch");
        metrics.handshake_completed(true);
        metrics.handshake_completed(false);
        metrics.handshake_failed();
        metrics.reloaded(ReloadKind::Credentials, ReloadResult::Refused);
        metrics.accept_paused();
        metrics.looked_up(DnsResult::NoAddress);
        let (_, database) = metrics.upstreams().named("outbound|27017||airline.mongodb.example");
        database.opened();
        database.opened();
        database.closed();
        database.sent_bytes.fetch_add(7, Relaxed);
        metrics.certificate_ends(UNIX_EPOCH + Duration::from_secs(1_700_000_000));

        let text = text(&registry);
        for line in [
            "meshtoll_connections_total{direction=\"gateway\",response_flag=\"-\"} 1",
            "meshtoll_connections_total{direction=\"outbound\",response_flag=\"NR\"} 4",
            "meshtoll_requested_hosts_total{host=\"airline.mongodb.example\"} 1",
            "meshtoll_requested_hosts_total{host=\"other\"} 3",
            "meshtoll_denials_total{reason=\"server_name_mismatch\"} 1",
            "meshtoll_mesh_handshakes_total 2",
            "meshtoll_mesh_handshakes_without_client_certificate_total 1",
            "meshtoll_mesh_handshakes_failed_total 1",
            "meshtoll_reloads_total{kind=\"credentials\",result=\"refused\"} 1",
            "meshtoll_accept_pauses_total 1",
            "meshtoll_access_log_dropped_total 0",
            "meshtoll_dns_lookups_total{result=\"no_address\"} 1",
            "meshtoll_upstream_connections_total{upstream=\"outbound|27017||airline.mongodb.example\"} 2",
            "meshtoll_upstream_connections_active{upstream=\"outbound|27017||airline.mongodb.example\"} 1",
            "meshtoll_upstream_sent_bytes_total{upstream=\"outbound|27017||airline.mongodb.example\"} 7",
            "meshtoll_certificate_expiry_timestamp_seconds 1700000000",
            "meshtoll_certificate_expired 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "no line {line:?} in:\n{text}");
        }
        assert!(!text.contains("evil"), "{text}");

        metrics.certificate_ends(SystemTime::now() + Duration::from_secs(60));
        assert!(self::text(&registry).contains("meshtoll_certificate_expired 0\n"));
    }

    #[test]
    fn counters_are_what_the_lab_reads() {
        let metrics = Metrics::new(&mut Registry::default());
        let (_, database) = metrics.upstreams().named("database");
        database.opened();
        database.sent_bytes.fetch_add(3, Relaxed);
        database.received_bytes.fetch_add(4, Relaxed);
        database.tls_handshakes.fetch_add(1, Relaxed);
        metrics.handshake_completed(true);
        let literal = serde_json::json!({
            "upstreams": { "database": {
                "connections": 1, "active": 1, "sentBytes": 3, "receivedBytes": 4, "requests": 0, "tlsHandshakes": 1,
            }},
            "terminated": { "handshakes": 1, "withoutClientCertificate": 0, "failed": 0 },
        });
        assert_eq!(serde_json::to_value(metrics.counters()).unwrap(), literal);
    }
}
