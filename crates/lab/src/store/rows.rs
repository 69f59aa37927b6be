//! Records to rows and back.

use crate::record::{CellRecord, HopUsage, MachineUsage, ProofLine, RunId, RunRecord, SliceRecord, TopologyRecord};
use meshtoll_load::protocol::SliceResult;
use meshtoll_model::{ids::HopName, units::Nanos};
use rusqlite::{Connection, Row, Transaction, params, types::Type};
use serde::{Serialize, de::DeserializeOwned};

type Sql<T> = Result<T, rusqlite::Error>;

/// A value as JSON text.
pub(super) fn json<T: Serialize>(value: &T) -> Sql<String> {
    serde_json::to_string(value).map_err(|source| rusqlite::Error::ToSqlConversionFailure(source.into()))
}

fn parsed<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Sql<T> {
    let index = row.as_ref().column_index(column)?;
    let text: String = row.get(index)?;
    serde_json::from_str(&text)
        .map_err(|source| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, source.into()))
}

/// SQLite's integers are signed 64 bits; what is counted here stays far below.
fn integer(value: u64) -> Sql<i64> {
    i64::try_from(value).map_err(|source| rusqlite::Error::ToSqlConversionFailure(source.into()))
}

fn unsigned(row: &Row<'_>, column: &str) -> Sql<u64> {
    let index = row.as_ref().column_index(column)?;
    u64::try_from(row.get::<_, i64>(index)?)
        .map_err(|source| rusqlite::Error::FromSqlConversionFailure(index, Type::Integer, source.into()))
}

fn nanos(row: &Row<'_>, column: &str) -> Sql<Nanos> {
    unsigned(row, column).map(Nanos)
}

pub(super) fn insert_topology(
    transaction: &Transaction<'_>,
    run: &RunId,
    ordinal: i64,
    record: &TopologyRecord,
) -> Sql<()> {
    transaction.execute(
        "INSERT INTO topology (run, ordinal, topology, hops) VALUES (?1, ?2, ?3, ?4)",
        params![run.0, ordinal, json(&record.topology)?, json(&record.hops)?],
    )?;
    for (hop, file, contents) in &record.configs {
        transaction.execute(
            "INSERT INTO config (run, ordinal, hop, file, contents) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![run.0, ordinal, hop.as_str(), file, contents],
        )?;
    }
    Ok(())
}

pub(super) fn insert_slice(connection: &mut Connection, cell: i64, slice: &SliceRecord) -> Sql<()> {
    let transaction = connection.transaction()?;
    let load = &slice.load;
    transaction.execute(
        "INSERT INTO slice (cell, round, position, started_unix_ns, transactions, elapsed_ns, window_transactions,
             window_ns, response_body_bytes, errors, operations, latency, lateness, machine)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            cell,
            slice.round,
            slice.position,
            integer(slice.started_unix_ns)?,
            integer(load.transactions)?,
            integer(load.elapsed_ns)?,
            integer(load.window_transactions)?,
            integer(load.window_ns)?,
            integer(load.response_body_bytes)?,
            json(&load.errors)?,
            json(&load.operations)?,
            json(&load.latency)?,
            json(&load.lateness)?,
            json(&slice.machine)?,
        ],
    )?;
    let key = transaction.last_insert_rowid();
    for (ordinal, hop) in (0_i64..).zip(&slice.hops) {
        transaction.execute(
            "INSERT INTO slice_hop (slice, ordinal, hop, role, cpu_ns, user_ns, system_ns, resident_bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                key,
                ordinal,
                hop.hop.as_str(),
                json(&hop.role)?,
                integer(hop.cpu.0)?,
                integer(hop.user.0)?,
                integer(hop.system.0)?,
                integer(hop.resident_bytes)?,
            ],
        )?;
    }
    for (ordinal, line) in (0_i64..).zip(&slice.proof) {
        transaction.execute(
            "INSERT INTO slice_proof (slice, ordinal, claim, evidence, holds) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![key, ordinal, line.claim, line.evidence, line.holds],
        )?;
    }
    transaction.commit()
}

pub(super) fn read_run(connection: &Connection, id: &RunId) -> Sql<RunRecord> {
    let (header, ended) = connection.query_row("SELECT header, ended FROM run WHERE id = ?1", [&id.0], |row| {
        Ok((parsed(row, "header")?, row.get("ended")?))
    })?;
    Ok(RunRecord {
        id: id.clone(),
        header,
        ended,
        topologies: topologies(connection, id)?,
        cells: cells(connection, id)?,
    })
}

fn topologies(connection: &Connection, id: &RunId) -> Sql<Vec<TopologyRecord>> {
    let mut statement =
        connection.prepare("SELECT ordinal, topology, hops FROM topology WHERE run = ?1 ORDER BY ordinal")?;
    let mut configs = connection
        .prepare("SELECT hop, file, contents FROM config WHERE run = ?1 AND ordinal = ?2 ORDER BY hop, file")?;
    let rows = statement.query_map([&id.0], |row| {
        let ordinal: i64 = row.get("ordinal")?;
        let configs = configs.query_map(params![id.0, ordinal], |row| {
            Ok((HopName::new(row.get::<_, String>("hop")?), row.get("file")?, row.get("contents")?))
        })?;
        Ok(TopologyRecord {
            topology: parsed(row, "topology")?,
            hops: parsed(row, "hops")?,
            configs: configs.collect::<Sql<_>>()?,
        })
    })?;
    rows.collect()
}

fn cells(connection: &Connection, id: &RunId) -> Sql<Vec<CellRecord>> {
    let mut statement =
        connection.prepare("SELECT id, case_name, subject, level FROM cell WHERE run = ?1 ORDER BY ordinal")?;
    let rows = statement.query_map([&id.0], |row| {
        Ok(CellRecord {
            case: row.get::<_, String>("case_name")?.as_str().into(),
            subject: row.get::<_, String>("subject")?.as_str().into(),
            level: parsed(row, "level")?,
            slices: slices(connection, row.get("id")?)?,
        })
    })?;
    rows.collect()
}

fn slices(connection: &Connection, cell: i64) -> Sql<Vec<SliceRecord>> {
    let mut statement = connection.prepare("SELECT * FROM slice WHERE cell = ?1 ORDER BY round")?;
    let rows = statement.query_map([cell], |row| {
        let key: i64 = row.get("id")?;
        let machine: MachineUsage = parsed(row, "machine")?;
        Ok(SliceRecord {
            round: row.get("round")?,
            position: row.get("position")?,
            started_unix_ns: unsigned(row, "started_unix_ns")?,
            load: SliceResult {
                transactions: unsigned(row, "transactions")?,
                elapsed_ns: unsigned(row, "elapsed_ns")?,
                window_transactions: unsigned(row, "window_transactions")?,
                window_ns: unsigned(row, "window_ns")?,
                errors: parsed(row, "errors")?,
                operations: parsed(row, "operations")?,
                response_body_bytes: unsigned(row, "response_body_bytes")?,
                latency: parsed(row, "latency")?,
                lateness: parsed(row, "lateness")?,
            },
            hops: hops(connection, key)?,
            machine,
            proof: proof(connection, key)?,
        })
    })?;
    rows.collect()
}

fn hops(connection: &Connection, slice: i64) -> Sql<Vec<HopUsage>> {
    let mut statement = connection.prepare_cached("SELECT * FROM slice_hop WHERE slice = ?1 ORDER BY ordinal")?;
    let rows = statement.query_map([slice], |row| {
        Ok(HopUsage {
            hop: HopName::new(row.get::<_, String>("hop")?),
            role: parsed(row, "role")?,
            cpu: nanos(row, "cpu_ns")?,
            user: nanos(row, "user_ns")?,
            system: nanos(row, "system_ns")?,
            resident_bytes: unsigned(row, "resident_bytes")?,
        })
    })?;
    rows.collect()
}

fn proof(connection: &Connection, slice: i64) -> Sql<Vec<ProofLine>> {
    let mut statement = connection.prepare_cached("SELECT * FROM slice_proof WHERE slice = ?1 ORDER BY ordinal")?;
    let rows = statement.query_map([slice], |row| {
        Ok(ProofLine { claim: row.get("claim")?, evidence: row.get("evidence")?, holds: row.get("holds")? })
    })?;
    rows.collect()
}
