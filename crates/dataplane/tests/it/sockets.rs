//! Pairs of connected sockets, and connections to relay between them.

use meshtoll_dataplane::{
    relay::{Account, EpollRelay, Established, Leg, OnEnd, Strategy},
    telemetry::{ConnectionRecord, Direction, ResponseFlag, UpstreamCounters},
};
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{Arc, mpsc},
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::Semaphore;

/// How long anything may take before it counts as lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Two ends of a TCP connection.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
    }
    (client, server)
}

pub(crate) fn fd(socket: TcpStream) -> OwnedFd {
    socket.set_nonblocking(true).unwrap();
    socket.into()
}

/// A relay thread whose records of ended connections can be waited for.
pub(crate) struct Relay {
    pub(crate) relay: EpollRelay,
    ended: mpsc::Receiver<ConnectionRecord>,
    slots: Arc<Semaphore>,
    pub(crate) counters: Arc<UpstreamCounters>,
}

impl Relay {
    pub(crate) fn new(idle: Option<Duration>) -> Self {
        let (tell, ended) = mpsc::channel();
        let on_end: OnEnd = Arc::new(move |record| drop(tell.send(record)));
        Self {
            relay: EpollRelay::start(1, idle, &on_end).unwrap(),
            ended,
            slots: Arc::new(Semaphore::new(100_000)),
            counters: Arc::default(),
        }
    }

    /// Relays between two legs.
    pub(crate) fn between(&self, downstream: Leg, upstream: Leg, prelude: &[u8]) {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let record = ConnectionRecord {
            direction: Direction::Outbound,
            source: address,
            source_identity: None,
            destination: address,
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
        };
        self.counters.opened();
        let account = Account {
            record: Box::new(record),
            accepted: Instant::now(),
            upstream: self.counters.clone(),
            slot: self.slots.clone().try_acquire_owned().unwrap(),
        };
        self.relay.adopt(Established { downstream, upstream, prelude: prelude.to_vec(), account });
    }

    /// A client and a server with the relay between them.
    pub(crate) fn plain(&self) -> (TcpStream, TcpStream) {
        let ((client, inside), (outside, server)) = (pair(), pair());
        self.between(Leg::plain(fd(inside)), Leg::plain(fd(outside)), &[]);
        (client, server)
    }

    /// The next connection that ended.
    pub(crate) fn ended(&self) -> ConnectionRecord {
        self.ended.recv_timeout(PATIENCE).expect("a connection ends")
    }
}
