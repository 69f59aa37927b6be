//! Where everything that is told of connections comes together: counted, and logged where a log is asked for.

use super::{AccessLog, ConnectionRecord, Metrics, ReloadKind, ReloadResult, ResponseFlag};
use prometheus_client::registry::Registry;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// How long the last lines of the access log may take to be written.
const LAST_LINES: Duration = Duration::from_secs(2);

/// Counts, and logs.
#[derive(Debug)]
pub struct Telemetry {
    /// Everything that is counted.
    pub metrics: Arc<Metrics>,
    access_log: RwLock<Option<AccessLog>>,
}

/// Why there is no access log.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the access log {}: {source}", path.display())]
pub struct AccessLogError {
    path: PathBuf,
    source: io::Error,
}

impl Telemetry {
    /// Counts in a registry, and logs to the end of a file where one is named.
    pub fn new(registry: &mut Registry, access_log: Option<&Path>) -> Result<Self, AccessLogError> {
        let metrics = Arc::new(Metrics::new(registry));
        let open = |path: &Path| {
            let file = fs::File::options().append(true).create(true).open(path);
            let log = file.and_then(|file| AccessLog::start(file, metrics.clone()));
            log.map_err(|source| AccessLogError { path: path.into(), source })
        };
        let access_log = access_log.map(open).transpose()?;
        Ok(Self { metrics, access_log: RwLock::new(access_log) })
    }

    /// A connection ended, or was refused.
    pub(crate) fn ended(&self, record: ConnectionRecord) {
        self.metrics.connection_ended(&record);
        if let Some(reason) = denial(record.flag) {
            self.metrics.denied(reason);
        }
        if let Some(log) = &*self.access_log.read().unwrap_or_else(PoisonError::into_inner) {
            log.log(record);
        }
    }

    /// Writes what the access log still has; nothing is logged from then on.
    pub(crate) fn finish(&self) {
        let log = self.access_log.write().unwrap_or_else(PoisonError::into_inner).take();
        if log.is_some_and(|log| !log.finish(LAST_LINES)) {
            tracing::warn!("the access log's last lines could not be written in time");
        }
    }

    /// The configuration's files changed.
    pub(crate) fn configuration_changed(&self, loaded: bool) {
        let result = if loaded { ReloadResult::Loaded } else { ReloadResult::Refused };
        self.metrics.reloaded(ReloadKind::Resources, result);
    }
}

/// What a refused connection is counted as.
fn denial(flag: ResponseFlag) -> Option<&'static str> {
    match flag {
        ResponseFlag::NoRoute => Some("no_route"),
        ResponseFlag::Unauthorized => Some("authorization"),
        ResponseFlag::DownstreamProtocol => Some("protocol"),
        ResponseFlag::Overflow => Some("limit"),
        ResponseFlag::None
        | ResponseFlag::DownstreamClosed
        | ResponseFlag::UpstreamClosed
        | ResponseFlag::UpstreamFailed
        | ResponseFlag::DnsFailed
        | ResponseFlag::IdleTimeout
        | ResponseFlag::Drained => None,
    }
}
