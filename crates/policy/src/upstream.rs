//! Where a destination is, and what is put around connections to it.

use crate::{
    CompileError,
    routes::{Endpoints, Origination, Upstream, UpstreamTls},
};
use meshtoll_model::{
    ids::SpiffeId,
    istio::{CheckedResources, ClientTls, Destination, OriginatedTls, PeerMode, Resolution, ServiceEntry},
    topology::{GatewayWorkload, Service, Topology},
};
use std::net::SocketAddrV4;

/// Compiles destinations for the proxies of one namespace.
pub(crate) struct Upstreams<'a> {
    pub(crate) resources: &'a CheckedResources,
    pub(crate) topology: &'a Topology,
    pub(crate) client_namespace: &'a str,
}

impl Upstreams<'_> {
    /// The upstream of a route's destination. `route` names the resource, for errors.
    pub(crate) fn of(&self, destination: &Destination, route: &str) -> Result<Upstream, CompileError> {
        let host = destination.host.as_str();
        if let Some(service) = self.topology.services.iter().find(|service| service.host == host) {
            return Ok(self.service(service, destination));
        }
        if let Some(gateway) = self.topology.gateway.as_ref().filter(|gateway| gateway.host == host) {
            return Ok(self.gateway(gateway, destination));
        }
        let entry = self.resources.service_entry(host, self.client_namespace);
        let entry = entry.ok_or_else(|| CompileError::UnknownHost {
            case: self.topology.case.clone(),
            route: route.into(),
            host: host.into(),
        })?;
        self.external(entry, destination, route)
    }

    /// A service of the mesh: mutual TLS unless a resource says otherwise (Istio's auto mTLS), since its pod has a
    /// sidecar that offers it.
    pub(crate) fn service(&self, service: &Service, destination: &Destination) -> Upstream {
        let namespace = &service.identity.namespace;
        let tls = match self.resources.client_tls(destination, self.client_namespace, namespace) {
            Some(tls) => explicit(tls, destination, &service.identity),
            None if self.resources.peer_mode(&service.name, namespace) == PeerMode::Disable => UpstreamTls::None,
            None => UpstreamTls::IstioMutual { sni: destination.default_sni(), peer: service.identity.clone() },
        };
        let endpoints = Endpoints::Addresses(vec![service.endpoint()]);
        Upstream { name: destination.upstream_name(), endpoints, tls }
    }

    /// The egress gateway: TLS only where a DestinationRule says so, since auto mTLS is for pods with sidecars.
    fn gateway(&self, gateway: &GatewayWorkload, destination: &Destination) -> Upstream {
        let tls = self.resources.client_tls(destination, self.client_namespace, &gateway.identity.namespace);
        let address = SocketAddrV4::new(gateway.pod_ip, destination.port);
        Upstream {
            name: destination.upstream_name(),
            endpoints: Endpoints::Addresses(vec![address]),
            tls: tls.map_or(UpstreamTls::None, |tls| explicit(tls, destination, &gateway.identity)),
        }
    }

    /// A host outside of the mesh: what the application sends is left as it is, unless a DestinationRule says otherwise.
    pub(crate) fn external(
        &self,
        entry: &ServiceEntry,
        destination: &Destination,
        route: &str,
    ) -> Result<Upstream, CompileError> {
        let port = entry.ports.iter().find(|port| port.number == destination.port);
        let port = port.ok_or_else(|| CompileError::UnknownPort {
            case: self.topology.case.clone(),
            route: route.into(),
            host: destination.host.clone(),
            port: destination.port,
        })?;
        let number = port.number;
        let endpoints = match &entry.resolution {
            Resolution::OriginalDestination => Endpoints::OriginalDestination,
            Resolution::Dns => Endpoints::Dns { host: destination.host.clone(), port: port.target },
            Resolution::DnsOf { host, ports } => {
                Endpoints::Dns { host: host.clone(), port: ports.get(&number).copied().unwrap_or(port.target) }
            }
            Resolution::DynamicDns => Endpoints::ServerName { port: port.target },
            Resolution::Endpoints(endpoints) => {
                Endpoints::Addresses(endpoints.iter().map(|endpoint| endpoint.socket(port)).collect())
            }
        };
        let tls = match self.resources.client_tls(destination, self.client_namespace, &entry.name.namespace) {
            Some(ClientTls::Originate(tls)) => UpstreamTls::Originate(originated(tls, destination)),
            Some(ClientTls::Disable | ClientTls::IstioMutual { .. }) | None => UpstreamTls::None,
        };
        Ok(Upstream { name: destination.upstream_name(), endpoints, tls })
    }
}

fn originated(tls: &OriginatedTls, destination: &Destination) -> Origination {
    let sni = tls.sni.clone().unwrap_or_else(|| destination.host.clone());
    let names = &tls.subject_alt_names;
    Origination {
        subject_alt_names: if names.is_empty() { vec![sni.clone()] } else { names.clone() },
        sni,
        ca_certificates: tls.ca_certificates.clone(),
        client: tls.client.clone(),
    }
}

fn explicit(tls: &ClientTls, destination: &Destination, peer: &SpiffeId) -> UpstreamTls {
    match tls {
        ClientTls::Disable => UpstreamTls::None,
        ClientTls::Originate(tls) => UpstreamTls::Originate(originated(tls, destination)),
        ClientTls::IstioMutual { sni } => UpstreamTls::IstioMutual {
            sni: sni.clone().unwrap_or_else(|| destination.default_sni()),
            peer: peer.clone(),
        },
    }
}
