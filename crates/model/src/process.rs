//! What it takes to run one process in a pod: plain data, made by `subjects` and `lab`, run by `testbed`.

use crate::ids::HopName;
use serde::{Deserialize, Serialize};

/// The part a process plays on the way of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A service of the application.
    Service,
    /// A proxy beside a service.
    Sidecar,
    /// The egress gateway.
    Gateway,
    /// The second proxy in the gateway's pod that resolves wildcard hosts.
    SniProxy,
    /// The external database.
    Database,
    /// The load generator.
    Load,
    /// The testbed's own DNS server and other helpers.
    Testbed,
}

impl Role {
    /// Whether the mesh, rather than the application, asks for this process.
    pub fn is_mesh(self) -> bool {
        matches!(self, Self::Sidecar | Self::Gateway | Self::SniProxy)
    }
}

/// One process of a pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessSpec {
    /// Its name within the topology, `POD/PROCESS`.
    pub hop: HopName,
    /// The part it plays.
    pub role: Role,
    /// What is executed.
    pub program: Program,
    /// Its arguments. It starts in a directory of its own that holds `files`, so these can be named without a path.
    pub args: Vec<String>,
    /// Environment variables, besides an otherwise nearly empty environment.
    pub env: Vec<(String, String)>,
    /// Files written to its directory before it starts.
    pub files: Vec<ConfigFile>,
    /// As whom it runs.
    pub run_as: RunAs,
    /// When it counts as started.
    pub ready: Ready,
}

/// What is executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Program {
    /// This very binary, with a (hidden) subcommand in the arguments.
    Meshtoll,
    /// Envoy.
    Envoy,
    /// nginx, with its stream module.
    Nginx,
}

/// A file that a process reads.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigFile {
    /// Its name, relative to the process's directory, without slashes.
    pub name: String,
    /// Its text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub contents: String,
    /// A secret is readable by its process alone, and never printed or stored.
    pub secret: bool,
}

impl ConfigFile {
    /// A file that anyone may see.
    pub fn public(name: &str, contents: impl Into<String>) -> Self {
        Self { name: name.into(), contents: contents.into(), secret: false }
    }

    /// A private key or the like.
    pub fn secret(name: &str, contents: impl Into<String>) -> Self {
        Self { name: name.into(), contents: contents.into(), secret: true }
    }
}

impl std::fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let contents = if self.secret { "(secret)" } else { &self.contents };
        f.debug_struct("ConfigFile").field("name", &self.name).field("contents", &contents).finish()
    }
}

/// As whom a process runs: what the interception rules tell a proxy's own traffic by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RunAs {
    /// As an application: its connections are intercepted.
    Application,
    /// As a proxy: its connections go out as they are.
    Proxy,
}

/// When a process counts as started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Ready {
    /// When this TCP port of its pod accepts on 127.0.0.1.
    Tcp(u16),
    /// When `GET path` on 127.0.0.1:`port` answers 200.
    Http {
        /// TCP port.
        port: u16,
        /// Path and query.
        path: String,
    },
    /// As soon as it runs.
    Started,
}
