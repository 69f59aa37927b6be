use super::*;
use bson::{RawArrayBuf, RawBson, rawdoc};

fn collection() -> Collection {
    let mut collection = Collection::new("db.c".to_owned());
    for document in [
        rawdoc! { "_id": 1, "kind": "a", "n": 1, "x": { "y": 5 }, "list": [{ "v": 1 }, { "v": 2 }] },
        rawdoc! { "_id": 2, "kind": "b", "n": 2_i64 },
        rawdoc! { "_id": 3, "kind": "a", "n": 2.5, "x": { "y": 7 } },
        rawdoc! { "_id": 4, "kind": "b", "n": "text" },
        rawdoc! { "_id": 5, "n": RawBson::Null },
    ] {
        collection.insert(document).unwrap();
    }
    collection
}

fn run(stages: &[RawDocumentBuf]) -> CommandResult<Vec<RawDocumentBuf>> {
    let stages = RawArrayBuf::from_iter(stages.iter().cloned().map(RawBson::Document));
    let pipeline = Pipeline::parse(&stages)?;
    let results = pipeline.run(Some(&collection()), Deadline::default())?;
    Ok(results.iter().map(|record| record.as_ref().clone()).collect())
}

fn code(stage: RawDocumentBuf) -> Code {
    run(&[stage]).unwrap_err().code
}

#[test]
fn documents_are_counted_as_drivers_do() {
    let group = rawdoc! { "$group": { "_id": 1, "n": { "$sum": 1 } } };
    let matched = rawdoc! { "$match": { "kind": "a" } };
    assert_eq!(run(&[matched, group.clone()]).unwrap(), [rawdoc! { "_id": 1, "n": 2 }]);
    assert!(run(&[rawdoc! { "$match": { "kind": "z" } }, group]).unwrap().is_empty());
    assert_eq!(run(&[rawdoc! { "$count": "total" }]).unwrap(), [rawdoc! { "total": 5 }]);
}

#[test]
fn groups_gather() {
    let group = rawdoc! { "$group": {
        "_id": "$kind", "sum": { "$sum": "$n" }, "avg": { "$avg": "$n" }, "min": { "$min": "$n" },
        "max": { "$max": "$n" }, "first": { "$first": "$x.y" },
    } };
    assert_eq!(
        run(&[group]).unwrap(),
        [
            rawdoc! { "_id": "a", "sum": 3.5, "avg": 1.75, "min": 1, "max": 2.5, "first": 5 },
            rawdoc! { "_id": "b", "sum": 2_i64, "avg": 2.0, "min": 2_i64, "max": "text", "first": null },
            rawdoc! {
                "_id": null, "sum": 0, "avg": null, "min": null, "max": null, "first": null
            },
        ]
    );
}

#[test]
fn keys_may_be_documents_and_paths_through_arrays() {
    let group = rawdoc! { "$group": { "_id": { "k": "$kind", "v": "$list.v" } } };
    let results = run(&[rawdoc! { "$limit": 2 }, group]).unwrap();
    assert_eq!(results, [rawdoc! { "_id": { "k": "a", "v": [1, 2] } }, rawdoc! { "_id": { "k": "b" } }]);
}

#[test]
fn stages_follow_each_other() {
    let stages = [
        rawdoc! { "$sort": { "_id": -1 } },
        rawdoc! { "$skip": 1 },
        rawdoc! { "$match": { "_id": { "$gt": 1 } } },
        rawdoc! { "$limit": 2 },
        rawdoc! { "$project": { "kind": 1 } },
    ];
    assert_eq!(run(&stages).unwrap(), [rawdoc! { "_id": 4, "kind": "b" }, rawdoc! { "_id": 3, "kind": "a" }]);
}

#[test]
fn sums_widen_and_never_wrap() {
    let sum = |values: &[RawBson]| {
        let operand = rawdoc! { "$sum": "$v" };
        let accumulator = accumulator::Accumulator::parse("s", RawBsonRef::Document(&operand)).unwrap();
        let mut state = accumulator.start();
        values.iter().for_each(|value| accumulator.add(&mut state, &rawdoc! { "v": value.clone() }));
        state.finish()
    };
    assert_eq!(sum(&[RawBson::Int32(1), RawBson::Int32(2)]), RawBson::Int32(3));
    assert_eq!(sum(&[RawBson::Int32(i32::MAX), RawBson::Int32(1)]), RawBson::Int64(1 << 31));
    assert_eq!(sum(&[RawBson::Int64(i64::MAX), RawBson::Int64(1)]), RawBson::Double(9_223_372_036_854_775_808.0));
    let tiny = [RawBson::Double(1e100), RawBson::Double(1.0), RawBson::Double(-1e100)];
    assert_eq!(sum(&tiny), RawBson::Double(1.0));
    assert_eq!(sum(&[RawBson::Double(f64::INFINITY), RawBson::Double(1.0)]), RawBson::Double(f64::INFINITY));
}

#[test]
fn what_is_not_supported_is_an_error() {
    assert_eq!(code(rawdoc! { "$lookup": {} }), Code::Location(40324));
    assert_eq!(code(rawdoc! { "$skip": 1, "$limit": 1 }), Code::Location(40323));
    assert_eq!(code(rawdoc! { "$limit": 0 }), Code::Location(15958));
    assert_eq!(code(rawdoc! { "$skip": -1 }), Code::Location(5107200));
    assert_eq!(code(rawdoc! { "$group": { "n": { "$sum": 1 } } }), Code::Location(15955));
    assert_eq!(code(rawdoc! { "$group": { "_id": 1, "n": { "$foo": 1 } } }), Code::Location(15952));
    assert_eq!(code(rawdoc! { "$group": { "_id": 1, "n": 1 } }), Code::Location(40234));
    assert_eq!(code(rawdoc! { "$group": { "_id": { "$add": [1] } } }), Code::InvalidPipelineOperator);
    assert_eq!(code(rawdoc! { "$group": { "_id": "$$ROOT" } }), Code::DollarPrefixedFieldName);
    assert_eq!(code(rawdoc! { "$project": { "a": "$b" } }), Code::NotImplemented);
    assert_eq!(code(rawdoc! { "$sort": {} }), Code::Location(15976));
    assert_eq!(code(rawdoc! { "$count": "" }), Code::Location(40156));
    assert_eq!(code(rawdoc! { "$match": { "$foo": 1 } }), Code::BadValue);
}
