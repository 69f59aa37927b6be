//! The system's own tools that build networks: `ip` and `nft`, fed with batches.

use std::{
    env,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

/// A tool of the system that the testbed needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    /// Its file name.
    pub(crate) name: &'static str,
    /// The Debian package that has it.
    pub(crate) package: &'static str,
}

/// `ip` of iproute2.
pub(crate) const IP: Tool = Tool { name: "ip", package: "iproute2" };
/// `nft` of nftables.
pub(crate) const NFT: Tool = Tool { name: "nft", package: "nftables" };

/// Why a tool did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// It is not there.
    #[error("`{name}` is not installed: run `apt-get install {package}`")]
    Missing {
        /// Its file name.
        name: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// It could not be started, or be fed.
    #[error("`{name}` could not be run")]
    Run {
        /// Its file name.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It says that it failed.
    #[error("`{name} {arguments}` failed ({status}): {stderr}; its input was:\n{input}")]
    Failed {
        /// Its file name.
        name: &'static str,
        /// Its arguments.
        arguments: String,
        /// Its exit status.
        status: ExitStatus,
        /// What it said.
        stderr: String,
        /// What it was fed.
        input: String,
    },
}

impl Tool {
    /// Where it is; administration folders are searched even when the user's `PATH` has none.
    pub(crate) fn find(self) -> Result<PathBuf, ToolError> {
        find(self.name).ok_or(ToolError::Missing { name: self.name, package: self.package })
    }

    /// Runs it in the calling thread's namespaces and hands it `input`.
    pub(crate) fn feed(self, arguments: &[&str], input: &str) -> Result<(), ToolError> {
        let run = |source| ToolError::Run { name: self.name, source };
        let mut child = Command::new(self.find()?)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(run)?;
        let written = match child.stdin.take() {
            Some(mut stdin) => stdin.write_all(input.as_bytes()),
            None => Ok(()),
        };
        let output = child.wait_with_output().map_err(run)?;
        if !output.status.success() {
            return Err(ToolError::Failed {
                name: self.name,
                arguments: arguments.join(" "),
                status: output.status,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                input: input.to_owned(),
            });
        }
        written.map_err(run)
    }
}

/// Finds a program by its name, or takes a path as it is.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_executable(path));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
