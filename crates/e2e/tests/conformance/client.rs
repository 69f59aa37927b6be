//! What clients do, and how it looks to them.

use crate::{
    servers::PATIENCE,
    table::{Problem, Seen},
    tls,
    wire::{Wire, line},
    world::{GATEWAY, World},
};
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a client waits for an answer: longer than any of the proxies' own time limits for set-up.
const ANSWER: Duration = Duration::from_secs(15);

impl World {
    /// A connection from a pod. An application's is intercepted.
    pub(crate) fn connect(&self, from: &str, to: &str) -> io::Result<TcpStream> {
        let to: SocketAddr = to.parse().map_err(io::Error::other)?;
        let connected = self.testbed.within(self.pod(from), || TcpStream::connect_timeout(&to, ANSWER));
        let stream = connected.map_err(io::Error::other)??;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// TLS with a server outside of the mesh, which has to have the name.
    pub(crate) fn tls(&self, from: &str, to: &str, name: &str) -> io::Result<Box<dyn Wire>> {
        self.tls_over(self.connect(from, to)?, name)
    }

    pub(crate) fn tls_over<W: Wire + 'static>(&self, wire: W, name: &str) -> io::Result<Box<dyn Wire>> {
        over(wire, name, tls::client(&self.authorities.external.trust_bundle_pem()))
    }

    /// TLS without a server name.
    pub(crate) fn nameless_tls(&self, from: &str, to: &str) -> io::Result<Box<dyn Wire>> {
        over(self.connect(from, to)?, "192.0.2.1", tls::mesh_client(None, None))
    }

    /// One HTTP request.
    pub(crate) fn http(&self, from: &str, to: &str, host: &str) -> Seen {
        let answer = (|| {
            let mut stream = self.connect(from, to)?;
            write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })();
        match answer {
            Ok(answer) if answer.is_empty() => Ok("refused".into()),
            Ok(answer) => {
                let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
                let body = answer.lines().find_map(|line| line.strip_prefix("hello "));
                let Some(body) = body else { return Ok(format!("answered with status {status}")) };
                let (name, host) = body.split_once(" host=").unwrap_or((body, ""));
                Ok(format!("reaches {name} for {host}"))
            }
            Err(error) => ended(&error),
        }
    }

    /// What an administration interface says: status and body.
    pub(crate) fn admin(&self, proxy: &str, path: &str) -> io::Result<(u16, String)> {
        let to = SocketAddr::from(([127, 0, 0, 1], 15000));
        let connected = self.testbed.within(self.pod(proxy), || TcpStream::connect_timeout(&to, ANSWER));
        let mut stream = connected.map_err(io::Error::other)??;
        stream.set_read_timeout(Some(ANSWER))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        Ok((status, answer))
    }
}

/// TLS of any kind over a connection of any kind.
pub(crate) fn over<W: Wire + 'static>(wire: W, name: &str, config: Arc<ClientConfig>) -> io::Result<Box<dyn Wire>> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
    Ok(Box::new(Layer { stream: StreamOwned::new(connection, wire) }))
}

/// TLS over a connection that may itself be TLS.
struct Layer<W: Wire> {
    stream: StreamOwned<ClientConnection, W>,
}

impl<W: Wire> io::Read for Layer<W> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.read(bytes)
    }
}

impl<W: Wire> io::Write for Layer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl<W: Wire> Wire for Layer<W> {
    fn socket(&self) -> &TcpStream {
        self.stream.sock.socket()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.stream.conn.send_close_notify();
        self.stream.flush()?;
        self.stream.sock.finish()
    }
}

/// Tells the server what to do, and takes its greeting.
pub(crate) fn tell(wire: &mut (impl Wire + ?Sized), what: &str) -> io::Result<String> {
    wire.write_all(format!("{what}\n").as_bytes())?;
    wire.flush()?;
    line(wire)
}

/// Whom a connection reaches, if anyone, and whether what is sent comes back.
pub(crate) fn meet(wire: io::Result<impl Wire>) -> Seen {
    let met = (|| {
        let mut wire = wire?;
        let greeting = tell(&mut wire, "echo")?;
        echoes(&mut wire)?;
        Ok(greeting)
    })();
    match met {
        Ok(greeting) => reached(&greeting),
        Err(error) => ended(&error),
    }
}

/// Sends a line, which has to come back.
pub(crate) fn echoes(wire: &mut (impl Wire + ?Sized)) -> io::Result<()> {
    let back = tell(wire, "ping")?;
    if back == "ping" { Ok(()) } else { Err(io::Error::other(format!("`{back}` came back"))) }
}

/// A greeting in words.
pub(crate) fn reached(greeting: &str) -> Seen {
    let mut words = greeting.split(' ');
    let (Some("hello"), Some(name)) = (words.next(), words.next()) else {
        return Err(format!("`{greeting}` is no greeting").into());
    };
    let mut told = format!("reaches {name}");
    for word in words {
        match word.split_once('=') {
            Some(("sni", name)) if !name.is_empty() => told += &format!(" as {name}"),
            Some(("from", from)) if from == GATEWAY.to_string() => told += " through the gateway",
            _ => {}
        }
    }
    Ok(told)
}

/// The end of a connection that was refused, in words. What is nobody's refusal is a problem of the test.
pub(crate) fn ended(error: &io::Error) -> Seen {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidData, NotConnected, TimedOut,
        UnexpectedEof, WouldBlock,
    };
    let tls = error.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    match error.kind() {
        WouldBlock | TimedOut => Ok("silence".into()),
        BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | NotConnected | UnexpectedEof => {
            Ok("refused".into())
        }
        InvalidData if matches!(tls, Some(rustls::Error::AlertReceived(_))) => Ok("refused".into()),
        InvalidData if matches!(tls, Some(rustls::Error::InvalidMessage(_))) => {
            Ok("reaches something that speaks no TLS".into())
        }
        _ => Err(format!("the client failed: {error}").into()),
    }
}

/// Looks until something is seen.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> Result<T, Problem> {
    within(PATIENCE, look).ok_or_else(|| format!("waited in vain for this: {what}").into())
}

/// Looks until something is seen, for so long.
pub(crate) fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if started.elapsed() > limit {
            return None;
        }
        #[expect(clippy::disallowed_methods, reason = "other processes' doings can only be looked at")]
        std::thread::sleep(Duration::from_millis(20));
    }
}
