//! Sort orders: parsed from a `sort` document, then applied to documents.

use crate::{
    compare::compare,
    error::{Code, CommandError, CommandResult},
    path::{Leaf, check_field_path, visit_leaves},
    value::{elements, fields, integral},
};
use bson::{RawBsonRef, RawDocument};
use std::{cmp::Ordering, ops::ControlFlow};

/// Which way one field is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    /// 1 or -1, of any numeric type.
    pub(crate) fn parse(value: RawBsonRef<'_>) -> Option<Self> {
        match integral(value)? {
            1 => Some(Self::Ascending),
            -1 => Some(Self::Descending),
            _ => None,
        }
    }

    fn of(self, ordering: Ordering) -> Ordering {
        match self {
            Self::Ascending => ordering,
            Self::Descending => ordering.reverse(),
        }
    }
}

/// The fields to sort by, most significant first. Empty leaves the order as it is.
#[derive(Debug, Default)]
pub(crate) struct Sort<'a> {
    fields: Vec<(&'a str, Direction)>,
}

impl<'a> Sort<'a> {
    pub(crate) fn parse(document: &'a RawDocument) -> CommandResult<Self> {
        let parsed = fields(document).map(|(path, value)| {
            check_field_path(path.as_str())?;
            let direction = Direction::parse(value).ok_or_else(|| {
                let message = "$sort key ordering must be 1 (for ascending) or -1 (for descending)";
                CommandError::new(Code::Location(15975), message)
            })?;
            Ok((path.as_str(), direction))
        });
        Ok(Self { fields: parsed.collect::<CommandResult<_>>()? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Sorts what holds a document each; equal ones keep their order.
    pub(crate) fn apply<T>(&self, items: &mut Vec<T>, document: impl Fn(&T) -> &RawDocument) {
        if self.is_empty() {
            return;
        }
        let order = {
            let keys: Vec<_> = items.iter().map(|item| self.key(document(item))).collect();
            let mut order: Vec<_> = (0..items.len()).collect();
            order.sort_by(|left, right| self.compare(&keys[*left], &keys[*right]));
            order
        };
        let mut slots: Vec<_> = std::mem::take(items).into_iter().map(Some).collect();
        items.extend(order.into_iter().filter_map(|index| slots[index].take()));
    }

    fn key<'d>(&self, document: &'d RawDocument) -> Vec<RawBsonRef<'d>> {
        self.fields.iter().map(|(path, direction)| sort_value(document, path, *direction)).collect()
    }

    fn compare(&self, left: &[RawBsonRef<'_>], right: &[RawBsonRef<'_>]) -> Ordering {
        let fields = self.fields.iter().zip(left.iter().zip(right));
        fields
            .map(|((_, direction), (l, r))| direction.of(compare(*l, *r)))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

/// An array sorts by its smallest element, descending by its largest; an empty array and a missing value as null.
fn sort_value<'d>(document: &'d RawDocument, path: &str, direction: Direction) -> RawBsonRef<'d> {
    let mut best: Option<RawBsonRef<'d>> = None;
    let mut offer = |value| {
        if best.is_none_or(|best| direction.of(compare(value, best)).is_lt()) {
            best = Some(value);
        }
    };
    let _ = visit_leaves(document, path, &mut |leaf| {
        match leaf {
            Leaf::Missing => offer(RawBsonRef::Null),
            Leaf::Value(value) => offer(value),
            Leaf::Array(array) if array.is_empty() => offer(RawBsonRef::Null),
            Leaf::Array(array) => elements(array).for_each(&mut offer),
        }
        ControlFlow::Continue(())
    });
    best.unwrap_or(RawBsonRef::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Document, RawDocumentBuf, doc, rawdoc};

    fn sorted(sort: RawDocumentBuf, documents: &[Document]) -> Vec<i32> {
        let mut documents: Vec<_> = documents.iter().map(|d| RawDocumentBuf::try_from(d).unwrap()).collect();
        Sort::parse(&sort).unwrap().apply(&mut documents, |document| document);
        documents.iter().map(|document| document.get_i32("_id").unwrap()).collect()
    }

    #[test]
    fn several_fields_arrays_and_missing_values() {
        let documents = [
            doc! { "_id": 1, "a": 2, "b": "x" },
            doc! { "_id": 2, "a": 1.5, "b": "x" },
            doc! { "_id": 3, "b": "y" },
            doc! { "_id": 4, "a": [0, 9], "b": "x" },
            doc! { "_id": 5, "a": [], "b": "x" },
            doc! { "_id": 6, "a": 2_i64, "b": "w" },
        ];
        assert_eq!(sorted(rawdoc! { "a": 1 }, &documents), [3, 5, 4, 2, 1, 6]);
        assert_eq!(sorted(rawdoc! { "a": -1 }, &documents), [4, 1, 6, 2, 3, 5]);
        assert_eq!(sorted(rawdoc! { "b": 1, "a": -1 }, &documents), [6, 4, 1, 2, 5, 3]);
        assert_eq!(sorted(rawdoc! {}, &documents), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn unknown_orders_are_refused() {
        assert!(Sort::parse(&rawdoc! { "a": 2 }).is_err());
        assert!(Sort::parse(&rawdoc! { "$natural": 1 }).is_err());
    }
}
