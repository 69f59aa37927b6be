//! MongoDB's order of all BSON values: by type first, numbers of all types together, then by value.
//!
//! Source: "Comparison/Sort Order" in MongoDB's manual, and `BSONElement::woCompare` for what it leaves out.

use crate::value::{elements, fields};
use bson::RawBsonRef;
use std::cmp::Ordering;

/// The order of two values, total over all values.
pub(crate) fn compare(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
    type_order(left).cmp(&type_order(right)).then_with(|| compare_within_type(left, right))
}

/// The place of a value's type in the order; all numbers share one.
pub(crate) fn type_order(value: RawBsonRef<'_>) -> u8 {
    match value {
        RawBsonRef::MinKey => 0,
        RawBsonRef::Undefined => 1,
        RawBsonRef::Null => 2,
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => 3,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => 4,
        RawBsonRef::Document(_) => 5,
        RawBsonRef::Array(_) => 6,
        RawBsonRef::Binary(_) => 7,
        RawBsonRef::ObjectId(_) => 8,
        RawBsonRef::Boolean(_) => 9,
        RawBsonRef::DateTime(_) => 10,
        RawBsonRef::Timestamp(_) => 11,
        RawBsonRef::RegularExpression(_) => 12,
        RawBsonRef::DbPointer(_) => 13,
        RawBsonRef::JavaScriptCode(_) => 14,
        RawBsonRef::JavaScriptCodeWithScope(_) => 15,
        RawBsonRef::MaxKey => 16,
    }
}

fn compare_within_type(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
    use RawBsonRef as V;
    match (left, right) {
        (V::Int32(l), V::Int32(r)) => l.cmp(&r),
        (V::Double(l), V::Double(r)) => doubles(l, r),
        (V::Double(l), r) => integer(r).map_or(Ordering::Equal, |r| integer_and_double(r, l).reverse()),
        (l, V::Double(r)) => integer(l).map_or(Ordering::Equal, |l| integer_and_double(l, r)),
        (V::String(l), V::String(r)) | (V::JavaScriptCode(l), V::JavaScriptCode(r)) => l.cmp(r),
        (V::Document(l), V::Document(r)) => fields(l)
            .map(|(name, value)| (type_order(value), name, Rest(value)))
            .cmp(fields(r).map(|(name, value)| (type_order(value), name, Rest(value)))),
        (V::Array(l), V::Array(r)) => elements(l).map(Rest).cmp(elements(r).map(Rest)),
        (V::Binary(l), V::Binary(r)) => {
            (l.bytes.len(), u8::from(l.subtype), l.bytes).cmp(&(r.bytes.len(), u8::from(r.subtype), r.bytes))
        }
        (V::ObjectId(l), V::ObjectId(r)) => l.bytes().cmp(&r.bytes()),
        (V::Boolean(l), V::Boolean(r)) => l.cmp(&r),
        (V::DateTime(l), V::DateTime(r)) => l.cmp(&r),
        (V::Timestamp(l), V::Timestamp(r)) => (l.time, l.increment).cmp(&(r.time, r.increment)),
        (V::RegularExpression(l), V::RegularExpression(r)) => (l.pattern, l.options).cmp(&(r.pattern, r.options)),
        (l, r) => integer(l).cmp(&integer(r)),
    }
}

/// A value with the order above, for the comparison of sequences.
struct Rest<'a>(RawBsonRef<'a>);

impl Ord for Rest<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0, other.0)
    }
}

impl PartialOrd for Rest<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rest<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rest<'_> {}

fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(value) => Some(value.into()),
        RawBsonRef::Int64(value) => Some(value),
        _ => None,
    }
}

/// NaN equals itself and is below all other numbers; the two zeros are equal.
fn doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

/// Exact, where a conversion of either to the other's type would round.
fn integer_and_double(integer: i64, double: f64) -> Ordering {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if double.is_nan() || double < -LIMIT {
        Ordering::Greater
    } else if double >= LIMIT {
        Ordering::Less
    } else {
        integer.cmp(&(double.trunc() as i64)).then_with(|| doubles(0.0, double.fract()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::any_value;
    use bson::{RawBson, rawdoc};
    use proptest::prelude::*;

    fn raw(value: bson::Bson) -> RawBson {
        RawBson::try_from(value).unwrap()
    }

    proptest! {
        #[test]
        fn the_order_is_total(a in any_value(), b in any_value(), c in any_value()) {
            let (a, b, c) = (raw(a), raw(b), raw(c));
            let (a, b, c) = (a.as_raw_bson_ref(), b.as_raw_bson_ref(), c.as_raw_bson_ref());
            prop_assert_eq!(compare(a, a), Ordering::Equal);
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            let mut sorted = [a, b, c];
            sorted.sort_by(|l, r| compare(*l, *r));
            prop_assert!(compare(sorted[0], sorted[2]).is_le());
        }

        #[test]
        fn integers_and_doubles_compare_exactly(integer in any::<i64>(), near in -2..3i64) {
            let double = integer.saturating_add(near) as f64;
            let expected = (i128::from(integer)).cmp(&(double as i128));
            prop_assert_eq!(compare(RawBsonRef::Int64(integer), RawBsonRef::Double(double)), expected);
        }
    }

    #[test]
    fn numbers_of_different_types_are_one_order() {
        let equal = |l, r| assert_eq!(compare(l, r), Ordering::Equal);
        equal(RawBsonRef::Int32(1), RawBsonRef::Int64(1));
        equal(RawBsonRef::Int64(1), RawBsonRef::Double(1.0));
        equal(RawBsonRef::Double(0.0), RawBsonRef::Double(-0.0));
        equal(RawBsonRef::Double(f64::NAN), RawBsonRef::Double(-f64::NAN));
        let less = |l, r| assert_eq!(compare(l, r), Ordering::Less);
        less(RawBsonRef::Double(f64::NAN), RawBsonRef::Double(f64::NEG_INFINITY));
        less(RawBsonRef::Double(f64::NAN), RawBsonRef::Int64(i64::MIN));
        less(RawBsonRef::Int64(i64::MAX), RawBsonRef::Double(9_223_372_036_854_775_808.0));
        less(RawBsonRef::Double(9_007_199_254_740_992.0), RawBsonRef::Int64(9_007_199_254_740_993));
        less(RawBsonRef::Double(-1.5), RawBsonRef::Int32(-1));
        less(RawBsonRef::Int32(1), RawBsonRef::Double(1.5));
    }

    #[test]
    fn types_are_ordered_as_in_the_manual() {
        let document = rawdoc! {
            "01": bson::RawBson::MinKey, "02": bson::RawBson::Null, "03": 99, "04": "a", "05": {}, "06": [],
            "07": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![] },
            "08": bson::oid::ObjectId::from_bytes([0; 12]), "09": false, "10": bson::DateTime::MIN,
            "11": bson::Timestamp { time: 0, increment: 0 }, "12": bson::RawBson::MaxKey,
        };
        let values: Vec<_> = fields(&document).map(|(_, value)| value).collect();
        assert!(values.is_sorted_by(|l, r| compare(*l, *r).is_lt()));
    }

    #[test]
    fn documents_compare_type_then_name_then_value() {
        let less = |l: bson::RawDocumentBuf, r: bson::RawDocumentBuf| {
            assert_eq!(compare(RawBsonRef::Document(&l), RawBsonRef::Document(&r)), Ordering::Less);
        };
        less(rawdoc! { "b": 1 }, rawdoc! { "a": "x" });
        less(rawdoc! { "a": 2 }, rawdoc! { "b": 1 });
        less(rawdoc! { "a": 1 }, rawdoc! { "a": 2 });
        less(rawdoc! { "a": 1 }, rawdoc! { "a": 1, "b": 0 });
    }
}
