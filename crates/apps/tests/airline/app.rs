//! A database and the four services on it.

use super::certificates::Certificates;
use meshtoll_apps::airline::{
    AirlineService, LoadDataOptions, LoadedCounts, ServeError, ServiceOptions, load_data, open, run,
    session::SessionKey,
};
use std::{
    any::Any,
    net::{Ipv4Addr, SocketAddr},
    thread::JoinHandle,
    time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A database server that listens; it stops when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) certificates: Certificates,
    #[expect(dead_code, reason = "held for its drop")]
    pub(crate) running: Box<dyn Any + Send + Sync>,
}

impl Server {
    /// Its URI, under the name that its certificate is for.
    pub(crate) fn uri(&self) -> String {
        format!("mongodb://localhost:{}/", self.address.port())
    }
}

/// How much a database can take.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) customers: u32,
    pub(crate) laps: u32,
}

pub(crate) struct App {
    services: Services,
    pub(crate) server: Server,
    pub(crate) counts: LoadedCounts,
    pub(crate) size: Size,
}

/// Where the services listen.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) auth: SocketAddr,
    pub(crate) customer: SocketAddr,
    pub(crate) flight: SocketAddr,
    pub(crate) booking: SocketAddr,
}

impl App {
    /// Loads the data, and starts the services.
    pub(crate) fn start(server: Server, size: Size) -> Result<Self, String> {
        let counts = load(&server, size.customers)?;
        let services = Services::start(&server)?;
        Ok(Self { services, server, counts, size })
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.services.addresses
    }

    /// Options of one more service on the same database and beside the same services.
    pub(crate) fn options(&self, service: AirlineService) -> ServiceOptions {
        options(service, &self.server, self.services.addresses)
    }
}

fn load(server: &Server, customers: u32) -> Result<LoadedCounts, String> {
    let options = LoadDataOptions {
        database: server.uri(),
        database_ca: Some(server.certificates.ca.clone()),
        database_name: "airline".into(),
        customers,
    };
    load_data(options).map_err(|error| format!("loading: {}", chain(&error)))
}

/// The key that the services share.
pub(crate) fn session_key() -> SessionKey {
    SessionKey::new(&[42; 32]).unwrap()
}

pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

fn options(service: AirlineService, server: &Server, addresses: Addresses) -> ServiceOptions {
    ServiceOptions {
        service,
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        database: server.uri(),
        database_ca: Some(server.certificates.ca.clone()),
        database_name: "airline".into(),
        customer_url: format!("http://{}", addresses.customer),
        flight_url: format!("http://{}", addresses.flight),
        session_key: session_key(),
        app_work: Duration::from_micros(20),
        pool_size: 4,
    }
}

/// The four services on a thread of their own.
struct Services {
    addresses: Addresses,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Services {
    fn start(server: &Server) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stop = CancellationToken::new();
        let told = stop.clone();
        let started = runtime.block_on(async {
            let mut listeners = Vec::new();
            for _ in 0..4 {
                listeners.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
            }
            let at = |i: usize| listeners[i].local_addr().unwrap();
            let addresses = Addresses { auth: at(0), customer: at(1), flight: at(2), booking: at(3) };
            let all = [AirlineService::Auth, AirlineService::Customer, AirlineService::Flight, AirlineService::Booking];
            for (listener, service) in listeners.into_iter().zip(all) {
                let router = open(&options(service, server, addresses)).await?;
                tokio::spawn(run(listener, router, told.clone().cancelled_owned()));
            }
            Ok::<_, ServeError>(addresses)
        });
        let addresses = started.map_err(|error| format!("starting: {}", chain(&error)))?;
        let thread = std::thread::spawn(move || runtime.block_on(told.cancelled()));
        Ok(Self { addresses, stop, thread: Some(thread) })
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
