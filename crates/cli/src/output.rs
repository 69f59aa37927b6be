//! Standard output, whose reader may leave before the end: `meshtoll plan egress | head`.

use anyhow::Context as _;
use std::{
    fmt,
    io::{self, Write as _},
};

/// Prints a line, as `println!` does, which would panic when nobody reads any more.
macro_rules! say {
    ($($argument:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($argument)*))) };
}
pub(crate) use say;

/// Prints. That the reader has had enough is no failure, any other is.
pub(crate) fn print(text: fmt::Arguments<'_>) -> anyhow::Result<()> {
    match io::stdout().write_fmt(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
