//! A made-up run that looks like a real one: an airline on two CPUs, six cases, four closed-loop levels and one
//! open-loop rate. Everything comes from a seed, so that the numbers stay the same.

use hdrhistogram::Histogram;
use meshtoll_lab::record::{
    CaseHeader, CellRecord, Environment, HopRecord, HopUsage, MachineUsage, ProofLine, PublishedFinding, RunHeader,
    RunId, RunRecord, SliceRecord, TopologyRecord,
};
use meshtoll_load::protocol::{Latencies, SliceResult};
use meshtoll_model::{
    ids::{CaseName, HopName, SpiffeId, SubjectName},
    process::Role,
    topology::{ExternalHost, GatewayWorkload, HttpHandling, ProxyMarking, ProxySettings, Service, Topology},
    units::{LoadLevel, Nanos},
};
use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

const SERVICES: [&str; 4] = ["auth", "booking", "customer", "flight"];
const CPUS: f64 = 2.0;

/// Name, what the case says of itself, path, mutual TLS, published ratio and finding, and the mesh µs that its
/// database traffic costs: of the sidecars, the gateway, the SNI proxy.
type CaseFacts = (&'static str, &'static str, &'static [Role], bool, Option<f64>, &'static str, [f64; 3]);
const CASES: [CaseFacts; 6] = [
    (
        "bypass",
        "Database traffic leaves the pod past the sidecar: the interception rules exclude the database's CIDR.",
        &[],
        false,
        None,
        "The baseline.",
        [0.0, 0.0, 0.0],
    ),
    (
        "sidecar",
        "Database traffic passes the sidecar; the database is a ServiceEntry.",
        &[Role::Sidecar],
        false,
        Some(1.0),
        "About equal to the baseline.",
        [9.0, 0.0, 0.0],
    ),
    (
        "gateway",
        "Database traffic passes the sidecar and the egress gateway.",
        &[Role::Sidecar, Role::Gateway],
        false,
        Some(1.0),
        "About equal to the baseline.",
        [11.0, 24.0, 0.0],
    ),
    (
        "gateway-mtls",
        "As gateway, with mutual TLS between sidecar and gateway around the application's own TLS.",
        &[Role::Sidecar, Role::Gateway],
        true,
        Some(0.9),
        "About 10 % less throughput, noticeably more latency.",
        [46.0, 58.0, 0.0],
    ),
    (
        "gateway-sni",
        "As gateway-mtls, with a second proxy in the gateway's pod that resolves wildcard hosts by SNI.",
        &[Role::Sidecar, Role::Gateway, Role::SniProxy],
        true,
        Some(0.76),
        "About 24 % less throughput, noticeably more latency, and the only case with significantly more CPU a transaction.",
        [49.0, 63.0, 148.0],
    ),
    (
        "gateway-wildcard",
        "As gateway-mtls, with wildcard hosts resolved by the gateway itself.",
        &[Role::Sidecar, Role::Gateway],
        true,
        None,
        "",
        [47.0, 66.0, 0.0],
    ),
];

/// A run of all cases on these subjects, 8 rounds.
pub(crate) fn record(subjects: &[&str]) -> RunRecord {
    let mut random = Random(0x5eed);
    let levels = [1, 10, 20, 40].map(LoadLevel::Clients).into_iter().chain([LoadLevel::Rate(600)]);
    let levels: Vec<LoadLevel> = levels.collect();
    let mut cells = Vec::new();
    for subject in subjects {
        let thrift = thrift(subject);
        for (case, .., mesh) in &CASES {
            for level in &levels {
                let slices = (0..8).map(|round| slice(&mut random, case, *level, *mesh, thrift, round)).collect();
                cells.push(CellRecord {
                    case: CaseName::new(*case),
                    subject: SubjectName::new(*subject),
                    level: *level,
                    slices,
                });
            }
        }
    }
    RunRecord {
        id: RunId("20260105T101500-7f3a".into()),
        header: header(subjects),
        ended: Some("2026-01-05T10:41:12Z".into()),
        topologies: subjects
            .iter()
            .flat_map(|subject| CASES.iter().map(|(case, _, path, ..)| topology(case, subject, path)))
            .collect(),
        cells,
    }
}

/// CPU and memory of a subject's proxies by Envoy's.
fn thrift(subject: &str) -> f64 {
    if subject == "envoy" { 1.0 } else { 0.62 }
}

fn header(subjects: &[&str]) -> RunHeader {
    let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    RunHeader {
        started: "2026-01-05T10:15:00Z".into(),
        experiment: "egress".into(),
        question: "What does adding an egress gateway cost, in throughput, response time and CPU, for an application \
                   that uses an external database?"
            .into(),
        cases: CASES
            .iter()
            .map(|(name, description, path, mesh_mtls, ratio, text, _)| CaseHeader {
                name: CaseName::new(*name),
                description: (*description).into(),
                path: path.to_vec(),
                mesh_mtls: *mesh_mtls,
                published: (!text.is_empty())
                    .then(|| PublishedFinding { throughput_ratio: *ratio, text: (*text).into() }),
            })
            .collect(),
        baseline: "bypass".into(),
        subjects: subjects.iter().map(|subject| SubjectName::new(*subject)).collect(),
        profile: "full".into(),
        rounds: 8,
        slice: Duration::from_secs(4),
        lead_in: Duration::from_millis(500),
        app_work: Duration::ZERO,
        customers: 10_000,
        database: "docstore".into(),
        seed: 42,
        experiment_yaml: "apiVersion: meshtoll/v1\n".into(),
        environment: Environment {
            kernel: "6.18.0".into(),
            cpu_model: "AMD EPYC 7763 64-Core Processor".into(),
            cpus: 2,
            memory_bytes: 8_254_009_344,
            rootless: false,
            meshtoll: "0.1.0 (3f2c9ab)".into(),
            versions: pairs(&[("envoy", "1.40.0"), ("nginx", "1.26.3"), ("rustc", "1.95.0")]),
            fairness: pairs(&[
                ("worker threads of each proxy", "1"),
                ("access log", "on, to a file in memory"),
                ("statistics", "on"),
                ("mutual TLS", "TLS 1.3, AES-128-GCM, session resumption off"),
            ]),
        },
    }
}

fn topology(case: &str, subject: &str, path: &[Role]) -> TopologyRecord {
    let identity = |name: &str| SpiffeId {
        trust_domain: "cluster.local".into(),
        namespace: "airline".into(),
        service_account: name.into(),
    };
    let service = |(place, name): (usize, &&str)| Service {
        name: (*name).into(),
        host: format!("{name}.airline.svc.cluster.local"),
        virtual_ip: Ipv4Addr::new(10, 96, 0, u8::try_from(place).expect("few services")),
        pod_ip: Ipv4Addr::new(10, 1, 0, u8::try_from(place).expect("few services")),
        port: 9080,
        identity: identity(name),
    };
    let gateway = path.contains(&Role::Gateway).then(|| GatewayWorkload {
        host: "istio-egressgateway.istio-system.svc.cluster.local".into(),
        virtual_ip: Ipv4Addr::new(10, 96, 0, 9),
        pod_ip: Ipv4Addr::new(10, 1, 0, 9),
        labels: vec![("istio".into(), "egressgateway".into())],
        identity: identity("egressgateway"),
        sni_proxy_port: path.contains(&Role::SniProxy).then_some(18443),
    });
    TopologyRecord {
        topology: Topology {
            case: case.into(),
            subject: subject.into(),
            services: SERVICES.iter().enumerate().map(service).collect(),
            gateway,
            external: vec![ExternalHost {
                host: "airline.mongodb.example".into(),
                address: Ipv4Addr::new(203, 0, 113, 10),
                port: 27017,
            }],
            dns: Ipv4Addr::new(10, 1, 0, 2),
            proxy_marking: ProxyMarking::Uid,
            proxy: ProxySettings {
                worker_threads: 1,
                access_log: true,
                http: if subject == "meshtoll" { HttpHandling::Tcp } else { HttpHandling::Full },
                registry_only: true,
            },
        },
        hops: hops(case, [0.0; 3], thrift(subject))
            .into_iter()
            .map(|(hop, role, _, _, memory)| HopRecord { hop, role, resident_bytes_at_start: (memory * 0.9e6) as u64 })
            .collect(),
        configs: Vec::new(),
    }
}

/// Every process of a case with its µs a transaction, the user share of it, and its memory in MB.
fn hops(case: &str, mesh: [f64; 3], thrift: f64) -> Vec<(HopName, Role, f64, f64, f64)> {
    let application = [28.0, 96.0, 71.0, 165.0];
    let sidecars = [31.0, 104.0, 88.0, 122.0];
    let mut hops = vec![(HopName::from("load"), Role::Load, 62.0, 0.55, 9.0)];
    for (place, service) in SERVICES.iter().enumerate() {
        let extra = mesh[0] * [0.05, 0.3, 0.2, 0.45][place];
        let sidecar = (sidecars[place] + extra) * thrift;
        hops.push((HopName::new(format!("{service}/app")), Role::Service, application[place], 0.62, 21.0));
        hops.push((HopName::new(format!("{service}/sidecar")), Role::Sidecar, sidecar, 0.41, 64.0 * thrift));
    }
    if case.starts_with("gateway") {
        hops.push(("egress-gateway/gateway".into(), Role::Gateway, mesh[1] * thrift, 0.38, 66.0 * thrift));
    }
    if case == "gateway-sni" {
        hops.push(("egress-gateway/sni-proxy".into(), Role::SniProxy, mesh[2] * thrift, 0.12, 14.0));
    }
    hops.push(("database/docstore".into(), Role::Database, 148.0, 0.7, 118.0));
    hops
}

fn slice(random: &mut Random, case: &str, level: LoadLevel, mesh: [f64; 3], thrift: f64, round: u32) -> SliceRecord {
    let drift = 1.0 + 0.03 * (f64::from(round) / 7.0 - 0.5);
    // One client leaves CPUs idle: a transaction waits for wake-ups, and costs more of them.
    let (in_line, cost) = match level {
        LoadLevel::Clients(1) => (1.0, 1.45),
        LoadLevel::Clients(clients) => (f64::from(clients), 1.0),
        LoadLevel::Rate(_) => (3.0, 1.25),
    };
    let usage: Vec<_> = hops(case, mesh, thrift)
        .into_iter()
        .map(|(hop, role, micros, user, memory)| (hop, role, micros * cost * drift * random.about(0.015), user, memory))
        .collect();
    let kernel_threads = 9.0 * random.about(0.2);
    let cpu: f64 = usage.iter().map(|(_, _, micros, ..)| micros).sum::<f64>() + kernel_threads + 12.0;
    let capacity = CPUS * 1e6 / cpu * if in_line < 2.0 { 0.46 } else { 0.97 - 0.2 / in_line } * random.about(0.014);
    let rate = match level {
        LoadLevel::Clients(_) => capacity,
        LoadLevel::Rate(rate) => f64::from(rate),
    };
    let transactions = (rate * 4.6) as u64;
    let window_transactions = (rate * 4.0) as u64;
    let total = |micros: f64| Nanos((micros * 1e3 * transactions as f64) as u64);
    SliceRecord {
        round,
        position: 0,
        started_unix_ns: 1_767_608_100_000_000_000 + u64::from(round) * 60_000_000_000,
        load: SliceResult {
            transactions,
            elapsed_ns: 4_600_000_000,
            window_transactions,
            window_ns: 4_000_000_000,
            errors: BTreeMap::new(),
            operations: operations(transactions),
            response_body_bytes: transactions * 618,
            latency: latencies(in_line / capacity * 1e9, window_transactions),
            lateness: match level {
                LoadLevel::Clients(_) => Latencies::new(),
                LoadLevel::Rate(_) => latencies(42_000.0, window_transactions),
            },
        },
        hops: usage
            .into_iter()
            .map(|(hop, role, micros, user, memory)| HopUsage {
                hop,
                role,
                cpu: total(micros),
                user: total(micros * user * 0.97),
                system: total(micros * (1.0 - user) * 0.97),
                resident_bytes: (memory * 1e6) as u64,
            })
            .collect(),
        machine: MachineUsage {
            elapsed: Nanos(4_600_000_000),
            busy: total(cpu * random.about(0.004)),
            steal: Nanos(9_000_000),
            interrupts: total(31.0),
            testbed: total(4.0),
            kernel_threads: total(kernel_threads),
            foreign: total(1.5),
        },
        proof: proof(case, transactions),
    }
}

fn operations(transactions: u64) -> BTreeMap<String, u64> {
    let shares =
        [("query", 530), ("cancel", 155), ("list", 105), ("book", 85), ("login", 71), ("view", 27), ("update", 27)];
    shares.into_iter().map(|(operation, share)| (operation.to_owned(), transactions * share / 1000)).collect()
}

/// A histogram of about log-logistic shape around a mean.
fn latencies(mean_ns: f64, count: u64) -> Latencies {
    let mut histogram: Histogram<u64> = Latencies::new().0;
    let steps = 400;
    for step in 0..steps {
        let quantile = (f64::from(step) + 0.5) / f64::from(steps);
        let value = mean_ns * 0.93 * (quantile / (1.0 - quantile)).powf(0.2);
        histogram.record_n(value as u64, count / steps as u64).expect("within the histogram's bounds");
    }
    Latencies(histogram)
}

fn proof(case: &str, transactions: u64) -> Vec<ProofLine> {
    let line = |claim: &str, evidence: String| ProofLine { claim: claim.into(), evidence, holds: true };
    let bytes = transactions * 2_310;
    let upstream = "outbound|27017||airline.mongodb.example";
    let mut lines = vec![match case {
        "bypass" => line("database traffic does not enter the sidecars", format!("4 sidecars: 0 bytes to {upstream}")),
        _ => line("database traffic enters the sidecars", format!("booking/sidecar: {bytes} bytes to {upstream}")),
    }];
    if case.starts_with("gateway") {
        let evidence = format!("egress-gateway/gateway: {bytes} bytes to {upstream}");
        lines.push(line("database traffic passes the gateway", evidence));
    }
    if ["gateway-mtls", "gateway-sni", "gateway-wildcard"].contains(&case) {
        let evidence = "egress-gateway/gateway: 24 handshakes, 0 without a client certificate".to_owned();
        lines.push(line("sidecars and gateway speak mutual TLS", evidence));
    }
    if case == "gateway-sni" {
        let evidence = format!("egress-gateway/sni-proxy: {bytes} bytes to airline.mongodb.example:27017");
        lines.push(line("database traffic passes the SNI proxy", evidence));
    }
    lines
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    /// A factor around 1, evenly spread over ± twice `deviation`.
    fn about(&mut self, deviation: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let unit = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        1.0 + deviation * 2.0 * (2.0 * unit - 1.0)
    }
}
