//! What the database says of who asked it.

use crate::proof::DatabaseSource;
use meshtoll_docstore::stats::Snapshot;

/// Admin port of the database's process, on 127.0.0.1 of its pod.
pub(crate) const ADMIN_PORT: u16 = 8081;
/// Where it tells its connections.
pub(crate) const CONNECTIONS_PATH: &str = "/connections";

/// The sources in an answer of docstore, or of the relay that stands for a database elsewhere.
pub(crate) fn sources(answer: &str) -> Result<Vec<DatabaseSource>, serde_json::Error> {
    let snapshot: Snapshot = serde_json::from_str(answer)?;
    let sources = snapshot.connections.into_iter().map(|connection| DatabaseSource {
        peer: connection.peer,
        server_name: connection.sni,
        tls: connection.tls,
        operations: connection.operations,
        received_bytes: connection.bytes_in,
    });
    Ok(sources.collect())
}
