//! Aggregation pipelines: `$match`, `$group`, `$count`, `$sort`, `$skip`, `$limit`, and `$project` of stored fields.

mod accumulator;
mod expression;
mod group;

use crate::{
    collection::Collection,
    deadline::Deadline,
    error::{Code, CommandError, CommandResult},
    filter::Filter,
    path::check_field_path,
    projection::Projection,
    record::Record,
    sort::Sort,
    value::{elements, fields, integral, type_name},
};
use bson::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf, raw::CStr};
use group::Group;
use std::{ops::ControlFlow, sync::Arc};

/// The stages, in order. Borrows the command that it came with.
#[derive(Debug)]
pub(crate) struct Pipeline<'a>(Vec<Stage<'a>>);

#[derive(Debug)]
enum Stage<'a> {
    Match(Filter<'a>),
    Group(Group<'a>),
    Count(&'a CStr),
    Sort(Sort<'a>),
    Skip(usize),
    Limit(usize),
    Project(Projection<'a>),
}

impl<'a> Pipeline<'a> {
    pub(crate) fn parse(stages: &'a RawArray) -> CommandResult<Self> {
        let stages = elements(stages).map(|stage| match stage {
            RawBsonRef::Document(document) => Stage::parse(document),
            _ => {
                let message = "Each element of the 'pipeline' array must be an object";
                Err(CommandError::new(Code::TypeMismatch, message))
            }
        });
        Ok(Self(stages.collect::<CommandResult<_>>()?))
    }

    /// What comes out of the last stage when a collection goes into the first.
    pub(crate) fn run(&self, collection: Option<&Collection>, deadline: Deadline) -> CommandResult<Vec<Record>> {
        let everything = Filter::default();
        // A match in the first place is left to the collection, which may have an index for it.
        let (filter, stages) = match &self.0[..] {
            [Stage::Match(filter), rest @ ..] => (filter, rest),
            stages => (&everything, stages),
        };
        let mut documents = match collection {
            Some(collection) => collection.matching(filter, deadline)?,
            None => Vec::new(),
        };
        for stage in stages {
            documents = stage.run(documents, deadline)?;
        }
        Ok(documents)
    }
}

impl<'a> Stage<'a> {
    fn parse(document: &'a RawDocument) -> CommandResult<Self> {
        let mut stage = fields(document);
        let (Some((name, value)), None) = (stage.next(), stage.next()) else {
            let message = "A pipeline stage specification object must contain exactly one field.";
            return Err(CommandError::new(Code::Location(40323), message));
        };
        let name = name.as_str();
        let argument = |code| {
            value.as_document().ok_or_else(|| {
                let message = format!("the {name} specification must be an object, not {}", type_name(value));
                CommandError::new(Code::Location(code), message)
            })
        };
        match name {
            "$match" => Ok(Self::Match(Filter::parse(argument(15959)?)?)),
            "$group" => Ok(Self::Group(Group::parse(argument(15947)?)?)),
            "$sort" => {
                let sort = Sort::parse(argument(15973)?)?;
                if sort.is_empty() {
                    let message = "$sort stage must have at least one sort key";
                    return Err(CommandError::new(Code::Location(15976), message));
                }
                Ok(Self::Sort(sort))
            }
            "$project" => {
                let projection = Projection::parse(argument(15969)?)?;
                let message = "Invalid $project: specification must have at least one field";
                Ok(Self::Project(projection.ok_or_else(|| CommandError::new(Code::Location(51272), message))?))
            }
            "$skip" => amount(name, value, 0, 5107200).map(Self::Skip),
            "$limit" => amount(name, value, 1, 15958).map(Self::Limit),
            "$count" => match value.as_str().map(|field| (field, <&CStr>::try_from(field))) {
                Some((field, Ok(name))) if !field.contains('.') && check_field_path(field).is_ok() => {
                    Ok(Self::Count(name))
                }
                _ => {
                    let message = "the count field must be a non-empty string without '.' that does not start with '$'";
                    Err(CommandError::new(Code::Location(40156), message))
                }
            },
            unknown => {
                let message = format!("Unrecognized pipeline stage name: '{unknown}'");
                Err(CommandError::new(Code::Location(40324), message))
            }
        }
    }

    fn run(&self, mut documents: Vec<Record>, deadline: Deadline) -> CommandResult<Vec<Record>> {
        match self {
            Self::Match(filter) => documents.retain(|document| filter.matches(document)),
            Self::Group(group) => return group.run(&documents, deadline),
            Self::Sort(sort) => sort.apply(&mut documents, |document: &Record| document),
            Self::Skip(skip) => _ = documents.drain(..(*skip).min(documents.len())),
            Self::Limit(limit) => documents.truncate(*limit),
            Self::Project(projection) => {
                deadline.guard(&mut documents, |document| {
                    *document = Arc::new(projection.apply(document));
                    ControlFlow::Continue(())
                })?;
            }
            // Nothing counted is no document, not one with 0.
            Self::Count(_) if documents.is_empty() => {}
            Self::Count(name) => {
                let mut counted = RawDocumentBuf::new();
                counted.append(*name, i32::try_from(documents.len()).unwrap_or(i32::MAX));
                documents = vec![Arc::new(counted)];
            }
        }
        Ok(documents)
    }
}

fn amount(stage: &str, value: RawBsonRef<'_>, least: usize, code: i32) -> CommandResult<usize> {
    let amount = integral(value).and_then(|amount| usize::try_from(amount).ok());
    amount.filter(|amount| *amount >= least).ok_or_else(|| {
        let message = format!("invalid argument to {stage} stage: expected an integer of at least {least}");
        CommandError::new(Code::Location(code), message)
    })
}

#[cfg(test)]
#[path = "aggregate/tests.rs"]
mod tests;
