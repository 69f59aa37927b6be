//! Proof of path: what the hops' own counters say of a slice, held against what its case promises.
//!
//! Every claim is decided by counters of at least one process that would know if it were false: proxies count
//! bytes and handshakes for each upstream, the database counts operations for each peer. Pure functions.

use crate::record::{CaseHeader, ProofLine};
use meshtoll_model::{host::HostPattern, ids::HopName, process::Role, topology::Topology};
use meshtoll_subjects::{
    counters::{Counters, UpstreamCounters},
    nginx::SniProxyCounters,
};
use std::{collections::BTreeSet, net::IpAddr};

/// Share of the database's bytes that a hop on the way must have carried at least. Below one because the hops'
/// counters are read one after another while the driver's heartbeats go on.
const CARRIED: f64 = 0.98;

/// The counters of every hop of a topology at one moment; all cumulative, but for `open` and `active`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Sidecars and the gateway.
    pub proxies: Vec<ProxyEvidence>,
    /// The SNI proxy, where there is one.
    pub sni_proxy: Option<SniProxyCounters>,
    /// Who the database served.
    pub database: Vec<DatabaseSource>,
}

/// A proxy's counters.
#[derive(Clone, Debug, PartialEq)]
pub struct ProxyEvidence {
    /// The proxy.
    pub hop: HopName,
    /// Sidecar or gateway.
    pub role: Role,
    /// What it counted.
    pub counters: Counters,
}

/// What the database served to one peer address, by TLS version and server name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSource {
    /// The peer as the database sees it.
    pub peer: IpAddr,
    /// Server name that the peer sent; `None` without TLS.
    pub server_name: Option<String>,
    /// TLS version; `None` without TLS.
    pub tls: Option<String>,
    /// Commands other than handshakes and heartbeats.
    pub operations: u64,
    /// Bytes of all its messages, inside TLS.
    pub received_bytes: u64,
}

/// What happened between two moments of a topology.
struct Between<'a> {
    topology: &'a Topology,
    case: &'a CaseHeader,
    before: &'a Evidence,
    after: &'a Evidence,
}

/// Holds what happened between `before` and `after` against what `case` promises. `response_bytes` is what the load
/// generator received meanwhile in response bodies.
pub fn prove(
    case: &CaseHeader,
    topology: &Topology,
    before: &Evidence,
    after: &Evidence,
    response_bytes: u64,
) -> Vec<ProofLine> {
    let between = Between { topology, case, before, after };
    let mut lines = vec![between.database_sees_tls(), between.database_sees_the_last_hop(), between.sidecars()];
    if case.path.contains(&Role::Gateway) {
        lines.push(between.gateway());
        lines.push(between.mutual_tls());
    }
    if case.path.contains(&Role::SniProxy) {
        lines.push(between.sni_proxy());
    }
    lines.push(between.services(response_bytes));
    lines
}

impl Between<'_> {
    /// Operations and bytes of each of the database's sources in between.
    fn database(&self) -> Vec<DatabaseSource> {
        let earlier = |source: &DatabaseSource| {
            self.before.database.iter().find(|other| {
                (other.peer, &other.server_name, &other.tls) == (source.peer, &source.server_name, &source.tls)
            })
        };
        let since = |source: &DatabaseSource| DatabaseSource {
            operations: source.operations - earlier(source).map_or(0, |other| other.operations),
            received_bytes: source.received_bytes - earlier(source).map_or(0, |other| other.received_bytes),
            ..source.clone()
        };
        self.after.database.iter().map(since).filter(|source| source.operations > 0).collect()
    }

    fn database_bytes(&self) -> u64 {
        self.database().iter().map(|source| source.received_bytes).sum()
    }

    fn database_sees_tls(&self) -> ProofLine {
        let expected = self.topology.external.first().map(|external| external.host.as_str());
        let sources = self.database();
        let right = |source: &&DatabaseSource| source.tls.is_some() && source.server_name.as_deref() == expected;
        let wrong: u64 = sources.iter().filter(|source| !right(source)).map(|source| source.operations).sum();
        let all: u64 = sources.iter().map(|source| source.operations).sum();
        let versions: BTreeSet<&str> = sources.iter().filter_map(|source| source.tls.as_deref()).collect();
        let versions = Vec::from_iter(versions).join(", ");
        line(
            format!("the database is asked over TLS, as {}", expected.unwrap_or("(no name)")),
            all > 0 && wrong == 0,
            format!("database: {all} operations ({versions}), {wrong} of them without TLS or under another name"),
        )
    }

    fn database_sees_the_last_hop(&self) -> ProofLine {
        let gateway = self.topology.gateway.as_ref().filter(|_| self.case.path.contains(&Role::Gateway));
        let (who, expected): (_, BTreeSet<IpAddr>) = match gateway {
            Some(gateway) => ("the gateway's pod", BTreeSet::from([gateway.pod_ip.into()])),
            None => {
                ("the services' pods", self.topology.services.iter().map(|service| service.pod_ip.into()).collect())
            }
        };
        let sources = self.database();
        let right: u64 = operations(sources.iter().filter(|source| expected.contains(&source.peer)));
        let others: BTreeSet<String> = sources
            .iter()
            .filter(|source| !expected.contains(&source.peer))
            .map(|source| source.peer.to_string())
            .collect();
        let others = if others.is_empty() { "none".to_owned() } else { Vec::from_iter(others).join(", ") };
        line(
            format!("the database is asked from {who} alone"),
            right > 0 && right == operations(sources.iter()),
            format!("database: {right} operations from there; other peers: {others}"),
        )
    }

    /// Traffic to upstreams outside the application, of all proxies of a role, as (to an upstream that `expected`
    /// accepts, to others).
    fn external_traffic(&self, role: Role, expected: impl Fn(&str) -> bool) -> (UpstreamCounters, UpstreamCounters) {
        let mut traffic = (UpstreamCounters::default(), UpstreamCounters::default());
        for (name, counters) in self.upstreams(role).filter(|(name, _)| !self.is_internal(name)) {
            let sum = if expected(name) { &mut traffic.0 } else { &mut traffic.1 };
            sum.connections += counters.connections;
            sum.active += counters.active;
            sum.sent_bytes += counters.sent_bytes;
            sum.received_bytes += counters.received_bytes;
            sum.tls_handshakes += counters.tls_handshakes;
        }
        traffic
    }

    /// Upstreams of all proxies of a role: bytes and requests in between; connections and handshakes since the
    /// start, because connections are kept across slices.
    fn upstreams(&self, role: Role) -> impl Iterator<Item = (&str, UpstreamCounters)> {
        self.after.proxies.iter().filter(move |proxy| proxy.role == role).flat_map(|proxy| {
            let before = self.before.proxies.iter().find(|other| other.hop == proxy.hop);
            proxy.counters.upstreams.iter().map(move |(name, after)| {
                let before = before.and_then(|before| before.counters.upstreams.get(name)).copied().unwrap_or_default();
                let between = UpstreamCounters {
                    sent_bytes: after.sent_bytes.saturating_sub(before.sent_bytes),
                    received_bytes: after.received_bytes.saturating_sub(before.received_bytes),
                    requests: after.requests.saturating_sub(before.requests),
                    ..*after
                };
                (name.as_str(), between)
            })
        })
    }

    /// Whether an upstream is the application itself: the proxy's own service, or another service of the mesh.
    fn is_internal(&self, upstream: &str) -> bool {
        upstream.to_ascii_lowercase().starts_with("inbound")
            || self.topology.services.iter().any(|service| upstream.ends_with(&format!("|{}", service.host)))
    }

    fn is_gateway(&self, upstream: &str) -> bool {
        self.topology.gateway.as_ref().is_some_and(|gateway| upstream.ends_with(&format!("|{}", gateway.host)))
    }

    fn sidecars(&self) -> ProofLine {
        let needed = self.database_bytes();
        let through_gateway = self.case.path.contains(&Role::Gateway);
        let not_passed_through = |upstream: &str| upstream.starts_with("outbound|");
        let expected = |upstream: &str| not_passed_through(upstream) && self.is_gateway(upstream) == through_gateway;
        let (right, wrong) = self.external_traffic(Role::Sidecar, expected);
        let to = if through_gateway { "the gateway" } else { "the database" };
        let evidence = format!(
            "sidecars: {} bytes to {to}, {} elsewhere outside the mesh; database: {needed} bytes received",
            right.sent_bytes, wrong.sent_bytes
        );
        match self.case.path.contains(&Role::Sidecar) {
            true => line(
                format!("database traffic passes the sidecars, to {to}"),
                carried(right.sent_bytes, needed) && wrong.sent_bytes == 0,
                evidence,
            ),
            false => line(
                "database traffic passes no sidecar".to_owned(),
                needed > 0 && right.sent_bytes + wrong.sent_bytes == 0,
                evidence,
            ),
        }
    }

    fn gateway(&self) -> ProofLine {
        let needed = self.database_bytes();
        let second_proxy = self.case.path.contains(&Role::SniProxy);
        let is_database = |upstream: &str| {
            let host: Option<HostPattern> = upstream.rsplit('|').next().and_then(|host| host.parse().ok());
            host.is_some_and(|host| self.topology.external.iter().any(|external| host.matches(&external.host)))
        };
        let (right, wrong) = self.external_traffic(Role::Gateway, |upstream| is_database(upstream) != second_proxy);
        let to = if second_proxy { "the SNI proxy" } else { "the database" };
        line(
            format!("database traffic passes the gateway, to {to}"),
            carried(right.sent_bytes, needed) && wrong.sent_bytes == 0,
            format!(
                "gateway: {} bytes to {to}, {} elsewhere; database: {needed} bytes received",
                right.sent_bytes, wrong.sent_bytes
            ),
        )
    }

    fn mutual_tls(&self) -> ProofLine {
        let gateways = || self.after.proxies.iter().filter(|proxy| proxy.role == Role::Gateway);
        let handshakes: u64 = gateways().map(|proxy| proxy.counters.terminated.handshakes).sum();
        let anonymous: u64 = gateways().map(|proxy| proxy.counters.terminated.without_client_certificate).sum();
        let (sidecars, _) = self.external_traffic(Role::Sidecar, |upstream| self.is_gateway(upstream));
        let evidence = format!(
            "gateway: {handshakes} handshakes, {anonymous} without client certificate; sidecars: {} handshakes on {} \
             connections to the gateway",
            sidecars.tls_handshakes, sidecars.connections
        );
        match self.case.mesh_mtls {
            true => line(
                "sidecars and gateway speak mutual TLS".to_owned(),
                handshakes > 0 && anonymous == 0 && sidecars.tls_handshakes >= sidecars.active.max(1),
                evidence,
            ),
            false => line(
                "sidecars and gateway add no TLS of their own".to_owned(),
                handshakes == 0 && sidecars.tls_handshakes == 0 && sidecars.connections > 0,
                evidence,
            ),
        }
    }

    fn sni_proxy(&self) -> ProofLine {
        let counters = self.after.sni_proxy.unwrap_or_default();
        let (gateway, _) = self.external_traffic(Role::Gateway, |_| true);
        line(
            "the gateway's connections end in the SNI proxy".to_owned(),
            counters.connections >= gateway.connections && counters.active > 0 && gateway.active > 0,
            format!(
                "SNI proxy: {} connections accepted, {} connections open; gateway: {} opened to it, {} open",
                counters.connections, counters.active, gateway.connections, gateway.active
            ),
        )
    }

    fn services(&self, response_bytes: u64) -> ProofLine {
        let inbound: u64 = self
            .upstreams(Role::Sidecar)
            .filter(|(name, _)| name.starts_with("inbound|"))
            .map(|(_, counters)| counters.received_bytes)
            .sum();
        let calls =
            self.upstreams(Role::Sidecar).filter(|(name, _)| self.is_internal(name) && name.starts_with("outbound|"));
        let (mut open, mut handshakes) = (0, 0);
        for (_, counters) in calls {
            open += counters.active;
            handshakes += counters.tls_handshakes;
        }
        line(
            "the services' own traffic passes their sidecars, with mutual TLS between them".to_owned(),
            inbound >= response_bytes && response_bytes > 0 && handshakes > 0 && handshakes >= open,
            format!(
                "sidecars: {inbound} bytes received from their services, for {response_bytes} bytes of response bodies; \
                 {handshakes} handshakes between sidecars, {open} connections open"
            ),
        )
    }
}

fn operations<'a>(sources: impl Iterator<Item = &'a DatabaseSource>) -> u64 {
    sources.map(|source| source.operations).sum()
}

/// Whether a hop's bytes account for what the database received: more is TLS's own, less is another path.
fn carried(bytes: u64, needed: u64) -> bool {
    needed > 0 && bytes as f64 >= CARRIED * needed as f64
}

fn line(claim: String, holds: bool, evidence: String) -> ProofLine {
    ProofLine { claim, evidence, holds }
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
