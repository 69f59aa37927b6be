//! `meshtoll check`.

use crate::{files::read_experiment, output::say};
use std::{path::Path, process::ExitCode};

/// Says whether an experiment is sound.
pub(crate) fn check(named: &Path) -> anyhow::Result<ExitCode> {
    let experiment = read_experiment(named)?.checked.experiment;
    let cases = experiment.cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>().join(", ");
    say!("{}: sound; cases: {cases}", experiment.name)?;
    Ok(ExitCode::SUCCESS)
}
