//! Drives an application and records what it answers: schedule × scenario × client × stop condition × recorder,
//! in a process of its own that the lab commands over its standard input and output.
//!
//! [`serve`] is that process, [`control::Control`] the lab's side of it, [`protocol`] what they say to each other.
//! Everything runs on one thread: the generator's CPU time is part of what a small machine has, and one thread
//! at wrk's cost a request drives more than the data planes under test carry.
//!
//! Out of scope: starting and placing the process, CPU accounting, TLS and HTTP/2 towards the application (the
//! sidecars speak those), redirects, and retries: whatever goes wrong is recorded, not repaired.

mod client;
pub mod control;
mod failure;
mod process;
pub mod protocol;
mod recorder;
pub mod scenario;
mod schedule;
mod session;
mod window;

pub use process::{Options, ServeError, serve, serve_on};
