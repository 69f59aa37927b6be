//! Commands about collections and databases.

use crate::{
    collection::{Collection, ID_INDEX},
    error::{Code, CommandError, CommandResult},
    filter::Filter,
    record::Record,
    reply::Reply,
    request::Request,
    store::{Store, check_database, namespace},
    value::fields,
};
use bson::{RawArrayBuf, RawDocument, RawDocumentBuf, raw::cstr, rawdoc};
use std::sync::Arc;

pub(super) fn create(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    if let Some((name, _)) = request.arguments().next() {
        return Err(request.unknown_field(name));
    }
    let name = request.collection()?;
    let namespace = namespace(request.db, name)?;
    if store.collection(request.db, name).is_some() {
        let message = format!("Collection {namespace} already exists.");
        return Err(CommandError::new(Code::NamespaceExists, message));
    }
    store.collection_or_create(request.db, name);
    Ok(Reply::ok())
}

/// Dropping what does not exist succeeds, as since MongoDB 7.0.
pub(super) fn drop(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    if let Some((name, _)) = request.arguments().next() {
        return Err(request.unknown_field(name));
    }
    let name = request.collection()?;
    let namespace = namespace(request.db, name)?;
    Ok(match store.drop_collection(request.db, name) {
        Some(dropped) => Reply::Fields(rawdoc! { "nIndexesWas": dropped.index_specs().len() as i32, "ns": namespace }),
        None => Reply::ok(),
    })
}

pub(super) fn drop_database(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    if let Some((name, _)) = request.arguments().next() {
        return Err(request.unknown_field(name));
    }
    check_database(request.db)?;
    Ok(match store.drop_database(request.db) {
        true => Reply::Fields(rawdoc! { "dropped": request.db }),
        false => Reply::ok(),
    })
}

pub(super) fn list_collections(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (mut filter, mut name_only, mut batch_size) = (Filter::default(), false, usize::MAX);
    for (name, value) in request.arguments() {
        match name {
            "filter" => filter = Filter::parse(request.document(name, value)?)?,
            "nameOnly" => name_only = request.boolean(name, value)?,
            // There are no users: everybody may see every collection.
            "authorizedCollections" => _ = request.boolean(name, value)?,
            "cursor" => batch_size = cursor_batch_size(request, request.document(name, value)?)?.unwrap_or(usize::MAX),
            _ => return Err(request.unknown_field(name)),
        }
    }
    check_database(request.db)?;
    let collections = store.databases().get(request.db).into_iter().flatten();
    let entries = collections.map(|(name, _)| collection_entry(name));
    let mut listed: Vec<Record> = entries.filter(|entry| filter.matches(entry)).map(Arc::new).collect();
    if name_only {
        for entry in &mut listed {
            let short = fields(entry).filter(|(name, _)| ["name", "type"].contains(&name.as_str()));
            *entry = Arc::new(RawDocumentBuf::from_iter(short));
        }
    }
    let namespace = format!("{}.$cmd.listCollections", request.db);
    let batch = store.cursors.open(&namespace, listed, batch_size, false)?;
    Ok(Reply::Cursor { namespace, batch_name: "firstBatch", batch })
}

fn collection_entry(name: &str) -> RawDocumentBuf {
    rawdoc! {
        "name": name,
        "type": "collection",
        "options": {},
        "info": { "readOnly": false },
        "idIndex": { "v": 2, "key": { "_id": 1 }, "name": ID_INDEX },
    }
}

pub(super) fn list_databases(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    request.require_admin()?;
    let (mut filter, mut name_only) = (Filter::default(), false);
    for (name, value) in request.arguments() {
        match name {
            "filter" => filter = Filter::parse(request.document(name, value)?)?,
            "nameOnly" => name_only = request.boolean(name, value)?,
            "authorizedDatabases" => _ = request.boolean(name, value)?,
            _ => return Err(request.unknown_field(name)),
        }
    }
    let (mut listed, mut total) = (RawArrayBuf::new(), 0_i64);
    for (name, collections) in store.databases() {
        // In memory: the bytes of the documents.
        let bytes: u64 = collections.values().map(Collection::document_bytes).sum();
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut entry = rawdoc! { "name": name.as_str() };
        let details = rawdoc! { "name": name.as_str(), "sizeOnDisk": bytes, "empty": false };
        if !filter.matches(&details) {
            continue;
        }
        if !name_only {
            entry = details;
            total = total.saturating_add(bytes);
        }
        listed.push(entry);
    }
    let mut reply = rawdoc! { "databases": listed };
    if !name_only {
        reply.append(cstr!("totalSize"), total);
        reply.append(cstr!("totalSizeMb"), total / (1024 * 1024));
    }
    Ok(Reply::Fields(reply))
}

/// The `batchSize` of a `cursor` argument.
pub(super) fn cursor_batch_size<'a>(request: &Request<'a>, cursor: &'a RawDocument) -> CommandResult<Option<usize>> {
    let mut batch_size = None;
    for (name, value) in fields(cursor) {
        match name.as_str() {
            "batchSize" => batch_size = Some(request.count("cursor.batchSize", value)?),
            name => return Err(request.unknown_field(&format!("cursor.{name}"))),
        }
    }
    Ok(batch_size)
}
