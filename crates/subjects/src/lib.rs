//! How each data plane runs what `meshtoll-policy` compiled: configuration files and a command line from
//! routes, and the hops' own counters from what they answer. A subject is one file behind [`Subject`].
//!
//! Out of scope: starting processes (`meshtoll-testbed`), and judging what the counters say (`meshtoll-lab`).

pub mod counters;
mod envoy;
mod meshtoll;
mod names;
pub mod nginx;
mod unsupported;

pub use envoy::Envoy;
pub use meshtoll::Meshtoll;
pub use unsupported::Unsupported;

use meshtoll_identity::WorkloadCertificate;
use meshtoll_model::{
    diagnostics::SourceFile,
    ids::SubjectName,
    process::ProcessSpec,
    topology::{HttpHandling, ProxyMarking, ProxySettings, Topology},
};
use meshtoll_policy::routes::{GatewayRoutes, SidecarRoutes};
use std::net::Ipv4Addr;

/// A data plane that can carry a case.
pub trait Subject: Sync {
    /// Its name, as in `--subjects`.
    fn name(&self) -> SubjectName;

    /// The process that serves as a workload's sidecar.
    fn sidecar(&self, routes: &SidecarRoutes, context: &ProxyContext<'_>) -> Result<ProcessSpec, Unsupported>;

    /// The process that serves as egress gateway.
    fn gateway(&self, routes: &GatewayRoutes, context: &ProxyContext<'_>) -> Result<ProcessSpec, Unsupported>;

    /// What its sidecars read of HTTP between the services when they are asked for this much. Part of the report: subjects
    /// are compared like with like where they do the same.
    fn http(&self, asked: HttpHandling) -> HttpHandling;

    /// `GET` on the admin port that answers with the proxy's counters.
    fn counters_path(&self) -> &'static str;

    /// What that answer says, in terms that are the same for every subject.
    fn counters(&self, answer: &str) -> Result<counters::Counters, counters::Unreadable>;
}

/// What a proxy's configuration needs besides its routes.
#[derive(Clone, Debug)]
pub struct ProxyContext<'a> {
    /// Name of the workload, the first part of the hop's name: `WORKLOAD/sidecar`, `WORKLOAD/gateway`.
    pub workload: &'a str,
    /// Who the proxy is, with its key.
    pub certificate: &'a WorkloadCertificate,
    /// The mesh's trust bundle, PEM.
    pub trust_bundle: &'a str,
    /// DNS server to ask.
    pub dns: Ipv4Addr,
    /// How its own connections are marked.
    pub marking: ProxyMarking,
    /// Settings that are the same for every proxy.
    pub settings: &'a ProxySettings,
    /// What the routes were compiled from.
    pub mesh: MeshSource<'a>,
}

/// What routes are compiled from, for a data plane that compiles them itself.
#[derive(Clone, Copy, Debug)]
pub struct MeshSource<'a> {
    /// Who has which name, address and identity.
    pub topology: &'a Topology,
    /// The Istio resources as they are written.
    pub resources: &'a [SourceFile],
}

/// Every subject. A new one is a file that implements [`Subject`] and a line here.
pub fn all() -> Vec<Box<dyn Subject>> {
    vec![Box::new(Envoy), Box::new(Meshtoll)]
}

/// The subject of that name.
pub fn by_name(name: &str) -> Result<Box<dyn Subject>, UnknownSubject> {
    let unknown =
        || UnknownSubject { name: name.to_owned(), known: all().iter().map(|subject| subject.name()).collect() };
    all().into_iter().find(|subject| subject.name().as_str() == name).ok_or_else(unknown)
}

/// There is no subject of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no subject '{name}'; use one of: {}", known.iter().map(SubjectName::as_str).collect::<Vec<_>>().join(", "))]
pub struct UnknownSubject {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub known: Vec<SubjectName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_found_by_their_own_names() {
        for subject in all() {
            assert_eq!(by_name(subject.name().as_str()).unwrap().name(), subject.name());
        }
    }

    #[test]
    fn an_unknown_subject_is_told_the_known_ones() {
        let error = by_name("enovy").err().unwrap();
        assert_eq!(error.to_string(), "there is no subject 'enovy'; use one of: envoy, meshtoll");
    }
}
