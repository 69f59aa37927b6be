//! The user namespace of a rootless sandbox: the caller becomes uid 0 inside, and there is no other uid.

use super::SandboxError;
use nix::{
    sched::{CloneFlags, unshare},
    unistd::{getegid, geteuid},
};
use std::fs;

/// Moves the process into a new user namespace as its root.
pub(super) fn enter() -> Result<(), SandboxError> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|source| SandboxError::UserNamespace { source, mend: mend() })?;
    // The kernel lets an unprivileged process map its gid only after it has given `setgroups` up.
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ] {
        fs::write(path, text).map_err(|source| SandboxError::Mapping { path, source, mend: mend() })?;
    }
    Ok(())
}

/// The command that lets this machine's users make user namespaces; each distribution has its own switch.
pub(crate) fn mend() -> String {
    let switches = [
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("user.max_user_namespaces", "0", "10000"),
    ];
    for (name, forbidden, allowed) in switches {
        let value = fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/")));
        if value.is_ok_and(|value| value.trim() == forbidden) {
            return format!("run `sudo sysctl -w {name}={allowed}`");
        }
    }
    "the kernel needs CONFIG_USER_NS, and a container `--security-opt seccomp=unconfined`".to_owned()
}

/// What helps when the other namespaces are refused.
pub(super) fn mend_namespaces(rootless: bool) -> String {
    if rootless { mend() } else { "run as an ordinary user, or the container with `--privileged`".to_owned() }
}
