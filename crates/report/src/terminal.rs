//! The plain text table that ends a run in a terminal: at most 100 columns wide.

use crate::{
    format,
    results::{Cell, ProofState, Results},
    words,
};
use meshtoll_model::units::LoadLevel;

/// Widest line.
const WIDTH: usize = 100;
/// Longest name shown in full.
const NAME: usize = 24;

/// A table for the reference level, one for each open-loop level, and the notices.
pub fn terminal(results: &Results) -> String {
    let mut text = String::new();
    for level in results.reference_level.into_iter().chain(results.open_levels()) {
        text.push_str(&table(results, level));
        text.push('\n');
    }
    text.push_str(&subjects(results));
    if let Some(remark) = words::level_remark(results) {
        text.push_str(&wrapped("", &remark));
    }
    for notice in &results.notices {
        text.push_str(&wrapped(&format!("{}: ", words::severity(notice.severity)), &notice.text));
    }
    text
}

fn table(results: &Results, level: LoadLevel) -> String {
    let (kind, against) = match level {
        LoadLevel::Clients(_) => ("closed loop", "tx/s vs baseline"),
        LoadLevel::Rate(_) => ("open loop, latency from when a request was due", "p99 vs baseline"),
    };
    let heading = ["case", "subject", "tx/s", against, "mean ms", "p99 ms", "mesh µs", "proof"];
    let mut rows = vec![heading.map(str::to_owned)];
    for subject in &results.run.subjects {
        let cells = results.cases.iter().filter_map(|case| results.cell(&case.name, subject, level));
        rows.extend(cells.map(|cell| row(results, cell)));
    }
    let widths: Vec<usize> = (0..heading.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = format!("At {level} ({kind}), baseline {}:\n", results.run.baseline);
    for row in rows {
        let fields = row.iter().zip(&widths).enumerate().map(|(column, (field, &width))| match column {
            0 | 1 | 7 => format!("{field:<width$}"),
            _ => format!("{field:>width$}"),
        });
        text.push_str(fields.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Each further subject against the first, at the reference level; nothing where there is one subject.
fn subjects(results: &Results) -> String {
    let Some(level) = results.reference_level.filter(|_| !results.subject_comparisons.is_empty()) else {
        return String::new();
    };
    let mut text =
        wrapped("", &format!("At {level}, paired by round; HTTP between services: {}.", words::http(results)));
    for one in results.subject_comparisons.iter().filter(|one| one.level == level) {
        let cpu = one.ratios.mesh_micros.map_or_else(|| "-".to_owned(), |ratio| words::ratio_with_margin(&ratio));
        let throughput = one.ratios.throughput.map(|ratio| ascii(&words::change_with_margin(&ratio), " "));
        let names = format!("{} against {}", shortened(one.subject.as_str()), shortened(one.against.as_str()));
        text.push_str(&format!(
            "  {:<NAME$}  {names}: mesh CPU x {cpu}, tx/s {}\n",
            shortened(one.case.as_str()),
            throughput.unwrap_or_else(|| "-".to_owned())
        ));
    }
    text
}

fn row(results: &Results, cell: &Cell) -> [String; 8] {
    let value = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| ascii(&format::number(value), ""));
    let against = || {
        let comparison = results.comparison(&cell.case, &cell.subject, cell.level)?;
        Some(match cell.level {
            LoadLevel::Clients(_) => ascii(&words::change_with_margin(&comparison.throughput_ratio?), " "),
            LoadLevel::Rate(_) => ascii(&words::difference_with_margin(&comparison.p99_ms?), ""),
        })
    };
    [
        shortened(cell.case.as_str()),
        shortened(cell.subject.as_str()),
        value(cell.throughput.map(|rate| rate.mean)),
        against().unwrap_or_else(|| "-".to_owned()),
        value(cell.latency.map(|latency| latency.mean)),
        value(cell.latency.map(|latency| latency.p99)),
        value(cell.cpu.as_ref().map(|cpu| cpu.mesh.micros)),
        match ProofState::of(&cell.proof) {
            ProofState::Proven => "ok",
            ProofState::Failed => "FAILED",
            ProofState::Missing => "none",
        }
        .to_owned(),
    ]
}

/// In characters that a terminal and a pipe take.
fn ascii(text: &str, thin: &str) -> String {
    text.replace('−', "-").replace(format::THIN, thin)
}

fn shortened(name: &str) -> String {
    match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

fn wrapped(label: &str, text: &str) -> String {
    let mut lines = String::from(label);
    let mut length = label.chars().count();
    for (place, word) in text.split_whitespace().enumerate() {
        let width = word.chars().count();
        if place > 0 && length + 1 + width > WIDTH {
            lines.push_str("\n  ");
            length = 2;
        } else if place > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += width;
    }
    lines.push('\n');
    lines
}
