//! What was asked of a run and where it ran, as published.

use super::names::{HttpSchema, RoleSchema};
use meshtoll_lab::record::{self, RunRecord, TopologyRecord};
use meshtoll_model::{
    ids::{CaseName, SubjectName, WorkloadName},
    process::Role,
    topology::HttpHandling,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was asked of a run, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// Name of the run in the store.
    pub id: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The question that it asks.
    pub question: String,
    /// When it started, RFC 3339.
    pub started: String,
    /// When it ended, RFC 3339; absent if it was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Profile: how much was measured.
    pub profile: String,
    /// Rounds that were planned.
    pub planned_rounds: u32,
    /// Measured window of a slice, seconds.
    pub slice_seconds: f64,
    /// Unmeasured start of a slice, seconds.
    pub lead_in_seconds: f64,
    /// CPU time that each request of the application burns on purpose, µs.
    pub app_work_micros: f64,
    /// Customers in the database.
    pub customers: u32,
    /// What the database is.
    pub database: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// The case that the others are compared with.
    #[schemars(with = "String")]
    pub baseline: CaseName,
    /// Subjects that ran.
    #[schemars(with = "Vec<String>")]
    pub subjects: Vec<SubjectName>,
}

/// A case as the experiment describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Its name.
    #[schemars(with = "String")]
    pub name: CaseName,
    /// One sentence.
    pub description: String,
    /// Mesh hops that database traffic is promised to pass, in order.
    #[schemars(with = "Vec<RoleSchema>")]
    pub path: Vec<Role>,
    /// Whether mutual TLS is promised between sidecar and gateway.
    pub mesh_mtls: bool,
    /// What a published investigation found for this case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Finding>,
}

/// What a published investigation says of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Finding {
    /// Throughput against the baseline, as a ratio, where a figure was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_ratio: Option<f64>,
    /// The finding in words.
    pub text: String,
}

/// What a topology consists of besides its proxies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Surroundings {
    /// The case.
    #[schemars(with = "String")]
    pub case: CaseName,
    /// The subject.
    #[schemars(with = "String")]
    pub subject: SubjectName,
    /// The application's services, each with a sidecar.
    #[schemars(with = "Vec<String>")]
    pub services: Vec<WorkloadName>,
    /// Hosts outside the mesh, `HOST:PORT`.
    pub external: Vec<String>,
    /// What the sidecars read of HTTP between the services.
    #[schemars(with = "HttpSchema")]
    pub http: HttpHandling,
}

/// The machine, and the versions of everything that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Environment {
    /// Kernel release.
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
    /// Versions of everything else that ran.
    pub versions: Vec<NamedValue>,
}

/// A name and a value, both for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedValue {
    /// What.
    pub name: String,
    /// Which.
    pub value: String,
}

pub(super) fn run(record: &RunRecord) -> Run {
    let header = &record.header;
    Run {
        id: record.id.0.clone(),
        experiment: header.experiment.clone(),
        question: header.question.clone(),
        started: header.started.clone(),
        ended: record.ended.clone(),
        profile: header.profile.clone(),
        planned_rounds: header.rounds,
        slice_seconds: header.slice.as_secs_f64(),
        lead_in_seconds: header.lead_in.as_secs_f64(),
        app_work_micros: header.app_work.as_secs_f64() * 1e6,
        customers: header.customers,
        database: header.database.clone(),
        seed: header.seed,
        baseline: header.baseline.clone(),
        subjects: header.subjects.clone(),
    }
}

pub(super) fn cases(cases: &[record::CaseHeader]) -> Vec<Case> {
    let case = |case: &record::CaseHeader| Case {
        name: case.name.clone(),
        description: case.description.clone(),
        path: case.path.clone(),
        mesh_mtls: case.mesh_mtls,
        published: case
            .published
            .as_ref()
            .map(|found| Finding { throughput_ratio: found.throughput_ratio, text: found.text.clone() }),
    };
    cases.iter().map(case).collect()
}

pub(super) fn surroundings(topologies: &[TopologyRecord]) -> Vec<Surroundings> {
    let one = |record: &TopologyRecord| Surroundings {
        case: record.topology.case.clone(),
        subject: record.topology.subject.clone(),
        services: record.topology.services.iter().map(|service| service.name.clone()).collect(),
        external: record.topology.external.iter().map(|host| format!("{}:{}", host.host, host.port)).collect(),
        http: record.topology.proxy.http,
    };
    topologies.iter().map(one).collect()
}

pub(super) fn environment(environment: &record::Environment) -> Environment {
    Environment {
        kernel: environment.kernel.clone(),
        cpu_model: environment.cpu_model.clone(),
        cpus: environment.cpus,
        memory_bytes: environment.memory_bytes,
        rootless: environment.rootless,
        meshtoll: environment.meshtoll.clone(),
        versions: named(&environment.versions),
    }
}

pub(super) fn named(pairs: &[(String, String)]) -> Vec<NamedValue> {
    pairs.iter().map(|(name, value)| NamedValue { name: name.clone(), value: value.clone() }).collect()
}
