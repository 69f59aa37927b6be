//! The commands: from a message to its reply.

mod aggregate;
mod catalog;
mod handshake;
mod indexes;
mod modify;
mod query;
mod write;

use crate::{
    error::{Code, CommandError, CommandResult},
    reply::{Reply, write_error},
    request::Request,
    store::Store,
    wire::{self, Message, Msg, Payload},
};
use bson::spec::ElementType;

/// What kind of command was answered, for the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One that a driver sends on its own account: `hello`, `ping`, `endSessions`.
    Housekeeping,
    /// Any other.
    Operation,
}

/// Executes the command of a message and appends the reply to `out`, unless the client wants none.
pub(crate) fn answer(store: &mut Store, message: &Message<'_>, connection_id: i32, out: &mut Vec<u8>) -> Kind {
    let start = out.len();
    match &message.payload {
        Payload::Msg(msg) => {
            let request = Request::parse(msg.body, &msg.sequences, None, connection_id);
            let kind = kind(&request);
            let result = checked(msg, message.unsupported).and(request).and_then(|request| execute(store, &request));
            wire::encode_msg(out, message.request_id, message.request_id, |out| write(result, out));
            if msg.more_to_come {
                out.truncate(start);
            }
            kind
        }
        Payload::Query { collection, query } => {
            let db = collection.strip_suffix(".$cmd");
            let request = Request::parse(query, &[], Some(db.unwrap_or_default()), connection_id);
            let kind = kind(&request);
            let result = request.and_then(|request| match (db, request.name) {
                (Some(_), "hello" | "isMaster" | "ismaster") => execute(store, &request),
                (_, name) => {
                    let message = format!(
                        "Unsupported OP_QUERY command: {name}. The client driver may require an upgrade; use OP_MSG"
                    );
                    Err(CommandError::new(Code::UnsupportedOpQueryCommand, message))
                }
            });
            wire::encode_reply(out, message.request_id, message.request_id, |out| write(result, out));
            kind
        }
    }
}

fn kind(request: &CommandResult<Request<'_>>) -> Kind {
    match request {
        Ok(Request { name: "hello" | "isMaster" | "ismaster" | "ping" | "endSessions", .. }) => Kind::Housekeeping,
        _ => Kind::Operation,
    }
}

fn write(result: CommandResult<Reply>, out: &mut Vec<u8>) {
    match result {
        Ok(reply) => reply.write(out),
        Err(error) => write_error(&error, out),
    }
}

/// Refuses messages that are well-formed but use what the server does not have.
fn checked(msg: &Msg<'_>, unsupported: Option<ElementType>) -> CommandResult<()> {
    if msg.has_checksum {
        let message = "OP_MSG checksums are not verified here; send messages without";
        return Err(CommandError::new(Code::NotImplemented, message));
    }
    match unsupported {
        Some(kind) => {
            let message = format!("BSON type {kind:?} is not supported; use another type");
            Err(CommandError::new(Code::NotImplemented, message))
        }
        None => Ok(()),
    }
}

fn execute(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    request.allow_sequence(match request.name {
        "insert" => Some("documents"),
        "update" => Some("updates"),
        "delete" => Some("deletes"),
        _ => None,
    })?;
    match request.name {
        "find" => query::find(store, request),
        "getMore" => query::get_more(store, request),
        "killCursors" => query::kill_cursors(store, request),
        "count" => query::count(store, request),
        "distinct" => query::distinct(store, request),
        "aggregate" => aggregate::aggregate(store, request),
        "insert" => write::insert(store, request),
        "update" => write::update(store, request),
        "delete" => write::delete(store, request),
        "findAndModify" | "findandmodify" => modify::find_and_modify(store, request),
        "create" => catalog::create(store, request),
        "drop" => catalog::drop(store, request),
        "dropDatabase" => catalog::drop_database(store, request),
        "listCollections" => catalog::list_collections(store, request),
        "listDatabases" => catalog::list_databases(store, request),
        "createIndexes" => indexes::create(store, request),
        "listIndexes" => indexes::list(store, request),
        "dropIndexes" => indexes::drop(store, request),
        "hello" | "isMaster" | "ismaster" => handshake::hello(request),
        "ping" => handshake::ping(request),
        "buildInfo" | "buildinfo" => handshake::build_info(request),
        "startSession" => handshake::start_session(request),
        "endSessions" | "refreshSessions" => handshake::sessions(request),
        // They do nothing without a transaction, and there never is one.
        "commitTransaction" | "abortTransaction" => Err(CommandError::new(
            Code::IllegalOperation,
            "Transaction numbers are only allowed on a replica set member or mongos",
        )),
        unknown => Err(CommandError::new(Code::CommandNotFound, format!("no such command: '{unknown}'"))),
    }
}
