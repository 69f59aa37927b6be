//! Reading what the user names.

use anyhow::{Context as _, bail};
use meshtoll_model::{
    diagnostics::SourceFile,
    experiment::{self, CheckedExperiment},
};
use serde::de::DeserializeOwned;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A JSON file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not what it should be", path.display()))
}

/// An experiment with its resources, and its file as it is written.
pub(crate) struct ReadExperiment {
    /// Checked.
    pub(crate) checked: CheckedExperiment,
    /// `experiment.yaml` as it is written.
    pub(crate) yaml: String,
}

/// Reads and checks an experiment: a folder with an `experiment.yaml`, that file itself, or a name below
/// `./experiments`.
pub(crate) fn read_experiment(named: &Path) -> anyhow::Result<ReadExperiment> {
    let path = experiment_file(named)?;
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = SourceFile { path: path.clone(), text };
    let checked = experiment::check(&file, |resources| yaml_files(&folder.join(resources)))?;
    Ok(ReadExperiment { checked, yaml: file.text })
}

fn experiment_file(named: &Path) -> anyhow::Result<PathBuf> {
    let below = Path::new("experiments").join(named);
    let candidates = [named.to_owned(), named.join("experiment.yaml"), below.join("experiment.yaml")];
    if let Some(found) = candidates.into_iter().find(|candidate| candidate.is_file()) {
        return Ok(found);
    }
    bail!(
        "no experiment at {}: name a folder with an experiment.yaml, or one below {}",
        named.display(),
        Path::new("experiments").display()
    )
}

/// The YAML files of a folder, by name.
fn yaml_files(folder: &Path) -> std::io::Result<Vec<SourceFile>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
    paths.sort();
    paths.into_iter().map(|path| fs::read_to_string(&path).map(|text| SourceFile { path, text })).collect()
}
