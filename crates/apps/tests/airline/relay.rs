//! A TCP relay in front of the database that counts connections, can hold them up, and can break them.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, watch},
    task::JoinHandle,
};

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicU32>,
    held: watch::Sender<bool>,
    held_up: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicU32::new(0));
        let (held, hold) = watch::channel(false);
        let held_up = Arc::new(Notify::new());
        let note = Arc::clone(&held_up);
        let count = Arc::clone(&accepted);
        let task = tokio::spawn(async move {
            // Dropped with the task, which breaks the connections.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = TcpStream::connect(to).await.unwrap().into_split();
                connections.spawn(copy(from_client, to_server, hold.clone(), Arc::clone(&note)));
                connections.spawn(copy(from_server, to_client, hold.clone(), Arc::clone(&note)));
            }
        });
        Self { address, accepted, held, held_up, task }
    }

    /// Connections accepted so far.
    pub(crate) fn accepted(&self) -> u32 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Nothing passes until this is undone.
    pub(crate) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// Waits until there is something that does not pass.
    pub(crate) async fn held_up(&self) {
        self.held_up.notified().await;
    }

    /// All connections break, and no new one is accepted.
    pub(crate) async fn break_all(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut hold: watch::Receiver<bool>, held_up: Arc<Notify>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        if *hold.borrow() {
            held_up.notify_one();
        }
        let passes = hold.wait_for(|held| !held).await.is_ok();
        if !passes || to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}
