//! What the lab and a load process say to each other: one JSON object a line, commands on the process's
//! standard input, answers on its standard output, one answer a command.

use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2DeflateSerializer},
};
use serde::{Deserialize, Serialize, de::Error as _, ser::Error as _};
use std::collections::BTreeMap;

/// What the lab asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Command {
    /// Opens this many sessions (connections, logged in), keeping those that exist. Answered by [`Answer::Prepared`].
    Prepare {
        /// Sessions wanted.
        sessions: u32,
    },
    /// Drives one slice and waits for the last answer. Answered by [`Answer::Driven`].
    Drive {
        /// When requests are sent.
        schedule: Schedule,
        /// Time at the start that is driven but left out of throughput and latency, ms.
        lead_in_ms: u64,
        /// Time that is measured, ms.
        window_ms: u64,
    },
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Schedule {
    /// Each of the first `clients` sessions sends its next request when the answer to the one before is complete.
    Closed {
        /// Sessions driven.
        clients: u32,
    },
    /// Requests are due at fixed intervals, whatever the answers; a due request takes the session that is idle
    /// longest, and waits for one when none is idle. Latency counts from when it was due.
    Open {
        /// Requests a second.
        rate: u32,
        /// Sessions that may be used.
        sessions: u32,
    },
}

/// What the load process answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The sessions are open.
    Prepared {
        /// Sessions open now.
        sessions: u32,
    },
    /// The slice is over: every request that was sent has its answer, or failed.
    Driven(Box<SliceResult>),
    /// The command could not be carried out.
    Failed {
        /// Why, for a person.
        reason: String,
    },
}

/// One driven slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceResult {
    /// Transactions (requests answered with success) from first to last, lead-in and tail included: what the
    /// CPU time spent meanwhile is divided by.
    pub transactions: u64,
    /// Time from the first request to the last answer, ns.
    pub elapsed_ns: u64,
    /// Transactions completed inside the measured window: with `window_ns`, the throughput.
    pub window_transactions: u64,
    /// Length of the measured window, ns.
    pub window_ns: u64,
    /// Failed requests by kind: `connect`, `reset`, `timeout`, `status 503`, `body`, …; from first to last.
    pub errors: BTreeMap<String, u64>,
    /// Transactions by operation of the scenario: `query`, `book`, …; from first to last.
    pub operations: BTreeMap<String, u64>,
    /// Bytes of response bodies, from first to last.
    pub response_body_bytes: u64,
    /// Response times in ns of transactions that were due inside the window.
    pub latency: Latencies,
    /// Open loop: by how much requests that were due inside the window were sent later than that, ns. Empty in closed
    /// loop.
    pub lateness: Latencies,
}

/// An HDR histogram of nanoseconds (1 µs to 60 s, 3 significant digits), as base64 of its V2 deflate form.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies(pub Histogram<u64>);

impl Latencies {
    /// Longest span that can be recorded, ns; longer ones are recorded as this.
    pub const MAX_NS: u64 = 60_000_000_000;

    /// An empty histogram.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1_000, Self::MAX_NS, 3);
        Self(histogram.unwrap_or_else(|_| unreachable!("the bounds are constants that hdrhistogram accepts")))
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Serialize for Latencies {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use base64::Engine as _;
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).map_err(S::Error::custom)?;
        serializer.serialize_str(&base64::engine::general_purpose::STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use base64::Engine as _;
        let text = String::deserialize(deserializer)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(D::Error::custom)?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).map(Self).map_err(D::Error::custom)
    }
}
