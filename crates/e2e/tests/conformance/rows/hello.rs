//! ClientHellos as they do not come as a rule.

use crate::{
    client::{meet, over},
    table::{Problem, Seen},
    tls,
    wire::Wire,
    world::World,
};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

/// How a ClientHello is sent.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// One byte a segment.
    Bytes,
    /// A few bytes a TLS record.
    Records,
}

/// A connection whose first message goes out in that manner.
struct Chopped {
    socket: TcpStream,
    manner: Option<Manner>,
}

impl Read for Chopped {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.read(bytes)
    }
}

impl Write for Chopped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.manner.take() {
            None => return self.socket.write(bytes),
            Some(Manner::Bytes) => {
                for byte in bytes.chunks(1) {
                    self.socket.write_all(byte)?;
                    #[expect(clippy::disallowed_methods, reason = "the segments have to arrive apart")]
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Some(Manner::Records) => {
                let (header, message) = bytes.split_at(5);
                for part in message.chunks(40) {
                    let mut record = header[..3].to_vec();
                    record.extend((part.len() as u16).to_be_bytes());
                    record.extend(part);
                    self.socket.write_all(&record)?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Wire for Chopped {
    fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn finish(&mut self) -> io::Result<()> {
        self.socket.finish()
    }
}

/// Whom TLS reaches whose ClientHello is sent so.
pub(crate) fn chopped(world: &World, from: &str, to: &str, name: &str, manner: Manner) -> Seen {
    let wire =
        world.connect(from, to).and_then(|socket| world.tls_over(Chopped { socket, manner: Some(manner) }, name));
    meet(wire)
}

/// Whom TLS reaches whose ClientHello is at least so large.
pub(crate) fn large(world: &World, to: &str, name: &str, size: usize) -> Seen {
    let mut config = ClientConfig::clone(&tls::client(&world.authorities.external.trust_bundle_pem()));
    config.alpn_protocols = (0..size / 200).map(|number| format!("{number:0199}").into_bytes()).collect();
    meet(world.connect("client", to).and_then(|socket| over(socket, name, Arc::new(config))))
}

/// A ClientHello.
pub(crate) fn bytes(world: &World, name: &str) -> Result<Vec<u8>, Problem> {
    let config = tls::client(&world.authorities.external.trust_bundle_pem());
    let mut hello = Vec::new();
    ClientConnection::new(config, ServerName::try_from(name.to_owned())?)?.write_tls(&mut hello)?;
    Ok(hello)
}

/// What comes of a connection that says this, and then nothing more.
pub(crate) fn says(world: &World, from: &str, to: &str, bytes: &[u8]) -> Seen {
    let read = world.connect(from, to).and_then(|mut socket| {
        socket.write_all(bytes)?;
        socket.read(&mut [0; 100])
    });
    match read {
        Ok(0) => Ok("refused".into()),
        Ok(_) => Ok("answered".into()),
        Err(error) => crate::client::ended(&error),
    }
}
