//! The host that the first request of an HTTP/1.x connection is for.
//!
//! Request heads: RFC 9112 sections 2 and 3.2; Host: RFC 9110 section 7.2; HTTP/2's preface: RFC 9113 section 3.4.

use super::is_host_name;
use httparse::{EMPTY_HEADER, Error, Request, Status};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes within which a request head has to end.
pub const MAX_HEAD: usize = 16 << 10;

/// Fields that a request head may have.
const MAX_FIELDS: usize = 100;

const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What an HTTP connection starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStart<'a> {
    /// A request of HTTP/1.x.
    Http1 {
        /// The host it is for, without the port and as written: a host name, to be compared without regard to ASCII
        /// case, or an address (IPv6 in brackets).
        host: &'a str,
        /// The port, where one is written.
        port: Option<u16>,
    },
    /// HTTP/2 with prior knowledge: its hosts are compressed, one a request, so that no connection has one.
    Http2PriorKnowledge,
}

/// Why a connection has no HTTP host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpHostError {
    /// All that is there may be the start of a request.
    #[error("the request head is not complete")]
    Incomplete,
    /// The stream does not start as a request does.
    #[error("the connection does not start with an HTTP request")]
    NotHttp,
    /// The head does not end within [`MAX_HEAD`], or has too many fields.
    #[error("the request head is larger than {MAX_HEAD} bytes, or has more than {MAX_FIELDS} fields")]
    TooLarge,
    /// It is a request, and who it is for could be read in more ways than one, or in none.
    #[error("the request's host is ambiguous: {0}")]
    Ambiguous(#[from] Ambiguity),
}

/// Why the host of a request cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguity {
    /// There is no Host field, or it is empty.
    #[error("there is no Host")]
    NoHost,
    /// There are several Host fields.
    #[error("there are several Host fields")]
    SeveralHosts,
    /// The Host field is no host with an optional port.
    #[error("Host is not a host with an optional port")]
    BadHost,
    /// The request's target names another host, or none that can be read.
    #[error("the request's target does not name the same host as Host")]
    Target,
}

/// Reads the host of the request that the stream `bytes` starts with. What follows the request's head is not looked at.
///
/// Anything that two parsers might read in two ways is refused, since what routes the connection and what serves it are two.
pub fn parse(bytes: &[u8]) -> Result<HttpStart<'_>, HttpHostError> {
    if bytes.starts_with(HTTP2_PREFACE) {
        return Ok(HttpStart::Http2PriorKnowledge);
    }
    if HTTP2_PREFACE.starts_with(bytes) {
        return Err(HttpHostError::Incomplete);
    }
    let mut fields = [EMPTY_HEADER; MAX_FIELDS];
    let mut request = Request::new(&mut fields);
    match request.parse(&bytes[..bytes.len().min(MAX_HEAD)]) {
        Ok(Status::Complete(_)) => (),
        Ok(Status::Partial) if bytes.len() < MAX_HEAD => return Err(HttpHostError::Incomplete),
        Ok(Status::Partial) | Err(Error::TooManyHeaders) => return Err(HttpHostError::TooLarge),
        Err(_) => return Err(HttpHostError::NotHttp),
    }
    let mut hosts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().ok_or(Ambiguity::NoHost)?.value.trim_ascii();
    if hosts.next().is_some() {
        return Err(Ambiguity::SeveralHosts.into());
    }
    if host.is_empty() {
        return Err(Ambiguity::NoHost.into());
    }
    let host = str::from_utf8(host).ok().and_then(Authority::parse).ok_or(Ambiguity::BadHost)?;
    match (request.method, request.path) {
        (Some(method), Some(target)) if target_agrees(method, target, host) => {
            Ok(HttpStart::Http1 { host: host.host, port: host.port })
        }
        _ => Err(Ambiguity::Target.into()),
    }
}

/// Whether the request's target names no other host than `host`: it may be of any of the four forms of RFC 9112 section
/// 3.2.
fn target_agrees(method: &str, target: &str, host: Authority<'_>) -> bool {
    if method == "CONNECT" {
        return Authority::parse(target).is_some_and(|target| target.is_same(host, None));
    }
    if target.starts_with('/') || (method == "OPTIONS" && target == "*") {
        return true;
    }
    let Some((scheme, rest)) = target.split_once("://") else { return false };
    let default_port = match scheme.to_ascii_lowercase().as_str() {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    Authority::parse(authority).is_some_and(|target| target.is_same(host, Some(default_port)))
}

/// A host with an optional port, as Host has it.
#[derive(Clone, Copy)]
struct Authority<'a> {
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let host_length =
            if text.starts_with('[') { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
        let (host, port) = text.split_at(host_length);
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            // RFC 3986 section 3.2.3 allows a colon without a port.
            Some("") => None,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            _ => return None,
        };
        let in_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_host = match in_brackets {
            Some(address) => address.parse::<Ipv6Addr>().is_ok(),
            None => host.parse::<Ipv4Addr>().is_ok() || is_host_name(host.as_bytes()),
        };
        is_host.then_some(Self { host, port })
    }

    fn is_same(self, other: Self, default_port: Option<u16>) -> bool {
        self.host.eq_ignore_ascii_case(other.host) && self.port.or(default_port) == other.port.or(default_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(head: &str) -> Result<(&str, Option<u16>), HttpHostError> {
        match parse(head.as_bytes())? {
            HttpStart::Http1 { host, port } => Ok((host, port)),
            HttpStart::Http2PriorKnowledge => panic!("{head}: HTTP/2"),
        }
    }

    #[test]
    fn hosts_are_read_with_and_without_port() {
        for (written, read) in [
            ("a.example", ("a.example", None)),
            ("A.Example:8080", ("A.Example", Some(8080))),
            ("a.example:", ("a.example", None)),
            ("  a.example \t", ("a.example", None)),
            ("10.0.0.1:80", ("10.0.0.1", Some(80))),
            ("[2001:db8::1]:80", ("[2001:db8::1]", Some(80))),
            ("localhost", ("localhost", None)),
        ] {
            assert_eq!(
                host(&format!("GET / HTTP/1.1\r\nAccept: */*\r\nhOST: {written}\r\n\r\nbody")),
                Ok(read),
                "{written}"
            );
        }
        assert_eq!(host("\r\nGET / HTTP/1.0\nHost: a\n\n"), Ok(("a", None)), "bare line feeds, an empty line before");
    }

    #[test]
    fn hosts_that_could_be_read_in_two_ways_are_refused() {
        for bad in [
            "a b",
            "a,b",
            "a.example, b.example",
            "u@a",
            "a:80:90",
            "a:x",
            "a:65536",
            "a:-1",
            "a/b",
            "[::1",
            "::1",
            "[::1]x",
            "a.example.",
            "127.1",
            "ü",
            ":80",
            "a\\b",
            "a%2eb",
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n");
            assert_eq!(host(&head), Err(Ambiguity::BadHost.into()), "{bad}");
        }
        let refused = |head: &str, why: Ambiguity| assert_eq!(host(head), Err(why.into()), "{head}");
        refused("GET / HTTP/1.1\r\n\r\n", Ambiguity::NoHost);
        refused("GET / HTTP/1.1\r\nHost: \r\n\r\n", Ambiguity::NoHost);
        refused("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Ambiguity::SeveralHosts);
        refused("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Ambiguity::SeveralHosts);
    }

    #[test]
    fn a_target_that_names_a_host_has_to_name_the_same() {
        for (method, target, written, agrees) in [
            ("GET", "http://a.example/x", "A.example", true),
            ("GET", "HTTP://a.example:80", "a.example", true),
            ("GET", "https://a.example?q", "a.example:443", true),
            ("GET", "http://b.example/", "a.example", false),
            ("GET", "http://a.example:8080/", "a.example", false),
            ("GET", "http://u@a.example/", "a.example", false),
            ("GET", "http:///x", "a.example", false),
            ("GET", "ftp://a.example/", "a.example", false),
            ("GET", "a.example", "a.example", false),
            ("GET", "*", "a.example", false),
            ("OPTIONS", "*", "a.example", true),
            ("CONNECT", "a.example:443", "a.example:443", true),
            ("CONNECT", "b.example:443", "a.example:443", false),
            ("CONNECT", "/", "a.example", false),
        ] {
            let head = format!("{method} {target} HTTP/1.1\r\nHost: {written}\r\n\r\n");
            let answer = host(&head);
            if agrees {
                assert!(answer.is_ok(), "{head}: {answer:?}");
            } else {
                assert_eq!(answer, Err(Ambiguity::Target.into()), "{head}");
            }
        }
    }

    #[test]
    fn other_protocols_are_told_from_http() {
        let mongodb = [0x47, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0];
        for bytes in [&b"\x16\x03\x01\x02"[..], &mongodb, b"SSH-2.0-OpenSSH_9.2\r\n", b"GET / HTTP/2.0\r\n\r\n", b"\0"]
        {
            assert_eq!(parse(bytes), Err(HttpHostError::NotHttp), "{bytes:?}");
        }
        assert_eq!(parse(b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"), Err(HttpHostError::NotHttp), "a folded line");
        assert_eq!(
            parse(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
            Err(HttpHostError::NotHttp),
            "a blank before the colon"
        );
    }

    #[test]
    fn http2_is_told_once_its_preface_is_there() {
        for end in 0..HTTP2_PREFACE.len() {
            assert_eq!(parse(&HTTP2_PREFACE[..end]), Err(HttpHostError::Incomplete), "{end}");
        }
        assert_eq!(parse(&[HTTP2_PREFACE, &[0; 9]].concat()), Ok(HttpStart::Http2PriorKnowledge));
    }

    #[test]
    fn heads_are_bounded() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(MAX_HEAD));
        assert_eq!(host(&long), Err(HttpHostError::TooLarge));
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS));
        assert_eq!(host(&many), Err(HttpHostError::TooLarge));
    }

    proptest! {
        #[test]
        fn every_truncation_is_incomplete(end in 0..62_usize) {
            let head = "GET http://a.example/path HTTP/1.1\r\nHost: a.example:80\r\n\r\n";
            prop_assume!(end < head.len());
            prop_assert_eq!(host(&head[..end]), Err(HttpHostError::Incomplete));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,40}") {
            let _ = parse(&bytes);
            let _ = parse(format!("GET {text} HTTP/1.1\r\nHost: {text}\r\n\r\n").as_bytes());
        }
    }
}
