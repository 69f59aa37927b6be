//! Names as types, so that a case cannot be passed where a subject is meant.

use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt, sync::Arc};

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Wraps a name as it is; where names come from users, the parser has checked them.
            pub fn new(name: impl Into<Arc<str>>) -> Self {
                Self(name.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl From<&str> for $type {
            fn from(name: &str) -> Self {
                Self::new(name)
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// One topology of an experiment: `bypass`, `sidecar`, `gateway`, …
    CaseName
}
name! {
    /// The data plane that carries a case: `envoy`, `meshtoll`, …
    SubjectName
}
name! {
    /// A workload of the application or the mesh: `booking`, `egress-gateway`, `database`, …
    WorkloadName
}
name! {
    /// One process that a transaction passes, unique within a topology: `booking/app`, `booking/sidecar`, …
    HopName
}

/// A SPIFFE identity, `spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT`, as Istio issues them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpiffeId {
    /// The mesh's trust domain, `cluster.local` by default.
    pub trust_domain: Arc<str>,
    /// The workload's Kubernetes namespace.
    pub namespace: Arc<str>,
    /// The workload's Kubernetes service account.
    pub service_account: Arc<str>,
}

impl fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/ns/{}/sa/{}", self.trust_domain, self.namespace, self.service_account)
    }
}
