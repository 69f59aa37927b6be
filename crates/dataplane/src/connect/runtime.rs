//! Sockets for the resolver that interception knows as the proxy's own.

use super::{error::is_local_limit, race::set_mark};
use hickory_resolver::net::runtime::{RuntimeProvider, TokioRuntimeProvider, iocompat::AsyncIoTokioAsStd};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{net::TcpSocket, time::timeout};

/// tokio, with a mark on each socket (`SO_MARK`), if there is one.
#[derive(Clone)]
pub(super) struct MarkedRuntime {
    pub(super) tokio: TokioRuntimeProvider,
    pub(super) socket_mark: Option<u32>,
    pub(super) last_opening: LastOpening,
}

/// Whether the last socket could not be opened for a limit of this process or machine: the resolver tells of it as of any
/// other server that cannot be asked.
#[derive(Clone, Debug, Default)]
pub(super) struct LastOpening(Arc<AtomicI32>);

impl LastOpening {
    /// What the system said, where it was a limit.
    pub(super) fn local_limit(&self) -> Option<io::Error> {
        let code = self.0.load(Relaxed);
        (code != 0).then(|| io::Error::from_raw_os_error(code))
    }

    fn note<T>(&self, opened: io::Result<T>) -> io::Result<T> {
        let limit = opened.as_ref().err().filter(|error| is_local_limit(error)).and_then(io::Error::raw_os_error);
        self.0.store(limit.unwrap_or(0), Relaxed);
        opened
    }
}

type Opening<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl RuntimeProvider for MarkedRuntime {
    type Handle = <TokioRuntimeProvider as RuntimeProvider>::Handle;
    type Timer = <TokioRuntimeProvider as RuntimeProvider>::Timer;
    type Udp = <TokioRuntimeProvider as RuntimeProvider>::Udp;
    type Tcp = <TokioRuntimeProvider as RuntimeProvider>::Tcp;

    fn create_handle(&self) -> Self::Handle {
        self.tokio.create_handle()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        bind: Option<SocketAddr>,
        wait_for: Option<Duration>,
    ) -> Opening<Self::Tcp> {
        let (mark, last_opening) = (self.socket_mark, self.last_opening.clone());
        Box::pin(async move {
            let socket = last_opening.note(if server.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() })?;
            if let Some(mark) = mark {
                set_mark(&socket, mark)?;
            }
            socket.set_nodelay(true)?;
            if let Some(bind) = bind {
                socket.bind(bind)?;
            }
            let stream = timeout(wait_for.unwrap_or(Duration::from_secs(5)), socket.connect(server)).await??;
            Ok(AsyncIoTokioAsStd(stream))
        })
    }

    fn bind_udp(&self, local: SocketAddr, server: SocketAddr) -> Opening<Self::Udp> {
        let (socket, mark) = (self.tokio.bind_udp(local, server), self.socket_mark);
        let last_opening = self.last_opening.clone();
        Box::pin(async move {
            let socket = last_opening.note(socket.await)?;
            if let Some(mark) = mark {
                set_mark(&socket, mark)?;
            }
            Ok(socket)
        })
    }
}
