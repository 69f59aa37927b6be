//! The applications that experiments are made with: which services they have is known from their name.

use serde::{Deserialize, Serialize};

/// DNS domain of the cluster: what service hosts end in.
pub const CLUSTER_DOMAIN: &str = "cluster.local";

/// Namespace whose resources hold for the whole mesh, Istio's `rootNamespace`.
pub const ROOT_NAMESPACE: &str = "istio-system";

/// An application that Meshtoll can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Application {
    /// The airline reservation application: four services and a MongoDB-compatible database.
    Airline,
}

/// A service of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationService {
    /// Its name, which is also that of its workload, of its service account, and its pods' label `app`.
    pub name: &'static str,
    /// Its HTTP port.
    pub port: u16,
}

impl Application {
    /// Its services. Clients talk to each of them.
    pub fn services(self) -> &'static [ApplicationService] {
        match self {
            Self::Airline => &[
                ApplicationService { name: "auth", port: 9080 },
                ApplicationService { name: "customer", port: 9080 },
                ApplicationService { name: "flight", port: 9080 },
                ApplicationService { name: "booking", port: 9080 },
            ],
        }
    }
}

impl ApplicationService {
    /// Its full name in the cluster, `NAME.NAMESPACE.svc.cluster.local`.
    pub fn host(&self, namespace: &str) -> String {
        format!("{}.{namespace}.svc.{CLUSTER_DOMAIN}", self.name)
    }
}
