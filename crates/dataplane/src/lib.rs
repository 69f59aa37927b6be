//! Meshtoll's own data plane: a sidecar and an egress gateway.
//!
//! A connection goes one way: accept (where was it headed?) → classify (address, server name, or HTTP host) → authorize (a
//! permit, or a typed denial) → connect (plain, or mutual TLS with SPIFFE ids) → relay → account. Setting a connection up is
//! asynchronous code on tokio; once it stands, its sockets are handed to a relay thread, a plain epoll loop.
//!
//! Out of scope: what resources mean (`meshtoll-policy`), HTTP beyond the host of a connection's first request, UDP.

mod accept;
pub mod admin;
pub mod classify;
pub mod config;
pub mod connect;
mod origination;
pub mod proxy;
pub mod relay;
mod reload;
pub mod settings;
mod setup;
pub mod telemetry;
