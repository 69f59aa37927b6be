//! Reading BSON that has been checked once, where it came in.

use bson::{
    RawArray, RawBsonRef, RawDocument,
    raw::{CStr, RawElement},
    spec::ElementType,
};

/// Deepest nesting that a message may have: MongoDB's limit. It bounds every recursion over BSON in this crate.
pub(crate) const MAX_MESSAGE_DEPTH: usize = 200;

/// Deepest nesting of a stored document: MongoDB's limit, below that of a message so that a reply can wrap it.
pub(crate) const MAX_STORED_DEPTH: usize = 180;

/// What [`check`] found out about a well-formed document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Levels of nesting: 1 for a flat document.
    pub(crate) depth: usize,
    /// A type that this store does not handle (Decimal128 and the deprecated ones), when one occurs.
    pub(crate) unsupported: Option<ElementType>,
}

/// Bytes that are not a BSON document.
#[derive(Debug, thiserror::Error)]
pub enum MalformedBson {
    /// The structure is broken: a wrong length, an unknown type, text that is not UTF-8.
    #[error("BSON document is malformed; send valid BSON")]
    Structure(#[from] bson::error::Error),
    /// Nested deeper than MongoDB allows.
    #[error("BSON document is nested more than {MAX_MESSAGE_DEPTH} levels deep; flatten it")]
    TooDeep,
}

/// Checks every element of a document, however deep, so that nobody after has to: all documents in this crate
/// have passed here, or were made by it.
pub(crate) fn check(document: &RawDocument) -> Result<Contents, MalformedBson> {
    let mut contents = Contents::default();
    check_level(document, 1, &mut contents)?;
    Ok(contents)
}

fn check_level(document: &RawDocument, depth: usize, contents: &mut Contents) -> Result<(), MalformedBson> {
    if depth > MAX_MESSAGE_DEPTH {
        return Err(MalformedBson::TooDeep);
    }
    contents.depth = contents.depth.max(depth);
    for element in document.iter_elements() {
        match element?.value()? {
            RawBsonRef::Document(inner) => check_level(inner, depth + 1, contents)?,
            RawBsonRef::Array(inner) => {
                check_level(RawDocument::from_bytes(inner.as_bytes())?, depth + 1, contents)?;
            }
            other => {
                let unsupported = matches!(
                    other.element_type(),
                    ElementType::Decimal128
                        | ElementType::Undefined
                        | ElementType::Symbol
                        | ElementType::DbPointer
                        | ElementType::JavaScriptCodeWithScope
                );
                if unsupported {
                    contents.unsupported = Some(other.element_type());
                }
            }
        }
    }
    Ok(())
}

/// The fields of a checked document, in order.
pub(crate) fn fields(document: &RawDocument) -> impl Iterator<Item = (&CStr, RawBsonRef<'_>)> {
    document.iter_elements().map(|element| {
        let element = checked(element);
        (element.key(), checked(element.value()))
    })
}

/// The elements of a checked array, in order.
pub(crate) fn elements(array: &RawArray) -> impl Iterator<Item = RawBsonRef<'_>> {
    array.iter_elements().map(|element| checked(checked(element).value()))
}

/// The first field with this name.
pub(crate) fn field<'d>(document: &'d RawDocument, name: &str) -> Option<RawBsonRef<'d>> {
    let is_named = |element: &RawElement<'_>| element.key().as_str() == name;
    document.iter_elements().map(checked).find(is_named).map(|element| checked(element.value()))
}

fn checked<T>(result: bson::error::Result<T>) -> T {
    result.unwrap_or_else(|error| unreachable!("BSON that passed the check cannot be malformed: {error}"))
}

/// MongoDB's name of a value's type, as `$type` and its error messages spell it.
pub(crate) fn type_name(value: RawBsonRef<'_>) -> &'static str {
    match value.element_type() {
        ElementType::Double => "double",
        ElementType::String => "string",
        ElementType::EmbeddedDocument => "object",
        ElementType::Array => "array",
        ElementType::Binary => "binData",
        ElementType::Undefined => "undefined",
        ElementType::ObjectId => "objectId",
        ElementType::Boolean => "bool",
        ElementType::DateTime => "date",
        ElementType::Null => "null",
        ElementType::RegularExpression => "regex",
        ElementType::DbPointer => "dbPointer",
        ElementType::JavaScriptCode => "javascript",
        ElementType::Symbol => "symbol",
        ElementType::JavaScriptCodeWithScope => "javascriptWithScope",
        ElementType::Int32 => "int",
        ElementType::Timestamp => "timestamp",
        ElementType::Int64 => "long",
        ElementType::Decimal128 => "decimal",
        ElementType::MinKey => "minKey",
        ElementType::MaxKey => "maxKey",
    }
}

/// A value as a person reads it in an error message.
pub(crate) fn display(value: RawBsonRef<'_>) -> String {
    bson::Bson::try_from(value).map_or_else(|_| format!("({})", type_name(value)), |value| value.to_string())
}

/// A value as a condition: false, zero and null are false, all else is true.
pub(crate) fn truthy(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(value) => value,
        RawBsonRef::Int32(value) => value != 0,
        RawBsonRef::Int64(value) => value != 0,
        RawBsonRef::Double(value) => value != 0.0,
        RawBsonRef::Null => false,
        _ => true,
    }
}

/// A number without a fractional part, whatever its type; `None` for everything else.
pub(crate) fn integral(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(value.into()),
        RawBsonRef::Int64(value) => Some(value),
        RawBsonRef::Double(value) => exact_integer(value),
        _ => None,
    }
}

/// The integer that a double is exactly, when an `i64` can hold it.
pub(crate) fn exact_integer(value: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (value.trunc() == value && (-LIMIT..LIMIT).contains(&value)).then_some(value as i64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use bson::{Bson, Document, doc, oid::ObjectId, rawdoc};
    use proptest::prelude::*;

    /// Any value of a type that the store handles; numbers and texts from a small set, so that equal ones are common.
    pub(crate) fn any_value() -> impl Strategy<Value = Bson> {
        let leaf = prop_oneof![
            Just(Bson::Null),
            Just(Bson::MinKey),
            Just(Bson::MaxKey),
            any::<bool>().prop_map(Bson::Boolean),
            (-3..4i32).prop_map(Bson::Int32),
            any::<i64>().prop_map(Bson::Int64),
            (-3..4i64).prop_map(Bson::Int64),
            (-3..4i32).prop_map(|value| Bson::Double(f64::from(value) / 2.0)),
            any::<f64>().prop_map(Bson::Double),
            Just(Bson::Double(f64::NAN)),
            Just(Bson::Double(-0.0)),
            Just(Bson::Double(9_007_199_254_740_993.0)),
            Just(Bson::Int64(9_007_199_254_740_993)),
            "[ab]{0,2}".prop_map(Bson::String),
            (0..3i64).prop_map(|millis| Bson::DateTime(bson::DateTime::from_millis(millis))),
            (0..3u8).prop_map(|byte| Bson::ObjectId(ObjectId::from_bytes([byte; 12]))),
            (0..3u32, 0..3u32).prop_map(|(time, increment)| Bson::Timestamp(bson::Timestamp { time, increment })),
            proptest::collection::vec(0..3u8, 0..3).prop_map(|bytes| {
                Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes })
            }),
            "[ab]{0,2}".prop_map(Bson::JavaScriptCode),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array),
                proptest::collection::vec(("[ab01]", inner), 0..3)
                    .prop_map(|fields| Bson::Document(fields.into_iter().collect::<Document>())),
            ]
        })
    }

    /// A document with the fields `a` and `b` and whatever below them.
    pub(crate) fn any_document() -> impl Strategy<Value = Document> {
        proptest::collection::vec(("[abc]", any_value()), 0..4).prop_map(|fields| fields.into_iter().collect())
    }

    proptest! {
        #[test]
        fn check_accepts_what_the_encoder_writes(document in any_document()) {
            let raw = bson::RawDocumentBuf::try_from(&document).unwrap();
            prop_assert!(check(&raw).is_ok());
        }

        #[test]
        fn checked_bytes_can_be_read_to_the_end(
            document in any_document(),
            changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        ) {
            let mut bytes = bson::RawDocumentBuf::try_from(&document).unwrap().into_bytes();
            for (position, byte) in changes {
                let position = 4 + position % (bytes.len() - 4);
                bytes[position] = byte;
            }
            if let Ok(raw) = RawDocument::from_bytes(&bytes) && check(raw).is_ok() {
                let mut key = Vec::new();
                crate::key::append(RawBsonRef::Document(raw), &mut key);
            }
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| (1..levels).fold(rawdoc! {}, |inner, _| rawdoc! { "a": inner });
        assert_eq!(check(&nested(MAX_MESSAGE_DEPTH)).unwrap().depth, MAX_MESSAGE_DEPTH);
        assert!(matches!(check(&nested(MAX_MESSAGE_DEPTH + 1)), Err(MalformedBson::TooDeep)));
    }

    #[test]
    fn unsupported_types_are_seen_inside_arrays() {
        let document = doc! { "a": [{ "b": "1".parse::<bson::Decimal128>().unwrap() }] };
        let raw = bson::RawDocumentBuf::try_from(&document).unwrap();
        assert_eq!(check(&raw).unwrap().unsupported, Some(ElementType::Decimal128));
    }

    #[test]
    fn exact_integers_end_where_i64_does() {
        assert_eq!(exact_integer(-9_223_372_036_854_775_808.0), Some(i64::MIN));
        assert_eq!(exact_integer(9_223_372_036_854_775_808.0), None);
        assert_eq!(exact_integer(0.5), None);
        assert_eq!(exact_integer(f64::NAN), None);
    }
}
