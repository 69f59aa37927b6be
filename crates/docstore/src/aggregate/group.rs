//! `$group`: documents with equal keys become one.

use super::{
    accumulator::{Accumulator, State},
    expression::Expression,
};
use crate::{
    deadline::Deadline,
    error::{Code, CommandError, CommandResult},
    key,
    path::check_field_path,
    record::Record,
    value::fields,
};
use bson::{
    RawBson, RawDocument, RawDocumentBuf,
    raw::{CStr, cstr},
};
use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

/// The key, and what is gathered for each.
#[derive(Debug)]
pub(super) struct Group<'a> {
    key: Expression<'a>,
    accumulators: Vec<(&'a CStr, Accumulator<'a>)>,
}

impl<'a> Group<'a> {
    pub(super) fn parse(document: &'a RawDocument) -> CommandResult<Self> {
        let (mut key, mut accumulators) = (None, Vec::new());
        for (name, value) in fields(document) {
            if name.as_str() == "_id" {
                key = Some(Expression::parse(value)?);
                continue;
            }
            check_field_path(name.as_str())?;
            if name.as_str().contains('.') {
                let message = format!("The field name '{name}' cannot contain '.'");
                return Err(CommandError::new(Code::Location(40235), message));
            }
            accumulators.push((name, Accumulator::parse(name.as_str(), value)?));
        }
        let missing = || CommandError::new(Code::Location(15955), "a group specification must include an _id");
        Ok(Self { key: key.ok_or_else(missing)?, accumulators })
    }

    /// One document a key, in the order in which the keys were first seen.
    pub(super) fn run(&self, documents: &[Record], deadline: Deadline) -> CommandResult<Vec<Record>> {
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut groups: Vec<(RawBson, Vec<State>)> = Vec::new();
        deadline.guard(documents, |document| {
            let value = self.key.evaluate(document).unwrap_or(RawBson::Null);
            let mut bytes = Vec::new();
            key::append(value.as_raw_bson_ref(), &mut bytes);
            let place = *places.entry(bytes).or_insert_with(|| {
                groups.push((value, self.accumulators.iter().map(|(_, accumulator)| accumulator.start()).collect()));
                groups.len() - 1
            });
            for ((_, accumulator), state) in self.accumulators.iter().zip(&mut groups[place].1) {
                accumulator.add(state, document);
            }
            ControlFlow::Continue(())
        })?;
        let finished = groups.into_iter().map(|(key, states)| {
            let mut result = RawDocumentBuf::new();
            result.append(cstr!("_id"), key);
            for ((name, _), state) in self.accumulators.iter().zip(states) {
                result.append(*name, state.finish());
            }
            Arc::new(result)
        });
        Ok(finished.collect())
    }
}
