//! Clients that send what no driver would: each is answered with an error or cut off, and the next one is served.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use bson::{Document, RawDocumentBuf, doc};
use rustls::{ClientConnection, StreamOwned};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};
use support::Server;

const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn message(opcode: i32, content: &[u8]) -> Vec<u8> {
    let length = 16 + content.len() as i32;
    let header = [length, 42, 0, opcode].map(i32::to_le_bytes).concat();
    [&header, content].concat()
}

fn msg(flags: u32, command: &Document) -> Vec<u8> {
    let body = RawDocumentBuf::try_from(command).unwrap();
    message(OP_MSG, &[&flags.to_le_bytes(), &[0][..], body.as_bytes()].concat())
}

fn ping() -> Vec<u8> {
    msg(0, &doc! { "ping": 1, "$db": "admin" })
}

/// The document of the next reply.
fn reply(stream: &mut impl Read) -> Document {
    let mut header = [0; 16];
    stream.read_exact(&mut header).unwrap();
    let word = |at: usize| i32::from_le_bytes(header[at..at + 4].try_into().unwrap());
    let mut content = vec![0; word(0) as usize - 16];
    stream.read_exact(&mut content).unwrap();
    assert_eq!(word(8), 42, "the reply names its request");
    let document = if word(12) == OP_MSG { &content[5..] } else { &content[20..] };
    Document::from_reader(document).unwrap()
}

/// Whether the server closed the connection, without a reply.
fn is_closed(mut stream: TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
        Ok(_) => false,
    }
}

fn assert_alive(server: &Server) {
    let mut stream = connect(server);
    stream.write_all(&ping()).unwrap();
    assert_eq!(reply(&mut stream).get_f64("ok").ok(), Some(1.0));
}

#[test]
fn what_is_no_message_closes_the_connection() {
    let server = Server::plain();
    let mut huge = ping();
    huge[..4].copy_from_slice(&48_000_001_i32.to_le_bytes());
    let mut negative = ping();
    negative[..4].copy_from_slice(&(-1_i32).to_le_bytes());
    let mut bad_bson = ping();
    let end = bad_bson.len() - 1;
    bad_bson[end] = 1;
    let nested = (0..250).fold(doc! {}, |inner, _| doc! { "a": inner });
    let deep = msg(0, &doc! { "ping": nested, "$db": "admin" });
    for (what, bytes) in [
        ("oversized", huge),
        ("negative length", negative),
        ("compressed", message(OP_COMPRESSED, &[0; 20])),
        ("unknown operation", message(1, &[0; 20])),
        ("bad BSON", bad_bson),
        ("too deep", deep),
        ("no body", message(OP_MSG, &[0; 4])),
        ("unknown flag", msg(1 << 3, &doc! { "ping": 1, "$db": "admin" })),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
    ] {
        let mut stream = connect(&server);
        stream.write_all(&bytes).unwrap();
        assert!(is_closed(stream), "{what}");
        assert_alive(&server);
    }
    server.stop();
}

#[test]
fn replies_before_a_malformed_message_are_sent() {
    let server = Server::plain();
    let mut stream = connect(&server);
    stream.write_all(&[ping(), message(OP_COMPRESSED, &[])].concat()).unwrap();
    assert_eq!(reply(&mut stream).get_f64("ok").ok(), Some(1.0));
    assert!(is_closed(stream));
    server.stop();
}

#[test]
fn a_truncated_message_waits_and_then_ends_with_the_connection() {
    let server = Server::plain();
    let mut stream = connect(&server);
    let whole = ping();
    stream.write_all(&whole[..20]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(is_closed(stream));
    assert_alive(&server);
    server.stop();
}

#[test]
fn bytes_in_any_portions_make_the_same_messages() {
    let server = Server::plain();
    let mut stream = connect(&server);
    stream.set_nodelay(true).unwrap();
    for byte in [ping(), ping()].concat() {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(reply(&mut stream).get_f64("ok").ok(), Some(1.0));
    assert_eq!(reply(&mut stream).get_f64("ok").ok(), Some(1.0));
    server.stop();
}

#[test]
fn many_messages_in_one_write_are_all_answered() {
    let server = Server::plain();
    let mut stream = connect(&server);
    stream.write_all(&ping().repeat(100)).unwrap();
    for _ in 0..100 {
        assert_eq!(reply(&mut stream).get_f64("ok").ok(), Some(1.0));
    }
    server.stop();
}

#[test]
fn random_bytes_never_stop_the_server() {
    let server = Server::plain();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..200 {
        let bytes: Vec<u8> = (0..random() % 400).map(|_| random() as u8).collect();
        // Half of them get past the header.
        let bytes = if round % 2 == 0 { bytes } else { message(OP_MSG, &bytes) };
        let mut stream = connect(&server);
        stream.write_all(&bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(is_closed(stream), "{bytes:?}");
    }
    assert_alive(&server);
    server.stop();
}

#[test]
fn checksums_are_refused_and_the_connection_stays() {
    let server = Server::plain();
    let mut stream = connect(&server);
    let mut with_checksum = msg(1, &doc! { "ping": 1, "$db": "admin" });
    with_checksum.extend_from_slice(&[1, 2, 3, 4]);
    let length = with_checksum.len() as i32;
    with_checksum[..4].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&with_checksum).unwrap();
    assert_eq!(reply(&mut stream).get_i32("code").ok(), Some(238));
    stream.write_all(&ping()).unwrap();
    assert_eq!(reply(&mut stream).get_f64("ok").ok(), Some(1.0));
    server.stop();
}

#[test]
fn more_to_come_is_executed_without_a_reply() {
    let server = Server::plain();
    let mut stream = connect(&server);
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1 }], "$db": "test", "writeConcern": { "w": 0 } };
    let failing = doc! { "nonsense": 1, "$db": "test" };
    let count = doc! { "count": "c", "$db": "test" };
    stream.write_all(&[msg(2, &insert), msg(2, &failing), msg(0, &count)].concat()).unwrap();
    assert_eq!(reply(&mut stream).get_i32("n").ok(), Some(1));
    server.stop();
}

#[test]
fn the_legacy_handshake_is_answered_and_nothing_else_of_it() {
    let server = Server::plain();
    let mut stream = connect(&server);
    let query = |collection: &str, command: &Document| {
        let body = RawDocumentBuf::try_from(command).unwrap();
        message(OP_QUERY, &[&[0; 4], collection.as_bytes(), &[0], &[0; 8], body.as_bytes()].concat())
    };
    stream.write_all(&query("admin.$cmd", &doc! { "isMaster": 1, "helloOk": true })).unwrap();
    let hello = reply(&mut stream);
    assert_eq!((hello.get_bool("ismaster").ok(), hello.get_bool("helloOk").ok()), (Some(true), Some(true)));
    stream.write_all(&query("test.c", &doc! { "a": 1 })).unwrap();
    assert_eq!(reply(&mut stream).get_i32("code").ok(), Some(352));
    stream.write_all(&query("admin.$cmd", &doc! { "listDatabases": 1 })).unwrap();
    assert_eq!(reply(&mut stream).get_i32("code").ok(), Some(352));
    server.stop();
}

#[test]
fn a_client_that_reads_no_replies_does_not_hold_the_others_up() {
    let server = Server::plain();
    let mut writer = connect(&server);
    let document = doc! { "_id": 1, "text": "x".repeat(1 << 20) };
    writer.write_all(&msg(0, &doc! { "insert": "c", "documents": [document], "$db": "test" })).unwrap();
    assert_eq!(reply(&mut writer).get_i32("n").ok(), Some(1));
    let mut greedy = connect(&server);
    greedy.write_all(&msg(0, &doc! { "find": "c", "$db": "test" }).repeat(500)).unwrap();
    assert_alive(&server);
    let sent = server.snapshot().connections[0].bytes_out;
    assert!(sent < 100 << 20, "{sent} bytes were sent to a client that reads none");
    drop(greedy);
    server.stop();
}

#[test]
fn stopping_ends_open_connections() {
    let server = Server::plain();
    let mut stream = connect(&server);
    stream.write_all(&ping()).unwrap();
    reply(&mut stream);
    server.stop();
    assert!(is_closed(stream));
}

#[test]
fn tls_1_2_and_1_3_are_spoken_and_plain_text_is_not() {
    let server = Server::with_tls();
    let pem = std::fs::read(server.ca_file()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(&pem).unwrap()).unwrap();
    for (version, name) in [(&rustls::version::TLS12, "TLSv1.2"), (&rustls::version::TLS13, "TLSv1.3")] {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let mut stream = StreamOwned::new(session, connect(&server));
        stream.write_all(&ping()).unwrap();
        assert_eq!(reply(&mut stream).get_f64("ok").ok(), Some(1.0));
        assert!(server.snapshot().connections.iter().any(|path| path.tls.as_deref() == Some(name)));
    }
    let mut plain = connect(&server);
    plain.write_all(&ping()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    // At most a TLS alert, and no reply.
    assert!(answer.len() <= 7 && answer.first().is_none_or(|kind| *kind == 21), "{answer:?}");
    assert_eq!(server.snapshot().failed_handshakes, 1);
    server.stop();
}
