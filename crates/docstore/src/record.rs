//! A document as it is stored.

use crate::{
    error::{Code, CommandError, CommandResult},
    value::{MAX_STORED_DEPTH, check, field, fields, type_name},
};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, oid::ObjectId, raw::cstr};
use std::sync::Arc;

/// Largest document, as MongoDB's: 16 MiB.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// A stored document: shared with the cursors that are about to send it.
pub(crate) type Record = Arc<RawDocumentBuf>;

/// A document ready to be stored: `_id` first, generated when it has none.
pub(crate) fn prepare_insert(document: &RawDocument) -> CommandResult<RawDocumentBuf> {
    let size = document.as_bytes().len();
    if size > MAX_DOCUMENT_BYTES {
        let message = format!("object to insert too large. size in bytes: {size}, max size: {MAX_DOCUMENT_BYTES}");
        return Err(CommandError::bad_value(message));
    }
    if !check(document).is_ok_and(|contents| contents.depth <= MAX_STORED_DEPTH) {
        let message = format!("cannot insert document because it exceeds {MAX_STORED_DEPTH} levels of nesting");
        return Err(CommandError::new(Code::Overflow, message));
    }
    Ok(with_id_first(document, None))
}

/// The document with `_id` as its first field: its own, else `id`, else a new one.
pub(crate) fn with_id_first(document: &RawDocument, id: Option<RawBsonRef<'_>>) -> RawDocumentBuf {
    if fields(document).next().is_some_and(|(name, _)| name.as_str() == "_id") {
        return document.to_owned();
    }
    let mut result = RawDocumentBuf::new();
    match field(document, "_id").or(id) {
        Some(id) => result.append(cstr!("_id"), id),
        None => result.append(cstr!("_id"), ObjectId::new()),
    }
    for (name, value) in fields(document).filter(|(name, _)| name.as_str() != "_id") {
        result.append(name, value);
    }
    result
}

/// The `_id` of a stored document, once it is known to be of a type that identifies.
pub(crate) fn identity(document: &RawDocument) -> CommandResult<RawBsonRef<'_>> {
    let id = field(document, "_id").unwrap_or(RawBsonRef::Null);
    let refused = |message: String| Err(CommandError::new(Code::InvalidIdField, message));
    match id {
        RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) => {
            refused(format!("The '_id' value cannot be of type {}", type_name(id)))
        }
        RawBsonRef::Document(inner) => match fields(inner).find(|(name, _)| name.as_str().starts_with('$')) {
            Some((name, _)) => refused(format!("_id fields may not contain '$'-prefixed fields: {name} is not valid")),
            None => Ok(id),
        },
        id => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn the_id_comes_first() {
        assert_eq!(prepare_insert(&rawdoc! { "a": 1, "_id": 2 }).unwrap(), rawdoc! { "_id": 2, "a": 1 });
        let generated = prepare_insert(&rawdoc! { "a": 1 }).unwrap();
        assert!(generated.get_object_id("_id").is_ok());
    }

    #[test]
    fn documents_are_bounded() {
        let large = rawdoc! { "a": "x".repeat(MAX_DOCUMENT_BYTES) };
        assert_eq!(prepare_insert(&large).unwrap_err().code, Code::BadValue);
        let deep = (1..=MAX_STORED_DEPTH).fold(rawdoc! {}, |inner, _| rawdoc! { "a": inner });
        assert_eq!(prepare_insert(&deep).unwrap_err().code, Code::Overflow);
    }

    #[test]
    fn ids_identify() {
        for document in [rawdoc! { "_id": [1] }, rawdoc! { "_id": { "$x": 1 } }] {
            assert_eq!(identity(&document).unwrap_err().code, Code::InvalidIdField);
        }
        assert!(identity(&rawdoc! { "_id": { "x": 1 } }).is_ok());
    }
}
