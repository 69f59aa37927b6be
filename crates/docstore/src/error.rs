//! Errors that a command answers with: MongoDB's codes and texts, because drivers act on them.

use std::borrow::Cow;

/// A command that failed, as its reply tells it. The message says what, where and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({})", code.name())]
pub(crate) struct CommandError {
    /// Which error it is.
    pub(crate) code: Code,
    /// For the person who sent the command.
    pub(crate) message: String,
}

pub(crate) type CommandResult<T> = Result<T, CommandError>;

impl CommandError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn bad_value(message: impl Into<String>) -> Self {
        Self::new(Code::BadValue, message)
    }
}

/// MongoDB's error codes. Source: `error_codes.yml` of the server; `Location` is a code without a name there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    InternalError,
    BadValue,
    FailedToParse,
    Unauthorized,
    TypeMismatch,
    Overflow,
    InvalidLength,
    IllegalOperation,
    NamespaceNotFound,
    IndexNotFound,
    PathNotViable,
    ConflictingUpdateOperators,
    CursorNotFound,
    NamespaceExists,
    MaxTimeMsExpired,
    DollarPrefixedFieldName,
    InvalidIdField,
    EmptyFieldName,
    CommandNotFound,
    ImmutableField,
    CannotCreateIndex,
    InvalidOptions,
    InvalidNamespace,
    IndexOptionsConflict,
    IndexKeySpecsConflict,
    CannotBackfillArray,
    NotAReplicaSet,
    ExceededMemoryLimit,
    InvalidPipelineOperator,
    CannotIndexParallelArrays,
    InvalidIndexSpecificationOption,
    NotImplemented,
    ApiVersionError,
    UnsupportedOpQueryCommand,
    DuplicateKey,
    Location(i32),
}

impl Code {
    pub(crate) fn number(self) -> i32 {
        self.number_and_name().0
    }

    pub(crate) fn name(self) -> Cow<'static, str> {
        match self.number_and_name() {
            (number, "") => format!("Location{number}").into(),
            (_, name) => name.into(),
        }
    }

    fn number_and_name(self) -> (i32, &'static str) {
        match self {
            Self::InternalError => (1, "InternalError"),
            Self::BadValue => (2, "BadValue"),
            Self::FailedToParse => (9, "FailedToParse"),
            Self::Unauthorized => (13, "Unauthorized"),
            Self::TypeMismatch => (14, "TypeMismatch"),
            Self::Overflow => (15, "Overflow"),
            Self::InvalidLength => (16, "InvalidLength"),
            Self::IllegalOperation => (20, "IllegalOperation"),
            Self::NamespaceNotFound => (26, "NamespaceNotFound"),
            Self::IndexNotFound => (27, "IndexNotFound"),
            Self::PathNotViable => (28, "PathNotViable"),
            Self::ConflictingUpdateOperators => (40, "ConflictingUpdateOperators"),
            Self::CursorNotFound => (43, "CursorNotFound"),
            Self::NamespaceExists => (48, "NamespaceExists"),
            Self::MaxTimeMsExpired => (50, "MaxTimeMSExpired"),
            Self::DollarPrefixedFieldName => (52, "DollarPrefixedFieldName"),
            Self::InvalidIdField => (53, "InvalidIdField"),
            Self::EmptyFieldName => (56, "EmptyFieldName"),
            Self::CommandNotFound => (59, "CommandNotFound"),
            Self::ImmutableField => (66, "ImmutableField"),
            Self::CannotCreateIndex => (67, "CannotCreateIndex"),
            Self::InvalidOptions => (72, "InvalidOptions"),
            Self::InvalidNamespace => (73, "InvalidNamespace"),
            Self::IndexOptionsConflict => (85, "IndexOptionsConflict"),
            Self::IndexKeySpecsConflict => (86, "IndexKeySpecsConflict"),
            Self::CannotBackfillArray => (186, "CannotBackfillArray"),
            Self::NotAReplicaSet => (123, "NotAReplicaSet"),
            Self::ExceededMemoryLimit => (146, "ExceededMemoryLimit"),
            Self::InvalidPipelineOperator => (168, "InvalidPipelineOperator"),
            Self::CannotIndexParallelArrays => (171, "CannotIndexParallelArrays"),
            Self::InvalidIndexSpecificationOption => (197, "InvalidIndexSpecificationOption"),
            Self::NotImplemented => (238, "NotImplemented"),
            Self::ApiVersionError => (322, "APIVersionError"),
            Self::UnsupportedOpQueryCommand => (352, "UnsupportedOpQueryCommand"),
            Self::DuplicateKey => (11000, "DuplicateKey"),
            Self::Location(number) => (number, ""),
        }
    }
}
