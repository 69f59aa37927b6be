//! The airline reservation application: four services and an external database, after the public Acmeair
//! benchmark. `docs/AIRLINE.md` is the contract between these services and whoever drives them.
//!
//! Each service is a process with one thread: what a request costs is then one thread's CPU time, and more cores do not
//! hide it.

mod auth;
mod booking;
mod client;
mod customer;
pub mod data;
mod database;
pub mod documents;
mod error;
mod external_uri;
mod extract;
mod flight;
mod load_data;
pub mod mix;
mod router;
mod serve;
pub mod session;
pub mod work;

pub use client::BaseUrlError;
pub use database::DatabaseError;
pub use external_uri::{ExternalUri, ExternalUriError, external_uri};
pub use load_data::{LoadDataOptions, LoadError, LoadedCounts, load_data};
pub use serve::{AirlineService, ServeError, ServiceOptions, open, run, serve};
