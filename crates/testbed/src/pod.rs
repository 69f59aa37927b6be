//! A pod: a network namespace on a bridge and a mount namespace with its own resolver and hosts file.

use crate::{
    files::{make_file, make_folder},
    interception::Interception,
    network::{NamespaceError, Network, on_own_thread, own_namespace, settle, within},
    sandbox::Sandbox,
    tools::{IP, NFT, ToolError},
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use std::{
    io,
    net::Ipv4Addr,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    process,
};

/// A pod to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSpec {
    /// Its name, unique in the testbed; also its host name.
    pub name: String,
    /// The bridge that it is on.
    pub network: Network,
    /// Its address, in the network's block.
    pub address: Ipv4Addr,
    /// The DNS server that it asks.
    pub dns: Ipv4Addr,
    /// Which of its connections its proxy gets; `None` in pods without a sidecar.
    pub interception: Option<Interception>,
}

/// A pod of a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PodId(pub(crate) usize);

impl PodId {
    /// The node that routes between the networks: not a pod, but processes can run on it.
    pub const NODE: Self = Self(0);
}

/// Why a pod could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// The name cannot be a folder's name, or is taken.
    #[error("`{name}` cannot be a pod's name: it has to be unique, of letters, digits, `.`, `_` and `-`")]
    Name {
        /// The name.
        name: String,
    },
    /// The address is another network's, the node's, or taken.
    #[error("pod `{name}` cannot have address {address}: it has to be unique and in {network}, besides the node's own")]
    Address {
        /// The pod.
        name: String,
        /// The address.
        address: Ipv4Addr,
        /// The network's block.
        network: meshtoll_model::cidr::Cidr,
    },
    /// `ip` or `nft` failed.
    #[error("cannot connect pod `{name}`")]
    Tool {
        /// The pod.
        name: String,
        /// Why.
        source: ToolError,
    },
    /// The kernel refused its namespaces.
    #[error("cannot make the namespaces of pod `{name}`")]
    Namespace {
        /// The pod.
        name: String,
        /// Why.
        source: NamespaceError,
    },
    /// A file of its cannot be written.
    #[error("cannot write {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The host lacks a file that the pod's own would cover.
    #[error("{path} does not lead to a file, so pods cannot have their own: run `touch {path}`")]
    NoTarget {
        /// Which.
        path: &'static str,
    },
}

#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) net: OwnedFd,
    pub(crate) mount: OwnedFd,
    /// How the proxies of this pod are known.
    pub(crate) interception: Option<Interception>,
}

impl Pod {
    /// The node as a place for processes.
    pub(crate) fn node() -> Result<Self, NamespaceError> {
        let address = Network::Mesh.node_address();
        let (net, mount) = (own_namespace("net")?, own_namespace("mnt")?);
        Ok(Self { name: "node".into(), address, net, mount, interception: None })
    }

    /// Makes the pod; `index` names its end on the node. The caller has checked that name and address are free.
    pub(crate) fn create(spec: &PodSpec, index: usize) -> Result<Self, PodError> {
        let PodSpec { name, network, address, interception, .. } = spec;
        let printable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(printable) {
            return Err(PodError::Name { name: name.clone() });
        }
        if !network.block().contains(*address) {
            return Err(PodError::Address { name: name.clone(), address: *address, network: network.block() });
        }
        let of_namespace = |source| PodError::Namespace { name: name.clone(), source };
        let of_tool = |source| PodError::Tool { name: name.clone(), source };

        let covers = write_files(spec)?;
        let (net, mount) = on_own_thread(|| make_namespaces(&covers)).map_err(of_namespace)?;

        let (bridge, gateway, prefix) = (network.bridge(), network.node_address(), network.block().prefix());
        let outside = format!("pod{index}");
        let path = format!("/proc/{}/fd/{}", process::id(), net.as_raw_fd());
        IP.feed(
            &["-batch", "-"],
            &format!(
                "link add {outside} type veth peer name eth0 netns {path}\nlink set {outside} master {bridge} up\n"
            ),
        )
        .map_err(of_tool)?;
        within(&net, || {
            IP.feed(
                &["-batch", "-"],
                &format!(
                    "link set lo up\naddress add {address}/{prefix} dev eth0\nlink set eth0 up\nroute add default via {gateway}\n"
                ),
            )?;
            interception.as_ref().map_or(Ok(()), |rules| NFT.feed(&["-f", "-"], &rules.ruleset()))
        })
        .map_err(of_namespace)?
        .map_err(of_tool)?;
        Ok(Self { name: name.clone(), address: *address, net, mount, interception: interception.clone() })
    }

    /// Its folder in memory.
    pub(crate) fn folder(name: &str) -> PathBuf {
        Sandbox::folder("pods").join(name)
    }
}

/// A pod's own file, and the host's that it covers.
type Cover = (PathBuf, &'static str);

/// Writes what the pod sees as name service configuration.
fn write_files(spec: &PodSpec) -> Result<Vec<Cover>, PodError> {
    let folder = Pod::folder(&spec.name);
    make_folder(&folder, None).map_err(|source| PodError::File { path: folder.clone(), source })?;
    let files = [
        ("/etc/resolv.conf", format!("nameserver {}\noptions ndots:1\n", spec.dns)),
        ("/etc/hosts", format!("127.0.0.1 localhost\n{} {}\n", spec.address, spec.name)),
        // The host's may send host names to a daemon of the host (systemd-resolved, mDNS), past the pod's resolver.
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
    ];
    let mut covers = Vec::new();
    for (target, text) in files {
        if !Path::new(target).is_file() {
            // Without nsswitch.conf the C library asks files and DNS anyway.
            if target.ends_with("nsswitch.conf") {
                continue;
            }
            return Err(PodError::NoTarget { path: target });
        }
        let path = folder.join(target.trim_start_matches("/etc/"));
        make_file(&path, &text, 0o644, None).map_err(|source| PodError::File { path: path.clone(), source })?;
        covers.push((path, target));
    }
    Ok(covers)
}

/// Gives the calling thread new network and mount namespaces and returns them.
fn make_namespaces(covers: &[Cover]) -> Result<(OwnedFd, OwnedFd), NamespaceError> {
    let failed = |what| move |error: nix::Error| NamespaceError::Kernel { what, source: error.into() };
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).map_err(failed("unshare network and mounts"))?;
    settle()?;
    for (path, target) in covers {
        mount(Some(path), *target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(failed("bind the pod's own name service files"))?;
    }
    Ok((own_namespace("net")?, own_namespace("mnt")?))
}
