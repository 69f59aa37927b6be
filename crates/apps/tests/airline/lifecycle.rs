//! Starting, ending, and what goes wrong in between.

use super::{
    Test,
    app::{App, chain, session_key},
    relay::Relay,
};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use meshtoll_apps::airline::{
    AirlineService, DatabaseError, LoadDataOptions, ServeError, ServiceOptions, load_data, open, run, serve,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    process::{Command, ExitCode},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

pub(crate) const TESTS: &[Test] = &[
    ("the_pool_is_open_before_the_service_is", the_pool_is_open_before_the_service_is),
    ("requests_in_progress_are_finished", requests_in_progress_are_finished),
    ("a_lost_database_is_told_without_details", a_lost_database_is_told_without_details),
    ("a_lost_service_is_told_without_details", a_lost_service_is_told_without_details),
    ("the_databases_certificate_is_checked", the_databases_certificate_is_checked),
    ("wrong_options", wrong_options),
    ("sigterm_ends_the_service", sigterm_ends_the_service),
    ("loading_again_gives_the_same", loading_again_gives_the_same),
];

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// A running service, with its client and, where it has one of its own, the relay to its database.
struct Running {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), ServeError>>,
}

async fn start(options: &ServiceOptions) -> Running {
    let router = open(options).await.unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let ended = tokio::spawn(run(listener, router, stop.clone().cancelled_owned()));
    Running { address, client: Client::builder(TokioExecutor::new()).build_http(), stop, ended }
}

/// Options of a service whose database is behind a relay of its own.
async fn behind_relay(app: &App, service: AirlineService) -> (Relay, ServiceOptions) {
    let relay = Relay::start(app.server.address).await;
    let mut options = app.options(service);
    options.database = format!("mongodb://localhost:{}/", relay.address.port());
    (relay, options)
}

impl Running {
    fn request(&self, path: &str, form: Option<&'static str>) -> impl Future<Output = (StatusCode, String)> + use<> {
        let request = Request::builder().uri(format!("http://{}{path}", self.address));
        let request = match form {
            Some(form) => request
                .method("POST")
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Full::from(form)),
            None => request.body(Full::default()),
        };
        let response = self.client.request(request.unwrap());
        async {
            let response = response.await.unwrap();
            let status = response.status();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, String::from_utf8(body.to_vec()).unwrap())
        }
    }

    fn query(&self) -> impl Future<Output = (StatusCode, String)> + use<> {
        let form = "fromAirport=AMS&toAirport=BRU&fromDate=2026-01-05&returnDate=2026-01-06&oneWay=false";
        self.request("/flight/queryflights", Some(form))
    }

    async fn end(self) {
        self.stop.cancel();
        self.ended.await.unwrap().unwrap();
    }
}

fn the_pool_is_open_before_the_service_is(app: &App) {
    block_on(async {
        let (relay, mut options) = behind_relay(app, AirlineService::Flight).await;
        options.pool_size = 7;
        let service = start(&options).await;
        let opened = relay.accepted();
        // The driver's monitoring has one or two connections of its own.
        assert!((8..=9).contains(&opened), "{opened}");
        for answer in futures_util::future::join_all((0..100).map(|_| service.query())).await {
            assert_eq!(answer.0, StatusCode::OK, "{}", answer.1);
        }
        assert!(relay.accepted() <= 9, "{} after {opened}", relay.accepted());
        service.end().await;
    });
}

fn requests_in_progress_are_finished(app: &App) {
    block_on(async {
        let (relay, options) = behind_relay(app, AirlineService::Flight).await;
        let service = start(&options).await;
        let (status, _) = service.query().await;
        assert_eq!(status, StatusCode::OK);
        relay.hold(true);
        let pending = tokio::spawn(service.query());
        relay.held_up().await;
        service.stop.cancel();
        relay.hold(false);
        let (status, body) = pending.await.unwrap();
        assert_eq!(status, StatusCode::OK, "{body}");
        service.end().await;
    });
}

fn a_lost_database_is_told_without_details(app: &App) {
    block_on(async {
        let (relay, options) = behind_relay(app, AirlineService::Flight).await;
        let service = start(&options).await;
        relay.break_all().await;
        let ((status, body), (health, _)) = tokio::join!(service.query(), service.request("/healthz", None));
        assert_eq!((status, &*body), (StatusCode::SERVICE_UNAVAILABLE, r#"{"error":"the database failed"}"#));
        assert!(health.is_server_error(), "{health}");
        service.end().await;
    });
}

fn a_lost_service_is_told_without_details(app: &App) {
    block_on(async {
        let mut options = app.options(AirlineService::Auth);
        let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        options.customer_url = format!("http://{nobody}");
        let service = start(&options).await;
        let (status, body) = service.request("/auth/login", Some("login=a&password=b")).await;
        assert_eq!((status, &*body), (StatusCode::BAD_GATEWAY, r#"{"error":"another service failed"}"#));
        service.end().await;
    });
}

fn the_databases_certificate_is_checked(app: &App) {
    block_on(async {
        let options = |change: fn(&mut ServiceOptions, &App)| {
            let mut options = app.options(AirlineService::Flight);
            change(&mut options, app);
            options
        };
        let wrong_name = options(|options, app| options.database = format!("mongodb://{}/", app.server.address));
        let wrong_ca = options(|options, app| options.database_ca = Some(app.server.certificates.other_ca.clone()));
        let public = options(|options, _| options.database_ca = None);
        let (name, ca, public) = tokio::join!(open(&wrong_name), open(&wrong_ca), open(&public));
        for (opened, reason) in [(name, "not valid for name"), (ca, "certificate"), (public, "UnknownIssuer")] {
            let error = opened.unwrap_err();
            assert!(matches!(error, ServeError::Database(DatabaseError::Unreachable { .. })), "{error:?}");
            assert!(chain(&error).contains(reason), "{}", chain(&error));
        }
    });
}

fn wrong_options(app: &App) {
    block_on(async {
        let wrong = async |change: &dyn Fn(&mut ServiceOptions)| {
            let mut options = app.options(AirlineService::Booking);
            change(&mut options);
            match open(&options).await.unwrap_err() {
                ServeError::Database(error) => chain(&error),
                error => chain(&error),
            }
        };
        for uri in ["", "localhost", "http://localhost", "mongodb://"] {
            let error = wrong(&|options| options.database = uri.into()).await;
            assert!(error.contains("mongodb://HOST"), "{error}");
        }
        for switch in ["tls=false", "tls=true&tlsAllowInvalidCertificates=true", "tls=true&tlsInsecure=true"] {
            let error = wrong(&|options| options.database += &format!("?{switch}")).await;
            assert!(error.contains("turns TLS") || error.contains("tlsInsecure"), "{switch}: {error}");
        }
        let error = wrong(&|options| options.pool_size = 0).await;
        assert!(error.contains("at least 1"), "{error}");
        let error = wrong(&|options| options.database_ca = Some("/nowhere/ca.pem".into())).await;
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
        let key = app.server.certificates.key.clone();
        let error = wrong(&|options| options.database_ca = Some(key.clone())).await;
        assert!(error.contains("no PEM certificate"), "{error}");
        let error = wrong(&|options| options.flight_url = "https://flight".into()).await;
        assert!(error.contains("https://flight"), "{error}");
    });
}

/// Where this program, run as a service alone, finds its options.
const ALONE: [&str; 3] = ["AIRLINE_TEST_LISTEN", "AIRLINE_TEST_DATABASE", "AIRLINE_TEST_CA"];

/// What to serve where this program was started by [`sigterm_ends_the_service`].
pub(crate) fn options_of_service_alone() -> Option<ServiceOptions> {
    let [Ok(listen), Ok(database), Ok(ca)] = ALONE.map(std::env::var) else { return None };
    Some(ServiceOptions {
        service: AirlineService::Flight,
        listen: listen.parse().unwrap(),
        database,
        database_ca: Some(ca.into()),
        database_name: "airline".into(),
        customer_url: String::new(),
        flight_url: String::new(),
        session_key: session_key(),
        app_work: Duration::ZERO,
        pool_size: 1,
    })
}

pub(crate) fn serve_alone(options: ServiceOptions) -> ExitCode {
    serve(options).unwrap();
    ExitCode::SUCCESS
}

fn sigterm_ends_the_service(app: &App) {
    // An address of this process's own, so that nothing else takes the port between choosing and listening.
    let pid = std::process::id().to_be_bytes();
    let listen = SocketAddr::from((Ipv4Addr::new(127, pid[1] | 64, pid[2], pid[3]), 9080));
    let values = [listen.to_string(), app.server.uri(), app.server.certificates.ca.display().to_string()];
    let mut service =
        Command::new(std::env::current_exe().unwrap()).envs(ALONE.into_iter().zip(values)).spawn().unwrap();
    block_on(async {
        // A service does not say when it is ready, other than by answering.
        while TcpStream::connect(listen).await.is_err() {
            assert!(service.try_wait().unwrap().is_none(), "the service ended at its start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    kill(Pid::from_raw(service.id() as i32), Signal::SIGTERM).unwrap();
    assert!(service.wait().unwrap().success());
}

fn loading_again_gives_the_same(app: &App) {
    let options = LoadDataOptions {
        database: app.server.uri(),
        database_ca: Some(app.server.certificates.ca.clone()),
        database_name: "again".into(),
        customers: 3,
    };
    let first = load_data(options.clone()).unwrap();
    assert_eq!(first.customers, 3);
    assert_eq!(load_data(options).unwrap(), first);
}
