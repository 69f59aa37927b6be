//! The whole, from the outside: see the crate's documentation.

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
