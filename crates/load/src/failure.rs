//! How a request can fail, and the kinds under which failures are counted.

use crate::{client::Malformed, scenario::UnexpectedAnswer};
use std::{fmt, io, net::SocketAddr};

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection to the service.
    #[error("cannot connect to {address}")]
    Connect {
        /// Where to.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The connection ended, in whatever way, before the answer did.
    #[error("the connection to {address} ended before the answer")]
    Reset {
        /// The other side.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The answer was not complete in time.
    #[error("no complete answer in time")]
    Timeout,
    /// Any status but success (2xx).
    #[error("answered with status {0}")]
    Status(u16),
    /// A success whose body is not what the scenario expects.
    #[error("the answer is not what the scenario expects")]
    Body(#[from] UnexpectedAnswer),
    /// What came back is not HTTP/1.1.
    #[error("the answer is not HTTP/1.1")]
    Protocol(#[from] Malformed),
}

impl Failure {
    /// Under what it is counted.
    pub(crate) fn kind(&self) -> FailureKind {
        match self {
            Self::Connect { .. } => FailureKind::Connect,
            Self::Reset { .. } => FailureKind::Reset,
            Self::Timeout => FailureKind::Timeout,
            Self::Status(status) => FailureKind::Status(*status),
            Self::Body(_) => FailureKind::Body,
            Self::Protocol(_) => FailureKind::Protocol,
        }
    }
}

/// Under what a failed request is counted; the texts are those of [`crate::protocol::SliceResult::errors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FailureKind {
    /// See [`Failure::Connect`].
    Connect,
    /// See [`Failure::Reset`].
    Reset,
    /// See [`Failure::Timeout`].
    Timeout,
    /// See [`Failure::Status`].
    Status(u16),
    /// See [`Failure::Body`].
    Body,
    /// See [`Failure::Protocol`].
    Protocol,
    /// Due in open loop, and still waiting for an idle session when the window ended.
    Unsent,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Reset => f.write_str("reset"),
            Self::Timeout => f.write_str("timeout"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Body => f.write_str("body"),
            Self::Protocol => f.write_str("protocol"),
            Self::Unsent => f.write_str("unsent"),
        }
    }
}

/// An error with all its sources on one line, for a person.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}
