//! The relay in front of other servers.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use meshtoll_docstore::{
    relay,
    stats::{ConnectionStats, Snapshot},
};
use mongodb::{
    Client,
    bson::{Document, doc},
    options::{ClientOptions, Tls, TlsOptions},
};
use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread::JoinHandle,
};
use support::Server;
use tokio::sync::oneshot;

struct Relay {
    address: SocketAddr,
    admin: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    fn to(target: SocketAddr) -> Self {
        let (ready, addresses) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let admin = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                ready.send((listener.local_addr().unwrap(), admin.local_addr().unwrap())).unwrap();
                relay::run(listener, admin, move || TcpStream::connect(target), stopped).await;
            });
        });
        let (address, admin) = addresses.recv().unwrap();
        Self { address, admin, stop: Some(stop), thread: Some(thread) }
    }

    fn connections(&self) -> Vec<ConnectionStats> {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.write_all(b"GET /connections HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (_, body) = response.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Snapshot>(body).unwrap().connections
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// Reads all of one connection, and answers with it only after its end.
fn echo_at_the_end() -> (SocketAddr, JoinHandle<io::Result<()>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut client, _) = listener.accept()?;
        let mut heard = Vec::new();
        client.read_to_end(&mut heard)?;
        client.write_all(&heard)
    });
    (address, thread)
}

#[test]
fn each_direction_ends_on_its_own() {
    let (target, echo) = echo_at_the_end();
    let relay = Relay::to(target);
    let mut client = TcpStream::connect(relay.address).unwrap();
    let sent: Vec<u8> = (0..200_000_u32).map(|number| number as u8).collect();
    client.write_all(&sent).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).unwrap();
    assert!(heard == sent, "{} of {} bytes came back", heard.len(), sent.len());
    echo.join().unwrap().unwrap();

    let [path] = &relay.connections()[..] else { panic!("{:?}", relay.connections()) };
    assert_eq!((path.sni.as_deref(), path.tls.as_deref(), path.opened), (None, None, 1));
    assert_eq!((path.bytes_in, path.bytes_out), (200_000, 200_000));
    assert!(path.operations > 1);
}

#[test]
fn a_client_of_an_unreachable_database_is_closed() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let relay = Relay::to(closed);
    let mut client = TcpStream::connect(relay.address).unwrap();
    client.write_all(b"anything").unwrap();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn connections_are_cut_when_the_relay_stops() {
    let (target, echo) = echo_at_the_end();
    let relay = Relay::to(target);
    let mut client = TcpStream::connect(relay.address).unwrap();
    client.write_all(b"no end of it").unwrap();
    drop(relay);
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    // The relay may have stopped before it had connected.
    drop(TcpStream::connect(target));
    echo.join().unwrap().ok();
}

#[tokio::test]
async fn a_driver_speaks_tls_through_it() {
    let server = Server::with_tls();
    let relay = Relay::to(server.address);
    let uri = format!("mongodb://localhost:{}/?directConnection=true", relay.address.port());
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.tls = Some(Tls::Enabled(TlsOptions::builder().ca_file_path(server.ca_file()).build()));
    let client = Client::with_options(options).unwrap();
    let people = client.database("test").collection::<Document>("people");
    people.insert_one(doc! { "_id": 1, "name": "x".repeat(100_000) }).await.unwrap();
    let found = people.find_one(doc! { "_id": 1 }).await.unwrap().unwrap();
    assert_eq!(found.get_str("name").unwrap().len(), 100_000);

    let [path] = &relay.connections()[..] else { panic!("{:?}", relay.connections()) };
    assert_eq!((path.sni.as_deref(), path.tls.as_deref()), (Some("localhost"), Some("TLS")));
    assert!(path.operations >= 2 && path.bytes_in > 100_000 && path.bytes_out > 100_000, "{path:?}");
    let [inside] = &server.snapshot().connections[..] else { panic!() };
    assert!(path.bytes_in > inside.bytes_in, "TLS adds to the bytes");
    client.shutdown().await;
}
