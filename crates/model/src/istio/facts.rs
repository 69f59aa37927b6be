//! What resources may refer to besides each other.

use crate::{application::Application, experiment::EgressGateway, ids::WorkloadName, topology::Topology};

/// What resources may refer to besides each other: who is in the mesh.
#[derive(Clone, Debug, PartialEq)]
pub struct MeshFacts {
    /// The services, whose pods have sidecars.
    pub services: Vec<MeshService>,
    /// Their namespace.
    pub namespace: String,
    /// The egress gateway's workload.
    pub gateway: Option<EgressGateway>,
    /// Whether an SNI proxy listens in the gateway's pod.
    pub sni_proxy: bool,
}

/// A service of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshService {
    /// Its workload, whose pods have the label `app` with this name.
    pub name: WorkloadName,
    /// Its full name.
    pub host: String,
    /// Its HTTP port.
    pub port: u16,
}

impl MeshFacts {
    /// Those of a placed mesh. Where there is no service, the namespace is the gateway's, or else `default`.
    pub fn of(topology: &Topology) -> Self {
        let services = topology.services.iter();
        let identities = services.clone().map(|service| &service.identity);
        let mut identities = identities.chain(topology.gateway.iter().map(|gateway| &gateway.identity));
        let gateway = topology.gateway.as_ref();
        Self {
            services: services
                .map(|service| MeshService {
                    name: service.name.clone(),
                    host: service.host.clone(),
                    port: service.port,
                })
                .collect(),
            namespace: identities.next().map_or_else(|| "default".into(), |identity| identity.namespace.to_string()),
            gateway: gateway.map(|gateway| EgressGateway {
                host: gateway.host.clone(),
                labels: gateway.labels.iter().cloned().collect(),
                service_account: gateway.identity.service_account.to_string(),
                namespace: gateway.identity.namespace.to_string(),
            }),
            sni_proxy: gateway.is_some_and(|gateway| gateway.sni_proxy_port.is_some()),
        }
    }

    /// The services of an application in a namespace.
    pub fn services_of(application: Application, namespace: &str) -> Vec<MeshService> {
        let services = application.services().iter().map(|service| MeshService {
            name: WorkloadName::new(service.name),
            host: service.host(namespace),
            port: service.port,
        });
        services.collect()
    }

    /// The service with that full name.
    pub(crate) fn service(&self, host: &str) -> Option<&MeshService> {
        self.services.iter().find(|service| service.host == host)
    }

    pub(crate) fn is_gateway(&self, host: &str) -> bool {
        self.gateway.as_ref().is_some_and(|gateway| gateway.host == host)
    }

    /// Hosts of the mesh, for messages.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let services = self.services.iter().map(|service| service.host.clone());
        services.chain(self.gateway.iter().map(|gateway| gateway.host.clone())).collect()
    }

    /// Names of the services, for messages.
    pub(crate) fn service_names(&self) -> String {
        let names: Vec<_> = self.services.iter().map(|service| service.name.as_str()).collect();
        names.join(", ")
    }
}
