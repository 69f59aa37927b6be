//! Cursors: what a query found and has not been sent yet.

use crate::{
    error::{Code, CommandError, CommandResult},
    record::{MAX_DOCUMENT_BYTES, Record},
};
use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

/// A cursor that nobody asks for this long is closed: MongoDB's default.
const IDLE_LIMIT: Duration = Duration::from_secs(600);

/// Most bytes of documents that open cursors hold in all. A bound, because a client that opens cursors and leaves
/// would else fill the memory.
const MAX_HELD_BYTES: usize = 512 * 1024 * 1024;

/// What a held document costs beside its bytes.
const OVERHEAD_BYTES: usize = 64;

/// Documents of a first batch, when the client does not say: MongoDB's default.
pub(crate) const FIRST_BATCH: usize = 101;

/// Results that are left, with the namespace that they came from.
#[derive(Debug)]
struct Cursor {
    namespace: String,
    rest: VecDeque<Record>,
    held_bytes: usize,
    last_use: Instant,
}

/// All open cursors.
#[derive(Debug, Default)]
pub(crate) struct Cursors {
    open: HashMap<i64, Cursor>,
    held_bytes: usize,
}

/// One reply's worth of results.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) documents: Vec<Record>,
    /// The cursor with the rest; 0 when there is none.
    pub(crate) cursor: i64,
}

impl Cursors {
    /// Takes the first batch of some results and keeps the rest, unless `single_batch`.
    pub(crate) fn open(
        &mut self,
        namespace: &str,
        results: Vec<Record>,
        batch_size: usize,
        single_batch: bool,
    ) -> CommandResult<Batch> {
        let mut rest = VecDeque::from(results);
        let documents = take_batch(&mut rest, batch_size);
        if rest.is_empty() || single_batch {
            return Ok(Batch { documents, cursor: 0 });
        }
        let now = Instant::now();
        self.close_idle(now);
        let held_bytes = rest.iter().map(|record| record.as_bytes().len() + OVERHEAD_BYTES).sum();
        if self.held_bytes + held_bytes > MAX_HELD_BYTES {
            let message = format!(
                "open cursors would hold more than {MAX_HELD_BYTES} bytes; ask for less, or read or kill open cursors"
            );
            return Err(CommandError::new(Code::ExceededMemoryLimit, message));
        }
        let id = self.new_id()?;
        self.held_bytes += held_bytes;
        self.open.insert(id, Cursor { namespace: namespace.to_owned(), rest, held_bytes, last_use: now });
        Ok(Batch { documents, cursor: id })
    }

    /// Takes the next batch of a cursor, and closes it when that was the last.
    pub(crate) fn next(&mut self, id: i64, namespace: &str, batch_size: Option<usize>) -> CommandResult<Batch> {
        let now = Instant::now();
        self.close_idle(now);
        let cursor = self.open.get_mut(&id);
        let cursor = cursor.ok_or_else(|| {
            let message = format!("cursor id {id} not found; it was read to its end, killed, or idle for too long");
            CommandError::new(Code::CursorNotFound, message)
        })?;
        if cursor.namespace != namespace {
            let message = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                cursor.namespace
            );
            return Err(CommandError::new(Code::Unauthorized, message));
        }
        cursor.last_use = now;
        let documents = take_batch(&mut cursor.rest, batch_size.unwrap_or(usize::MAX));
        let sent: usize = documents.iter().map(|record| record.as_bytes().len() + OVERHEAD_BYTES).sum();
        cursor.held_bytes -= sent;
        self.held_bytes -= sent;
        if cursor.rest.is_empty() {
            self.open.remove(&id);
            return Ok(Batch { documents, cursor: 0 });
        }
        Ok(Batch { documents, cursor: id })
    }

    /// Closes a cursor; `false` when there is none with this id in the namespace.
    pub(crate) fn kill(&mut self, id: i64, namespace: &str) -> bool {
        if self.open.get(&id).is_none_or(|cursor| cursor.namespace != namespace) {
            return false;
        }
        let killed = self.open.remove(&id);
        self.held_bytes -= killed.map_or(0, |cursor| cursor.held_bytes);
        true
    }

    /// Closes the cursors that have been idle for too long.
    pub(crate) fn close_idle(&mut self, now: Instant) {
        self.open.retain(|_, cursor| {
            let keep = now.duration_since(cursor.last_use) < IDLE_LIMIT;
            if !keep {
                self.held_bytes -= cursor.held_bytes;
            }
            keep
        });
    }

    /// Random, so that no client can guess another's.
    fn new_id(&self) -> CommandResult<i64> {
        loop {
            let mut bytes = [0; 8];
            aws_lc_rs::rand::fill(&mut bytes).map_err(|_| {
                CommandError::new(Code::InternalError, "the system gave no random bytes for a cursor id; try again")
            })?;
            let id = i64::from_le_bytes(bytes) & i64::MAX;
            if id != 0 && !self.open.contains_key(&id) {
                return Ok(id);
            }
        }
    }
}

/// At most `count` documents, and no more than fit the largest reply, but one at least if any is wanted.
fn take_batch(rest: &mut VecDeque<Record>, count: usize) -> Vec<Record> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while batch.len() < count
        && let Some(record) = rest.pop_front()
    {
        bytes += record.as_bytes().len();
        if bytes > MAX_DOCUMENT_BYTES && !batch.is_empty() {
            rest.push_front(record);
            break;
        }
        batch.push(record);
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;
    use std::sync::Arc;

    fn records(count: i32) -> Vec<Record> {
        (0..count).map(|id| Arc::new(rawdoc! { "_id": id })).collect()
    }

    #[test]
    fn batches_follow_each_other_to_the_end() {
        let mut cursors = Cursors::default();
        let first = cursors.open("db.c", records(10), 4, false).unwrap();
        assert_eq!(first.documents, records(10)[..4]);
        let second = cursors.next(first.cursor, "db.c", Some(4)).unwrap();
        assert_eq!((second.documents, second.cursor), (records(10)[4..8].to_vec(), first.cursor));
        let last = cursors.next(first.cursor, "db.c", None).unwrap();
        assert_eq!((last.documents, last.cursor), (records(10)[8..].to_vec(), 0));
        assert_eq!(cursors.next(first.cursor, "db.c", None).unwrap_err().code, Code::CursorNotFound);
        assert_eq!(cursors.held_bytes, 0);
    }

    #[test]
    fn a_batch_fits_a_reply() {
        let large: Vec<Record> = (0..3).map(|_| Arc::new(rawdoc! { "a": "x".repeat(10 << 20) })).collect();
        let mut cursors = Cursors::default();
        let batch = cursors.open("db.c", large, 100, false).unwrap();
        assert_eq!(batch.documents.len(), 1);
        assert!(cursors.kill(batch.cursor, "db.c"));
    }

    #[test]
    fn what_cursors_hold_is_bounded() {
        let mut cursors = Cursors::default();
        let large: Record = Arc::new(rawdoc! { "a": "x".repeat(16 << 20) });
        let error = cursors.open("db.c", vec![large; 40], 0, false).unwrap_err();
        assert_eq!(error.code, Code::ExceededMemoryLimit);
        assert!(cursors.open.is_empty());
    }

    #[test]
    fn idle_cursors_are_closed() {
        let mut cursors = Cursors::default();
        let batch = cursors.open("db.c", records(2), 1, false).unwrap();
        cursors.close_idle(Instant::now() + IDLE_LIMIT);
        assert_eq!(cursors.next(batch.cursor, "db.c", None).unwrap_err().code, Code::CursorNotFound);
        assert_eq!(cursors.held_bytes, 0);
    }

    #[test]
    fn cursors_belong_to_their_namespace() {
        let mut cursors = Cursors::default();
        let batch = cursors.open("db.c", records(2), 1, false).unwrap();
        assert_eq!(cursors.next(batch.cursor, "db.d", None).unwrap_err().code, Code::Unauthorized);
        assert!(!cursors.kill(batch.cursor, "db.d"));
        assert!(cursors.kill(batch.cursor, "db.c"));
        assert!(!cursors.kill(batch.cursor, "db.c"));
    }

    #[test]
    fn an_empty_first_batch_and_a_single_one() {
        let mut cursors = Cursors::default();
        let batch = cursors.open("db.c", records(2), 0, false).unwrap();
        assert!(batch.documents.is_empty() && batch.cursor != 0);
        assert_eq!(cursors.open("db.c", records(2), 1, true).unwrap().cursor, 0);
    }
}
