//! Applying a tree of operators to a document: one pass over its bytes, what is not touched is copied.

use super::{Branch, Node, operator::Outcome};
use crate::{
    error::{Code, CommandError, CommandResult},
    path::array_offset,
    value::{display, elements, fields},
};
use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, raw::CStr};

/// Most elements that one update may add to an array to reach an offset: MongoDB's limit.
const MAX_PADDING: usize = 1_500_000;

impl Branch<'_> {
    /// The document after the operators below this branch. `inserting` is whether an upsert makes it.
    pub(super) fn apply_to_document(&self, document: &RawDocument, inserting: bool) -> CommandResult<RawDocumentBuf> {
        let mut result = RawDocumentBuf::new();
        let mut seen = Vec::new();
        for (name, value) in fields(document) {
            match self.0.get(name.as_str()) {
                None => result.append(name, value),
                Some(node) => {
                    seen.push(name.as_str());
                    match node.apply(name.as_str(), Some(value), inserting)? {
                        Outcome::Keep => result.append(name, value),
                        Outcome::Remove => {}
                        Outcome::Write(value) => result.append(name, value),
                        Outcome::WriteNew(value) => result.append(name, value),
                    }
                }
            }
        }
        for (name, node) in self.0.iter().filter(|(name, node)| !seen.contains(name) && node.creates(inserting)) {
            match node.apply(name, None, inserting)? {
                Outcome::Keep | Outcome::Remove => {}
                Outcome::Write(value) => result.append(c_str(name)?, value),
                Outcome::WriteNew(value) => result.append(c_str(name)?, value),
            }
        }
        Ok(result)
    }

    /// The array after the operators below this branch, whose names are offsets.
    fn apply_to_array(&self, name: &str, array: &RawArray, inserting: bool) -> CommandResult<RawArrayBuf> {
        let mut nodes = Vec::with_capacity(self.0.len());
        for (part, node) in &self.0 {
            let Some(offset) = array_offset(part) else {
                if node.creates(inserting) {
                    return Err(not_viable(part, name, RawBsonRef::Array(array)));
                }
                continue;
            };
            nodes.push((offset, node));
        }
        nodes.sort_by_key(|(offset, _)| *offset);
        let mut nodes = nodes.into_iter().peekable();
        let mut result = RawArrayBuf::new();
        let mut length = 0_usize;
        for value in elements(array) {
            match nodes.next_if(|(offset, _)| *offset == length) {
                None => result.push(value),
                Some((_, node)) => match node.apply(name, Some(value), inserting)? {
                    Outcome::Keep => result.push(value),
                    // An element that is unset leaves its place, so that the others keep theirs.
                    Outcome::Remove => result.push(RawBsonRef::Null),
                    Outcome::Write(value) => result.push(value),
                    Outcome::WriteNew(value) => result.push(value),
                },
            }
            length += 1;
        }
        for (offset, node) in nodes.filter(|(_, node)| node.creates(inserting)) {
            if offset - length > MAX_PADDING {
                let message = format!("can't backfill more than {MAX_PADDING} elements of '{name}'");
                return Err(CommandError::new(Code::CannotBackfillArray, message));
            }
            (length..offset).for_each(|_| result.push(RawBsonRef::Null));
            length = offset + 1;
            match node.apply(name, None, inserting)? {
                Outcome::Keep | Outcome::Remove => result.push(RawBsonRef::Null),
                Outcome::Write(value) => result.push(value),
                Outcome::WriteNew(value) => result.push(value),
            }
        }
        Ok(result)
    }
}

impl<'a> Node<'a> {
    fn creates(&self, inserting: bool) -> bool {
        match self {
            Self::Operator(operator) => operator.creates(inserting),
            Self::Branch(branch) => branch.0.values().any(|node| node.creates(inserting)),
        }
    }

    fn apply(&self, name: &str, value: Option<RawBsonRef<'_>>, inserting: bool) -> CommandResult<Outcome<'a>> {
        match (self, value) {
            (Self::Operator(operator), value) => operator.apply(name, value, inserting),
            (Self::Branch(branch), Some(RawBsonRef::Document(document))) => {
                Ok(Outcome::WriteNew(RawBson::Document(branch.apply_to_document(document, inserting)?)))
            }
            (Self::Branch(branch), Some(RawBsonRef::Array(array))) => {
                Ok(Outcome::WriteNew(RawBson::Array(branch.apply_to_array(name, array, inserting)?)))
            }
            (Self::Branch(branch), None) => {
                let created = branch.apply_to_document(&RawDocumentBuf::new(), inserting)?;
                Ok(Outcome::WriteNew(RawBson::Document(created)))
            }
            (Self::Branch(branch), Some(scalar)) => match branch.0.keys().next() {
                Some(part) if self.creates(inserting) => Err(not_viable(part, name, scalar)),
                _ => Ok(Outcome::Keep),
            },
        }
    }
}

fn not_viable(part: &str, name: &str, value: RawBsonRef<'_>) -> CommandError {
    let message = format!("Cannot create field '{part}' in element {{{name}: {}}}", display(value));
    CommandError::new(Code::PathNotViable, message)
}

fn c_str(name: &str) -> CommandResult<&CStr> {
    name.try_into().map_err(|_| CommandError::bad_value("field names must not contain null bytes"))
}
