//! Relay threads: an edge-triggered epoll loop each, sharing nothing. In steady state a message costs one receive and one
//! send, without allocation, lock or timer.

use super::{Established, OnEnd, Pump, Side, State, Strategy};
use crate::telemetry::ResponseFlag;
use nix::{
    errno::Errno,
    sys::{
        epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
        eventfd::{EfdFlags, EventFd},
    },
};
use slab::Slab;
use std::{
    io,
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Shared by all connections of a thread, so that one at rest has none.
const BUFFER: usize = 256 << 10;
/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// Token of the thread's own wake-up; connections have twice their key, and one more for the upstream.
const WAKE: u64 = u64::MAX;

/// Relay threads.
pub struct EpollRelay {
    threads: Vec<Handle>,
    next: AtomicUsize,
}

struct Handle {
    commands: mpsc::Sender<Command>,
    wake: Arc<EventFd>,
    thread: Option<thread::JoinHandle<()>>,
}

enum Command {
    Adopt(Box<Established>),
    CloseAll,
    Stop,
}

impl EpollRelay {
    /// Starts so many threads. A connection on which nothing is sent for `idle` is broken off.
    pub fn start(threads: usize, idle: Option<Duration>, on_end: &OnEnd) -> io::Result<Self> {
        let threads = (0..threads.max(1)).map(|index| {
            let (commands, received) = mpsc::channel();
            let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?);
            let mut relay = Relay::new(received, wake.clone(), idle, on_end.clone())?;
            let thread = thread::Builder::new().name(format!("relay-{index}")).spawn(move || relay.run())?;
            Ok(Handle { commands, wake, thread: Some(thread) })
        });
        Ok(Self { threads: threads.collect::<io::Result<_>>()?, next: AtomicUsize::new(0) })
    }
}

impl Strategy for EpollRelay {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn adopt(&self, established: Established) {
        let index = self.next.fetch_add(1, Relaxed) % self.threads.len();
        self.threads[index].send(Command::Adopt(Box::new(established)));
    }

    fn close_all(&self) {
        self.threads.iter().for_each(|thread| thread.send(Command::CloseAll));
    }
}

impl Handle {
    fn send(&self, command: Command) {
        // Without its thread, which ends with the process, there is nobody to tell.
        if self.commands.send(command).is_ok() {
            let _ = self.wake.write(1);
        }
    }
}

impl Drop for EpollRelay {
    fn drop(&mut self) {
        for handle in &mut self.threads {
            handle.send(Command::Stop);
        }
        for handle in &mut self.threads {
            if let Some(thread) = handle.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

struct Entry {
    pump: Pump,
    /// Seconds since the thread's start when something last happened.
    active_at: u32,
}

/// One thread's connections.
struct Relay {
    commands: mpsc::Receiver<Command>,
    wake: Arc<EventFd>,
    epoll: Epoll,
    connections: Slab<Entry>,
    /// Connections that were not done when their turn ended.
    busy: Vec<usize>,
    buffer: Box<[u8]>,
    idle: Option<Duration>,
    started: Instant,
    swept_at: u32,
    on_end: OnEnd,
}

impl Relay {
    fn new(
        commands: mpsc::Receiver<Command>,
        wake: Arc<EventFd>,
        idle: Option<Duration>,
        on_end: OnEnd,
    ) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&*wake, EpollEvent::new(EpollFlags::EPOLLIN, WAKE))?;
        Ok(Self {
            commands,
            wake,
            epoll,
            connections: Slab::new(),
            busy: Vec::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            idle,
            started: Instant::now(),
            swept_at: 0,
            on_end,
        })
    }

    fn run(&mut self) {
        let mut events = [EpollEvent::empty(); EVENTS];
        loop {
            let found = match self.epoll.wait(&mut events, self.timeout()) {
                Ok(found) => found,
                Err(Errno::EINTR) => 0,
                Err(error) => unreachable!("waiting on an epoll instance of one's own: {error}"),
            };
            let now = u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX);
            for event in &events[..found] {
                if event.data() == WAKE {
                    if !self.obey(now) {
                        return;
                    }
                    continue;
                }
                let side = if event.data() & 1 == 0 { Side::Downstream } else { Side::Upstream };
                let key = (event.data() / 2) as usize;
                if let Some(entry) = self.connections.get_mut(key) {
                    entry.pump.note(side, event.events());
                    self.drive(key, now);
                }
            }
            for key in std::mem::take(&mut self.busy) {
                self.drive(key, now);
            }
            self.sweep(now);
        }
    }

    fn timeout(&self) -> EpollTimeout {
        if !self.busy.is_empty() {
            return EpollTimeout::ZERO;
        }
        match self.idle {
            Some(_) if !self.connections.is_empty() => EpollTimeout::from(1000_u16),
            _ => EpollTimeout::NONE,
        }
    }

    /// Does as it was told; whether it is to go on.
    fn obey(&mut self, now: u32) -> bool {
        let _ = self.wake.read();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Adopt(established) => self.adopt(*established, now),
                Command::CloseAll => self.close_all(),
                Command::Stop => {
                    self.close_all();
                    return false;
                }
            }
        }
        true
    }

    fn adopt(&mut self, established: Established, now: u32) {
        let pump = match Pump::new(established) {
            Ok(pump) => pump,
            Err((broken, account)) => {
                return (self.on_end)(account.end(broken.flag(), Some(broken.source.to_string())));
            }
        };
        let key = self.connections.insert(Entry { pump, active_at: now });
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        let pump = &self.connections[key].pump;
        for (side, token) in [(Side::Downstream, 2 * key), (Side::Upstream, 2 * key + 1)] {
            let event = EpollEvent::new(flags, token as u64);
            if let Err(error) = self.epoll.add(pump.leg(side).as_fd(), event) {
                return self.end(key, ResponseFlag::Overflow, Some(format!("epoll: {error}")));
            }
        }
        self.drive(key, now);
    }

    fn drive(&mut self, key: usize, now: u32) {
        let Some(entry) = self.connections.get_mut(key) else { return };
        entry.active_at = now;
        match entry.pump.drive(&mut self.buffer) {
            Ok(State::Waiting) => {}
            Ok(State::Busy) => self.busy.push(key),
            Ok(State::Done) => self.end(key, ResponseFlag::None, None),
            Err(broken) => self.end(key, broken.flag(), Some(broken.source.to_string())),
        }
    }

    fn end(&mut self, key: usize, flag: ResponseFlag, details: Option<String>) {
        let entry = self.connections.remove(key);
        (self.on_end)(entry.pump.finish(flag, details));
    }

    fn close_all(&mut self) {
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.end(key, ResponseFlag::Drained, None));
    }

    fn sweep(&mut self, now: u32) {
        let Some(idle) = self.idle.filter(|_| now > self.swept_at) else { return };
        self.swept_at = now;
        let limit = idle.as_secs();
        let resting = |entry: &Entry| u64::from(now.saturating_sub(entry.active_at)) > limit;
        let keys: Vec<usize> =
            self.connections.iter().filter(|(_, entry)| resting(entry)).map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.end(key, ResponseFlag::IdleTimeout, None));
    }
}
