//! A command as it came: its name, its own arguments, and those that every command takes.

use crate::{
    deadline::Deadline,
    error::{Code, CommandError, CommandResult},
    value::{display, elements, fields, integral, truthy, type_name},
    wire::Sequence,
};
use bson::{RawArray, RawBsonRef, RawDocument};

/// One command with its generic arguments checked.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The command's name: that of the first field.
    pub(crate) name: &'a str,
    /// The value of that field, often the collection.
    pub(crate) target: RawBsonRef<'a>,
    /// The database.
    pub(crate) db: &'a str,
    /// The time limit.
    pub(crate) deadline: Deadline,
    /// The server's number for the connection.
    pub(crate) connection_id: i32,
    body: &'a RawDocument,
    sequences: &'a [Sequence<'a>],
}

impl<'a> Request<'a> {
    /// Reads the name and the generic arguments. `db` is the database when the protocol names it elsewhere.
    pub(crate) fn parse(
        body: &'a RawDocument,
        sequences: &'a [Sequence<'a>],
        db: Option<&'a str>,
        connection_id: i32,
    ) -> CommandResult<Self> {
        let Some((name, target)) = fields(body).next() else {
            return Err(CommandError::new(Code::FailedToParse, "the command document is empty; name a command first"));
        };
        let name = name.as_str();
        let mut request = Self { name, target, db: "", deadline: Deadline::default(), connection_id, body, sequences };
        let mut named_db = db;
        for (argument, value) in fields(body).skip(1) {
            match argument.as_str() {
                "$db" => named_db = Some(request.string("$db", value)?),
                "maxTimeMS" => {
                    request.deadline = Deadline::after_millis(request.count("maxTimeMS", value)? as u64);
                }
                argument => check_generic(&request, argument, value)?,
            }
        }
        request.db = named_db.ok_or_else(|| request.missing_field("$db"))?;
        Ok(request)
    }

    /// The arguments that are the command's own. Each command matches all their names, and refuses the others with
    /// [`unknown_field`](Self::unknown_field).
    pub(crate) fn arguments(&self) -> impl Iterator<Item = (&'a str, RawBsonRef<'a>)> + use<'a> {
        let own =
            |(name, value): (&'a bson::raw::CStr, _)| (!is_generic(name.as_str())).then_some((name.as_str(), value));
        fields(self.body).skip(1).filter_map(own)
    }

    /// Refuses document sequences other than `argument`.
    pub(crate) fn allow_sequence(&self, argument: Option<&str>) -> CommandResult<()> {
        match self.sequences.iter().find(|sequence| Some(sequence.name) != argument) {
            Some(sequence) => Err(self.unknown_field(sequence.name)),
            None => Ok(()),
        }
    }

    /// A required argument that is a list of documents, in the body or in a section of its own.
    pub(crate) fn documents(&self, argument: &str) -> CommandResult<Vec<&'a RawDocument>> {
        let in_body = self.arguments().find(|(name, _)| *name == argument);
        let sequence = self.sequences.iter().find(|sequence| sequence.name == argument);
        match (in_body, sequence) {
            (Some(_), Some(_)) => Err(CommandError::new(
                Code::FailedToParse,
                format!("'{}.{argument}' is given in the body and as a sequence; give it once", self.name),
            )),
            (None, None) => Err(self.missing_field(argument)),
            (None, Some(sequence)) => Ok(sequence.documents.clone()),
            (Some((_, value)), None) => {
                elements(self.array(argument, value)?).map(|element| self.document(argument, element)).collect()
            }
        }
    }

    /// The collection that the command names.
    pub(crate) fn collection(&self) -> CommandResult<&'a str> {
        match self.target {
            RawBsonRef::String(name) => Ok(name),
            other => {
                let message = format!("collection name has invalid type {}; it has to be a string", type_name(other));
                Err(CommandError::new(Code::InvalidNamespace, message))
            }
        }
    }

    /// Refuses the command outside the `admin` database.
    pub(crate) fn require_admin(&self) -> CommandResult<()> {
        if self.db == "admin" {
            return Ok(());
        }
        let message = format!("{} may only be run against the admin database.", self.name);
        Err(CommandError::new(Code::Unauthorized, message))
    }

    pub(crate) fn document(&self, name: &str, value: RawBsonRef<'a>) -> CommandResult<&'a RawDocument> {
        value.as_document().ok_or_else(|| self.wrong_type(name, value, "object"))
    }

    pub(crate) fn array(&self, name: &str, value: RawBsonRef<'a>) -> CommandResult<&'a RawArray> {
        value.as_array().ok_or_else(|| self.wrong_type(name, value, "array"))
    }

    pub(crate) fn string(&self, name: &str, value: RawBsonRef<'a>) -> CommandResult<&'a str> {
        value.as_str().ok_or_else(|| self.wrong_type(name, value, "string"))
    }

    pub(crate) fn integer(&self, name: &str, value: RawBsonRef<'_>) -> CommandResult<i64> {
        integral(value).ok_or_else(|| self.wrong_type(name, value, "long"))
    }

    /// A boolean; numbers are taken for one, as MongoDB does.
    pub(crate) fn boolean(&self, name: &str, value: RawBsonRef<'_>) -> CommandResult<bool> {
        match value {
            RawBsonRef::Boolean(_) | RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Double(_) => {
                Ok(truthy(value))
            }
            other => Err(self.wrong_type(name, other, "bool")),
        }
    }

    /// A number of things: an integer of at least 0.
    pub(crate) fn count(&self, name: &str, value: RawBsonRef<'_>) -> CommandResult<usize> {
        let number = self.integer(name, value)?;
        usize::try_from(number).map_err(|_| {
            let message = format!("BSON field '{}.{name}' value must be >= 0, actual value '{number}'", self.name);
            CommandError::new(Code::Location(51024), message)
        })
    }

    pub(crate) fn unknown_field(&self, name: &str) -> CommandError {
        let message = format!("BSON field '{}.{name}' is an unknown field.", self.name);
        CommandError::new(Code::Location(40415), message)
    }

    pub(crate) fn missing_field(&self, name: &str) -> CommandError {
        let message = format!("BSON field '{}.{name}' is missing but a required field", self.name);
        CommandError::new(Code::Location(40414), message)
    }

    fn wrong_type(&self, name: &str, value: RawBsonRef<'_>, expected: &str) -> CommandError {
        let message = format!(
            "BSON field '{}.{name}' is the wrong type '{}', expected type '{expected}'",
            self.name,
            type_name(value)
        );
        CommandError::new(Code::TypeMismatch, message)
    }
}

/// Arguments that any command may have. Source: MongoDB's `generic_argument.idl`.
fn is_generic(name: &str) -> bool {
    matches!(
        name,
        "$db"
            | "lsid"
            | "$clusterTime"
            | "$readPreference"
            | "readConcern"
            | "writeConcern"
            | "maxTimeMS"
            | "comment"
            | "apiVersion"
            | "apiStrict"
            | "apiDeprecationErrors"
            | "txnNumber"
            | "autocommit"
            | "startTransaction"
    )
}

/// Refuses the generic arguments that ask for what one server in memory does not give.
fn check_generic<'a>(request: &Request<'a>, name: &str, value: RawBsonRef<'a>) -> CommandResult<()> {
    match name {
        // One server has no cluster time to follow and no other member to prefer; sessions hold no state.
        "lsid" | "$clusterTime" | "$readPreference" => request.document(name, value).map(drop),
        "readConcern" => check_read_concern(request, request.document(name, value)?),
        "writeConcern" => check_write_concern(request, request.document(name, value)?),
        "apiVersion" if value.as_str() != Some("1") => {
            let message = format!("API version must be \"1\", not {}", display(value));
            Err(CommandError::new(Code::ApiVersionError, message))
        }
        "apiStrict" | "apiDeprecationErrors" if request.boolean(name, value)? => {
            Err(CommandError::bad_value(format!("{name}: true is not supported; leave it out")))
        }
        "txnNumber" | "autocommit" | "startTransaction" => Err(CommandError::new(
            Code::IllegalOperation,
            "Transaction numbers are only allowed on a replica set member or mongos",
        )),
        _ => Ok(()),
    }
}

/// Every read sees the latest write here, which is what each of these levels asks or more.
fn check_read_concern<'a>(request: &Request<'a>, concern: &'a RawDocument) -> CommandResult<()> {
    for (name, value) in fields(concern) {
        match (name.as_str(), value) {
            ("level", RawBsonRef::String("local" | "available" | "majority" | "linearizable")) => {}
            ("level", level) => {
                let message = format!(
                    "node needs to be a replica set member to use readConcern {}; use \"local\"",
                    display(level)
                );
                return Err(CommandError::new(Code::NotAReplicaSet, message));
            }
            (name, _) => return Err(request.unknown_field(&format!("readConcern.{name}"))),
        }
    }
    Ok(())
}

fn check_write_concern<'a>(request: &Request<'a>, concern: &'a RawDocument) -> CommandResult<()> {
    for (name, value) in fields(concern) {
        match (name.as_str(), value) {
            ("w", RawBsonRef::String("majority")) => {}
            ("w", value) if matches!(integral(value), Some(0 | 1)) => {}
            ("w", _) => {
                let message = "cannot use 'w' > 1 when a host is not replicated";
                return Err(CommandError::bad_value(message));
            }
            ("j" | "fsync", value) if !truthy(value) => {}
            ("j" | "fsync", _) => {
                let message = "cannot use 'j' option when a host does not have journaling enabled";
                return Err(CommandError::bad_value(message));
            }
            // There are no other members to wait for.
            ("wtimeout", value) => drop(request.count("wtimeout", value)?),
            (name, _) => return Err(request.unknown_field(&format!("writeConcern.{name}"))),
        }
    }
    Ok(())
}
