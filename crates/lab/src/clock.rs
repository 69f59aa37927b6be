//! Times as people and files read them.

use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339, macros::format_description};

/// Now, RFC 3339, in UTC, to the second.
pub fn now() -> String {
    let now = OffsetDateTime::now_utc().to_offset(UtcOffset::UTC);
    let whole = now.replace_nanosecond(0).unwrap_or(now);
    whole.format(&Rfc3339).unwrap_or_else(|error| unreachable!("UTC has no offset that RFC 3339 lacks: {error}"))
}

/// A name for a run that starts now, such as `20260105T101500-7f3a`.
pub fn run_id() -> crate::record::RunId {
    let format = format_description!("[year][month][day]T[hour][minute][second]");
    let now = OffsetDateTime::now_utc()
        .format(format)
        .unwrap_or_else(|error| unreachable!("every date has these parts: {error}"));
    crate::record::RunId(format!("{now}-{:04x}", rand::random::<u16>()))
}

/// Whole seconds since the Unix epoch.
pub fn unix_seconds() -> u64 {
    OffsetDateTime::now_utc().unix_timestamp().cast_unsigned()
}
