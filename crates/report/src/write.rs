//! All files of a report, each appearing whole or not at all.

use crate::{csv::csv, markdown::markdown, page::page, results};
use meshtoll_lab::record::RunRecord;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The files of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The page.
    pub html: PathBuf,
    /// The same in compact form.
    pub markdown: PathBuf,
    /// One row a cell.
    pub csv: PathBuf,
    /// Every number.
    pub json: PathBuf,
    /// What the numbers mean.
    pub schema: PathBuf,
}

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The folder could not be made.
    #[error("cannot create the report's folder {}: name one that can be written to", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: is the disk full, or the folder not writable?", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The results could not be turned into JSON.
    #[error("cannot turn the results into JSON: this is a bug, please report it with the run")]
    Json(#[source] serde_json::Error),
}

/// Writes `report.html`, `report.md`, `results.csv`, `results.json` and `results.schema.json` into `dir`, which is
/// made if need be. What was there under these names is replaced.
pub fn write_all(record: &RunRecord, dir: &Path) -> Result<Written, WriteError> {
    let results = results::results(record);
    fs::create_dir_all(dir).map_err(|source| WriteError::Folder { path: dir.to_owned(), source })?;
    let file = |name: &str, contents: String| {
        let path = dir.join(name);
        whole(&path, &contents).map_err(|source| WriteError::File { path: path.clone(), source })?;
        Ok(path)
    };
    Ok(Written {
        json: file("results.json", json(&results)?)?,
        schema: file("results.schema.json", json(&results::schema())?)?,
        csv: file("results.csv", csv(&results))?,
        markdown: file("report.md", markdown(&results))?,
        html: file("report.html", page(&results))?,
    })
}

fn json(value: &impl serde::Serialize) -> Result<String, WriteError> {
    let mut text = serde_json::to_string_pretty(value).map_err(WriteError::Json)?;
    text.push('\n');
    Ok(text)
}

/// Writes beside the file, then renames: a reader sees the old file or the new one.
fn whole(path: &Path, contents: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    fs::write(&beside, contents).and_then(|()| fs::rename(&beside, path)).inspect_err(|_| {
        // The error that matters is the one being returned; what is left of the part can only be removed.
        let _ = fs::remove_file(&beside);
    })
}
