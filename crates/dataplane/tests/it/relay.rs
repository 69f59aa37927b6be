//! The relay: everything arrives once and in order, ends are passed on one by one, and nobody's slowness is paid for with
//! memory.

use crate::sockets::{PATIENCE, Relay, fd, pair};
use meshtoll_dataplane::{
    relay::{Leg, Strategy},
    telemetry::ResponseFlag,
};
use meshtoll_identity::{Credentials, MeshCa};
use meshtoll_model::ids::SpiffeId;
use proptest::prelude::*;
use rustls::{ClientConnection, Connection, ServerConnection, StreamOwned};
use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Bytes that do not repeat with any power of two.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ (at / 251) as u8).collect()
}

fn read_all(mut from: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    from.read_to_end(&mut all).unwrap();
    all
}

fn exchange(client: &mut (impl Read + Write), server: &mut (impl Read + Write), length: usize) {
    let sent = pattern(length);
    let mut received = vec![0; length];
    client.write_all(&sent).unwrap();
    client.flush().unwrap();
    server.read_exact(&mut received).unwrap();
    assert!(received == sent, "{length} bytes up");
    server.write_all(&sent).unwrap();
    server.flush().unwrap();
    received.fill(0);
    client.read_exact(&mut received).unwrap();
    assert!(received == sent, "{length} bytes down");
}

#[test]
fn messages_go_both_ways_and_are_counted() {
    let relay = Relay::new(None);
    let (mut client, mut server) = relay.plain();
    for length in [1, 620, 16_384, 16_385, 65_536, 100_000] {
        exchange(&mut client, &mut server, length);
    }
    let total = 1 + 620 + 16_384 + 16_385 + 65_536 + 100_000;
    drop(client);
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
    drop(server);
    let record = relay.ended();
    assert_eq!((record.sent_bytes, record.received_bytes, record.flag), (total, total, ResponseFlag::None));
    let counters = &relay.counters;
    assert_eq!((counters.sent_bytes.load(Relaxed), counters.received_bytes.load(Relaxed)), (total, total));
    assert_eq!((counters.connections.load(Relaxed), counters.active.load(Relaxed)), (1, 0));
}

#[test]
fn what_was_read_before_comes_first() {
    let relay = Relay::new(None);
    let ((mut client, inside), (outside, mut server)) = (pair(), pair());
    relay.between(Leg::plain(fd(inside)), Leg::plain(fd(outside)), b"first ");
    client.write_all(b"second").unwrap();
    let mut received = [0; 12];
    server.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"first second");
}

#[test]
fn an_end_is_passed_on_and_the_other_direction_goes_on() {
    let relay = Relay::new(None);
    let (mut client, mut server) = relay.plain();
    client.write_all(b"that was all").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&server), b"that was all");
    let answer = pattern(3_000_000);
    let expected = answer.clone();
    let writer = thread::spawn(move || server.write_all(&answer).unwrap());
    assert!(read_all(&client) == expected);
    writer.join().unwrap();
    assert_eq!(relay.ended().flag, ResponseFlag::None);
}

#[test]
fn large_transfers_both_ways_at_once_arrive_whole() {
    let relay = Relay::new(None);
    let (client, server) = relay.plain();
    let length = 64 << 20;
    let ends = [client, server].map(|end| {
        let mut writing = end.try_clone().unwrap();
        let writer = thread::spawn(move || {
            writing.write_all(&pattern(length)).unwrap();
            writing.shutdown(Shutdown::Write).unwrap();
        });
        (writer, thread::spawn(move || read_all(&end) == pattern(length)))
    });
    for (writer, reader) in ends {
        writer.join().unwrap();
        assert!(reader.join().unwrap());
    }
    let record = relay.ended();
    assert_eq!((record.sent_bytes, record.received_bytes), (length as u64, length as u64));
}

#[test]
fn a_slow_reader_holds_the_writer_back() {
    let relay = Relay::new(None);
    let (mut client, server) = relay.plain();
    client.set_nonblocking(true).unwrap();
    let chunk = pattern(1 << 16);
    let mut accepted = 0_usize;
    let mut stuck = Instant::now();
    // The kernel's buffers fill, at most some MiB each; then nothing goes on until the reader reads.
    while stuck.elapsed() < Duration::from_millis(500) {
        match client.write(&chunk) {
            Ok(taken) => (accepted, stuck) = (accepted + taken, Instant::now()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert!(accepted < 64 << 20, "nobody holds the writer back");
    }
    client.set_nonblocking(false).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&server).len(), accepted);
}

#[test]
fn one_connection_does_not_starve_another() {
    let relay = Relay::new(None);
    let (mut bulk, sink) = relay.plain();
    let reader = thread::spawn(move || read_all(sink).len());
    let writer = thread::spawn(move || bulk.write_all(&pattern(256 << 20)).unwrap());
    let (mut client, mut server) = relay.plain();
    let mut exchanges = 0;
    while !writer.is_finished() {
        exchange(&mut client, &mut server, 620);
        exchanges += 1;
    }
    writer.join().unwrap();
    assert_eq!(reader.join().unwrap(), 256 << 20);
    assert!(exchanges > 20, "only {exchanges} exchanges beside a bulk transfer");
}

#[test]
fn a_reset_is_passed_on() {
    for breaker in ["client", "server"] {
        let relay = Relay::new(None);
        let (mut client, mut server) = relay.plain();
        exchange(&mut client, &mut server, 100);
        let (broken, mut other) = if breaker == "client" { (client, server) } else { (server, client) };
        socket2::SockRef::from(&broken).set_linger(Some(Duration::ZERO)).unwrap();
        drop(broken);
        assert_eq!(other.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset, "{breaker}");
        let flag = relay.ended().flag;
        let expected = if breaker == "client" { ResponseFlag::DownstreamClosed } else { ResponseFlag::UpstreamClosed };
        assert_eq!(flag, expected);
    }
}

#[test]
fn connections_at_rest_end_after_a_while_and_others_do_not() {
    let relay = Relay::new(Some(Duration::from_secs(1)));
    let (mut client, mut server) = relay.plain();
    let (mut resting, _open) = relay.plain();
    let started = Instant::now();
    resting.set_nonblocking(true).unwrap();
    let ended = loop {
        exchange(&mut client, &mut server, 10);
        match resting.read(&mut [0; 1]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => assert!(started.elapsed() < PATIENCE),
            other => break other,
        }
    };
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(relay.ended().flag, ResponseFlag::IdleTimeout);
    exchange(&mut client, &mut server, 10);
}

#[test]
fn all_can_be_broken_off() {
    let relay = Relay::new(None);
    let (mut client, mut server) = relay.plain();
    exchange(&mut client, &mut server, 10);
    relay.relay.close_all();
    assert!(client.read(&mut [0; 1]).is_err());
    assert_eq!(relay.ended().flag, ResponseFlag::Drained);
}

fn credentials(service_account: &str, ca: &MeshCa) -> Credentials {
    let certificate = ca.issue(&id(service_account), Duration::from_secs(60)).unwrap();
    let [chain, key, bundle] = [certificate.chain_pem, certificate.key_pem, ca.trust_bundle_pem()];
    Credentials::from_pem(chain.as_bytes(), key.as_bytes(), bundle.as_bytes()).unwrap()
}

fn id(service_account: &str) -> SpiffeId {
    SpiffeId {
        trust_domain: "cluster.local".into(),
        namespace: "default".into(),
        service_account: service_account.into(),
    }
}

type Secured = StreamOwned<ServerConnection, TcpStream>;

/// A leg under TLS as client, and the server at its other end.
fn secured() -> (Leg, Secured) {
    let ca = MeshCa::new("cluster.local").unwrap();
    let (mut near, mut far) = pair();
    let server = credentials("server", &ca).server_config();
    let far = thread::spawn(move || {
        let mut connection = ServerConnection::new(server).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut far).unwrap();
        }
        StreamOwned::new(connection, far)
    });
    let client = credentials("client", &ca).client_config(&id("server"));
    let mut connection = ClientConnection::new(client, "server".try_into().unwrap()).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut near).unwrap();
    }
    let far = far.join().unwrap();
    (Leg::tls(fd(near), Connection::from(connection)), far)
}

#[test]
fn tls_is_added_and_taken_off() {
    let relay = Relay::new(None);
    let ((mut client, inside), (outside, mut server)) = (pair(), secured());
    relay.between(Leg::plain(fd(inside)), outside, b"");
    for length in [1, 620, 16_384, 16_385, 300_000] {
        let sent = pattern(length);
        thread::scope(|scope| {
            scope.spawn(|| client.write_all(&sent).unwrap());
            let mut received = vec![0; length];
            server.read_exact(&mut received).unwrap();
            assert!(received == sent, "{length} bytes up");
        });
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                server.write_all(&sent).unwrap();
                server.flush().unwrap();
            });
            let mut received = vec![0; length];
            client.read_exact(&mut received).unwrap();
            assert!(received == sent, "{length} bytes down");
            writer.join().unwrap();
        });
    }
}

#[test]
fn the_end_of_a_direction_is_said_inside_of_tls() {
    let relay = Relay::new(None);
    let ((client, inside), (outside, mut server)) = (pair(), secured());
    relay.between(Leg::plain(fd(inside)), outside, b"hello");
    client.shutdown(Shutdown::Write).unwrap();
    // Without close_notify this would be an error.
    assert_eq!(read_all(&mut server), b"hello");
    server.write_all(&pattern(500_000)).unwrap();
    server.conn.send_close_notify();
    server.flush().unwrap();
    server.sock.shutdown(Shutdown::Write).unwrap();
    assert!(read_all(client) == pattern(500_000));
    assert_eq!(relay.ended().flag, ResponseFlag::None);
}

#[test]
fn what_may_have_been_truncated_is_not_passed_on_as_whole() {
    let relay = Relay::new(None);
    let ((mut client, inside), (outside, mut server)) = (pair(), secured());
    relay.between(Leg::plain(fd(inside)), outside, b"");
    server.write_all(b"half an answer").unwrap();
    server.flush().unwrap();
    let mut received = [0; 14];
    client.read_exact(&mut received).unwrap();
    server.sock.shutdown(Shutdown::Both).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let record = relay.ended();
    assert_eq!(record.flag, ResponseFlag::UpstreamClosed);
    assert!(record.details.unwrap().contains("truncated"));
}

#[test]
fn garbage_inside_of_tls_ends_the_connection() {
    let relay = Relay::new(None);
    let ((mut client, inside), (outside, mut server)) = (pair(), secured());
    relay.between(Leg::plain(fd(inside)), outside, b"");
    server.sock.write_all(&[0x17, 3, 3, 0, 5, 1, 2, 3, 4, 5]).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(relay.ended().flag, ResponseFlag::UpstreamClosed);
}

#[test]
fn many_connections_at_once_do_not_mix() {
    let relay = Relay::new(None);
    let ends: Vec<_> = (0..200).map(|_| relay.plain()).collect();
    let counters = Arc::clone(&relay.counters);
    thread::scope(|scope| {
        for (index, (mut client, mut server)) in ends.into_iter().enumerate() {
            scope.spawn(move || {
                for round in 0..20 {
                    let message = format!("{index}/{round}");
                    let mut received = vec![0; message.len()];
                    client.write_all(message.as_bytes()).unwrap();
                    server.read_exact(&mut received).unwrap();
                    assert_eq!(received, message.as_bytes());
                }
            });
        }
    });
    (0..200).for_each(|_| drop(relay.ended()));
    assert_eq!(counters.active.load(Relaxed), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_pieces_arrive_as_one(
        up in prop::collection::vec(0_usize..70_000, 0..12), down in prop::collection::vec(0_usize..70_000, 0..12)
    ) {
        let relay = Relay::new(None);
        let (client, server) = relay.plain();
        let ends = [(client, up), (server, down)].map(|(end, pieces)| {
            let mut writing = end.try_clone().unwrap();
            let total: usize = pieces.iter().sum();
            let writer = thread::spawn(move || {
                let all = pattern(total);
                let mut rest = all.as_slice();
                for piece in pieces {
                    let (now, later) = rest.split_at(piece);
                    writing.write_all(now).unwrap();
                    rest = later;
                }
                writing.shutdown(Shutdown::Write).unwrap();
            });
            (writer, total, thread::spawn(move || read_all(end)))
        });
        let [(up_writer, up, at_client), (down_writer, down, at_server)] = ends;
        up_writer.join().unwrap();
        down_writer.join().unwrap();
        prop_assert!(at_server.join().unwrap() == pattern(up));
        prop_assert!(at_client.join().unwrap() == pattern(down));
        prop_assert_eq!(relay.ended().flag, ResponseFlag::None);
    }
}
