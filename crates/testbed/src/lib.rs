//! Pods on one Linux machine: network namespaces on two bridges, Istio's interception, DNS, processes, and the
//! probes that say what each process and the machine spent.
//!
//! Everything lives in a [sandbox]: a process tree with user (when rootless), mount, network and PID namespaces
//! of its own. Whatever ends it, even SIGKILL, ends all of it, because nothing of it is in the host's namespaces.
//!
//! ```text
//! host     outer process: forwards signals, waits; beside it an [outlet], where the database runs elsewhere
//! sandbox   └ init (PID 1): reaps            network namespace "node": routes mesh 10.44/16 ↔ world 10.88/16
//!              └ lab: builds the testbed      ├ DNS server
//!                 ├ pod "booking"             network + mount namespace, eth0 on bridge `mesh`, interception
//!                 │  ├ booking/app
//!                 │  └ booking/sidecar
//!                 └ pod "database"            … on bridge `world`
//! ```
//!
//! Out of scope: what runs in the pods (`meshtoll-subjects`, `meshtoll-apps`) and when it is measured (`meshtoll-lab`).

mod confine;
pub mod dns;
pub mod doctor;
mod files;
mod http;
pub mod interception;
pub mod network;
pub mod outlet;
pub mod pod;
pub mod probe;
pub mod process;
mod ready;
pub mod sandbox;
mod task;
mod testbed;
mod tools;

pub use testbed::{Testbed, TestbedError};
