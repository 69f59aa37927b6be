use super::*;
use crate::record::{
    CaseHeader, Environment, HopRecord, HopUsage, MachineUsage, ProofLine, PublishedFinding, RunHeader,
};
use meshtoll_load::protocol::{Latencies, SliceResult};
use meshtoll_model::{
    process::Role,
    topology::{HttpHandling, ProxyMarking, ProxySettings, Topology},
    units::{LoadLevel, Nanos},
};
use std::net::Ipv4Addr;

fn header() -> RunHeader {
    RunHeader {
        started: "2026-01-05T10:15:00Z".into(),
        experiment: "egress".into(),
        question: "What does it cost?".into(),
        cases: vec![CaseHeader {
            name: "bypass".into(),
            description: "past the mesh".into(),
            path: vec![Role::Sidecar],
            mesh_mtls: true,
            published: Some(PublishedFinding { throughput_ratio: Some(0.9), text: "10 % less".into() }),
        }],
        baseline: "bypass".into(),
        subjects: vec!["envoy".into()],
        profile: "quick".into(),
        rounds: 2,
        slice: Duration::from_millis(1500),
        lead_in: Duration::from_millis(200),
        app_work: Duration::ZERO,
        customers: 10_000,
        database: "docstore".into(),
        seed: u64::MAX,
        experiment_yaml: "name: egress\n".into(),
        environment: Environment {
            kernel: "6.1".into(),
            cpu_model: "a CPU".into(),
            cpus: 2,
            memory_bytes: 1 << 34,
            rootless: false,
            meshtoll: "0.1.0".into(),
            versions: vec![("envoy".into(), "1.40.0".into())],
            fairness: vec![("workers".into(), "1".into())],
        },
    }
}

fn topology() -> TopologyRecord {
    TopologyRecord {
        topology: Topology {
            case: "bypass".into(),
            subject: "envoy".into(),
            services: Vec::new(),
            gateway: None,
            external: Vec::new(),
            dns: Ipv4Addr::LOCALHOST,
            proxy_marking: ProxyMarking::Uid,
            proxy: ProxySettings {
                worker_threads: 1,
                access_log: false,
                http: HttpHandling::Full,
                registry_only: true,
            },
        },
        hops: vec![HopRecord {
            hop: "booking/sidecar".into(),
            role: Role::Sidecar,
            resident_bytes_at_start: 12_000_000,
        }],
        configs: vec![("booking/sidecar".into(), "envoy.json".into(), "{}".into())],
    }
}

fn cell() -> CellRecord {
    CellRecord { case: "bypass".into(), subject: "envoy".into(), level: LoadLevel::Clients(20), slices: Vec::new() }
}

fn slice(round: u32) -> SliceRecord {
    let mut latency = Latencies::new();
    latency.0.record_n(1_234_567, 40).unwrap();
    SliceRecord {
        round,
        position: 3,
        started_unix_ns: 1_767_607_200_123_456_789,
        load: SliceResult {
            transactions: 40,
            elapsed_ns: 1_700_000_000,
            window_transactions: 38,
            window_ns: 1_500_000_000,
            errors: [("timeout".to_owned(), 1)].into(),
            operations: [("query".to_owned(), 40)].into(),
            response_body_bytes: 24_800,
            latency,
            lateness: Latencies::new(),
        },
        hops: vec![HopUsage {
            hop: "booking/sidecar".into(),
            role: Role::Sidecar,
            cpu: Nanos(123_456),
            user: Nanos(10_000_000),
            system: Nanos(0),
            resident_bytes: 1 << 20,
        }],
        machine: MachineUsage { busy: Nanos(3_000_000_000), ..MachineUsage::default() },
        proof: vec![ProofLine { claim: "it is so".into(), evidence: "1 of 1".into(), holds: true }],
    }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn store(&self) -> Store {
        Store::open(&self.0.path().join("meshtoll.sqlite")).unwrap()
    }
}

#[test]
fn what_is_stored_comes_back_as_it_was() {
    let place = Place::new();
    let id = RunId("20260105T101500-7f3a".into());
    let mut store = place.store();
    let keys = store.begin(&id, &header(), &[topology()], &[cell()]).unwrap();
    store.add(keys[0], &slice(0)).unwrap();
    store.add(keys[0], &slice(1)).unwrap();
    store.end(&id, "2026-01-05T10:20:00Z").unwrap();

    let expected = RunRecord {
        id,
        header: header(),
        ended: Some("2026-01-05T10:20:00Z".into()),
        topologies: vec![topology()],
        cells: vec![CellRecord { slices: vec![slice(0), slice(1)], ..cell() }],
    };
    assert_eq!(place.store().read("latest").unwrap(), expected);
}

#[test]
fn a_run_that_is_cut_off_leaves_its_finished_slices() {
    let place = Place::new();
    let id = RunId("cut".into());
    let mut store = place.store();
    let keys = store.begin(&id, &header(), &[], &[cell()]).unwrap();
    store.add(keys[0], &slice(0)).unwrap();
    // As after SIGKILL: nothing is closed, and another process opens the file.
    let read = place.store().read("cut").unwrap();
    assert_eq!((read.ended, read.cells[0].slices.len()), (None, 1));
}

#[test]
fn the_same_round_of_a_cell_cannot_be_stored_twice() {
    let place = Place::new();
    let mut store = place.store();
    let keys = store.begin(&RunId("twice".into()), &header(), &[], &[cell()]).unwrap();
    store.add(keys[0], &slice(0)).unwrap();
    assert!(store.add(keys[0], &slice(0)).is_err());
    assert_eq!(store.read("twice").unwrap().cells[0].slices.len(), 1);
}

#[test]
fn an_unknown_run_is_named_with_the_known_ones() {
    let place = Place::new();
    let mut store = place.store();
    assert!(store.read("latest").unwrap_err().to_string().ends_with("it has: none"));
    store.begin(&RunId("one".into()), &header(), &[], &[]).unwrap();
    assert!(store.read("two").unwrap_err().to_string().ends_with("has no run `two`; it has: one"));
}

#[test]
fn a_store_of_another_layout_is_left_alone() {
    let place = Place::new();
    place.store().connection.pragma_update(None, "user_version", 99).unwrap();
    let error = Store::open(&place.0.path().join("meshtoll.sqlite")).unwrap_err();
    assert!(matches!(error, StoreError::Layout { found: 99, .. }));
}
