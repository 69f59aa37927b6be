//! Commands about indexes.

use super::catalog::cursor_batch_size;
use crate::{
    collection::{Collection, ID_INDEX, WriteError},
    error::{Code, CommandError, CommandResult},
    index::IndexSpec,
    record::Record,
    reply::Reply,
    request::Request,
    store::{Store, namespace},
    value::{display, elements, fields, integral},
};
use bson::{RawBsonRef, RawDocument, raw::cstr, rawdoc};
use std::sync::Arc;

pub(super) fn create(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let mut specs = None;
    for (name, value) in request.arguments() {
        match name {
            "indexes" => specs = Some(request.array(name, value)?),
            _ => return Err(request.unknown_field(name)),
        }
    }
    let specs = elements(specs.ok_or_else(|| request.missing_field("indexes"))?);
    let specs = specs.map(|spec| parse_spec(request, request.document("indexes", spec)?));
    let specs = specs.collect::<CommandResult<Vec<_>>>()?;
    if specs.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one index to create"));
    }
    let name = request.collection()?;
    namespace(request.db, name)?;
    let created_collection = store.collection(request.db, name).is_none();
    let collection = store.collection_or_create(request.db, name);
    let before = collection.index_specs().len() as i32;
    let mut created = 0;
    for spec in specs {
        created += i32::from(collection.create_index(spec).map_err(|error| match error {
            WriteError::Duplicate(error) => CommandError::new(Code::DuplicateKey, error.message),
            WriteError::Refused(error) => error,
        })?);
    }
    let mut reply = rawdoc! {
        "numIndexesBefore": before,
        "numIndexesAfter": before + created,
        "createdCollectionAutomatically": created_collection,
    };
    if created == 0 {
        reply.append(cstr!("note"), "all indexes already exist");
    }
    Ok(Reply::Fields(reply))
}

fn parse_spec<'a>(request: &Request<'a>, document: &'a RawDocument) -> CommandResult<IndexSpec> {
    let (mut name, mut key, mut unique) = (None, None, false);
    for (option, value) in fields(document) {
        match option.as_str() {
            "name" => name = Some(request.string("indexes.name", value)?.to_owned()),
            "key" => key = Some(IndexSpec::normalized_key(request.document("indexes.key", value)?)),
            "unique" => unique = request.boolean("indexes.unique", value)?,
            "v" if integral(value) == Some(2) => {}
            // Every index is built at once here; MongoDB has not minded this option since 4.2 either.
            "background" => _ = request.boolean("indexes.background", value)?,
            option => {
                let message = format!(
                    "The field '{option}' is not valid for an index specification. Specification: {}",
                    display(RawBsonRef::Document(document))
                );
                return Err(CommandError::new(Code::InvalidIndexSpecificationOption, message));
            }
        }
    }
    let name = name.ok_or_else(|| request.missing_field("indexes.name"))?;
    let key = key.ok_or_else(|| request.missing_field("indexes.key"))?;
    Ok(IndexSpec { name, key, unique })
}

pub(super) fn list(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let mut batch_size = usize::MAX;
    for (name, value) in request.arguments() {
        match name {
            "cursor" => batch_size = cursor_batch_size(request, request.document(name, value)?)?.unwrap_or(usize::MAX),
            _ => return Err(request.unknown_field(name)),
        }
    }
    let name = request.collection()?;
    let namespace = namespace(request.db, name)?;
    let specs = existing(store.collection_mut(request.db, name), &namespace)?.index_specs();
    let listed: Vec<Record> = specs
        .into_iter()
        .map(|spec| {
            let mut entry = rawdoc! { "v": 2, "key": spec.key, "name": spec.name };
            if spec.unique {
                entry.append(cstr!("unique"), true);
            }
            Arc::new(entry)
        })
        .collect();
    let batch = store.cursors.open(&namespace, listed, batch_size, false)?;
    Ok(Reply::Cursor { namespace, batch_name: "firstBatch", batch })
}

pub(super) fn drop(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let mut index = None;
    for (name, value) in request.arguments() {
        match name {
            "index" => index = Some(value),
            _ => return Err(request.unknown_field(name)),
        }
    }
    let index = index.ok_or_else(|| request.missing_field("index"))?;
    let name = request.collection()?;
    let namespace = namespace(request.db, name)?;
    let collection = existing(store.collection_mut(request.db, name), &namespace)?;
    let before = collection.index_specs().len() as i32;
    match index {
        RawBsonRef::String("*") => _ = collection.drop_indexes(|_| true),
        RawBsonRef::String(name) => drop_named(collection, &[name])?,
        RawBsonRef::Array(names) => {
            let names = elements(names).map(|name| request.string("index", name));
            drop_named(collection, &names.collect::<CommandResult<Vec<_>>>()?)?;
        }
        RawBsonRef::Document(key) => {
            let wanted = IndexSpec::normalized_key(key);
            let found = collection.index_specs().into_iter().find(|spec| spec.key == wanted);
            let found = found.ok_or_else(|| {
                let key = display(RawBsonRef::Document(key));
                CommandError::new(Code::IndexNotFound, format!("can't find index with key: {key}"))
            })?;
            drop_named(collection, &[&found.name])?;
        }
        _ => return Err(CommandError::bad_value("dropIndexes takes a name, names, \"*\" or a key as 'index'")),
    }
    Ok(Reply::Fields(rawdoc! { "nIndexesWas": before }))
}

fn drop_named(collection: &mut Collection, names: &[&str]) -> CommandResult<()> {
    let specs = collection.index_specs();
    for name in names {
        if *name == ID_INDEX {
            return Err(CommandError::new(Code::InvalidOptions, "cannot drop _id index"));
        }
        if !specs.iter().any(|spec| spec.name == *name) {
            return Err(CommandError::new(Code::IndexNotFound, format!("index not found with name [{name}]")));
        }
    }
    collection.drop_indexes(|spec| names.contains(&spec.name.as_str()));
    Ok(())
}

fn existing<'s>(collection: Option<&'s mut Collection>, namespace: &str) -> CommandResult<&'s mut Collection> {
    collection.ok_or_else(|| CommandError::new(Code::NamespaceNotFound, format!("ns does not exist: {namespace}")))
}
