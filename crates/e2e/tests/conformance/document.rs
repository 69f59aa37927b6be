//! `docs/CONFORMANCE.md`, from the table.

use crate::{
    programs,
    table::{Envoy, GROUPS, Row, rows},
};
use std::{collections::BTreeSet, env, fmt::Write as _, fs};

/// Set, the document is written instead of compared.
const WRITE: &str = "MESHTOLL_WRITE_CONFORMANCE";
/// As many behaviours as there have to be.
const LEAST: usize = 60;

const HEAD: &str = "# Conformance

How Meshtoll's data plane behaves, and Envoy beside it, configured from the same Istio resources. Every row is run against both, in
network namespaces, with real connections:

    cargo build --release -p meshtoll-cli
    cargo test --release -p meshtoll-e2e --test conformance

This file is made from the table in `crates/e2e/tests/conformance`, and a test holds it against the table:

    MESHTOLL_WRITE_CONFORMANCE=1 cargo test --release -p meshtoll-e2e --test conformance document

Where Envoy does otherwise, what it does is asserted too. *Refused* means that the connection ends without a byte of an answer; *silence*,
that it neither ends nor is answered within 15 seconds. `one`, `two` and `three` are servers outside of the mesh; `stranger` is a pod
of the mesh's network without a sidecar, `loopback` a server on the gateway's own loopback, everything else that is reached a service of the
mesh. Outcomes name the server that was reached, and the server name or Host that it was asked for.
";

pub(crate) fn is_current() -> Result<(), String> {
    let path = programs::workspace().join("docs/CONFORMANCE.md");
    let text = document();
    if env::var_os(WRITE).is_some() {
        return fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()));
    }
    let written = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let differs = || format!("{} is not what the table says: run this test with {WRITE}=1", path.display());
    if written == text { Ok(()) } else { Err(differs()) }
}

/// Whether the table keeps its own rules.
pub(crate) fn is_sound() -> Result<(), String> {
    let mut names = BTreeSet::new();
    for (group, row) in rows() {
        if !names.insert(row.name) {
            return Err(format!("{} is there twice", row.name));
        }
        let others = match row.envoy {
            Envoy::Same => [row.done, "-"],
            Envoy::Differs { outcome, why } if outcome != row.expected => [outcome, why],
            Envoy::Differs { .. } => return Err(format!("{}: Envoy does not differ", row.name)),
            Envoy::NotApplicable { why } => [why, "-"],
        };
        if [row.done, row.expected].iter().chain(&others).any(|text| text.is_empty()) {
            return Err(format!("{} of {} does not say everything", row.name, group.name));
        }
    }
    if names.len() < LEAST { Err(format!("there are only {} rows", names.len())) } else { Ok(()) }
}

fn document() -> String {
    let count = |chosen: fn(&Row) -> bool| rows().filter(|(_, row)| chosen(row)).count();
    let same = count(|row| matches!(row.envoy, Envoy::Same));
    let differs = count(|row| matches!(row.envoy, Envoy::Differs { .. }));
    let only = count(|row| matches!(row.envoy, Envoy::NotApplicable { .. }));
    let mut text = format!(
        "{HEAD}\n{} behaviours: both do the same in {same}, Envoy does otherwise in {differs}, and {only} it cannot have here.\n",
        rows().count()
    );
    for group in GROUPS {
        // A text takes everything that is written to it.
        let _ = write!(
            text,
            "\n## {}\n\n{}\n\n| row | what is done | Meshtoll | Envoy |\n|---|---|---|---|\n",
            group.name, group.about
        );
        for row in group.rows {
            let envoy = match row.envoy {
                Envoy::Same => "the same".to_owned(),
                Envoy::Differs { outcome, why } => format!("**{outcome}.** {why}"),
                Envoy::NotApplicable { why } => format!("*not applicable.* {why}"),
            };
            let _ = writeln!(text, "| `{}` | {} | {} | {envoy} |", row.name, row.done, row.expected);
        }
    }
    text
}
