//! Who may connect: Istio's AuthorizationPolicy for connections.
//!
//! Semantics: https://istio.io/latest/docs/reference/config/security/authorization-policy/. A DENY rule that matches
//! refuses; else, where there is an ALLOW policy, a rule of one has to match; AUDIT rules only mark.

pub use meshtoll_model::istio::{Condition, Operation, Source, Text, Values};

use meshtoll_model::{
    cidr::Cidr,
    ids::SpiffeId,
    istio::{Action, AuthorizationPolicy},
};
use serde::Serialize;
use std::net::IpAddr;

/// The policies that hold for one port of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// Rules that refuse.
    pub deny: Vec<Rule>,
    /// Rules that permit; `None` where there is no ALLOW policy, so that everyone may.
    pub allow: Option<Vec<Rule>>,
    /// Rules whose matches are logged and counted.
    pub audit: Vec<Rule>,
}

/// One rule: it matches where all of its parts do, each empty part included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Its policy and place in it, `NAMESPACE/NAME[INDEX]`, for logs.
    pub name: String,
    /// Of these, one has to match (`from`).
    pub from: Vec<Source>,
    /// Of these, one has to match (`to`).
    pub to: Vec<Operation>,
    /// All of these have to match (`when`).
    pub when: Vec<Condition>,
}

/// What is known of a connection when it is decided on.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// Who connects, by a certificate that was verified.
    pub principal: Option<&'a SpiffeId>,
    /// Where it comes from.
    pub source: IpAddr,
    /// The port that it is headed to: the service's at a sidecar, the listener's at the gateway.
    pub port: u16,
    /// The server name that it sent: at a gateway that looks inside, the inner one.
    pub sni: Option<&'a str>,
}

/// Leave to connect: what is needed to open a connection to an upstream.
#[derive(Debug)]
pub struct Permit(());

/// What was decided, and the AUDIT rules that matched.
#[derive(Debug)]
pub struct Decision<'a> {
    /// Leave, or the reason why not.
    pub outcome: Result<Permit, Denied<'a>>,
    /// Names of AUDIT rules that matched.
    pub audited: Vec<&'a str>,
}

/// Why a connection may not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied<'a> {
    /// A DENY rule matched.
    #[error("denied by {rule}")]
    ByRule {
        /// Its name.
        rule: &'a str,
    },
    /// There are ALLOW policies, and no rule of them matched.
    #[error("no ALLOW rule matches")]
    NotAllowed,
}

impl Authorization {
    /// What policies that are about one workload say.
    pub fn of<'a>(policies: impl Iterator<Item = &'a AuthorizationPolicy>) -> Self {
        let mut authorization = Self::default();
        for policy in policies {
            let rules = policy.rules.iter().enumerate().map(|(index, rule)| Rule {
                name: format!("{}[{index}]", policy.name),
                from: rule.from.clone(),
                to: rule.to.clone(),
                when: rule.when.clone(),
            });
            match policy.action {
                Action::Allow => authorization.allow.get_or_insert_default().extend(rules),
                Action::Deny => authorization.deny.extend(rules),
                Action::Audit => authorization.audit.extend(rules),
            }
        }
        authorization
    }

    /// Decides on a connection: deny before allow.
    pub fn decide(&self, connection: &Connection<'_>) -> Decision<'_> {
        let matching = |rule: &&Rule| rule.matches(connection);
        let denied = self.deny.iter().find(matching);
        let outcome = match (denied, &self.allow) {
            (Some(rule), _) => Err(Denied::ByRule { rule: &rule.name }),
            (None, Some(rules)) if !rules.iter().any(|rule| rule.matches(connection)) => Err(Denied::NotAllowed),
            (None, _) => Ok(Permit(())),
        };
        Decision { outcome, audited: self.audit.iter().filter(matching).map(|rule| rule.name.as_str()).collect() }
    }

    /// Leave for connections that no AuthorizationPolicy can be about: those that a sidecar's own application opens.
    pub fn of_own_application() -> Permit {
        Permit(())
    }
}

trait Matches {
    fn matches(&self, connection: &Connection<'_>) -> bool;
}

impl Matches for Rule {
    fn matches(&self, connection: &Connection<'_>) -> bool {
        (self.from.is_empty() || self.from.iter().any(|source| source.matches(connection)))
            && (self.to.is_empty() || self.to.iter().any(|operation| operation.matches(connection)))
            && self.when.iter().all(|condition| condition.matches(connection))
    }
}

impl Matches for Source {
    fn matches(&self, connection: &Connection<'_>) -> bool {
        principal(&self.principals, connection)
            && namespace(&self.namespaces, connection)
            && address(&self.ip_blocks, connection)
    }
}

impl Matches for Operation {
    fn matches(&self, connection: &Connection<'_>) -> bool {
        port(&self.ports, connection)
    }
}

impl Matches for Condition {
    fn matches(&self, connection: &Connection<'_>) -> bool {
        match self {
            Self::Principal(values) => principal(values, connection),
            Self::Namespace(values) => namespace(values, connection),
            Self::SourceIp(values) => address(values, connection),
            Self::DestinationPort(values) => port(values, connection),
            Self::Sni(values) => values.accept(|text| connection.sni.is_some_and(|sni| text.matches_name(sni))),
        }
    }
}

fn principal(values: &Values<Text>, connection: &Connection<'_>) -> bool {
    let id = connection.principal.map(ToString::to_string);
    let id = id.as_deref().and_then(|id| id.strip_prefix("spiffe://"));
    values.accept(|text| id.is_some_and(|id| text.matches(id)))
}

fn namespace(values: &Values<Text>, connection: &Connection<'_>) -> bool {
    values.accept(|text| connection.principal.is_some_and(|id| text.matches(&id.namespace)))
}

/// A listener for both families sees IPv4 peers as mapped addresses, which are the same peers to a policy.
fn address(values: &Values<Cidr>, connection: &Connection<'_>) -> bool {
    values.accept(|block| match connection.source.to_canonical() {
        IpAddr::V4(address) => block.contains(address),
        IpAddr::V6(_) => false,
    })
}

fn port(values: &Values<u16>, connection: &Connection<'_>) -> bool {
    values.accept(|own| *own == connection.port)
}
