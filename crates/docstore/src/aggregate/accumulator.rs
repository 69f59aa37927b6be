//! Accumulators of `$group`: `$sum`, `$avg`, `$min`, `$max`, `$first`.

use super::expression::Expression;
use crate::{
    compare::compare,
    error::{Code, CommandError, CommandResult},
    value::{fields, type_name},
};
use bson::{RawBson, RawBsonRef, RawDocument};
use std::cmp::Ordering;

/// Which values are gathered, and how.
#[derive(Debug)]
pub(super) struct Accumulator<'a> {
    kind: Kind,
    expression: Expression<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Sum,
    Average,
    Min,
    Max,
    First,
}

/// What one group has gathered so far.
#[derive(Debug)]
pub(super) enum State {
    Sum(Total),
    Average(Total),
    /// The best value, and how another has to compare to it to be better.
    Best(Ordering, Option<RawBson>),
    /// The first document's value, null when it had none.
    First(Option<RawBson>),
}

/// Numbers added up. Integers are exact; doubles keep a compensation (Neumaier 1974) so that the order of many does not matter.
#[derive(Debug, Default)]
pub(super) struct Total {
    integers: i128,
    doubles: f64,
    compensation: f64,
    count: u64,
    has_long: bool,
    has_double: bool,
}

impl<'a> Accumulator<'a> {
    /// Reads `{$sum: expression}`, the value of the field `name`.
    pub(super) fn parse(name: &str, value: RawBsonRef<'a>) -> CommandResult<Self> {
        let RawBsonRef::Document(document) = value else {
            let message = format!("The field '{name}' must be an accumulator object, not {}", type_name(value));
            return Err(CommandError::new(Code::Location(40234), message));
        };
        let mut operators = fields(document);
        let (Some((operator, operand)), None) = (operators.next(), operators.next()) else {
            let message = format!("The field '{name}' must specify one accumulator");
            return Err(CommandError::new(Code::Location(40238), message));
        };
        let kind = match operator.as_str() {
            "$sum" => Kind::Sum,
            "$avg" => Kind::Average,
            "$min" => Kind::Min,
            "$max" => Kind::Max,
            "$first" => Kind::First,
            unknown => {
                let message = format!("unknown group operator '{unknown}'");
                return Err(CommandError::new(Code::Location(15952), message));
            }
        };
        Ok(Self { kind, expression: Expression::parse(operand)? })
    }

    /// The state of an empty group.
    pub(super) fn start(&self) -> State {
        match self.kind {
            Kind::Sum => State::Sum(Total::default()),
            Kind::Average => State::Average(Total::default()),
            Kind::Min => State::Best(Ordering::Less, None),
            Kind::Max => State::Best(Ordering::Greater, None),
            Kind::First => State::First(None),
        }
    }

    /// Adds a document to a group.
    pub(super) fn add(&self, state: &mut State, document: &RawDocument) {
        match state {
            State::First(Some(_)) => {}
            State::First(first) => *first = Some(self.expression.evaluate(document).unwrap_or(RawBson::Null)),
            State::Sum(total) | State::Average(total) => {
                if let Some(value) = self.expression.evaluate(document) {
                    total.add(value.as_raw_bson_ref());
                }
            }
            State::Best(wanted, best) => {
                let value = self.expression.evaluate(document).filter(|value| *value != RawBson::Null);
                let is_better = |value: &RawBson, best: &RawBson| {
                    compare(value.as_raw_bson_ref(), best.as_raw_bson_ref()) == *wanted
                };
                if let Some(value) = value
                    && best.as_ref().is_none_or(|best| is_better(&value, best))
                {
                    *best = Some(value);
                }
            }
        }
    }
}

impl State {
    /// The value of a complete group.
    pub(super) fn finish(self) -> RawBson {
        match self {
            Self::Sum(total) => total.sum(),
            Self::Average(total) => total.average(),
            Self::Best(_, value) | Self::First(value) => value.unwrap_or(RawBson::Null),
        }
    }
}

impl Total {
    /// Adds a number; MongoDB leaves out what is none.
    fn add(&mut self, value: RawBsonRef<'_>) {
        match value {
            RawBsonRef::Int32(value) => self.integers += i128::from(value),
            RawBsonRef::Int64(value) => {
                self.integers += i128::from(value);
                self.has_long = true;
            }
            RawBsonRef::Double(value) => {
                self.add_double(value);
                self.has_double = true;
            }
            _ => return,
        }
        self.count += 1;
    }

    fn add_double(&mut self, value: f64) {
        let sum = self.doubles + value;
        let (large, small) =
            if self.doubles.abs() >= value.abs() { (self.doubles, value) } else { (value, self.doubles) };
        // Beyond the finite numbers the difference would turn an infinity into NaN.
        if sum.is_finite() {
            self.compensation += (large - sum) + small;
        }
        self.doubles = sum;
    }

    fn as_double(&self) -> f64 {
        self.integers as f64 + self.doubles + self.compensation
    }

    /// As wide as its widest number, and wider where the sum asks for it.
    fn sum(&self) -> RawBson {
        match (i32::try_from(self.integers), i64::try_from(self.integers)) {
            _ if self.has_double => RawBson::Double(self.as_double()),
            (Ok(sum), _) if !self.has_long => RawBson::Int32(sum),
            (_, Ok(sum)) => RawBson::Int64(sum),
            _ => RawBson::Double(self.as_double()),
        }
    }

    fn average(&self) -> RawBson {
        if self.count == 0 { RawBson::Null } else { RawBson::Double(self.as_double() / self.count as f64) }
    }
}
