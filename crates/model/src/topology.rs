//! One case on one subject, placed: who has which name, address and identity. Made by `lab`, read by `policy`
//! and `subjects`.

use crate::ids::{CaseName, SpiffeId, SubjectName, WorkloadName};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Port to which a pod's outbound TCP is redirected, as in Istio.
pub const OUTBOUND_PORT: u16 = 15001;
/// Port to which a pod's inbound TCP is redirected, as in Istio.
pub const INBOUND_PORT: u16 = 15006;
/// Port of a proxy's administration interface, on 127.0.0.1 of its pod, as in Istio.
pub const ADMIN_PORT: u16 = 15000;
/// Port of the SNI proxy in the gateway's pod, on 127.0.0.1: what the ServiceEntry that leads to it has as endpoint.
pub const SNI_PROXY_PORT: u16 = 8443;
/// Uid of proxies, as in Istio; their connections are not intercepted.
pub const PROXY_UID: u32 = 1337;
/// Firewall mark of proxies' connections where that uid cannot be had, as in Istio's TPROXY mode.
pub const PROXY_MARK: u32 = 1337;

/// One case on one subject, placed on addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Topology {
    /// The case.
    pub case: CaseName,
    /// The data plane that carries it.
    pub subject: SubjectName,
    /// The application's services, each with a sidecar.
    pub services: Vec<Service>,
    /// The egress gateway, where the case has one.
    pub gateway: Option<GatewayWorkload>,
    /// What is outside the mesh.
    pub external: Vec<ExternalHost>,
    /// Address of the DNS server that pods ask.
    pub dns: Ipv4Addr,
    /// How a proxy's own connections are told from its application's.
    pub proxy_marking: ProxyMarking,
    /// Settings that are the same for every proxy of the topology.
    pub proxy: ProxySettings,
}

/// A service of the mesh, one replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Service {
    /// The workload behind it.
    pub name: WorkloadName,
    /// Its full name, `NAME.NAMESPACE.svc.cluster.local`.
    pub host: String,
    /// The address that the name resolves to; only the mesh's proxies know what is behind it.
    pub virtual_ip: Ipv4Addr,
    /// Its pod's address.
    pub pod_ip: Ipv4Addr,
    /// Its HTTP port, both of the service and in the pod.
    pub port: u16,
    /// Who it is.
    pub identity: SpiffeId,
}

impl Service {
    /// Where the service's one endpoint listens.
    pub fn endpoint(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.pod_ip, self.port)
    }
}

/// The egress gateway's workload and service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayWorkload {
    /// Its service's full name, `istio-egressgateway.istio-system.svc.cluster.local`.
    pub host: String,
    /// Its service's address.
    pub virtual_ip: Ipv4Addr,
    /// Its pod's address.
    pub pod_ip: Ipv4Addr,
    /// Its labels: what a `Gateway`'s selector has to match.
    pub labels: Vec<(String, String)>,
    /// Who it is.
    pub identity: SpiffeId,
    /// Where the SNI proxy in the same pod listens (on 127.0.0.1), where the case has one.
    pub sni_proxy_port: Option<u16>,
}

/// A host outside the mesh: what DNS in `world` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalHost {
    /// Its name.
    pub host: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its port.
    pub port: u16,
}

/// How a proxy's own connections are told from its application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProxyMarking {
    /// By [`PROXY_UID`]: needs more than one uid.
    Uid,
    /// By [`PROXY_MARK`] on its sockets: what works in a user namespace with a single uid.
    SocketMark,
}

/// Settings that are the same for every proxy, so that subjects are compared like with like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProxySettings {
    /// Worker threads of each proxy.
    pub worker_threads: u32,
    /// Whether each connection and request is logged (to /dev/null's cost included: to a file in memory).
    pub access_log: bool,
    /// What sidecars read of HTTP.
    pub http: HttpHandling,
    /// Whether the outbound traffic to hosts that no resource names is refused.
    pub registry_only: bool,
}

/// What sidecars read of HTTP between the services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HttpHandling {
    /// Nothing: it goes as TCP, by destination address.
    Tcp,
    /// Each request and response, with statistics, as Istio has it.
    #[default]
    Full,
}
