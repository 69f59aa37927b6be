//! The lab's own database.

use super::{app::Server, certificates::Certificates};
use meshtoll_docstore::{ServerConfig, run, tls::server_config};
use std::{fs, net::Ipv4Addr, thread::JoinHandle};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) fn start() -> Result<Server, String> {
    let certificates = Certificates::new();
    let read = |path| fs::read(path).unwrap();
    let tls = server_config(&read(&certificates.certificate), &read(&certificates.key)).unwrap();
    let config = ServerConfig { tls: Some(tls), admin: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let told = stop.clone();
    let thread = std::thread::spawn(move || runtime.block_on(run(listener, config, told.cancelled())));
    Ok(Server { address, certificates, running: Box::new(Running { stop, thread: Some(thread) }) })
}

struct Running {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
