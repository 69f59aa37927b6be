//! YAML documents as trees in which every node knows its place, and their decoding into types.
//!
//! A tree stands between text and types, where deriving `Deserialize` would stop at the first problem of a document:
//! this way all of them are reported at once, and the checks that follow still know where each value was written.

mod decode;
mod outline;
mod record;
mod tree;

pub(crate) use decode::{Decode, Fields, Port, keyword};
pub(crate) use record::record;
pub(crate) use tree::{Node, Value, documents};

use crate::diagnostics::Place;
use std::ops::Deref;

/// A value with the place where it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<T> Deref for Located<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
