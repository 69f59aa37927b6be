use super::{ProbeError, nanos, parse, read_and, ticks};
use meshtoll_model::units::Nanos;
use nix::time::ClockId;
use std::path::Path;

/// Exact run time of all tasks of the machine, where control groups of version 1 account for it.
const ALL_TASKS: &str = "/sys/fs/cgroup/cpuacct/cpuacct.usage";

/// What the machine's CPUs together have spent since it started, or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineTimes {
    /// Wall time × CPUs.
    pub capacity: Nanos,
    /// Nothing to do, waiting for I/O included.
    pub idle: Nanos,
    /// Taken by the hypervisor.
    pub steal: Nanos,
    /// In interrupts, sampled by the timer tick; part of busy.
    pub irq: Nanos,
    /// In softirqs (network processing that no process was charged with), likewise.
    pub softirq: Nanos,
    /// Exact run time of all tasks, where the kernel has such a counter.
    pub tasks: Option<Nanos>,
}

impl MachineTimes {
    /// Everything but idle and stolen time. The sampled parts of `/proc/stat` are not summed up: at light load most wake-ups
    /// begin and end between two ticks, while a tickless kernel counts idle time exactly.
    pub fn busy(&self) -> Nanos {
        self.capacity.since(self.idle + self.steal)
    }

    /// The part of busy in which no task ran, where it can be told: interrupts and the idle loop, on the way out of idle and back.
    /// Nothing when the machine is saturated, but 5 to 10 % of busy at light load, some 2 µs a wake-up.
    pub fn outside_tasks(&self) -> Option<Nanos> {
        self.tasks.map(|tasks| self.busy().since(tasks))
    }

    /// What was spent since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            capacity: self.capacity.since(earlier.capacity),
            idle: self.idle.since(earlier.idle),
            steal: self.steal.since(earlier.steal),
            irq: self.irq.since(earlier.irq),
            softirq: self.softirq.since(earlier.softirq),
            tasks: self.tasks.zip(earlier.tasks).map(|(now, then)| now.since(then)),
        }
    }

    /// Reads the counters.
    pub fn read() -> Result<Self, ProbeError> {
        let stat = read_and(Path::new("/proc/stat"), parse::machine)?;
        let clock = ClockId::CLOCK_MONOTONIC.now();
        let wall = nanos(clock.map_err(|source| ProbeError::Clock { what: "the clock".into(), source })?);
        let all_tasks = Path::new(ALL_TASKS);
        let tasks = if all_tasks.exists() { Some(Nanos(read_and(all_tasks, parse::single)?)) } else { None };
        Ok(Self {
            capacity: Nanos(wall.0 * stat.cpus),
            idle: ticks(stat.idle + stat.waiting),
            steal: ticks(stat.steal),
            irq: ticks(stat.irq),
            softirq: ticks(stat.softirq),
            tasks,
        })
    }
}
