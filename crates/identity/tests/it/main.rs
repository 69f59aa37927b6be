//! Certificates as others read them, and handshakes as rustls makes them.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod certificates;
mod handshakes;
mod mesh;
mod origination;
mod watch;
