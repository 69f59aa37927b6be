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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ids::SpiffeId,
        topology::{GatewayWorkload, HttpHandling, ProxyMarking, ProxySettings, SNI_PROXY_PORT, Service},
    };

    fn identity(namespace: &str, account: &str) -> SpiffeId {
        SpiffeId { trust_domain: "cluster.local".into(), namespace: namespace.into(), service_account: account.into() }
    }

    fn topology(services: Vec<Service>, gateway: Option<GatewayWorkload>) -> Topology {
        Topology {
            case: "any".into(),
            subject: "meshtoll".into(),
            services,
            gateway,
            external: Vec::new(),
            dns: [10, 64, 0, 53].into(),
            proxy_marking: ProxyMarking::Uid,
            proxy: ProxySettings {
                worker_threads: 1,
                access_log: false,
                http: HttpHandling::Full,
                registry_only: true,
            },
        }
    }

    fn gateway() -> GatewayWorkload {
        GatewayWorkload {
            host: "egress.edge.svc.cluster.local".into(),
            virtual_ip: [10, 96, 0, 100].into(),
            pod_ip: [10, 64, 0, 100].into(),
            labels: vec![("istio".into(), "egress".into())],
            identity: identity("edge", "egress"),
            sni_proxy_port: Some(SNI_PROXY_PORT),
        }
    }

    #[test]
    fn a_topology_says_who_is_in_the_mesh() {
        let shop = Service {
            name: "shop".into(),
            host: "shop.store.svc.cluster.local".into(),
            virtual_ip: [10, 96, 0, 1].into(),
            pod_ip: [10, 64, 0, 1].into(),
            port: 80,
            identity: identity("store", "shop"),
        };
        let facts = MeshFacts::of(&topology(vec![shop], Some(gateway())));
        assert_eq!((facts.namespace.as_str(), facts.sni_proxy), ("store", true));
        assert_eq!(facts.service("shop.store.svc.cluster.local").map(|service| service.port), Some(80));
        assert!(facts.is_gateway("egress.edge.svc.cluster.local"));
        let gateway = facts.gateway.unwrap();
        assert_eq!((gateway.namespace.as_str(), gateway.service_account.as_str()), ("edge", "egress"));
    }

    #[test]
    fn a_mesh_may_have_no_services() {
        assert_eq!(MeshFacts::of(&topology(Vec::new(), Some(gateway()))).namespace, "edge");
        assert_eq!(MeshFacts::of(&topology(Vec::new(), None)).namespace, "default");
    }

    #[test]
    fn a_topology_with_an_unknown_field_is_refused() {
        let written = serde_saphyr::to_string(&topology(Vec::new(), Some(gateway()))).unwrap();
        let read = |text: &str| serde_saphyr::from_str::<Topology>(text);
        assert_eq!(read(&written).unwrap(), topology(Vec::new(), Some(gateway())));
        for known in ["dns:", "host:", "accessLog:", "trust_domain:"] {
            let line = written.lines().find(|line| line.trim_start().starts_with(known)).unwrap();
            let indent = &line[..line.len() - line.trim_start().len()];
            let error = read(&written.replacen(line, &format!("{line}\n{indent}other: 1"), 1)).unwrap_err();
            assert!(error.to_string().contains("other"), "{known} {error}");
        }
    }
}
