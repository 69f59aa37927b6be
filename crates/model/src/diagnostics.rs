//! What is wrong in a file, and where: every diagnostic has a file, a line and a field path.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file as text; reading it is the caller's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// How diagnostics name it.
    pub path: PathBuf,
    /// Its contents.
    pub text: String,
}

/// One problem in one place of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, as the caller named it.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// Path of the field, like `spec.tls[0].match[0].sniHosts[1]`; `(document)` for a document as a whole.
    pub field: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, field, message } = self;
        write!(f, "{}:{line}:{column}: {field}: {message}", file.display())
    }
}

/// All problems that were found, sorted by place, at least one wherever it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    pub(crate) fn error(&mut self, place: &Place, message: impl Into<String>) {
        self.push(place.diagnostic(message));
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// The value when nothing is wrong; else the problems, sorted and without repetition.
    pub(crate) fn or<T>(mut self, value: Option<T>) -> Result<T, Self> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => {
                self.0.sort();
                self.0.dedup();
                Err(self)
            }
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            diagnostic.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Where a value stands: kept with values for checks that come after parsing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    file: Arc<Path>,
    line: u64,
    column: u64,
    field: Arc<str>,
}

impl Place {
    pub(crate) fn new(file: Arc<Path>, line: u64, column: u64, field: impl Into<Arc<str>>) -> Self {
        Self { file, line: line.max(1), column: column.max(1), field: field.into() }
    }

    /// A problem with the value that stands here.
    pub fn diagnostic(&self, message: impl Into<String>) -> Diagnostic {
        let field = if self.field.is_empty() { "(document)" } else { &self.field };
        Diagnostic {
            file: self.file.to_path_buf(),
            line: self.line,
            column: self.column,
            field: field.into(),
            message: message.into(),
        }
    }

    /// The same place, said of a field inside the value: for one that is missing there.
    pub(crate) fn inside(&self, field: &str) -> Self {
        Self { field: child(&self.field, field).into(), ..self.clone() }
    }

    /// `FILE:LINE`, for messages that point to a second place.
    pub(crate) fn line(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }
}

/// Path of a field of a mapping.
pub(crate) fn child(parent: &str, field: &str) -> String {
    let plain = !field.is_empty() && field.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match (parent.is_empty(), plain) {
        (true, true) => field.into(),
        (false, true) => format!("{parent}.{field}"),
        (_, false) => format!("{parent}[{field:?}]"),
    }
}
