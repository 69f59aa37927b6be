//! The embedded external database: a process that speaks MongoDB's wire protocol over TLS and keeps documents in
//! memory, cheap enough that the hops before it are what a measurement sees.
//!
//! In scope: the commands, filters, updates and aggregation stages that an application's driver needs, with MongoDB's own
//! answers; indexes; and a record of who connected and how ([`stats`]), which proves the path that traffic took. A
//! [`relay`] keeps that record where the database is another.
//!
//! Out of scope: durability, replication, transactions, change streams, authentication, authorization, collation,
//! regular expressions, expressions beyond field paths, Decimal128 and the deprecated BSON types, compression. What is out of scope
//! is refused with an error, never ignored. It holds no more data than memory has.

mod admin;
mod aggregate;
mod collection;
mod commands;
mod compare;
mod connection;
mod cursor;
mod deadline;
mod error;
mod filter;
mod index;
mod key;
mod path;
mod projection;
mod record;
pub mod relay;
mod reply;
mod request;
mod serve;
mod server;
mod sort;
pub mod stats;
mod store;
pub mod tls;
mod update;
mod value;
pub mod wire;

pub use serve::{Options, ServeError, TlsFiles, serve};
pub use server::{ServerConfig, run};
pub use value::MalformedBson;
