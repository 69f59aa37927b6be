//! Labels of metrics: few values each, whatever comes in from outside.

use super::record::{Direction, ResponseFlag};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

/// What was reloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReloadKind {
    /// Istio resources.
    Resources,
    /// Certificate, key and trust bundle.
    Credentials,
}

/// How a reload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReloadResult {
    /// What was read is in force.
    Loaded,
    /// What was read cannot be used: what was before is in force.
    Refused,
}

/// How the lookup of a connection's upstream ended, whether it was answered by a server or from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DnsResult {
    /// It has addresses.
    Resolved,
    /// There is no such name, or it has no address.
    NoAddress,
    /// Answered with addresses that must not be connected to.
    Refused,
    /// Not answered, or not in time.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Connection {
    pub(super) direction: Direction,
    pub(super) response_flag: ResponseFlag,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Denial {
    pub(super) reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Requested {
    pub(super) host: HostLabel,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reload {
    pub(super) kind: ReloadKind,
    pub(super) result: ReloadResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Lookup {
    pub(super) result: DnsResult,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Upstream {
    pub(super) upstream: HostLabel,
}

/// A name out of resources.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HostLabel(pub(super) Arc<str>);

impl EncodeLabelValue for HostLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.0)
    }
}

macro_rules! encode_by_name {
    ($($type:ident: $name:expr;)*) => {
        $(impl EncodeLabelValue for $type {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                let name: fn($type) -> &'static str = $name;
                encoder.write_str(name(*self))
            }
        })*
    };
}

encode_by_name! {
    Direction: Direction::as_str;
    ResponseFlag: ResponseFlag::as_str;
    ReloadKind: |kind| match kind {
        ReloadKind::Resources => "resources",
        ReloadKind::Credentials => "credentials",
    };
    ReloadResult: |result| match result {
        ReloadResult::Loaded => "loaded",
        ReloadResult::Refused => "refused",
    };
    DnsResult: |result| match result {
        DnsResult::Resolved => "resolved",
        DnsResult::NoAddress => "no_address",
        DnsResult::Refused => "refused",
        DnsResult::Failed => "failed",
    };
}
