//! A network namespace for a test, and what stands in it for the world.

use crate::process::skipped;
use nix::sched::{CloneFlags, unshare};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    process::Command,
    thread,
};

/// Moves this thread, and what it starts, to a network namespace with nothing but loopback. False, after saying
/// that the test is skipped, where that is not allowed.
pub(crate) fn enter_namespace() -> bool {
    match unshare(CloneFlags::CLONE_NEWNET) {
        Ok(()) => {
            run("ip", &["link", "set", "lo", "up"]);
            true
        }
        Err(error) => {
            skipped(format_args!("no network namespace of its own ({error}); run as root"));
            false
        }
    }
}

pub(crate) fn run(program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).status().unwrap();
    assert!(status.success(), "{program} {args:?}");
}

/// Answers every connection to this port of 127.0.0.1 with what it is sent.
pub(crate) fn echo(port: u16) {
    serve(port, |received| received.to_vec());
}

/// Answers every HTTP request to this port of 127.0.0.1 with its own head, and closes.
pub(crate) fn http_mirror(port: u16) {
    serve(port, |request| {
        let head = String::from_utf8_lossy(request);
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()).into_bytes()
    });
}

fn serve(port: u16, answer: fn(&[u8]) -> Vec<u8>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 16384];
                while let Ok(read @ 1..) = connection.read(&mut buffer) {
                    if connection.write_all(&answer(&buffer[..read])).is_err() {
                        break;
                    }
                }
            });
        }
    });
}

/// A DNS server on 127.0.0.1 that says 127.0.0.1 for every name.
pub(crate) fn dns() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 53)).unwrap();
    thread::spawn(move || {
        let mut query = [0; 512];
        loop {
            let (_, client) = socket.recv_from(&mut query).unwrap();
            let name_length = query[12..].iter().position(|byte| *byte == 0).unwrap();
            let question = &query[12..12 + name_length + 5];
            let mut answer = query[..2].to_vec();
            // Response, recursion available; one question, one answer.
            answer.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            answer.extend(question);
            // The question's name, A, IN, 60 s.
            answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            socket.send_to(&answer, client).unwrap();
        }
    });
}

/// What comes back for a message to this port of 127.0.0.1; `None` when the connection is closed instead.
pub(crate) fn echoed(port: u16, message: &[u8]) -> Option<Vec<u8>> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    connection.write_all(message).unwrap();
    let mut answer = vec![0; message.len()];
    connection.read_exact(&mut answer).ok()?;
    Some(answer)
}
