use super::*;
use meshtoll_identity::MeshCa;
use serde_json::json;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::oneshot,
};

const HOUR: Duration = Duration::from_secs(3600);

/// A port that answers, and what ends it.
struct Port {
    address: SocketAddr,
    readiness: Readiness,
    key: String,
    end: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<()>,
}

impl Port {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ca = MeshCa::new("cluster.local").unwrap();
        let issued = ca.issue(&"spiffe://cluster.local/ns/default/sa/booking".parse().unwrap(), HOUR).unwrap();
        let (chain, key, bundle) = (issued.chain_pem, issued.key_pem, ca.trust_bundle_pem());
        let credentials = Credentials::from_pem(chain.as_bytes(), key.as_bytes(), bundle.as_bytes()).unwrap();
        let credentials = Arc::new(credentials);
        let mut registry = Registry::default();
        let state = AdminState {
            readiness: Readiness::default(),
            metrics: Arc::new(Metrics::new(&mut registry)),
            registry,
            routes: Box::new(|| json!(["a route"])),
            credentials: Box::new(move || Some(credentials.clone())),
            settings: json!({ "outboundPort": 15001 }),
        };
        let readiness = state.readiness.clone();
        let (end, ended) = oneshot::channel();
        let shutdown = async { ended.await.unwrap() };
        let server = tokio::spawn(run(listener, Arc::new(state), shutdown));
        Self { address, readiness, key, end, server }
    }

    async fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.ask(&format!("GET {path}")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"), "{answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

#[tokio::test]
async fn it_is_ready_when_nothing_is_pending() {
    let port = Port::open().await;
    let routes = port.readiness.pending("routes");
    let listeners = port.readiness.pending("listeners");
    let answer = port.ask("GET /healthz/ready").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with("not ready: routes, listeners\n"), "{answer}");
    drop(routes);
    assert!(!port.readiness.is_ready());
    drop(listeners);
    assert!(port.ask("GET /healthz/ready").await.starts_with("HTTP/1.1 200 OK"));
    let _draining = port.readiness.pending("draining");
    assert!(port.ask("GET /healthz/ready").await.starts_with("HTTP/1.1 503 "));
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let answer = Port::open().await.ask("GET /metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: application/openmetrics-text;"), "{answer}");
    assert!(answer.contains("meshtoll_mesh_handshakes_total 0\n") && answer.ends_with("# EOF\n"), "{answer}");
}

#[tokio::test]
async fn the_configuration_is_told_without_keys() {
    let port = Port::open().await;
    let dump = port.json("/config_dump").await;
    assert_eq!(dump["settings"], json!({ "outboundPort": 15001 }));
    assert_eq!(dump["routes"], json!(["a route"]));
    assert_eq!(dump["certificate"]["subject"], "spiffe://cluster.local/ns/default/sa/booking");
    assert_eq!(dump["certificate"]["expired"], false);
    assert!(dump["certificate"]["notAfter"].as_str().unwrap().ends_with('Z'), "{dump}");
    assert!(!dump.to_string().contains(port.key.lines().nth(1).unwrap()));
}

#[tokio::test]
async fn counters_are_json() {
    let none = json!({
        "upstreams": {},
        "terminated": { "handshakes": 0, "withoutClientCertificate": 0, "failed": 0 },
    });
    assert_eq!(Port::open().await.json("/counters").await, none);
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let port = Port::open().await;
    for path in ["/", "/healthz", "/metrics/", "/../metrics", "//metrics"] {
        assert!(port.ask(&format!("GET {path}")).await.starts_with("HTTP/1.1 404 "), "{path}");
    }
    for method in ["POST", "DELETE", "OPTIONS"] {
        let answer = port.ask(&format!("{method} /metrics")).await;
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    }
    let head = port.ask("HEAD /healthz/ready").await;
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn more_connections_than_allowed_wait_for_their_turn() {
    let port = Port::open().await;
    let mut idle = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        idle.push(TcpStream::connect(port.address).await.unwrap());
    }
    let asked = port.ask("GET /healthz/ready");
    tokio::pin!(asked);
    // Nobody else is answered until one of the idle ones goes.
    let answered = tokio::time::timeout(Duration::from_millis(200), &mut asked).await;
    assert!(answered.is_err(), "{answered:?}");
    idle.pop();
    assert!(asked.await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn who_asks_nothing_is_sent_away() {
    let port = Port::open().await;
    let mut idle = TcpStream::connect(port.address).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(4 * HEADER_LIMIT, idle.read_to_end(&mut answer)).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer), "");
}

#[tokio::test]
async fn it_ends_when_told_to_even_while_somebody_is_connected() {
    let port = Port::open().await;
    let mut idle = TcpStream::connect(port.address).await.unwrap();
    port.end.send(()).unwrap();
    port.server.await.unwrap();
    assert_eq!(idle.read(&mut [0]).await.unwrap_or(0), 0);
}
