//! Updates: parsed from an update document, then applied to a document, giving a new one.

mod apply;
mod operator;

use crate::{
    compare::compare,
    error::{Code, CommandError, CommandResult},
    filter::Filter,
    path::{check_field_path, split},
    record::{MAX_DOCUMENT_BYTES, with_id_first},
    value::{MAX_STORED_DEPTH, check, display, field, fields},
};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use operator::{Modifier, Operator};
use std::collections::BTreeMap;

/// What an update does to a document. Borrows the command that it came with.
#[derive(Debug)]
pub(crate) enum Update<'a> {
    /// Another document in its place, with the same `_id`.
    Replace(&'a RawDocument),
    /// Operators on some of its fields.
    Modify(Branch<'a>),
}

/// The fields that operators touch, as a tree of their paths. Sorted, because new fields are added in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct Branch<'a>(BTreeMap<&'a str, Node<'a>>);

#[derive(Debug)]
enum Node<'a> {
    Branch(Branch<'a>),
    Operator(Operator<'a>),
}

impl<'a> Update<'a> {
    /// Reads the `u` of an update or the `update` of a findAndModify.
    pub(crate) fn parse(value: RawBsonRef<'a>) -> CommandResult<Self> {
        let document = match value {
            RawBsonRef::Document(document) => document,
            RawBsonRef::Array(_) => {
                let message = "updates with an aggregation pipeline are not supported; use update operators";
                return Err(CommandError::new(Code::NotImplemented, message));
            }
            _ => {
                let message = "Update argument must be either an object or an array";
                return Err(CommandError::new(Code::FailedToParse, message));
            }
        };
        if !fields(document).next().is_some_and(|(name, _)| name.as_str().starts_with('$')) {
            return match fields(document).find(|(name, _)| name.as_str().starts_with('$')) {
                None => Ok(Self::Replace(document)),
                Some((name, _)) => {
                    let message = format!(
                        "The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's replacement document."
                    );
                    Err(CommandError::new(Code::DollarPrefixedFieldName, message))
                }
            };
        }
        let mut root = Branch::default();
        for (name, operands) in fields(document) {
            let modifier = Modifier::parse(name.as_str())?;
            let RawBsonRef::Document(operands) = operands else {
                let message = format!(
                    "Modifiers operate on fields but we found {} instead. For example: {{$mod: {{<field>: ...}}}} not {{{name}: {}}}",
                    crate::value::type_name(operands),
                    display(operands)
                );
                return Err(CommandError::new(Code::FailedToParse, message));
            };
            for (path, operand) in fields(operands) {
                check_field_path(path.as_str())?;
                let operator = Operator::parse(modifier, path.as_str(), operand)?;
                root.insert(path.as_str(), path.as_str(), Node::Operator(operator))?;
            }
        }
        Ok(Self::Modify(root))
    }

    /// Whether this is a replacement, which may change one document only.
    pub(crate) fn is_replacement(&self) -> bool {
        matches!(self, Self::Replace(_))
    }

    /// The document after the update; `None` when it is the same.
    pub(crate) fn apply(&self, document: &RawDocument) -> CommandResult<Option<RawDocumentBuf>> {
        let id = field(document, "_id");
        let result = match self {
            Self::Replace(replacement) => with_id_first(replacement, id),
            Self::Modify(branch) => branch.apply_to_document(document, false)?,
        };
        if result.as_bytes() == document.as_bytes() {
            return Ok(None);
        }
        check_id(id, &result)?;
        check_result(&result)?;
        Ok(Some(result))
    }

    /// The document that an upsert inserts when nothing matched: the filter's equalities, then the update.
    pub(crate) fn insertion(&self, filter: &Filter<'a>) -> CommandResult<RawDocumentBuf> {
        let equalities = filter.equalities();
        let result = match self {
            Self::Replace(replacement) => {
                let id = equalities.iter().find(|(path, _)| *path == "_id").map(|(_, value)| *value);
                let result = with_id_first(replacement, id);
                check_id(id, &result)?;
                result
            }
            Self::Modify(branch) => {
                let mut start = Branch::default();
                for (path, value) in equalities {
                    check_field_path(path)?;
                    start.insert(path, path, Node::Operator(Operator::Set(value)))?;
                }
                let start = start.apply_to_document(&RawDocumentBuf::new(), true)?;
                let result = branch.apply_to_document(&start, true)?;
                check_id(field(&start, "_id"), &result)?;
                with_id_first(&result, None)
            }
        };
        check_result(&result)?;
        Ok(result)
    }
}

impl<'a> Branch<'a> {
    fn insert(&mut self, whole: &str, path: &'a str, node: Node<'a>) -> CommandResult<()> {
        let (name, rest) = split(path);
        let conflict = || {
            let at = &whole[..whole.len() - rest.map_or(0, |rest| rest.len() + 1)];
            let message = format!("Updating the path '{whole}' would create a conflict at '{at}'");
            CommandError::new(Code::ConflictingUpdateOperators, message)
        };
        match (self.0.get_mut(name), rest) {
            (Some(Node::Branch(below)), Some(rest)) => below.insert(whole, rest, node),
            (Some(_), _) => Err(conflict()),
            (None, None) => {
                self.0.insert(name, node);
                Ok(())
            }
            (None, Some(rest)) => {
                let mut below = Branch::default();
                below.insert(whole, rest, node)?;
                self.0.insert(name, Node::Branch(below));
                Ok(())
            }
        }
    }
}

fn check_id(before: Option<RawBsonRef<'_>>, after: &RawDocument) -> CommandResult<()> {
    let Some(before) = before else { return Ok(()) };
    if field(after, "_id").is_some_and(|after| compare(before, after).is_eq()) {
        return Ok(());
    }
    let message = "Performing an update on the path '_id' would modify the immutable field '_id'";
    Err(CommandError::new(Code::ImmutableField, message))
}

/// An update can make a document larger and deeper than what a command may hold.
fn check_result(document: &RawDocument) -> CommandResult<()> {
    if document.as_bytes().len() > MAX_DOCUMENT_BYTES {
        let message = format!("Resulting document after update is larger than {MAX_DOCUMENT_BYTES}");
        return Err(CommandError::new(Code::Location(17419), message));
    }
    match check(document) {
        Ok(contents) if contents.depth <= MAX_STORED_DEPTH => Ok(()),
        _ => {
            let message = format!("Resulting document exceeds {MAX_STORED_DEPTH} levels of nesting; flatten it");
            Err(CommandError::new(Code::Overflow, message))
        }
    }
}

#[cfg(test)]
#[path = "update/tests.rs"]
mod tests;
