//! Runs in SQLite: every slice is committed when it ends, so that a run that is cut off leaves all it measured.

mod rows;
#[cfg(test)]
mod tests;

use crate::record::{CellRecord, RunHeader, RunId, RunRecord, SliceRecord, TopologyRecord};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Layout that this version reads and writes, as SQLite's `user_version`.
const SCHEMA_VERSION: i64 = 2;
const SCHEMA: &str = include_str!("schema.sql");

/// Why the store could not be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite refused.
    #[error("store {}", path.display())]
    Sqlite {
        /// The store's file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The file was written by another version.
    #[error("store {} has layout {found}, and this meshtoll knows layout {SCHEMA_VERSION}: use another --out, or the meshtoll that wrote it", path.display())]
    Layout {
        /// The store's file.
        path: PathBuf,
        /// Its `user_version`.
        found: i64,
    },
    /// No such run.
    #[error("store {} has no run `{run}`; it has: {known}", path.display())]
    NoSuchRun {
        /// The store's file.
        path: PathBuf,
        /// What was asked for.
        run: String,
        /// The runs it has, or `none`.
        known: String,
    },
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

/// A cell's row, to which slices are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellKey(i64);

impl Store {
    /// Opens the store at `path`, and makes it if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be opened or has another layout.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path).map_err(|source| sqlite(path, source))?;
        let mut store = Self { connection, path: path.to_owned() };
        store.prepare().map_err(|error| match error {
            Prepare::Sqlite(source) => sqlite(path, source),
            Prepare::Layout(found) => StoreError::Layout { path: path.to_owned(), found },
        })?;
        Ok(store)
    }

    fn prepare(&mut self) -> Result<(), Prepare> {
        self.connection.busy_timeout(Duration::from_secs(10))?;
        self.connection.pragma_update(None, "journal_mode", "wal")?;
        self.connection.pragma_update(None, "synchronous", "normal")?;
        self.connection.pragma_update(None, "foreign_keys", "on")?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match found {
            SCHEMA_VERSION => {}
            0 => {
                transaction.execute_batch(SCHEMA)?;
                transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            other => return Err(Prepare::Layout(other)),
        }
        Ok(transaction.commit()?)
    }

    /// The store's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a run: its header, topologies with their configurations, and cells, all of which are known before
    /// the first slice. Returns a key for each cell, in their order.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn begin(
        &mut self,
        id: &RunId,
        header: &RunHeader,
        topologies: &[TopologyRecord],
        cells: &[CellRecord],
    ) -> Result<Vec<CellKey>, StoreError> {
        let mut work = || -> Result<Vec<CellKey>, rusqlite::Error> {
            let transaction = self.connection.transaction()?;
            transaction.execute("INSERT INTO run (id, header) VALUES (?1, ?2)", params![id.0, rows::json(header)?])?;
            for (ordinal, topology) in (0_i64..).zip(topologies) {
                rows::insert_topology(&transaction, id, ordinal, topology)?;
            }
            let mut keys = Vec::with_capacity(cells.len());
            for (ordinal, cell) in (0_i64..).zip(cells) {
                transaction.execute(
                    "INSERT INTO cell (run, ordinal, case_name, subject, level) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![id.0, ordinal, cell.case.as_str(), cell.subject.as_str(), rows::json(&cell.level)?],
                )?;
                keys.push(CellKey(transaction.last_insert_rowid()));
            }
            transaction.commit()?;
            Ok(keys)
        };
        work().map_err(|source| sqlite(&self.path, source))
    }

    /// Adds a slice, whole or not at all.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn add(&mut self, cell: CellKey, slice: &SliceRecord) -> Result<(), StoreError> {
        rows::insert_slice(&mut self.connection, cell.0, slice).map_err(|source| sqlite(&self.path, source))
    }

    /// Marks a run as ended.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn end(&mut self, id: &RunId, ended: &str) -> Result<(), StoreError> {
        self.connection
            .execute("UPDATE run SET ended = ?2 WHERE id = ?1", params![id.0, ended])
            .map_err(|source| sqlite(&self.path, source))?;
        Ok(())
    }

    /// All runs, oldest first.
    ///
    /// # Errors
    /// If SQLite refuses.
    pub fn runs(&self) -> Result<Vec<RunId>, StoreError> {
        let read = || -> Result<Vec<RunId>, rusqlite::Error> {
            let mut statement = self.connection.prepare("SELECT id FROM run ORDER BY rowid")?;
            let ids = statement.query_map([], |row| row.get(0).map(RunId))?;
            ids.collect()
        };
        read().map_err(|source| sqlite(&self.path, source))
    }

    /// Reads a run by its id, or the newest one by `latest`.
    ///
    /// # Errors
    /// If there is none of that name, or what is stored cannot be read.
    pub fn read(&self, run: &str) -> Result<RunRecord, StoreError> {
        let id = self.find(run)?;
        rows::read_run(&self.connection, &id).map_err(|source| sqlite(&self.path, source))
    }

    fn find(&self, run: &str) -> Result<RunId, StoreError> {
        let (query, argument) = match run {
            "latest" => ("SELECT id FROM run WHERE ?1 = ?1 ORDER BY rowid DESC LIMIT 1", run),
            id => ("SELECT id FROM run WHERE id = ?1", id),
        };
        let found: Option<String> = self
            .connection
            .query_row(query, [argument], |row| row.get(0))
            .optional()
            .map_err(|source| sqlite(&self.path, source))?;
        match found {
            Some(id) => Ok(RunId(id)),
            None => {
                let known: Vec<String> = self.runs()?.into_iter().map(|id| id.0).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(StoreError::NoSuchRun { path: self.path.clone(), run: run.to_owned(), known })
            }
        }
    }
}

enum Prepare {
    Sqlite(rusqlite::Error),
    Layout(i64),
}

impl From<rusqlite::Error> for Prepare {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn sqlite(path: &Path, source: rusqlite::Error) -> StoreError {
    StoreError::Sqlite { path: path.to_owned(), source }
}
