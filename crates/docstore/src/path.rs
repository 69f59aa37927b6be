//! Dotted paths into documents, with MongoDB's rules for the arrays on the way.

use crate::{
    error::{Code, CommandError, CommandResult},
    value::{elements, field},
};
use bson::{RawArray, RawBsonRef, RawDocument};
use std::ops::ControlFlow;

/// Most parts of a path: MongoDB's limit. It bounds the recursions along paths.
const MAX_PARTS: usize = 200;

/// Most parts that may be offsets. Each is also a name, so the ways that a path can lead through arrays double with it.
const MAX_OFFSETS: usize = 10;

/// Checks a path that is used to read: any names, but not too many.
pub(crate) fn check_path(path: &str) -> CommandResult<()> {
    let too_long = |count: usize, what, most: usize| {
        let message = format!("FieldPath is too long: {count} {what} where {most} are allowed; shorten it");
        Err(CommandError::new(Code::Overflow, message))
    };
    let (mut parts, mut offsets) = (0, 0);
    for part in path.split('.') {
        parts += 1;
        offsets += usize::from(array_offset(part).is_some());
    }
    if parts > MAX_PARTS {
        return too_long(parts, "parts", MAX_PARTS);
    }
    if offsets > MAX_OFFSETS {
        return too_long(offsets, "array offsets", MAX_OFFSETS);
    }
    Ok(())
}

/// Checks a path that is used to write, or that names a field of a result.
pub(crate) fn check_field_path(path: &str) -> CommandResult<()> {
    check_path(path)?;
    for part in path.split('.') {
        if part.is_empty() {
            let message = format!("The update path '{path}' contains an empty field name, which is not allowed.");
            return Err(CommandError::new(Code::EmptyFieldName, message));
        }
        if part.starts_with('$') {
            let message = format!("The dollar ($) prefixed field '{part}' in '{path}' is not allowed in this context.");
            return Err(CommandError::new(Code::DollarPrefixedFieldName, message));
        }
    }
    Ok(())
}

/// Where a path leads in a document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Leaf<'d> {
    /// It ends before its last part.
    Missing,
    /// A value to be taken as it is; an array only when the path names it by its offset in another.
    Value(RawBsonRef<'d>),
    /// An array, whose elements count as values at this path too.
    Array(&'d RawArray),
}

/// Shows `visit` every value that a condition on `path` is held against: the values there and, of an
/// array, its elements too; `None` where the path ends before its last part.
pub(crate) fn visit_values<'d>(
    document: &'d RawDocument,
    path: &str,
    visit: &mut dyn FnMut(Option<RawBsonRef<'d>>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    visit_leaves(document, path, &mut |leaf| match leaf {
        Leaf::Missing => visit(None),
        Leaf::Value(value) => visit(Some(value)),
        Leaf::Array(array) => {
            visit(Some(RawBsonRef::Array(array)))?;
            elements(array).try_for_each(|element| visit(Some(element)))
        }
    })
}

/// Shows `visit` every place to which a path leads: several when there are arrays on the way.
pub(crate) fn visit_leaves<'d>(
    document: &'d RawDocument,
    path: &str,
    visit: &mut dyn FnMut(Leaf<'d>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (name, rest) = split(path);
    match (field(document, name), rest) {
        (None, _) => visit(Leaf::Missing),
        (Some(RawBsonRef::Array(array)), None) => visit(Leaf::Array(array)),
        (Some(value), None) => visit(Leaf::Value(value)),
        (Some(value), Some(rest)) => visit_below(value, rest, visit),
    }
}

fn visit_below<'d>(
    value: RawBsonRef<'d>,
    path: &str,
    visit: &mut dyn FnMut(Leaf<'d>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match value {
        RawBsonRef::Document(document) => visit_leaves(document, path, visit),
        RawBsonRef::Array(array) => visit_array(array, path, visit),
        _ => visit(Leaf::Missing),
    }
}

/// In an array a part is a name in the documents that it holds, and also an offset.
fn visit_array<'d>(
    array: &'d RawArray,
    path: &str,
    visit: &mut dyn FnMut(Leaf<'d>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let (name, rest) = split(path);
    let offset = array_offset(name);
    for (index, element) in elements(array).enumerate() {
        if let RawBsonRef::Document(document) = element {
            visit_leaves(document, path, visit)?;
        }
        if offset == Some(index) {
            match rest {
                None => visit(Leaf::Value(element))?,
                Some(rest) => visit_below(element, rest, visit)?,
            }
        }
    }
    ControlFlow::Continue(())
}

/// The first part of a path, and what follows it.
pub(crate) fn split(path: &str) -> (&str, Option<&str>) {
    path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)))
}

/// The offset that a part of a path names: decimal, without leading zeros.
pub(crate) fn array_offset(part: &str) -> Option<usize> {
    let is_offset = part == "0" || (!part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit()));
    if is_offset { part.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::display;
    use bson::rawdoc;

    fn values(document: &RawDocument, path: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let _ = visit_values(document, path, &mut |value| {
            seen.push(value.map_or_else(|| "missing".to_owned(), display));
            ControlFlow::Continue(())
        });
        seen
    }

    #[test]
    fn arrays_are_entered_by_name_and_by_offset() {
        let document = rawdoc! { "a": [{ "b": [1, 2] }, { "c": 3 }, 4, [5, 6]], "n": 7, "e": [] };
        assert_eq!(values(&document, "n"), ["7"]);
        assert_eq!(values(&document, "a.b"), ["[1, 2]", "1", "2", "missing"]);
        assert_eq!(values(&document, "a.2"), ["missing", "missing", "4"]);
        assert_eq!(values(&document, "a.3"), ["missing", "missing", "[5, 6]"]);
        assert_eq!(values(&document, "a.3.1"), ["missing", "missing", "6"]);
        assert_eq!(values(&document, "n.x"), ["missing"]);
        assert_eq!(values(&document, "x.y"), ["missing"]);
        assert_eq!(values(&document, "e.x"), [""; 0]);
    }

    #[test]
    fn paths_are_checked() {
        assert_eq!(check_path(&"a.".repeat(MAX_PARTS)).unwrap_err().code, Code::Overflow);
        assert_eq!(check_path(&"0.".repeat(MAX_OFFSETS + 1)).unwrap_err().code, Code::Overflow);
        assert_eq!(check_field_path("a..b").unwrap_err().code, Code::EmptyFieldName);
        assert_eq!(check_field_path("a.$[]").unwrap_err().code, Code::DollarPrefixedFieldName);
        assert!(check_field_path("a.0.b").is_ok());
    }
}
