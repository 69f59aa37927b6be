use super::*;
use crate::value::tests::{any_document, any_value};
use bson::{Document, doc};
use proptest::prelude::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).unwrap()
}

fn spec(name: &str, key: RawDocumentBuf, unique: bool) -> IndexSpec {
    IndexSpec { name: name.to_owned(), key, unique }
}

fn ids(collection: &Collection, filter: &Document) -> Vec<i32> {
    let filter = raw(filter);
    let found = collection.matching(&Filter::parse(&filter).unwrap(), Deadline::default()).unwrap();
    found.iter().map(|record| record.get_i32("_id").unwrap()).collect()
}

fn place(collection: &Collection, id: i32) -> RecordId {
    collection.find_by_id(&[("_id", RawBsonRef::Int32(id))]).unwrap().unwrap()
}

proptest! {
    #[test]
    fn an_index_finds_what_a_scan_finds(
        documents in proptest::collection::vec(any_document(), 0..12),
        changes in proptest::collection::vec((0..12_usize, proptest::option::of(any_document())), 0..4),
        path in prop_oneof![Just("a"), Just("b"), Just("a.b"), Just("a.0"), Just("a.a.0")],
        operand in any_value(),
        second in any_value(),
    ) {
        let mut scanned = Collection::new("db.scanned".to_owned());
        let mut indexed = Collection::new("db.indexed".to_owned());
        indexed.create_index(spec("one", rawdoc! { "a": 1 }, false)).unwrap();
        indexed.create_index(spec("two", rawdoc! { "b": -1, "c": 1 }, false)).unwrap();
        indexed.create_index(spec("deep", rawdoc! { "a.b": 1, "a.0": 1 }, false)).ok();
        let mut stored = Vec::new();
        for (id, document) in documents.into_iter().enumerate() {
            let mut whole = doc! { "_id": id as i32 };
            whole.extend(document);
            if indexed.insert(raw(&whole)).is_ok() {
                scanned.insert(raw(&whole)).unwrap();
                stored.push(id as i32);
            }
        }
        for (id, change) in changes {
            let id = id as i32;
            if !stored.contains(&id) { continue }
            match change {
                None => {
                    stored.retain(|other| *other != id);
                    for collection in [&mut scanned, &mut indexed] {
                        collection.remove(place(collection, id)).unwrap();
                    }
                }
                Some(document) => {
                    let mut whole = doc! { "_id": id };
                    whole.extend(document);
                    if indexed.replace(place(&indexed, id), raw(&whole)).is_ok() {
                        scanned.replace(place(&scanned, id), raw(&whole)).unwrap();
                    }
                }
            }
        }
        for filter in [
            doc! { path: { "$eq": operand.clone() } },
            doc! { "b": { "$eq": operand.clone() }, "c": { "$eq": second.clone() } },
            doc! { "$and": [{ "a.b": { "$eq": operand.clone() } }, { path: { "$ne": second } }] },
            doc! { path: { "$in": [operand] } },
        ] {
            prop_assert_eq!(ids(&indexed, &filter), ids(&scanned, &filter), "{}", filter);
        }
        prop_assert_eq!(ids(&indexed, &doc! {}), ids(&scanned, &doc! {}));
        for id in stored {
            prop_assert_eq!(ids(&indexed, &doc! { "_id": f64::from(id) }), [id]);
        }
    }
}

#[test]
fn keys_are_unique() {
    let mut collection = Collection::new("db.c".to_owned());
    collection.create_index(spec("a_1", rawdoc! { "a": 1 }, true)).unwrap();
    collection.insert(raw(&doc! { "_id": 1, "a": [1, 2] })).unwrap();
    let Err(WriteError::Duplicate(error)) = collection.insert(raw(&doc! { "_id": 1.0, "a": 5 })) else { panic!() };
    assert_eq!(error.message, "E11000 duplicate key error collection: db.c index: _id_ dup key: { _id: 1 }");
    let Err(WriteError::Duplicate(error)) = collection.insert(raw(&doc! { "_id": 2, "a": 2 })) else { panic!() };
    assert_eq!(error.pattern, rawdoc! { "a": 1 });
    assert_eq!(error.value, rawdoc! { "a": 2 });
    collection.insert(raw(&doc! { "_id": 2, "a": 3 })).unwrap();
    assert!(collection.replace(place(&collection, 2), raw(&doc! { "_id": 2, "a": 1 })).is_err());
    assert_eq!(ids(&collection, &doc! { "a": 3 }), [2]);
    collection.replace(place(&collection, 2), raw(&doc! { "_id": 2, "a": [3, 4] })).unwrap();
    assert!(collection.create_index(spec("b_1", rawdoc! { "b": 1 }, true)).is_err());
    assert_eq!(collection.index_specs().len(), 2);
}

#[test]
fn index_definitions_may_not_contradict() {
    let mut collection = Collection::new("db.c".to_owned());
    let mut create = |spec| collection.create_index(spec);
    assert!(create(spec("a_1", rawdoc! { "a": 1 }, false)).unwrap());
    assert!(!create(spec("a_1", rawdoc! { "a": 1 }, false)).unwrap());
    assert!(!create(spec("whatever", rawdoc! { "_id": 1 }, false)).unwrap());
    let mut code = |spec| match create(spec) {
        Err(WriteError::Refused(error)) => error.code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(spec("a_1", rawdoc! { "b": 1 }, false)), Code::IndexKeySpecsConflict);
    assert_eq!(code(spec("a_1", rawdoc! { "a": 1 }, true)), Code::IndexKeySpecsConflict);
    assert_eq!(code(spec("other", rawdoc! { "a": 1 }, false)), Code::IndexOptionsConflict);
    assert_eq!(code(spec("t", rawdoc! { "a": "text" }, false)), Code::CannotCreateIndex);
    assert_eq!(code(spec("e", rawdoc! {}, false)), Code::CannotCreateIndex);
    for number in 0..62 {
        let mut key = RawDocumentBuf::new();
        key.append(bson::raw::CString::try_from(format!("f{number}")).unwrap(), 1);
        collection.create_index(spec(&number.to_string(), key, false)).unwrap();
    }
    assert!(collection.create_index(spec("too many", rawdoc! { "z": 1 }, false)).is_err());
}

#[test]
fn parallel_arrays_are_refused() {
    let mut collection = Collection::new("db.c".to_owned());
    collection.create_index(spec("ab", rawdoc! { "a": 1, "b": 1 }, false)).unwrap();
    let refused = collection.insert(raw(&doc! { "_id": 1, "a": [1, 2], "b": [3, 4] }));
    assert!(matches!(refused, Err(WriteError::Refused(error)) if error.code == Code::CannotIndexParallelArrays));
    assert_eq!(ids(&collection, &doc! {}), [0; 0]);
}
