//! Subject against subject, and case against case.

use super::{Text, sections::dash};
use crate::{
    results::{Estimate, Ratios, Results},
    words,
};

pub(super) fn subjects(text: &mut Text, results: &Results) {
    text.line("## Data planes compared");
    text.line(format!("HTTP between services: {}.", words::http(results)));
    let Some((first, [_, ..])) = results.run.subjects.split_first() else { return };
    text.line(format!(
        "Each against {} on the same case at the same load, paired by round. ± is half the 95 % confidence interval of the mean.",
        words::subject(first)
    ));
    let rows = results.subject_comparisons.iter().map(|one| {
        let mut row = vec![one.case.to_string(), one.subject.to_string(), one.level.to_string()];
        row.extend(ratios(&one.ratios));
        row
    });
    text.table(&[":case", ":subject", ":load", "mesh CPU ×", ":", "throughput", ":", "p99 ×", "rounds"], rows);
}

pub(super) fn steps(text: &mut Text, results: &Results) {
    if results.steps.is_empty() {
        return;
    }
    text.line("## Case against case");
    let rows = results.steps.iter().map(|step| {
        let mut row =
            vec![step.case.to_string(), step.against.to_string(), step.subject.to_string(), step.level.to_string()];
        row.extend(ratios(&step.ratios));
        row
    });
    let columns = [":case", ":against", ":subject", ":load", "mesh CPU ×", ":", "throughput", ":", "p99 ×", "rounds"];
    text.table(&columns, rows);
}

fn ratios(ratios: &Ratios) -> [String; 6] {
    let text = |ratio: Option<Estimate>, of: fn(&Estimate) -> String| ratio.map_or_else(dash, |ratio| of(&ratio));
    let verdict = |ratio: &Estimate| words::verdict(ratio, 1.0).to_owned();
    [
        text(ratios.mesh_micros, words::ratio_with_margin),
        text(ratios.mesh_micros, verdict),
        text(ratios.throughput, words::change_with_margin),
        text(ratios.throughput, verdict),
        text(ratios.p99, words::ratio_with_margin),
        ratios.rounds.to_string(),
    ]
}
