//! Hellos of real clients, recorded or made on the spot; hellos made by hand and then broken.

use super::*;
use proptest::prelude::*;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion,
    crypto::aws_lc_rs::default_provider,
    version::{TLS12, TLS13},
};
use std::sync::Arc;

/// The first record that a real client sent, and what is in it.
struct Recorded {
    client: &'static str,
    bytes: &'static [u8],
    name: Option<&'static str>,
    alpn: &'static [&'static str],
    ech: bool,
}

const RECORDED: &[Recorded] = &[
    Recorded {
        client: "OpenSSL 3.0.19, TLS 1.3",
        bytes: include_bytes!("../fixtures/openssl-3.0-tls13.bin"),
        name: Some("db.example.com"),
        alpn: &["h2", "http/1.1"],
        ech: false,
    },
    Recorded {
        client: "OpenSSL 3.0.19, TLS 1.2, no name",
        bytes: include_bytes!("../fixtures/openssl-3.0-tls12-no-name.bin"),
        name: None,
        alpn: &[],
        ech: false,
    },
    Recorded {
        client: "curl 7.88",
        bytes: include_bytes!("../fixtures/curl.bin"),
        name: Some("api.example.com"),
        alpn: &["h2", "http/1.1"],
        ech: false,
    },
    Recorded {
        client: "Go 1.26",
        bytes: include_bytes!("../fixtures/go.bin"),
        name: Some("Db.Example.com"),
        alpn: &[],
        ech: false,
    },
    Recorded {
        client: "Java 17",
        bytes: include_bytes!("../fixtures/java.bin"),
        name: Some("db.example.com"),
        alpn: &[],
        ech: false,
    },
    Recorded {
        client: "Node.js 20",
        bytes: include_bytes!("../fixtures/node.bin"),
        name: Some("db.example.com"),
        alpn: &["http/1.1"],
        ech: false,
    },
    Recorded {
        client: "Chromium 156",
        bytes: include_bytes!("../fixtures/chromium.bin"),
        name: Some("www.example.com"),
        alpn: &["h2", "http/1.1"],
        ech: true,
    },
];

#[test]
fn recorded_hellos_are_read() {
    for Recorded { client, bytes, name, alpn, ech } in RECORDED {
        let hello = parse(bytes).unwrap_or_else(|error| panic!("{client}: {error}"));
        assert!(matches!(hello.message, Cow::Borrowed(_)), "{client}");
        assert_eq!(hello.server_name(), *name, "{client}");
        assert_eq!(offered(&hello), *alpn, "{client}");
        assert_eq!(hello.encrypted_client_hello, *ech, "{client}");
    }
}

#[test]
fn hellos_of_rustls_are_read() {
    for versions in [&[&TLS12][..], &[&TLS13], &[&TLS12, &TLS13]] {
        for alpn in [&[][..], &["http/1.1"], &["h2", "mongodb"]] {
            for with_name in [true, false] {
                let bytes = rustls_hello("db.example.com", versions, alpn, with_name, None);
                let hello = parse(&bytes).unwrap();
                assert_eq!(hello.server_name(), with_name.then_some("db.example.com"));
                assert_eq!(offered(&hello), alpn);
                assert!(!hello.encrypted_client_hello);
            }
        }
    }
}

#[test]
fn a_hello_that_rustls_sends_in_several_records_is_put_together() {
    let bytes = rustls_hello("db.example.com", &[&TLS13], &["h2"], true, Some(64));
    let hello = parse(&bytes).unwrap();
    assert!(matches!(hello.message, Cow::Owned(_)));
    assert_eq!((hello.server_name(), offered(&hello)), (Some("db.example.com"), vec!["h2"]));
}

#[test]
fn early_data_behind_the_hello_is_left_alone() {
    let mut bytes = record(&Hello::default().message());
    bytes.extend([23, 3, 3, 0, 2, 1, 2]);
    assert!(parse(&bytes).is_ok());
}

#[test]
fn a_hello_without_extensions_is_read() {
    let hello = Hello::default();
    let body = hello.body();
    let bytes = record(&handshake(&body[..body.len() - hello.written_extensions().len()]));
    assert_eq!(parse(&bytes).unwrap().server_name(), None);
}

#[test]
fn other_protocols_are_told_by_the_first_byte_that_differs() {
    for bytes in [&b"G"[..], b"\x16\x04", b"\x16\x03\x05", b"\x80\x2e\x01", b"SSH-2.0", b"\x15\x03\x03", b"\0\0\0\0"] {
        assert_eq!(parse(bytes).unwrap_err(), ClientHelloError::NotTls, "{bytes:?}");
    }
    assert_eq!(parse(b"").unwrap_err(), ClientHelloError::Incomplete { needed_at_least: 1 });
    assert_eq!(parse(b"\x16").unwrap_err(), ClientHelloError::Incomplete { needed_at_least: 5 });
    assert_eq!(parse(b"\x16\x03\x01\x02\0").unwrap_err(), ClientHelloError::Incomplete { needed_at_least: 517 });
}

#[test]
fn what_breaks_the_rules_of_records_is_malformed() {
    let message = Hello::default().message();
    let (first, second) = message.split_at(20);
    let of_type = |kind: u8, data: &[u8]| [&[kind, 3, 1], &(data.len() as u16).to_be_bytes()[..], data].concat();

    assert_eq!(malformed(&of_type(22, &[])), Malformed::Record, "an empty fragment");
    assert_eq!(malformed(&[record(first), of_type(21, &[1, 0])].concat()), Malformed::Record, "an alert between");
    assert_eq!(malformed(&[record(first), of_type(22, &[])].concat()), Malformed::Record, "an empty one between");
    assert_eq!(malformed(&record(&[&message[..], &[11]].concat())), Malformed::Trailing, "another message behind");
    assert_eq!(malformed(&[record(first), record(&[second, &[0]].concat())].concat()), Malformed::Trailing);
    assert_eq!(malformed(&[22, 3, 1, 0, 50, 2]), Malformed::NotClientHello(2), "a ServerHello, before all of it came");
}

#[test]
fn what_is_too_large_is_refused_before_it_is_there() {
    assert_eq!(malformed(&[22, 3, 1, 0x40, 0x01]), Malformed::TooLarge, "a record over 16 KiB");
    assert_eq!(malformed(&[22, 3, 1, 0, 4, 1, 0, 0x40, 0]), Malformed::TooLarge, "a message over 16 KiB");
    let many = Hello { extensions: vec![(0xff00, vec![0; 16_000])], ..Hello::default() }.message();
    for size in 1..200 {
        // As the stream grows, the answer goes from incomplete, within the limit, to too large.
        let bytes: Vec<u8> = many.chunks(size).flat_map(record).collect();
        for end in MAX_HELLO - 10..=MAX_HELLO {
            match parse(&bytes[..end.min(bytes.len())]).map(drop) {
                Err(ClientHelloError::Incomplete { needed_at_least }) => assert!(needed_at_least <= MAX_HELLO),
                other => assert!(matches!(other, Ok(()) | Err(ClientHelloError::Malformed(Malformed::TooLarge)))),
            }
        }
    }
    let bytes: Vec<u8> = many.chunks(100).flat_map(record).collect();
    assert_eq!(
        malformed(&bytes),
        Malformed::TooLarge,
        "a small hello in so many records that their headers are too much"
    );
}

#[test]
fn the_largest_hello_is_read() {
    let empty = Hello { extensions: vec![(0xff00, vec![])], ..Hello::default() }.message();
    let hello = Hello { extensions: vec![(0xff00, vec![0; MAX_RECORD - empty.len()])], ..Hello::default() };
    let bytes = record(&hello.message());
    assert_eq!(bytes.len(), MAX_HELLO);
    assert!(parse(&bytes).is_ok());
}

#[test]
fn wrong_lengths_are_malformed() {
    let with = |change: fn(&mut Hello)| {
        let mut hello = Hello::default();
        change(&mut hello);
        malformed(&record(&hello.message()))
    };
    assert_eq!(with(|hello| hello.session_id = vec![0; 33]), Malformed::Length("session id"));
    assert_eq!(with(|hello| hello.suites = vec![]), Malformed::Length("cipher suites"));
    assert_eq!(with(|hello| hello.suites = vec![0x13]), Malformed::Length("cipher suites"));
    assert_eq!(with(|hello| hello.compression = vec![]), Malformed::Length("compression methods"));
    assert_eq!(with(|hello| hello.behind = vec![0]), Malformed::Length("extensions"));
    for data in [&[][..], &[0], &[0, 0], &[0, 1, 0], &[0, 2, 2, b'a'], &[0, 2, 1, b'a', 0]] {
        let hello = Hello { extensions: vec![(ALPN, data.into())], ..Hello::default() };
        assert_eq!(malformed(&record(&hello.message())), Malformed::Length("application protocols"), "{data:?}");
    }
    let body = Hello::default().body();
    for end in 0..body.len() {
        let cut = record(&handshake(&body[..end]));
        // At the end of the compression methods the extensions may be missing.
        assert!(parse(&cut).is_err() || body[end..] == Hello::default().written_extensions(), "cut at {end}");
    }
}

#[test]
fn an_extension_that_comes_twice_is_malformed() {
    for kind in [SERVER_NAME, ALPN, 0xff01, u16::MAX] {
        let data = if kind == SERVER_NAME { name_list(b"a.example") } else { vec![0, 2, 1, b'a'] };
        let hello = Hello { extensions: vec![(kind, data.clone()), (kind, data)], ..Hello::default() };
        assert_eq!(malformed(&record(&hello.message())), Malformed::DuplicateExtension(kind));
    }
}

#[test]
fn server_names_that_are_none_are_malformed() {
    for name in [
        &b""[..],
        b"10.0.0.1",
        b"::1",
        b"a\0.example",
        b"a.example.",
        b"a b",
        b"\xff",
        "ü.example".as_bytes(),
        &[b'a'; 64],
        b"*.example",
        &b"a.".repeat(130),
    ] {
        let error = malformed(&hello_with_names(name_list(name)));
        assert!(matches!(error, Malformed::HostName | Malformed::ServerNames), "{name:?}: {error}");
    }
    let entry = [&[0, 0, 1][..], b"a"].concat();
    let two = [&[0, 8][..], &entry, &entry].concat();
    let other_type = [&[0, 4, 1][..], &entry[1..]].concat();
    for names in [vec![], vec![0, 0], two, other_type, [name_list(b"a"), vec![0]].concat()] {
        let error = malformed(&hello_with_names(names.clone()));
        assert!(matches!(error, Malformed::ServerNames | Malformed::Length("server_name")), "{names:?}: {error}");
    }
}

#[test]
fn encrypted_client_hello_is_seen() {
    let extensions = vec![(SERVER_NAME, name_list(b"outer.example")), (ENCRYPTED_CLIENT_HELLO, vec![0; 40])];
    let bytes = record(&Hello { extensions, ..Hello::default() }.message());
    let hello = parse(&bytes).unwrap();
    assert_eq!((hello.server_name(), hello.encrypted_client_hello), (Some("outer.example"), true));
}

proptest! {
    #[test]
    fn every_truncation_is_incomplete(index in 0..RECORDED.len(), size in 1..600_usize, cut in any::<prop::sample::Index>()) {
        let bytes = in_records(RECORDED[index].bytes, &[size]);
        let cut = cut.index(bytes.len());
        match parse(&bytes[..cut]) {
            Err(ClientHelloError::Incomplete { needed_at_least }) => {
                prop_assert!(cut < needed_at_least && needed_at_least <= bytes.len());
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn every_split_into_records_reads_the_same(
        index in 0..RECORDED.len(),
        sizes in prop::collection::vec(1..600_usize, 1..8),
    ) {
        let Recorded { bytes: whole, name, alpn, ech, .. } = RECORDED[index];
        let bytes = in_records(whole, &sizes);
        let hello = parse(&bytes).unwrap();
        prop_assert_eq!(hello.server_name(), name);
        prop_assert_eq!(offered(&hello), alpn);
        prop_assert_eq!(hello.encrypted_client_hello, ech);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = parse(&bytes);
        let _ = parse(&record(&handshake(&bytes)));
    }

    #[test]
    fn changed_hellos_never_panic(
        index in 0..RECORDED.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = RECORDED[index].bytes.to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(hello) = parse(&bytes) {
            let _ = offered(&hello);
            prop_assert!(hello.server_name().is_none_or(|name| is_host_name(name.as_bytes())));
        }
    }

    #[test]
    fn any_host_name_is_read(name in "[a-zA-Z][a-zA-Z0-9_-]{0,62}(\\.[a-zA-Z][a-zA-Z0-9_-]{0,20}){0,5}") {
        let bytes = hello_with_names(name_list(name.as_bytes()));
        let hello = parse(&bytes).unwrap();
        prop_assert_eq!(hello.server_name(), Some(name.as_str()));
    }
}

fn offered<'a>(hello: &'a ClientHello<'_>) -> Vec<&'a str> {
    hello.alpn().filter_map(|protocol| str::from_utf8(protocol).ok()).collect()
}

fn malformed(bytes: &[u8]) -> Malformed {
    match parse(bytes) {
        Err(ClientHelloError::Malformed(rule)) => rule,
        other => panic!("{other:?}"),
    }
}

fn rustls_hello(
    name: &'static str,
    versions: &[&'static SupportedProtocolVersion],
    alpn: &[&str],
    with_name: bool,
    max_fragment_size: Option<usize>,
) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider())).with_protocol_versions(versions);
    let mut config = config.unwrap().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().into()).collect();
    config.enable_sni = with_name;
    config.max_fragment_size = max_fragment_size;
    let mut connection = ClientConnection::new(Arc::new(config), name.try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// A hello made by hand.
struct Hello {
    session_id: Vec<u8>,
    suites: Vec<u8>,
    compression: Vec<u8>,
    extensions: Vec<(u16, Vec<u8>)>,
    behind: Vec<u8>,
}

impl Default for Hello {
    fn default() -> Self {
        let extensions = vec![(SERVER_NAME, name_list(b"db.example.com")), (ALPN, b"\0\x03\x02h2".to_vec())];
        Self { session_id: vec![7; 32], suites: vec![0x13, 1], compression: vec![0], extensions, behind: vec![] }
    }
}

impl Hello {
    fn message(&self) -> Vec<u8> {
        handshake(&self.body())
    }

    fn body(&self) -> Vec<u8> {
        let vector8 = |data: &[u8]| [&[data.len() as u8], data].concat();
        let head = [&[3, 3][..], &[9; 32]].concat();
        let middle = [vector8(&self.session_id), vector16(&self.suites), vector8(&self.compression)].concat();
        [head, middle, self.written_extensions(), self.behind.clone()].concat()
    }

    fn written_extensions(&self) -> Vec<u8> {
        let written = |(kind, data): &(u16, Vec<u8>)| [kind.to_be_bytes().to_vec(), vector16(data)].concat();
        vector16(&self.extensions.iter().flat_map(written).collect::<Vec<_>>())
    }
}

fn hello_with_names(names: Vec<u8>) -> Vec<u8> {
    record(&Hello { extensions: vec![(SERVER_NAME, names)], ..Hello::default() }.message())
}

fn name_list(name: &[u8]) -> Vec<u8> {
    vector16(&[vec![HOST_NAME], vector16(name)].concat())
}

fn vector16(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u16).to_be_bytes()[..], data].concat()
}

fn handshake(body: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = (body.len() as u32).to_be_bytes();
    [&[CLIENT_HELLO, high, middle, low], body].concat()
}

fn record(data: &[u8]) -> Vec<u8> {
    [&[HANDSHAKE, 3, 1], &(data.len() as u16).to_be_bytes()[..], data].concat()
}

/// The message of the one record in `whole`, in records of these sizes, again and again.
fn in_records(whole: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut rest = &whole[RECORD_HEADER..];
    let mut bytes = Vec::new();
    for size in sizes.iter().cycle() {
        let (fragment, others) = rest.split_at(rest.len().min(*size));
        if fragment.is_empty() {
            break;
        }
        bytes.extend(record(fragment));
        rest = others;
    }
    bytes
}
