//! A run as it is stored and read back: raw slices, never estimates, so that a report can always be made again.

use meshtoll_load::protocol::SliceResult;
use meshtoll_model::{
    ids::{CaseName, HopName, SubjectName},
    process::Role,
    topology::Topology,
    units::{LoadLevel, Nanos},
};
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// Identifies a run in a store: the time it started and a random part, `20260105T101500-7f3a`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A run: everything that a report needs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its name in the store.
    pub id: RunId,
    /// What was asked, and how.
    pub header: RunHeader,
    /// When it ended, RFC 3339; `None` if it was cut off.
    pub ended: Option<String>,
    /// Every topology that was up.
    pub topologies: Vec<TopologyRecord>,
    /// Every cell, in the order of the plan.
    pub cells: Vec<CellRecord>,
}

/// What was asked of a run, and where it ran; known before the first slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunHeader {
    /// When it started, RFC 3339.
    pub started: String,
    /// Name of the experiment: `egress`.
    pub experiment: String,
    /// The question that the experiment asks.
    pub question: String,
    /// The cases that ran, in the experiment's order.
    pub cases: Vec<CaseHeader>,
    /// The case that the others are compared with.
    pub baseline: CaseName,
    /// Subjects that ran.
    pub subjects: Vec<SubjectName>,
    /// `quick`, `full`, `published`.
    pub profile: String,
    /// Planned rounds.
    pub rounds: u32,
    /// Measured window of a slice.
    pub slice: Duration,
    /// Unmeasured start of a slice.
    pub lead_in: Duration,
    /// CPU time that each request of the application burns on purpose.
    pub app_work: Duration,
    /// Customers in the database.
    pub customers: u32,
    /// What the database is: `docstore` or the URI of another (without credentials).
    pub database: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// The experiment's file as it was.
    pub experiment_yaml: String,
    /// The machine and the versions.
    pub environment: Environment,
}

/// A case as the experiment describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CaseHeader {
    /// Its name.
    pub name: CaseName,
    /// One sentence.
    pub description: String,
    /// Mesh hops that database traffic is promised to pass, in order: `sidecar`, `gateway`, `sni-proxy`.
    pub path: Vec<Role>,
    /// Whether mutual TLS is promised between sidecar and gateway.
    pub mesh_mtls: bool,
    /// What the published investigation found for this case.
    pub published: Option<PublishedFinding>,
}

/// What a published investigation says of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedFinding {
    /// Throughput against the baseline, as a ratio (0.9 is 10 % less), where a figure was published.
    pub throughput_ratio: Option<f64>,
    /// The finding in words.
    pub text: String,
}

/// The machine, and the versions of everything that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    /// `uname -r`.
    pub kernel: String,
    /// CPU model as the kernel names it.
    pub cpu_model: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Whether the testbed ran in a user namespace.
    pub rootless: bool,
    /// Meshtoll's version, and the git revision it was built from.
    pub meshtoll: String,
    /// Name and version of everything else that ran: `envoy` → `1.40.0`.
    pub versions: Vec<(String, String)>,
    /// What is the same for every subject: worker threads, statistics, access log, …; name and value.
    pub fairness: Vec<(String, String)>,
}

/// A topology that was up during the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyRecord {
    /// Names, addresses, identities.
    pub topology: Topology,
    /// Its processes in the order in which a transaction meets them.
    pub hops: Vec<HopRecord>,
    /// Configuration files as used, secrets left out: hop, file name, contents.
    pub configs: Vec<(HopName, String, String)>,
}

/// A process of a topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HopRecord {
    /// Its name: `booking/app`, `booking/sidecar`, …
    pub hop: HopName,
    /// The part it plays.
    pub role: Role,
    /// Resident memory when it was ready, before any transaction, bytes.
    pub resident_bytes_at_start: u64,
}

/// Case × subject × load level, with all its slices.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRecord {
    /// The case.
    pub case: CaseName,
    /// The subject.
    pub subject: SubjectName,
    /// How hard it was driven.
    pub level: LoadLevel,
    /// Its slices in the order of rounds.
    pub slices: Vec<SliceRecord>,
}

/// One short measured window of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceRecord {
    /// The round it belongs to, from 0.
    pub round: u32,
    /// Its place in the round's random order, from 0.
    pub position: u32,
    /// When it started, ns since the Unix epoch.
    pub started_unix_ns: u64,
    /// What the load generator saw.
    pub load: SliceResult,
    /// CPU time of each process of the driven topology (load generator and database included), from before the
    /// first request to after the last answer.
    pub hops: Vec<HopUsage>,
    /// The whole machine meanwhile.
    pub machine: MachineUsage,
    /// What the path's evidence says.
    pub proof: Vec<ProofLine>,
}

/// What one process used during a slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HopUsage {
    /// The process.
    pub hop: HopName,
    /// The part it plays.
    pub role: Role,
    /// CPU time, exact.
    pub cpu: Nanos,
    /// Of it in user mode: the kernel samples the split at its tick, so it is an estimate.
    pub user: Nanos,
    /// Of it in system mode.
    pub system: Nanos,
    /// Resident memory at the slice's end, bytes.
    pub resident_bytes: u64,
}

/// Where the machine's time went during a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineUsage {
    /// Wall-clock time.
    pub elapsed: Nanos,
    /// All CPUs' time that was neither idle nor stolen.
    pub busy: Nanos,
    /// Time that the hypervisor gave to others.
    pub steal: Nanos,
    /// Time in interrupts and softirqs, as sampled by the kernel; most of it is inside processes' times too.
    pub interrupts: Nanos,
    /// The topologies that were not driven, the lab itself and its helpers.
    pub testbed: Nanos,
    /// Kernel threads (ksoftirqd, kworkers, …): the kernel's work that is charged to no hop.
    pub kernel_threads: Nanos,
    /// Processes that do not belong to the run.
    pub foreign: Nanos,
}

/// One piece of evidence for the path of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProofLine {
    /// What was checked: `database traffic enters the sidecars`.
    pub claim: String,
    /// What the hops' counters say: `booking/sidecar: 1 234 567 bytes to outbound|27017||…`.
    pub evidence: String,
    /// Whether the evidence bears the claim out.
    pub holds: bool,
}
