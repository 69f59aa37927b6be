//! From a checked experiment to what runs: topologies with their pods and processes, and cells. Plain data; making it
//! starts nothing.

mod external;
mod placement;
mod processes;

pub use external::ExternalDatabase;

use crate::record::{CaseHeader, PublishedFinding};
use meshtoll_identity::{ExternalCa, IdentityError, MeshCa};
use meshtoll_model::{
    diagnostics::SourceFile,
    experiment::{Case, CheckedExperiment, Experiment, MeshTls, PathHop, Profile},
    ids::{CaseName, HopName, SubjectName},
    process::{ProcessSpec, Role},
    topology::{HttpHandling, ProxyMarking, Topology},
    units::LoadLevel,
};
use meshtoll_policy::CompileError;
use meshtoll_subjects::{Subject, Unsupported};
use meshtoll_testbed::{dns::ZoneError, pod::PodSpec};
use std::{collections::BTreeMap, time::Duration};

/// What of an experiment is to run. Empty lists mean all that the experiment names.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Cases; the baseline is always among them.
    pub cases: Vec<CaseName>,
    /// Subjects.
    pub subjects: Vec<SubjectName>,
    /// Name of the profile.
    pub profile: String,
    /// Closed-loop levels instead of the profile's.
    pub clients: Vec<u32>,
    /// Open-loop levels instead of the profile's; a single 0 stands for none.
    pub rates: Vec<u32>,
    /// Rounds instead of the profile's.
    pub rounds: Option<u32>,
    /// Window of a slice instead of the profile's.
    pub slice: Option<Duration>,
    /// `appWork` instead of the experiment's.
    pub app_work: Option<Duration>,
    /// What sidecars read of HTTP between the services, instead of the default.
    pub http: Option<HttpHandling>,
    /// A database that runs elsewhere, instead of docstore.
    pub database: Option<ExternalDatabase>,
}

/// An experiment, and the Istio resources of each case as they are written, for subjects that read them themselves.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Checked.
    pub checked: &'a CheckedExperiment,
    /// As written.
    pub sources: &'a BTreeMap<CaseName, Vec<SourceFile>>,
}

/// What is the same for every topology of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// How proxies' own connections are told apart here.
    pub marking: ProxyMarking,
    /// Seed of every random choice.
    pub seed: u64,
}

/// Why no plan could be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A name of the selection that the experiment does not have.
    #[error("the experiment has no {kind} `{name}`; it has: {known}")]
    Unknown {
        /// `case` or `profile`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// No data plane of that name.
    #[error(transparent)]
    Subject(#[from] meshtoll_subjects::UnknownSubject),
    /// Nothing would be driven.
    #[error("no load level is left: give --clients or --rates")]
    NoLevels,
    /// A number of the selection that cannot be driven.
    #[error("{what} must be between 1 and {most}, not {value}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// What was given.
        value: u128,
        /// The largest that is sensible here.
        most: u128,
    },
    /// The resources of a case do not lead anywhere.
    #[error("case {case}")]
    Compile {
        /// The case.
        case: CaseName,
        /// What is wrong.
        source: CompileError,
    },
    /// The subject cannot carry the case.
    #[error("case {case} on {subject}")]
    Unsupported {
        /// The case.
        case: CaseName,
        /// The subject.
        subject: SubjectName,
        /// What it cannot do.
        source: Unsupported,
    },
    /// Names that DNS cannot serve.
    #[error("case {case}: its names cannot be served")]
    Zone {
        /// The case.
        case: CaseName,
        /// What is wrong.
        source: ZoneError,
    },
    /// A certificate could not be made.
    #[error("cannot make the mesh's certificates")]
    Identity(#[from] IdentityError),
    /// More topologies than addresses.
    #[error("{0} topologies at once are more than the {max} that the testbed's networks have room for", max = placement::MAX_TOPOLOGIES)]
    TooManyTopologies(usize),
}

/// What runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment.
    pub experiment: Experiment,
    /// Name of its profile.
    pub profile_name: String,
    /// The profile, with the selection's changes.
    pub profile: Profile,
    /// `appWork` as it runs.
    pub app_work: Duration,
    /// What the database is, for the report.
    pub database: String,
    /// The cases, for the report and the proof of path.
    pub cases: Vec<CaseHeader>,
    /// The subjects.
    pub subjects: Vec<SubjectName>,
    /// Case × subject, all up at once.
    pub topologies: Vec<PlannedTopology>,
    /// Topology × load level.
    pub cells: Vec<Cell>,
    /// Sessions that each load process keeps open.
    pub sessions: u32,
    /// Seed of every random choice.
    pub seed: u64,
}

/// A topology with its pods.
#[derive(Clone, Debug)]
pub struct PlannedTopology {
    /// Names, addresses, identities.
    pub topology: Topology,
    /// Its pods, in the order in which a transaction meets them.
    pub pods: Vec<PlannedPod>,
    /// Fills the database; runs once, in the pod of that name, and ends.
    pub loader: ProcessSpec,
}

/// A pod with its processes.
#[derive(Clone, Debug)]
pub struct PlannedPod {
    /// The pod. Its name is unique within the plan.
    pub spec: PodSpec,
    /// What runs in it.
    pub processes: Vec<ProcessSpec>,
}

/// A topology at a load level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Index into [`Plan::topologies`].
    pub topology: usize,
    /// How hard it is driven.
    pub level: LoadLevel,
}

/// Most sessions that a topology is driven with.
const MAX_CLIENTS: u32 = 1000;
/// Highest open-loop rate.
const MAX_RATE: u32 = 100_000;
/// Sessions that an open loop may use at least: enough that a due request seldom waits for one.
const OPEN_LOOP_SESSIONS: u32 = 60;

impl Plan {
    /// Plans a run of the selected part of an experiment.
    ///
    /// # Errors
    /// If the selection names what is not there, or a case cannot be carried.
    pub fn new(input: Input<'_>, selection: &Selection, site: Site) -> Result<Self, PlanError> {
        let Input { checked, sources } = input;
        let experiment = &checked.experiment;
        let profile = profile(experiment, selection)?;
        let cases = cases(experiment, &selection.cases)?;
        let names = if selection.subjects.is_empty() { &experiment.subjects } else { &selection.subjects };
        let subjects: Vec<Box<dyn Subject>> =
            names.iter().map(|name| meshtoll_subjects::by_name(name.as_str())).collect::<Result<_, _>>()?;
        let rates = profile.rates.is_empty();
        let sessions =
            profile.clients.iter().copied().max().unwrap_or(0).max(if rates { 0 } else { OPEN_LOOP_SESSIONS });
        let mut plan = Self {
            experiment: experiment.clone(),
            profile_name: selection.profile.clone(),
            app_work: selection.app_work.unwrap_or(experiment.application.app_work),
            database: selection
                .database
                .as_ref()
                .map_or_else(|| "docstore".to_owned(), |database| database.location.address.clone()),
            cases: cases.iter().map(|case| header(experiment, case)).collect(),
            subjects: subjects.iter().map(|subject| subject.name()).collect(),
            topologies: Vec::new(),
            cells: Vec::new(),
            sessions,
            seed: site.seed,
            profile,
        };
        let count = cases.len() * subjects.len();
        if count > placement::MAX_TOPOLOGIES {
            return Err(PlanError::TooManyTopologies(count));
        }
        let authorities = processes::Authorities {
            mesh: MeshCa::new(&experiment.mesh.trust_domain)?,
            external: ExternalCa::new("external database authority")?,
            session_key: session_key(),
        };
        for case in &cases {
            for subject in &subjects {
                let index = plan.topologies.len();
                let mut topology = placement::place(experiment, case, subject.name(), index, site.marking);
                topology.proxy.http = subject.http(selection.http.unwrap_or(topology.proxy.http));
                let maker = processes::Maker {
                    plan: &plan,
                    case,
                    resources: &checked.resources[&case.name],
                    sources: sources.get(&case.name).map_or(&[], Vec::as_slice),
                    subject: subject.as_ref(),
                    authorities: &authorities,
                    database: selection.database.as_ref(),
                    topology: &topology,
                    index,
                };
                let planned = maker.make()?;
                plan.cells.extend(plan.profile.levels().map(|level| Cell { topology: index, level }));
                plan.topologies.push(planned);
            }
        }
        Ok(plan)
    }

    /// What is the same for every subject, so that they are compared like with like: name and value.
    pub fn fairness(&self) -> Vec<(String, String)> {
        let proxies = &self.experiment.proxies;
        let access_log = if proxies.access_log { "on, one line a connection and request" } else { "off" };
        [
            (
                "worker threads of each proxy",
                format!(
                    "{}; besides, Envoy has a main thread, and Meshtoll as many threads that set connections up",
                    proxies.worker_threads
                ),
            ),
            ("access log", access_log.to_owned()),
            ("statistics", "on: per listener, upstream and route, read before and after each slice".to_owned()),
            ("database traffic", "relayed as TCP; the application's own TLS is never opened".to_owned()),
            ("mutual TLS", "ECDSA P-256 certificates of one mesh authority, TLS 1.3".to_owned()),
            ("configuration", "static files; no control plane runs".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    /// The case of a topology.
    pub fn case_of(&self, topology: &Topology) -> Option<&CaseHeader> {
        self.cases.iter().find(|case| case.name == topology.case)
    }
}

impl PlannedTopology {
    /// Every process that a transaction may meet, with its pod; the loader is not among them.
    pub fn processes(&self) -> impl Iterator<Item = (&PodSpec, &ProcessSpec)> {
        self.pods.iter().flat_map(|pod| pod.processes.iter().map(|process| (&pod.spec, process)))
    }

    /// The hop of that name.
    pub fn process(&self, hop: &HopName) -> Option<&ProcessSpec> {
        self.processes().map(|(_, process)| process).find(|process| process.hop == *hop)
    }
}

fn profile(experiment: &Experiment, selection: &Selection) -> Result<Profile, PlanError> {
    let known = || experiment.profiles.keys().cloned().collect::<Vec<_>>().join(", ");
    let mut profile = experiment.profiles.get(&selection.profile).cloned().ok_or_else(|| PlanError::Unknown {
        kind: "profile",
        name: selection.profile.clone(),
        known: known(),
    })?;
    if !selection.clients.is_empty() {
        profile.clients.clone_from(&selection.clients);
        if selection.rates.is_empty() {
            profile.rates.clear();
        }
    }
    match selection.rates.as_slice() {
        [] => {}
        [0] => profile.rates.clear(),
        rates => profile.rates = rates.to_vec(),
    }
    for levels in [&mut profile.clients, &mut profile.rates] {
        levels.sort_unstable();
        levels.dedup();
    }
    profile.rounds = selection.rounds.unwrap_or(profile.rounds);
    profile.slice = selection.slice.unwrap_or(profile.slice);
    if profile.clients.is_empty() && profile.rates.is_empty() {
        return Err(PlanError::NoLevels);
    }
    for clients in &profile.clients {
        within("--clients", u128::from(*clients), u128::from(MAX_CLIENTS))?;
    }
    for rate in &profile.rates {
        within("--rates", u128::from(*rate), u128::from(MAX_RATE))?;
    }
    within("--rounds", u128::from(profile.rounds), 10_000)?;
    within("--slice in ms", profile.slice.as_millis(), 3_600_000)?;
    Ok(profile)
}

fn within(what: &'static str, value: u128, most: u128) -> Result<(), PlanError> {
    if (1..=most).contains(&value) { Ok(()) } else { Err(PlanError::OutOfRange { what, value, most }) }
}

fn cases<'a>(experiment: &'a Experiment, selected: &[CaseName]) -> Result<Vec<&'a Case>, PlanError> {
    for name in selected {
        if experiment.case(name).is_none() {
            let known = experiment.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(PlanError::Unknown { kind: "case", name: name.to_string(), known });
        }
    }
    let wanted =
        |case: &&Case| selected.is_empty() || selected.contains(&case.name) || case.name == experiment.baseline;
    Ok(experiment.cases.iter().filter(wanted).collect())
}

fn header(experiment: &Experiment, case: &Case) -> CaseHeader {
    let finding = experiment.published.iter().flat_map(|published| &published.findings);
    CaseHeader {
        name: case.name.clone(),
        description: case.description.clone(),
        path: case.promise.path.iter().map(|hop| role(*hop)).collect(),
        mesh_mtls: case.promise.mesh_tls == MeshTls::Mutual,
        published: finding.into_iter().find(|finding| finding.case == case.name).map(|finding| PublishedFinding {
            throughput_ratio: finding.relative_throughput,
            text: finding.text.clone(),
        }),
    }
}

fn role(hop: PathHop) -> Role {
    match hop {
        PathHop::Sidecar => Role::Sidecar,
        PathHop::Gateway => Role::Gateway,
        PathHop::SniProxy => Role::SniProxy,
    }
}

/// 256 random bits, as hexadecimal text.
fn session_key() -> String {
    rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect()
}
