//! Commands that write many documents: insert, update, delete. One failed statement is reported in
//! `writeErrors`, and ends the command when it is ordered.

use super::handshake::MAX_WRITE_BATCH;
use crate::{
    collection::{Collection, WriteError},
    error::{Code, CommandError, CommandResult},
    filter::Filter,
    index::RecordId,
    record::{Record, prepare_insert},
    reply::Reply,
    request::Request,
    store::{Store, namespace},
    update::Update,
    value::{field, fields, integral},
};
use bson::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, raw::cstr, rawdoc};
use std::ops::ControlFlow;

pub(super) fn insert(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (documents, ordered) = statements(request, "documents")?;
    let name = request.collection()?;
    namespace(request.db, name)?;
    let collection = store.collection_or_create(request.db, name);
    let mut inserted = 0;
    let errors = run(&documents, ordered, |_, document| {
        collection.insert(prepare_insert(document)?)?;
        inserted += 1;
        Ok(())
    });
    Ok(reply(rawdoc! { "n": inserted }, errors))
}

pub(super) fn update(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (statements, ordered) = statements(request, "updates")?;
    let statements: Vec<_> =
        statements.into_iter().map(|statement| UpdateStatement::parse(request, statement)).collect::<Result<_, _>>()?;
    let name = request.collection()?;
    namespace(request.db, name)?;
    let mut total = Updated::default();
    let mut upserted = RawArrayBuf::new();
    let errors = run(&statements, ordered, |index, statement| {
        let updated = statement.run(store, request, name)?;
        total.matched += updated.matched;
        total.modified += updated.modified;
        if let Some(document) = updated.upserted {
            let id = field(&document, "_id").unwrap_or(RawBsonRef::Null);
            upserted.push(rawdoc! { "index": index, "_id": bson::RawBson::from(id) });
            total.matched += 1;
        }
        Ok(())
    });
    let mut fields = rawdoc! { "n": total.matched, "nModified": total.modified };
    if !upserted.is_empty() {
        fields.append(cstr!("upserted"), upserted);
    }
    Ok(reply(fields, errors))
}

pub(super) fn delete(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (statements, ordered) = statements(request, "deletes")?;
    let statements: Vec<_> =
        statements.into_iter().map(|statement| DeleteStatement::parse(request, statement)).collect::<Result<_, _>>()?;
    let name = request.collection()?;
    namespace(request.db, name)?;
    let mut deleted = 0;
    let errors = run(&statements, ordered, |_, statement| {
        let filter = Filter::parse(statement.filter)?;
        let Some(collection) = store.collection_mut(request.db, name) else { return Ok(()) };
        for place in places(collection, request, &filter, statement.only_one)? {
            deleted += i32::from(collection.remove(place)?.is_some());
        }
        Ok(())
    });
    Ok(reply(rawdoc! { "n": deleted }, errors))
}

/// The statements of a write command, and whether the first failure ends it.
fn statements<'a>(request: &Request<'a>, argument: &str) -> CommandResult<(Vec<&'a RawDocument>, bool)> {
    let mut ordered = true;
    for (name, value) in request.arguments() {
        match name {
            "ordered" => ordered = request.boolean(name, value)?,
            name if name == argument => {}
            _ => return Err(request.unknown_field(name)),
        }
    }
    let statements = request.documents(argument)?;
    if !(1..=MAX_WRITE_BATCH).contains(&statements.len()) {
        let message =
            format!("Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {} operations.", statements.len());
        return Err(CommandError::new(Code::InvalidLength, message));
    }
    Ok((statements, ordered))
}

/// Runs each statement; the errors, as `writeErrors` has them.
fn run<T>(
    statements: &[T],
    ordered: bool,
    mut statement: impl FnMut(i32, &T) -> Result<(), WriteError>,
) -> RawArrayBuf {
    let mut errors = RawArrayBuf::new();
    for (index, one) in (0_i32..).zip(statements) {
        if let Err(error) = statement(index, one) {
            errors.push(write_error(index, &error));
            if ordered {
                break;
            }
        }
    }
    errors
}

fn write_error(index: i32, error: &WriteError) -> RawDocumentBuf {
    match error {
        WriteError::Duplicate(error) => rawdoc! {
            "index": index,
            "code": Code::DuplicateKey.number(),
            "keyPattern": error.pattern.clone(),
            "keyValue": error.value.clone(),
            "errmsg": error.message.as_str(),
        },
        WriteError::Refused(error) => {
            rawdoc! { "index": index, "code": error.code.number(), "errmsg": error.message.as_str() }
        }
    }
}

fn reply(mut fields: RawDocumentBuf, errors: RawArrayBuf) -> Reply {
    if !errors.is_empty() {
        fields.append(cstr!("writeErrors"), errors);
    }
    Reply::Fields(fields)
}

/// One element of `updates`. What is in its filter and its update is read when its turn comes: a mistake in it is its own
/// write error, and leaves those before it done.
struct UpdateStatement<'a> {
    filter: &'a RawDocument,
    update: RawBsonRef<'a>,
    multi: bool,
    upsert: bool,
}

/// What one update did.
#[derive(Default)]
struct Updated {
    matched: i32,
    modified: i32,
    upserted: Option<Record>,
}

impl<'a> UpdateStatement<'a> {
    fn parse(request: &Request<'a>, statement: &'a RawDocument) -> CommandResult<Self> {
        let (mut filter, mut update, mut multi, mut upsert) = (None, None, false, false);
        for (name, value) in fields(statement) {
            match name.as_str() {
                "q" => filter = Some(request.document("updates.q", value)?),
                "u" => update = Some(value),
                "multi" => multi = request.boolean("updates.multi", value)?,
                "upsert" => upsert = request.boolean("updates.upsert", value)?,
                name => return Err(request.unknown_field(&format!("updates.{name}"))),
            }
        }
        let filter = filter.ok_or_else(|| request.missing_field("updates.q"))?;
        let update = update.ok_or_else(|| request.missing_field("updates.u"))?;
        Ok(Self { filter, update, multi, upsert })
    }

    fn run(&self, store: &mut Store, request: &Request<'a>, name: &str) -> Result<Updated, WriteError> {
        let (filter, update) = (Filter::parse(self.filter)?, Update::parse(self.update)?);
        if self.multi && update.is_replacement() {
            let message = "multi update is not supported for replacement-style update";
            return Err(CommandError::new(Code::FailedToParse, message).into());
        }
        let mut updated = Updated::default();
        if let Some(collection) = store.collection_mut(request.db, name) {
            // First all places, then the changes: what an update moves into reach must not be updated twice.
            for place in places(collection, request, &filter, !self.multi)? {
                let Some(record) = collection.get(place) else { continue };
                updated.matched += 1;
                if let Some(document) = update.apply(record)? {
                    collection.replace(place, document)?;
                    updated.modified += 1;
                }
            }
        }
        if updated.matched == 0 && self.upsert {
            let document = update.insertion(&filter)?;
            updated.upserted = Some(store.collection_or_create(request.db, name).insert(document)?);
        }
        Ok(updated)
    }
}

/// One element of `deletes`.
struct DeleteStatement<'a> {
    filter: &'a RawDocument,
    only_one: bool,
}

impl<'a> DeleteStatement<'a> {
    fn parse(request: &Request<'a>, statement: &'a RawDocument) -> CommandResult<Self> {
        let (mut filter, mut only_one) = (None, None);
        for (name, value) in fields(statement) {
            match name.as_str() {
                "q" => filter = Some(request.document("deletes.q", value)?),
                "limit" => match integral(value) {
                    Some(limit @ (0 | 1)) => only_one = Some(limit == 1),
                    _ => {
                        let message = "The limit field in delete objects must be 0 or 1";
                        return Err(CommandError::new(Code::FailedToParse, message));
                    }
                },
                name => return Err(request.unknown_field(&format!("deletes.{name}"))),
            }
        }
        let filter = filter.ok_or_else(|| request.missing_field("deletes.q"))?;
        Ok(Self { filter, only_one: only_one.ok_or_else(|| request.missing_field("deletes.limit"))? })
    }
}

/// Where the documents are that match: all of them, or the first.
fn places(
    collection: &Collection,
    request: &Request<'_>,
    filter: &Filter<'_>,
    only_one: bool,
) -> CommandResult<Vec<RecordId>> {
    let mut places = Vec::new();
    collection.visit_matching(filter, request.deadline, |place, _| {
        places.push(place);
        if only_one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(places)
}
