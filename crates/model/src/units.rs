//! Quantities with their unit in the type.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    iter::Sum,
    ops::{Add, Sub},
};

/// A span of time or of CPU time in whole nanoseconds: the unit in which everything is measured and stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// Microseconds: the unit of estimates, such as CPU time a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub f64);

impl Nanos {
    /// The same span in microseconds.
    pub fn micros(self) -> Micros {
        Micros(self.0 as f64 / 1e3)
    }

    /// The same span in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span shared equally by `count` events; `None` when there were none.
    pub fn per(self, count: u64) -> Option<Micros> {
        (count > 0).then(|| Micros(self.0 as f64 / 1e3 / count as f64))
    }

    /// `self - earlier`, or zero where a counter went backwards.
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self(0), Add::add)
    }
}

impl Add for Micros {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Micros {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for Micros {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self(0.0), Add::add)
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        f.write_str(" µs")
    }
}

/// How hard a cell is driven.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LoadLevel {
    /// Closed loop: this many clients, each with one request outstanding. Measures throughput.
    Clients(u32),
    /// Open loop: this many requests a second whatever the answers. Measures latency.
    Rate(u32),
}

impl fmt::Display for LoadLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(1) => f.write_str("1 client"),
            Self::Clients(clients) => write!(f, "{clients} clients"),
            Self::Rate(rate) => write!(f, "{rate} requests/s"),
        }
    }
}
