//! What the resources of a case mean for each proxy: routes, with upstreams and TLS, compiled from
//! `meshtoll-model`. Pure functions; every data plane, ours and the others, is configured from the same result.
//!
//! Out of scope: whether the resources are right (`meshtoll-model` has checked them), and how a data plane is told its
//! routes (`meshtoll-subjects`).

pub mod authorization;
mod error;
mod external;
mod gateway;
mod order;
pub mod routes;
mod sidecar;
mod upstream;

pub use error::CompileError;
pub use gateway::compile_gateway;
pub use sidecar::compile_sidecar;
