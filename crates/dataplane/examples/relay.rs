//! The relay alone, between two fixed addresses: what `tools/bench-chain` measures, with the proxies that people know
//! beside it. Both ways of waiting for sockets drive the same [`Pump`]:
//!
//!     cargo run --release -p meshtoll-dataplane --example relay -- epoll 127.0.0.1:9001 127.0.0.1:9002
//!     cargo run --release -p meshtoll-dataplane --example relay -- tokio 127.0.0.1:9001 127.0.0.1:9002
//!
//! A fourth argument adds mutual TLS: `client` towards the upstream, `server` towards the one who connects. Certificates are
//! read from the working directory: cert-chain.pem, key.pem, root-cert.pem, as `meshtoll ca issue` writes them.

use meshtoll_dataplane::{
    relay::{Account, EpollRelay, Established, Leg, OnEnd, Pump, Side, State, Strategy},
    telemetry::{ConnectionRecord, Direction, ResponseFlag, UpstreamCounters},
};
use meshtoll_identity::Credentials;
use nix::sys::epoll::EpollFlags;
use rustls::{ClientConnection, Connection, ServerConnection};
use std::{
    cell::RefCell,
    error::Error,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    io::{
        Interest, Ready,
        unix::{AsyncFd, AsyncFdReadyGuard},
    },
    sync::Semaphore,
    task::LocalSet,
};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [driver, listen, upstream, rest @ ..] = arguments.as_slice() else {
        return Err("usage: relay epoll|tokio LISTEN UPSTREAM [client|server]".into());
    };
    let tls = match rest.first().map(String::as_str) {
        None => Tls::None,
        Some("client") => Tls::Client(credentials()?),
        Some("server") => Tls::Server(credentials()?),
        Some(other) => return Err(format!("`{other}` is neither client nor server").into()),
    };
    let listener = TcpListener::bind(listen)?;
    let acceptor = Acceptor { listener, upstream: upstream.parse()?, tls, slots: Arc::new(Semaphore::new(100_000)) };
    match driver.as_str() {
        "epoll" => {
            let on_end: OnEnd = Arc::new(drop);
            let relay = EpollRelay::start(1, None, &on_end)?;
            acceptor.run(|established| relay.adopt(established))
        }
        "tokio" => {
            let (hand_over, taken) = tokio::sync::mpsc::unbounded_channel();
            std::thread::spawn(move || tokio_relay(taken));
            acceptor.run(|established| drop(hand_over.send(established)))
        }
        other => Err(format!("`{other}` is neither epoll nor tokio").into()),
    }
}

fn credentials() -> Fallible<Credentials> {
    let read = std::fs::read::<&str>;
    Ok(Credentials::from_pem(&read("cert-chain.pem")?, &read("key.pem")?, &read("root-cert.pem")?)?)
}

enum Tls {
    None,
    Client(Credentials),
    Server(Credentials),
}

struct Acceptor {
    listener: TcpListener,
    upstream: SocketAddr,
    tls: Tls,
    slots: Arc<Semaphore>,
}

impl Acceptor {
    /// Sets connections up one after another, and hands them over.
    fn run(self, hand_over: impl Fn(Established)) -> Fallible<()> {
        loop {
            let (downstream, source) = self.listener.accept()?;
            match self.establish(downstream, source) {
                Ok(established) => hand_over(established),
                Err(error) => drop(error),
            }
        }
    }

    fn establish(&self, mut downstream: TcpStream, source: SocketAddr) -> Fallible<Established> {
        let mut upstream = TcpStream::connect(self.upstream)?;
        downstream.set_nodelay(true)?;
        upstream.set_nodelay(true)?;
        let (downstream, upstream) = match &self.tls {
            Tls::None => (plain(downstream)?, plain(upstream)?),
            Tls::Client(credentials) => {
                let name = "relay".try_into()?;
                let config = credentials.client_config(credentials.identity());
                let connection = shake(ClientConnection::new(config, name)?.into(), &mut upstream)?;
                (plain(downstream)?, secured(upstream, connection)?)
            }
            Tls::Server(credentials) => {
                let connection = ServerConnection::new(credentials.server_config())?;
                let connection = shake(connection.into(), &mut downstream)?;
                (secured(downstream, connection)?, plain(upstream)?)
            }
        };
        let counters = Arc::<UpstreamCounters>::default();
        counters.opened();
        let record = Box::new(ConnectionRecord {
            direction: Direction::Outbound,
            source,
            source_identity: None,
            destination: self.upstream,
            requested_host: None,
            upstream: None,
            connected: None,
            started: SystemTime::now(),
            duration: Duration::ZERO,
            sent_bytes: 0,
            received_bytes: 0,
            flag: ResponseFlag::None,
            details: None,
            audited: Vec::new(),
        });
        let slot = self.slots.clone().try_acquire_owned()?;
        let account = Account { record, accepted: Instant::now(), upstream: counters, slot };
        Ok(Established { downstream, upstream, prelude: Vec::new(), account })
    }
}

fn plain(socket: TcpStream) -> Fallible<Leg> {
    socket.set_nonblocking(true)?;
    Ok(Leg::plain(socket.into()))
}

fn secured(socket: TcpStream, connection: Connection) -> Fallible<Leg> {
    socket.set_nonblocking(true)?;
    Ok(Leg::tls(socket.into(), connection))
}

fn shake(mut connection: Connection, socket: &mut TcpStream) -> Fallible<Connection> {
    while connection.is_handshaking() {
        connection.complete_io(socket)?;
    }
    Ok(connection)
}

/// The other way: tokio's current-thread runtime, a task a connection, and one buffer for all of them.
fn tokio_relay(mut taken: tokio::sync::mpsc::UnboundedReceiver<Established>) -> Fallible<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(LocalSet::new().run_until(async {
        while let Some(established) = taken.recv().await {
            if let Ok(pump) = Pump::new(established) {
                tokio::task::spawn_local(relay(pump));
            }
        }
    }));
    Ok(())
}

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; 256 << 10].into_boxed_slice());
}

struct Borrowed(RawFd);

impl AsRawFd for Borrowed {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

async fn relay(mut pump: Pump) {
    // SAFETY: the pump keeps its sockets open and the same until it is dropped, which is after these.
    let socket = |side| unsafe { AsyncFd::register(Borrowed(pump.leg(side).as_fd().as_raw_fd())) };
    let (Ok(downstream), Ok(upstream)) = (socket(Side::Downstream), socket(Side::Upstream)) else { return };
    // tokio does not take back that a peer will send no more: waited for again, that would be there at once.
    let mut interests = [Interest::READABLE | Interest::WRITABLE; 2];
    loop {
        match BUFFER.with_borrow_mut(|buffer| pump.drive(buffer)) {
            Ok(State::Waiting) => {}
            Ok(State::Busy) => {
                tokio::task::yield_now().await;
                continue;
            }
            Ok(State::Done) | Err(_) => break,
        }
        let (side, ready) = tokio::select! {
            Ok(mut guard) = downstream.ready(interests[0]) => (Side::Downstream, taken_from(&mut guard)),
            Ok(mut guard) = upstream.ready(interests[1]) => (Side::Upstream, taken_from(&mut guard)),
            else => break,
        };
        if ready.is_read_closed() {
            interests[usize::from(side == Side::Upstream)] = Interest::WRITABLE;
        }
        pump.note(side, events(ready));
        if ready.is_write_closed() {
            break;
        }
    }
    drop((downstream, upstream));
    drop(pump.finish(ResponseFlag::None, None));
}

fn taken_from(guard: &mut AsyncFdReadyGuard<'_, Borrowed>) -> Ready {
    let ready = guard.ready();
    guard.clear_ready();
    ready
}

fn events(ready: Ready) -> EpollFlags {
    let mut events = EpollFlags::empty();
    events.set(EpollFlags::EPOLLIN, ready.is_readable());
    events.set(EpollFlags::EPOLLOUT, ready.is_writable());
    events.set(EpollFlags::EPOLLRDHUP, ready.is_read_closed() || ready.is_write_closed());
    events
}
