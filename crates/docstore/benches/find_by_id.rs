//! What one find by `_id` costs the server: CPU time of its thread, TLS included. Fails above 30 µs.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking, and its result is what it prints"
)]

use bson::{RawDocumentBuf, doc, rawdoc};
use meshtoll_docstore::{ServerConfig, run, tls::server_config};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, Barrier, mpsc},
    thread::JoinHandle,
};
use tokio::{net::TcpListener, sync::oneshot};

/// The most that a find may cost, µs.
const BUDGET_MICROS: f64 = 30.0;

/// One connection alone wakes the server up for each find; several give it work at hand.
const CONNECTIONS: [usize; 2] = [1, 4];
const FINDS_PER_CONNECTION: u64 = 20_000;
const WARM_UP: u64 = 2_000;
const DOCUMENTS: i32 = 10_000;

fn main() -> ExitCode {
    let mut within = true;
    println!("server CPU for a find by _id among {DOCUMENTS} documents, one request outstanding a connection");
    for tls in [true, false] {
        for payload in [0, 600] {
            for connections in CONNECTIONS {
                let micros = measure(tls, payload, connections);
                let transport = if tls { "TLS 1.3" } else { "plain TCP" };
                println!("{transport:>9}, {payload:>3} bytes of text, {connections} connections: {micros:6.2} µs");
                within &= micros <= BUDGET_MICROS;
            }
        }
    }
    if within {
        ExitCode::SUCCESS
    } else {
        println!("FAILED: more than {BUDGET_MICROS} µs");
        ExitCode::FAILURE
    }
}

/// µs of the server thread's CPU time per find.
fn measure(tls: bool, payload: usize, count: usize) -> f64 {
    let server = Server::start(tls);
    let mut connections: Vec<_> = (0..count).map(|_| server.connect()).collect();
    insert_documents(connections[0].as_mut(), payload);
    let barrier = Barrier::new(count + 1);
    std::thread::scope(|scope| {
        for (connection, first) in connections.iter_mut().zip(0..) {
            let barrier = &barrier;
            scope.spawn(move || {
                let mut client = Client::new(connection.as_mut(), first, payload);
                (0..WARM_UP).for_each(|_| client.find());
                barrier.wait();
                barrier.wait();
                (0..FINDS_PER_CONNECTION).for_each(|_| client.find());
                barrier.wait();
            });
        }
        // Nobody sends between the first two waits, so the server is idle when its clock is read.
        barrier.wait();
        let before = server.cpu_nanos();
        barrier.wait();
        barrier.wait();
        let spent = server.cpu_nanos() - before;
        spent as f64 / 1e3 / (count as u64 * FINDS_PER_CONNECTION) as f64
    })
}

struct Server {
    address: SocketAddr,
    client: Option<Arc<ClientConfig>>,
    schedstat: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(tls: bool) -> Self {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = tls.then(|| {
            server_config(issued.cert.pem().as_bytes(), issued.signing_key.serialize_pem().as_bytes()).unwrap()
        });
        let client = tls.then(|| {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(issued.cert.der().clone()).unwrap();
            let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
            Arc::new(versions.with_root_certificates(roots).with_no_client_auth())
        });
        let (stop, stopped) = oneshot::channel();
        let (ready, started) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let thread = std::fs::read_link("/proc/thread-self").unwrap();
                ready.send((listener.local_addr().unwrap(), thread)).unwrap();
                run(listener, ServerConfig { tls: config, admin: None }, stopped).await;
            });
        });
        let (address, task) = started.recv().unwrap();
        let schedstat = PathBuf::from("/proc").join(task).join("schedstat");
        Self { address, client, schedstat, stop: Some(stop), thread: Some(thread) }
    }

    /// The kernel's exact run time of the server's thread.
    fn cpu_nanos(&self) -> u64 {
        let line = std::fs::read_to_string(&self.schedstat).unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    }

    fn connect(&self) -> Box<dyn Connection> {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        match &self.client {
            None => Box::new(stream),
            Some(config) => {
                let session = ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap()).unwrap();
                Box::new(StreamOwned::new(session, stream))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

trait Connection: Read + Write + Send {}

impl<T: Read + Write + Send> Connection for T {}

fn insert_documents(connection: &mut dyn Connection, payload: usize) {
    for start in (0..DOCUMENTS).step_by(1000) {
        let documents: Vec<_> = (start..start + 1000)
            .map(|id| doc! { "_id": format!("uid{id}@airline.example"), "text": "x".repeat(payload) })
            .collect();
        let insert = doc! { "insert": "customer", "documents": documents, "$db": "airline" };
        connection.write_all(&message(&RawDocumentBuf::try_from(&insert).unwrap())).unwrap();
        let mut reply = Vec::new();
        read_reply(connection, &mut reply);
    }
}

/// Sends one find after the other, each for another document.
struct Client<'c> {
    connection: &'c mut dyn Connection,
    next: i32,
    payload: usize,
    reply: Vec<u8>,
}

impl<'c> Client<'c> {
    fn new(connection: &'c mut dyn Connection, first: i32, payload: usize) -> Self {
        Self { connection, next: first, payload, reply: Vec::new() }
    }

    fn find(&mut self) {
        // What a driver sends: a session id and the read preference too.
        let session = bson::Binary { subtype: bson::spec::BinarySubtype::Uuid, bytes: vec![7; 16] };
        let find = rawdoc! {
            "find": "customer",
            "filter": { "_id": format!("uid{}@airline.example", self.next) },
            "limit": 1,
            "singleBatch": true,
            "lsid": { "id": session },
            "$db": "airline",
        };
        self.next = (self.next + 7919) % DOCUMENTS;
        self.connection.write_all(&message(&find)).unwrap();
        read_reply(self.connection, &mut self.reply);
        assert!(self.reply.len() > 100 + self.payload, "the reply holds the document");
    }
}

fn message(command: &RawDocumentBuf) -> Vec<u8> {
    let length = 16 + 5 + command.as_bytes().len() as i32;
    let header = [length, 1, 0, 2013].map(i32::to_le_bytes).concat();
    [&header, &[0; 5][..], command.as_bytes()].concat()
}

fn read_reply(connection: &mut dyn Connection, reply: &mut Vec<u8>) {
    let mut header = [0; 16];
    connection.read_exact(&mut header).unwrap();
    let [a, b, c, d, ..] = header;
    reply.resize(i32::from_le_bytes([a, b, c, d]) as usize - 16, 0);
    connection.read_exact(reply).unwrap();
}
