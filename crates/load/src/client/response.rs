//! HTTP/1.1 responses (RFC 9112): bytes in; a head or a body, `None` for incomplete, or an error out. No I/O.

use std::ops::Range;

/// Most header fields a response may have.
const MAX_HEADERS: usize = 64;

/// The head of a response, as far as a client needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Status code.
    pub(crate) status: u16,
    /// Its length, blank line included.
    pub(crate) length: usize,
    /// How its body ends.
    pub(crate) framing: Framing,
    /// Whether another request may follow on the connection.
    pub(crate) keeps_alive: bool,
}

/// How a body ends (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After so many bytes.
    Length(usize),
    /// With the last chunk.
    Chunked,
    /// With the connection.
    UntilClose,
}

/// What makes a response unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// The status line or a header field.
    #[error("the head of the response is malformed: {0}")]
    Head(httparse::Error),
    /// Not a number, contradictory, or beside chunks.
    #[error("the response's Content-Length is invalid, or contradicts another header field")]
    ContentLength,
    /// Anything but `chunked` alone, the only coding that a request of ours allows.
    #[error("the response has a Transfer-Encoding other than `chunked`")]
    TransferEncoding,
    /// A chunk's size or end.
    #[error("a chunk of the response is malformed")]
    Chunk,
    /// Too long a response.
    #[error("the response is longer than {} bytes", super::MAX_RESPONSE)]
    TooLong,
    /// Bytes that no request asked for.
    #[error("more bytes follow the response than it announced")]
    Surplus,
    /// Status 101.
    #[error("the server switched protocols, which no request asked for")]
    Switched,
}

/// The head at the start of `bytes`, or `None` where it is not complete yet. Interim heads (1xx) are heads, too.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
    let mut headers = [const { std::mem::MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed =
        httparse::ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
    let httparse::Status::Complete(length) = parsed.map_err(Malformed::Head)? else { return Ok(None) };
    let (Some(status), Some(minor)) = (response.code, response.version) else {
        return Err(Malformed::Head(httparse::Error::Status));
    };
    let (mut content_length, mut chunked, mut keeps_alive) = (None, false, minor == 1);
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let value = decimal(header.value).ok_or(Malformed::ContentLength)?;
            if content_length.replace(value).is_some_and(|before| before != value) {
                return Err(Malformed::ContentLength);
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                return Err(Malformed::TransferEncoding);
            }
            chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            for option in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                if option.eq_ignore_ascii_case(b"close") {
                    keeps_alive = false;
                } else if minor == 0 && option.eq_ignore_ascii_case(b"keep-alive") {
                    keeps_alive = true;
                }
            }
        }
    }
    let framing = match (status, chunked, content_length) {
        (101, ..) => return Err(Malformed::Switched),
        (100..=199 | 204 | 304, ..) => Framing::Length(0),
        (_, true, Some(_)) => return Err(Malformed::ContentLength),
        (_, true, None) => Framing::Chunked,
        (_, false, Some(length)) => Framing::Length(length),
        (_, false, None) => Framing::UntilClose,
    };
    Ok(Some(Head { status, length, framing, keeps_alive: keeps_alive && framing != Framing::UntilClose }))
}

/// The value of the cookie `name` that a (complete) head sets.
pub(crate) fn set_cookie<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(head).ok()?;
    let cookies = response.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("set-cookie"));
    cookies.filter_map(|header| std::str::from_utf8(header.value).ok()).find_map(|cookie| {
        let (found, rest) = cookie.split_once('=')?;
        let value = rest.split(';').next()?.trim();
        (found.trim() == name && !value.is_empty()).then_some(value)
    })
}

/// Joins the chunks that start at `from` into one body, in place, once the last one has come; else changes nothing.
///
/// Returns where the body is and how many bytes of `bytes` the response took.
pub(crate) fn join_chunks(bytes: &mut [u8], from: usize) -> Result<Option<(Range<usize>, usize)>, Malformed> {
    let mut at = from;
    let end = loop {
        match next_chunk(bytes, at)? {
            None => return Ok(None),
            Some(Chunk::Data(data)) => at = data.end + 2,
            Some(Chunk::Last { end }) => break end,
        }
    };
    let (mut at, mut body) = (from, from..from);
    while let Some(Chunk::Data(data)) = next_chunk(bytes, at)? {
        at = data.end + 2;
        // The joined body always ends before the chunk at hand, so that the next chunk's size is still unharmed.
        bytes.copy_within(data.clone(), body.end);
        body.end += data.len();
    }
    Ok(Some((body, end)))
}

enum Chunk {
    /// Where a chunk's data is; two bytes (CR LF) follow it.
    Data(Range<usize>),
    /// The last chunk and its trailers end here.
    Last { end: usize },
}

fn next_chunk(bytes: &[u8], at: usize) -> Result<Option<Chunk>, Malformed> {
    let rest = bytes.get(at..).unwrap_or_default();
    let size = httparse::parse_chunk_size(rest).map_err(|_| Malformed::Chunk)?;
    let httparse::Status::Complete((line, size)) = size else { return Ok(None) };
    let start = at + line;
    if size == 0 {
        let mut trailers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let trailers = httparse::parse_headers(&bytes[start..], &mut trailers).map_err(Malformed::Head)?;
        return Ok(match trailers {
            httparse::Status::Complete((length, _)) => Some(Chunk::Last { end: start + length }),
            httparse::Status::Partial => None,
        });
    }
    let size = usize::try_from(size).ok().filter(|size| *size <= super::MAX_RESPONSE).ok_or(Malformed::TooLong)?;
    let end = start + size;
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some(Chunk::Data(start..end))),
        Some(_) => Err(Malformed::Chunk),
    }
}

/// `1*DIGIT`, and no more than a response may be long.
fn decimal(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Head {
        head(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn reads_how_the_body_ends_and_whether_the_connection_lives_on() {
        let ok = |fields: &str| parsed(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"));
        assert_eq!(ok("content-length: 620\r\n").framing, Framing::Length(620));
        assert_eq!(ok("Content-Length: 7\r\nContent-Length: 7\r\n").framing, Framing::Length(7));
        assert_eq!(ok("Transfer-Encoding: Chunked\r\n").framing, Framing::Chunked);
        assert!(ok("content-length: 1\r\n").keeps_alive);
        assert!(!ok("content-length: 1\r\nConnection: foo, Close\r\n").keeps_alive);
        assert_eq!((ok("").framing, ok("").keeps_alive), (Framing::UntilClose, false));
        assert!(!parsed("HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n").keeps_alive);
        assert!(parsed("HTTP/1.0 200 OK\r\ncontent-length: 1\r\nconnection: keep-alive\r\n\r\n").keeps_alive);
        assert_eq!(parsed("HTTP/1.1 204 No Content\r\n\r\n").framing, Framing::Length(0));
        assert_eq!(parsed("HTTP/1.1 100 Continue\r\n\r\n").status, 100);
    }

    #[test]
    fn refuses_what_cannot_be_framed() {
        let refused = |fields: &str| head(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes()).unwrap_err();
        assert_eq!(refused("content-length: +5\r\n"), Malformed::ContentLength);
        assert_eq!(refused("content-length: 5\r\ncontent-length: 6\r\n"), Malformed::ContentLength);
        assert_eq!(refused("content-length: 5\r\ntransfer-encoding: chunked\r\n"), Malformed::ContentLength);
        assert_eq!(refused("transfer-encoding: gzip, chunked\r\n"), Malformed::TransferEncoding);
        assert_eq!(head(b"HTTP/1.1 101 Switching Protocols\r\n\r\n"), Err(Malformed::Switched));
        assert!(matches!(head(b"garbage\r\n\r\n"), Err(Malformed::Head(_))));
    }

    #[test]
    fn finds_a_cookie_among_others() {
        let head =
            b"HTTP/1.1 200 OK\r\nSet-Cookie: other=1\r\nset-cookie: airline_session=abc.def; Path=/; HttpOnly\r\n\r\n";
        assert_eq!(set_cookie(head, "airline_session"), Some("abc.def"));
        assert_eq!(set_cookie(head, "missing"), None);
    }

    #[test]
    fn reads_trailers_and_leaves_what_follows() {
        let mut bytes = *b"5\r\nhello\r\n1;ext=1\r\n!\r\n0\r\nx-sum: 1\r\n\r\nnext";
        let (body, end) = join_chunks(&mut bytes, 0).unwrap().unwrap();
        assert_eq!((&bytes[body], &bytes[end..]), (&b"hello!"[..], &b"next"[..]));
    }

    #[test]
    fn refuses_malformed_chunks() {
        assert_eq!(join_chunks(&mut b"x\r\n".to_vec(), 0), Err(Malformed::Chunk));
        assert_eq!(join_chunks(&mut b"2\r\nabcd0\r\n\r\n".to_vec(), 0), Err(Malformed::Chunk));
        assert_eq!(join_chunks(&mut b"ffffffffffff\r\n".to_vec(), 0), Err(Malformed::TooLong));
    }

    proptest! {
        #[test]
        fn chunks_join_to_what_was_split_and_not_a_byte_too_early(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..8), lead in 0..5usize
        ) {
            let mut bytes = vec![b'.'; lead];
            for chunk in &chunks {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            for length in lead..bytes.len() {
                let mut partial = bytes[..length].to_vec();
                prop_assert_eq!(join_chunks(&mut partial, lead), Ok(None));
                prop_assert_eq!(&partial[..], &bytes[..length]);
            }
            let (body, end) = join_chunks(&mut bytes, lead).unwrap().unwrap();
            prop_assert_eq!(&bytes[body], chunks.concat());
            prop_assert_eq!(end, bytes.len());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), from in 0..200usize) {
            let _ = head(&bytes);
            let _ = set_cookie(&bytes, "a");
            let _ = join_chunks(&mut bytes.clone(), from);
        }

        #[test]
        fn a_head_in_parts_is_incomplete_until_its_end(length in 0..1000usize) {
            let text = format!("HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ncontent-length: {length}\r\n\r\n");
            for end in 0..text.len() {
                prop_assert_eq!(head(&text.as_bytes()[..end]), Ok(None));
            }
            prop_assert_eq!(parsed(&text).framing, Framing::Length(length));
        }
    }
}
