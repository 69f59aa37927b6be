//! Names as types, so that a case cannot be passed where a subject is meant.

use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

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

/// The text is not a SPIFFE identity in Istio's form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a SPIFFE identity of the form spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT")]
pub struct NotASpiffeId {
    /// What was given, cut to a length that a log can bear.
    pub text: String,
}

impl NotASpiffeId {
    /// A certificate of a stranger may hold anything of any length.
    fn new(text: &str) -> Self {
        Self { text: text.chars().flat_map(char::escape_debug).take(255).collect() }
    }
}

impl FromStr for SpiffeId {
    type Err = NotASpiffeId;

    /// Strict, since it decides who someone is: nothing is trimmed, decoded, or folded to lower case, and there is no port,
    /// user, query, fragment or further path segment.
    fn from_str(text: &str) -> Result<Self, NotASpiffeId> {
        let parsed = || {
            if text.len() > MAX_SPIFFE_ID {
                return None;
            }
            let mut parts = text.strip_prefix("spiffe://")?.split('/');
            let mut next = || parts.next();
            let (trust_domain, ns, namespace, sa, service_account) = (next()?, next()?, next()?, next()?, next()?);
            let sound = next().is_none()
                && is_trust_domain(trust_domain)
                && (ns, sa) == ("ns", "sa")
                && is_path_segment(namespace)
                && is_path_segment(service_account);
            sound.then(|| Self {
                trust_domain: trust_domain.into(),
                namespace: namespace.into(),
                service_account: service_account.into(),
            })
        };
        parsed().ok_or_else(|| NotASpiffeId::new(text))
    }
}

/// The SPIFFE standard, 2.3: what every implementation has to take, and none has to exceed.
const MAX_SPIFFE_ID: usize = 2048;

/// Whether the SPIFFE standard (2.1) allows the name: lower-case letters, digits, dots, hyphens and underscores.
pub fn is_trust_domain(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
    !name.is_empty() && name.len() <= 255 && name.bytes().all(allowed)
}

/// The SPIFFE standard, 2.2: letters, digits, dots, hyphens and underscores, but not `.` or `..`.
fn is_path_segment(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !matches!(name, "" | "." | "..") && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOOKING: &str = "spiffe://cluster.local/ns/default/sa/booking";

    #[test]
    fn what_differs_a_little_is_no_identity() {
        let booking: SpiffeId = BOOKING.parse().unwrap();
        assert_eq!((&*booking.trust_domain, &*booking.namespace), ("cluster.local", "default"));
        let long = format!("spiffe://{}/ns/a/sa/b", "a".repeat(256));
        for text in [
            "",
            "spiffe://",
            "spiffe://cluster.local",
            "spiffe://cluster.local/ns/default/sa/",
            "spiffe://cluster.local/ns//sa/booking",
            "spiffe://cluster.local/ns/default/sa/booking/",
            "spiffe://cluster.local/ns/default/sa/booking/more",
            "spiffe://cluster.local/sa/booking/ns/default",
            "spiffe://cluster.local/NS/default/sa/booking",
            "spiffe://Cluster.local/ns/default/sa/booking",
            "spiffe://cluster.local:443/ns/default/sa/booking",
            "spiffe://user@cluster.local/ns/default/sa/booking",
            "spiffe:///ns/default/sa/booking",
            "SPIFFE://cluster.local/ns/default/sa/booking",
            "https://cluster.local/ns/default/sa/booking",
            " spiffe://cluster.local/ns/default/sa/booking",
            "spiffe://cluster.local/ns/default/sa/booking ",
            "spiffe://cluster.local/ns/default/sa/booking?x",
            "spiffe://cluster.local/ns/default/sa/booking#x",
            "spiffe://cluster.local/ns/default/sa/b%6Foking",
            "spiffe://cluster.local/ns/../sa/booking",
            "spiffe://cluster.local/ns/default/sa/booking\0",
            "spiffe://clüster.local/ns/default/sa/booking",
            &long,
        ] {
            assert!(text.parse::<SpiffeId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_is_refused_is_shown_escaped_and_cut() {
        let error = format!("\n{}", "é".repeat(10_000)).parse::<SpiffeId>().unwrap_err();
        assert!(error.text.starts_with("\\n"), "{error}");
        assert!(error.text.chars().count() <= 255, "{error}");
    }

    proptest! {
        #[test]
        fn an_identity_is_read_as_it_is_written(
            trust_domain in "[a-z0-9._-]{1,40}",
            namespace in "[A-Za-z0-9_-][A-Za-z0-9._-]{0,40}",
            service_account in "[A-Za-z0-9_-][A-Za-z0-9._-]{0,40}",
        ) {
            let identity = SpiffeId {
                trust_domain: trust_domain.into(),
                namespace: namespace.into(),
                service_account: service_account.into(),
            };
            prop_assert_eq!(identity.to_string().parse::<SpiffeId>(), Ok(identity));
        }

        #[test]
        fn whatever_is_read_is_written_the_same(
            text in prop_oneof![any::<String>(), "spiffe://[a-zA-Z./@:%]{0,8}/ns/[a-z./%]{0,8}/sa/[a-z./%?#]{0,8}"],
        ) {
            if let Ok(identity) = text.parse::<SpiffeId>() {
                prop_assert_eq!(identity.to_string(), text);
            }
        }
    }
}
