use super::*;
use bson::{Bson, Document, doc};

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn apply(update: Document, document: Document) -> CommandResult<Option<Document>> {
    let update = raw(&update);
    let result = Update::parse(RawBsonRef::Document(&update))?.apply(&raw(&document))?;
    Ok(result.map(|document| Document::try_from(&document).unwrap()))
}

fn changed(update: Document, document: Document) -> Document {
    apply(update, document).unwrap().unwrap()
}

fn code(update: Document, document: Document) -> Code {
    apply(update, document).unwrap_err().code
}

fn upserted(filter: Document, update: Document) -> CommandResult<Document> {
    let (filter, update) = (raw(&filter), raw(&update));
    let inserted = Update::parse(RawBsonRef::Document(&update))?.insertion(&Filter::parse(&filter)?)?;
    Ok(Document::try_from(&inserted).unwrap())
}

#[test]
fn operators_change_fields_in_place_and_add_new_ones_by_name() {
    let document = || doc! { "_id": 1, "a": 1, "b": { "c": 2, "d": 3 }, "e": [1, { "f": 4 }] };
    assert_eq!(
        changed(doc! { "$set": { "z": 0, "a": 9, "b.c": 8, "y.x": 7 } }, document()),
        doc! { "_id": 1, "a": 9, "b": { "c": 8, "d": 3 }, "e": [1, { "f": 4 }], "y": { "x": 7 }, "z": 0 }
    );
    assert_eq!(
        changed(doc! { "$unset": { "a": "", "b.d": "", "q.r": "", "e.0": "" } }, document()),
        doc! { "_id": 1, "b": { "c": 2 }, "e": [null, { "f": 4 }] }
    );
    assert_eq!(
        changed(doc! { "$inc": { "a": 2, "new": 5 }, "$push": { "e": "x", "p": { "k": 1 } } }, document()),
        doc! { "_id": 1, "a": 3, "b": { "c": 2, "d": 3 }, "e": [1, { "f": 4 }, "x"], "new": 5, "p": [{ "k": 1 }] }
    );
    assert_eq!(
        changed(doc! { "$set": { "e.1.f": 5, "e.3": 6 } }, document()).get_array("e").unwrap(),
        &vec![Bson::Int32(1), doc! { "f": 5 }.into(), Bson::Null, Bson::Int32(6)]
    );
}

#[test]
fn an_update_without_effect_is_known_as_such() {
    let document = || doc! { "_id": 1, "a": 1 };
    for update in
        [doc! { "$set": { "a": 1 } }, doc! { "$unset": { "x.y": 1 } }, doc! { "$setOnInsert": { "a": 2 } }, document()]
    {
        assert_eq!(apply(update, document()).unwrap(), None);
    }
}

#[test]
fn increments_widen_and_never_wrap() {
    let sum = |value: Bson, by: Bson| apply(doc! { "$inc": { "a": by } }, doc! { "a": value });
    let value = |value, by| sum(value, by).unwrap().unwrap().get("a").unwrap().clone();
    assert_eq!(value(Bson::Int32(1), Bson::Int32(2)), Bson::Int32(3));
    assert_eq!(value(Bson::Int32(i32::MAX), Bson::Int32(1)), Bson::Int64(i64::from(i32::MAX) + 1));
    assert_eq!(value(Bson::Int32(1), Bson::Int64(2)), Bson::Int64(3));
    assert_eq!(value(Bson::Int64(1), Bson::Double(0.5)), Bson::Double(1.5));
    assert_eq!(sum(Bson::Int64(i64::MAX), Bson::Int32(1)).unwrap_err().code, Code::BadValue);
    assert_eq!(sum(Bson::String("x".into()), Bson::Int32(1)).unwrap_err().code, Code::TypeMismatch);
    assert_eq!(sum(Bson::Int32(1), Bson::String("x".into())).unwrap_err().code, Code::TypeMismatch);
}

#[test]
fn replacements_keep_the_id() {
    assert_eq!(changed(doc! { "b": 2 }, doc! { "_id": 1, "a": 1 }), doc! { "_id": 1, "b": 2 });
    assert_eq!(changed(doc! { "b": 2, "_id": 1 }, doc! { "_id": 1, "a": 1 }), doc! { "_id": 1, "b": 2 });
    assert_eq!(code(doc! { "_id": 2 }, doc! { "_id": 1 }), Code::ImmutableField);
    assert_eq!(code(doc! { "$set": { "_id": 2 } }, doc! { "_id": 1 }), Code::ImmutableField);
    assert_eq!(code(doc! { "$unset": { "_id": 2 } }, doc! { "_id": 1 }), Code::ImmutableField);
}

#[test]
fn upserts_start_from_the_equalities_of_the_filter() {
    assert_eq!(
        upserted(
            doc! { "_id": 7, "a.b": "x", "n": { "$gt": 5 }, "$and": [{ "c": { "$eq": 1 } }] },
            doc! { "$set": { "a.d": 2 }, "$inc": { "c": 4 }, "$setOnInsert": { "new": true } }
        )
        .unwrap(),
        doc! { "_id": 7, "a": { "b": "x", "d": 2 }, "c": 5, "new": true }
    );
    assert_eq!(upserted(doc! { "_id": 7, "a": 1 }, doc! { "b": 2 }).unwrap(), doc! { "_id": 7, "b": 2 });
    assert!(upserted(doc! { "a": 1 }, doc! { "b": 2 }).unwrap().get_object_id("_id").is_ok());
    let changed_id = upserted(doc! { "_id": 7 }, doc! { "$set": { "_id": 8 } });
    assert_eq!(changed_id.unwrap_err().code, Code::ImmutableField);
    let other_id = upserted(doc! { "_id": 7 }, doc! { "_id": 8 });
    assert_eq!(other_id.unwrap_err().code, Code::ImmutableField);
}

#[test]
fn what_is_not_supported_is_an_error() {
    let document = || doc! { "_id": 1, "a": 1, "e": [1] };
    assert_eq!(code(doc! { "$rename": { "a": "b" } }, document()), Code::FailedToParse);
    assert_eq!(code(doc! { "$foo": {} }, document()), Code::FailedToParse);
    assert_eq!(code(doc! { "$set": 1 }, document()), Code::FailedToParse);
    assert_eq!(code(doc! { "b": 1, "$set": { "a": 1 } }, document()), Code::DollarPrefixedFieldName);
    assert_eq!(code(doc! { "$set": { "e.$": 1 } }, document()), Code::DollarPrefixedFieldName);
    assert_eq!(code(doc! { "$set": { "a.": 1 } }, document()), Code::EmptyFieldName);
    assert_eq!(code(doc! { "$set": { "a.b": 1 } }, document()), Code::PathNotViable);
    assert_eq!(code(doc! { "$set": { "e.x": 1 } }, document()), Code::PathNotViable);
    assert_eq!(code(doc! { "$push": { "a": 1 } }, document()), Code::BadValue);
    assert_eq!(code(doc! { "$push": { "e": { "$each": [1] } } }, document()), Code::BadValue);
    assert_eq!(code(doc! { "$set": { "b": 1 }, "$inc": { "b.c": 1 } }, document()), Code::ConflictingUpdateOperators);
    assert_eq!(code(doc! { "$set": { "e.9999999": 1 } }, document()), Code::CannotBackfillArray);
    let update = bson::rawdoc! { "u": [] };
    let pipeline = Update::parse(update.get("u").unwrap().unwrap());
    assert_eq!(pipeline.unwrap_err().code, Code::NotImplemented);
}

#[test]
fn results_are_bounded_in_depth() {
    let path = vec!["a"; 190].join(".");
    assert_eq!(code(doc! { "$set": { path: 1 } }, doc! { "_id": 1 }), Code::Overflow);
}

#[test]
fn conflicts_name_the_place() {
    let update = raw(&doc! { "$set": { "a.b": 1, "a.b.c": 2 } });
    let error = Update::parse(RawBsonRef::Document(&update)).unwrap_err();
    assert_eq!(error.message, "Updating the path 'a.b.c' would create a conflict at 'a.b'");
}
