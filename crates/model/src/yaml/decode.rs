//! Trees to types: every problem is reported, and decoding goes on as far as it can.

use super::{Located, Node, Value};
use crate::diagnostics::Diagnostics;
use std::collections::BTreeMap;

/// A type that a node can be read as. `None` means that something was reported.
pub(crate) trait Decode: Sized {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self>;
}

/// The fields of a mapping: each is asked for by name, and [`Fields::finish`] reports those that nobody asked for.
pub(crate) struct Fields<'a> {
    node: &'a Node,
    known: Vec<&'static str>,
    missing: Vec<&'static str>,
    problems: &'a mut Diagnostics,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(node: &'a Node, problems: &'a mut Diagnostics) -> Option<Self> {
        if !matches!(node.value, Value::Map(_)) {
            problems.error(&node.place, format!("expected a mapping, found {}", node.value.describe()));
            return None;
        }
        Some(Self { node, known: Vec::new(), missing: Vec::new(), problems })
    }

    /// A field that has to be there.
    pub(crate) fn required<T: Decode>(&mut self, name: &'static str) -> Option<T> {
        let found = self.optional(name)?;
        if found.is_none() {
            self.missing.push(name);
        }
        found
    }

    /// A field that may be left out; the outer `None` means that it is there and wrong.
    pub(crate) fn optional<T: Decode>(&mut self, name: &'static str) -> Option<Option<T>> {
        self.known.push(name);
        match self.node(name) {
            None => Some(None),
            Some(Node { place, value: Value::Null }) => {
                self.problems.error(place, "has no value: give it one or leave the field out");
                None
            }
            Some(node) => T::decode(node, self.problems).map(Some),
        }
    }

    /// The node of a field, for those whose reading depends on another field.
    pub(crate) fn node(&self, name: &str) -> Option<&'a Node> {
        let Value::Map(entries) = &self.node.value else { return None };
        entries.iter().find(|entry| entry.key == name).map(|entry| &entry.node)
    }

    /// Reports fields that are missing or not known: `unsupported` are those that Istio has and Meshtoll does not act on.
    pub(crate) fn finish(mut self, unsupported: &[&'static str]) {
        let Value::Map(entries) = &self.node.value else { return };
        let known: Vec<_> = self.known.iter().chain(unsupported).copied().collect();
        for entry in entries.iter().filter(|entry| !self.known.contains(&entry.key.as_str())) {
            let key = &entry.key;
            let message = if unsupported.contains(&key.as_str()) {
                format!("not supported by Meshtoll, which would act as if it were not there: remove `{key}`")
            } else if let Some(meant) = nearest(key, &known) {
                self.missing.retain(|missing| *missing != meant);
                format!("unknown field `{key}`: did you mean `{meant}`?")
            } else {
                format!("unknown field `{key}`; known: {}", self.known.join(", "))
            };
            self.problems.error(&entry.place, message);
        }
        for missing in &self.missing {
            self.problems.error(&self.node.place.inside(missing), "missing; it is required");
        }
    }
}

/// The known name that a misspelt one most likely means.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |candidate: &str| strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase());
    let (distance, candidate) = known.iter().map(|candidate| (distance(candidate), *candidate)).min()?;
    (distance <= 2.max(candidate.len() / 4) && distance < candidate.len()).then_some(candidate)
}

/// One of several words. `unsupported` are words that Istio has and Meshtoll does not act on.
pub(crate) fn keyword<T: Copy>(
    node: &Node,
    problems: &mut Diagnostics,
    words: &[(&'static str, T)],
    unsupported: &[&'static str],
) -> Option<T> {
    let word = String::decode(node, problems)?;
    if let Some((_, value)) = words.iter().find(|(known, _)| *known == word) {
        return Some(*value);
    }
    let supported: Vec<_> = words.iter().map(|(known, _)| *known).collect();
    let message = if unsupported.contains(&word.as_str()) {
        format!("`{word}` is not supported by Meshtoll; supported: {}", supported.join(", "))
    } else if let Some(meant) = nearest(&word, &supported) {
        format!("unknown value `{word}`: did you mean `{meant}`?")
    } else {
        format!("unknown value `{word}`; known: {}", supported.join(", "))
    };
    problems.error(&node.place, message);
    None
}

impl Decode for String {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        match &node.value {
            Value::Text(text) => return Some(text.clone()),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
                problems.error(&node.place, format!("expected text, found {}: quote it", node.value.describe()));
            }
            other @ (Value::Null | Value::List(_) | Value::Map(_)) => {
                problems.error(&node.place, format!("expected text, found {}", other.describe()));
            }
        }
        None
    }
}

impl Decode for bool {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        if let Value::Bool(value) = node.value {
            return Some(value);
        }
        problems.error(&node.place, format!("expected `true` or `false`, found {}", node.value.describe()));
        None
    }
}

impl Decode for f64 {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        match node.value {
            Value::Float(value) => Some(value),
            Value::Integer(value) => Some(value as Self),
            _ => {
                problems.error(&node.place, format!("expected a number, found {}", node.value.describe()));
                None
            }
        }
    }
}

impl Decode for u32 {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        if let Value::Integer(value) = node.value
            && let Ok(value) = Self::try_from(value)
        {
            return Some(value);
        }
        problems.error(
            &node.place,
            format!("expected a whole number from 0 to {}, found {}", Self::MAX, node.value.describe()),
        );
        None
    }
}

/// A TCP port, 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Port(pub(crate) u16);

impl Decode for Port {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        if let Value::Integer(value @ 1..) = node.value
            && let Ok(value) = u16::try_from(value)
        {
            return Some(Self(value));
        }
        problems.error(&node.place, format!("expected a port number from 1 to 65535, found {}", node.value.describe()));
        None
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let Value::List(items) = &node.value else {
            problems.error(&node.place, format!("expected a list, found {}", node.value.describe()));
            return None;
        };
        let decoded: Vec<_> = items.iter().map(|item| T::decode(item, problems)).collect();
        decoded.into_iter().collect()
    }
}

/// Keys are free; entries stand in the order of their keys.
impl<T: Decode> Decode for BTreeMap<String, T> {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            problems.error(&node.place, format!("expected a mapping, found {}", node.value.describe()));
            return None;
        };
        let decoded: Vec<_> =
            entries.iter().map(|entry| Some((entry.key.clone(), T::decode(&entry.node, problems)?))).collect();
        decoded.into_iter().collect()
    }
}

impl<T: Decode> Decode for Located<T> {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        Some(Self { value: T::decode(node, problems)?, place: node.place.clone() })
    }
}
