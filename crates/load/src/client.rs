//! An HTTP/1.1 client connection, with one request outstanding at most.
//!
//! An own reader over `httparse` rather than hyper's client, because the generator shares the machine with what it
//! measures. Prototypes of both, 20 connections on a 620-byte answer, CPU a request (of it in user space): hyper 7.2 µs
//! (2.1), this way 5.7 µs (0.9), wrk 6.3 µs (0.6). `cargo bench -p meshtoll-load` compares what became of it with wrk.

mod response;

pub(crate) use response::Malformed;

use crate::failure::Failure;
use response::{Framing, Head};
use std::{io, mem::MaybeUninit, net::SocketAddr, ops::Range};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Longest response that is read, bytes: far above what any scenario asks for, so that garbage cannot fill the memory.
const MAX_RESPONSE: usize = 16 << 20;

/// Room for reading, bytes. A read that leaves some of it free tells that the socket is drained and saves another read.
const READ_ROOM: usize = 16 << 10;

/// A kept connection to one service.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    address: SocketAddr,
}

impl Connection {
    /// Connects.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Failure> {
        let connect = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = connect.await.map_err(|source| Failure::Connect { address, source })?;
        Ok(Self { stream, address })
    }

    /// Whether the server ended the connection, or spoke out of turn, while no request was outstanding.
    pub(crate) fn is_stale(&self) -> bool {
        let peeked = socket2::SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit(); 1]);
        !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and reads its whole answer into `buffer`, which loses what it held.
    ///
    /// After an error, or where the answer says so, the connection is of no use any more.
    pub(crate) async fn exchange(&mut self, request: &[u8], buffer: &mut Vec<u8>) -> Result<Answer, Failure> {
        self.stream.write_all(request).await.map_err(|source| self.reset(source))?;
        buffer.clear();
        let head = loop {
            match response::head(buffer)? {
                Some(interim) if interim.status < 200 => drop(buffer.drain(..interim.length)),
                Some(head) => break head,
                None => self.read(buffer).await?,
            }
        };
        let (body, end) = self.body(head, buffer).await?;
        if end < buffer.len() {
            return Err(Malformed::Surplus.into());
        }
        Ok(Answer { head, body })
    }

    /// Reads on until the body is complete: where it is, and where the response ends.
    async fn body(&mut self, head: Head, buffer: &mut Vec<u8>) -> Result<(Range<usize>, usize), Failure> {
        match head.framing {
            Framing::Length(length) => {
                let end = head.length.saturating_add(length);
                while buffer.len() < end {
                    self.read(buffer).await?;
                }
                Ok((head.length..end, end))
            }
            Framing::Chunked => loop {
                if let Some(joined) = response::join_chunks(buffer, head.length)? {
                    return Ok(joined);
                }
                self.read(buffer).await?;
            },
            Framing::UntilClose => loop {
                match self.read(buffer).await {
                    Ok(()) => {}
                    Err(Failure::Reset { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                        return Ok((head.length..buffer.len(), buffer.len()));
                    }
                    Err(failure) => return Err(failure),
                }
            },
        }
    }

    async fn read(&mut self, buffer: &mut Vec<u8>) -> Result<(), Failure> {
        if buffer.len() > MAX_RESPONSE {
            return Err(Malformed::TooLong.into());
        }
        if buffer.capacity() - buffer.len() < READ_ROOM / 2 {
            buffer.reserve(READ_ROOM.max(buffer.len()));
        }
        match self.stream.read_buf(buffer).await {
            Ok(0) => Err(self.reset(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(()),
            Err(source) => Err(self.reset(source)),
        }
    }

    fn reset(&self, source: io::Error) -> Failure {
        Failure::Reset { address: self.address, source }
    }
}

/// Where in the buffer an answer is.
#[derive(Debug)]
pub(crate) struct Answer {
    head: Head,
    body: Range<usize>,
}

impl Answer {
    /// Whether the connection may carry another request.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.head.keeps_alive
    }

    /// The answer itself, in the buffer that it was read into.
    pub(crate) fn within<'a>(&self, buffer: &'a [u8]) -> Response<'a> {
        Response { status: self.head.status, head: &buffer[..self.head.length], body: &buffer[self.body.clone()] }
    }
}

/// A complete response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response<'a> {
    /// Status code.
    pub(crate) status: u16,
    head: &'a [u8],
    /// The body, chunks joined.
    pub(crate) body: &'a [u8],
}

impl<'a> Response<'a> {
    /// The value of a cookie that the response sets. Looked for only when asked: few responses set one.
    pub(crate) fn set_cookie(&self, name: &str) -> Option<&'a str> {
        response::set_cookie(self.head, name)
    }
}
