//! What the data plane counts and logs.

mod access_log;
mod counters;
mod hosts;
mod hub;
mod labels;
mod metrics;
mod record;
mod upstream;

pub use access_log::AccessLog;
pub use counters::{Counters, TlsCounters, UpstreamSnapshot};
pub use hub::{AccessLogError, Telemetry};
pub use labels::{DnsResult, ReloadKind, ReloadResult};
pub use metrics::Metrics;
pub use record::{ConnectionRecord, Direction, ResponseFlag};
pub use upstream::{UpstreamCounters, Upstreams};
