//! Commands that read: find, getMore, killCursors, count, distinct.

use crate::{
    cursor::FIRST_BATCH,
    error::{Code, CommandError, CommandResult},
    filter::Filter,
    key,
    path::{Leaf, check_path, visit_leaves},
    projection::Projection,
    record::{MAX_DOCUMENT_BYTES, Record},
    reply::Reply,
    request::Request,
    sort::Sort,
    store::{Store, namespace},
    value::{elements, integral},
};
use bson::{RawArrayBuf, RawBsonRef, rawdoc};
use std::{collections::HashSet, ops::ControlFlow, sync::Arc};

pub(super) fn find(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (mut filter, mut sort, mut projection) = (Filter::default(), Sort::default(), None);
    let (mut skip, mut limit, mut batch_size, mut single_batch) = (0, None, FIRST_BATCH, false);
    for (name, value) in request.arguments() {
        match name {
            "filter" => filter = Filter::parse(request.document(name, value)?)?,
            "sort" => sort = Sort::parse(request.document(name, value)?)?,
            "projection" => projection = Projection::parse(request.document(name, value)?)?,
            "skip" => skip = request.count(name, value)?,
            "limit" => limit = Some(request.count(name, value)?).filter(|limit| *limit > 0),
            "batchSize" => batch_size = request.count(name, value)?,
            "singleBatch" => single_batch = request.boolean(name, value)?,
            _ => return Err(request.unknown_field(name)),
        }
    }
    let name = request.collection()?;
    let namespace = namespace(request.db, name)?;
    let mut results = Vec::new();
    if let Some(collection) = store.collection(request.db, name) {
        // Without a sort the first ones that match are the answer.
        let wanted = limit.filter(|_| sort.is_empty()).map(|limit| limit.saturating_add(skip));
        collection.visit_matching(&filter, request.deadline, |_, record| {
            results.push(Arc::clone(record));
            if Some(results.len()) == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    sort.apply(&mut results, |record: &Record| record);
    results.drain(..skip.min(results.len()));
    results.truncate(limit.unwrap_or(usize::MAX));
    if let Some(projection) = projection {
        results.iter_mut().for_each(|record| *record = Arc::new(projection.apply(record)));
    }
    let batch = store.cursors.open(&namespace, results, batch_size, single_batch)?;
    Ok(Reply::Cursor { namespace, batch_name: "firstBatch", batch })
}

pub(super) fn get_more(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (mut collection, mut batch_size) = (None, None);
    for (name, value) in request.arguments() {
        match name {
            "collection" => collection = Some(request.string(name, value)?),
            "batchSize" => batch_size = Some(request.count(name, value)?).filter(|size| *size > 0),
            _ => return Err(request.unknown_field(name)),
        }
    }
    let id = request.integer("getMore", request.target)?;
    let collection = collection.ok_or_else(|| request.missing_field("collection"))?;
    // Not checked as a name: the cursor of listCollections has `$cmd.listCollections`.
    let namespace = format!("{}.{collection}", request.db);
    let batch = store.cursors.next(id, &namespace, batch_size)?;
    Ok(Reply::Cursor { namespace, batch_name: "nextBatch", batch })
}

pub(super) fn kill_cursors(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let mut ids = None;
    for (name, value) in request.arguments() {
        match name {
            "cursors" => ids = Some(request.array(name, value)?),
            _ => return Err(request.unknown_field(name)),
        }
    }
    let ids = ids.ok_or_else(|| request.missing_field("cursors"))?;
    let namespace = format!("{}.{}", request.db, request.collection()?);
    let (mut killed, mut not_found) = (RawArrayBuf::new(), RawArrayBuf::new());
    for id in elements(ids) {
        let id = request.integer("cursors", id)?;
        if store.cursors.kill(id, &namespace) { killed.push(id) } else { not_found.push(id) }
    }
    Ok(Reply::Fields(rawdoc! {
        "cursorsKilled": killed, "cursorsNotFound": not_found, "cursorsAlive": [], "cursorsUnknown": [],
    }))
}

pub(super) fn count(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (mut filter, mut skip, mut limit) = (Filter::default(), 0, usize::MAX);
    for (name, value) in request.arguments() {
        match name {
            "query" => filter = Filter::parse(request.document(name, value)?)?,
            "skip" => skip = request.count(name, value)?,
            // A negative limit means its absolute value, as ever; 0 means none.
            "limit" => match integral(value).map(i64::unsigned_abs) {
                Some(0) => {}
                Some(most) => limit = usize::try_from(most).unwrap_or(usize::MAX),
                None => return Err(CommandError::bad_value("count limit must be an integer")),
            },
            _ => return Err(request.unknown_field(name)),
        }
    }
    let name = request.collection()?;
    namespace(request.db, name)?;
    let mut found: usize = 0;
    if let Some(collection) = store.collection(request.db, name) {
        let enough = limit.saturating_add(skip);
        collection.visit_matching(&filter, request.deadline, |_, _| {
            found += 1;
            if found == enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
    }
    let counted = found.saturating_sub(skip).min(limit);
    Ok(Reply::Fields(rawdoc! { "n": i32::try_from(counted).unwrap_or(i32::MAX) }))
}

pub(super) fn distinct(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (mut filter, mut path) = (Filter::default(), None);
    for (name, value) in request.arguments() {
        match name {
            "query" => filter = Filter::parse(request.document(name, value)?)?,
            "key" => path = Some(request.string(name, value)?),
            _ => return Err(request.unknown_field(name)),
        }
    }
    let path = path.ok_or_else(|| request.missing_field("key"))?;
    check_path(path)?;
    let name = request.collection()?;
    namespace(request.db, name)?;
    let mut found = Distinct::default();
    if let Some(collection) = store.collection(request.db, name) {
        collection.visit_matching(&filter, request.deadline, |_, record| {
            visit_leaves(record, path, &mut |leaf| {
                match leaf {
                    Leaf::Missing => {}
                    Leaf::Value(value) => found.offer(value),
                    Leaf::Array(array) => elements(array).for_each(|value| found.offer(value)),
                }
                if found.is_too_big() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        })?;
    }
    if found.is_too_big() {
        let message = format!("distinct too big, {MAX_DOCUMENT_BYTES} bytes cap; narrow the query");
        return Err(CommandError::new(Code::Location(17217), message));
    }
    Ok(Reply::Fields(rawdoc! { "values": found.values }))
}

/// Values without their repetitions, in the order in which they were first seen.
#[derive(Default)]
struct Distinct {
    seen: HashSet<Vec<u8>>,
    values: RawArrayBuf,
}

impl Distinct {
    fn offer(&mut self, value: RawBsonRef<'_>) {
        let mut key = Vec::new();
        key::append(value, &mut key);
        if self.seen.insert(key) {
            self.values.push(value);
        }
    }

    fn is_too_big(&self) -> bool {
        self.values.as_bytes().len() > MAX_DOCUMENT_BYTES
    }
}
