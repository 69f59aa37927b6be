//! MongoDB's wire protocol: bytes in, a message or `Incomplete` or an error out. No I/O.
//!
//! Source: the "MongoDB Wire Protocol" and OP_MSG specifications. OP_MSG is complete but for checksums, which are
//! reported, so that the server can refuse them; OP_QUERY is read because drivers open with it.

use crate::value::{Contents, MalformedBson, check};
use bson::{RawDocument, spec::ElementType};

/// Longest message, header included, that the server takes and announces: MongoDB's own limit.
pub const MAX_MESSAGE_BYTES: usize = 48_000_000;

/// Length of the header that starts every message.
pub const HEADER_BYTES: usize = 16;

/// The outcome of [`decode`].
#[derive(Debug)]
pub enum Decoded<'a> {
    /// More bytes are needed; at least `needed` in all.
    Incomplete {
        /// Length of the message, or of a header while that is not known.
        needed: usize,
    },
    /// A whole message stands at the start of the bytes.
    Complete {
        /// What was sent.
        message: Message<'a>,
        /// The bytes it takes; the next message starts after them.
        length: usize,
    },
}

/// One request.
#[derive(Debug)]
pub struct Message<'a> {
    /// The client's number for it, named in the reply.
    pub request_id: i32,
    /// What is asked.
    pub payload: Payload<'a>,
    /// A BSON type somewhere in it that the store does not handle.
    pub unsupported: Option<ElementType>,
}

/// The kinds of request that are read.
#[derive(Debug)]
pub enum Payload<'a> {
    /// `OP_MSG`: a command.
    Msg(Msg<'a>),
    /// `OP_QUERY`: the legacy form, used for a driver's first `hello`.
    Query {
        /// The namespace asked, `admin.$cmd` for a command.
        collection: &'a str,
        /// The command.
        query: &'a RawDocument,
    },
}

/// The sections of an `OP_MSG`.
#[derive(Debug)]
pub struct Msg<'a> {
    /// The client does not want a reply.
    pub more_to_come: bool,
    /// A CRC-32C follows the sections. It is not verified here.
    pub has_checksum: bool,
    /// The section of kind 0: the command and its arguments.
    pub body: &'a RawDocument,
    /// The sections of kind 1.
    pub sequences: Vec<Sequence<'a>>,
}

/// A section of kind 1: an argument of the command that is a list of documents.
#[derive(Debug)]
pub struct Sequence<'a> {
    /// Name of the argument.
    pub name: &'a str,
    /// Its documents.
    pub documents: Vec<&'a RawDocument>,
}

/// Bytes that are no message. Nothing after them can be made sense of: the connection has to be closed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The header announces less than itself or more than the limit.
    #[error("message length {0} is not between {HEADER_BYTES} and {MAX_MESSAGE_BYTES}; split the message")]
    Length(i32),
    /// An operation other than OP_MSG and OP_QUERY.
    #[error("operation code {0} is not supported; use OP_MSG (2013), without compression")]
    Opcode(i32),
    /// A required flag bit that the protocol does not define.
    #[error("OP_MSG has unknown required flag bits {0:#x}; clear them")]
    Flags(u32),
    /// A section kind that the protocol does not define.
    #[error("OP_MSG has a section of unknown kind {0}; use kind 0 or 1")]
    SectionKind(u8),
    /// No body, or more than one.
    #[error("OP_MSG has {0} sections of kind 0; send exactly one")]
    Bodies(usize),
    /// Two sections of kind 1 with one name.
    #[error("OP_MSG has two sections named '{0}'; join them")]
    DuplicateSequence(String),
    /// A part ends beyond the part that holds it.
    #[error("{0} is truncated or has bytes left over; correct its length")]
    Truncated(&'static str),
    /// A name that is not UTF-8.
    #[error("{0} is not UTF-8; encode it")]
    NotUtf8(&'static str),
    /// A document that is not BSON.
    #[error("message holds a bad document")]
    Bson(#[from] MalformedBson),
}

/// Reads the message at the start of `bytes`.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, WireError> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(Decoded::Incomplete { needed: HEADER_BYTES });
    };
    let [length, request_id, _response_to, opcode] = header_words(header);
    let size = match usize::try_from(length) {
        Ok(size) if (HEADER_BYTES..=MAX_MESSAGE_BYTES).contains(&size) => size,
        _ => return Err(WireError::Length(length)),
    };
    if ![OP_MSG, OP_QUERY].contains(&opcode) {
        return Err(WireError::Opcode(opcode));
    }
    let Some(content) = bytes.get(HEADER_BYTES..size) else {
        return Ok(Decoded::Incomplete { needed: size });
    };
    let mut unsupported = None;
    let payload = match opcode {
        OP_QUERY => decode_query(content, &mut unsupported)?,
        _ => Payload::Msg(decode_msg(content, &mut unsupported)?),
    };
    Ok(Decoded::Complete { message: Message { request_id, payload, unsupported }, length: size })
}

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_MSG: i32 = 2013;

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
const REQUIRED_FLAGS: u32 = 0xffff;
const CHECKSUM_BYTES: usize = 4;

fn header_words(header: &[u8; HEADER_BYTES]) -> [i32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(header.as_chunks::<4>().0) {
        *word = i32::from_le_bytes(*bytes);
    }
    words
}

fn decode_msg<'a>(content: &'a [u8], unsupported: &mut Option<ElementType>) -> Result<Msg<'a>, WireError> {
    let mut rest = content;
    let flags = u32::from_le_bytes(take_array(&mut rest, "OP_MSG")?);
    let unknown = flags & REQUIRED_FLAGS & !(CHECKSUM_PRESENT | MORE_TO_COME);
    if unknown != 0 {
        return Err(WireError::Flags(unknown));
    }
    let has_checksum = flags & CHECKSUM_PRESENT != 0;
    if has_checksum {
        let sections = rest.len().checked_sub(CHECKSUM_BYTES).ok_or(WireError::Truncated("OP_MSG"))?;
        rest = &rest[..sections];
    }
    let mut bodies = Vec::with_capacity(1);
    let mut sequences: Vec<Sequence<'_>> = Vec::new();
    while let Some((kind, section)) = rest.split_first() {
        rest = section;
        match kind {
            0 => bodies.push(take_document(&mut rest, unsupported)?),
            1 => {
                let sequence = take_sequence(&mut rest, unsupported)?;
                if sequences.iter().any(|other| other.name == sequence.name) {
                    return Err(WireError::DuplicateSequence(sequence.name.to_owned()));
                }
                sequences.push(sequence);
            }
            kind => return Err(WireError::SectionKind(*kind)),
        }
    }
    let [body] = bodies[..] else { return Err(WireError::Bodies(bodies.len())) };
    Ok(Msg { more_to_come: flags & MORE_TO_COME != 0, has_checksum, body, sequences })
}

fn take_sequence<'a>(rest: &mut &'a [u8], unsupported: &mut Option<ElementType>) -> Result<Sequence<'a>, WireError> {
    const WHAT: &str = "document sequence";
    let size = i32::from_le_bytes(take_array(rest, WHAT)?);
    let content = usize::try_from(size).ok().and_then(|size| size.checked_sub(4));
    let mut content = take(rest, content.ok_or(WireError::Truncated(WHAT))?, WHAT)?;
    let name = take_text(&mut content, WHAT)?;
    let mut documents = Vec::new();
    while !content.is_empty() {
        documents.push(take_document(&mut content, unsupported)?);
    }
    Ok(Sequence { name, documents })
}

fn decode_query<'a>(content: &'a [u8], unsupported: &mut Option<ElementType>) -> Result<Payload<'a>, WireError> {
    const WHAT: &str = "OP_QUERY";
    let mut rest = content;
    let _flags: [u8; 4] = take_array(&mut rest, WHAT)?;
    let collection = take_text(&mut rest, WHAT)?;
    let _skip_and_count: [u8; 8] = take_array(&mut rest, WHAT)?;
    let query = take_document(&mut rest, unsupported)?;
    if rest.is_empty() { Ok(Payload::Query { collection, query }) } else { Err(WireError::Truncated(WHAT)) }
}

fn take_document<'a>(rest: &mut &'a [u8], unsupported: &mut Option<ElementType>) -> Result<&'a RawDocument, WireError> {
    const WHAT: &str = "document";
    let length = rest.first_chunk().ok_or(WireError::Truncated(WHAT))?;
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(|_| WireError::Truncated(WHAT))?;
    let document = RawDocument::from_bytes(take(rest, length, WHAT)?).map_err(MalformedBson::from)?;
    let Contents { unsupported: found, .. } = check(document)?;
    *unsupported = unsupported.or(found);
    Ok(document)
}

fn take_text<'a>(rest: &mut &'a [u8], what: &'static str) -> Result<&'a str, WireError> {
    let length = rest.iter().position(|byte| *byte == 0).ok_or(WireError::Truncated(what))?;
    let text = take(rest, length, what)?;
    let _terminator: [u8; 1] = take_array(rest, what)?;
    std::str::from_utf8(text).map_err(|_| WireError::NotUtf8(what))
}

fn take_array<const N: usize>(rest: &mut &[u8], what: &'static str) -> Result<[u8; N], WireError> {
    let (taken, left) = rest.split_first_chunk().ok_or(WireError::Truncated(what))?;
    *rest = left;
    Ok(*taken)
}

fn take<'a>(rest: &mut &'a [u8], length: usize, what: &'static str) -> Result<&'a [u8], WireError> {
    let (taken, left) = rest.split_at_checked(length).ok_or(WireError::Truncated(what))?;
    *rest = left;
    Ok(taken)
}

/// Appends an `OP_MSG` reply to `out`, its body written by `body`.
pub(crate) fn encode_msg(out: &mut Vec<u8>, request_id: i32, response_to: i32, body: impl FnOnce(&mut Vec<u8>)) {
    encode(out, [request_id, response_to, OP_MSG], |out| {
        out.extend_from_slice(&[0; 5]); // no flags; a section of kind 0
        body(out);
    });
}

/// Appends an `OP_REPLY` with one document to `out`.
pub(crate) fn encode_reply(out: &mut Vec<u8>, request_id: i32, response_to: i32, body: impl FnOnce(&mut Vec<u8>)) {
    const AWAIT_CAPABLE: i32 = 8;
    const ONE_DOCUMENT: i32 = 1;
    encode(out, [request_id, response_to, OP_REPLY], |out| {
        for word in [AWAIT_CAPABLE, 0, 0, 0, ONE_DOCUMENT] {
            out.extend_from_slice(&i32::to_le_bytes(word));
        }
        body(out);
    });
}

fn encode(out: &mut Vec<u8>, header: [i32; 3], content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    for word in header {
        out.extend_from_slice(&word.to_le_bytes());
    }
    content(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
