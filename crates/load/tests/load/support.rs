//! A small HTTP server that behaves as told, and a load process's two ends in one test process.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use meshtoll_load::{
    Options,
    control::Control,
    scenario::{GetConfig, ScenarioConfig, Target},
    serve_on,
};
use std::{
    future::Future,
    io::{BufReader, PipeReader, PipeWriter},
    net::SocketAddr,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::JoinHandle,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// What a handler is asked.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) cookie: Option<String>,
    pub(crate) body: Bytes,
    /// Requests before this one, on whatever connection.
    pub(crate) number: usize,
}

/// What a handler answers.
pub(crate) enum Reply {
    Answer(Response<Full<Bytes>>),
    /// Closes the connection without an answer.
    HangUp,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<Bytes>) -> Self {
        Self::Answer(Response::new(Full::new(body.into())))
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Answer(Response::builder().status(status).body(Full::new(Bytes::from_static(b"no"))).unwrap())
    }
}

pub(crate) type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;
type Handler = Arc<dyn Fn(Asked) -> Answering + Send + Sync>;

/// What the server saw.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) accepted: AtomicUsize,
    pub(crate) open: AtomicUsize,
    pub(crate) requests: AtomicUsize,
    outstanding: AtomicUsize,
    pub(crate) most_outstanding: AtomicUsize,
}

/// A server on loopback with a thread of its own, which ends when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    /// Rises when all connections are to be closed.
    hang_ups: watch::Sender<u32>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// An HTTP server.
    pub(crate) fn start(handler: impl Fn(Asked) -> Answering + Send + Sync + 'static) -> Self {
        let handler: Handler = Arc::new(handler);
        Self::run(move |stream, seen| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let service = service_fn(move |request| answer(request, Arc::clone(&handler), Arc::clone(&seen)));
                // An error is the client's hanging up, or the handler's.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            })
        })
    }

    /// A server that answers whatever it reads with these bytes, in two parts; and that closes then, or not.
    pub(crate) fn raw(bytes: &'static [u8], close: bool) -> Self {
        Self::run(move |mut stream, seen| {
            Box::pin(async move {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    seen.requests.fetch_add(1, SeqCst);
                    let (one, other) = bytes.split_at(bytes.len() / 2);
                    let written = async {
                        stream.write_all(one).await?;
                        tokio::task::yield_now().await;
                        stream.write_all(other).await
                    };
                    if written.await.is_err() || close {
                        return;
                    }
                }
            })
        })
    }

    /// Closes all connections, and returns once they are closed.
    pub(crate) fn hang_up(&self) {
        self.hang_ups.send_modify(|count| *count += 1);
        while self.seen.open.load(SeqCst) > 0 {
            std::thread::yield_now();
        }
    }

    fn run<F>(serve: F) -> Self
    where
        F: Fn(TcpStream, Arc<Seen>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, (hang_ups, mut hung_up)) = (Arc::new(Seen::default()), watch::channel(0));
        let shared = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = tokio::select! {
                        accepted = listener.accept() => accepted.unwrap(),
                        changed = hung_up.changed() => if changed.is_ok() { continue } else { return },
                    };
                    stream.set_nodelay(true).unwrap();
                    shared.accepted.fetch_add(1, SeqCst);
                    shared.open.fetch_add(1, SeqCst);
                    let (seen, mut hung_up) = (Arc::clone(&shared), hung_up.clone());
                    hung_up.mark_unchanged();
                    let serving = serve(stream, Arc::clone(&seen));
                    tokio::spawn(async move {
                        tokio::select! { () = serving => {}, _ = hung_up.changed() => {} }
                        // The future above, and with it the connection, is dropped by now.
                        seen.open.fetch_sub(1, SeqCst);
                    });
                }
            });
        });
        Self { address, seen, hang_ups, thread: Some(thread) }
    }

    pub(crate) fn target(&self) -> Target {
        Target { address: self.address, host: "server.example".to_owned() }
    }

    pub(crate) fn get(&self) -> ScenarioConfig {
        ScenarioConfig::Get(GetConfig { target: self.target(), path: "/".to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(std::mem::replace(&mut self.hang_ups, watch::channel(0).0));
        self.thread.take().unwrap().join().unwrap();
    }
}

async fn answer(
    request: Request<Incoming>,
    handler: Handler,
    seen: Arc<Seen>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let outstanding = seen.outstanding.fetch_add(1, SeqCst) + 1;
    seen.most_outstanding.fetch_max(outstanding, SeqCst);
    let (head, body) = request.into_parts();
    assert_eq!(head.headers["host"], "server.example");
    let cookie = head.headers.get("cookie").map(|cookie| cookie.to_str().unwrap().to_owned());
    let body = body.collect().await.map_err(|_| "the client hung up")?.to_bytes();
    let number = seen.requests.fetch_add(1, SeqCst);
    let asked = Asked { method: head.method.to_string(), path: head.uri.path().to_owned(), cookie, body, number };
    let reply = handler(asked).await;
    seen.outstanding.fetch_sub(1, SeqCst);
    match reply {
        Reply::Answer(response) => Ok(response),
        Reply::HangUp => Err("hung up as told"),
    }
}

/// A load process's interface, served by a thread; it ends with its standard input, when this is dropped.
pub(crate) struct Load {
    control: Option<Control<BufReader<PipeReader>, PipeWriter>>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(scenario: ScenarioConfig) -> Self {
        let (commands, command) = std::io::pipe().unwrap();
        let (answer, answers) = std::io::pipe().unwrap();
        let options = Options { scenario, seed: 7 };
        let thread = std::thread::spawn(move || serve_on(&options, BufReader::new(commands), answers).unwrap());
        Self { control: Some(Control::new(BufReader::new(answer), command)), thread: Some(thread) }
    }
}

impl Deref for Load {
    type Target = Control<BufReader<PipeReader>, PipeWriter>;
    fn deref(&self) -> &Self::Target {
        self.control.as_ref().unwrap()
    }
}

impl DerefMut for Load {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.control.as_mut().unwrap()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.control.take());
        self.thread.take().unwrap().join().unwrap();
    }
}
