//! The testbed's DNS server: authoritative for everything, so that no question leaves the sandbox.

mod serve;
mod zone;

pub use serve::{Counts, DnsError, Options, serve};
pub use zone::{Answer, Zone, ZoneError};
