//! Query conditions: parsed from a `filter` document, then held against documents.

use crate::{
    compare::{compare, type_order},
    error::{CommandError, CommandResult},
    path::{check_path, visit_values},
    value::{elements, fields, truthy, type_name},
};
use bson::{RawBsonRef, RawDocument};
use std::{cmp::Ordering, ops::ControlFlow};

/// A conjunction of conditions. Borrows the command that it came with.
#[derive(Debug, Default)]
pub(crate) struct Filter<'a> {
    clauses: Vec<Clause<'a>>,
}

#[derive(Debug)]
enum Clause<'a> {
    Field { path: &'a str, test: Test<'a> },
    And(Vec<Filter<'a>>),
    Or(Vec<Filter<'a>>),
}

/// A condition on the values at one path: it holds when one of them satisfies it.
#[derive(Debug)]
enum Test<'a> {
    Compare(Relation, RawBsonRef<'a>),
    In(Vec<RawBsonRef<'a>>),
    Exists,
    Not(Vec<Test<'a>>),
}

#[derive(Debug, Clone, Copy)]
enum Relation {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl<'a> Filter<'a> {
    /// Reads a filter document; operators that this store does not have are MongoDB's error for unknown ones.
    pub(crate) fn parse(document: &'a RawDocument) -> CommandResult<Self> {
        let mut clauses = Vec::new();
        for (name, value) in fields(document) {
            match name.as_str() {
                "$and" => clauses.push(Clause::And(parse_branches("$and", value)?)),
                "$or" => clauses.push(Clause::Or(parse_branches("$or", value)?)),
                operator if operator.starts_with('$') => {
                    return Err(CommandError::bad_value(format!("unknown top level operator: {operator}")));
                }
                path => {
                    check_path(path)?;
                    clauses.extend(parse_tests(value)?.into_iter().map(|test| Clause::Field { path, test }));
                }
            }
        }
        Ok(Self { clauses })
    }

    /// Whether a document satisfies all conditions.
    pub(crate) fn matches(&self, document: &RawDocument) -> bool {
        self.clauses.iter().all(|clause| match clause {
            Clause::Field { path, test } => test.holds(document, path),
            Clause::And(filters) => filters.iter().all(|filter| filter.matches(document)),
            Clause::Or(filters) => filters.iter().any(|filter| filter.matches(document)),
        })
    }

    /// The paths that have to equal a value, with that value: what an index can look up, and what an upsert starts from.
    pub(crate) fn equalities(&self) -> Vec<(&'a str, RawBsonRef<'a>)> {
        let mut found = Vec::new();
        self.collect_equalities(&mut found);
        found
    }

    fn collect_equalities(&self, found: &mut Vec<(&'a str, RawBsonRef<'a>)>) {
        for clause in &self.clauses {
            match clause {
                Clause::Field { path, test: Test::Compare(Relation::Equal, value) } => found.push((path, *value)),
                Clause::Field { path, test: Test::In(values) } if values.len() == 1 => found.push((path, values[0])),
                Clause::Field { .. } => {}
                Clause::And(filters) => filters.iter().for_each(|filter| filter.collect_equalities(found)),
                Clause::Or(filters) if filters.len() == 1 => filters[0].collect_equalities(found),
                Clause::Or(_) => {}
            }
        }
    }
}

fn parse_branches<'a>(operator: &str, value: RawBsonRef<'a>) -> CommandResult<Vec<Filter<'a>>> {
    let RawBsonRef::Array(array) = value else {
        return Err(CommandError::bad_value(format!("{operator} must be an array")));
    };
    let branches = elements(array).map(|element| match element {
        RawBsonRef::Document(document) => Filter::parse(document),
        _ => Err(CommandError::bad_value("$or/$and/$nor entries need to be full objects")),
    });
    let branches = branches.collect::<CommandResult<Vec<_>>>()?;
    if branches.is_empty() {
        return Err(CommandError::bad_value("$and/$or/$nor must be a nonempty array"));
    }
    Ok(branches)
}

/// The tests of one field: operators, when the first name is one, else equality with the value.
fn parse_tests(value: RawBsonRef<'_>) -> CommandResult<Vec<Test<'_>>> {
    match value {
        RawBsonRef::Document(document) if is_operators(document) => {
            fields(document).map(|(name, operand)| parse_operator(name.as_str(), operand)).collect()
        }
        value => Ok(vec![Test::Compare(Relation::Equal, literal(value)?)]),
    }
}

fn is_operators(document: &RawDocument) -> bool {
    fields(document).next().is_some_and(|(name, _)| name.as_str().starts_with('$'))
}

fn parse_operator<'a>(operator: &str, operand: RawBsonRef<'a>) -> CommandResult<Test<'a>> {
    let compare = |relation| Ok(Test::Compare(relation, literal(operand)?));
    match operator {
        "$eq" => compare(Relation::Equal),
        "$ne" => Ok(Test::Not(vec![Test::Compare(Relation::Equal, literal(operand)?)])),
        "$gt" => compare(Relation::Greater),
        "$gte" => compare(Relation::GreaterOrEqual),
        "$lt" => compare(Relation::Less),
        "$lte" => compare(Relation::LessOrEqual),
        "$in" => Ok(Test::In(literals("$in", operand)?)),
        "$nin" => Ok(Test::Not(vec![Test::In(literals("$nin", operand)?)])),
        "$exists" if truthy(operand) => Ok(Test::Exists),
        "$exists" => Ok(Test::Not(vec![Test::Exists])),
        "$not" => match operand {
            RawBsonRef::Document(document) if document.is_empty() => {
                Err(CommandError::bad_value("$not cannot be empty"))
            }
            RawBsonRef::Document(document) => {
                let tests = fields(document).map(|(name, operand)| parse_operator(name.as_str(), operand));
                Ok(Test::Not(tests.collect::<CommandResult<_>>()?))
            }
            _ => Err(CommandError::bad_value("$not needs a document of operators")),
        },
        unknown => Err(CommandError::bad_value(format!("unknown operator: {unknown}"))),
    }
}

fn literals<'a>(operator: &str, operand: RawBsonRef<'a>) -> CommandResult<Vec<RawBsonRef<'a>>> {
    match operand {
        RawBsonRef::Array(array) => elements(array).map(literal).collect(),
        other => Err(CommandError::bad_value(format!("{operator} needs an array, not {}", type_name(other)))),
    }
}

/// A regular expression would be a pattern here, not a value.
fn literal(value: RawBsonRef<'_>) -> CommandResult<RawBsonRef<'_>> {
    match value {
        RawBsonRef::RegularExpression(regex) => Err(CommandError::bad_value(format!(
            "regular expressions are not supported: /{}/; compare with $eq or $in",
            regex.pattern
        ))),
        value => Ok(value),
    }
}

impl Test<'_> {
    fn holds(&self, document: &RawDocument, path: &str) -> bool {
        if let Self::Not(tests) = self {
            return !tests.iter().all(|test| test.holds(document, path));
        }
        let satisfied = |value: Option<RawBsonRef<'_>>| match (self, value) {
            (Self::Exists, value) => value.is_some(),
            (Self::Compare(relation, operand), value) => relation.holds(value, *operand),
            (Self::In(operands), value) => operands.iter().any(|operand| Relation::Equal.holds(value, *operand)),
            (Self::Not(_), _) => false,
        };
        let mut stop_at_first =
            |value| if satisfied(value) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        visit_values(document, path, &mut stop_at_first).is_break()
    }
}

impl Relation {
    /// Values are related within their type only, but to MinKey and MaxKey all are; a missing value is like null.
    fn holds(self, value: Option<RawBsonRef<'_>>, operand: RawBsonRef<'_>) -> bool {
        let value = value.unwrap_or(RawBsonRef::Null);
        let is_bound = matches!(operand, RawBsonRef::MinKey | RawBsonRef::MaxKey);
        if type_order(value) != type_order(operand) && !is_bound {
            return false;
        }
        let is_nan = |value| matches!(value, RawBsonRef::Double(number) if number.is_nan());
        let ordering = compare(value, operand);
        if is_nan(value) != is_nan(operand) && !is_bound {
            return false;
        }
        match self {
            Self::Equal => ordering == Ordering::Equal,
            Self::Greater => ordering == Ordering::Greater,
            Self::GreaterOrEqual => ordering != Ordering::Less,
            Self::Less => ordering == Ordering::Less,
            Self::LessOrEqual => ordering != Ordering::Greater,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{any_document, any_value};
    use bson::{Bson, Document, RawDocumentBuf, doc};
    use proptest::prelude::*;

    fn matches(filter: Document, document: &Document) -> bool {
        let (filter, document) =
            (RawDocumentBuf::try_from(&filter).unwrap(), RawDocumentBuf::try_from(document).unwrap());
        Filter::parse(&filter).unwrap().matches(&document)
    }

    fn error(filter: Document) -> String {
        let filter = RawDocumentBuf::try_from(&filter).unwrap();
        Filter::parse(&filter).unwrap_err().message
    }

    #[test]
    fn values_and_missing_values() {
        let document = doc! { "a": 1, "b": { "c": "x" }, "n": null };
        for (filter, expected) in [
            (doc! { "a": 1_i64 }, true),
            (doc! { "a": 1.0 }, true),
            (doc! { "a": "1" }, false),
            (doc! { "b.c": "x" }, true),
            (doc! { "b": { "c": "x" } }, true),
            (doc! { "b": { "c": "x", "d": 1 } }, false),
            (doc! { "n": null }, true),
            (doc! { "missing": null }, true),
            (doc! { "a.x": null }, true),
            (doc! { "n": { "$exists": true } }, true),
            (doc! { "missing": { "$exists": true } }, false),
            (doc! { "missing": { "$exists": false } }, true),
            (doc! { "missing": { "$ne": 1 } }, true),
            (doc! { "a": { "$gt": 0, "$lt": 2 } }, true),
            (doc! { "a": { "$gt": "" } }, false),
            (doc! { "a": { "$gt": Bson::MinKey } }, true),
            (doc! { "a": { "$in": [5, 1.0] } }, true),
            (doc! { "a": { "$nin": [5, 1.0] } }, false),
            (doc! { "a": { "$not": { "$gte": 1 } } }, false),
            (doc! { "$or": [{ "a": 2 }, { "b.c": "x" }] }, true),
            (doc! { "$and": [{ "a": 2 }, { "b.c": "x" }] }, false),
            (doc! {}, true),
        ] {
            assert_eq!(matches(filter.clone(), &document), expected, "{filter}");
        }
    }

    #[test]
    fn arrays_match_as_a_whole_and_by_element() {
        let document = doc! { "a": [1, 5], "d": [{ "x": 1 }, { "x": [2, 3] }], "e": [] };
        for (filter, expected) in [
            (doc! { "a": 5 }, true),
            (doc! { "a": [1, 5] }, true),
            (doc! { "a": [5, 1] }, false),
            (doc! { "a.1": 5 }, true),
            (doc! { "a": { "$gt": 1, "$lt": 5 } }, true),
            (doc! { "a": { "$ne": 5 } }, false),
            (doc! { "d.x": 3 }, true),
            (doc! { "d.1.x": 2 }, true),
            (doc! { "d.0.x": 2 }, false),
            (doc! { "e.x": null }, false),
            (doc! { "e": { "$exists": true } }, true),
        ] {
            assert_eq!(matches(filter.clone(), &document), expected, "{filter}");
        }
    }

    #[test]
    fn nan_is_only_related_to_itself() {
        let document = doc! { "a": f64::NAN };
        assert!(!matches(doc! { "a": { "$lt": 1 } }, &document));
        assert!(matches(doc! { "a": { "$lte": f64::NAN } }, &document));
        assert!(!matches(doc! { "a": { "$gte": f64::NAN } }, &doc! { "a": 1 }));
    }

    #[test]
    fn what_is_not_supported_is_an_error() {
        assert_eq!(error(doc! { "a": { "$foo": 1 } }), "unknown operator: $foo");
        assert_eq!(error(doc! { "a": { "$gt": 1, "b": 2 } }), "unknown operator: b");
        assert_eq!(error(doc! { "$where": "x" }), "unknown top level operator: $where");
        assert_eq!(error(doc! { "$or": [] }), "$and/$or/$nor must be a nonempty array");
        assert_eq!(error(doc! { "a": { "$in": 1 } }), "$in needs an array, not int");
        assert!(
            error(doc! { "a": Bson::RegularExpression(bson::Regex {
            pattern: bson::raw::cstr!("x").into(), options: bson::raw::cstr!("").into() }) })
            .contains("/x/")
        );
    }

    proptest! {
        #[test]
        fn a_value_equals_itself_and_negations_negate(document in any_document(), operand in any_value()) {
            for (name, value) in &document {
                let expected = !matches!(value, Bson::Document(inner) if inner.keys().any(|key| key.starts_with('$')));
                prop_assert_eq!(matches(doc! { name: { "$eq": value.clone() } }, &document), expected);
            }
            for (operator, opposite) in [("$eq", "$ne"), ("$in", "$nin")] {
                let operand = if operator == "$in" { Bson::Array(vec![operand.clone()]) } else { operand.clone() };
                let holds = matches(doc! { "a": { operator: operand.clone() } }, &document);
                prop_assert_eq!(matches(doc! { "a": { opposite: operand } }, &document), !holds);
            }
        }
    }
}
