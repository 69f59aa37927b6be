//! Where a document stops being readable: a second reading that keeps nothing, since keys with places
//! ([`serde_saphyr::Spanned`]) hide their names from serde_path_to_error.

use crate::diagnostics::child;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_path_to_error::Segment;
use std::fmt;

/// Path of the field at which a document stops being readable.
pub(super) fn broken_field(text: &str, options: serde_saphyr::Options) -> String {
    let mut field = String::new();
    let _ = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        serde_path_to_error::deserialize::<_, Outline>(deserializer).map_err(|error| {
            field = field_path(error.path());
            error.into_inner()
        })
    });
    field
}

fn field_path(path: &serde_path_to_error::Path) -> String {
    path.iter().fold(String::new(), |path, segment| match segment {
        Segment::Seq { index } => format!("{path}[{index}]"),
        Segment::Map { key } => child(&path, key),
        Segment::Enum { variant } => child(&path, variant),
        Segment::Unknown => path,
    })
}

/// A node of which nothing is kept.
struct Outline;

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OutlineVisitor)
    }
}

struct OutlineVisitor;

impl<'de> Visitor<'de> for OutlineVisitor {
    type Value = Outline;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping, a list, text, a number or a boolean")
    }

    fn visit_unit<E: Error>(self) -> Result<Outline, E> {
        Ok(Outline)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Outline, E> {
        Ok(Outline)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Outline, E> {
        Ok(Outline)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Outline, E> {
        Ok(Outline)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Outline, E> {
        Ok(Outline)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Outline, E> {
        Ok(Outline)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Outline, A::Error> {
        while items.next_element::<Outline>()?.is_some() {}
        Ok(Outline)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Outline, A::Error> {
        while entries.next_entry::<String, Outline>()?.is_some() {}
        Ok(Outline)
    }
}
