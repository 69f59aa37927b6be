//! Addresses. Topology number `n` has `10.44.n.0/24` of the mesh, `10.96.n.0/24` of virtual service addresses, which
//! only proxies know what to do with, and `10.88.n.0/24` of the world outside.

use meshtoll_model::{
    experiment::{Case, Experiment, OutboundTrafficPolicy, PathHop},
    ids::{SpiffeId, SubjectName},
    topology::{ExternalHost, GatewayWorkload, ProxyMarking, ProxySettings, SNI_PROXY_PORT, Service, Topology},
};
use std::net::Ipv4Addr;

/// Topologies that there are addresses for.
pub(super) const MAX_TOPOLOGIES: usize = 250;

const DNS: u8 = 2;
const GATEWAY: u8 = 3;
const FIRST_SERVICE: u8 = 10;
const DATABASE: u8 = 10;
const LOAD: u8 = 250;

/// The addresses of topology number `index`, from 0.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    third: u8,
}

impl Addresses {
    pub(super) fn of(index: usize) -> Self {
        debug_assert!(index < MAX_TOPOLOGIES);
        Self { third: u8::try_from(index + 1).unwrap_or(u8::MAX) }
    }

    fn mesh(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 44, self.third, host)
    }

    fn virtual_service(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 96, self.third, host)
    }

    fn world(self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 88, self.third, host)
    }

    pub(super) fn database(self) -> Ipv4Addr {
        self.world(DATABASE)
    }

    pub(super) fn load(self) -> Ipv4Addr {
        self.mesh(LOAD)
    }
}

/// Places a case: gives every workload its name, address and identity.
pub(super) fn place(
    experiment: &Experiment,
    case: &Case,
    subject: SubjectName,
    index: usize,
    proxy_marking: ProxyMarking,
) -> Topology {
    let addresses = Addresses::of(index);
    let mesh = &experiment.mesh;
    let services = (FIRST_SERVICE..).zip(experiment.application.name.services()).map(|(host, service)| Service {
        name: service.name.into(),
        host: service.host(&mesh.namespace),
        virtual_ip: addresses.virtual_service(host),
        pod_ip: addresses.mesh(host),
        port: service.port,
        identity: SpiffeId {
            trust_domain: mesh.trust_domain.as_str().into(),
            namespace: mesh.namespace.as_str().into(),
            service_account: service.name.into(),
        },
    });
    let has_gateway = case.promise.path.contains(&PathHop::Gateway);
    let gateway = experiment.egress_gateway.as_ref().filter(|_| has_gateway).map(|gateway| GatewayWorkload {
        host: gateway.host.clone(),
        virtual_ip: addresses.virtual_service(GATEWAY),
        pod_ip: addresses.mesh(GATEWAY),
        labels: gateway.labels.clone().into_iter().collect(),
        identity: gateway.identity(&mesh.trust_domain),
        sni_proxy_port: case.sni_proxy.then_some(SNI_PROXY_PORT),
    });
    Topology {
        case: case.name.clone(),
        subject,
        services: services.collect(),
        gateway,
        external: vec![ExternalHost {
            host: experiment.database.host.clone(),
            address: addresses.database(),
            port: experiment.database.port,
        }],
        dns: addresses.mesh(DNS),
        proxy_marking,
        proxy: ProxySettings {
            worker_threads: experiment.proxies.worker_threads,
            http: experiment.proxies.http,
            access_log: experiment.proxies.access_log,
            registry_only: mesh.outbound_traffic_policy == OutboundTrafficPolicy::RegistryOnly,
        },
    }
}
