//! Text to trees.

use super::outline::broken_field;
use crate::diagnostics::{Diagnostics, Place, SourceFile, child};
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{MergeKeyPolicy, Spanned, UserMessageFormatter};
use std::{fmt, path::Path, sync::Arc};

/// A value of a document, with its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a mapping.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

impl Value {
    /// What it is, for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".into(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Integer(value) => format!("the number {value}"),
            Self::Float(value) => format!("the number {value}"),
            Self::Text(value) => format!("the text {value:?}"),
            Self::List(_) => "a list".into(),
            Self::Map(_) => "a mapping".into(),
        }
    }
}

/// The documents of a file that could be read, empty ones left out; the others are reported.
pub(crate) fn documents(file: &SourceFile, problems: &mut Diagnostics) -> Vec<Node> {
    let path: Arc<Path> = file.path.as_path().into();
    let mut documents = Vec::new();
    for (first_line, text) in split(&file.text) {
        match parse(text) {
            Ok(raw) => {
                let node = place(raw, first_line, &path, String::new());
                if !matches!(node.value, Value::Null) {
                    documents.push(node);
                }
            }
            Err(problem) => {
                let place = Place::new(path.clone(), problem.line + first_line, problem.column, problem.field);
                problems.error(&place, problem.message);
            }
        }
    }
    documents
}

/// The documents of a text, each with the number of lines before it. A line that starts with `---` starts a document
/// wherever it stands, inside of block and quoted scalars too (YAML 1.2.2, 9.1.2), so one broken document does not hide
/// what is wrong with the others.
fn split(text: &str) -> Vec<(u64, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut offset, mut first_line) = (0, 0, 0);
    for (line, content) in (0u64..).zip(text.split_inclusive('\n')) {
        let marker =
            content.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marker && offset > start {
            documents.push((first_line, &text[start..offset]));
            (start, first_line) = (offset, line);
        }
        offset += content.len();
    }
    documents.push((first_line, &text[start..]));
    documents
}

struct Unreadable {
    line: u64,
    column: u64,
    field: String,
    message: String,
}

fn parse(text: &str) -> Result<Spanned<Raw>, Unreadable> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        merge_keys: MergeKeyPolicy::Error,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    serde_saphyr::with_deserializer_from_str_with_options(text, options.clone(), |de| Spanned::deserialize(de)).map_err(
        |error| {
            let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
            let message = error.render_with_formatter(&UserMessageFormatter);
            let message = message.strip_suffix(&format!(" at line {line}, column {column}")).unwrap_or(&message);
            let message = format!("not readable as YAML: {message}");
            let mut field = broken_field(text, options);
            if let serde_saphyr::Error::DuplicateMappingKey { key: Some(key), .. } = error.without_snippet() {
                field = child(&field, key);
            }
            Unreadable { line, column, field, message }
        },
    )
}

fn place(raw: Spanned<Raw>, first_line: u64, file: &Arc<Path>, field: String) -> Node {
    let at = |location: serde_saphyr::Location, field: &str| {
        Place::new(file.clone(), location.line() + first_line, location.column(), field)
    };
    let place_here = at(raw.referenced, &field);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => Value::Bool(value),
        Raw::Integer(value) => Value::Integer(value),
        Raw::Float(value) => Value::Float(value),
        Raw::Text(value) => Value::Text(value),
        Raw::List(items) => Value::List(
            items
                .into_iter()
                .enumerate()
                .map(|(index, item)| place(item, first_line, file, format!("{field}[{index}]")))
                .collect(),
        ),
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, item)| {
                    let field = child(&field, &key.value);
                    Entry {
                        place: at(key.referenced, &field),
                        node: place(item, first_line, file, field),
                        key: key.value,
                    }
                })
                .collect(),
        ),
    };
    Node { place: place_here, value }
}

/// A node as serde-saphyr gives it, before its path is known.
enum Raw {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping, a list, text, a number or a boolean")
    }

    fn visit_unit<E: Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Integer(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}
