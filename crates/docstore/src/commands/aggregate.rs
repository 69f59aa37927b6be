//! The aggregate command.

use super::catalog::cursor_batch_size;
use crate::{
    aggregate::Pipeline,
    cursor::FIRST_BATCH,
    error::{Code, CommandError, CommandResult},
    reply::Reply,
    request::Request,
    store::{Store, namespace},
};

pub(super) fn aggregate(store: &mut Store, request: &Request<'_>) -> CommandResult<Reply> {
    let (mut pipeline, mut cursor) = (None, None);
    for (name, value) in request.arguments() {
        match name {
            "pipeline" => pipeline = Some(Pipeline::parse(request.array(name, value)?)?),
            "cursor" => cursor = Some(request.document(name, value)?),
            // A permission that is not needed: everything is in memory.
            "allowDiskUse" => _ = request.boolean(name, value)?,
            _ => return Err(request.unknown_field(name)),
        }
    }
    let pipeline = pipeline.ok_or_else(|| request.missing_field("pipeline"))?;
    let cursor = cursor.ok_or_else(|| {
        let message = "The 'cursor' option is required, except for aggregate with the explain argument";
        CommandError::new(Code::FailedToParse, message)
    })?;
    let batch_size = cursor_batch_size(request, cursor)?.unwrap_or(FIRST_BATCH);
    let name = request.collection()?;
    let namespace = namespace(request.db, name)?;
    let results = pipeline.run(store.collection(request.db, name), request.deadline)?;
    let batch = store.cursors.open(&namespace, results, batch_size, false)?;
    Ok(Reply::Cursor { namespace, batch_name: "firstBatch", batch })
}
