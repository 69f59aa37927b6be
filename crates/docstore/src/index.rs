//! Secondary indexes: for the values of some fields, which documents have them.

use crate::{
    error::{Code, CommandError, CommandResult},
    key,
    path::{check_field_path, visit_values},
    sort::Direction,
    value::{display, fields},
};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use std::{collections::BTreeSet, ops::ControlFlow};

/// The place of a document in its collection; grows in the order of insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordId(pub(crate) u64);

/// What an index is asked to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexSpec {
    pub(crate) name: String,
    /// The fields as they were given: `{a: 1, b: -1}`.
    pub(crate) key: RawDocumentBuf,
    pub(crate) unique: bool,
}

impl IndexSpec {
    /// The fields with their directions as int, whatever number they were given as: `{a: 1.0}` is the same index.
    pub(crate) fn normalized_key(key: &RawDocument) -> RawDocumentBuf {
        let mut normalized = RawDocumentBuf::new();
        for (name, direction) in fields(key) {
            match Direction::parse(direction) {
                Some(Direction::Ascending) => normalized.append(name, 1),
                Some(Direction::Descending) => normalized.append(name, -1),
                None => normalized.append(name, direction),
            }
        }
        normalized
    }
}

/// An index on one or more fields. Finds documents by equality on its first fields; the same values that a
/// filter's equality is held against are indexed, so that it finds all documents which that matches.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) spec: IndexSpec,
    paths: Vec<String>,
    /// The keys of the values, followed by the place of the document, big-endian.
    entries: BTreeSet<Vec<u8>>,
}

const PLACE_BYTES: usize = 8;

impl Index {
    /// An empty index.
    pub(crate) fn new(spec: IndexSpec) -> CommandResult<Self> {
        let refused = |message| Err(CommandError::new(Code::CannotCreateIndex, message));
        let mut paths = Vec::new();
        for (path, direction) in fields(&spec.key) {
            check_field_path(path.as_str())?;
            if Direction::parse(direction).is_none() {
                let kind = display(direction);
                return refused(format!("Unknown index plugin or direction '{kind}' for '{path}'; use 1 or -1"));
            }
            if paths.iter().any(|other| other == path.as_str()) {
                return refused(format!("index key names '{path}' twice; name it once"));
            }
            paths.push(path.as_str().to_owned());
        }
        if paths.is_empty() {
            return refused("Index keys cannot be empty; name at least one field".to_owned());
        }
        Ok(Self { spec, paths, entries: BTreeSet::new() })
    }

    /// The keys under which a document is found: several when a field is an array.
    pub(crate) fn keys(&self, document: &RawDocument) -> CommandResult<Vec<Vec<u8>>> {
        let mut keys = vec![Vec::new()];
        let mut array: Option<&str> = None;
        for path in &self.paths {
            let mut values = Vec::new();
            let _ = visit_values(document, path, &mut |value| {
                values.push(value.unwrap_or(RawBsonRef::Null));
                ControlFlow::Continue(())
            });
            if values.is_empty() {
                values.push(RawBsonRef::Null);
            }
            if values.len() > 1
                && let Some(other) = array.replace(path)
            {
                let message = format!("cannot index parallel arrays [{path}] [{other}]");
                return Err(CommandError::new(Code::CannotIndexParallelArrays, message));
            }
            let extend = |start: &Vec<u8>, value: &RawBsonRef<'_>| {
                let mut extended = start.clone();
                key::append(*value, &mut extended);
                extended
            };
            keys = keys.iter().flat_map(|start| values.iter().map(move |value| extend(start, value))).collect();
        }
        Ok(keys)
    }

    /// The error of a unique index that already has one of the keys for another document.
    pub(crate) fn check_unique(
        &self,
        namespace: &str,
        keys: &[Vec<u8>],
        own: Option<RecordId>,
        document: &RawDocument,
    ) -> Result<(), Box<DuplicateKey>> {
        let taken = |key: &Vec<u8>| self.places(key).any(|place| Some(place) != own);
        if self.spec.unique && keys.iter().any(taken) {
            return Err(Box::new(DuplicateKey::new(namespace, &self.spec, document)));
        }
        Ok(())
    }

    pub(crate) fn insert(&mut self, keys: Vec<Vec<u8>>, place: RecordId) {
        self.entries.extend(keys.into_iter().map(|key| entry(key, place)));
    }

    pub(crate) fn remove(&mut self, keys: Vec<Vec<u8>>, place: RecordId) {
        for key in keys {
            self.entries.remove(&entry(key, place));
        }
    }

    /// How many of its first fields a filter's equalities fix.
    pub(crate) fn fixed_fields(&self, equalities: &[(&str, RawBsonRef<'_>)]) -> usize {
        self.paths.iter().take_while(|path| equalities.iter().any(|(fixed, _)| fixed == path)).count()
    }

    /// The documents that can match the equalities, in the order of insertion.
    pub(crate) fn candidates(&self, equalities: &[(&str, RawBsonRef<'_>)]) -> Vec<RecordId> {
        let mut prefix = Vec::new();
        for path in &self.paths {
            let Some((_, value)) = equalities.iter().find(|(fixed, _)| fixed == path) else { break };
            key::append(*value, &mut prefix);
        }
        let mut places: Vec<_> = self.places(&prefix).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn places<'i>(&'i self, prefix: &'i [u8]) -> impl Iterator<Item = RecordId> + 'i {
        let from = self.entries.range::<[u8], _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.take_while(move |entry| entry.starts_with(prefix)).filter_map(|entry| {
            let place = entry.last_chunk::<PLACE_BYTES>()?;
            Some(RecordId(u64::from_be_bytes(*place)))
        })
    }
}

fn entry(mut key: Vec<u8>, place: RecordId) -> Vec<u8> {
    key.extend_from_slice(&place.0.to_be_bytes());
    key
}

/// Two documents with one key in a unique index.
#[derive(Debug)]
pub(crate) struct DuplicateKey {
    /// MongoDB's E11000 text: collection, index and key.
    pub(crate) message: String,
    /// The fields of the index.
    pub(crate) pattern: RawDocumentBuf,
    /// The values of the document that was refused.
    pub(crate) value: RawDocumentBuf,
}

impl DuplicateKey {
    pub(crate) fn new(namespace: &str, index: &IndexSpec, document: &RawDocument) -> Self {
        let mut value = RawDocumentBuf::new();
        for (path, _) in fields(&index.key) {
            let mut first = None;
            let _ = visit_values(document, path.as_str(), &mut |found| {
                first = found;
                ControlFlow::Break(())
            });
            value.append(path, first.unwrap_or(RawBsonRef::Null));
        }
        let name = &index.name;
        let key: Vec<_> = fields(&value).map(|(name, value)| format!("{name}: {}", display(value))).collect();
        let key = key.join(", ");
        let message = format!("E11000 duplicate key error collection: {namespace} index: {name} dup key: {{ {key} }}");
        Self { message, pattern: index.key.clone(), value }
    }
}
