//! Attempts to connect, one beside the other: RFC 8305 section 5.

use super::{Attempt, Attempts, ConnectError, Connected, Connector, error::is_local_limit};
use futures_util::stream::{FuturesUnordered, StreamExt};
use socket2::SockRef;
use std::{io, net::SocketAddr, os::fd::AsFd};
use tokio::{
    net::{TcpSocket, TcpStream},
    time::{Instant, timeout_at},
};

impl Connector {
    /// Connects to the first of `addresses` that answers: the next one is tried when the one before failed, or has not
    /// answered for a while. The others are given up when one stands.
    pub(super) async fn race(&self, addresses: &[SocketAddr], deadline: Instant) -> Result<Connected, ConnectError> {
        let mut waiting = addresses.iter().copied();
        let mut running = FuturesUnordered::new();
        // In the order of their start, as `running` does not say what is in it.
        let mut unanswered: Vec<(SocketAddr, Instant)> = Vec::new();
        let mut failed = Attempts::default();
        let mut out_of_sockets = None;
        loop {
            if let Some(address) = waiting.next() {
                unanswered.push((address, Instant::now()));
                running.push(async move { (address, self.attempt(address).await) });
            }
            let is_last = waiting.len() == 0;
            let patience = if is_last { deadline } else { deadline.min(Instant::now() + self.settings.attempt_delay) };
            match timeout_at(patience, running.next()).await {
                Ok(Some((address, Ok(stream)))) => {
                    self.ejections.succeeded(address);
                    // Those that were alone for the whole delay are no better than those that refused.
                    let now = Instant::now();
                    let silent = unanswered.iter().filter(|(other, started)| {
                        *other != address && now.duration_since(*started) >= self.settings.attempt_delay
                    });
                    silent.for_each(|(other, _)| self.ejections.failed(*other, now));
                    return Ok(Connected { stream, address });
                }
                Ok(Some((address, Err(error)))) => {
                    unanswered.retain(|(other, _)| *other != address);
                    if is_local_limit(&error) {
                        // Others may still be on their way; more would fail too.
                        waiting = [].iter().copied();
                        out_of_sockets = Some(error);
                    } else {
                        self.ejections.failed(address, Instant::now());
                        failed.0.push(Attempt { address, error });
                    }
                }
                Ok(None) => {
                    return Err(match out_of_sockets {
                        Some(source) => ConnectError::LocalLimit { source },
                        None => ConnectError::Failed { attempts: failed },
                    });
                }
                Err(_) if Instant::now() >= deadline => {
                    for (address, _) in unanswered {
                        self.ejections.failed(address, Instant::now());
                        failed.0.push(Attempt { address, error: io::ErrorKind::TimedOut.into() });
                    }
                    return Err(ConnectError::Timeout { timeout: self.settings.connect_timeout, attempts: failed });
                }
                Err(_) => (),
            }
        }
    }

    async fn attempt(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
        socket.set_nodelay(true)?;
        if let Some(mark) = self.settings.socket_mark {
            set_mark(&socket, mark)?;
        }
        socket.connect(address).await
    }
}

/// Marks the socket as the proxy's own.
pub(super) fn set_mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    SockRef::from(socket).set_mark(mark).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot set the socket's mark, which needs CAP_NET_ADMIN: {error}"))
    })
}
