//! What the data plane counts and logs.

mod record;
mod upstream;

pub use record::{ConnectionRecord, Direction, ResponseFlag};
pub use upstream::{UpstreamCounters, Upstreams};
