//! Who may connect: Istio's AuthorizationPolicy for connections.
//!
//! Semantics: https://istio.io/latest/docs/reference/config/security/authorization-policy/. A DENY rule that matches
//! refuses; else, where there is an ALLOW policy, a rule of one has to match; AUDIT rules only mark.

use meshtoll_model::{cidr::Cidr, ids::SpiffeId};
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

/// Who connects: all parts have to match.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// SPIFFE ids without the scheme, as Istio writes them.
    pub principals: Values<Text>,
    /// Namespaces of them.
    pub namespaces: Values<Text>,
    /// Addresses that the connection comes from.
    pub ip_blocks: Values<Cidr>,
}

/// What is connected to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Ports.
    pub ports: Values<u16>,
}

/// A condition on an attribute of the connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "key", content = "values")]
pub enum Condition {
    /// `source.principal`.
    Principal(Values<Text>),
    /// `source.namespace`.
    Namespace(Values<Text>),
    /// `source.ip`.
    SourceIp(Values<Cidr>),
    /// `destination.port`.
    DestinationPort(Values<u16>),
    /// `connection.sni`.
    Sni(Values<Text>),
}

/// What an attribute has to be, and what it may not be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Values<T> {
    /// One of these; anything when there are none.
    pub any_of: Vec<T>,
    /// None of these.
    pub none_of: Vec<T>,
}

impl<T> Default for Values<T> {
    fn default() -> Self {
        Self { any_of: Vec::new(), none_of: Vec::new() }
    }
}

/// How a text is matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Text {
    /// It is this.
    Exact(String),
    /// It starts so (`abc*`).
    Prefix(String),
    /// It ends so (`*abc`).
    Suffix(String),
    /// It is there (`*`).
    Present,
}

/// What is known of a connection when it is decided on.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// Who connects, by a certificate that was verified.
    pub principal: Option<&'a SpiffeId>,
    /// Where it comes from.
    pub source: IpAddr,
    /// The port that it is headed to.
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
    /// Decides on a connection.
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

impl Rule {
    fn matches(&self, connection: &Connection<'_>) -> bool {
        (self.from.is_empty() || self.from.iter().any(|source| source.matches(connection)))
            && (self.to.is_empty() || self.to.iter().any(|to| to.ports.accept_number(connection.port)))
            && self.when.iter().all(|condition| condition.matches(connection))
    }
}

impl Source {
    fn matches(&self, connection: &Connection<'_>) -> bool {
        self.principals.accept_principal(connection)
            && self.namespaces.accept_namespace(connection)
            && self.ip_blocks.accept_address(connection.source)
    }
}

impl Condition {
    fn matches(&self, connection: &Connection<'_>) -> bool {
        match self {
            Self::Principal(values) => values.accept_principal(connection),
            Self::Namespace(values) => values.accept_namespace(connection),
            Self::SourceIp(values) => values.accept_address(connection.source),
            Self::DestinationPort(values) => values.accept_number(connection.port),
            Self::Sni(values) => values.accept(|text| connection.sni.is_some_and(|sni| text.matches_name(sni))),
        }
    }
}

impl<T> Values<T> {
    fn accept(&self, matches: impl Fn(&T) -> bool) -> bool {
        (self.any_of.is_empty() || self.any_of.iter().any(&matches)) && !self.none_of.iter().any(&matches)
    }
}

impl Values<Text> {
    fn accept_principal(&self, connection: &Connection<'_>) -> bool {
        let principal = connection.principal.map(ToString::to_string);
        let principal = principal.as_deref().and_then(|id| id.strip_prefix("spiffe://"));
        self.accept(|text| principal.is_some_and(|id| text.matches(id)))
    }

    fn accept_namespace(&self, connection: &Connection<'_>) -> bool {
        self.accept(|text| connection.principal.is_some_and(|id| text.matches(&id.namespace)))
    }
}

impl Values<Cidr> {
    fn accept_address(&self, address: IpAddr) -> bool {
        self.accept(|block| match address {
            IpAddr::V4(address) => block.contains(address),
            IpAddr::V6(_) => false,
        })
    }
}

impl Values<u16> {
    fn accept_number(&self, number: u16) -> bool {
        self.accept(|own| *own == number)
    }
}

impl Text {
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(own) => own == text,
            Self::Prefix(own) => text.starts_with(own.as_str()),
            Self::Suffix(own) => text.ends_with(own.as_str()),
            Self::Present => !text.is_empty(),
        }
    }

    /// As [`Text::matches`], without regard to case, as DNS names are compared.
    fn matches_name(&self, name: &str) -> bool {
        match self {
            Self::Exact(own) => own.eq_ignore_ascii_case(name),
            Self::Prefix(own) => name.get(..own.len()).is_some_and(|head| head.eq_ignore_ascii_case(own)),
            Self::Suffix(own) => {
                let tail = name.len().checked_sub(own.len()).and_then(|at| name.get(at..));
                tail.is_some_and(|tail| tail.eq_ignore_ascii_case(own))
            }
            Self::Present => !name.is_empty(),
        }
    }
}
