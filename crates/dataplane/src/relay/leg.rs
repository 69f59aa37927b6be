//! One side of a connection: a socket that does not block, bare or under TLS.

use nix::{
    errno::Errno,
    sys::{
        epoll::EpollFlags,
        socket::{MsgFlags, Shutdown, recv, send, shutdown},
    },
};
use rustls::Connection;
use std::{
    io::{self, BufRead, IoSlice, Write},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// What is read at once at first: enough for messages, little to keep when the other side is slow.
const FIRST_READ: usize = 16 << 10;

/// One side of a connection.
pub struct Leg {
    socket: OwnedFd,
    tls: Option<Box<Connection>>,
    /// What the socket has not taken yet; with TLS, that is in the TLS connection's own buffer.
    unsent: Vec<u8>,
    readable: bool,
    writable: bool,
    /// The peer will send no more: a short read does not mean that the end was reached.
    hung_up: bool,
    /// TLS that was set up elsewhere may have decrypted more than was asked of it.
    decrypted: bool,
    /// How much is read at once. Grows with the flow.
    read_size: usize,
    received_end: bool,
    ending: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    NotYet,
    /// Nothing more is to be sent, once what is unsent was.
    Asked,
    Sent,
}

/// Why a side cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LegError {
    /// The socket failed.
    #[error("{0}")]
    Socket(#[from] Errno),
    /// TLS failed.
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    /// The peer closed its socket without having said so inside of TLS: what it sent may have been cut short by anyone.
    #[error("the connection ended without TLS's close_notify, so that it may have been truncated")]
    Truncated,
}

impl Leg {
    /// A bare socket, which has to be non-blocking.
    pub fn plain(socket: OwnedFd) -> Self {
        Self {
            socket,
            tls: None,
            unsent: Vec::new(),
            readable: true,
            writable: true,
            hung_up: false,
            decrypted: false,
            read_size: FIRST_READ,
            received_end: false,
            ending: Ending::NotYet,
        }
    }

    /// A non-blocking socket with a TLS connection whose handshake is done.
    pub fn tls(socket: OwnedFd, mut connection: Connection) -> Self {
        // Bounded by what is read at once: nothing is read for a side that has something unsent.
        connection.set_buffer_limit(None);
        Self { tls: Some(Box::new(connection)), decrypted: true, ..Self::plain(socket) }
    }

    /// Takes note of what epoll says of the socket.
    pub(super) fn note(&mut self, events: EpollFlags) {
        let ended = events.intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR);
        self.hung_up |= ended;
        self.readable |= ended || events.contains(EpollFlags::EPOLLIN);
        self.writable |= ended || events.contains(EpollFlags::EPOLLOUT);
    }

    /// Whether there is something to read, as far as is known.
    pub(super) fn has_input(&self) -> bool {
        (self.readable || self.decrypted) && !self.received_end
    }

    pub(super) fn received_end(&self) -> bool {
        self.received_end
    }

    pub(super) fn sent_end(&self) -> bool {
        self.ending == Ending::Sent
    }

    /// Whether something still has to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
            || self.ending == Ending::Asked
            || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Reads once, and passes on what was read: as many bytes as it says.
    pub(super) fn receive(&mut self, buffer: &mut [u8], mut pass_on: impl FnMut(&[u8])) -> Result<usize, LegError> {
        if std::mem::take(&mut self.decrypted)
            && let Some(tls) = &mut self.tls
        {
            let (passed, ended) = decrypt(tls, &[], &mut pass_on)?;
            self.received_end = ended;
            if passed > 0 || ended {
                return Ok(passed);
            }
        }
        let room = self.read_size.min(buffer.len());
        let read = match recv(self.socket.as_raw_fd(), &mut buffer[..room], MsgFlags::empty()) {
            Ok(read) => read,
            Err(Errno::EAGAIN) => {
                self.readable = false;
                return Ok(0);
            }
            Err(Errno::EINTR) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        if read == room {
            self.read_size = (self.read_size * 2).min(buffer.len());
        } else if !self.hung_up {
            self.readable = false;
        }
        let Some(tls) = &mut self.tls else {
            self.received_end = read == 0;
            pass_on(&buffer[..read]);
            return Ok(read);
        };
        if read == 0 {
            return Err(LegError::Truncated);
        }
        let (passed, ended) = decrypt(tls, &buffer[..read], &mut pass_on)?;
        self.received_end = ended;
        Ok(passed)
    }

    /// Sends all of it; what the socket does not take is kept for [`Leg::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), LegError> {
        if let Some(tls) = &mut self.tls {
            // The buffer has no limit, so that it takes everything.
            return tls.writer().write_all(bytes).map_err(|error| errno(&error).into());
        }
        let taken = if self.unsent.is_empty() { self.try_send(bytes)? } else { 0 };
        if taken < bytes.len() {
            self.unsent.extend_from_slice(&bytes[taken..]);
        }
        Ok(())
    }

    fn try_send(&mut self, bytes: &[u8]) -> Result<usize, LegError> {
        match send(self.socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
            Ok(taken) => {
                self.writable = taken == bytes.len();
                Ok(taken)
            }
            Err(Errno::EAGAIN) => {
                self.writable = false;
                Ok(0)
            }
            Err(Errno::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends what is unsent, and the end where that was asked for. Whether nothing is left.
    pub(super) fn flush(&mut self) -> Result<bool, LegError> {
        while self.writable && !self.unsent.is_empty() {
            let bytes = std::mem::take(&mut self.unsent);
            let taken = self.try_send(&bytes);
            self.unsent = bytes;
            let taken = taken?;
            self.unsent.drain(..taken);
        }
        if self.unsent.is_empty() && self.unsent.capacity() > 0 {
            // A connection at rest has no buffer of its own.
            self.unsent = Vec::new();
        }
        if let Some(tls) = &mut self.tls {
            let mut socket = Socket { socket: self.socket.as_fd(), full: false };
            while self.writable && tls.wants_write() {
                match tls.write_tls(&mut socket) {
                    Ok(_) => self.writable = !socket.full,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                    Err(error) => return Err(errno(&error).into()),
                }
            }
        }
        let left = !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        if left {
            // A side that is slow gets less at once again.
            self.read_size = FIRST_READ;
        } else if self.ending == Ending::Asked {
            match shutdown(self.socket.as_raw_fd(), Shutdown::Write) {
                Ok(()) | Err(Errno::ENOTCONN) => self.ending = Ending::Sent,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(!left)
    }

    /// Ends this direction once everything is sent; the other one goes on.
    pub(super) fn end(&mut self) -> Result<(), LegError> {
        if self.ending == Ending::NotYet {
            self.ending = Ending::Asked;
            if let Some(tls) = &mut self.tls {
                tls.send_close_notify();
            }
        }
        self.flush().map(drop)
    }

    /// Makes closing the socket a reset, so that the peer does not take what it got for the whole.
    pub(super) fn reset_on_close(&self) {
        let socket = socket2::SockRef::from(&self.socket);
        // The socket is closed next, whatever comes of this.
        let _ = socket.set_linger(Some(std::time::Duration::ZERO));
    }
}

impl AsFd for Leg {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Decrypts what was received, and passes it on record by record: how many bytes that was, and whether the peer said that
/// it will send no more.
fn decrypt(
    tls: &mut Connection,
    mut received: &[u8],
    pass_on: &mut impl FnMut(&[u8]),
) -> Result<(usize, bool), LegError> {
    let mut passed = 0;
    loop {
        if !received.is_empty() {
            tls.read_tls(&mut received).map_err(|error| errno(&error))?;
        }
        let state = tls.process_new_packets()?;
        if state.plaintext_bytes_to_read() > 0 {
            let mut reader = tls.reader();
            while let Ok(chunk) = reader.fill_buf() {
                let length = chunk.len();
                if length == 0 {
                    break;
                }
                pass_on(chunk);
                reader.consume(length);
                passed += length;
            }
        }
        if received.is_empty() || state.peer_has_closed() {
            return Ok((passed, state.peer_has_closed()));
        }
    }
}

/// A socket as TLS writes to it.
struct Socket<'a> {
    socket: BorrowedFd<'a>,
    /// It took less than it was given, so that the next try would be in vain.
    full: bool,
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = send(self.socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL)?;
        self.full = taken < bytes.len();
        Ok(taken)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if let [only] = slices {
            return self.write(only);
        }
        let flags = MsgFlags::MSG_NOSIGNAL;
        let taken = nix::sys::socket::sendmsg::<()>(self.socket.as_raw_fd(), slices, &[], flags, None)?;
        self.full = taken < slices.iter().map(|slice| slice.len()).sum();
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
