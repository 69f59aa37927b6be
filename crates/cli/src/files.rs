//! Reading what the user names.

use anyhow::{Context as _, bail};
use meshtoll_lab::plan::Input;
use meshtoll_model::{
    diagnostics::SourceFile,
    experiment::{self, CheckedExperiment},
    ids::CaseName,
};
use serde::de::DeserializeOwned;
use std::{
    collections::BTreeMap,
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
    /// Each case's Istio resources as they are written.
    pub(crate) sources: BTreeMap<CaseName, Vec<SourceFile>>,
    /// `experiment.yaml` as it is written.
    pub(crate) yaml: String,
}

impl ReadExperiment {
    /// What a plan is made from.
    pub(crate) fn input(&self) -> Input<'_> {
        Input { checked: &self.checked, sources: &self.sources }
    }
}

/// Reads and checks an experiment: a folder with an `experiment.yaml`, that file itself, or a name below
/// `./experiments`.
pub(crate) fn read_experiment(named: &Path) -> anyhow::Result<ReadExperiment> {
    let path = experiment_file(named)?;
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = SourceFile { path: path.clone(), text };
    let mut folders: BTreeMap<PathBuf, Vec<SourceFile>> = BTreeMap::new();
    let checked = experiment::check(&file, |resources| {
        let files = yaml_files(&folder.join(resources))?;
        folders.insert(resources.to_owned(), files.clone());
        std::io::Result::Ok(files)
    })?;
    let cases = checked.experiment.cases.iter();
    let sources = cases.filter_map(|case| Some((case.name.clone(), folders.get(&case.resources)?.clone()))).collect();
    Ok(ReadExperiment { checked, sources, yaml: file.text })
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
