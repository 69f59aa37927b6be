//! The first thing that a peer says, as far as is needed to know what it wants: read, but not consumed, since it is
//! relayed later. Bounded in size and time.

use super::{Refusal, stream::ReadMore};
use crate::{
    classify::{client_hello, http_host},
    settings::Settings,
    telemetry::ResponseFlag,
};
use meshtoll_identity::ISTIO_ALPN;
use std::borrow::Cow;
use tokio::time::timeout;

/// What was read of a connection, and what it is.
pub(super) struct Opening {
    pub(super) bytes: Vec<u8>,
    pub(super) kind: Kind,
}

/// What a connection opens with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// TLS, with the server name that was sent, in lower case, and whether it is the mesh's (by ALPN).
    Tls { server_name: Option<String>, of_mesh: bool },
    /// HTTP/1, with the host that the first request is for, in lower case.
    Http { host: String },
    /// Something else, or nothing for so long that the server has to speak first.
    Other,
}

/// What is looked for; anything else is [`Kind::Other`] as soon as that is clear.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) tls: bool,
    pub(super) http: bool,
}

/// First byte of a TLS connection: a handshake record (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 22;

pub(super) async fn read(stream: &mut impl ReadMore, wanted: Wanted, settings: &Settings) -> Result<Opening, Refusal> {
    let mut bytes = Vec::new();
    match timeout(settings.opening_timeout, read_on(stream, wanted, &mut bytes)).await {
        Ok(kind) => Ok(Opening { kind: kind?, bytes }),
        Err(_) if bytes.is_empty() => Ok(Opening { kind: Kind::Other, bytes }),
        Err(_) => Err(Refusal::downstream("its first message was not complete in time")),
    }
}

async fn read_on(stream: &mut impl ReadMore, wanted: Wanted, bytes: &mut Vec<u8>) -> Result<Kind, Refusal> {
    loop {
        if let Some(kind) = kind(bytes, wanted)? {
            return Ok(kind);
        }
        let closed = |details: Cow<'static, str>| Refusal::new(ResponseFlag::DownstreamClosed, details);
        let read = stream.read_more(bytes).await.map_err(|error| closed(error.to_string().into()))?;
        if read == 0 {
            return Err(closed("it ended before it said what it wants".into()));
        }
    }
}

/// What the bytes are; `None` as long as that takes more of them.
fn kind(bytes: &[u8], wanted: Wanted) -> Result<Option<Kind>, Refusal> {
    let Some(first) = bytes.first() else { return Ok(None) };
    if *first == TLS_HANDSHAKE && wanted.tls {
        return match client_hello::parse(bytes) {
            Ok(hello) => Ok(Some(Kind::Tls {
                server_name: hello.server_name().map(str::to_ascii_lowercase),
                of_mesh: hello.alpn().any(|own| ISTIO_ALPN.iter().any(|known| known.as_bytes() == own)),
            })),
            Err(client_hello::ClientHelloError::Incomplete { .. }) => Ok(None),
            Err(client_hello::ClientHelloError::NotTls) => Ok(Some(Kind::Other)),
            Err(error) => Err(Refusal::downstream(error.to_string())),
        };
    }
    if !wanted.http {
        return Ok(Some(Kind::Other));
    }
    match http_host::parse(bytes) {
        Ok(http_host::HttpStart::Http1 { host, .. }) => Ok(Some(Kind::Http { host: host.to_ascii_lowercase() })),
        Ok(http_host::HttpStart::Http2PriorKnowledge) => Err(Refusal::downstream(
            "HTTP/2 names a host for each request, so that the connection cannot be routed by one",
        )),
        Err(http_host::HttpHostError::Incomplete) => Ok(None),
        Err(http_host::HttpHostError::NotHttp) => Ok(Some(Kind::Other)),
        Err(error) => Err(Refusal::downstream(error.to_string())),
    }
}
