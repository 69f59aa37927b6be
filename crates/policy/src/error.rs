//! Why routes cannot be compiled: the resources were checked against one experiment, and the topology is not of it.

use meshtoll_model::ids::{CaseName, WorkloadName};

/// Why routes cannot be compiled. Checked resources and a topology of the same experiment always can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The workload is no service of the topology.
    #[error("case {case} has no service `{workload}`: its services are {services}")]
    UnknownWorkload {
        /// Case of the topology.
        case: CaseName,
        /// Workload asked for.
        workload: WorkloadName,
        /// Workloads that there are.
        services: String,
    },
    /// The topology has no egress gateway whose routes could be compiled.
    #[error("case {case} has no egress gateway in its topology, so there are no routes for one")]
    NoGateway {
        /// Case of the topology.
        case: CaseName,
    },
    /// A route leads to a host that is neither in the topology nor in a ServiceEntry.
    #[error("case {case}: {route} leads to `{host}`, which neither the topology nor a ServiceEntry has")]
    UnknownHost {
        /// Case of the topology.
        case: CaseName,
        /// The VirtualService.
        route: String,
        /// The host.
        host: String,
    },
    /// A route leads to a port that the host's ServiceEntry does not have.
    #[error("case {case}: {route} leads to port {port} of `{host}`, which its ServiceEntry does not have")]
    UnknownPort {
        /// Case of the topology.
        case: CaseName,
        /// The VirtualService.
        route: String,
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
}
