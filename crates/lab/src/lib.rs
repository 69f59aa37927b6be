//! Runs an experiment: plans topologies and cells, brings them up, drives them slice by slice in randomised
//! rounds, checks each slice's path, and stores what was measured.
//!
//! Out of scope: estimates (`meshtoll-stats`) and pictures (`meshtoll-report`).

pub mod clock;
mod database;
pub mod environment;
mod interruptible;
pub mod plan;
pub mod proof;
pub mod record;
pub mod rounds;
pub mod run;
pub mod running;
pub mod store;
