//! Numbers that can be computed by hand.

use crate::{cell_mut, fixture};
use hdrhistogram::Histogram;
use meshtoll_lab::record::{HopUsage, MachineUsage, ProofLine, RunRecord, SliceRecord};
use meshtoll_load::protocol::Latencies;
use meshtoll_model::{
    process::Role,
    units::{LoadLevel, Nanos},
};
use meshtoll_report::results::{ProofState, Severity, Verdict, results};
use std::collections::BTreeMap;

const LEVEL: LoadLevel = LoadLevel::Clients(20);

/// Two cases, two rounds, one level. CPU in µs a slice: service, sidecar (user, system), load, busy.
fn small() -> RunRecord {
    let mut record = fixture::record(&["envoy"]);
    record.cells.retain(|cell| cell.level == LEVEL && matches!(cell.case.as_str(), "bypass" | "gateway-sni"));
    record.header.rounds = 2;
    let rounds = [
        (
            "bypass",
            [(0, 1_000, 2_000, [40_000, 20_000, 5_000, 70_000]), (1, 2_000, 4_000, [80_000, 40_000, 10_000, 140_000])],
        ),
        (
            "gateway-sni",
            [(0, 900, 1_600, [36_000, 36_000, 4_500, 81_000]), (1, 1_000, 3_000, [40_000, 40_000, 5_000, 90_000])],
        ),
    ];
    for (case, slices) in rounds {
        cell_mut(&mut record, case, LEVEL).slices = slices
            .into_iter()
            .map(|(round, transactions, window, micros)| slice(round, transactions, window, micros))
            .collect();
    }
    record
}

fn slice(round: u32, transactions: u64, window: u64, [service, sidecar, load, busy]: [u64; 4]) -> SliceRecord {
    let usage = |hop: &str, role, micros: u64, user: u64, system: u64| HopUsage {
        hop: hop.into(),
        role,
        cpu: Nanos(micros * 1000),
        user: Nanos(user),
        system: Nanos(system),
        resident_bytes: 1_000_000 * (u64::from(round) + 1),
    };
    let mut record = fixture::record(&["envoy"]).cells.remove(0).slices.remove(0);
    record.round = round;
    record.load.transactions = transactions;
    record.load.window_transactions = window;
    record.load.window_ns = 2_000_000_000;
    record.load.response_body_bytes = transactions * 620;
    record.load.operations =
        BTreeMap::from([("query".into(), transactions * 3 / 4), ("book".into(), transactions / 4)]);
    record.hops = vec![
        usage("auth/app", Role::Service, service, 0, 0),
        usage("auth/sidecar", Role::Sidecar, sidecar, 3_000_000, 1_000_000),
        usage("load", Role::Load, load, 10_000_000, 0),
    ];
    record.machine = MachineUsage {
        elapsed: Nanos(2_000_000_000),
        busy: Nanos(busy * 1000),
        steal: Nanos(0),
        interrupts: Nanos(1_000_000),
        testbed: Nanos(0),
        kernel_threads: Nanos(1_000_000),
        foreign: Nanos(500_000),
    };
    record
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9 * expected.abs().max(1.0), "{value} is not {expected}");
}

#[test]
fn throughput_is_the_windows_mean_rate() {
    let results = results(&small());
    let throughput = results.cells[0].throughput.unwrap();
    // 2000 and 4000 transactions in windows of 2 s.
    close(throughput.mean, 1500.0);
    close(throughput.standard_deviation, 500_000f64.sqrt());
    assert_eq!((throughput.min, throughput.max, throughput.rounds), (1000.0, 2000.0, 2));
    // t of 1 degree of freedom.
    close(throughput.margin.unwrap(), 12.706 * 500_000f64.sqrt() / 2f64.sqrt());
}

#[test]
fn cpu_is_all_time_by_all_transactions_and_the_split_follows_the_samples() {
    let results = results(&small());
    let cpu = results.cells[0].cpu.as_ref().unwrap();
    close(cpu.mesh.micros, 20.0);
    close(cpu.mesh.user.unwrap(), 15.0);
    close(cpu.mesh.system.unwrap(), 5.0);
    close(cpu.application.micros, 40.0);
    assert_eq!(cpu.application.user, None, "no tick fell on the service: its split is unknown");
    close(cpu.load_micros_a_request, 5.0);
    let sidecar = cpu.hops.iter().find(|hop| hop.hop.as_str() == "auth/sidecar").unwrap();
    close(sidecar.cost.micros, 20.0);
    close(sidecar.resident_bytes, 1_500_000.0);
    assert_eq!(sidecar.resident_bytes_max, 2_000_000);
    assert!(cpu.hops.iter().all(|hop| hop.hop.as_str() != "booking/app"), "a hop that no slice names has no cost");
}

#[test]
fn the_books_of_the_machine() {
    let machine = results(&small()).cells[0].cpu.as_ref().unwrap().machine;
    // Busy 210 ms by 3000 transactions; charged: services 120, sidecars 60, load 15, kernel threads 2, foreign 1 ms.
    close(machine.busy, 70.0);
    close(machine.hops, 60.0);
    close(machine.charged, 66.0);
    close(machine.closure.unwrap(), 198.0 / 210.0);
    close(machine.closure_with_interrupts.unwrap(), 200.0 / 210.0);
    // Kernel threads 2 ms and 12 ms that nobody is charged with.
    close(machine.unattributed_kernel, 14_000.0 / 3000.0);
}

#[test]
fn comparisons_are_paired_by_round() {
    let results = results(&small());
    assert_eq!(results.comparisons.len(), 1);
    let comparison = &results.comparisons[0];
    // 1600 by 2000, 3000 by 4000.
    let ratio = comparison.throughput_ratio.unwrap();
    close(ratio.mean, 0.775);
    assert_eq!((ratio.min, ratio.max), (0.75, 0.8));
    assert_eq!(ratio.verdict(1.0), Verdict::Unclear, "two rounds that differ by 5 % say little");
    // 40 µs against 20 in both rounds.
    let toll = comparison.mesh_micros.unwrap();
    assert_eq!((toll.mean, toll.standard_deviation), (20.0, 0.0));
    assert_eq!(toll.verdict(0.0), Verdict::More);
}

#[test]
fn a_round_that_one_case_lacks_is_no_pair() {
    let mut record = small();
    cell_mut(&mut record, "gateway-sni", LEVEL).slices[1].round = 7;
    let comparison = &results(&record).comparisons[0];
    assert_eq!((comparison.rounds, comparison.throughput_ratio.unwrap().mean), (1, 0.8));
}

#[test]
fn shares_follow_the_utilisation_law() {
    let results = results(&small());
    let share = &results.shares[0];
    let ratios: Vec<f64> = share.predicted.iter().map(|one| one.throughput_ratio).collect();
    for (ratio, work) in ratios.into_iter().zip([500.0, 2000.0, 10_000.0]) {
        close(ratio, work / (work + 20.0));
    }
    let here = share.here.unwrap();
    close(here.application_ms, 0.065);
    close(here.predicted_ratio, 65.0 / 85.0);
    close(here.measured_ratio, 0.775);
}

#[test]
fn percentiles_come_from_merged_histograms() {
    let mut record = small();
    let of = |millis: u64, count: u64| {
        let mut histogram: Histogram<u64> = Latencies::new().0;
        histogram.record_n(millis * 1_000_000, count).unwrap();
        Latencies(histogram)
    };
    let slices = &mut cell_mut(&mut record, "bypass", LEVEL).slices;
    slices[0].load.latency = of(1, 99);
    slices[1].load.latency = of(100, 1);
    let latency = results(&record).cells[0].latency.unwrap();
    assert_eq!(latency.count, 100);
    // The mean of the slices' 99th percentiles would be 50 ms.
    assert!((latency.p99 - 1.0).abs() < 0.01 && (latency.max - 100.0).abs() < 0.1, "{latency:?}");
    assert!((latency.mean - 1.99).abs() < 0.01, "{latency:?}");
}

#[test]
fn operations_and_bodies() {
    let results = results(&small());
    assert_eq!(results.cells[0].operations["query"], 0.75);
    assert_eq!(results.cells[0].mean_body_bytes, Some(620.0));
}

#[test]
fn a_cell_without_slices_has_no_estimates() {
    let mut record = small();
    cell_mut(&mut record, "gateway-sni", LEVEL).slices.clear();
    let results = results(&record);
    let cell = &results.cells[1];
    assert!(cell.throughput.is_none() && cell.latency.is_none() && cell.cpu.is_none());
    assert_eq!(ProofState::of(&cell.proof), ProofState::Missing);
    assert!(results.comparisons.is_empty() && results.shares.is_empty());
    assert!(results.notices.iter().any(|notice| notice.text == "1 of 2 cells have no slices."));
}

#[test]
fn zero_transactions_divide_nothing() {
    let mut record = small();
    for slice in &mut cell_mut(&mut record, "bypass", LEVEL).slices {
        slice.load.transactions = 0;
        slice.load.window_transactions = 0;
        slice.load.errors = BTreeMap::from([("connect".into(), 50)]);
        slice.load.latency = Latencies::new();
    }
    let results = results(&record);
    let cell = &results.cells[0];
    assert!(cell.cpu.is_none() && cell.latency.is_none() && cell.mean_body_bytes.is_none());
    assert_eq!(cell.throughput.unwrap().mean, 0.0);
    assert_eq!(results.comparisons[0].throughput_ratio, None);
    let faults: Vec<&str> =
        results.notices.iter().filter(|one| one.severity == Severity::Fault).map(|one| one.text.as_str()).collect();
    assert!(faults.contains(&"bypass on envoy: 100 of 100 requests failed (connect)."), "{faults:?}");
}

#[test]
fn one_round_says_so() {
    let mut record = small();
    record.header.rounds = 1;
    record.cells.iter_mut().for_each(|cell| cell.slices.truncate(1));
    let results = results(&record);
    assert_eq!(results.comparisons[0].throughput_ratio.unwrap().verdict(1.0), Verdict::OneRound);
    assert!(results.notices.iter().any(|notice| notice.text.starts_with("Only one round")));
}

#[test]
fn a_failed_proof_is_a_fault_with_its_evidence() {
    let mut record = small();
    let claim = |holds, evidence: &str| ProofLine {
        claim: "database traffic passes the gateway".into(),
        evidence: evidence.into(),
        holds,
    };
    let slices = &mut cell_mut(&mut record, "gateway-sni", LEVEL).slices;
    slices[0].proof = vec![claim(true, "12 bytes")];
    slices[1].proof = vec![claim(false, "0 bytes")];
    let results = results(&record);
    let proof = &results.cells[1].proof[0];
    assert_eq!((proof.held, proof.slices, proof.evidence.as_str()), (1, 2, "0 bytes"));
    assert_eq!(ProofState::of(&results.cells[1].proof), ProofState::Failed);
    assert_eq!(results.notices[0].severity, Severity::Fault);
    assert!(results.notices[0].text.contains("held in 1 of 2 slices (0 bytes)"), "{}", results.notices[0].text);
}

#[test]
fn the_nearest_closed_level_stands_in_for_20_clients() {
    let mut record = fixture::record(&["envoy"]);
    record.cells.retain(|cell| cell.level != LEVEL);
    assert_eq!(results(&record).reference_level, Some(LoadLevel::Clients(10)));
    record.cells.retain(|cell| matches!(cell.level, LoadLevel::Rate(_)));
    let results = results(&record);
    assert_eq!((results.reference_level, results.shares.len()), (None, 0));
}

#[test]
fn subjects_are_compared_within_rounds() {
    let mut record = fixture::record(&["envoy", "meshtoll"]);
    record.cells.retain(|cell| cell.level == LEVEL && cell.case.as_str() == "gateway");
    record.header.rounds = 2;
    for (cell, [first, second]) in record.cells.iter_mut().zip([[1000, 2000], [1100, 2400]]) {
        cell.slices.truncate(2);
        for (slice, transactions) in cell.slices.iter_mut().zip([first, second]) {
            slice.load.window_transactions = transactions;
        }
    }
    let results = results(&record);
    let [one] = results.subject_comparisons.as_slice() else { panic!("{:?}", results.subject_comparisons) };
    assert_eq!((one.subject.as_str(), one.against.as_str()), ("meshtoll", "envoy"));
    close(one.ratios.throughput.unwrap().mean, 1.15);
    close(one.ratios.throughput.unwrap().margin.unwrap(), 12.706 * 0.005f64.sqrt() / 2f64.sqrt());
    let ratio = one.ratios.mesh_micros.unwrap();
    assert!((ratio.mean - 0.62).abs() < 0.02, "{ratio:?}");
    assert!(results.notices.iter().any(|notice| notice.text.contains("--http tcp")));
}

#[test]
fn cases_are_compared_with_the_one_before() {
    let record = fixture::record(&["envoy", "meshtoll"]);
    let results = results(&record);
    let of = |case: &str, against: &str, subject: &str| {
        let found = results.steps.iter().filter(|one| {
            (one.case.as_str(), one.against.as_str(), one.subject.as_str(), one.level)
                == (case, against, subject, LEVEL)
        });
        found.count()
    };
    for subject in ["envoy", "meshtoll"] {
        assert_eq!(of("gateway-mtls", "gateway", subject), 1);
        assert_eq!(of("gateway-wildcard", "gateway-mtls", subject), 1);
        assert_eq!(of("gateway-wildcard", "gateway-sni", subject), 1);
    }
    assert_eq!(results.steps.len(), 3 * 2 * 5, "at five levels");
}

#[test]
fn memory_at_the_end_is_that_of_the_last_slice_of_any_level() {
    let mut record = small();
    record.cells[0].slices[1].hops[1].resident_bytes = 77;
    let results = results(&record);
    let sidecar = results.cells[0].cpu.as_ref().unwrap().hops.iter().find(|hop| hop.hop.as_str() == "auth/sidecar");
    assert_eq!(sidecar.unwrap().resident_bytes_at_end, Some(77));
    assert_eq!(sidecar.unwrap().resident_bytes_at_start, Some(57_600_000));
}
