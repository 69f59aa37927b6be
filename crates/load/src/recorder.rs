//! Counts and histograms of one slice.

use crate::{
    failure::FailureKind,
    protocol::{Latencies, SliceResult},
    window::Window,
};
use std::{collections::BTreeMap, time::Duration};

/// What is recorded of one slice. Every time is one since the slice's start.
#[derive(Debug)]
pub(crate) struct Recorder {
    window: Window,
    transactions: u64,
    window_transactions: u64,
    operations: BTreeMap<&'static str, u64>,
    errors: BTreeMap<FailureKind, u64>,
    response_body_bytes: u64,
    latency: Latencies,
    lateness: Latencies,
    first_sent: Option<Duration>,
    last_answer: Duration,
}

impl Recorder {
    /// Nothing recorded yet.
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            transactions: 0,
            window_transactions: 0,
            operations: BTreeMap::new(),
            errors: BTreeMap::new(),
            response_body_bytes: 0,
            latency: Latencies::new(),
            lateness: Latencies::new(),
            first_sent: None,
            last_answer: Duration::ZERO,
        }
    }

    /// A transaction: its response time counts from when it was due (closed loop: sent), if that is inside the window.
    pub(crate) fn succeeded(&mut self, operation: &'static str, due: Duration, times: Times, body_bytes: u64) {
        self.saw(times);
        self.transactions += 1;
        self.window_transactions += u64::from(self.window.contains(times.answered));
        *self.operations.entry(operation).or_default() += 1;
        self.response_body_bytes += body_bytes;
        if self.window.contains(due) {
            self.latency.0.saturating_record(nanos(times.answered.saturating_sub(due)));
        }
    }

    /// A request that was sent and has no good answer.
    pub(crate) fn failed(&mut self, kind: FailureKind, times: Times) {
        self.saw(times);
        *self.errors.entry(kind).or_default() += 1;
    }

    /// Open loop: how much later than due a request was sent, whether it succeeds or not.
    pub(crate) fn was_late(&mut self, due: Duration, sent: Duration) {
        if self.window.contains(due) {
            self.lateness.0.saturating_record(nanos(sent.saturating_sub(due)));
        }
    }

    /// Open loop: requests that were due and never sent.
    pub(crate) fn unsent(&mut self, count: u64) {
        if count > 0 {
            *self.errors.entry(FailureKind::Unsent).or_default() += count;
        }
    }

    /// The slice, now that it is over.
    pub(crate) fn finish(self) -> SliceResult {
        let first_sent = self.first_sent.unwrap_or(self.last_answer);
        SliceResult {
            transactions: self.transactions,
            elapsed_ns: nanos(self.last_answer.saturating_sub(first_sent)),
            window_transactions: self.window_transactions,
            window_ns: nanos(self.window.length()),
            errors: self.errors.into_iter().map(|(kind, count)| (kind.to_string(), count)).collect(),
            operations: self.operations.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
            response_body_bytes: self.response_body_bytes,
            latency: self.latency,
            lateness: self.lateness,
        }
    }

    fn saw(&mut self, times: Times) {
        self.first_sent = Some(self.first_sent.map_or(times.sent, |first| first.min(times.sent)));
        self.last_answer = self.last_answer.max(times.answered);
    }
}

/// When a request was sent, and when its answer was complete or it had failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) sent: Duration,
    pub(crate) answered: Duration,
}

/// Whole nanoseconds; beyond 584 years the largest number there is.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn times(sent: u32, answered: u32) -> Times {
        Times { sent: MS * sent, answered: MS * answered }
    }

    #[test]
    fn counts_throughput_by_completion_and_latency_by_due_time() {
        let mut recorder = Recorder::new(Window::new(MS * 100, MS * 100));
        recorder.succeeded("a", MS * 50, times(50, 99), 10); // before the window
        recorder.succeeded("a", MS * 99, times(99, 100), 10); // due in the lead-in, completed inside
        recorder.succeeded("b", MS * 120, times(150, 199), 10); // inside
        recorder.succeeded("b", MS * 199, times(199, 200), 10); // due inside, completed in the tail
        recorder.failed(FailureKind::Status(503), times(150, 400));
        let slice = recorder.finish();
        assert_eq!((slice.transactions, slice.window_transactions, slice.latency.0.len()), (4, 2, 2));
        assert_eq!(slice.operations, [("a".to_owned(), 2), ("b".to_owned(), 2)].into());
        assert_eq!(slice.errors, [("status 503".to_owned(), 1)].into());
        assert_eq!(slice.response_body_bytes, 40);
        assert_eq!(slice.elapsed_ns, 350_000_000);
        assert_eq!(slice.window_ns, 100_000_000);
        assert!(slice.latency.0.equivalent(slice.latency.0.max(), 79_000_000), "counts from due, not from sent");
    }

    #[test]
    fn an_empty_slice_has_no_length() {
        let slice = Recorder::new(Window::new(Duration::ZERO, MS)).finish();
        assert_eq!((slice.transactions, slice.elapsed_ns, slice.errors.len()), (0, 0, 0));
    }

    #[test]
    fn longer_spans_than_the_histogram_holds_are_recorded_as_its_longest() {
        let mut recorder = Recorder::new(Window::new(Duration::ZERO, MS));
        recorder.succeeded("a", Duration::ZERO, times(0, 90_000), 0);
        let latency = recorder.finish().latency.0;
        assert!(latency.equivalent(latency.max(), Latencies::MAX_NS));
    }

    /// What can happen to one request: due, sent after that, answered after that; which operation or kind of failure.
    fn event() -> impl Strategy<Value = (u32, u32, u32, u8)> {
        (0..400u32, 0..50u32, 0..300u32, 0..5u8)
    }

    fn record(recorder: &mut Recorder, (due, late, took, what): (u32, u32, u32, u8)) {
        let times = times(due + late, due + late + took);
        recorder.was_late(MS * due, times.sent);
        match what {
            0 => recorder.failed(FailureKind::Reset, times),
            1 => recorder.failed(FailureKind::Status(500), times),
            _ => recorder.succeeded(["query", "book", "list"][usize::from(what) - 2], MS * due, times, u64::from(took)),
        }
    }

    fn through_json(slice: SliceResult) -> SliceResult {
        serde_json::from_str(&serde_json::to_string(&slice).unwrap()).unwrap()
    }

    proptest! {
        /// What the lab does with slices of one cell: their sums and merged histograms say what one recorder
        /// would have said of all their requests, also after a way through the pipe.
        #[test]
        fn slices_recorded_apart_and_merged_are_those_recorded_together(
            left in prop::collection::vec(event(), 0..60), right in prop::collection::vec(event(), 0..60)
        ) {
            let window = Window::new(MS * 100, MS * 200);
            let recorded = |events: &[_]| {
                let mut recorder = Recorder::new(window);
                events.iter().for_each(|event| record(&mut recorder, *event));
                through_json(recorder.finish())
            };
            let (mut merged, other) = (recorded(&left), recorded(&right));
            let together = recorded(&[left, right].concat());
            merged.transactions += other.transactions;
            merged.window_transactions += other.window_transactions;
            merged.response_body_bytes += other.response_body_bytes;
            other.errors.into_iter().for_each(|(kind, count)| *merged.errors.entry(kind).or_default() += count);
            other.operations.into_iter().for_each(|(name, count)| *merged.operations.entry(name).or_default() += count);
            merged.latency.0.add(&other.latency.0).unwrap();
            merged.lateness.0.add(&other.lateness.0).unwrap();
            merged.elapsed_ns = together.elapsed_ns; // spans overlap, so they have no sum
            prop_assert_eq!(merged, together);
        }

        #[test]
        fn every_request_is_counted_exactly_once(events in prop::collection::vec(event(), 0..100)) {
            let window = Window::new(MS * 100, MS * 200);
            let mut recorder = Recorder::new(window);
            events.iter().for_each(|event| record(&mut recorder, *event));
            let slice = recorder.finish();
            prop_assert_eq!(slice.transactions + slice.errors.values().sum::<u64>(), events.len() as u64);
            prop_assert_eq!(slice.operations.values().sum::<u64>(), slice.transactions);
            let good = events.iter().filter(|event| event.3 > 1);
            let answered_inside = good.clone().filter(|(due, late, took, _)| (100..300).contains(&(due + late + took)));
            prop_assert_eq!(slice.window_transactions, answered_inside.count() as u64);
            prop_assert_eq!(slice.latency.0.len(), good.filter(|event| (100..300).contains(&event.0)).count() as u64);
        }
    }
}
