//! `--database`: a database that runs elsewhere.

use crate::args::Selection;
use anyhow::Context as _;
use meshtoll_docstore::relay;
use meshtoll_lab::plan::ExternalDatabase;
use meshtoll_model::experiment::Experiment;
use meshtoll_testbed::outlet::{self, Outlet};
use std::{fs, io, os::fd::AsFd as _};

/// The database that is named, if one is.
pub(crate) fn external(args: &Selection, experiment: &Experiment) -> anyhow::Result<Option<ExternalDatabase>> {
    let Some(uri) = &args.database else { return Ok(None) };
    let ca = args.database_ca.as_ref().map(|path| {
        fs::read_to_string(path).with_context(|| format!("cannot read the database's CA from {}", path.display()))
    });
    let database = ExternalDatabase::new(uri, ca.transpose()?, experiment).context("--database cannot be used")?;
    Ok(Some(database))
}

/// The way to the database for those who have none. It is tried out, as it is here that a mistake can be told best.
pub(crate) fn outlet(database: &ExternalDatabase) -> anyhow::Result<Outlet> {
    let outlet = Outlet::start(&database.location.address)?;
    outlet.connect().context("the database of --database cannot be reached")?;
    Ok(outlet)
}

/// Stands for the database that the outlet at standard input leads to.
pub(crate) fn relay(options: &relay::Options) -> anyhow::Result<()> {
    let connect = || outlet::connect(io::stdin().as_fd()).map_err(io::Error::other);
    relay::serve(options, connect).context("relay")
}
