//! One collection: its documents, and its indexes kept true to them.

use crate::{
    deadline::Deadline,
    error::{Code, CommandError, CommandResult},
    filter::Filter,
    index::{DuplicateKey, Index, IndexSpec, RecordId},
    key,
    record::{Record, identity},
};
use bson::{RawBsonRef, RawDocumentBuf, rawdoc};
use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::Arc,
};

/// Most indexes of a collection, the one on `_id` included: MongoDB's limit.
const MAX_INDEXES: usize = 64;

/// The name of the index that every collection has.
pub(crate) const ID_INDEX: &str = "_id_";

/// Documents in the order of insertion, found by `_id` and by secondary indexes.
#[derive(Debug)]
pub(crate) struct Collection {
    namespace: String,
    records: BTreeMap<RecordId, Record>,
    next_place: u64,
    by_id: HashMap<Vec<u8>, RecordId>,
    indexes: Vec<Index>,
}

/// Why a document could not be written.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// Another document has its key.
    Duplicate(Box<DuplicateKey>),
    /// The document itself, or the update, is refused.
    Refused(CommandError),
}

impl From<CommandError> for WriteError {
    fn from(error: CommandError) -> Self {
        Self::Refused(error)
    }
}

impl From<Box<DuplicateKey>> for WriteError {
    fn from(error: Box<DuplicateKey>) -> Self {
        Self::Duplicate(error)
    }
}

impl Collection {
    /// An empty collection with the name `database.collection`.
    pub(crate) fn new(namespace: String) -> Self {
        Self { namespace, records: BTreeMap::new(), next_place: 0, by_id: HashMap::new(), indexes: Vec::new() }
    }

    /// Shows `visit` the documents that match, in the order of insertion, until it breaks off.
    pub(crate) fn visit_matching<'c>(
        &'c self,
        filter: &Filter<'_>,
        deadline: Deadline,
        mut visit: impl FnMut(RecordId, &'c Record) -> ControlFlow<()>,
    ) -> CommandResult<()> {
        let mut check = |place: RecordId, record: &'c Record| {
            if filter.matches(record) { visit(place, record) } else { ControlFlow::Continue(()) }
        };
        let equalities = filter.equalities();
        if let Some(place) = self.find_by_id(&equalities) {
            if let Some((place, record)) = place.and_then(|place| self.records.get_key_value(&place)) {
                let _ = check(*place, record);
            }
            return Ok(());
        }
        let best = self.indexes.iter().max_by_key(|index| index.fixed_fields(&equalities));
        match best.filter(|index| index.fixed_fields(&equalities) > 0) {
            Some(index) => {
                let places = index.candidates(&equalities);
                let found = places.iter().filter_map(|place| self.records.get_key_value(place));
                deadline.guard(found, |(place, record)| check(*place, record))
            }
            None => deadline.guard(&self.records, |(place, record)| check(*place, record)),
        }
    }

    /// All documents that match.
    pub(crate) fn matching(&self, filter: &Filter<'_>, deadline: Deadline) -> CommandResult<Vec<Record>> {
        let mut found = Vec::new();
        self.visit_matching(filter, deadline, |_, record| {
            found.push(Arc::clone(record));
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// The outer `Option` is whether the equalities name one `_id`, the inner whether there is such a document.
    fn find_by_id(&self, equalities: &[(&str, RawBsonRef<'_>)]) -> Option<Option<RecordId>> {
        let (_, id) = equalities.iter().find(|(path, _)| *path == "_id")?;
        let mut key = Vec::with_capacity(32);
        key::append(*id, &mut key);
        Some(self.by_id.get(&key).copied())
    }

    /// The document at a place.
    pub(crate) fn get(&self, place: RecordId) -> Option<&Record> {
        self.records.get(&place)
    }

    /// Adds a document that was prepared for it.
    pub(crate) fn insert(&mut self, document: RawDocumentBuf) -> Result<Record, WriteError> {
        let mut id_key = Vec::new();
        key::append(identity(&document)?, &mut id_key);
        if self.by_id.contains_key(&id_key) {
            return Err(Box::new(DuplicateKey::new(&self.namespace, &id_index(), &document)).into());
        }
        let keys = self.checked_keys(&document, None)?;
        let place = RecordId(self.next_place);
        self.next_place += 1;
        for (index, keys) in self.indexes.iter_mut().zip(keys) {
            index.insert(keys, place);
        }
        self.by_id.insert(id_key, place);
        let record = Arc::new(document);
        self.records.insert(place, Arc::clone(&record));
        Ok(record)
    }

    /// Puts a document with the same `_id` in the place of another.
    pub(crate) fn replace(&mut self, place: RecordId, document: RawDocumentBuf) -> Result<Record, WriteError> {
        let new_keys = self.checked_keys(&document, Some(place))?;
        if let Some(old) = self.records.get(&place) {
            let old_keys = self.keys(old)?;
            for (index, (old, new)) in self.indexes.iter_mut().zip(old_keys.into_iter().zip(new_keys)) {
                index.remove(old, place);
                index.insert(new, place);
            }
        }
        let record = Arc::new(document);
        self.records.insert(place, Arc::clone(&record));
        Ok(record)
    }

    /// Removes the document at a place.
    pub(crate) fn remove(&mut self, place: RecordId) -> CommandResult<Option<Record>> {
        let Some(record) = self.records.get(&place) else { return Ok(None) };
        let keys = self.keys(record)?;
        let mut id_key = Vec::new();
        key::append(identity(record)?, &mut id_key);
        for (index, keys) in self.indexes.iter_mut().zip(keys) {
            index.remove(keys, place);
        }
        self.by_id.remove(&id_key);
        Ok(self.records.remove(&place))
    }

    /// The keys of a document in each index.
    fn keys(&self, document: &RawDocumentBuf) -> CommandResult<Vec<Vec<Vec<u8>>>> {
        self.indexes.iter().map(|index| index.keys(document)).collect()
    }

    /// The same, once no unique index has them already for a document other than the one at `own`.
    fn checked_keys(&self, document: &RawDocumentBuf, own: Option<RecordId>) -> Result<Vec<Vec<Vec<u8>>>, WriteError> {
        let keys = self.keys(document)?;
        for (index, keys) in self.indexes.iter().zip(&keys) {
            index.check_unique(&self.namespace, keys, own, document)?;
        }
        Ok(keys)
    }

    /// The index specifications, that of `_id` first.
    pub(crate) fn index_specs(&self) -> Vec<IndexSpec> {
        std::iter::once(id_index()).chain(self.indexes.iter().map(|index| index.spec.clone())).collect()
    }

    /// Adds an index over all documents. `false` when it was there already.
    pub(crate) fn create_index(&mut self, spec: IndexSpec) -> Result<bool, WriteError> {
        for existing in self.index_specs() {
            if existing.key == spec.key && existing.key == id_index().key {
                return Ok(false);
            }
            if existing == spec {
                return Ok(false);
            }
            if existing.name == spec.name {
                let message = format!(
                    "An existing index has the same name as the requested index but another key or other options: {}; choose another name",
                    spec.name
                );
                return Err(CommandError::new(Code::IndexKeySpecsConflict, message).into());
            }
            if existing.key == spec.key {
                let message = format!("Index already exists with a different name: {}", existing.name);
                return Err(CommandError::new(Code::IndexOptionsConflict, message).into());
            }
        }
        if self.indexes.len() + 1 >= MAX_INDEXES {
            let message = format!("add index fails, too many indexes for {}; drop one", self.namespace);
            return Err(CommandError::new(Code::CannotCreateIndex, message).into());
        }
        let mut index = Index::new(spec)?;
        for (place, record) in &self.records {
            let keys = index.keys(record)?;
            index.check_unique(&self.namespace, &keys, Some(*place), record)?;
            index.insert(keys, *place);
        }
        self.indexes.push(index);
        Ok(true)
    }

    /// Drops the indexes that `drop` accepts; that on `_id` is not asked about and stays.
    pub(crate) fn drop_indexes(&mut self, drop: impl Fn(&IndexSpec) -> bool) -> usize {
        let before = self.indexes.len();
        self.indexes.retain(|index| !drop(&index.spec));
        before - self.indexes.len()
    }

    /// Bytes of all documents.
    pub(crate) fn document_bytes(&self) -> u64 {
        self.records.values().map(|record| record.as_bytes().len() as u64).sum()
    }
}

fn id_index() -> IndexSpec {
    IndexSpec { name: ID_INDEX.to_owned(), key: rawdoc! { "_id": 1 }, unique: false }
}

#[cfg(test)]
#[path = "collection_tests.rs"]
mod tests;
