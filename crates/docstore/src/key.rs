//! Values as bytes for the indexes: equal bytes exactly for values that compare equal.

use crate::value::{elements, exact_integer, fields};
use bson::RawBsonRef;

/// Appends the key of a value. No key is a prefix of another, so that the keys of a compound index can be
/// concatenated and the first ones looked up alone.
pub(crate) fn append(value: RawBsonRef<'_>, key: &mut Vec<u8>) {
    key.push(crate::compare::type_order(value));
    match value {
        RawBsonRef::Int32(value) => append_integer(value.into(), key),
        RawBsonRef::Int64(value) => append_integer(value, key),
        RawBsonRef::Double(value) => append_double(value, key),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => {
            append_bytes(text.as_bytes(), key);
        }
        RawBsonRef::Document(document) => {
            for (name, value) in fields(document) {
                append(value, key);
                append_bytes(name.as_str().as_bytes(), key);
            }
            key.push(END);
        }
        RawBsonRef::Array(array) => {
            elements(array).for_each(|value| append(value, key));
            key.push(END);
        }
        RawBsonRef::Binary(binary) => {
            key.push(binary.subtype.into());
            append_bytes(binary.bytes, key);
        }
        RawBsonRef::ObjectId(id) => key.extend_from_slice(&id.bytes()),
        RawBsonRef::Boolean(value) => key.push(value.into()),
        RawBsonRef::DateTime(time) => key.extend_from_slice(&time.timestamp_millis().to_le_bytes()),
        RawBsonRef::Timestamp(time) => {
            key.extend_from_slice(&time.time.to_le_bytes());
            key.extend_from_slice(&time.increment.to_le_bytes());
        }
        RawBsonRef::RegularExpression(regex) => {
            append_bytes(regex.pattern.as_str().as_bytes(), key);
            append_bytes(regex.options.as_str().as_bytes(), key);
        }
        RawBsonRef::Null | RawBsonRef::MinKey | RawBsonRef::MaxKey => {}
        // Refused with the message that holds them: see `Contents::unsupported`.
        RawBsonRef::Decimal128(_)
        | RawBsonRef::Undefined
        | RawBsonRef::DbPointer(_)
        | RawBsonRef::JavaScriptCodeWithScope(_) => {}
    }
}

/// Above every type's place in the order, with which a key starts.
const END: u8 = 0xff;

fn append_integer(value: i64, key: &mut Vec<u8>) {
    key.push(0);
    key.extend_from_slice(&value.to_le_bytes());
}

fn append_double(value: f64, key: &mut Vec<u8>) {
    match exact_integer(value) {
        Some(integer) => append_integer(integer, key),
        None => {
            let value = if value.is_nan() { f64::NAN } else { value };
            key.push(1);
            key.extend_from_slice(&value.to_le_bytes());
        }
    }
}

fn append_bytes(bytes: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    key.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compare::compare, value::tests::any_value};
    use bson::RawBson;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_equal_exactly_when_values_are(a in any_value(), b in any_value()) {
            let (a, b) = (RawBson::try_from(a).unwrap(), RawBson::try_from(b).unwrap());
            let (a, b) = (a.as_raw_bson_ref(), b.as_raw_bson_ref());
            let (mut left, mut right) = (Vec::new(), Vec::new());
            append(a, &mut left);
            append(b, &mut right);
            prop_assert_eq!(left == right, compare(a, b).is_eq());
            prop_assert!(left == right || !left.starts_with(&right));
        }
    }
}
