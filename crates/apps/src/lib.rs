//! The applications that experiments run behind a mesh: real services with real clients, small enough that the
//! mesh's cost shows.
//!
//! Out of scope: the load that drives them (`meshtoll-load`) and the database behind them (`meshtoll-docstore`).

pub mod airline;
