//! The node: the sandbox's own network namespace, which routes between the mesh and the world outside of it.

use crate::tools::{IP, ToolError};
use meshtoll_model::cidr::Cidr;
use nix::sched::{CloneFlags, setns};
use std::{
    fs, io,
    net::Ipv4Addr,
    os::fd::{AsFd, OwnedFd},
    thread,
};

/// A bridge that pods are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// The cluster: 10.44.0.0/16.
    Mesh,
    /// What is external to the mesh: 10.88.0.0/16, one router hop away.
    World,
}

impl Network {
    /// Its bridge's name on the node.
    pub const fn bridge(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::World => "world",
        }
    }

    /// The node's address on it: the pods' router, and where the testbed's DNS server listens.
    pub const fn node_address(self) -> Ipv4Addr {
        match self {
            Self::Mesh => Ipv4Addr::new(10, 44, 0, 1),
            Self::World => Ipv4Addr::new(10, 88, 0, 1),
        }
    }

    /// Its addresses.
    pub const fn block(self) -> Cidr {
        Cidr::around(self.node_address(), 16)
    }
}

/// A network or mount namespace could not be made or entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// A system call on the namespace failed.
    #[error("cannot {what}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A network setting was refused.
    #[error("cannot set {path}")]
    Setting {
        /// Its file.
        path: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// Makes the calling process's network namespace the node: the two bridges and the router between them.
pub(crate) fn set_up_node() -> Result<(), NodeError> {
    let mut batch = String::new();
    for network in [Network::Mesh, Network::World] {
        let (bridge, address, prefix) = (network.bridge(), network.node_address(), network.block().prefix());
        // Else the bridge would take the lowest address of its ports, a new one as pods join, and lose what pods send to the
        // one that they remember.
        let [a, b, c, d] = address.octets();
        batch.push_str(&format!(
            "link add {bridge} address 02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x} type bridge\naddress add {address}/{prefix} dev {bridge}\nlink set {bridge} up\n"
        ));
    }
    settle()?;
    set("/proc/sys/net/ipv4/ip_forward", "1")?;
    IP.feed(&["-batch", "-"], &batch)?;
    Ok(())
}

/// The node's network could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// By `ip`.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// By the kernel.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

/// Settings of every namespace: no IPv6, and low ports for everyone (as container runtimes do), since no
/// process has the capability to bind them.
pub(crate) fn settle() -> Result<(), NamespaceError> {
    set("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")?;
    for path in ["/proc/sys/net/ipv6/conf/all/disable_ipv6", "/proc/sys/net/ipv6/conf/default/disable_ipv6"] {
        match set(path, "1") {
            // A kernel without IPv6.
            Err(NamespaceError::Setting { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

fn set(path: &'static str, value: &str) -> Result<(), NamespaceError> {
    fs::write(path, value).map_err(|source| NamespaceError::Setting { path, source })
}

/// Opens a namespace (`net`, `mnt`) of the calling thread: what keeps it alive, and the way into it.
pub(crate) fn own_namespace(kind: &str) -> Result<OwnedFd, NamespaceError> {
    let opened = fs::File::open(format!("/proc/thread-self/ns/{kind}"));
    opened.map(OwnedFd::from).map_err(|source| NamespaceError::Kernel { what: "open a namespace", source })
}

/// Does `work` in a network namespace, on a thread of its own, because a namespace belongs to a thread.
pub(crate) fn within<T: Send>(
    namespace: impl AsFd + Sync,
    work: impl FnOnce() -> T + Send,
) -> Result<T, NamespaceError> {
    on_own_thread(|| {
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET)
            .map_err(|error| NamespaceError::Kernel { what: "enter a network namespace", source: error.into() })?;
        Ok(work())
    })
}

/// Does `work` on a thread of its own, which takes the namespaces that it entered with it when it ends.
pub(crate) fn on_own_thread<T: Send>(
    work: impl FnOnce() -> Result<T, NamespaceError> + Send,
) -> Result<T, NamespaceError> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .spawn_scoped(scope, work)
            .map_err(|source| NamespaceError::Kernel { what: "start a thread", source })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
