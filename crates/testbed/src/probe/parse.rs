//! The texts of `/proc` (proc(5)), as pure functions.

use super::ContextSwitches;
use std::str::FromStr;

/// A file of `/proc` or `/sys` lacks something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has no {0}")]
pub struct Malformed(pub(super) &'static str);

/// The kernel's `PF_KTHREAD`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What `/proc/PID/stat` says of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessStat {
    pub(super) parent: u32,
    pub(super) is_kernel_thread: bool,
    /// Ticks in user mode.
    pub(super) user: u64,
    /// Ticks in the kernel.
    pub(super) system: u64,
    /// Ticks of its ended children, theirs included, in either mode.
    pub(super) children: u64,
}

/// Reads `/proc/PID/stat`. The command's name is in parentheses and may hold anything, even `) R 1 (`.
pub(super) fn process(text: &str) -> Result<ProcessStat, Malformed> {
    let (_, after) = text.rsplit_once(')').ok_or(Malformed("name in parentheses"))?;
    // The first field after the name is number 3, the state.
    let mut fields = after.split_ascii_whitespace().skip(1);
    Ok(ProcessStat {
        parent: number(fields.next(), "parent")?,
        is_kernel_thread: number::<u64>(fields.nth(4), "flags")? & KERNEL_THREAD != 0,
        user: number(fields.nth(4), "user time")?,
        system: number(fields.next(), "system time")?,
        children: number::<u64>(fields.next(), "children's user time")?
            .saturating_add(number(fields.next(), "children's system time")?),
    })
}

/// Ticks that all CPUs together have spent, from `/proc/stat`, and how many CPUs there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MachineStat {
    pub(super) cpus: u64,
    pub(super) idle: u64,
    pub(super) waiting: u64,
    pub(super) irq: u64,
    pub(super) softirq: u64,
    pub(super) steal: u64,
}

/// Reads `/proc/stat`.
pub(super) fn machine(text: &str) -> Result<MachineStat, Malformed> {
    let lines = || text.lines().take_while(|line| line.starts_with("cpu"));
    let all = lines().next().and_then(|line| line.strip_prefix("cpu ")).ok_or(Malformed("line `cpu`"))?;
    let mut fields = all.split_ascii_whitespace().skip(3);
    Ok(MachineStat {
        cpus: lines().skip(1).count() as u64,
        idle: number(fields.next(), "idle time")?,
        waiting: number(fields.next(), "time waiting for I/O")?,
        irq: number(fields.next(), "interrupt time")?,
        softirq: number(fields.next(), "softirq time")?,
        steal: number(fields.next(), "stolen time")?,
    })
}

/// Run time in ns, the first number of `/proc/PID/schedstat`.
pub(super) fn run_time(text: &str) -> Result<u64, Malformed> {
    number(text.split_ascii_whitespace().next(), "run time")
}

/// Resident pages, the second number of `/proc/PID/statm`.
pub(super) fn resident_pages(text: &str) -> Result<u64, Malformed> {
    number(text.split_ascii_whitespace().nth(1), "resident pages")
}

/// The context switches of one thread, from `/proc/PID/task/TID/status`.
pub(super) fn context_switches(text: &str) -> Result<ContextSwitches, Malformed> {
    let field = |name: &str, what| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        number(value.map(str::trim), what)
    };
    Ok(ContextSwitches {
        voluntary: field("voluntary_ctxt_switches", "voluntary context switches")?,
        involuntary: field("nonvoluntary_ctxt_switches", "involuntary context switches")?,
    })
}

/// Numbers between blanks.
pub(super) fn numbers(text: &str) -> Result<Vec<u32>, Malformed> {
    text.split_ascii_whitespace().map(|text| number(Some(text), "list of numbers")).collect()
}

/// A single number.
pub(super) fn single(text: &str) -> Result<u64, Malformed> {
    number(Some(text.trim()), "number")
}

fn number<T: FromStr>(text: Option<&str>, what: &'static str) -> Result<T, Malformed> {
    text.and_then(|text| text.parse().ok()).ok_or(Malformed(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_a_real_process() {
        let text = "25118 (a) R 1 (b) S 25117 25118 25118 0 -1 4194304 1093 9540 0 1 37 21 11 8 20 0 1 0 151375 7598080 904 18446744073709551615 1 1 0 0 0 0 65536 4 65538 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let stat = ProcessStat { parent: 25117, is_kernel_thread: false, user: 37, system: 21, children: 19 };
        assert_eq!(process(text), Ok(stat));
    }

    #[test]
    fn reads_a_real_machine() {
        let text = "cpu  46201 0 11282 243739 595 7 78 32 0 0\ncpu0 22729 0 4925 123178 97 0 13 13 0 0\ncpu1 23472 0 6356 120560 498 0 65 18 0 0\nintr 428327 0 0\nctxt 1\n";
        let stat = MachineStat { cpus: 2, idle: 243_739, waiting: 595, irq: 7, softirq: 78, steal: 32 };
        assert_eq!(machine(text), Ok(stat));
    }

    #[test]
    fn reads_context_switches() {
        let text =
            "Name:\tvoluntary_ctxt_switches:\t9\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(context_switches(text), Ok(ContextSwitches { voluntary: 150, involuntary: 545 }));
    }

    #[test]
    fn says_what_is_missing() {
        assert_eq!(process("1 (init) S 0 1 1 0 -1 4194560"), Err(Malformed("user time")));
        assert_eq!(machine("intr 1\n"), Err(Malformed("line `cpu`")));
        assert_eq!(run_time(""), Err(Malformed("run time")));
    }

    proptest! {
        #[test]
        fn no_name_confuses(name in "[^\0]{0,15}", parent: u32, flags: u32, user: u64, system: u64, children: u32) {
            let text = format!("7 ({name}) S {parent} 1 1 0 -1 {flags} 1 2 3 4 {user} {system} {children} 1 20 0\n");
            let is_kernel_thread = flags & 0x0020_0000 != 0;
            let children = u64::from(children) + 1;
            prop_assert_eq!(process(&text), Ok(ProcessStat { parent, is_kernel_thread, user, system, children }));
        }

        #[test]
        fn machine_times_are_read_in_order(cpus in 1_usize..64, times in proptest::array::uniform10(0_u64..1 << 40)) {
            let fields = times.map(|time| time.to_string()).join(" ");
            let mut text = format!("cpu  {fields}\n");
            (0..cpus).for_each(|cpu| text.push_str(&format!("cpu{cpu} {fields}\n")));
            text.push_str("intr 1 2 3\ncpufreq 7\n");
            let [_, _, _, idle, waiting, irq, softirq, steal, _, _] = times;
            prop_assert_eq!(machine(&text), Ok(MachineStat { cpus: cpus as u64, idle, waiting, irq, softirq, steal }));
        }

        #[test]
        fn garbage_is_an_error_not_a_panic(text: String) {
            let _ = (process(&text), machine(&text), run_time(&text), resident_pages(&text), context_switches(&text), numbers(&text));
        }
    }
}
