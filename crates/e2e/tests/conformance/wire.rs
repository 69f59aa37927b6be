//! A connection, bare or under TLS, as both ends of it are used here.

use rustls::{ClientConnection, ServerConnection, StreamOwned};
use socket2::SockRef;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

pub(crate) trait Wire: Read + Write + Send {
    fn socket(&self) -> &TcpStream;

    /// Says that nothing more will be said; the other direction stays open.
    fn finish(&mut self) -> io::Result<()>;

    /// The server name that the peer sent, where this is a server under TLS.
    fn server_name(&self) -> Option<String> {
        None
    }
}

impl Wire for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }

    fn finish(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Wire for StreamOwned<ClientConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn finish(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.shutdown(Shutdown::Write)
    }
}

impl Wire for StreamOwned<ServerConnection, TcpStream> {
    fn socket(&self) -> &TcpStream {
        &self.sock
    }

    fn finish(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.shutdown(Shutdown::Write)
    }

    fn server_name(&self) -> Option<String> {
        self.conn.server_name().map(str::to_owned)
    }
}

impl<W: Wire + ?Sized> Wire for Box<W> {
    fn socket(&self) -> &TcpStream {
        (**self).socket()
    }

    fn finish(&mut self) -> io::Result<()> {
        (**self).finish()
    }

    fn server_name(&self) -> Option<String> {
        (**self).server_name()
    }
}

/// Breaks a connection off: the peer sees a reset.
pub(crate) fn reset(wire: impl Wire) {
    let _ = SockRef::from(wire.socket()).set_linger(Some(Duration::ZERO));
}

/// A line, without its end. The end of the connection is an error.
pub(crate) fn line(wire: &mut (impl Read + ?Sized)) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        if wire.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if byte[0] == b'\n' {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        line.push(byte[0]);
    }
}
