//! A way out of the sandbox, to one address: where an experiment's external database is one that runs elsewhere.
//!
//! The sandbox's network namespaces have no way to the host's, and get none. Instead a process that stays in the
//! host's namespaces makes the connections and hands them in: a TCP socket belongs to the namespace in which it was made, whoever
//! reads and writes it.
//!
//! ```text
//! outlet (host's namespaces)      loop: receive an ask, connect, send the connection back with it
//!    ▲ ask: a socket pair's end         │ answer: the connected socket, or why there is none
//! relay (the database's pod)  ◀─────────┘
//! ```
//!
//! Both are single messages on `SOCK_SEQPACKET` sockets, with the socket in the ancillary data (`SCM_RIGHTS`, see unix(7)). Asks
//! of any number of processes are answered one after another.
//!
//! Out of scope: what goes over the connections, and every address but the one that the outlet was started with.

use nix::{
    errno::Errno,
    sys::{
        prctl,
        signal::{SigHandler, Signal, signal},
        socket::{
            AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
            socketpair,
        },
    },
    unistd::{ForkResult, Pid, fork, getpid, getppid},
};
use std::{
    fs,
    io::{self, IoSlice, IoSliceMut},
    net::{TcpStream, ToSocketAddrs as _},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    time::Duration,
};

/// How long one address may take to accept. The application's driver gives up after as long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Room for the reason why there is no connection.
const MESSAGE_BYTES: usize = 512;

/// A process outside of the sandbox that connects to one address. It ends when nobody is left who could ask it, at
/// the latest with the process that started it.
#[derive(Debug)]
pub struct Outlet {
    askers: OwnedFd,
}

/// Why there is no outlet.
#[derive(Debug, thiserror::Error)]
pub enum OutletError {
    /// A process with threads cannot go on after a fork.
    #[error("the outlet has to be started before the first thread is, but {threads} threads run")]
    Threads {
        /// How many.
        threads: usize,
    },
    /// `/proc` is not mounted.
    #[error("/proc cannot be read: run `mount -t proc proc /proc`")]
    NoProc {
        /// Why.
        source: io::Error,
    },
    /// No socket to ask through.
    #[error("cannot make the outlet's sockets: see `ulimit -n`")]
    Socket {
        /// Why.
        source: Errno,
    },
    /// No further process.
    #[error("cannot start the outlet's process: see `ulimit -u`")]
    Fork {
        /// Why.
        source: Errno,
    },
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The outlet could not connect.
    #[error("{0}")]
    Unreachable(String),
    /// The outlet does not answer.
    #[error("the outlet has ended")]
    Ended,
    /// The outlet cannot be asked.
    #[error("the outlet cannot be asked; what is given as one may be none")]
    Ask {
        /// Why.
        source: Errno,
    },
}

impl Outlet {
    /// Starts a process, in the namespaces of the caller, that connects to `target`, a `HOST:PORT`, whenever it is asked;
    /// its name is resolved each time.
    ///
    /// Has to be called before the process has a second thread, since it forks, and before the sandbox is entered.
    pub fn start(target: &str) -> Result<Self, OutletError> {
        let threads = fs::read_dir("/proc/self/task").map_err(|source| OutletError::NoProc { source })?.count();
        if threads != 1 {
            return Err(OutletError::Threads { threads });
        }
        let (askers, asked) = pair().map_err(|source| OutletError::Socket { source })?;
        let parent = getpid();
        // SAFETY: the process has one thread (checked above), so the child may go on as if nothing had happened.
        match unsafe { fork() }.map_err(|source| OutletError::Fork { source })? {
            ForkResult::Parent { .. } => Ok(Self { askers }),
            ForkResult::Child => {
                drop(askers);
                let status = match outlast_nothing(parent) {
                    Ok(()) => {
                        answer_all(asked.as_fd(), target);
                        0
                    }
                    Err(_) => 1,
                };
                // SAFETY: `_exit` only ends the process. The child has nothing to drop, and must not run the caller's rest.
                unsafe { libc::_exit(status) }
            }
        }
    }

    /// Asks for a connection, and waits for it.
    pub fn connect(&self) -> Result<TcpStream, ConnectError> {
        connect(self.askers.as_fd())
    }
}

impl AsFd for Outlet {
    /// What a process needs to ask: see [`connect`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.askers.as_fd()
    }
}

/// Asks the outlet behind this descriptor for a connection, and waits for it.
pub fn connect(outlet: BorrowedFd<'_>) -> Result<TcpStream, ConnectError> {
    let failed = |source| match source {
        Errno::EPIPE | Errno::ECONNRESET | Errno::ECONNREFUSED => ConnectError::Ended,
        source => ConnectError::Ask { source },
    };
    let (own, theirs) = pair().map_err(failed)?;
    send(outlet, b"connect", Some(theirs.as_fd())).map_err(failed)?;
    // Else its end would stay open when the outlet ends without an answer.
    drop(theirs);
    let answer = receive(own.as_fd()).map_err(failed)?;
    match answer.socket {
        Some(socket) => Ok(socket.into()),
        None if answer.text.is_empty() => Err(ConnectError::Ended),
        None => Err(ConnectError::Unreachable(String::from_utf8_lossy(&answer.text).into_owned())),
    }
}

/// Ties the outlet's life to its parent's, and leaves to the parent what the terminal sends to both: it ends the run, and
/// with the run the outlet.
fn outlast_nothing(parent: Pid) -> Result<(), Errno> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if getppid() != parent {
        return Err(Errno::ESRCH);
    }
    for forwarded in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: no handler is installed or replaced by one.
        unsafe { signal(forwarded, SigHandler::SigIgn) }?;
    }
    Ok(())
}

/// Answers asks until nobody is left who could ask.
fn answer_all(asked: BorrowedFd<'_>, target: &str) {
    loop {
        match receive(asked) {
            Ok(Message { socket: Some(reply), .. }) => {
                let connected = connect_to(target);
                // An asker that is gone needs no answer.
                let _ = match &connected {
                    Ok(stream) => send(reply.as_fd(), b"connected", Some(stream.as_fd())),
                    Err(error) => send(reply.as_fd(), reason(target, error).as_bytes(), None),
                };
            }
            Ok(Message { socket: None, text }) if !text.is_empty() => {}
            Ok(_) | Err(_) => return,
        }
    }
}

fn connect_to(target: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in target.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// As much of the reason as a message has room for.
fn reason(target: &str, error: &io::Error) -> String {
    let mut reason = format!("cannot connect to {target}: {error}");
    reason.truncate(reason.floor_char_boundary(MESSAGE_BYTES));
    reason
}

fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

fn send(to: BorrowedFd<'_>, text: &[u8], socket: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let sockets: Vec<_> = socket.iter().map(|socket| socket.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&sockets)];
    let rights = if sockets.is_empty() { &[][..] } else { &rights };
    let sent = retried(|| sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(text)], rights, MsgFlags::MSG_NOSIGNAL, None));
    sent.map(drop)
}

/// A message; an empty one without a socket says that the other side is gone.
#[derive(Debug, Default)]
struct Message {
    text: Vec<u8>,
    socket: Option<OwnedFd>,
}

fn receive(from: BorrowedFd<'_>) -> Result<Message, Errno> {
    retried(|| {
        let mut text = [0; MESSAGE_BYTES];
        let mut rights = nix::cmsg_space!([std::os::fd::RawFd; 1]);
        let mut parts = [IoSliceMut::new(&mut text)];
        let received = recvmsg::<()>(from.as_raw_fd(), &mut parts, Some(&mut rights), MsgFlags::MSG_CMSG_CLOEXEC)?;
        let length = received.bytes;
        let mut socket = None;
        for message in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(sockets) = message {
                // SAFETY: the kernel has just made this descriptor in this process, and nobody else knows of it; there is room
                // for one alone.
                socket = sockets.first().map(|socket| unsafe { OwnedFd::from_raw_fd(*socket) });
            }
        }
        Ok(Message { text: text[..length].to_vec(), socket })
    })
}

fn retried<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    /// An outlet's loop in a thread; forking one is not for a process with threads.
    fn outlet(target: String) -> (Outlet, thread::JoinHandle<()>) {
        let (askers, asked) = pair().unwrap();
        (Outlet { askers }, thread::spawn(move || answer_all(asked.as_fd(), &target)))
    }

    #[test]
    fn connections_are_handed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (outlet, thread) = outlet(listener.local_addr().unwrap().to_string());
        let clone = outlet.as_fd().try_clone_to_owned().unwrap();
        for asker in [outlet.as_fd(), clone.as_fd()] {
            let mut inside = connect(asker).unwrap();
            let (mut database, _) = listener.accept().unwrap();
            inside.write_all(b"hello").unwrap();
            let mut heard = [0; 5];
            database.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"hello");
            drop(inside);
            assert_eq!(database.read(&mut heard).unwrap(), 0, "the outlet keeps no copy of the connection");
        }
        drop(outlet);
        assert!(connect(clone.as_fd()).is_ok(), "one asker is left");
        drop(clone);
        thread.join().unwrap();
    }

    #[test]
    fn the_reason_of_a_failure_is_told() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (outlet, thread) = outlet(closed.to_string());
        let error = outlet.connect().unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot connect to {closed}: Connection refused")), "{error}");
        drop(outlet);
        thread.join().unwrap();
    }

    #[test]
    fn an_outlet_that_has_ended_is_told() {
        let (askers, asked) = pair().unwrap();
        let outlet = Outlet { askers };
        drop(asked);
        assert!(matches!(outlet.connect(), Err(ConnectError::Ended)));
    }

    #[test]
    fn what_is_no_outlet_is_told() {
        let file = fs::File::open("/dev/null").unwrap();
        assert!(matches!(connect(file.as_fd()), Err(ConnectError::Ask { source: Errno::ENOTSOCK })));
    }

    #[test]
    fn a_process_with_threads_cannot_start_one() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = thread::spawn(move || stopped.recv());
        assert!(matches!(Outlet::start("127.0.0.1:1"), Err(OutletError::Threads { .. })));
        drop(stop);
        assert!(other.join().unwrap().is_err());
    }
}
