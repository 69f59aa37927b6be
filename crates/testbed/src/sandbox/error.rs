use crate::tools::ToolError;
use nix::errno::Errno;
use std::{io, path::PathBuf};

/// Why the sandbox cannot be entered, with what mends it.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Namespaces of a process with threads cannot be changed.
    #[error("the sandbox has to be entered before the first thread is started, but {threads} threads run")]
    Threads {
        /// How many.
        threads: usize,
    },
    /// `/proc` is not mounted.
    #[error("/proc cannot be read: run `mount -t proc proc /proc`")]
    NoProc {
        /// Why.
        source: io::Error,
    },
    /// `ip` or `nft` is missing, or failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// Not root, and user namespaces are forbidden or used up.
    #[error("this user cannot make a user namespace: {mend}, or run as root")]
    UserNamespace {
        /// Why.
        source: Errno,
        /// The command that mends it.
        mend: String,
    },
    /// The new user namespace cannot be given its one uid.
    #[error("cannot write {path} of the new user namespace: {mend}, or run as root")]
    Mapping {
        /// Which file.
        path: &'static str,
        /// Why.
        source: io::Error,
        /// The command that mends it.
        mend: String,
    },
    /// The kernel refused mount, network or PID namespaces.
    #[error("cannot make mount, network and PID namespaces: {mend}")]
    Namespaces {
        /// Why.
        source: Errno,
        /// The command that mends it.
        mend: String,
    },
    /// No further process.
    #[error("cannot start the sandbox's first processes: see `ulimit -u`")]
    Fork {
        /// Why.
        source: Errno,
    },
    /// The outer process was killed while the sandbox started.
    #[error("the process that started the sandbox has ended")]
    Orphaned,
    /// Signals cannot be waited for.
    #[error("cannot handle signals")]
    Signals {
        /// Why.
        source: Errno,
    },
    /// A mount was refused.
    #[error("cannot {what}: {mend}")]
    Mount {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: Errno,
        /// What to do.
        mend: &'static str,
    },
    /// A folder of the private file system cannot be made.
    #[error("cannot create {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
