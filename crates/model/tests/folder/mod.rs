//! Experiments in folders, read as a caller of the crate would.

use meshtoll_model::{
    diagnostics::{Diagnostics, SourceFile},
    experiment::{self, CheckedExperiment},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub(crate) fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

/// Checks the experiment of a folder; diagnostics name files relative to it.
pub(crate) fn check(folder: &Path) -> Result<CheckedExperiment, Diagnostics> {
    let experiment =
        source(folder, Path::new("experiment.yaml")).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    experiment::check(&experiment, |resources| -> io::Result<_> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder.join(resources))? {
            let path = resources.join(entry?.file_name());
            if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push(source(folder, &path)?);
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    })
}

fn source(folder: &Path, path: &Path) -> io::Result<SourceFile> {
    Ok(SourceFile { path: path.into(), text: fs::read_to_string(folder.join(path))? })
}
