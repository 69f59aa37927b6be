//! The configurations as they are written, as the real proxies read them, and with traffic through them.
//!
//! Tests with traffic run in a network namespace of their own, as root; without root, Envoy or nginx they say so and pass.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod authorization;
mod configs;
mod fixtures;
mod gateway;
mod network;
mod process;
mod sidecar;
mod sni_proxy;
mod tls;
mod wildcard;
