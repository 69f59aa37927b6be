//! Words that every format shares.

use crate::{
    format::{self, THIN},
    results::{Estimate, Results, Severity, Verdict},
};
use meshtoll_model::{ids::SubjectName, process::Role, topology::HttpHandling, units::LoadLevel};
use time::{OffsetDateTime, format_description::well_known::Rfc3339, macros::format_description};

/// What a mean over rounds says about being different, as a word for a table.
pub(crate) fn verdict(estimate: &Estimate, neutral: f64) -> &'static str {
    match estimate.verdict(neutral) {
        Verdict::Less => "less",
        Verdict::More => "more",
        Verdict::Unclear => "unclear",
        Verdict::OneRound => "one round",
    }
}

/// A throughput ratio as a change in percent with its margin: `−9.8 % ± 1.1`.
pub(crate) fn change_with_margin(ratio: &Estimate) -> String {
    let change = format::change(ratio.mean);
    ratio.margin.map_or(change.clone(), |margin| format!("{change} ± {:.1}", margin * 100.0))
}

/// A difference with its sign and its margin: `+52.1 ± 1.4`.
pub(crate) fn difference_with_margin(difference: &Estimate) -> String {
    let Some(margin) = difference.margin else { return format::signed(difference.mean) };
    let plus = if difference.mean > 0.0 { "+" } else { "" };
    format!("{plus}{}", format::with_uncertainty(difference.mean, margin))
}

/// A role as the name of a kind of hop.
pub(crate) fn role(role: Role) -> &'static str {
    match role {
        Role::Service => "application",
        Role::Sidecar => "sidecar",
        Role::Gateway => "gateway",
        Role::SniProxy => "SNI proxy",
        Role::Database => "database",
        Role::Load => "load generator",
        Role::Testbed => "testbed",
    }
}

/// A subject as a name in a sentence: `Envoy`.
pub(crate) fn subject(subject: &SubjectName) -> String {
    let mut letters = subject.as_str().chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What the subjects do with HTTP between the services: `read by Envoy, passed as TCP by Meshtoll`.
pub(crate) fn http(results: &Results) -> String {
    let of = |handling| results.run.subjects.iter().filter(move |name| results.http(name) == Some(handling));
    let all = results.run.subjects.len();
    let clause = |verb: &str, handling| {
        let names: Vec<String> = of(handling).map(subject).collect();
        match names.len() {
            0 => None,
            2 if all == 2 => Some(format!("{verb} by both")),
            many if many > 2 && many == all => Some(format!("{verb} by all")),
            _ => Some(format!("{verb} by {}", list(names))),
        }
    };
    let clauses = [clause("read", HttpHandling::Full), clause("passed as TCP", HttpHandling::Tcp)];
    clauses.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: Vec<String>) -> String {
    match items.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

/// A ratio with its margin: `0.624 ± 0.012`.
pub(crate) fn ratio_with_margin(ratio: &Estimate) -> String {
    ratio.margin.map_or(format!("{:.3}", ratio.mean), |margin| format!("{:.3} ± {margin:.3}", ratio.mean))
}

/// A severity as the first word of a notice.
pub(crate) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Fault => "Fault",
        Severity::Caution => "Caution",
    }
}

/// Why the level shown is not the published one, if so.
pub(crate) fn level_remark(results: &Results) -> Option<String> {
    let wanted = LoadLevel::Clients(crate::results::REFERENCE_CLIENTS);
    let level = results.reference_level?;
    (level != wanted).then(|| format!("{wanted} were not driven in this run; {level} is the nearest level that was."))
}

/// A moment for people: `5 January 2026, 10:15 UTC`; as it is where it is no RFC 3339.
pub(crate) fn moment(rfc3339: &str) -> String {
    let format = format_description!("[day padding:none] [month repr:long] [year], [hour]:[minute] UTC");
    OffsetDateTime::parse(rfc3339, &Rfc3339)
        .ok()
        .and_then(|moment| moment.to_offset(time::UtcOffset::UTC).format(&format).ok())
        .unwrap_or_else(|| rfc3339.to_owned())
}

/// How long the run took: `26 min`.
pub(crate) fn took(results: &Results) -> Option<String> {
    let parse = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
    let seconds = (parse(results.run.ended.as_deref()?)? - parse(&results.run.started)?).whole_seconds();
    Some(match seconds {
        ..120 => format!("{seconds}{THIN}s"),
        _ => format!("{}{THIN}min", (seconds + 30) / 60),
    })
}

/// The short explanations at the end of a report.
pub(crate) const GLOSSARY: [(&str, &str); 15] = [
    ("transaction", "one successful HTTP request of a client, with everything it sets off behind it"),
    ("case", "one way of the database's traffic: one topology of the experiment"),
    ("subject", "the data plane that carries a case: which proxies run"),
    ("baseline", "the case that the others are compared with"),
    ("hop", "a process that a transaction passes: services, sidecars, gateway, SNI proxy, database"),
    ("toll", "what a hop, or a case against the baseline, adds to one transaction: CPU µs, latency"),
    (
        "closed loop",
        "each client sends its next request when the answer to the one before is complete: measures throughput",
    ),
    (
        "open loop",
        "requests are due at a fixed rate whatever the answers, and latency counts from when they were due: measures latency",
    ),
    ("slice", "one short measured window of one case on one subject at one load level"),
    (
        "round",
        "every such combination once, in random order; comparisons are paired within a round, so that slow drift cancels out",
    ),
    ("sd", "sample standard deviation over rounds"),
    (
        "±",
        "half the 95 % confidence interval of the mean (Student's t over rounds); a difference is called clear when this interval does not cover “none”",
    ),
    ("p90, p95, p99", "90 %, 95 %, 99 % of response times are at most this; from the merged histograms of all rounds"),
    ("unattributed kernel", "kernel threads, and what of the machine's busy time is charged to no process"),
    ("closure", "time charged to someone, divided by the time the machine was busy: 1 when the books balance"),
];
