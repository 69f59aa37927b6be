//! Istio resources, checked: what the resources of one case say, with every reference resolved.

mod authorization;
mod check;
mod facts;
mod lookup;
mod words;
mod written;

pub use authorization::{
    Action, AuthorizationPolicy, AuthorizationRule, Condition, Operation, PolicyScope, Source, Text, Values,
};
pub use facts::{MeshFacts, MeshService};

use crate::{
    cidr::Cidr,
    diagnostics::{Diagnostics, SourceFile},
    host::HostPattern,
    ids::WorkloadName,
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{Ipv4Addr, SocketAddrV4},
    path::PathBuf,
};

/// Reads the resources of one case, from files of any number of documents.
pub fn parse(files: &[SourceFile]) -> Result<Resources, Diagnostics> {
    let mut problems = Diagnostics::default();
    let written = written::read(files, &mut problems);
    problems.or(Some(Resources { written }))
}

/// Resources as they were written, not checked yet.
#[derive(Debug)]
pub struct Resources {
    written: written::Written,
}

impl Resources {
    /// Checks the resources, and their references to each other and to what the experiment describes.
    pub fn check(&self, facts: &MeshFacts) -> Result<CheckedResources, Diagnostics> {
        let mut problems = Diagnostics::default();
        let checked = check::resources(&self.written, facts, &mut problems);
        problems.or(Some(checked))
    }
}

/// The resources of one case, checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedResources {
    /// Hosts outside of the mesh.
    pub service_entries: Vec<ServiceEntry>,
    /// What the egress gateway accepts.
    pub gateways: Vec<Gateway>,
    /// Routes, in the order of their names within each namespace.
    pub virtual_services: Vec<VirtualService>,
    /// How clients talk to hosts.
    pub destination_rules: Vec<DestinationRule>,
    /// What services ask of their peers.
    pub peer_authentications: Vec<PeerAuthentication>,
    /// Who may connect.
    pub authorization_policies: Vec<AuthorizationPolicy>,
}

/// A resource's namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ResourceName {
    /// Namespace.
    pub namespace: String,
    /// Name within the namespace and kind.
    pub name: String,
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Hosts outside of the mesh.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceEntry {
    /// Which it is.
    pub name: ResourceName,
    /// Its hosts.
    pub hosts: Vec<HostPattern>,
    /// Destination addresses of its plain TCP connections; any when there are none.
    pub addresses: Vec<Cidr>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// What is behind the hosts.
    pub resolution: Resolution,
    /// Whose proxies know it.
    pub export: Export,
}

impl ServiceEntry {
    /// The addresses by which plain TCP on this port is known, any when empty; `None` for other protocols.
    pub fn plain_tcp(&self, port: &ServicePort) -> Option<&[Cidr]> {
        (port.protocol == Protocol::Tcp).then_some(self.addresses.as_slice())
    }
}

/// A port of hosts outside of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// The port that clients connect to.
    pub number: u16,
    /// The port that endpoints listen on, unless they name another.
    pub target: u16,
    /// What is spoken there.
    pub protocol: Protocol,
}

/// What is spoken on a port of hosts outside of the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Protocol {
    /// TLS that is passed through; server names tell connections apart (`HTTPS` means the same to Istio here).
    Tls,
    /// Anything; destination addresses tell connections apart.
    Tcp,
    /// HTTP/1; `Host` tells requests apart.
    Http,
}

/// What is behind the hosts of a ServiceEntry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Resolution {
    /// Wherever the application's connection was headed (`NONE`).
    OriginalDestination,
    /// What DNS says of the host itself (`DNS`).
    Dns,
    /// What DNS says of this other name (`DNS` with an endpoint).
    DnsOf {
        /// The name.
        host: String,
        /// Ports that it listens on instead of [`ServicePort::target`], by [`ServicePort::number`].
        ports: BTreeMap<u16, u16>,
    },
    /// What DNS says of each connection's own server name, which matches a wildcard host (`DYNAMIC_DNS`).
    DynamicDns,
    /// These addresses (`STATIC`, or `DNS` with addresses as endpoints).
    Endpoints(Vec<Endpoint>),
}

/// An address behind the hosts of a ServiceEntry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// The address.
    pub address: Ipv4Addr,
    /// Ports that it listens on instead of [`ServicePort::target`], by [`ServicePort::number`].
    pub ports: BTreeMap<u16, u16>,
}

impl Endpoint {
    /// Where it listens for connections to the ServiceEntry's port.
    pub fn socket(&self, port: &ServicePort) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, self.ports.get(&port.number).copied().unwrap_or(port.target))
    }
}

/// Whose proxies know a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Export {
    /// Everyone's.
    All,
    /// Those of these namespaces.
    Namespaces(BTreeSet<String>),
}

impl Export {
    /// Whether proxies of this namespace know the resource.
    pub fn reaches(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespaces(namespaces) => namespaces.contains(namespace),
        }
    }

    /// Whether some proxies know both resources.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Namespaces(own), Self::Namespaces(others)) => !own.is_disjoint(others),
            (Self::All, _) | (_, Self::All) => true,
        }
    }
}

/// What the egress gateway accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// Which it is.
    pub name: ResourceName,
    /// Its servers.
    pub servers: Vec<Server>,
}

/// A port of the egress gateway, for some server names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// TCP port.
    pub port: u16,
    /// Server names that are accepted.
    pub hosts: Vec<HostPattern>,
    /// What is done with the TLS.
    pub tls: ServerTls,
}

/// What a gateway does with the TLS that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ServerTls {
    /// It is relayed; `tls` routes apply.
    Passthrough,
    /// It is terminated with the mesh's certificates on both sides; `tcp` routes apply.
    IstioMutual,
}

/// Routes for some hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualService {
    /// Which it is.
    pub name: ResourceName,
    /// The hosts.
    pub hosts: Vec<HostPattern>,
    /// Routes of TLS that is passed through, by server name; one for each match.
    pub tls: Vec<TlsRoute>,
    /// Routes of plain connections; one for each match.
    pub tcp: Vec<TcpRoute>,
}

/// A route of TLS that is passed through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TlsRoute {
    /// Whose connections it holds for.
    pub bindings: BTreeSet<Binding>,
    /// Destination port; any when there is none.
    pub port: Option<u16>,
    /// Server names.
    pub sni_hosts: Vec<HostPattern>,
    /// Where they go.
    pub destination: Destination,
}

/// A route of plain connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TcpRoute {
    /// Whose connections it holds for.
    pub bindings: BTreeSet<Binding>,
    /// Destination port; any when there is none.
    pub port: Option<u16>,
    /// Where they go.
    pub destination: Destination,
}

/// Whose connections a route holds for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Binding {
    /// Every sidecar's (`mesh`).
    Mesh,
    /// Those that a Gateway accepts.
    Gateway(ResourceName),
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    /// A service's or the egress gateway's full name, or a ServiceEntry's host.
    pub host: String,
    /// Subset of a DestinationRule.
    pub subset: Option<String>,
    /// Port of the host.
    pub port: u16,
}

/// How clients talk to hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DestinationRule {
    /// Which it is.
    pub name: ResourceName,
    /// The hosts.
    pub host: HostPattern,
    /// For all of them.
    pub policy: ClientPolicy,
    /// For routes that name a subset, over the former.
    pub subsets: BTreeMap<String, ClientPolicy>,
}

/// What clients put around their connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientPolicy {
    /// On every port that is not named below.
    pub tls: Option<ClientTls>,
    /// On these ports; one without TLS settings does not inherit any.
    pub ports: BTreeMap<u16, Option<ClientTls>>,
}

/// What clients put around a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ClientTls {
    /// Nothing.
    Disable,
    /// Mutual TLS with the mesh's certificates.
    IstioMutual {
        /// Server name sent, where it is not the one that the upstream's name gives.
        sni: Option<String>,
    },
    /// TLS that the application does not speak itself (`SIMPLE`, `MUTUAL`).
    Originate(OriginatedTls),
}

/// TLS to a host outside of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginatedTls {
    /// Server name sent, where it is not the host.
    pub sni: Option<String>,
    /// DNS names of which the server's certificate has to have one; the server name when there are none.
    pub subject_alt_names: Vec<String>,
    /// Authorities of the server's certificate, PEM; the system's when there is none.
    pub ca_certificates: Option<PathBuf>,
    /// What the client presents (`MUTUAL`).
    pub client: Option<ClientCertificate>,
}

/// A certificate that a proxy presents outside of the mesh, and its key: PEM files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientCertificate {
    /// The chain.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// What services ask of their peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PeerAuthentication {
    /// Which it is.
    pub name: ResourceName,
    /// Whose services.
    pub scope: PeerScope,
    /// What they ask; `None` leaves it to the wider scope.
    pub mode: Option<PeerMode>,
}

/// Whose services a PeerAuthentication is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PeerScope {
    /// These of the application.
    Workloads(BTreeSet<WorkloadName>),
    /// All of a namespace.
    Namespace(String),
    /// All of the mesh.
    Mesh,
}

/// What a service asks of its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PeerMode {
    /// Mutual TLS.
    Strict,
    /// Mutual TLS from those that offer it.
    Permissive,
    /// Plain connections.
    Disable,
}
