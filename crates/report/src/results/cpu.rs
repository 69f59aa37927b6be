//! CPU time a transaction: by hop, by part, and what the machine was busy with meanwhile.

use super::{estimate::Estimate, names::RoleSchema};
use meshtoll_lab::record::{CellRecord, HopRecord, HopUsage, MachineUsage, RunRecord, SliceRecord, TopologyRecord};
use meshtoll_model::{ids::HopName, process::Role, units::Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPU time a transaction of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cpu {
    /// Every process of the topology, in the order in which a transaction meets them.
    pub hops: Vec<Hop>,
    /// Sidecars, gateway and SNI proxy together.
    pub mesh: Cost,
    /// The application's services together.
    pub application: Cost,
    /// The database.
    pub database: Cost,
    /// The load generator's CPU µs a request, failed ones included.
    pub load_micros_a_request: f64,
    /// The whole machine meanwhile.
    pub machine: Machine,
}

/// One process of the topology.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hop {
    /// Its name.
    #[schemars(with = "String")]
    pub hop: HopName,
    /// The part it plays.
    #[schemars(with = "RoleSchema")]
    pub role: Role,
    /// What it cost.
    pub cost: Cost,
    /// Resident memory at the end of slices, mean, bytes.
    pub resident_bytes: f64,
    /// Resident memory at the end of slices, largest, bytes.
    pub resident_bytes_max: u64,
    /// Resident memory when the process was ready, before any transaction, bytes; absent for a process that the
    /// topology does not name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes_at_start: Option<u64>,
    /// Resident memory after the last slice of its topology, whatever the level, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes_at_end: Option<u64>,
}

/// CPU time a transaction, µs: all CPU time of all slices by all their transactions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cost {
    /// User and system mode together, from the scheduler's exact run times.
    pub micros: f64,
    /// Of it in user mode. The kernel samples the split at its tick: the ratio of the samples of all slices,
    /// applied to the exact total. Absent without a sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<f64>,
    /// Of it in system mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<f64>,
    /// The same quantity round by round.
    pub rounds: Estimate,
}

/// Where the machine's time went, µs a transaction, and whether the parts add up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// All CPUs' time that was neither idle nor stolen.
    pub busy: f64,
    /// Application, mesh and database: the processes that a transaction passes.
    pub hops: f64,
    /// The load generator.
    pub load: f64,
    /// Topologies that were not driven, the lab itself and its helpers.
    pub testbed: f64,
    /// Processes that do not belong to the run.
    pub foreign: f64,
    /// Kernel threads.
    pub kernel_threads: f64,
    /// Interrupts and softirqs, as sampled by the kernel. Most of this is inside the processes' times too.
    pub interrupts: f64,
    /// Sum of hops, load, testbed, foreign and kernel threads: all that is charged to someone, interrupts as such
    /// left out.
    pub charged: f64,
    /// `charged / busy`: below 1, time is charged to nobody. The lower bound: interrupts that hit an idle CPU are
    /// missing in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closure: Option<f64>,
    /// `(charged + interrupts) / busy`: the upper bound, as interrupts inside processes are counted twice in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closure_with_interrupts: Option<f64>,
    /// Kernel work that no hop is charged with: kernel threads, and what of the busy time is charged to nobody.
    pub unattributed_kernel: f64,
}

/// CPU time of a cell; `None` without transactions.
pub(super) fn cpu(record: &RunRecord, cell: &CellRecord) -> Option<Cpu> {
    let slices = &cell.slices;
    let transactions: u64 = slices.iter().map(|slice| slice.load.transactions).sum();
    let failed: u64 = slices.iter().flat_map(|slice| slice.load.errors.values()).sum();
    let hops: Vec<Hop> = hop_order(record, cell)
        .into_iter()
        .filter_map(|(name, role)| {
            let usages = || slices.iter().flat_map(|slice| &slice.hops).filter(|usage| usage.hop == name);
            Some(Hop {
                cost: cost(slices, |usage| usage.hop == name)?,
                resident_bytes: Estimate::of(usages().map(|usage| usage.resident_bytes as f64))?.mean,
                resident_bytes_max: usages().map(|usage| usage.resident_bytes).max()?,
                resident_bytes_at_start: resident_at_start(record, cell, &name),
                resident_bytes_at_end: resident_at_end(record, cell, &name),
                hop: name,
                role,
            })
        })
        .collect();
    let load: Nanos = slices.iter().map(|slice| spent(slice, |usage| usage.role == Role::Load)).sum();
    Some(Cpu {
        mesh: sum(&hops, slices, Role::is_mesh)?,
        application: sum(&hops, slices, |role| role == Role::Service)?,
        database: sum(&hops, slices, |role| role == Role::Database)?,
        load_micros_a_request: load.per(transactions + failed)?.0,
        machine: machine(slices, transactions)?,
        hops,
    })
}

/// CPU µs a transaction of all mesh components in one slice; `None` for a slice without transactions.
pub(super) fn mesh_micros(slice: &SliceRecord) -> Option<f64> {
    spent(slice, |usage| usage.role.is_mesh()).per(slice.load.transactions).map(|micros| micros.0)
}

fn topology<'a>(record: &'a RunRecord, cell: &CellRecord) -> Option<&'a TopologyRecord> {
    let of_cell = |one: &&TopologyRecord| one.topology.case == cell.case && one.topology.subject == cell.subject;
    record.topologies.iter().find(of_cell)
}

fn resident_at_start(record: &RunRecord, cell: &CellRecord, hop: &HopName) -> Option<u64> {
    let hops = &topology(record, cell)?.hops;
    hops.iter().find(|one| one.hop == *hop).map(|one| one.resident_bytes_at_start)
}

/// Cells of all levels share the topology's processes: what the last slice of any of them left.
fn resident_at_end(record: &RunRecord, cell: &CellRecord, hop: &HopName) -> Option<u64> {
    let cells = record.cells.iter().filter(|one| one.case == cell.case && one.subject == cell.subject);
    let last = cells.flat_map(|cell| &cell.slices).max_by_key(|slice| (slice.round, slice.started_unix_ns))?;
    last.hops.iter().find(|usage| usage.hop == *hop).map(|usage| usage.resident_bytes)
}

/// The topology's hops in their order, then whatever else the slices name.
fn hop_order(record: &RunRecord, cell: &CellRecord) -> Vec<(HopName, Role)> {
    let named = topology(record, cell).into_iter().flat_map(|topology| &topology.hops);
    let mut order: Vec<_> = named.map(|HopRecord { hop, role, .. }| (hop.clone(), *role)).collect();
    for usage in cell.slices.iter().flat_map(|slice| &slice.hops) {
        if order.iter().all(|(hop, _)| *hop != usage.hop) {
            order.push((usage.hop.clone(), usage.role));
        }
    }
    order
}

fn spent(slice: &SliceRecord, which: impl Fn(&HopUsage) -> bool) -> Nanos {
    slice.hops.iter().filter(|usage| which(usage)).map(|usage| usage.cpu).sum()
}

fn cost(slices: &[SliceRecord], which: impl Fn(&HopUsage) -> bool + Copy) -> Option<Cost> {
    let transactions = slices.iter().map(|slice| slice.load.transactions).sum();
    let micros = slices.iter().map(|slice| spent(slice, which)).sum::<Nanos>().per(transactions)?.0;
    let used = || slices.iter().flat_map(|slice| &slice.hops).filter(|usage| which(usage));
    let user = used().map(|usage| usage.user).sum::<Nanos>().seconds();
    let system = used().map(|usage| usage.system).sum::<Nanos>().seconds();
    let rounds = slices.iter().filter_map(|slice| spent(slice, which).per(slice.load.transactions));
    let part = |samples: f64| (user + system > 0.0).then(|| micros * samples / (user + system));
    let rounds = Estimate::of(rounds.map(|micros| micros.0))?;
    Some(Cost { micros, user: part(user), system: part(system), rounds })
}

/// Cost of all hops of some roles. User and system are the sums of the hops' own, so that a table adds up; hops
/// without a sample of their own are split like the rest.
fn sum(hops: &[Hop], slices: &[SliceRecord], which: impl Fn(Role) -> bool + Copy) -> Option<Cost> {
    let total = cost(slices, |usage| which(usage.role))?;
    let parts = || hops.iter().filter(|hop| which(hop.role)).map(|hop| hop.cost);
    let user: f64 = parts().filter_map(|cost| cost.user).sum();
    let system: f64 = parts().filter_map(|cost| cost.system).sum();
    let part = |known: f64| (user + system > 0.0).then(|| total.micros * known / (user + system));
    Some(Cost { user: part(user), system: part(system), ..total })
}

/// `None` without transactions.
fn machine(slices: &[SliceRecord], transactions: u64) -> Option<Machine> {
    let of = |part: fn(&MachineUsage) -> Nanos| {
        slices.iter().map(|slice| part(&slice.machine)).sum::<Nanos>().per(transactions).map(|micros| micros.0)
    };
    let of_hops = |which: fn(Role) -> bool| {
        let all: Nanos = slices.iter().map(|slice| spent(slice, |usage| which(usage.role))).sum();
        all.per(transactions).map(|micros| micros.0)
    };
    let busy = of(|machine| machine.busy)?;
    let hops = of_hops(|role| !matches!(role, Role::Load | Role::Testbed))?;
    let load = of_hops(|role| role == Role::Load)?;
    let testbed = of(|machine| machine.testbed)? + of_hops(|role| role == Role::Testbed)?;
    let foreign = of(|machine| machine.foreign)?;
    let kernel_threads = of(|machine| machine.kernel_threads)?;
    let interrupts = of(|machine| machine.interrupts)?;
    let charged = hops + load + testbed + foreign + kernel_threads;
    let of_busy = |part: f64| (busy > 0.0).then(|| part / busy);
    Some(Machine {
        busy,
        hops,
        load,
        testbed,
        foreign,
        kernel_threads,
        interrupts,
        charged,
        closure: of_busy(charged),
        closure_with_interrupts: of_busy(charged + interrupts),
        unattributed_kernel: kernel_threads + (busy - charged).max(0.0),
    })
}
