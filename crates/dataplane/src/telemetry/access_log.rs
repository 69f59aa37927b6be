//! The access log: one JSON object a line for each connection that ended or was refused.

use super::{
    metrics::Metrics,
    record::{ConnectionRecord, Direction, ResponseFlag},
};
use meshtoll_model::ids::SpiffeId;
use serde::{Serialize, Serializer};
use std::{
    error::Error,
    io::{self, Write},
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError},
    },
    thread,
    time::Duration,
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Lines that may wait for the writer.
const WAITING: usize = 4096;
/// What comes from outside is cut to this many characters.
const MAX_CHARS: usize = 255;

/// Hands lines to a thread that writes them: whoever reads the log, or does not, never holds a connection up.
#[derive(Debug)]
pub struct AccessLog {
    sender: SyncSender<ConnectionRecord>,
    written: Mutex<Receiver<()>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    /// Starts the thread that writes to `output`, which needs no buffer of its own. It ends with the log.
    pub fn start(output: impl Write + Send + 'static, metrics: Arc<Metrics>) -> io::Result<Self> {
        let (sender, records) = mpsc::sync_channel(WAITING);
        // Never sent to: that it is closed says that the thread has ended.
        let (writing, written) = mpsc::sync_channel(0);
        let counted = metrics.clone();
        thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            let _writing: SyncSender<()> = writing;
            write_all(&records, output, &counted);
        })?;
        Ok(Self { sender, written: Mutex::new(written), metrics })
    }

    /// Logs a connection, unless too many lines wait: those are counted, and lost.
    pub fn log(&self, record: ConnectionRecord) {
        if self.sender.try_send(record).is_err() {
            self.metrics.access_log_dropped();
        }
    }

    /// Ends the log; false if not all that waits was written in time.
    pub fn finish(self, deadline: Duration) -> bool {
        drop(self.sender);
        let written = self.written.into_inner().unwrap_or_else(PoisonError::into_inner);
        written.recv_timeout(deadline) == Err(RecvTimeoutError::Disconnected)
    }
}

/// Until the log has ended. Lines are written together as long as more of them wait.
fn write_all(records: &Receiver<ConnectionRecord>, mut output: impl Write, metrics: &Metrics) {
    const ENOUGH: usize = 64 * 1024;
    let (mut text, mut lines, mut warned) = (Vec::new(), 0_u64, false);
    while let Ok(first) = records.recv() {
        let mut next = Ok(first);
        while let Ok(record) = next {
            append(&mut text, &record);
            lines += 1;
            next = if text.len() < ENOUGH { records.try_recv() } else { Err(TryRecvError::Empty) };
        }
        if let Err(error) = output.write_all(&text).and_then(|()| output.flush()) {
            if !warned {
                tracing::warn!(error = &error as &dyn Error, "the access log cannot be written, and lines are lost");
            }
            warned = true;
            (0..lines).for_each(|_| metrics.access_log_dropped());
        }
        text.clear();
        lines = 0;
    }
}

fn append(text: &mut Vec<u8>, record: &ConnectionRecord) {
    let start = text.len();
    match serde_json::to_writer(&mut *text, &Line::of(record)) {
        Ok(()) => text.push(b'\n'),
        // Nothing of a record can fail to be JSON; half a line would spoil the next.
        Err(_) => text.truncate(start),
    }
}

/// A line, in the order in which people read it.
#[derive(Serialize)]
struct Line<'a> {
    time: Option<String>,
    direction: Direction,
    source: SocketAddr,
    source_identity: Option<Shown<&'a SpiffeId>>,
    destination: SocketAddr,
    requested_host: Option<&'a str>,
    upstream: Option<&'a str>,
    connected: Option<SocketAddr>,
    bytes_sent: u64,
    bytes_received: u64,
    duration_ms: u64,
    response_flag: ResponseFlag,
    details: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    audited: Vec<&'a str>,
}

impl<'a> Line<'a> {
    fn of(record: &'a ConnectionRecord) -> Self {
        Self {
            time: OffsetDateTime::from(record.started).format(&Rfc3339).ok(),
            direction: record.direction,
            source: record.source,
            source_identity: record.source_identity.as_ref().map(Shown),
            destination: record.destination,
            requested_host: record.requested_host.as_deref().map(cut),
            upstream: record.upstream.as_deref().map(cut),
            connected: record.connected,
            bytes_sent: record.sent_bytes,
            bytes_received: record.received_bytes,
            duration_ms: u64::try_from(record.duration.as_millis()).unwrap_or(u64::MAX),
            response_flag: record.flag,
            details: record.details.as_deref().map(cut),
            audited: record.audited.iter().map(|rule| cut(rule)).collect(),
        }
    }
}

/// As it is displayed, and not field by field.
struct Shown<T>(T);

impl<T: std::fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(MAX_CHARS).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::{super::record::samples::refused, *};
    use prometheus_client::registry::Registry;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::sync::{Condvar, Mutex};

    const DEADLINE: Duration = Duration::from_secs(60);

    /// Text that several threads write and read; writing waits until it may.
    #[derive(Clone, Default)]
    struct Output(Arc<(Mutex<State>, Condvar)>);

    #[derive(Default)]
    struct State {
        text: Vec<u8>,
        stuck: bool,
        waits: bool,
    }

    impl Output {
        fn set_stuck(&self, stuck: bool) {
            self.0.0.lock().unwrap().stuck = stuck;
            self.0.1.notify_all();
        }

        fn until_a_write_waits(&self) {
            drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |state| !state.waits).unwrap());
        }

        fn lines(&self) -> Vec<Value> {
            let text = self.0.0.lock().unwrap().text.clone();
            text.split_inclusive(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect()
        }
    }

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.0.lock().unwrap();
            state.waits = true;
            self.0.1.notify_all();
            let mut state = self.0.1.wait_while(state, |state| state.stuck).unwrap();
            state.text.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn dropped(registry: &Registry) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("meshtoll_access_log_dropped_total "));
        line.unwrap().parse().unwrap()
    }

    #[test]
    fn a_line_tells_of_a_connection() {
        let output = Output::default();
        let log = AccessLog::start(output.clone(), Arc::new(Metrics::new(&mut Registry::default()))).unwrap();
        log.log(refused());
        log.log(ConnectionRecord { connected: "192.0.2.9:27017".parse().ok(), audited: vec![], ..refused() });
        assert!(log.finish(DEADLINE));
        let [first, second] = &output.lines()[..] else { panic!("{:?}", output.lines()) };
        assert_eq!(
            *first,
            json!({
                "time": "2023-11-14T22:13:20.25Z",
                "direction": "outbound",
                "source": "10.0.0.1:40000",
                "source_identity": "spiffe://cluster.local/ns/default/sa/booking",
                "destination": "192.0.2.1:27017",
                "requested_host": "airline.mongodb.example",
                "upstream": "outbound|27017||airline.mongodb.example",
                "connected": null,
                "bytes_sent": 517,
                "bytes_received": 0,
                "duration_ms": 1500,
                "response_flag": "NR",
                "details": "no route",
                "audited": ["default/audit[0]"],
            })
        );
        assert_eq!(second["connected"], "192.0.2.9:27017");
        assert_eq!(second.get("audited"), None);
    }

    #[test]
    fn a_reader_that_is_stuck_costs_lines_and_no_time() {
        let output = Output::default();
        output.set_stuck(true);
        let mut registry = Registry::default();
        let log = AccessLog::start(output.clone(), Arc::new(Metrics::new(&mut registry))).unwrap();
        log.log(refused());
        output.until_a_write_waits();
        for _ in 0..WAITING + 7 {
            log.log(refused());
        }
        assert_eq!(dropped(&registry), 7);
        output.set_stuck(false);
        assert!(log.finish(DEADLINE));
        assert_eq!(output.lines().len(), WAITING + 1);
    }

    #[test]
    fn an_end_does_not_wait_for_a_stuck_reader_for_ever() {
        let output = Output::default();
        output.set_stuck(true);
        let log = AccessLog::start(output.clone(), Arc::new(Metrics::new(&mut Registry::default()))).unwrap();
        log.log(refused());
        assert!(!log.finish(Duration::from_millis(1)));
        output.set_stuck(false);
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut registry = Registry::default();
        let log = AccessLog::start(Full, Arc::new(Metrics::new(&mut registry))).unwrap();
        log.log(refused());
        log.log(refused());
        assert!(log.finish(DEADLINE));
        assert_eq!(dropped(&registry), 2);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_is_one_line_of_bounded_length(host in ".{0,600}|[\\x00-\\x1f\"\\\\\n]{0,300}") {
            let mut text = Vec::new();
            append(&mut text, &ConnectionRecord { requested_host: Some(host.as_str().into()), ..refused() });
            prop_assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1);
            let line: Value = serde_json::from_slice(&text).unwrap();
            let logged: String = host.chars().take(255).collect();
            prop_assert_eq!(line["requested_host"].as_str(), Some(logged.as_str()));
        }
    }
}
