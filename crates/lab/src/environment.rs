//! What a run ran on: kernel, CPU, memory, and the versions of everything that took part.

use crate::record::Environment;
use std::{fs, path::Path, process::Command};

/// Why the machine could not be described.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// A file of the kernel cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A program does not tell its version.
    #[error("`{command}` does not tell a version: {reason}; run `meshtoll doctor`")]
    Version {
        /// What was run.
        command: String,
        /// What went wrong.
        reason: String,
    },
}

/// A program and how it is asked for its version.
pub struct Versioned<'a> {
    /// Its name in the report.
    pub name: &'static str,
    /// Its path.
    pub program: &'a Path,
    /// The argument that makes it print its version.
    pub argument: &'static str,
}

/// Describes this machine and the programs.
///
/// # Errors
/// If the kernel's files cannot be read or a program does not answer.
pub fn describe(
    meshtoll: &str,
    rootless: bool,
    programs: &[Versioned<'_>],
    fairness: Vec<(String, String)>,
) -> Result<Environment, EnvironmentError> {
    let cpuinfo = read("/proc/cpuinfo")?;
    let meminfo = read("/proc/meminfo")?;
    Ok(Environment {
        kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
        cpu_model: field(&cpuinfo, "model name").unwrap_or("not named by the kernel").to_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX)),
        memory_bytes: field(&meminfo, "MemTotal")
            .and_then(|total| total.split_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kib| kib * 1024),
        rootless,
        meshtoll: meshtoll.to_owned(),
        versions: programs
            .iter()
            .map(|program| Ok((program.name.to_owned(), version(program)?)))
            .collect::<Result<_, EnvironmentError>>()?,
        fairness,
    })
}

fn read(path: &'static str) -> Result<String, EnvironmentError> {
    fs::read_to_string(path).map_err(|source| EnvironmentError::Read { path, source })
}

/// The value of the first `name : value` or `name: value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn version(program: &Versioned<'_>) -> Result<String, EnvironmentError> {
    let failed = |reason: String| EnvironmentError::Version {
        command: format!("{} {}", program.program.display(), program.argument),
        reason,
    };
    let output =
        Command::new(program.program).arg(program.argument).output().map_err(|source| failed(source.to_string()))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    first_version(&text).map(str::to_owned).ok_or_else(|| failed(format!("it printed `{}`", text.trim())))
}

/// The first thing in `text` that looks like `1.2` or `1.2.3`, with a suffix such as `-p1`.
fn first_version(text: &str) -> Option<&str> {
    text.split(|c: char| c.is_whitespace() || c == '/' || c == ',').find(|word| {
        let mut parts = word.trim_start_matches('v').split('.');
        let numeric = |part: Option<&str>| part.is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()));
        numeric(parts.next()) && numeric(parts.next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_where_programs_put_them() {
        assert_eq!(first_version("nginx version: nginx/1.22.1"), Some("1.22.1"));
        let envoy = "envoy  version: 8f5b6d3a0c/1.40.0/Clean/RELEASE/BoringSSL";
        assert_eq!(first_version(envoy), Some("1.40.0"));
        assert_eq!(first_version("no version"), None);
    }

    #[test]
    fn this_machine_can_be_described() {
        let environment = describe("test", false, &[], Vec::new()).unwrap();
        assert!(environment.memory_bytes > 0 && environment.cpus > 0 && !environment.kernel.is_empty());
    }
}
