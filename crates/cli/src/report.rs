//! `meshtoll report`, and what `run` writes at its end.

use crate::output::{print, say};
use anyhow::Context as _;
use meshtoll_lab::{record::RunRecord, store::Store};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Where the store is, unless another is named.
pub(crate) fn store_in(out: &Path) -> PathBuf {
    out.join("meshtoll.sqlite")
}

/// Makes the report of a stored run again.
pub(crate) fn report(run: &str, store: Option<&Path>, out: &Path) -> anyhow::Result<ExitCode> {
    let path = store.map_or_else(|| store_in(out), Path::to_owned);
    anyhow::ensure!(path.is_file(), "no store at {}: name one with --store, or run first", path.display());
    let record = Store::open(&path)?.read(run)?;
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    write(&record, out)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes every output of a run and prints its table.
pub(crate) fn write(record: &RunRecord, out: &Path) -> anyhow::Result<()> {
    let written = meshtoll_report::write_all(record, out)?;
    print(format_args!("{}", meshtoll_report::terminal::terminal(&meshtoll_report::results::results(record))))?;
    say!("\nReport: {}", written.html.display())
}
