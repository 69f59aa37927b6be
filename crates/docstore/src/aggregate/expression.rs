//! Expressions: constants, field paths, and documents of these. Operators are MongoDB's error for unknown ones.

use crate::{
    error::{Code, CommandError, CommandResult},
    path::{check_field_path, split},
    value::{elements, field, fields},
};
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, raw::CStr};

/// What is computed from a document.
#[derive(Debug)]
pub(super) enum Expression<'a> {
    Constant(RawBsonRef<'a>),
    Path(&'a str),
    Document(Vec<(&'a CStr, Expression<'a>)>),
}

impl<'a> Expression<'a> {
    pub(super) fn parse(value: RawBsonRef<'a>) -> CommandResult<Self> {
        match value {
            RawBsonRef::String(text) => match text.strip_prefix('$') {
                Some(path) => {
                    // `$$ROOT` and its like: a path may not start with a dollar.
                    check_field_path(path)?;
                    Ok(Self::Path(path))
                }
                None => Ok(Self::Constant(value)),
            },
            RawBsonRef::Document(document) => {
                let parsed = fields(document).map(|(name, value)| {
                    if name.as_str().starts_with('$') {
                        let message = format!("Unrecognized expression '{name}'");
                        return Err(CommandError::new(Code::InvalidPipelineOperator, message));
                    }
                    Ok((name, Self::parse(value)?))
                });
                Ok(Self::Document(parsed.collect::<CommandResult<_>>()?))
            }
            RawBsonRef::Array(_) => {
                let message = "array expressions are not supported; use a path or a document";
                Err(CommandError::new(Code::NotImplemented, message))
            }
            value => Ok(Self::Constant(value)),
        }
    }

    /// The value for a document; `None` when a path leads nowhere.
    pub(super) fn evaluate(&self, document: &RawDocument) -> Option<RawBson> {
        match self {
            Self::Constant(value) => Some(RawBson::from(*value)),
            Self::Path(path) => value_at(RawBsonRef::Document(document), path),
            Self::Document(parts) => {
                let mut result = RawDocumentBuf::new();
                for (name, expression) in parts {
                    if let Some(value) = expression.evaluate(document) {
                        result.append(*name, value);
                    }
                }
                Some(RawBson::Document(result))
            }
        }
    }
}

/// The value at a path. An array on the way gives the array of what its elements have there; offsets are not paths here.
fn value_at(value: RawBsonRef<'_>, path: &str) -> Option<RawBson> {
    match value {
        RawBsonRef::Document(document) => {
            let (name, rest) = split(path);
            let found = field(document, name)?;
            match rest {
                None => Some(RawBson::from(found)),
                Some(rest) => value_at(found, rest),
            }
        }
        RawBsonRef::Array(array) => {
            let mut found = RawArrayBuf::new();
            elements(array).filter_map(|element| value_at(element, path)).for_each(|value| found.push(value));
            Some(RawBson::Array(found))
        }
        _ => None,
    }
}
