//! An experiment, checked: a question, an application with its database, cases, and how hard they are driven.

mod assemble;
mod check;
mod promise;
mod written;

use crate::{
    application::Application,
    cidr::Cidr,
    diagnostics::{Diagnostics, SourceFile},
    ids::{CaseName, SpiffeId, SubjectName},
    istio::CheckedResources,
    topology::HttpHandling,
    units::LoadLevel,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

/// `apiVersion` of experiments.
pub const API_VERSION: &str = "meshtoll.dev/v1alpha1";

/// Reads and checks an experiment, without the resources of its cases.
pub fn parse(file: &SourceFile) -> Result<Experiment, Diagnostics> {
    let mut problems = Diagnostics::default();
    let experiment = written::read(file, &mut problems).and_then(|written| check::experiment(&written, &mut problems));
    problems.or(experiment)
}

/// Reads and checks an experiment with the Istio resources of all its cases.
///
/// `resources` yields the YAML files of a case's folder, which is named as in the experiment (so most likely relative to
/// its file). What it cannot yield is a problem of the field that names the folder.
pub fn check<E: fmt::Display>(
    file: &SourceFile,
    resources: impl FnMut(&Path) -> Result<Vec<SourceFile>, E>,
) -> Result<CheckedExperiment, Diagnostics> {
    let mut problems = Diagnostics::default();
    let checked =
        written::read(file, &mut problems).and_then(|written| check::whole(&written, resources, &mut problems));
    problems.or(checked)
}

/// An experiment with the resources of all its cases.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedExperiment {
    /// The experiment.
    pub experiment: Experiment,
    /// What each case's resources say.
    pub resources: BTreeMap<CaseName, CheckedResources>,
}

/// An experiment: what is asked, of which application, in which cases, and how hard it is driven.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Experiment {
    /// Its name: `egress`.
    pub name: String,
    /// What it asks, as a sentence.
    pub question: String,
    /// The application under load.
    pub application: ApplicationSettings,
    /// The external database.
    pub database: Database,
    /// The mesh.
    pub mesh: MeshSettings,
    /// The egress gateway's workload, which cases may use.
    pub egress_gateway: Option<EgressGateway>,
    /// Settings of every proxy.
    pub proxies: Proxies,
    /// The data planes that carry the cases, unless others are asked for.
    pub subjects: Vec<SubjectName>,
    /// The case that the others are compared with.
    pub baseline: CaseName,
    /// The cases, in the order in which reports show them.
    pub cases: Vec<Case>,
    /// How hard the cases are driven, by name: `quick`, `full`, …
    pub profiles: BTreeMap<String, Profile>,
    /// What others have published on the question.
    pub published: Option<Published>,
}

impl Experiment {
    /// The case of that name.
    pub fn case(&self, name: &CaseName) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == *name)
    }
}

/// The application under load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationSettings {
    /// Which one.
    pub name: Application,
    /// CPU time that each service burns for each request, as stand-in for a heavier application.
    pub app_work: Duration,
    /// Customers in the database.
    pub customers: u32,
}

/// The external database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Database {
    /// Its name, outside of the mesh.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
}

/// The mesh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MeshSettings {
    /// Trust domain of its identities.
    pub trust_domain: String,
    /// Namespace of the application.
    pub namespace: String,
    /// What happens to connections to hosts that no resource names.
    pub outbound_traffic_policy: OutboundTrafficPolicy,
}

/// What happens to connections to hosts that no resource names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OutboundTrafficPolicy {
    /// They are refused.
    RegistryOnly,
    /// They go to where the application sent them.
    AllowAny,
}

/// The egress gateway's workload and service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EgressGateway {
    /// Its service's full name.
    pub host: String,
    /// Its pods' labels, which a `Gateway` selects it by.
    pub labels: BTreeMap<String, String>,
    /// Its pods' service account.
    pub service_account: String,
    /// Its namespace.
    pub namespace: String,
}

impl EgressGateway {
    /// Who it is in a mesh of that trust domain.
    pub fn identity(&self, trust_domain: &str) -> SpiffeId {
        SpiffeId {
            trust_domain: trust_domain.into(),
            namespace: self.namespace.as_str().into(),
            service_account: self.service_account.as_str().into(),
        }
    }
}

/// Settings that are the same for every proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proxies {
    /// Worker threads of each.
    pub worker_threads: u32,
    /// Whether each connection and request is logged.
    pub access_log: bool,
    /// What sidecars read of HTTP between the services.
    #[serde(default)]
    pub http: HttpHandling,
}

/// One topology of the experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// Its name.
    pub name: CaseName,
    /// What it is, for readers of reports.
    pub description: String,
    /// Folder of its Istio resources, relative to the experiment's file.
    pub resources: PathBuf,
    /// Destinations that the pods' interception rules leave alone.
    pub exclude_outbound_ip_ranges: Vec<Cidr>,
    /// Whether a second proxy in the gateway's pod, on [`crate::topology::SNI_PROXY_PORT`], resolves the hosts.
    pub sni_proxy: bool,
    /// What a run has to observe for the case to count as what it is called.
    pub promise: Promise,
}

/// What a run has to observe of the database's connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promise {
    /// The mesh's hops between a service and the database, in order; none when the mesh is bypassed.
    pub path: Vec<PathHop>,
    /// TLS of the mesh's own around these connections, between sidecar and gateway.
    pub mesh_tls: MeshTls,
}

/// A hop of the mesh on the way to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathHop {
    /// The service's sidecar.
    Sidecar,
    /// The egress gateway.
    Gateway,
    /// The second proxy in the gateway's pod.
    SniProxy,
}

impl PathHop {
    /// As it is written in experiments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::Gateway => "gateway",
            Self::SniProxy => "sni-proxy",
        }
    }
}

/// TLS between sidecar and gateway, around the application's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeshTls {
    /// None.
    None,
    /// Mutual TLS with the mesh's certificates.
    Mutual,
}

/// How hard the cases are driven, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Closed-loop levels: clients, ascending.
    pub clients: Vec<u32>,
    /// Open-loop levels: requests a second, ascending.
    pub rates: Vec<u32>,
    /// Time at the start of each slice that is driven but not measured.
    pub lead_in: Duration,
    /// Measured time of each slice.
    pub slice: Duration,
    /// Times that every cell is measured.
    pub rounds: u32,
}

impl Profile {
    /// Its load levels, closed loop first.
    pub fn levels(&self) -> impl Iterator<Item = LoadLevel> + '_ {
        let clients = self.clients.iter().copied().map(LoadLevel::Clients);
        clients.chain(self.rates.iter().copied().map(LoadLevel::Rate))
    }
}

/// What others have published on the question, for reports to set beside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Published {
    /// Who published it, where and when.
    pub source: String,
    /// What it was measured with.
    pub setting: String,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// One published finding on one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The case.
    pub case: CaseName,
    /// Throughput as a multiple of the baseline's, where it was published.
    pub relative_throughput: Option<f64>,
    /// The finding in words.
    pub text: String,
}
