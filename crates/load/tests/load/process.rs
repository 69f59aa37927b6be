//! The load process against servers that behave, and that do not.

use crate::support::{Load, Reply, Server};
use meshtoll_load::{
    control::ControlError,
    protocol::{Schedule, SliceResult},
};
use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

const MS: Duration = Duration::from_millis(1);

fn closed(clients: u32) -> Schedule {
    Schedule::Closed { clients }
}

fn open(rate: u32, sessions: u32) -> Schedule {
    Schedule::Open { rate, sessions }
}

fn kinds(slice: &SliceResult) -> Vec<&str> {
    slice.errors.keys().map(String::as_str).collect()
}

#[test]
fn closed_loop_keeps_one_request_outstanding_a_session() {
    let server = Server::start(|_| {
        Box::pin(async {
            tokio::time::sleep(MS).await;
            Reply::ok("hello")
        })
    });
    let mut load = Load::start(server.get());
    let slice = load.drive(closed(5), MS * 20, MS * 200).unwrap();
    assert_eq!(slice.errors, BTreeMap::new());
    assert_eq!(server.seen.most_outstanding.load(SeqCst), 5);
    assert_eq!(slice.transactions, server.seen.requests.load(SeqCst) as u64);
    assert_eq!(slice.operations, [("get".to_owned(), slice.transactions)].into());
    assert_eq!(slice.response_body_bytes, slice.transactions * 5);
    assert!(0 < slice.window_transactions && slice.window_transactions < slice.transactions);
    assert!(slice.elapsed_ns >= slice.window_ns && slice.window_ns == 200_000_000);
    assert!(slice.latency.0.min() >= 990_000, "no answer takes less than the server's millisecond");
    assert_eq!(slice.lateness.0.len(), 0);
}

#[test]
fn sessions_keep_their_connections_across_slices() {
    let server = Server::start(|_| Box::pin(async { Reply::ok("hello") }));
    let mut load = Load::start(server.get());
    assert_eq!(load.prepare(3).unwrap(), 3);
    for schedule in [closed(3), open(500, 3), closed(2), closed(1)] {
        assert_eq!(load.drive(schedule, Duration::ZERO, MS * 30).unwrap().errors, BTreeMap::new());
    }
    assert_eq!(load.prepare(2).unwrap(), 3);
    assert_eq!(server.seen.accepted.load(SeqCst), 3);
    load.drive(closed(5), Duration::ZERO, MS * 30).unwrap();
    assert_eq!(server.seen.accepted.load(SeqCst), 5);
}

#[test]
fn connections_that_the_server_closed_between_slices_are_opened_again() {
    let server = Server::start(|_| Box::pin(async { Reply::ok("hello") }));
    let mut load = Load::start(server.get());
    load.drive(closed(4), Duration::ZERO, MS * 30).unwrap();
    server.hang_up();
    assert_eq!(load.drive(closed(4), Duration::ZERO, MS * 30).unwrap().errors, BTreeMap::new());
    assert_eq!(server.seen.accepted.load(SeqCst), 8);
}

#[test]
fn open_loop_sends_exactly_what_is_due() {
    let server = Server::start(|_| Box::pin(async { Reply::ok("hello") }));
    let mut load = Load::start(server.get());
    let slice = load.drive(open(1000, 50), MS * 100, MS * 500).unwrap();
    assert_eq!(slice.errors.get("unsent").copied().unwrap_or(0) + slice.transactions, 600);
    assert_eq!(server.seen.requests.load(SeqCst) as u64, slice.transactions);
    assert_eq!(slice.latency.0.len() + slice.errors.get("unsent").copied().unwrap_or(0), 500);
    assert_eq!(slice.latency.0.len(), slice.lateness.0.len());
    assert!(slice.elapsed_ns > 590_000_000, "paced over the whole slice, not in {} ns", slice.elapsed_ns);
}

/// Coordinated omission: a server that stands still for 200 ms has made all wait who came meanwhile, not just those
/// four whose requests it already had.
#[test]
fn open_loop_counts_latency_from_when_a_request_was_due() {
    let gate = Arc::new(tokio::sync::Mutex::new(()));
    let server = Server::start(move |asked| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            let _open = gate.lock().await;
            if asked.number == 300 {
                tokio::time::sleep(MS * 200).await;
            }
            Reply::ok("hello")
        })
    });
    let mut load = Load::start(server.get());
    let slice = load.drive(open(1000, 4), Duration::ZERO, MS * 1000).unwrap();
    assert_eq!(slice.latency.0.len() + slice.errors.get("unsent").copied().unwrap_or(0), 1000);
    let waited = |atleast_ms: u64| slice.latency.0.count_between(atleast_ms * 1_000_000, 60_000_000_000);
    assert!(waited(50) >= 145, "of the 200 due during the stall 150 waited 50 ms or more, not {}", waited(50));
    assert!(waited(100) >= 95, "of the 200 due during the stall 100 waited 100 ms or more, not {}", waited(100));
    let late = slice.lateness.0.count_between(100_000_000, 60_000_000_000);
    assert!(late >= 90, "all but the 4 that were out already were sent late, not just {late}");
}

#[test]
fn open_loop_counts_what_it_could_not_send() {
    let server = Server::start(|_| {
        Box::pin(async {
            tokio::time::sleep(MS * 20).await;
            Reply::ok("hello")
        })
    });
    let mut load = Load::start(server.get());
    let slice = load.drive(open(1000, 2), Duration::ZERO, MS * 300).unwrap();
    assert_eq!(kinds(&slice), ["unsent"]);
    assert!(slice.transactions <= 2 * (300 / 20 + 1), "two sessions, 20 ms each: {} transactions", slice.transactions);
    assert_eq!(slice.transactions + slice.errors["unsent"], 300);
    assert_eq!(slice.transactions, server.seen.requests.load(SeqCst) as u64, "the backlog ends with the window");
}

#[test]
fn a_status_other_than_success_is_an_error_of_that_status() {
    let server = Server::start(|asked| {
        Box::pin(async move { if asked.number % 2 == 0 { Reply::ok("hello") } else { Reply::status(503) } })
    });
    let slice = Load::start(server.get()).drive(closed(1), Duration::ZERO, MS * 50).unwrap();
    assert_eq!(kinds(&slice), ["status 503"]);
    assert!(slice.transactions.abs_diff(slice.errors["status 503"]) <= 1);
    assert_eq!(server.seen.requests.load(SeqCst) as u64, slice.transactions + slice.errors["status 503"]);
}

#[test]
fn a_connection_closed_without_an_answer_is_a_reset() {
    let server = Server::start(|asked| {
        Box::pin(async move { if asked.number % 3 == 2 { Reply::HangUp } else { Reply::ok("hello") } })
    });
    let slice = Load::start(server.get()).drive(closed(2), Duration::ZERO, MS * 50).unwrap();
    assert_eq!(kinds(&slice), ["reset"]);
    assert!(slice.transactions > 0);
    let opened = server.seen.accepted.load(SeqCst) as u64;
    assert!(opened.abs_diff(slice.errors["reset"]) <= 2, "a new connection after each, and no other");
}

#[test]
fn an_answer_cut_off_is_a_reset() {
    let server = Server::raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nnot a hundred", true);
    let slice = Load::start(server.get()).drive(closed(1), Duration::ZERO, MS * 20).unwrap();
    assert_eq!((kinds(&slice), slice.transactions), (vec!["reset"], 0));
}

#[test]
fn garbage_is_a_protocol_error() {
    let answers: [&[u8]; 3] = [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nmore than two",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ];
    for bytes in answers {
        let server = Server::raw(bytes, false);
        let slice = Load::start(server.get()).drive(closed(1), Duration::ZERO, MS * 20).unwrap();
        // What comes after a complete answer may also be noticed only with the next request.
        assert!(slice.errors["protocol"] > 0, "{:?}", slice.errors);
    }
}

#[test]
fn every_framing_of_a_body_is_read() {
    let answers: [(&[u8], bool); 4] = [
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", false),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", true),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello", true),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", false),
    ];
    for (bytes, close) in answers {
        let server = Server::raw(bytes, close);
        let slice = Load::start(server.get()).drive(closed(2), Duration::ZERO, MS * 50).unwrap();
        assert_eq!(slice.errors, BTreeMap::new(), "{}", String::from_utf8_lossy(bytes));
        assert!(slice.transactions > 0 && slice.response_body_bytes == 5 * slice.transactions);
        let accepted = server.seen.accepted.load(SeqCst) as u64;
        let expected = if close { slice.transactions..=slice.transactions + 1 } else { 2..=2 };
        assert!(expected.contains(&accepted), "{accepted} connections for {} transactions", slice.transactions);
    }
}

#[test]
fn a_server_that_is_gone_is_a_connect_error_and_no_busy_loop() {
    let server = Server::start(|_| Box::pin(async { Reply::ok("hello") }));
    let mut load = Load::start(server.get());
    load.prepare(2).unwrap();
    drop(server);
    let slice = load.drive(closed(2), Duration::ZERO, MS * 100).unwrap();
    assert_eq!((kinds(&slice), slice.transactions), (vec!["connect"], 0));
    assert!((2..=20).contains(&slice.errors["connect"]), "{:?} in 100 ms", slice.errors);
    let slice = load.drive(open(100, 2), Duration::ZERO, MS * 100).unwrap();
    assert_eq!((slice.errors.values().sum::<u64>(), slice.transactions), (10, 0));
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason_and_the_process_goes_on() {
    let server = Server::start(|_| Box::pin(async { Reply::ok("hello") }));
    let gone = Server::start(|_| Box::pin(async { Reply::HangUp })).get();
    let reason = |refused: Result<_, ControlError>| match refused {
        Err(ControlError::Failed { reason }) => reason,
        other => panic!("not refused: {other:?}"),
    };
    assert!(reason(Load::start(gone).prepare(1).map(|_| ())).contains("cannot connect to 127.0.0.1:"));
    let mut load = Load::start(server.get());
    for (schedule, window) in [(closed(0), MS), (open(0, 1), MS), (open(1, 0), MS), (closed(1), Duration::ZERO)] {
        assert!(reason(load.drive(schedule, MS, window).map(|_| ())).contains("1 at least"));
    }
    let mut answers = Vec::new();
    let mut commands = Vec::new();
    writeln!(commands, "{{\"prepare\": {{\"sessions\": 1, \"sesions\": 2}}}}\n{{\"prepare\": {{\"sessions\": 1}}}}")
        .unwrap();
    let options = meshtoll_load::Options { scenario: server.get(), seed: 1 };
    meshtoll_load::serve_on(&options, commands.as_slice(), &mut answers).unwrap();
    let answers = String::from_utf8(answers).unwrap();
    let (first, second) = answers.trim_end().split_once('\n').unwrap();
    assert!(first.contains("failed") && first.contains("sesions"), "{first}");
    assert_eq!(second, "{\"prepared\":{\"sessions\":1}}");
}
