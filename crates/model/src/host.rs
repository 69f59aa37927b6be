//! Names of hosts, and patterns with a wildcard at the start.

use crate::{
    diagnostics::Diagnostics,
    yaml::{Decode, Node},
};
use serde::{Serialize, Serializer};
use std::{fmt, str::FromStr};

/// A host's name, or `*.SUFFIX` for every name that ends in `.SUFFIX` (by one or more labels, as in Envoy), or `*`
/// for every name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern(String);

/// Why a text is no host or pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// It is too long for DNS.
    #[error("a host name has at most 253 characters, this one has {0}")]
    TooLong(usize),
    /// A star stands elsewhere than alone in the first label.
    #[error("`{0}`: a wildcard can only be the whole first label, as in `*.example.com`")]
    Wildcard(String),
    /// It is an address.
    #[error("`{0}` is an address: a host is a name, since TLS has no server name for addresses")]
    Address(String),
    /// A label is empty, too long or has a character that DNS names do not have.
    #[error("`{host}`: `{label}` is not a DNS label (1 to 63 lower-case letters, digits and inner hyphens)")]
    Label {
        /// Host as written.
        host: String,
        /// Offending part.
        label: String,
    },
}

impl HostPattern {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for more than one name.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with('*')
    }

    /// Whether a name (not a pattern) matches. Names are compared without regard to case, as in DNS.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_prefix('*') {
            None => self.0.eq_ignore_ascii_case(name),
            Some(suffix) => name
                .len()
                .checked_sub(suffix.len())
                .and_then(|at| name.split_at_checked(at))
                .is_some_and(|(head, tail)| !head.is_empty() && tail.eq_ignore_ascii_case(suffix)),
        }
    }

    /// Whether every name that matches `other` matches this.
    pub fn covers(&self, other: &Self) -> bool {
        match other.0.strip_prefix('*') {
            None => self.matches(&other.0),
            Some(suffix) => self.0.strip_prefix('*').is_some_and(|own| suffix.ends_with(own)),
        }
    }

    /// Whether some name matches both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Orders patterns so that of two that overlap, the more specific one comes first: what Envoy's choice by server
    /// name amounts to.
    pub fn specificity(&self) -> impl Ord + use<> {
        (self.is_wildcard(), std::cmp::Reverse(self.0.len()))
    }
}

impl FromStr for HostPattern {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        if text.len() > 253 {
            return Err(HostError::TooLong(text.len()));
        }
        let rest = match text.strip_prefix('*') {
            Some("") => return Ok(Self(text.into())),
            Some(rest) => rest.strip_prefix('.').ok_or_else(|| HostError::Wildcard(text.into()))?,
            None => text,
        };
        if rest.contains('*') {
            return Err(HostError::Wildcard(text.into()));
        }
        if rest.parse::<std::net::Ipv4Addr>().is_ok() || rest.contains(':') {
            return Err(HostError::Address(text.into()));
        }
        match rest.split('.').find(|label| !is_label(label)) {
            Some(label) => Err(HostError::Label { host: text.into(), label: label.into() }),
            None => Ok(Self(text.into())),
        }
    }
}

/// Whether a text is a DNS label as Kubernetes has them (RFC 1123, lower case).
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl Decode for HostPattern {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        String::decode(node, problems)?
            .parse()
            .map_err(|error: HostError| problems.error(&node.place, error.to_string()))
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    #[test]
    fn wildcards_match_one_or_more_labels_and_not_their_suffix() {
        let wildcard = pattern("*.mongodb.example");
        assert!(wildcard.matches("airline.mongodb.example") && wildcard.matches("a.b.MongoDB.example"));
        assert!(!wildcard.matches("mongodb.example") && !wildcard.matches(".mongodb.example"));
        assert!(!wildcard.matches("airlinemongodb.example"));
        assert!(pattern("*").matches("anything"));
        assert!(wildcard.covers(&pattern("*.eu.mongodb.example")) && !pattern("a.mongodb.example").covers(&wildcard));
        assert!(pattern("*.example").covers(&wildcard) && pattern("*").covers(&wildcard));
    }

    #[test]
    fn wildcards_stand_at_the_start_alone() {
        for text in ["a.*.example", "*a.example", "a*.example", "*.*.example", "**", "*."] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
        for text in ["", ".", "a..b", "-a.example", "A.example", "a_b.example", "10.0.0.1", "::1", "a:80"] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_an_error(text in any::<String>(), name in any::<String>()) {
            if let Ok(pattern) = text.parse::<HostPattern>() {
                let _ = pattern.matches(&name);
            }
        }

        #[test]
        fn what_a_pattern_covers_matches_it(
            own in r"(\*\.)?[ab](\.[ab]){0,2}", other in r"(\*\.)?[ab](\.[ab]){0,3}", label in "[ab]{1,2}"
        ) {
            let (own, other) = (pattern(&own), pattern(&other));
            let name = other.as_str().replace('*', &label);
            prop_assert!(other.matches(&name));
            if own.covers(&other) {
                prop_assert!(own.matches(&name));
            }
            if own.covers(&other) && own != other {
                prop_assert!(other.specificity() < own.specificity());
            }
        }
    }
}
