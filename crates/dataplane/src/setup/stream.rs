//! A connection while it is set up: a socket, bare or under TLS, that is read and written asynchronously.

use crate::relay::Leg;
use rustls::Connection;
use std::{
    io::{self, Read, Write},
    os::fd::OwnedFd,
};
use tokio::net::TcpStream;

/// What a connection is set up with: a socket, bare or under TLS.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

/// A socket under TLS whose handshake is done.
pub(super) struct TlsStream {
    socket: TcpStream,
    connection: Connection,
}

/// Whose first words can be read.
pub(super) trait ReadMore: Send {
    /// Reads more of what the peer says to the end of `bytes`; zero at the end.
    fn read_more(&mut self, bytes: &mut Vec<u8>) -> impl Future<Output = io::Result<usize>> + Send;
}

impl ReadMore for TcpStream {
    async fn read_more(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            self.readable().await?;
            match self.try_read_buf(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

impl Stream {
    /// Hands the socket over to be relayed.
    pub(super) fn into_leg(self) -> io::Result<Leg> {
        Ok(match self {
            Self::Plain(socket) => Leg::plain(OwnedFd::from(socket.into_std()?)),
            Self::Tls(stream) => Leg::tls(OwnedFd::from(stream.socket.into_std()?), stream.connection),
        })
    }
}

impl TlsStream {
    /// Shakes hands. `received` is what was read of the peer already.
    pub(super) async fn handshake(
        socket: TcpStream,
        mut connection: Connection,
        mut received: &[u8],
    ) -> io::Result<Self> {
        while !received.is_empty() {
            connection.read_tls(&mut received)?;
            process(&mut connection, &socket)?;
        }
        loop {
            send(&mut connection, &socket).await?;
            if !connection.is_handshaking() {
                return Ok(Self { socket, connection });
            }
            if receive(&mut connection, &socket).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within the handshake"));
            }
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl ReadMore for TlsStream {
    async fn read_more(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            let state = self.connection.process_new_packets().map_err(io::Error::other)?;
            let before = bytes.len();
            if state.plaintext_bytes_to_read() > 0 {
                let mut plaintext = self.connection.reader().take(state.plaintext_bytes_to_read() as u64);
                return plaintext.read_to_end(bytes).map(|_| bytes.len() - before);
            }
            if state.peer_has_closed() {
                return Ok(0);
            }
            send(&mut self.connection, &self.socket).await?;
            if receive(&mut self.connection, &self.socket).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Reads once from the socket, and processes that.
async fn receive(connection: &mut Connection, socket: &TcpStream) -> io::Result<usize> {
    loop {
        socket.readable().await?;
        match connection.read_tls(&mut NonBlocking(socket)) {
            Ok(read) => return process(connection, socket).map(|()| read),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn process(connection: &mut Connection, socket: &TcpStream) -> io::Result<()> {
    connection.process_new_packets().map(drop).map_err(|error| {
        // The alert that says why; the peer may be gone, and the connection ends in any case.
        let _ = connection.write_tls(&mut NonBlocking(socket));
        io::Error::new(io::ErrorKind::InvalidData, error)
    })
}

async fn send(connection: &mut Connection, socket: &TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        socket.writable().await?;
        match connection.write_tls(&mut NonBlocking(socket)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A socket as rustls reads and writes it.
struct NonBlocking<'a>(&'a TcpStream);

impl Read for NonBlocking<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
