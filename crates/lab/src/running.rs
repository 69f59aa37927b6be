//! Topologies that are up: brought up in the order in which their processes need each other, driven and read one at
//! a time.

use crate::{
    database,
    interruptible::Interruptible,
    plan::{PlannedPod, PlannedTopology},
    proof::{Evidence, ProxyEvidence},
    record::{HopRecord, HopUsage, TopologyRecord},
};
use meshtoll_load::{
    control::{Control, ControlError},
    protocol::{Schedule, SliceResult},
};
use meshtoll_model::{
    ids::HopName,
    process::{ProcessSpec, Role},
    topology::ADMIN_PORT,
    units::Nanos,
};
use meshtoll_subjects::{Subject, counters::Unreadable, nginx};
use meshtoll_testbed::{
    Testbed, TestbedError,
    outlet::Outlet,
    pod::PodId,
    probe::{CpuTime, ProbeError},
    process::ProcessId,
    sandbox::Interruption,
};
use std::{
    io::BufReader,
    os::fd::AsFd as _,
    process::{ChildStdin, ChildStdout},
    time::Duration,
};

/// How long the processes of a stage may take to get ready, on a busy machine.
const STAGE_DEADLINE: Duration = Duration::from_secs(60);
/// How long filling the database may take; a real MongoDB on a slow disk needs minutes.
const LOADER_DEADLINE: Duration = Duration::from_secs(600);
/// Who is started together, and ready before the next.
const STAGES: [&[Role]; 5] =
    [&[Role::Testbed], &[Role::Database], &[Role::Gateway, Role::SniProxy], &[Role::Sidecar], &[Role::Service]];

/// Why a topology could not be brought up, driven or read.
#[derive(Debug, thiserror::Error)]
pub enum RunningError {
    /// The testbed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A process or the machine cannot be probed.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The load process.
    #[error("{hop}")]
    Load {
        /// The load process.
        hop: HopName,
        /// What went wrong.
        source: ControlError,
    },
    /// A hop's counters are not what this version of it is known to write.
    #[error("{hop}: its counters are not readable")]
    Counters {
        /// The hop.
        hop: HopName,
        /// What is wrong with them.
        source: Unreadable,
    },
    /// The way to an external database cannot be handed on.
    #[error("{hop} cannot be given the way out of the sandbox: see `ulimit -n`")]
    Outlet {
        /// What stands for the database.
        hop: HopName,
        /// Why.
        source: std::io::Error,
    },
    /// The database's statistics are not what docstore writes.
    #[error("{hop}: its statistics are not readable")]
    Database {
        /// The database.
        hop: HopName,
        /// What is wrong with them.
        source: serde_json::Error,
    },
}

/// What a run is given from outside of its testbed.
#[derive(Clone, Copy, Debug)]
pub struct Outside<'a> {
    /// Whether it is asked to stop.
    pub interruption: Interruption,
    /// The way to the plan's external database; it is the standard input of what stands for that database.
    pub outlet: Option<&'a Outlet>,
}

/// A topology that is up.
pub(crate) struct Running {
    /// What it is, for the store.
    pub record: TopologyRecord,
    hops: Vec<RunningHop>,
    helpers: Vec<ProcessId>,
    load: Load,
    subject: Box<dyn Subject>,
}

/// CPU time of every process of a topology at one moment.
#[derive(Clone, Debug)]
pub(crate) struct TopologyCpu {
    hops: Vec<CpuTime>,
    /// What belongs to the topology and is on no transaction's way.
    pub helpers: Nanos,
}

impl TopologyCpu {
    /// All of it.
    pub(crate) fn total(&self) -> Nanos {
        self.hops.iter().map(|cpu| cpu.total).sum::<Nanos>() + self.helpers
    }
}

struct RunningHop {
    hop: HopName,
    role: Role,
    pod: PodId,
    process: ProcessId,
    resident_bytes_at_start: u64,
}

impl RunningHop {
    fn record(&self) -> HopRecord {
        HopRecord { hop: self.hop.clone(), role: self.role, resident_bytes_at_start: self.resident_bytes_at_start }
    }
}

struct Load {
    hop: HopName,
    control: Control<BufReader<Interruptible<ChildStdout>>, ChildStdin>,
}

impl Load {
    fn failed(&self, source: ControlError) -> RunningError {
        RunningError::Load { hop: self.hop.clone(), source }
    }
}

impl Running {
    /// Makes the pods of a topology, starts what runs in them, fills the database, and opens the load's sessions.
    ///
    /// # Errors
    /// If a pod cannot be made, or a process ends or does not get ready.
    pub(crate) fn bring_up(
        testbed: &mut Testbed,
        planned: &PlannedTopology,
        subject: Box<dyn Subject>,
        sessions: u32,
        outside: Outside<'_>,
    ) -> Result<Self, RunningError> {
        let pods = planned.pods.iter().map(|pod| testbed.add_pod(&pod.spec)).collect::<Result<Vec<PodId>, _>>()?;
        let placed = || pods.iter().copied().zip(&planned.pods);
        let mut hops = Vec::new();
        for stage in STAGES {
            let mut started = start_stage(testbed, placed(), stage, outside.outlet)?;
            let ids: Vec<ProcessId> = started.iter().map(|hop| hop.process).collect();
            testbed.wait_ready(&ids, STAGE_DEADLINE)?;
            for hop in &mut started {
                hop.resident_bytes_at_start = testbed.memory(hop.process)?;
            }
            hops.extend(started);
            if stage.contains(&Role::Database) {
                fill_database(testbed, placed(), &planned.loader)?;
            }
        }
        let (load_hop, load) = start_load(testbed, placed(), sessions, outside.interruption)?;
        hops.push(load_hop);

        let (helpers, mut hops): (Vec<_>, Vec<_>) = hops.into_iter().partition(|hop| hop.role == Role::Testbed);
        let order: Vec<&HopName> = planned.processes().map(|(_, process)| &process.hop).collect();
        hops.sort_by_key(|hop| order.iter().position(|name| **name == hop.hop));
        let record = TopologyRecord {
            topology: planned.topology.clone(),
            hops: hops.iter().map(RunningHop::record).collect(),
            configs: configs(planned),
        };
        let helpers = helpers.into_iter().map(|hop| hop.process).collect();
        Ok(Self { record, hops, helpers, load, subject })
    }

    /// Drives one slice.
    ///
    /// # Errors
    /// If the load process cannot.
    pub(crate) fn drive(
        &mut self,
        schedule: Schedule,
        lead_in: Duration,
        window: Duration,
    ) -> Result<SliceResult, RunningError> {
        self.load.control.drive(schedule, lead_in, window).map_err(|source| self.load.failed(source))
    }

    /// CPU time of every process so far.
    ///
    /// # Errors
    /// If a process has ended.
    pub(crate) fn cpu(&self, testbed: &Testbed) -> Result<TopologyCpu, RunningError> {
        let hops = self.hops.iter().map(|hop| testbed.cpu(hop.process)).collect::<Result<_, _>>()?;
        let helpers = self.helpers.iter().map(|id| Ok(testbed.cpu(*id)?.total));
        Ok(TopologyCpu { hops, helpers: helpers.sum::<Result<_, ProbeError>>()? })
    }

    /// What each hop used between two readings.
    ///
    /// # Errors
    /// If a process has ended.
    pub(crate) fn usage(
        &self,
        testbed: &Testbed,
        before: &TopologyCpu,
        after: &TopologyCpu,
    ) -> Result<Vec<HopUsage>, RunningError> {
        let readings = before.hops.iter().zip(&after.hops);
        self.hops
            .iter()
            .zip(readings)
            .map(|(hop, (before, after))| {
                Ok(HopUsage {
                    hop: hop.hop.clone(),
                    role: hop.role,
                    cpu: after.total.since(before.total),
                    user: after.user.since(before.user),
                    system: after.system.since(before.system),
                    resident_bytes: testbed.memory(hop.process)?,
                })
            })
            .collect()
    }

    /// The counters of every hop that keeps any.
    ///
    /// # Errors
    /// If a hop does not answer, or not as known.
    pub(crate) fn evidence(&self, testbed: &Testbed) -> Result<Evidence, RunningError> {
        let mut evidence = Evidence::default();
        for hop in &self.hops {
            let unreadable = |source| RunningError::Counters { hop: hop.hop.clone(), source };
            match hop.role {
                Role::Sidecar | Role::Gateway => {
                    let answer = testbed.http_get(hop.pod, ADMIN_PORT, self.subject.counters_path())?;
                    let counters = self.subject.counters(&answer).map_err(unreadable)?;
                    evidence.proxies.push(ProxyEvidence { hop: hop.hop.clone(), role: hop.role, counters });
                }
                Role::SniProxy => {
                    let answer = testbed.http_get(hop.pod, nginx::STATUS_PORT, nginx::STATUS_PATH)?;
                    evidence.sni_proxy = Some(nginx::counters(&answer).map_err(unreadable)?);
                }
                Role::Database => {
                    let answer = testbed.http_get(hop.pod, database::ADMIN_PORT, database::CONNECTIONS_PATH)?;
                    evidence.database = database::sources(&answer)
                        .map_err(|source| RunningError::Database { hop: hop.hop.clone(), source })?;
                }
                Role::Service | Role::Load | Role::Testbed => {}
            }
        }
        Ok(evidence)
    }

    /// How to enter each pod, for a person.
    ///
    /// # Errors
    /// If a pod's processes have ended.
    pub(crate) fn enter_commands(&self, testbed: &mut Testbed) -> Result<Vec<(String, String)>, RunningError> {
        let mut commands = Vec::new();
        for hop in &self.hops {
            let name = hop.hop.as_str().split_once('/').map_or(hop.hop.as_str(), |(pod, _)| pod);
            let label = format!("{} on {}, {name}", self.record.topology.case, self.record.topology.subject);
            if commands.last().is_none_or(|(last, _)| *last != label) {
                commands.push((label, testbed.enter_command(hop.pod)?));
            }
        }
        Ok(commands)
    }
}

fn start_stage<'a>(
    testbed: &mut Testbed,
    pods: impl Iterator<Item = (PodId, &'a PlannedPod)>,
    stage: &[Role],
    outlet: Option<&Outlet>,
) -> Result<Vec<RunningHop>, RunningError> {
    let mut started = Vec::new();
    for (pod, planned) in pods {
        for spec in planned.processes.iter().filter(|process| stage.contains(&process.role)) {
            let process = match outlet.filter(|_| spec.role == Role::Database) {
                None => testbed.spawn(pod, spec)?,
                Some(outlet) => {
                    let own = outlet.as_fd().try_clone_to_owned();
                    let own = own.map_err(|source| RunningError::Outlet { hop: spec.hop.clone(), source })?;
                    testbed.spawn_with_stdin(pod, spec, own)?
                }
            };
            let (hop, role) = (spec.hop.clone(), spec.role);
            started.push(RunningHop { hop, role, pod, process, resident_bytes_at_start: 0 });
        }
    }
    Ok(started)
}

/// Runs the loader beside the database, so that neither the mesh nor its counters see its traffic.
fn fill_database<'a>(
    testbed: &mut Testbed,
    mut pods: impl Iterator<Item = (PodId, &'a PlannedPod)>,
    loader: &ProcessSpec,
) -> Result<(), RunningError> {
    let has_database = |pod: &PlannedPod| pod.processes.iter().any(|process| process.role == Role::Database);
    let Some((pod, _)) = pods.find(|(_, pod)| has_database(pod)) else { return Ok(()) };
    Ok(testbed.run_to_end(pod, loader, LOADER_DEADLINE)?)
}

fn start_load<'a>(
    testbed: &mut Testbed,
    mut pods: impl Iterator<Item = (PodId, &'a PlannedPod)>,
    sessions: u32,
    interruption: Interruption,
) -> Result<(RunningHop, Load), RunningError> {
    let found = pods.find_map(|(pod, planned)| {
        let spec = planned.processes.iter().find(|process| process.role == Role::Load)?;
        Some((pod, spec))
    });
    let Some((pod, spec)) = found else { unreachable!("every planned topology has a load pod") };
    let (process, stdin, stdout) = testbed.spawn_piped(pod, spec)?;
    let reader = BufReader::new(Interruptible::new(stdout, interruption));
    let mut load = Load { hop: spec.hop.clone(), control: Control::new(reader, stdin) };
    load.control.prepare(sessions).map_err(|source| load.failed(source))?;
    let resident_bytes_at_start = testbed.memory(process)?;
    Ok((RunningHop { hop: spec.hop.clone(), role: Role::Load, pod, process, resident_bytes_at_start }, load))
}

fn configs(planned: &PlannedTopology) -> Vec<(HopName, String, String)> {
    let files = |process: &ProcessSpec| {
        let hop = process.hop.clone();
        let public = process.files.clone().into_iter().filter(|file| !file.secret);
        public.map(move |file| (hop.clone(), file.name, file.contents)).collect::<Vec<_>>()
    };
    planned.processes().flat_map(|(_, process)| files(process)).collect()
}
