//! What a child does between `fork` and `exec` to become a process of a pod.

use nix::errno::Errno;
use std::{
    ffi::CString,
    io,
    os::fd::{AsRawFd as _, OwnedFd, RawFd},
};

/// The one capability that a process may need: to set SO_MARK on its sockets.
const CAP_NET_ADMIN: u32 = 12;
/// `SECBIT_NOROOT | SECBIT_NOROOT_LOCKED`: uid 0 gets no capabilities by executing something.
const NO_ROOT: libc::c_ulong = 0b11;
/// `_LINUX_CAPABILITY_VERSION_3`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// Everything that [`Confinement::apply`] needs, prepared before the fork: after it nothing may be allocated,
/// because another thread may have held the allocator's lock.
pub(crate) struct Confinement {
    net: RawFd,
    mount: RawFd,
    folder: CString,
    uid: Option<u32>,
    mark_sockets: bool,
}

impl Confinement {
    /// `uid` is `None` where there is only one; `mark_sockets` leaves the capability for SO_MARK.
    pub(crate) fn new(net: &OwnedFd, mount: &OwnedFd, folder: CString, uid: Option<u32>, mark_sockets: bool) -> Self {
        Self { net: net.as_raw_fd(), mount: mount.as_raw_fd(), folder, uid, mark_sockets }
    }

    /// Enters the pod and gives up everything that the process must not have. Async-signal-safe.
    ///
    /// No `PR_SET_PDEATHSIG`: it would fire when the *thread* ends that spawned the process, and the PID namespace
    /// ends every process anyway.
    pub(crate) fn apply(&self) -> io::Result<()> {
        // SAFETY: plain system calls on descriptors that the parent holds open across the fork, and on a string
        // and structures that live in `self` or on the stack.
        unsafe {
            check(libc::setns(self.net, libc::CLONE_NEWNET))?;
            check(libc::setns(self.mount, libc::CLONE_NEWNS))?;
            check(libc::chdir(self.folder.as_ptr()))?;
            check(libc::setsid())?;
            self.change_user()?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        }
    }

    /// Changes uid and gid and drops all capabilities, but the one for SO_MARK where it is needed.
    ///
    /// # Safety
    /// Only between `fork` and `exec`: it changes the calling thread alone.
    unsafe fn change_user(&self) -> io::Result<()> {
        // SAFETY: as in `apply`; the raw system calls are meant to change this thread only, which is the only one.
        unsafe {
            check(libc::prctl(libc::PR_SET_SECUREBITS, NO_ROOT, 0, 0, 0))?;
            check(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0))?;
            for capability in 0..64 {
                if self.mark_sockets && capability == CAP_NET_ADMIN {
                    continue;
                }
                match check(libc::prctl(libc::PR_CAPBSET_DROP, capability as libc::c_ulong, 0, 0, 0)) {
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
                    other => other?,
                }
            }
            if let Some(id) = self.uid {
                check(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) as i32)?;
                check(libc::syscall(libc::SYS_setresgid, id, id, id) as i32)?;
                check(libc::syscall(libc::SYS_setresuid, id, id, id) as i32)?;
            }
            let low = if self.mark_sockets { 1 << CAP_NET_ADMIN } else { 0 };
            let header = [CAPABILITY_VERSION, 0];
            // Effective, permitted, inheritable; then the same for capabilities from 32 on.
            let sets: [u32; 6] = [low, low, low, 0, 0, 0];
            check(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) as i32)?;
            if self.mark_sockets {
                let (raise, capability) = (libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong, CAP_NET_ADMIN as libc::c_ulong);
                check(libc::prctl(libc::PR_CAP_AMBIENT, raise, capability, 0, 0))?;
            }
            Ok(())
        }
    }
}

fn check(result: i32) -> io::Result<()> {
    Errno::result(result).map(drop).map_err(io::Error::from)
}
