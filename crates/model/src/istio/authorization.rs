//! Who may connect, as AuthorizationPolicies say it: plain data, checked. What it means for a connection is decided in
//! `meshtoll-policy`.

use super::ResourceName;
use crate::{cidr::Cidr, ids::WorkloadName};
use serde::Serialize;
use std::collections::BTreeSet;

/// Who may connect to some workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationPolicy {
    /// Which it is.
    pub name: ResourceName,
    /// Whose connections it is about.
    pub scope: PolicyScope,
    /// What happens to connections that a rule matches.
    pub action: Action,
    /// Its rules; ALLOW without any permits nothing.
    pub rules: Vec<AuthorizationRule>,
}

/// Whose connections an AuthorizationPolicy is about: those to these workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PolicyScope {
    /// Those that a selector names.
    Workloads {
        /// Services.
        services: BTreeSet<WorkloadName>,
        /// Whether the egress gateway is among them.
        gateway: bool,
    },
    /// All of a namespace.
    Namespace(String),
    /// All of the mesh.
    Mesh,
}

/// What happens to connections that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// They are permitted, and what no rule of any ALLOW policy matches is refused.
    Allow,
    /// They are refused, whatever else permits them.
    Deny,
    /// They are marked.
    Audit,
}

/// One rule: it matches where all of its parts do, each empty part included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthorizationRule {
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

impl<T> Values<T> {
    /// Whether an attribute is accepted of which `matches` says what it is.
    pub fn accept(&self, matches: impl Fn(&T) -> bool) -> bool {
        (self.any_of.is_empty() || self.any_of.iter().any(&matches)) && !self.none_of.iter().any(&matches)
    }
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

impl Text {
    /// Reads a value as Istio writes it; `None` where a star stands elsewhere than at one end, or nothing is there.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = |text: &str| (!text.is_empty() && !text.contains('*')).then(|| text.to_owned());
        match (text.strip_prefix('*'), text.strip_suffix('*')) {
            (Some(""), _) => Some(Self::Present),
            (Some(suffix), _) => plain(suffix).map(Self::Suffix),
            (None, Some(prefix)) => plain(prefix).map(Self::Prefix),
            (None, None) => plain(text).map(Self::Exact),
        }
    }

    /// Whether a text matches.
    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(own) => own == text,
            Self::Prefix(own) => text.starts_with(own.as_str()),
            Self::Suffix(own) => text.ends_with(own.as_str()),
            Self::Present => !text.is_empty(),
        }
    }

    /// As [`Text::matches`], without regard to case, as DNS names are compared.
    pub fn matches_name(&self, name: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_star_stands_at_one_end() {
        assert_eq!(Text::parse("*"), Some(Text::Present));
        assert_eq!(Text::parse("*.example"), Some(Text::Suffix(".example".into())));
        assert_eq!(Text::parse("cluster.local/*"), Some(Text::Prefix("cluster.local/".into())));
        assert_eq!(Text::parse("a"), Some(Text::Exact("a".into())));
        for text in ["", "**", "*a*", "a*b", "***"] {
            assert_eq!(Text::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn texts_match_what_they_are_written_as(head in "[a-z/.]{0,4}", tail in "[a-z/.]{1,4}", other in any::<String>()) {
            let whole = format!("{head}{tail}");
            for text in [whole.clone(), format!("*{tail}"), format!("{tail}*"), "*".to_owned()] {
                let parsed = Text::parse(&text).unwrap();
                let expected = match text.strip_prefix('*') {
                    Some(suffix) => whole.ends_with(suffix),
                    None => text.strip_suffix('*').map_or(whole == text, |prefix| whole.starts_with(prefix)),
                };
                prop_assert_eq!(parsed.matches(&whole), expected);
                prop_assert_eq!(parsed.matches_name(&whole.to_uppercase()), expected);
                let _ = parsed.matches_name(&other);
                prop_assert!(!parsed.matches(&other) || parsed.matches_name(&other));
            }
        }
    }
}
