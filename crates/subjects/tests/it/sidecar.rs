//! A sidecar with traffic: redirected to it as in a pod, out of it and, through the same one, in again.

use crate::{
    fixtures::{self, DATABASE, DATABASE_UPSTREAM},
    network,
    process::{self, Running, User, counters_when, http_get_on},
    tls::client_hello,
};
use meshtoll_identity::MeshCa;
use meshtoll_model::{
    process::Program,
    topology::{HttpHandling, ProxyMarking},
};
use meshtoll_policy::routes::{HttpRoute, InboundPort, PeerMtls, SidecarRoutes, Unmatched};
use meshtoll_subjects::{Envoy, Subject, counters::TlsCounters};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpStream},
};

/// The service's virtual address, and that of the database: the application connects to these.
const VIRTUAL: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// The pod, as the sidecar connects to it.
const POD: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 2);
/// The pod, as a peer without sidecar connects to it.
const POD_FROM_OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 3);
const FLIGHT: &str = "outbound|9080||flight.default.svc.cluster.local";
const DATABASE_PORT: u16 = 27017;

const INTERCEPTION: &str = "
table ip nat {
    chain output {
        type nat hook output priority -100
        meta mark 1337 ip daddr 10.10.0.2 tcp dport 9080 redirect to :15006
        meta mark 1337 return
        ip daddr 10.10.0.3 tcp dport 9080 redirect to :15006
        ip daddr 10.10.0.0/24 meta l4proto tcp redirect to :15001
    }
}
";

fn start(ca: &MeshCa, mtls: PeerMtls, unmatched: Unmatched, http: HttpHandling) -> Option<Running> {
    let envoy = process::find(&Program::Envoy)?;
    if !network::enter_namespace() {
        return None;
    }
    for address in [VIRTUAL, POD, POD_FROM_OUTSIDE] {
        network::run("ip", &["address", "add", &format!("{address}/32"), "dev", "lo"]);
    }
    network::run("nft", &[INTERCEPTION]);
    network::dns();
    network::http_mirror(9080);
    network::echo(DATABASE_PORT);
    let routes = SidecarRoutes {
        inbound: vec![InboundPort { port: 9080, mtls, authorization: Default::default() }],
        tcp: Vec::new(),
        http: vec![HttpRoute {
            virtual_ip: Some(VIRTUAL),
            ..fixtures::service("flight", SocketAddrV4::new(POD, 9080), fixtures::booking())
        }],
        unmatched,
        ..fixtures::sidecar()
    };
    let mut mesh = fixtures::Mesh::new(ca, &fixtures::booking());
    mesh.settings.http = http;
    let spec = Envoy.sidecar(&routes, &mesh.context("booking", ProxyMarking::SocketMark)).unwrap();
    Some(Running::start(&spec, &envoy, User::Root))
}

fn get(address: Ipv4Addr, host: &str) -> Option<(u16, String)> {
    http_get_on(TcpStream::connect((address, 9080)).unwrap(), "/flight", host)
}

/// As [`get`], and ends its side of the connection, as a relay that reads no HTTP does not do for it.
fn get_to_the_end(address: Ipv4Addr, host: &str) -> Option<(u16, String)> {
    let mut connection = TcpStream::connect((address, 9080)).unwrap();
    write!(connection, "GET /flight HTTP/1.1\r\nHost: {host}\r\n\r\n").ok()?;
    connection.shutdown(Shutdown::Write).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

fn echoed(message: &[u8]) -> bool {
    let mut connection = TcpStream::connect((VIRTUAL, DATABASE_PORT)).unwrap();
    connection.write_all(message).unwrap();
    let mut answer = vec![0; message.len()];
    connection.read_exact(&mut answer).is_ok_and(|()| answer == message)
}

#[test]
fn a_strict_sidecar_carries_the_meshs_traffic_alone() {
    let ca = MeshCa::new("cluster.local").unwrap();
    let Some(_sidecar) = start(&ca, PeerMtls::Strict, Unmatched::RegistryOnly, HttpHandling::Full) else { return };

    let (status, request) = get(VIRTUAL, "flight:9080").unwrap();
    assert_eq!(status, 200);
    assert!(request.contains("URI=spiffe://cluster.local/ns/default/sa/booking"), "{request}");
    assert!(request.contains("x-request-id: "), "{request}");
    assert_eq!(get(VIRTUAL, "unknown.example").unwrap().0, 502, "a host that no route names");
    assert_eq!(get(POD_FROM_OUTSIDE, "flight"), None, "plain text from outside the mesh");

    let bundle = ca.trust_bundle_pem();
    assert!(echoed(&client_hello(DATABASE, &bundle)));
    assert!(!echoed(&client_hello("unknown.example", &bundle)), "a server name that no route names");
    assert!(!echoed(b"not TLS"));

    let counters = counters_when(&Envoy, |counters| counters.upstreams[DATABASE_UPSTREAM].active == 0);
    assert_eq!(counters.terminated, TlsCounters { handshakes: 1, without_client_certificate: 0, failed: 0 });
    let upstreams = &counters.upstreams;
    assert_eq!((upstreams[FLIGHT].requests, upstreams[FLIGHT].tls_handshakes), (1, 1));
    assert_eq!((upstreams["inbound|9080||"].requests, upstreams["inbound|9080||"].tls_handshakes), (1, 0));
    assert_eq!((upstreams[DATABASE_UPSTREAM].connections, upstreams[DATABASE_UPSTREAM].requests), (1, 0));
    assert_eq!(upstreams["BlackHoleCluster"].connections, 0);
}

#[test]
fn a_permissive_sidecar_that_may_go_anywhere_carries_the_rest_too() {
    let ca = MeshCa::new("cluster.local").unwrap();
    let Some(_sidecar) = start(&ca, PeerMtls::Permissive, Unmatched::AllowAny, HttpHandling::Full) else { return };

    assert!(get(VIRTUAL, "flight").unwrap().1.contains("URI=spiffe://cluster.local/ns/default/sa/booking"));
    assert_eq!(get(POD_FROM_OUTSIDE, "flight").unwrap().0, 200, "plain text from outside the mesh");

    let counters = counters_when(&Envoy, |counters| counters.upstreams["inbound|9080||"].requests == 2);
    assert_eq!(counters.terminated, TlsCounters { handshakes: 1, without_client_certificate: 0, failed: 0 });
    assert_eq!(counters.upstreams["PassthroughCluster"].connections, 0);
}

#[test]
fn a_sidecar_that_reads_no_http_goes_by_address() {
    let ca = MeshCa::new("cluster.local").unwrap();
    let Some(_sidecar) = start(&ca, PeerMtls::Strict, Unmatched::RegistryOnly, HttpHandling::Tcp) else { return };

    let (status, request) = get_to_the_end(VIRTUAL, "whatever.example").unwrap();
    assert_eq!(status, 200);
    assert!(!request.contains("x-request-id") && !request.contains("URI="), "the request is as it was sent: {request}");
    assert_eq!(get_to_the_end(POD_FROM_OUTSIDE, "flight"), None, "plain text from outside the mesh");
    assert_eq!(get_to_the_end(POD, "flight"), None, "an address that is no service's");

    let counters = counters_when(&Envoy, |counters| counters.upstreams[FLIGHT].active == 0);
    assert_eq!(counters.terminated, TlsCounters { handshakes: 1, without_client_certificate: 0, failed: 0 });
    let upstreams = &counters.upstreams;
    assert_eq!(
        (upstreams[FLIGHT].connections, upstreams[FLIGHT].tls_handshakes, upstreams[FLIGHT].requests),
        (1, 1, 0)
    );
    assert!(upstreams["inbound|9080||"].received_bytes > 0);
    assert_eq!(upstreams["inbound|9080||"].requests, 0);
}
