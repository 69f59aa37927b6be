//! Against real sockets on 127.0.0.0/8, and a name server that answers what a test says.

mod name_server;

use super::*;
use futures_util::future::join_all;
use meshtoll_policy::authorization::Authorization;
use name_server::NameServer;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{io, net::Ipv4Addr, process::Command};
use tokio::net::TcpListener;

const NAME: &str = "db.example.com";

fn permit() -> Permit {
    Authorization::of_own_application()
}

fn connector(server: &NameServer, change: impl FnOnce(&mut ConnectSettings)) -> Connector {
    let mut settings = ConnectSettings::default();
    change(&mut settings);
    Connector::new(Resolver::new(server.settings()).unwrap(), settings)
}

/// A connector for which `NAME` is not looked up.
fn connector_without_names(change: impl FnOnce(&mut ConnectSettings)) -> Connector {
    let mut settings = ConnectSettings::default();
    change(&mut settings);
    let name_servers = NameServers::Given(vec![(Ipv4Addr::LOCALHOST, 9).into()]);
    Connector::new(Resolver::new(ResolverSettings { name_servers, ..Default::default() }).unwrap(), settings)
}

fn name(port: u16, only_public: bool) -> Target<'static> {
    Target::Name { host: NAME, port, only_public }
}

/// Listens on 127.0.0.`last`, and on no other address of the port, so that the others refuse.
async fn listen(last: u8) -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn at(last: u8, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), port)
}

/// A listener that lets connections wait forever: its queue is full, and the kernel drops what more comes.
async fn listen_without_answer(last: u8) -> (socket2::Socket, Vec<TcpStream>, u16) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(at(last, 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    (socket, queued, address.port())
}

#[tokio::test]
async fn an_address_is_connected_to() {
    let (listener, port) = listen(2).await;
    let connector = connector_without_names(|_| ());
    let connected = connector.connect(&Target::Addresses(&[at(2, port)]), permit()).await.unwrap();
    let (_, peer) = listener.accept().await.unwrap();
    assert_eq!(connected.stream.local_addr().unwrap(), peer);
    assert_eq!(connected.address, at(2, port).into());
    assert!(connected.stream.nodelay().unwrap());
}

#[tokio::test]
async fn a_name_leads_to_its_address() {
    let server = NameServer::start().await;
    server.set(NAME, &["127.0.0.3"], 60);
    let (_listener, port) = listen(3).await;
    let connected = connector(&server, |_| ()).connect(&name(port, false), permit()).await.unwrap();
    assert_eq!(connected.address, at(3, port).into());
}

#[tokio::test]
async fn addresses_take_turns() {
    let (_two, port) = listen(2).await;
    let _three = TcpListener::bind(at(3, port)).await.unwrap();
    let connector = connector_without_names(|_| ());
    let addresses = [at(2, port), at(3, port)];
    let mut connected = Vec::new();
    for _ in 0..4 {
        connected.push(connector.connect(&Target::Addresses(&addresses), permit()).await.unwrap().address);
    }
    assert!(connected[0] != connected[1] && connected[..2] == connected[2..], "{connected:?}");
}

#[tokio::test]
async fn a_dead_address_is_passed_over_and_then_tried_last() {
    let (_listener, port) = listen(2).await;
    let connector = connector_without_names(|_| ());
    let addresses = [at(1, port), at(2, port)];
    let target = Target::Addresses(&addresses);
    for _ in 0..2 {
        assert_eq!(connector.connect(&target, permit()).await.unwrap().address, at(2, port).into());
    }
    for _ in 0..4 {
        let order = connector.in_order(&target, connector.addresses(&target).await.unwrap());
        assert_eq!(order, [at(2, port).into(), at(1, port).into()]);
    }
}

#[tokio::test]
async fn addresses_are_tried_although_all_are_ejected() {
    let (listener, port) = listen(2).await;
    drop(listener);
    let connector = connector_without_names(|_| ());
    let addresses = [at(2, port)];
    let target = Target::Addresses(&addresses);
    let Err(ConnectError::Failed { attempts }) = connector.connect(&target, permit()).await else { panic!() };
    assert_eq!(attempts.0[0].error.kind(), io::ErrorKind::ConnectionRefused);
    let _listener = TcpListener::bind(at(2, port)).await.unwrap();
    connector.connect(&target, permit()).await.unwrap();
}

#[tokio::test]
async fn a_failure_names_each_address() {
    let (listener, port) = listen(2).await;
    drop(listener);
    let addresses = [at(2, port), at(3, port)];
    let error = connector_without_names(|_| ()).connect(&Target::Addresses(&addresses), permit()).await.unwrap_err();
    let text = error.to_string();
    assert!(addresses.iter().all(|address| text.contains(&format!("; {address}: Connection refused"))), "{text}");
}

#[tokio::test]
async fn an_address_that_does_not_answer_is_overtaken_and_then_tried_last() {
    let (_socket, _queued, port) = listen_without_answer(2).await;
    let _listener = TcpListener::bind(at(3, port)).await.unwrap();
    let connector = connector_without_names(|settings| settings.attempt_delay = Duration::from_millis(20));
    let addresses = [at(2, port), at(3, port)];
    let target = Target::Addresses(&addresses);
    for _ in 0..2 {
        assert_eq!(connector.connect(&target, permit()).await.unwrap().address, at(3, port).into());
    }
    let order = connector.in_order(&target, connector.addresses(&target).await.unwrap());
    assert_eq!(order, [at(3, port).into(), at(2, port).into()]);
}

#[tokio::test]
async fn time_runs_out_over_all_attempts() {
    let (_socket, _queued, port) = listen_without_answer(2).await;
    let timeout = Duration::from_millis(100);
    let connector = connector_without_names(|settings| settings.connect_timeout = timeout);
    let addresses = [at(2, port)];
    let target = Target::Addresses(&addresses);
    let Err(ConnectError::Timeout { attempts, .. }) = connector.connect(&target, permit()).await else { panic!() };
    assert_eq!(attempts.0[0].address, at(2, port).into());
}

#[tokio::test]
async fn a_lookup_that_is_not_answered_ends_in_time() {
    let server = NameServer::start().await;
    let _held = server.hold().await;
    let connector = connector(&server, |settings| settings.connect_timeout = Duration::from_millis(100));
    let error = connector.connect(&name(1, false), permit()).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Timeout { attempts, .. } if attempts.0.is_empty()), "{error}");

    let resolver = ResolverSettings { timeout: Duration::from_millis(50), retries: 0, ..server.settings() };
    let error = Resolver::new(resolver).unwrap().lookup(NAME).await.unwrap_err();
    assert!(matches!(error, ResolveError::Timeout), "{error:?}");
}

#[tokio::test]
async fn names_without_addresses_and_failing_servers_are_told_apart() {
    let server = NameServer::start().await;
    let connector = connector(&server, |_| ());
    let error = connector.connect(&name(1, false), permit()).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoAddress { .. }), "{error}");
    server.fail("broken.example.com");
    for (host, expected) in
        [("broken.example.com", "Server"), ("a b", "not the name of a host"), ("127.1", "not the name")]
    {
        let target = Target::Name { host, port: 1, only_public: false };
        let error = connector.connect(&target, permit()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Resolve { .. }), "{host}: {error}");
        assert!(error.to_string().contains(expected), "{host}: {error}");
    }
    let error = connector.connect(&Target::Addresses(&[]), permit()).await.unwrap_err();
    assert!(matches!(error, ConnectError::NoAddress { .. }), "{error}");
}

#[tokio::test]
async fn names_that_clients_choose_lead_to_public_addresses_only() {
    let server = NameServer::start().await;
    for address in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:127.0.0.1", "0.0.0.0", "fd00::1"] {
        server.set(NAME, &[address], 60);
        let error = connector(&server, |_| ()).connect(&name(1, true), permit()).await.unwrap_err();
        let ConnectError::RefusedAddress { host, address: refused } = error else { panic!("{address}: {error}") };
        assert_eq!((&*host, refused), (NAME, address.parse::<IpAddr>().unwrap().to_canonical()));
    }
    let target = Target::Name { host: "127.0.0.1", port: 1, only_public: true };
    let error = connector(&server, |_| ()).connect(&target, permit()).await.unwrap_err();
    assert!(matches!(error, ConnectError::RefusedAddress { .. }), "an address in place of a name: {error}");
    let target = Target::Name { host: "localhost", port: 1, only_public: true };
    let error = connector(&server, |_| ()).connect(&target, permit()).await.unwrap_err();
    assert!(matches!(error, ConnectError::RefusedAddress { .. }), "a name that needs no server: {error}");
}

#[tokio::test]
async fn of_mixed_answers_only_the_allowed_addresses_are_used() {
    let server = NameServer::start().await;
    server.set(NAME, &["10.1.2.3", "127.0.0.3", "::1", "127.0.0.1"], 60);
    let (_listener, port) = listen(3).await;
    let connector = connector(&server, |settings| settings.private_allowed = vec!["127.0.0.3/32".parse().unwrap()]);
    assert_eq!(connector.addresses(&name(port, true)).await.unwrap(), [at(3, port).into()]);
    assert_eq!(connector.connect(&name(port, true), permit()).await.unwrap().address, at(3, port).into());
}

#[tokio::test]
async fn families_take_turns_and_ipv6_is_first() {
    let server = NameServer::start().await;
    server.set(NAME, &["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"], 60);
    let connector = connector(&server, |_| ());
    let target = name(1, false);
    let addresses = connector.addresses(&target).await.unwrap();
    let order = connector.in_order(&target, addresses.clone());
    assert_eq!(order.iter().map(SocketAddr::is_ipv6).collect::<Vec<_>>(), [true, false, false, false]);
    let many = addresses.iter().cycle().take(50).copied().collect();
    assert_eq!(connector.in_order(&target, many).len(), MAX_ATTEMPTS);
}

#[tokio::test]
async fn a_mark_without_the_right_to_it_fails_each_attempt() {
    let (_listener, port) = listen(2).await;
    let connector = connector_without_names(|settings| settings.socket_mark = Some(1337));
    let answer = connector.connect(&Target::Addresses(&[at(2, port)]), permit()).await;
    match answer {
        Ok(connected) => assert_eq!(socket2::SockRef::from(&connected.stream).mark().unwrap(), 1337),
        Err(error) => assert!(error.to_string().contains("needs CAP_NET_ADMIN"), "{error}"),
    }
}

#[tokio::test]
async fn answers_are_kept_until_their_ttl_ends() {
    let server = NameServer::start().await;
    server.set("long.example.com", &["127.0.0.2"], 60);
    server.set("short.example.com", &["127.0.0.2"], 1);
    let resolver = Resolver::new(server.settings()).unwrap();
    for host in ["long.example.com", "Long.Example.com.", "short.example.com"] {
        assert_eq!(resolver.lookup(host).await.unwrap(), [Ipv4Addr::new(127, 0, 0, 2)], "{host}");
    }
    assert_eq!(server.asked("long.example.com"), 2, "once for each family");
    server.set("long.example.com", &["127.0.0.3"], 60);
    server.set("short.example.com", &["127.0.0.3"], 1);
    while resolver.lookup("short.example.com").await.unwrap() != [Ipv4Addr::new(127, 0, 0, 3)] {
        tokio::task::yield_now().await;
    }
    assert_eq!(resolver.lookup("long.example.com").await.unwrap(), [Ipv4Addr::new(127, 0, 0, 2)]);
}

#[tokio::test]
async fn ttls_are_kept_within_bounds() {
    let server = NameServer::start().await;
    server.set("zero.example.com", &["127.0.0.2"], 0);
    server.set("day.example.com", &["127.0.0.2"], 86400);
    let ttl = Duration::from_secs(60)..=Duration::from_secs(60);
    let long = Resolver::new(ResolverSettings { ttl, ..server.settings() }).unwrap();
    let ttl = Duration::ZERO..=Duration::from_secs(1);
    let short = Resolver::new(ResolverSettings { ttl, ..server.settings() }).unwrap();
    long.lookup("zero.example.com").await.unwrap();
    short.lookup("day.example.com").await.unwrap();
    server.set("zero.example.com", &["127.0.0.3"], 0);
    server.set("day.example.com", &["127.0.0.3"], 86400);
    while short.lookup("day.example.com").await.unwrap() != [Ipv4Addr::new(127, 0, 0, 3)] {
        tokio::task::yield_now().await;
    }
    assert_eq!(long.lookup("zero.example.com").await.unwrap(), [Ipv4Addr::new(127, 0, 0, 2)]);
}

#[tokio::test]
async fn that_there_is_no_address_is_remembered_too() {
    let server = NameServer::start().await;
    let resolver = Resolver::new(server.settings()).unwrap();
    for _ in 0..3 {
        assert!(matches!(resolver.lookup(NAME).await, Err(ResolveError::NoRecords)));
    }
    assert_eq!(server.asked(NAME), 2, "once for each family");

    let negative_ttl = Duration::from_secs(1)..=Duration::from_secs(1);
    let resolver = Resolver::new(ResolverSettings { negative_ttl, ..server.settings() }).unwrap();
    assert!(resolver.lookup(NAME).await.is_err());
    server.set(NAME, &["127.0.0.2"], 60);
    while resolver.lookup(NAME).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn that_a_server_failed_is_not_remembered() {
    let server = NameServer::start().await;
    server.fail(NAME);
    let resolver = Resolver::new(server.settings()).unwrap();
    assert!(matches!(resolver.lookup(NAME).await, Err(ResolveError::Server(_))));
    server.set(NAME, &["127.0.0.2"], 60);
    assert!(resolver.lookup(NAME).await.is_ok());
}

#[tokio::test]
async fn lookups_of_one_name_at_one_time_are_one() {
    let server = NameServer::start().await;
    server.set(NAME, &["127.0.0.2"], 60);
    let resolver = Resolver::new(server.settings()).unwrap();
    let held = server.hold().await;
    let lookups = join_all((0..20).map(|_| resolver.lookup(NAME)));
    let release = async {
        server.wait_until_asked(2).await;
        drop(held);
    };
    let (answers, ()) = tokio::join!(lookups, release);
    assert!(answers.into_iter().all(|answer| answer.unwrap() == [Ipv4Addr::new(127, 0, 0, 2)]));
    assert_eq!(server.asked(NAME), 2, "once for each family");
}

#[tokio::test]
async fn a_family_that_is_never_answered_does_not_hold_the_other_up() {
    let server = NameServer::start().await;
    server.set(NAME, &["127.0.0.2"], 60);
    server.ignore_ipv6();
    let resolver = Resolver::new(ResolverSettings { timeout: Duration::from_secs(600), ..server.settings() }).unwrap();
    assert_eq!(resolver.lookup(NAME).await.unwrap(), [Ipv4Addr::new(127, 0, 0, 2)]);
}

#[test]
fn a_resolver_needs_name_servers() {
    let settings = ResolverSettings { name_servers: NameServers::Given(vec![]), ..Default::default() };
    assert!(matches!(Resolver::new(settings), Err(ResolverError::NoNameServers)));
}

/// Set in the process of its own that a limit of open files needs, since it holds for all threads.
const LIMITED: &str = "MESHTOLL_TEST_LIMITED";

#[test]
fn being_out_of_descriptors_is_told_from_a_failing_upstream() {
    if std::env::var_os(LIMITED).is_some() {
        return;
    }
    let test = "connect::tests::being_out_of_descriptors_in_a_process_of_its_own";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test]).env(LIMITED, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn being_out_of_descriptors_in_a_process_of_its_own() {
    if std::env::var_os(LIMITED).is_none() {
        return;
    }
    let (_listener, port) = listen(2).await;
    let connector = connector_without_names(|_| ());
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 1, hard).unwrap();
    for target in [Target::Addresses(&[at(2, port), at(3, port)]), name(port, false)] {
        let error = connector.connect(&target, permit()).await.unwrap_err();
        assert!(matches!(error, ConnectError::LocalLimit { .. }), "{target:?}: {error}");
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let addresses = [at(2, port).into(), at(3, port).into()];
    let order = connector.ejections.last(addresses.into_iter(), Instant::now());
    assert_eq!(order, addresses, "nothing is ejected for it");
}
