//! Servers that say who they are, and do as their clients tell them.

use crate::wire::{Wire, line, reset};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::{
    io::{self, Read, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

/// How long anything that is waited for may take, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What servers noticed, a line an event: `SERVER accepted`, `SERVER end`, `SERVER reset`, …
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<(Mutex<Vec<String>>, Condvar)>);

impl Log {
    fn note(&self, server: &str, event: &str) {
        self.0.0.lock().unwrap().push(format!("{server} {event}"));
        self.0.1.notify_all();
    }

    /// How often something was noticed.
    pub(crate) fn count(&self, event: &str) -> usize {
        self.0.0.lock().unwrap().iter().filter(|line| *line == event).count()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.0.lock().unwrap().len()
    }

    /// Waits for one of these events, later than the first `after` ones.
    pub(crate) fn wait(&self, after: usize, events: &[String]) -> Option<String> {
        let until = Instant::now() + PATIENCE;
        let mut lines = self.0.0.lock().unwrap();
        loop {
            if let Some(line) = lines[after..].iter().find(|line| events.contains(line)) {
                return Some(line.clone());
            }
            let left = until.checked_duration_since(Instant::now())?;
            lines = self.0.1.wait_timeout(lines, left).unwrap().0;
        }
    }
}

/// What a server speaks.
#[derive(Clone)]
pub(crate) enum Speech {
    /// It says who it is as soon as somebody connects; then as `Lines`.
    First,
    /// It says who it is once it has been told what to do: `echo`, `reset`, `half` or `watch`, and a line feed.
    Lines,
    /// The same, inside of TLS.
    Tls(Arc<ServerConfig>),
    /// It answers one HTTP request.
    Http,
}

pub(crate) fn serve(listener: TcpListener, name: &str, speech: Speech, log: &Log) {
    let (name, log) = (name.to_owned(), log.clone());
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (name, speech, log) = (name.clone(), speech.clone(), log.clone());
            thread::spawn(move || {
                log.note(&name, "accepted");
                // How a connection breaks is what the client looks at.
                let _ = converse(socket, &name, speech, &log);
            });
        }
    });
}

fn converse(socket: TcpStream, name: &str, speech: Speech, log: &Log) -> io::Result<()> {
    let from = socket.peer_addr()?.ip();
    socket.set_nodelay(true)?;
    let greeting = |wire: &dyn Wire| {
        format!("hello {name} sni={} from={from}\n", wire.server_name().unwrap_or_default()).into_bytes()
    };
    let mut wire: Box<dyn Wire> = match speech {
        Speech::Http => return answer(socket, name),
        Speech::Tls(config) => {
            let connection = ServerConnection::new(config).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(connection, socket))
        }
        Speech::First => {
            let mut socket = socket;
            let hello = greeting(&socket);
            socket.write_all(&hello)?;
            let told = line(&mut socket)?;
            return obey(Box::new(socket), &told, name, log);
        }
        Speech::Lines => Box::new(socket),
    };
    let told = line(&mut wire)?;
    let hello = greeting(&*wire);
    wire.write_all(&hello)?;
    wire.flush()?;
    obey(wire, &told, name, log)
}

fn obey(mut wire: Box<dyn Wire>, told: &str, name: &str, log: &Log) -> io::Result<()> {
    match told {
        "echo" => {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let read = wire.read(&mut buffer)?;
                if read == 0 {
                    return wire.finish();
                }
                wire.write_all(&buffer[..read])?;
                wire.flush()?;
            }
        }
        "reset" => {
            // Once the client has read what comes before it, which a reset would overtake.
            line(&mut wire)?;
            reset(wire);
        }
        "half" => {
            wire.finish()?;
            let rest = io::copy(&mut wire, &mut io::sink())?;
            log.note(name, &format!("received {rest}"));
        }
        "watch" => {
            let ended = wire.read_to_end(&mut Vec::new());
            log.note(
                name,
                match ended {
                    Ok(_) => "end",
                    // The end of a connection, while TLS inside of it has not ended.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "cut",
                    Err(_) => "reset",
                },
            );
        }
        other => log.note(name, &format!("was told {other}")),
    }
    Ok(())
}

fn answer(mut socket: TcpStream, name: &str) -> io::Result<()> {
    loop {
        let (mut host, mut last) = (String::new(), false);
        loop {
            let line = line(&mut socket)?.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("host:") {
                host = value.trim().to_owned();
            }
            last |= line == "connection: close";
            if line.is_empty() {
                break;
            }
        }
        let body = format!("hello {name} host={host}\n");
        write!(socket, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
        if last {
            return socket.finish();
        }
    }
}
