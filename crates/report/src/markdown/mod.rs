//! `report.md`: what the page says, in compact form.

mod ratios;
mod sections;

use crate::{
    answer::{answers, subjects_compared},
    format::THIN,
    results::Results,
    words,
};
use std::fmt::Display;

/// The text of a run's report.
pub fn markdown(results: &Results) -> String {
    let run = &results.run;
    let mut text = Text::default();
    text.line(format!("# {}", run.question));
    let took = words::took(results).map(|took| format!(", in {took}")).unwrap_or_default();
    text.line(format!("Experiment `{}`, run `{}`, {}{took}.", run.experiment, run.id, words::moment(&run.started)));
    for notice in &results.notices {
        text.line(format!("> **{}:** {}", words::severity(notice.severity), escaped(&notice.text)));
    }
    for sentence in subjects_compared(results) {
        text.line(escaped(&sentence));
    }
    for answer in answers(results) {
        let subject = if run.subjects.len() > 1 { format!("**{}:** ", answer.subject) } else { String::new() };
        text.line(format!("{subject}{}", escaped(&answer.sentences.join(" "))));
    }
    sections::cases(&mut text, results);
    ratios::subjects(&mut text, results);
    sections::throughput(&mut text, results);
    sections::response_times(&mut text, results);
    sections::cpu(&mut text, results);
    sections::hops(&mut text, results);
    sections::differences(&mut text, results);
    ratios::steps(&mut text, results);
    sections::shares(&mut text, results);
    sections::open_loop(&mut text, results);
    sections::proof(&mut text, results);
    sections::accounting(&mut text, results);
    sections::setting(&mut text, results);
    text.0
}

/// Paragraphs and tables, a blank line after each.
#[derive(Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: impl Display) {
        self.0.push_str(&format!("{line}\n\n"));
    }

    /// A table: names of columns (a leading `:` aligns to the left), rows.
    fn table(&mut self, columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        let names: Vec<&str> = columns.iter().map(|column| column.trim_start_matches(':')).collect();
        let rules: Vec<&str> =
            columns.iter().map(|column| if column.starts_with(':') { ":--" } else { "--:" }).collect();
        self.0.push_str(&format!("| {} |\n|{}|\n", names.join(" | "), rules.join("|")));
        for row in rows {
            let fields: Vec<String> = row.iter().map(|field| escaped(field)).collect();
            self.0.push_str(&format!("| {} |\n", fields.join(" | ")));
        }
        self.0.push('\n');
    }
}

/// Text that no Markdown reader takes for a table's border, markup or HTML; narrow spaces become plain ones.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            THIN => escaped.push('\u{a0}'),
            '\n' | '\r' => escaped.push(' '),
            '|' | '*' | '_' | '<' | '`' | '\\' | '[' => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
    }
    escaped
}
