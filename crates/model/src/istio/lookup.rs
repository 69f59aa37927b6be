//! Which resource applies, by Istio's rules of precedence.

use super::{
    AuthorizationPolicy, CheckedResources, ClientPolicy, ClientTls, Destination, DestinationRule, PeerMode, PeerScope,
    PolicyScope, ServiceEntry,
};
use crate::{application::ROOT_NAMESPACE, host::HostPattern, ids::WorkloadName};

impl CheckedResources {
    /// The ServiceEntry with exactly that host that proxies of the namespace know.
    pub fn service_entry(&self, host: &str, client_namespace: &str) -> Option<&ServiceEntry> {
        self.service_entries.iter().find(|entry| {
            entry.export.reaches(client_namespace) && entry.hosts.iter().any(|known| known.as_str() == host)
        })
    }

    /// What clients of a namespace put around connections to a destination, where a DestinationRule says so.
    ///
    /// `service_namespace` is that of the destination's service or ServiceEntry.
    pub fn client_tls(
        &self,
        destination: &Destination,
        client_namespace: &str,
        service_namespace: &str,
    ) -> Option<&ClientTls> {
        let rule = self.destination_rule(&destination.host, client_namespace, service_namespace)?;
        let subset = destination.subset.as_deref().and_then(|subset| rule.subsets.get(subset));
        let own = |policy: &'_ ClientPolicy| policy.ports.contains_key(&destination.port) || policy.tls.is_some();
        let policy = subset.filter(|policy| own(policy)).unwrap_or(&rule.policy);
        match policy.ports.get(&destination.port) {
            Some(tls) => tls.as_ref(),
            None => policy.tls.as_ref(),
        }
    }

    /// The one rule that holds for a host: of the client's namespace, else of the service's, else of the root
    /// namespace; within one, the most specific (Istio's `PushContext.destinationRule`).
    pub fn destination_rule(
        &self,
        host: &str,
        client_namespace: &str,
        service_namespace: &str,
    ) -> Option<&DestinationRule> {
        [client_namespace, service_namespace, ROOT_NAMESPACE].into_iter().find_map(|namespace| {
            let of_namespace = self.destination_rules.iter().filter(|rule| rule.name.namespace == namespace);
            of_namespace.filter(|rule| applies(&rule.host, host)).min_by_key(|rule| rule.host.specificity())
        })
    }

    /// What a service of the application asks of its peers: by the narrowest PeerAuthentication that says anything.
    pub fn peer_mode(&self, workload: &WorkloadName, namespace: &str) -> PeerMode {
        let narrowness = |scope: &PeerScope| match scope {
            PeerScope::Workloads(workloads) => workloads.contains(workload).then_some(0),
            PeerScope::Namespace(own) => (own == namespace).then_some(1),
            PeerScope::Mesh => Some(2),
        };
        let applying = self.peer_authentications.iter().filter_map(|peer| Some((narrowness(&peer.scope)?, peer.mode?)));
        applying.min_by_key(|(narrowness, _)| *narrowness).map_or(PeerMode::Permissive, |(_, mode)| mode)
    }

    /// Who may connect to a service of the application: all policies that are about it.
    pub fn policies_of_service<'a>(
        &'a self,
        workload: &'a WorkloadName,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a AuthorizationPolicy> {
        self.authorization_policies.iter().filter(move |policy| match &policy.scope {
            PolicyScope::Workloads { services, .. } => services.contains(workload),
            PolicyScope::Namespace(own) => own == namespace,
            PolicyScope::Mesh => true,
        })
    }

    /// Who may connect to the egress gateway: all policies that are about it.
    pub fn policies_of_gateway<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a AuthorizationPolicy> {
        self.authorization_policies.iter().filter(move |policy| match &policy.scope {
            PolicyScope::Workloads { gateway, .. } => *gateway,
            PolicyScope::Namespace(own) => own == namespace,
            PolicyScope::Mesh => true,
        })
    }
}

impl Destination {
    /// Istio's name of the upstream, `outbound|PORT|SUBSET|HOST`.
    pub fn upstream_name(&self) -> String {
        format!("outbound|{}|{}|{}", self.port, self.subset.as_deref().unwrap_or(""), self.host)
    }

    /// The server name that clients send with the mesh's TLS unless a DestinationRule names another,
    /// `outbound_.PORT_.SUBSET_.HOST` (Istio's `BuildDNSSrvSubsetKey`).
    pub fn default_sni(&self) -> String {
        format!("outbound_.{}_.{}_.{}", self.port, self.subset.as_deref().unwrap_or(""), self.host)
    }
}

/// Whether a rule for `pattern` holds for a host, which may be a wildcard host of a ServiceEntry.
fn applies(pattern: &HostPattern, host: &str) -> bool {
    host.parse::<HostPattern>().is_ok_and(|host| pattern.covers(&host))
}
