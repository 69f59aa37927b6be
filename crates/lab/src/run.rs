//! A run: brings every topology up, then drives cell after cell, round after round, and stores each slice.

use crate::{
    plan::{Cell, Plan},
    proof::prove,
    record::{CellRecord, MachineUsage, ProofLine, RunHeader, RunId, SliceRecord},
    rounds::orders,
    running::{Outside, Running, RunningError, TopologyCpu},
    store::{CellKey, Store, StoreError},
};
use meshtoll_load::protocol::Schedule;
use meshtoll_model::{
    ids::{CaseName, SubjectName},
    units::{LoadLevel, Nanos},
};
use meshtoll_testbed::{
    Testbed, TestbedError,
    probe::{HostTasks, MachineTimes, ProbeError},
    sandbox::Interruption,
};
use nix::time::ClockId;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Share of failed requests above which a cell has failed.
pub const MAX_ERROR_SHARE: f64 = 0.001;

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A topology.
    #[error("{case} on {subject}")]
    Running {
        /// Its case.
        case: CaseName,
        /// Its subject.
        subject: SubjectName,
        /// What went wrong.
        source: Box<RunningError>,
    },
    /// The testbed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// The machine cannot be probed.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No data plane of that name.
    #[error(transparent)]
    Subject(#[from] meshtoll_subjects::UnknownSubject),
    /// Somebody asked the run to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What a run tells while it goes on.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A topology is being brought up.
    BringingUp {
        /// Its case.
        case: &'a CaseName,
        /// Its subject.
        subject: &'a SubjectName,
        /// Its number, from 1.
        number: usize,
        /// How many there are.
        of: usize,
    },
    /// A cell is about to be driven.
    Slice {
        /// Its case.
        case: &'a CaseName,
        /// Its subject.
        subject: &'a SubjectName,
        /// How hard.
        level: LoadLevel,
        /// Slices done so far.
        done: u64,
        /// Slices of the whole run.
        of: u64,
        /// How long the rest will take, judged by the slices so far.
        remaining: Duration,
    },
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Claims that the evidence did not bear out: the run stopped at the first such slice.
    pub broken_paths: Vec<BrokenPath>,
    /// Cells with more errors than [`MAX_ERROR_SHARE`].
    pub failing_cells: Vec<FailingCell>,
}

/// A claim about a cell's path that its evidence did not bear out.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenPath {
    /// The cell's case.
    pub case: CaseName,
    /// The cell's subject.
    pub subject: SubjectName,
    /// How hard it was driven.
    pub level: LoadLevel,
    /// Claim and evidence.
    pub line: ProofLine,
}

/// A cell with too many errors.
#[derive(Clone, Debug, PartialEq)]
pub struct FailingCell {
    /// Its case.
    pub case: CaseName,
    /// Its subject.
    pub subject: SubjectName,
    /// How hard it was driven.
    pub level: LoadLevel,
    /// Failed requests.
    pub errors: u64,
    /// Successful ones.
    pub transactions: u64,
    /// The most frequent kind of error.
    pub kind: String,
}

/// A run under way.
pub struct Run<'a> {
    plan: &'a Plan,
    testbed: &'a mut Testbed,
    store: &'a mut Store,
    id: &'a RunId,
    host: HostTasks,
    interruption: Interruption,
    topologies: Vec<Running>,
    cells: Vec<CellRecord>,
    keys: Vec<CellKey>,
}

impl<'a> Run<'a> {
    /// Brings every topology of the plan up, and enters the run in the store.
    ///
    /// # Errors
    /// If a topology does not come up, or the store refuses.
    pub fn begin(
        plan: &'a Plan,
        header: &RunHeader,
        id: &'a RunId,
        testbed: &'a mut Testbed,
        store: &'a mut Store,
        outside: Outside<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Self, RunError> {
        let interruption = outside.interruption;
        let mut topologies = Vec::with_capacity(plan.topologies.len());
        for (number, planned) in (1..).zip(&plan.topologies) {
            let (case, subject) = (&planned.topology.case, &planned.topology.subject);
            observe(Event::BringingUp { case, subject, number, of: plan.topologies.len() });
            let data_plane = meshtoll_subjects::by_name(subject.as_str())?;
            let running = Running::bring_up(testbed, planned, data_plane, plan.sessions, outside)
                .map_err(|source| failed(case, subject, source, interruption))?;
            topologies.push(running);
        }
        let cells: Vec<CellRecord> = plan.cells.iter().map(|cell| record_of(plan, cell)).collect();
        let records: Vec<_> = topologies.iter().map(|running| running.record.clone()).collect();
        let keys = store.begin(id, header, &records, &cells)?;
        let host = HostTasks::new()?;
        Ok(Self { plan, testbed, store, id, host, interruption, topologies, cells, keys })
    }

    /// Drives all rounds, or until a path turns out broken.
    ///
    /// # Errors
    /// If a process ends, the store refuses, or somebody asks to stop. What was measured before is stored.
    pub fn measure(&mut self, observe: &mut dyn FnMut(Event<'_>)) -> Result<Outcome, RunError> {
        let started = Instant::now();
        let of = self.plan.cells.len() as u64 * u64::from(self.plan.profile.rounds);
        let mut done = 0;
        for (round, order) in (0..).zip(orders(self.plan.seed, self.plan.cells.len(), self.plan.profile.rounds)) {
            for (position, index) in (0..).zip(order) {
                let cell = self.plan.cells[index];
                let remaining = remaining(started.elapsed(), done, of, self.slice_duration());
                let CellRecord { case, subject, level, .. } = &self.cells[index];
                if self.interruption.is_raised() {
                    return Err(RunError::Interrupted);
                }
                observe(Event::Slice { case, subject, level: *level, done, of, remaining });
                let slice = self.slice(cell, round, position).map_err(|error| self.explain(index, error))?;
                self.store.add(self.keys[index], &slice)?;
                let broken = self.broken(index, &slice);
                self.cells[index].slices.push(slice);
                if !broken.is_empty() {
                    self.end()?;
                    return Ok(Outcome { broken_paths: broken, failing_cells: self.failing_cells() });
                }
                done += 1;
            }
        }
        self.end()?;
        Ok(Outcome { broken_paths: Vec::new(), failing_cells: self.failing_cells() })
    }

    /// How to enter each pod, for a person: where, and the command.
    ///
    /// # Errors
    /// If a pod's processes have ended.
    pub fn enter_commands(&mut self) -> Result<Vec<(String, String)>, RunError> {
        let mut commands = Vec::new();
        for running in &self.topologies {
            let topology = &running.record.topology;
            let of_topology = running
                .enter_commands(self.testbed)
                .map_err(|source| failed(&topology.case, &topology.subject, source, self.interruption))?;
            commands.extend(of_topology);
        }
        Ok(commands)
    }

    /// Whether somebody asked the run to stop.
    pub fn interruption(&self) -> Interruption {
        self.interruption
    }

    fn slice(&mut self, cell: Cell, round: u32, position: u32) -> Result<SliceRecord, RunningError> {
        let driven = cell.topology;
        let schedule = match cell.level {
            LoadLevel::Clients(clients) => Schedule::Closed { clients },
            LoadLevel::Rate(rate) => Schedule::Open { rate, sessions: self.plan.sessions },
        };
        let evidence_before = self.topologies[driven].evidence(self.testbed)?;
        let before = self.readings()?;
        let load = self.topologies[driven].drive(schedule, self.plan.profile.lead_in, self.plan.profile.slice)?;
        let after = self.readings()?;
        let evidence_after = self.topologies[driven].evidence(self.testbed)?;
        self.testbed.check_alive()?;

        let running = &self.topologies[driven];
        let hops = running.usage(self.testbed, &before.topologies[driven], &after.topologies[driven])?;
        let topology = &running.record.topology;
        let proof = self.plan.case_of(topology).map_or_else(Vec::new, |case| {
            prove(case, topology, &evidence_before, &evidence_after, load.response_body_bytes)
        });
        Ok(SliceRecord {
            round,
            position,
            started_unix_ns: before.unix_ns,
            load,
            hops,
            machine: machine(&before, &after, driven),
            proof,
        })
    }

    fn readings(&mut self) -> Result<Readings, RunningError> {
        // The machine's times first before a slice and last after it would widen its frame beyond the processes';
        // read in the same order, both frames have the same length.
        let at = Instant::now();
        Ok(Readings {
            at,
            unix_ns: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
            machine: MachineTimes::read()?,
            kernel_threads: self.host.kernel_threads()?,
            foreign: self.host.foreign()?,
            lab: own_cpu()?,
            topologies: self.topologies.iter().map(|running| running.cpu(self.testbed)).collect::<Result<_, _>>()?,
        })
    }

    fn broken(&self, index: usize, slice: &SliceRecord) -> Vec<BrokenPath> {
        let CellRecord { case, subject, level, .. } = &self.cells[index];
        let broken = slice.proof.iter().filter(|line| !line.holds);
        broken
            .map(|line| BrokenPath { case: case.clone(), subject: subject.clone(), level: *level, line: line.clone() })
            .collect()
    }

    fn failing_cells(&self) -> Vec<FailingCell> {
        self.cells.iter().filter_map(failing).collect()
    }

    fn slice_duration(&self) -> Duration {
        self.plan.profile.lead_in + self.plan.profile.slice
    }

    fn explain(&mut self, index: usize, source: RunningError) -> RunError {
        // A process that has died is why others do not answer.
        let source = self.testbed.check_alive_soon(DYING).err().map_or(source, RunningError::from);
        failed(&self.cells[index].case, &self.cells[index].subject, source, self.interruption)
    }

    fn end(&mut self) -> Result<(), StoreError> {
        self.store.end(self.id, &crate::clock::now())
    }
}

/// How long a process that does not answer may take to end, to be told as the reason.
const DYING: Duration = Duration::from_secs(1);

/// What is read before and after a slice.
struct Readings {
    at: Instant,
    unix_ns: u64,
    machine: MachineTimes,
    kernel_threads: Nanos,
    foreign: Nanos,
    lab: Nanos,
    topologies: Vec<TopologyCpu>,
}

fn machine(before: &Readings, after: &Readings, driven: usize) -> MachineUsage {
    let others = |readings: &Readings| {
        let idle: Nanos = readings
            .topologies
            .iter()
            .enumerate()
            .map(|(index, cpu)| if index == driven { cpu.helpers } else { cpu.total() })
            .sum();
        idle + readings.lab
    };
    let (from, to) = (&before.machine, &after.machine);
    MachineUsage {
        elapsed: Nanos(u64::try_from((after.at - before.at).as_nanos()).unwrap_or(u64::MAX)),
        busy: to.busy().since(from.busy()),
        steal: to.steal.since(from.steal),
        interrupts: (to.irq + to.softirq).since(from.irq + from.softirq),
        testbed: others(after).since(others(before)),
        kernel_threads: after.kernel_threads.since(before.kernel_threads),
        foreign: after.foreign.since(before.foreign),
    }
}

/// CPU time of the lab itself.
fn own_cpu() -> Result<Nanos, ProbeError> {
    let clock = ClockId::CLOCK_PROCESS_CPUTIME_ID.now();
    let spent = clock.map_err(|source| ProbeError::Clock { what: "the lab's CPU clock".to_owned(), source })?;
    Ok(Nanos(u64::try_from(Duration::from(spent).as_nanos()).unwrap_or(u64::MAX)))
}

fn record_of(plan: &Plan, cell: &Cell) -> CellRecord {
    let topology = &plan.topologies[cell.topology].topology;
    CellRecord { case: topology.case.clone(), subject: topology.subject.clone(), level: cell.level, slices: Vec::new() }
}

fn failing(cell: &CellRecord) -> Option<FailingCell> {
    let transactions: u64 = cell.slices.iter().map(|slice| slice.load.transactions).sum();
    let kinds = cell.slices.iter().flat_map(|slice| &slice.load.errors);
    let errors: u64 = kinds.clone().map(|(_, count)| count).sum();
    let share = errors as f64 / (errors + transactions).max(1) as f64;
    let nothing = !cell.slices.is_empty() && transactions == 0;
    (share > MAX_ERROR_SHARE || nothing).then(|| FailingCell {
        case: cell.case.clone(),
        subject: cell.subject.clone(),
        level: cell.level,
        errors,
        transactions,
        kind: kinds.max_by_key(|(_, count)| **count).map_or_else(String::new, |(kind, _)| kind.clone()),
    })
}

fn remaining(elapsed: Duration, done: u64, of: u64, slice: Duration) -> Duration {
    let left = u32::try_from(of - done).unwrap_or(u32::MAX);
    match u32::try_from(done) {
        Ok(done) if done > 0 => elapsed / done * left,
        _ => slice * left,
    }
}

/// A failure of a topology; or, when somebody asked to stop, just that, whatever it made fail first.
fn failed(case: &CaseName, subject: &SubjectName, source: RunningError, interruption: Interruption) -> RunError {
    if interruption.is_raised() {
        return RunError::Interrupted;
    }
    RunError::Running { case: case.clone(), subject: subject.clone(), source: Box::new(source) }
}
