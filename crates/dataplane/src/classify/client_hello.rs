//! The first message of a TLS connection: what a client says in the clear about the server that it wants.
//!
//! ClientHello: RFC 8446 section 4.1.2 (and RFC 5246 section 7.4.1.2); records: RFC 8446 section 5.1; server names:
//! RFC 6066 section 3; ALPN: RFC 7301 section 3.1; Encrypted Client Hello: RFC 9849.

use super::is_host_name;
use std::{borrow::Cow, ops::Range};

/// Bytes of the stream within which a ClientHello has to end, record headers included: what one record can hold.
/// Hellos with post-quantum key shares take about 2 KiB.
pub const MAX_HELLO: usize = RECORD_HEADER + MAX_RECORD;

const RECORD_HEADER: usize = 5;
const MAX_RECORD: usize = 1 << 14;
const HANDSHAKE_HEADER: usize = 4;

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const HOST_NAME: u8 = 0;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// What a ClientHello says in the clear.
#[derive(Debug)]
pub struct ClientHello<'a> {
    /// The handshake message: of the input where it is in one record, else put together from several.
    message: Cow<'a, [u8]>,
    server_name: Option<Range<usize>>,
    alpn: Range<usize>,
    /// Whether the client sent `encrypted_client_hello`. The server name is then the outer one; that it is an invented
    /// extension (GREASE, as browsers send it everywhere) cannot be told from here.
    pub encrypted_client_hello: bool,
}

/// Why there is no ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientHelloError {
    /// All that is there may be the start of one.
    #[error("the ClientHello is not complete: at least {needed_at_least} bytes are needed")]
    Incomplete {
        /// The stream has to be at least this long, from its first byte, for another answer; more than there is now.
        needed_at_least: usize,
    },
    /// The stream does not start as TLS does.
    #[error("the connection does not start with TLS")]
    NotTls,
    /// It starts as TLS does, and then breaks its rules.
    #[error("malformed ClientHello: {0}")]
    Malformed(#[from] Malformed),
}

/// What rule a ClientHello breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It does not end within [`MAX_HELLO`].
    #[error("it is larger than {MAX_HELLO} bytes")]
    TooLarge,
    /// A record of another type, an empty one, or of an impossible version comes before its end.
    #[error("a record that is no fragment of a handshake message comes before its end")]
    Record,
    /// The first handshake message is another one.
    #[error("the first handshake message is of type {0}, not a ClientHello")]
    NotClientHello(u8),
    /// More handshake messages come in its last record, which the protocol has no place for.
    #[error("its last record has more in it")]
    Trailing,
    /// A field does not fit in what holds it, or holds an impossible length.
    #[error("the length of its {0} is wrong")]
    Length(&'static str),
    /// An extension comes twice.
    #[error("extension {0} comes twice")]
    DuplicateExtension(u16),
    /// There is not exactly one server name, or it is not of type `host_name`.
    #[error("its server_name extension is not exactly one host_name")]
    ServerNames,
    /// The server name is none: empty, too long, of wrong characters, or an IP address.
    #[error("its server name is not a host name")]
    HostName,
}

/// Reads the ClientHello that the stream `bytes` starts with, in however many records. Bytes after its last record are left
/// alone: early data may follow.
///
/// Allocates only for a hello of several records.
pub fn parse(bytes: &[u8]) -> Result<ClientHello<'_>, ClientHelloError> {
    let message = message(bytes)?;
    let Fields { server_name, alpn, encrypted_client_hello } = fields(&message)?;
    Ok(ClientHello { message, server_name, alpn, encrypted_client_hello })
}

impl ClientHello<'_> {
    /// The server name as sent: a host name, to be compared without regard to ASCII case.
    pub fn server_name(&self) -> Option<&str> {
        str::from_utf8(&self.message[self.server_name.clone()?]).ok()
    }

    /// The application protocols that the client offers, its favourite first.
    pub fn alpn(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = Reader { bytes: &self.message[self.alpn.clone()], at: 0 };
        std::iter::from_fn(move || rest.vector8("").ok().map(|protocol| &rest.bytes[protocol]))
    }
}

/// The first handshake message, without the headers of its records.
fn message(bytes: &[u8]) -> Result<Cow<'_, [u8]>, ClientHelloError> {
    let mut message = Cow::Borrowed(&[][..]);
    let mut at = 0;
    loop {
        let fragment = fragment(bytes, at)?;
        at += RECORD_HEADER + fragment.len();
        match &mut message {
            whole if whole.is_empty() => *whole = Cow::Borrowed(fragment),
            parts => parts.to_mut().extend_from_slice(fragment),
        }
        let needed = message_length(&message)?;
        match needed {
            Some(needed) if needed == message.len() => return Ok(message),
            Some(needed) if needed < message.len() => return Err(Malformed::Trailing.into()),
            _ => (),
        }
    }
}

/// What the record at `at` holds, once all of it is there.
fn fragment(bytes: &[u8], at: usize) -> Result<&[u8], ClientHelloError> {
    if at + RECORD_HEADER >= MAX_HELLO {
        return Err(Malformed::TooLarge.into());
    }
    let record = &bytes[at..];
    // What does not start as TLS is told from it by the first byte that differs: other protocols may send less than a
    // record's header, and wait.
    let starts_well = |index: usize, allowed: &[u8]| record.get(index).is_none_or(|byte| allowed.contains(byte));
    if !(starts_well(0, &[HANDSHAKE]) && starts_well(1, &[3]) && starts_well(2, &[0, 1, 2, 3, 4])) {
        return Err(if at == 0 { ClientHelloError::NotTls } else { Malformed::Record.into() });
    }
    let Some(&[_, _, _, high, low]) = record.first_chunk::<RECORD_HEADER>() else {
        return incomplete(if bytes.is_empty() { 1 } else { at + RECORD_HEADER });
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let end = at + RECORD_HEADER + length;
    if length == 0 {
        return Err(Malformed::Record.into());
    }
    if end > MAX_HELLO {
        return Err(Malformed::TooLarge.into());
    }
    if at == 0 {
        // Told early, so that nobody waits for the rest of what is none.
        message_length(&record[RECORD_HEADER..record.len().min(end)])?;
    }
    record.get(RECORD_HEADER..RECORD_HEADER + length).map_or_else(|| incomplete(end), Ok)
}

/// How long a handshake message is, once its header is there.
fn message_length(message: &[u8]) -> Result<Option<usize>, Malformed> {
    if let Some(other) = message.first().filter(|kind| **kind != CLIENT_HELLO) {
        return Err(Malformed::NotClientHello(*other));
    }
    let Some(&[_, high, middle, low]) = message.first_chunk::<HANDSHAKE_HEADER>() else { return Ok(None) };
    let length = HANDSHAKE_HEADER + u32::from_be_bytes([0, high, middle, low]) as usize;
    if length > MAX_RECORD { Err(Malformed::TooLarge) } else { Ok(Some(length)) }
}

fn incomplete<T>(needed_at_least: usize) -> Result<T, ClientHelloError> {
    Err(ClientHelloError::Incomplete { needed_at_least })
}

/// Where in the message what is of interest stands.
#[derive(Default)]
struct Fields {
    server_name: Option<Range<usize>>,
    alpn: Range<usize>,
    encrypted_client_hello: bool,
}

fn fields(message: &[u8]) -> Result<Fields, Malformed> {
    let mut hello = Reader { bytes: message, at: HANDSHAKE_HEADER };
    hello.take(2 + 32, "version and random")?;
    if hello.vector8("session id")?.len() > 32 {
        return Err(Malformed::Length("session id"));
    }
    let suites = hello.vector16("cipher suites")?;
    if suites.is_empty() || suites.len() % 2 != 0 {
        return Err(Malformed::Length("cipher suites"));
    }
    if hello.vector8("compression methods")?.is_empty() {
        return Err(Malformed::Length("compression methods"));
    }
    let mut fields = Fields::default();
    if hello.is_at_end() {
        // TLS 1.2 and before: extensions may be left out.
        return Ok(fields);
    }
    let extensions = hello.vector16("extensions")?;
    if !hello.is_at_end() {
        return Err(Malformed::Length("extensions"));
    }

    let mut extensions = Reader { bytes: &message[..extensions.end], at: extensions.start };
    let mut seen = [0_u64; 1 << (16 - 6)];
    while !extensions.is_at_end() {
        let kind = extensions.number16("extension")?;
        let data = extensions.vector16("extension")?;
        let (word, bit) = (usize::from(kind >> 6), 1 << (kind & 63));
        if seen[word] & bit != 0 {
            return Err(Malformed::DuplicateExtension(kind));
        }
        seen[word] |= bit;
        let data = Reader { bytes: &message[..data.end], at: data.start };
        match kind {
            SERVER_NAME => fields.server_name = Some(server_name(data)?),
            ALPN => fields.alpn = protocols(data)?,
            ENCRYPTED_CLIENT_HELLO => fields.encrypted_client_hello = true,
            _ => (),
        }
    }
    Ok(fields)
}

/// One name of type host_name: RFC 6066 allows one of each type, and no other type was ever defined, so that nobody can
/// tell where a name of another type ends.
fn server_name(mut data: Reader<'_>) -> Result<Range<usize>, Malformed> {
    let names = data.vector16("server_name")?;
    let is_host_name_type = names.len() >= 3 && data.bytes[names.start] == HOST_NAME;
    if !data.is_at_end() || !is_host_name_type {
        return Err(Malformed::ServerNames);
    }
    let mut names = Reader { bytes: data.bytes, at: names.start + 1 };
    let name = names.vector16("server_name")?;
    if !names.is_at_end() {
        return Err(Malformed::ServerNames);
    }
    if is_host_name(&data.bytes[name.clone()]) { Ok(name) } else { Err(Malformed::HostName) }
}

/// The list of protocol names, each of at least one byte.
fn protocols(mut data: Reader<'_>) -> Result<Range<usize>, Malformed> {
    const WHAT: &str = "application protocols";
    let list = data.vector16(WHAT)?;
    if !data.is_at_end() || list.is_empty() {
        return Err(Malformed::Length(WHAT));
    }
    let mut rest = Reader { bytes: data.bytes, at: list.start };
    while !rest.is_at_end() {
        if rest.vector8(WHAT)?.is_empty() {
            return Err(Malformed::Length(WHAT));
        }
    }
    Ok(list)
}

/// Reads fields one after the other, as ranges of `bytes`.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn take(&mut self, length: usize, what: &'static str) -> Result<Range<usize>, Malformed> {
        let field = self.at..self.at + length;
        if field.end > self.bytes.len() {
            return Err(Malformed::Length(what));
        }
        self.at = field.end;
        Ok(field)
    }

    fn number8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        let field = self.take(1, what)?;
        Ok(self.bytes[field.start])
    }

    fn number16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes([self.number8(what)?, self.number8(what)?]))
    }

    /// A field behind its length of one byte.
    fn vector8(&mut self, what: &'static str) -> Result<Range<usize>, Malformed> {
        let length = self.number8(what)?;
        self.take(length.into(), what)
    }

    /// A field behind its length of two bytes.
    fn vector16(&mut self, what: &'static str) -> Result<Range<usize>, Malformed> {
        let length = self.number16(what)?;
        self.take(length.into(), what)
    }
}

#[cfg(test)]
mod tests;
