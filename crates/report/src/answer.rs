//! The answer in two sentences, computed from the results.

use crate::{
    format::{self, THIN},
    results::{Comparison, Estimate, ProofState, Ratios, Results, Verdict},
    words::{self, list},
};
use meshtoll_model::{
    ids::{CaseName, SubjectName},
    units::LoadLevel,
};

/// What the run answers for one subject.
pub(crate) struct Answer<'a> {
    /// The subject.
    pub(crate) subject: &'a SubjectName,
    /// Throughput first, then CPU and response time.
    pub(crate) sentences: Vec<String>,
}

/// The answer for each subject.
pub(crate) fn answers(results: &Results) -> Vec<Answer<'_>> {
    let answer = |subject| {
        let sentences = results.reference_level.and_then(|level| sentences(results, subject, level));
        let none = || {
            vec![format!(
                "No answer: nothing can be compared with the baseline {}, as no round has measured both it and another \
                 case in closed loop.",
                results.run.baseline
            )]
        };
        Answer { subject, sentences: sentences.unwrap_or_else(none) }
    };
    results.run.subjects.iter().map(answer).collect()
}

fn sentences(results: &Results, subject: &SubjectName, level: LoadLevel) -> Option<Vec<String>> {
    let compared: Vec<&Comparison> =
        results.cases.iter().filter_map(|case| results.comparison(&case.name, subject, level)).collect();
    let baseline = results.cell(&results.run.baseline, subject, level)?;
    let throughput = throughput(results, baseline.throughput?, &compared, level)?;
    let cpu = baseline.cpu.as_ref().and_then(|cpu| mesh_cpu(results, cpu.mesh.micros, &compared));
    let latency = latency(results, subject, level);
    let second = match (cpu, latency) {
        (Some(cpu), Some(latency)) => Some(format!("{cpu}; {latency}.")),
        (one, other) => one.or(other).map(|clause| format!("{clause}.")),
    };
    Some([Some(throughput), second].into_iter().flatten().collect())
}

fn throughput(results: &Results, reference: Estimate, compared: &[&Comparison], level: LoadLevel) -> Option<String> {
    let of = |wanted: fn(Verdict) -> bool| -> Vec<(&Comparison, Estimate)> {
        let ratios = compared.iter().filter_map(|one| Some((*one, one.throughput_ratio?)));
        ratios.filter(|(_, ratio)| wanted(ratio.verdict(1.0))).collect()
    };
    let unclear = of(|verdict| verdict == Verdict::Unclear);
    let clear = of(|verdict| matches!(verdict, Verdict::Less | Verdict::More));
    let single = of(|verdict| verdict == Verdict::OneRound);
    let mut clauses = Vec::new();
    if !clear.is_empty() {
        let changes = clear.iter().map(|(one, ratio)| format!("{} with {}", with_unit(ratio), named(results, one)));
        clauses.push(format!("changes by {}", list(changes.collect())));
    }
    if !single.is_empty() {
        let changes = single.iter().map(|(one, ratio)| format!("{} with {}", with_unit(ratio), named(results, one)));
        clauses.push(format!("changes by {} (one round: no spread is known)", list(changes.collect())));
    }
    if !unclear.is_empty() {
        let names = unclear.iter().map(|(one, ratio)| format!("{} ({})", named(results, one), with_unit(ratio)));
        clauses.push(format!("shows no clear difference with {}", list(names.collect())));
    }
    (!clauses.is_empty()).then(|| {
        format!(
            "At {level}, throughput against {} ({} transactions/s) {}.",
            results.run.baseline,
            format::number(reference.mean),
            clauses.join(", and ")
        )
    })
}

/// The case's name, with a warning where it may not have measured what it says.
fn named(results: &Results, comparison: &Comparison) -> String {
    match ProofState::of(&results.proof(&comparison.case, &comparison.subject)) {
        ProofState::Proven => comparison.case.to_string(),
        ProofState::Failed | ProofState::Missing => format!("{} (path not proven)", comparison.case),
    }
}

fn with_unit(ratio: &Estimate) -> String {
    let change = format::change(ratio.mean);
    ratio.margin.map_or(change.clone(), |margin| format!("{change} ± {:.1}{THIN}%", margin * 100.0))
}

fn mesh_cpu(results: &Results, baseline_micros: f64, compared: &[&Comparison]) -> Option<String> {
    let tolls: Vec<String> = compared
        .iter()
        .filter_map(|one| {
            let toll = one.mesh_micros?;
            let amount = words::difference_with_margin(&toll);
            let amount = amount.strip_prefix('+').unwrap_or(&amount);
            Some(match toll.verdict(0.0) {
                Verdict::Unclear => format!("nothing that can be told from noise with {}", named(results, one)),
                _ => format!("{amount}{THIN}µs with {}", named(results, one)),
            })
        })
        .collect();
    (!tolls.is_empty()).then(|| {
        format!(
            "To the {}{THIN}µs of CPU that the mesh spends on each transaction anyway, the path to the database adds {}",
            format::number(baseline_micros),
            list(tolls)
        )
    })
}

/// How far the 99th percentile goes, and in which case.
fn latency(results: &Results, subject: &SubjectName, level: LoadLevel) -> Option<String> {
    let p99 = |case| Some(results.cell(case, subject, level)?.latency?.p99);
    let baseline = p99(&results.run.baseline)?;
    let others = results.cases.iter().filter(|case| case.name != results.run.baseline);
    let (worst, slowest) = others
        .filter_map(|case| Some((&case.name, p99(&case.name)?)))
        .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    Some(format!(
        "99{THIN}% of answers arrive within {}{THIN}ms on the baseline, and within {}{THIN}ms with {worst}, the slowest",
        format::number(baseline),
        format::number(slowest)
    ))
}

/// Each further subject against the first, at the reference level: CPU of the mesh first, then throughput.
pub(crate) fn subjects_compared(results: &Results) -> Vec<String> {
    let Some((first, others)) = results.run.subjects.split_first() else { return Vec::new() };
    others.iter().filter_map(|subject| subject_compared(results, subject, first)).collect()
}

fn subject_compared(results: &Results, subject: &SubjectName, first: &SubjectName) -> Option<String> {
    let level = results.reference_level?;
    let compared: Vec<_> =
        results.cases.iter().filter_map(|case| results.subject_comparison(&case.name, subject, level)).collect();
    let proven = |case: &CaseName| {
        let both = [subject, first].map(|subject| ProofState::of(&results.proof(case, subject)));
        if both == [ProofState::Proven; 2] { case.to_string() } else { format!("{case} (path not proven)") }
    };
    let each = |of: fn(&Ratios) -> Option<Estimate>, text: fn(&Estimate) -> String, neutral: &str| {
        let clauses = compared.iter().filter_map(|one| {
            let ratio = of(&one.ratios)?;
            let unclear = if ratio.verdict(1.0) == Verdict::Unclear { neutral } else { "" };
            Some(format!("{} with {}{unclear}", text(&ratio), proven(&one.case)))
        });
        list(clauses.collect())
    };
    let cpu = each(|ratios| ratios.mesh_micros, words::ratio_with_margin, " (not clear)");
    let throughput = each(|ratios| ratios.throughput, with_unit, " (not clear)");
    (!cpu.is_empty() || !throughput.is_empty()).then(|| {
        format!(
            "At {level}, the mesh hops of {subject} take this many times the CPU a transaction that those of {first} take: \
             {cpu}. Throughput against {first} changes by {throughput}. HTTP between services: {http}.",
            subject = words::subject(subject),
            first = words::subject(first),
            http = words::http(results),
        )
    })
}
