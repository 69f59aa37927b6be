//! Tests of the data plane's parts against real sockets.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod relay;
mod sockets;
