//! The update operators: what each does to the value of one field.

use crate::{
    error::{Code, CommandError, CommandResult},
    value::{display, elements, fields, type_name},
};
use bson::{RawArrayBuf, RawBson, RawBsonRef};

/// One operator with its operand.
#[derive(Debug)]
pub(crate) enum Operator<'a> {
    Set(RawBsonRef<'a>),
    SetOnInsert(RawBsonRef<'a>),
    Unset,
    Increment(RawBsonRef<'a>),
    Push(RawBsonRef<'a>),
}

/// What becomes of a field.
pub(crate) enum Outcome<'a> {
    Keep,
    Remove,
    Write(RawBsonRef<'a>),
    WriteNew(RawBson),
}

/// The name of an operator.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Modifier {
    Set,
    SetOnInsert,
    Unset,
    Increment,
    Push,
}

impl Modifier {
    pub(crate) fn parse(name: &str) -> CommandResult<Self> {
        match name {
            "$set" => Ok(Self::Set),
            "$setOnInsert" => Ok(Self::SetOnInsert),
            "$unset" => Ok(Self::Unset),
            "$inc" => Ok(Self::Increment),
            "$push" => Ok(Self::Push),
            unknown => {
                let message = format!(
                    "Unknown modifier: {unknown}. Expected a valid update modifier or pipeline-style update specified as an array"
                );
                Err(CommandError::new(Code::FailedToParse, message))
            }
        }
    }
}

impl<'a> Operator<'a> {
    /// An operator on the field at `path`, with its operand.
    pub(crate) fn parse(modifier: Modifier, path: &str, operand: RawBsonRef<'a>) -> CommandResult<Self> {
        match modifier {
            Modifier::Set => Ok(Self::Set(operand)),
            Modifier::SetOnInsert => Ok(Self::SetOnInsert(operand)),
            Modifier::Unset => Ok(Self::Unset),
            Modifier::Increment => match operand {
                RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) => Ok(Self::Increment(operand)),
                other => {
                    let message = format!("Cannot increment with non-numeric argument: {{{path}: {}}}", display(other));
                    Err(CommandError::new(Code::TypeMismatch, message))
                }
            },
            Modifier::Push => match operand {
                RawBsonRef::Document(document)
                    if fields(document).next().is_some_and(|(name, _)| name.as_str().starts_with('$')) =>
                {
                    let message = format!("Unrecognized clause in $push: {}; push one value", display(operand));
                    Err(CommandError::bad_value(message))
                }
                operand => Ok(Self::Push(operand)),
            },
        }
    }

    /// Whether it gives a value to a field that does not exist.
    pub(crate) fn creates(&self, inserting: bool) -> bool {
        match self {
            Self::Set(_) | Self::Increment(_) | Self::Push(_) => true,
            Self::SetOnInsert(_) => inserting,
            Self::Unset => false,
        }
    }

    /// Applies it to a field's value, `None` when the field does not exist.
    pub(crate) fn apply(
        &self,
        name: &str,
        value: Option<RawBsonRef<'_>>,
        inserting: bool,
    ) -> CommandResult<Outcome<'a>> {
        match self {
            Self::Set(operand) => Ok(Outcome::Write(*operand)),
            Self::SetOnInsert(operand) if inserting => Ok(Outcome::Write(*operand)),
            Self::SetOnInsert(_) => Ok(Outcome::Keep),
            Self::Unset => Ok(Outcome::Remove),
            Self::Increment(by) => match value {
                None => Ok(Outcome::Write(*by)),
                Some(value) => Ok(Outcome::WriteNew(sum(name, value, *by)?)),
            },
            Self::Push(operand) => {
                let mut array = RawArrayBuf::new();
                match value {
                    None => {}
                    Some(RawBsonRef::Array(old)) => elements(old).for_each(|element| array.push(element)),
                    Some(other) => {
                        let found = type_name(other);
                        let message = format!("The field '{name}' must be an array but is of type {found}");
                        return Err(CommandError::bad_value(message));
                    }
                }
                array.push(*operand);
                Ok(Outcome::WriteNew(RawBson::Array(array)))
            }
        }
    }
}

/// MongoDB's sum: the wider of the two types, and int widens to long rather than overflow.
fn sum(name: &str, value: RawBsonRef<'_>, by: RawBsonRef<'_>) -> CommandResult<RawBson> {
    use RawBsonRef as V;
    let overflow = || {
        let (value, by) = (display(value), display(by));
        let message = format!("Failed to apply $inc operations to current value ({value}) of '{name}': adding {by}");
        CommandError::bad_value(message)
    };
    let longs = |l: i64, r: i64| l.checked_add(r).map(RawBson::Int64).ok_or_else(overflow);
    match (value, by) {
        (V::Int32(l), V::Int32(r)) => {
            Ok(l.checked_add(r).map_or_else(|| RawBson::Int64(i64::from(l) + i64::from(r)), RawBson::Int32))
        }
        (V::Int32(l), V::Int64(r)) => longs(l.into(), r),
        (V::Int64(l), V::Int32(r)) => longs(l, r.into()),
        (V::Int64(l), V::Int64(r)) => longs(l, r),
        (V::Double(l), V::Double(r)) => Ok(RawBson::Double(l + r)),
        (V::Double(l), V::Int32(r)) => Ok(RawBson::Double(l + f64::from(r))),
        (V::Int32(l), V::Double(r)) => Ok(RawBson::Double(f64::from(l) + r)),
        (V::Double(l), V::Int64(r)) => Ok(RawBson::Double(l + r as f64)),
        (V::Int64(l), V::Double(r)) => Ok(RawBson::Double(l as f64 + r)),
        (other, _) => {
            let message = format!(
                "Cannot apply $inc to a value of non-numeric type: the field '{name}' is of type {}",
                type_name(other)
            );
            Err(CommandError::new(Code::TypeMismatch, message))
        }
    }
}
