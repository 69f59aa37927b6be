//! The load process as a whole, against servers of its own on loopback.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod airline;
mod process;
mod support;
