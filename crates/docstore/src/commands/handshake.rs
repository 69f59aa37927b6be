//! Commands of a driver's handshake and upkeep.

use crate::{
    error::{Code, CommandError, CommandResult},
    record::MAX_DOCUMENT_BYTES,
    reply::Reply,
    request::Request,
    value::elements,
    wire::MAX_MESSAGE_BYTES,
};
use bson::{Binary, DateTime, raw::cstr, rawdoc, spec::BinarySubtype};

/// Most statements of one write command, as MongoDB's.
pub(super) const MAX_WRITE_BATCH: usize = 100_000;

/// The wire version of MongoDB 7.0, whose behaviour is followed.
const MAX_WIRE_VERSION: i32 = 21;

/// The version that goes with it.
const COMPATIBLE_VERSION: [i32; 4] = [7, 0, 0, 0];

/// How long drivers may keep a session, minutes: MongoDB's default. Sessions hold nothing here.
const SESSION_MINUTES: i32 = 30;

/// What a driver offers here (compression, awaited answers, whatever newer ones bring) is declined by not naming it in the
/// answer; that is how the handshake is specified, so unknown arguments are not errors in it alone.
pub(super) fn hello(request: &Request<'_>) -> CommandResult<Reply> {
    for (name, value) in request.arguments() {
        match name {
            "client" => drop(request.document(name, value)?),
            "loadBalanced" if request.boolean(name, value)? => {
                let message =
                    "The server is being accessed through a load balancer, but it does not have load balancing enabled";
                return Err(CommandError::bad_value(message));
            }
            "helloOk" | "loadBalanced" => {}
            offer => tracing::debug!(offer, "hello offers what the server declines"),
        }
    }
    let mut reply = rawdoc! {
        "helloOk": true,
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES as i32,
        "maxMessageSizeBytes": MAX_MESSAGE_BYTES as i32,
        "maxWriteBatchSize": MAX_WRITE_BATCH as i32,
        "localTime": DateTime::now(),
        "logicalSessionTimeoutMinutes": SESSION_MINUTES,
        "connectionId": request.connection_id,
        "minWireVersion": 0,
        "maxWireVersion": MAX_WIRE_VERSION,
        "readOnly": false,
    };
    if request.name == "hello" {
        reply.append(cstr!("isWritablePrimary"), true);
    } else {
        reply.append(cstr!("ismaster"), true);
    }
    Ok(Reply::Fields(reply))
}

pub(super) fn ping(request: &Request<'_>) -> CommandResult<Reply> {
    no_arguments(request)?;
    Ok(Reply::ok())
}

pub(super) fn build_info(request: &Request<'_>) -> CommandResult<Reply> {
    no_arguments(request)?;
    let [major, minor, patch, _] = COMPATIBLE_VERSION;
    Ok(Reply::Fields(rawdoc! {
        "version": format!("{major}.{minor}.{patch}"),
        "versionArray": bson::RawArrayBuf::from_iter(COMPATIBLE_VERSION),
        "docstore": env!("CARGO_PKG_VERSION"),
        "modules": [],
        "bits": usize::BITS as i32,
        "debug": cfg!(debug_assertions),
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES as i32,
    }))
}

pub(super) fn start_session(request: &Request<'_>) -> CommandResult<Reply> {
    no_arguments(request)?;
    let mut bytes = vec![0; 16];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| {
        CommandError::new(Code::InternalError, "the system gave no random bytes for a session id; try again")
    })?;
    // The version and variant bits of a random UUID (RFC 9562).
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let id = Binary { subtype: BinarySubtype::Uuid, bytes };
    Ok(Reply::Fields(rawdoc! { "id": { "id": id }, "timeoutMinutes": SESSION_MINUTES }))
}

/// `endSessions` and `refreshSessions`: there is nothing to end or to keep alive.
pub(super) fn sessions(request: &Request<'_>) -> CommandResult<Reply> {
    no_arguments(request)?;
    for session in elements(request.array(request.name, request.target)?) {
        request.document(request.name, session)?;
    }
    Ok(Reply::ok())
}

fn no_arguments(request: &Request<'_>) -> CommandResult<()> {
    request.arguments().next().map_or(Ok(()), |(name, _)| Err(request.unknown_field(name)))
}
