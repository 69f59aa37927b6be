//! Sockets for the resolver that interception knows as the proxy's own.

use hickory_resolver::net::runtime::{RuntimeProvider, TokioRuntimeProvider, iocompat::AsyncIoTokioAsStd};
use socket2::SockRef;
use std::{future::Future, io, net::SocketAddr, pin::Pin, time::Duration};
use tokio::{net::TcpSocket, time::timeout};

/// tokio, with a mark on each socket (`SO_MARK`), if there is one.
#[derive(Clone)]
pub(super) struct MarkedRuntime {
    pub(super) tokio: TokioRuntimeProvider,
    pub(super) socket_mark: Option<u32>,
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
        let Some(mark) = self.socket_mark else { return self.tokio.connect_tcp(server, bind, wait_for) };
        Box::pin(async move {
            let socket = if server.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
            SockRef::from(&socket).set_mark(mark)?;
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
        Box::pin(async move {
            let socket = socket.await?;
            if let Some(mark) = mark {
                SockRef::from(&socket).set_mark(mark)?;
            }
            Ok(socket)
        })
    }
}
