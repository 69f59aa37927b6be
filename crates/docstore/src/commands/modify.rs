//! findAndModify: changes one document and answers with it.

use crate::{
    collection::{Collection, WriteError},
    error::{Code, CommandError, CommandResult},
    filter::Filter,
    index::RecordId,
    projection::Projection,
    record::Record,
    reply::Reply,
    request::Request,
    sort::Sort,
    store::{Store, namespace},
    update::Update,
    value::field,
};
use bson::{RawBson, RawBsonRef, raw::cstr, rawdoc};
use std::{ops::ControlFlow, sync::Arc};

pub(super) fn find_and_modify(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (mut filter, mut sort, mut projection, mut update) = (Filter::default(), Sort::default(), None, None);
    let (mut remove, mut answer_new, mut upsert) = (false, false, false);
    for (name, value) in request.arguments() {
        match name {
            "query" => filter = Filter::parse(request.document(name, value)?)?,
            "sort" => sort = Sort::parse(request.document(name, value)?)?,
            "fields" => projection = Projection::parse(request.document(name, value)?)?,
            "update" => update = Some(Update::parse(value)?),
            "remove" => remove = request.boolean(name, value)?,
            "new" => answer_new = request.boolean(name, value)?,
            "upsert" => upsert = request.boolean(name, value)?,
            _ => return Err(request.unknown_field(name)),
        }
    }
    let contradiction = match (&update, remove) {
        (None, false) => Some("Either an update or remove=true must be specified"),
        (Some(_), true) => Some("Cannot specify both an update and remove=true"),
        (None, true) if upsert => Some("Cannot specify both upsert=true and remove=true"),
        (None, true) if answer_new => {
            Some("Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
        }
        _ => None,
    };
    if let Some(message) = contradiction {
        return Err(CommandError::new(Code::FailedToParse, message));
    }
    let name = request.collection()?;
    namespace(request.db, name)?;
    let place = match store.collection(request.db, name) {
        Some(collection) => first_match(collection, request, &filter, &sort)?,
        None => None,
    };
    let collection = store.collection_mut(request.db, name);
    let mut outcome = rawdoc! {};
    let value: Option<Record> = match (update, collection.zip(place)) {
        (None, Some((collection, place))) => {
            outcome.append(cstr!("n"), 1);
            collection.remove(place)?
        }
        (None, None) => {
            outcome.append(cstr!("n"), 0);
            None
        }
        (Some(update), Some((collection, place))) => {
            outcome.append(cstr!("n"), 1);
            outcome.append(cstr!("updatedExisting"), true);
            let old = collection.get(place).map(Arc::clone);
            let changed = old.as_deref().map(|old| update.apply(old)).transpose()?.flatten();
            let new = changed.map(|changed| collection.replace(place, changed)).transpose().map_err(refused)?;
            if answer_new { new.or(old) } else { old }
        }
        (Some(update), None) if upsert => {
            let collection = store.collection_or_create(request.db, name);
            let new = collection.insert(update.insertion(&filter)?).map_err(refused)?;
            outcome.append(cstr!("n"), 1);
            outcome.append(cstr!("updatedExisting"), false);
            outcome.append(cstr!("upserted"), field(&new, "_id").unwrap_or(RawBsonRef::Null));
            answer_new.then_some(new)
        }
        (Some(_), None) => {
            outcome.append(cstr!("n"), 0);
            outcome.append(cstr!("updatedExisting"), false);
            None
        }
    };
    let value = value.map_or(RawBson::Null, |record| {
        let projected = projection.map(|projection| projection.apply(&record));
        RawBson::Document(projected.unwrap_or_else(|| record.as_ref().clone()))
    });
    Ok(Reply::Fields(rawdoc! { "lastErrorObject": outcome, "value": value }))
}

/// The place of the first document that matches, in the order of the sort.
fn first_match(
    collection: &Collection,
    request: &Request<'_>,
    filter: &Filter<'_>,
    sort: &Sort<'_>,
) -> CommandResult<Option<RecordId>> {
    let mut found = Vec::new();
    collection.visit_matching(filter, request.deadline, |place, record| {
        found.push((place, record));
        if sort.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    sort.apply(&mut found, |(_, record)| record);
    Ok(found.first().map(|(place, _)| *place))
}

/// The one statement's failure is the command's.
fn refused(error: WriteError) -> CommandError {
    match error {
        WriteError::Duplicate(error) => CommandError::new(Code::DuplicateKey, error.message),
        WriteError::Refused(error) => error,
    }
}
