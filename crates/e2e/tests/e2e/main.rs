//! The whole, from the outside: see the crate's documentation.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy allows both in tests, and does not see that this program is one"
)]

mod ca;
mod cleanup;
mod commands;
mod host;
mod keep;
mod outputs;
mod proof;
mod results;
mod rootless;
mod running;
mod support;
