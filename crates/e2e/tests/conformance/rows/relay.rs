//! What becomes of a connection's bytes and ends, on three ways: plain, in mutual TLS between sidecars, and through the gateway.

use crate::{
    client::{echoes, ended, meet, over, tell},
    table::{Group, Kind, Mesh, Problem, Row, Seen},
    tls,
    wire::{Wire, reset},
    world::{World, identity},
};
use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    thread,
    time::Duration,
};

const YAML: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tcp, namespace: app}
spec: {hosts: [tcp.example], addresses: [10.99.0.1], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
";

/// How much a large transfer is, bytes.
const LARGE: usize = 32 << 20;
/// What is written and waited for at once, where one thread does both.
const CHUNK: usize = 64 << 10;
/// How much can be under way at most with everyone's buffers full, bytes.
const HELD_BACK: usize = 256 << 20;
/// How much a proxy may grow meanwhile, bytes.
const GROWTH: u64 = 16 << 20;
const PARALLEL: usize = 200;

/// A way, and the server at its end.
type Way = (fn(&World) -> io::Result<Box<dyn Wire>>, &'static str);

const PLAIN: Way = (|world| Ok(Box::new(socket(world, "10.99.0.1:9001")?)), "one");
const MTLS: Way = (|world| Ok(Box::new(socket(world, "10.96.1.11:9080")?)), "server");
const GATEWAY: Way = (|world| world.tls("client", "10.88.1.13:443", "mtls.example"), "one");

fn socket(world: &World, to: &str) -> io::Result<TcpStream> {
    world.connect("client", to)
}

fn half_from_client(world: &World, (open, _): Way) -> Seen {
    let mut wire = open(world)?;
    tell(&mut wire, "echo")?;
    let message = pattern(0, 300_000);
    wire.write_all(&message[..100_000])?;
    wire.flush()?;
    wire.finish()?;
    let mut back = Vec::new();
    wire.read_to_end(&mut back)?;
    Ok(if back == message[..100_000] { "everything comes back, then the end" } else { "something is lost" }.into())
}

/// Everything at once, the end included, before anything can have been connected.
fn eager(world: &World, to: &str) -> Seen {
    let mut socket = socket(world, to)?;
    socket.write_all(b"echo\nping\n")?;
    socket.finish()?;
    let mut back = String::new();
    socket.read_to_string(&mut back)?;
    Ok(match back.split_once('\n') {
        Some((_, "ping\n")) => "everything comes back, then the end".into(),
        _ => format!("`{back}` comes back"),
    })
}

fn half_from_server(world: &World, (open, server): Way) -> Seen {
    let mut wire = open(world)?;
    let before = world.log.len();
    tell(&mut wire, "half")?;
    if wire.read(&mut [0; 100])? != 0 {
        return Ok("more than was sent".into());
    }
    wire.write_all(&pattern(0, 100_000))?;
    wire.flush()?;
    wire.finish()?;
    match world.log.wait(before, &[format!("{server} received 100000")]) {
        Some(_) => Ok("the end, while the server still receives everything".into()),
        None => Ok("the end, and the server receives not everything".into()),
    }
}

/// Both ways at once.
fn large(world: &World, to: &str) -> Seen {
    let mut wire = socket(world, to)?;
    tell(&mut wire, "echo")?;
    let mut writer = wire.try_clone()?;
    let sent = thread::spawn(move || {
        for start in (0..LARGE).step_by(CHUNK) {
            writer.write_all(&pattern(start, CHUNK))?;
        }
        writer.finish()
    });
    let mut back = vec![0; CHUNK];
    for start in (0..LARGE).step_by(CHUNK) {
        wire.read_exact(&mut back)?;
        if back != pattern(start, CHUNK) {
            return Ok(format!("something else after {start} bytes"));
        }
    }
    sent.join().map_err(|_| "the writer panicked")??;
    Ok(if wire.read(&mut [0])? == 0 { "all 32 MiB come back" } else { "more than was sent" }.into())
}

/// In steps, where one thread has to do both.
fn large_in_steps(world: &World, (open, _): Way) -> Seen {
    let mut wire = open(world)?;
    tell(&mut wire, "echo")?;
    let mut back = vec![0; CHUNK];
    for start in (0..LARGE).step_by(CHUNK) {
        let message = pattern(start, CHUNK);
        wire.write_all(&message)?;
        wire.flush()?;
        wire.read_exact(&mut back)?;
        if back != message {
            return Ok(format!("something else after {start} bytes"));
        }
    }
    wire.finish()?;
    Ok(if wire.read(&mut [0])? == 0 { "all 32 MiB come back" } else { "more than was sent" }.into())
}

/// Bytes that differ by where they are.
fn pattern(start: usize, length: usize) -> Vec<u8> {
    (start..start + length).map(|at| ((at.wrapping_mul(2_654_435_761)) >> 13) as u8).collect()
}

fn slow_reader(world: &World, to: &str, proxies: &[&str]) -> Seen {
    let memory = |world: &World| -> Result<u64, Problem> {
        let each = proxies.iter().map(|name| world.testbed.memory(world.proxy(name)));
        Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().sum())
    };
    let mut wire = socket(world, to)?;
    tell(&mut wire, "echo")?;
    let before = memory(world)?;
    let mut writer = wire.try_clone()?;
    writer.set_write_timeout(Some(Duration::from_secs(1)))?;
    let mut written = 0;
    while written < HELD_BACK {
        match writer.write(&pattern(written, CHUNK)) {
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return ended(&error),
        }
    }
    if written >= HELD_BACK {
        return Ok("the writer is not held back".into());
    }
    let grown = memory(world)?.saturating_sub(before);
    if grown > GROWTH * proxies.len() as u64 {
        return Ok(format!("the writer is held back, and the proxies grow by {} MiB", grown >> 20));
    }
    writer.finish()?;
    let (mut back, mut received) = (vec![0; CHUNK], 0);
    loop {
        let read = wire.read(&mut back)?;
        if read == 0 {
            break;
        }
        if back[..read] != pattern(received, read) {
            return Ok(format!("something else after {received} bytes"));
        }
        received += read;
    }
    Ok(match received == written {
        true => "the writer is held back, the proxies do not grow, and everything comes back".into(),
        false => format!("{received} bytes of {written} come back"),
    })
}

fn reset_by_client(world: &World, (open, server): Way) -> Seen {
    let mut wire = open(world)?;
    let before = world.log.len();
    tell(&mut wire, "watch")?;
    reset(wire);
    watched(world, before, server)
}

/// How a connection ended for the server that watched it.
fn watched(world: &World, before: usize, server: &str) -> Seen {
    let events = ["end", "cut", "reset"].map(|event| format!("{server} {event}"));
    let seen = world.log.wait(before, &events).ok_or("the server sees nothing")?;
    Ok(format!("the server sees {}", if seen.ends_with("reset") { "a reset" } else { "an end" }))
}

fn reset_by_server(world: &World, (open, _): Way) -> Seen {
    let mut wire = open(world)?;
    tell(&mut wire, "reset")?;
    wire.write_all(b"now\n")?;
    wire.flush()?;
    Ok(match wire.read(&mut [0; 100]) {
        Ok(0) => "the client sees an end".into(),
        Ok(_) => "the client sees something else".into(),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => "the client sees a reset".into(),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => "the client sees an end".into(),
        Err(error) => return ended(&error),
    })
}

/// Mesh TLS whose connection ends without TLS saying so, as an attacker on the way could have it.
fn truncated(world: &World) -> Seen {
    let certificate = world.authorities.workload(&identity("app", "client"))?;
    let config = tls::mesh_client(Some(&certificate), Some("istio"));
    let mut wire = over(world.connect("stranger", "10.44.1.11:9080")?, "x.example", config)?;
    let before = world.log.len();
    tell(&mut wire, "watch")?;
    wire.write_all(b"half of what was to be said")?;
    wire.flush()?;
    wire.socket().shutdown(std::net::Shutdown::Write)?;
    watched(world, before, "server")
}

fn parallel(world: &World, (open, _): Way) -> Seen {
    let mut wires = Vec::new();
    for _ in 0..PARALLEL {
        let mut wire = open(world)?;
        tell(&mut wire, "echo")?;
        wires.push(wire);
    }
    for wire in &mut wires {
        echoes(wire)?;
    }
    Ok("all 200 answer".into())
}

fn one_after_another(world: &World, (open, server): Way) -> Seen {
    for _ in 0..PARALLEL {
        let seen = meet(open(world))?;
        if !seen.starts_with(&format!("reaches {server}")) {
            return Ok(seen);
        }
    }
    Ok("all 200 answer".into())
}

const TRUNCATED: &str = "Envoy takes the end of the TCP connection for the end of what is said in it, which somebody on the way \
     can bring about. Meshtoll passes on as an end what TLS says is one, and as a reset what it does not (RFC 8446, 6.1).";

pub(crate) const GROUP: Group = Group {
    name: "relay",
    about: "What becomes of a connection's bytes and ends, on three ways: plain, in mutual TLS between sidecars, and through the gateway.",
    mesh: Mesh {
        yaml: &[YAML, super::gateway::YAML],
        services: &[("client", Kind::Sidecar), ("server", Kind::Sidecar)],
        gateway: true,
        ..Mesh::DEFAULT
    },
    rows: &[
        Row::new(
            "half_client_plain",
            "the client finishes first, plain",
            "everything comes back, then the end",
            |world| half_from_client(world, PLAIN),
        ),
        Row::new(
            "half_client_mtls",
            "the client finishes first, in mTLS",
            "everything comes back, then the end",
            |world| half_from_client(world, MTLS),
        ),
        Row::new(
            "half_client_gateway",
            "the client finishes first, through the gateway",
            "everything comes back, then the end",
            |world| half_from_client(world, GATEWAY),
        ),
        Row::new(
            "eager_plain",
            "the client says everything at once, its end included, plain",
            "everything comes back, then the end",
            |world| eager(world, "10.99.0.1:9001"),
        ),
        Row::new(
            "eager_mtls",
            "the client says everything at once, its end included, in mTLS",
            "everything comes back, then the end",
            |world| eager(world, "10.96.1.11:9080"),
        ),
        Row::new(
            "half_server_plain",
            "the server finishes first, plain",
            "the end, while the server still receives everything",
            |world| half_from_server(world, PLAIN),
        ),
        Row::new(
            "half_server_mtls",
            "the server finishes first, in mTLS",
            "the end, while the server still receives everything",
            |world| half_from_server(world, MTLS),
        ),
        Row::new(
            "half_server_gateway",
            "the server finishes first, through the gateway",
            "the end, while the server still receives everything",
            |world| half_from_server(world, GATEWAY),
        ),
        Row::new("large_plain", "32 MiB both ways at once, plain", "all 32 MiB come back", |world| {
            large(world, "10.99.0.1:9001")
        }),
        Row::new("large_mtls", "32 MiB both ways at once, in mTLS", "all 32 MiB come back", |world| {
            large(world, "10.96.1.11:9080")
        }),
        Row::new("large_gateway", "32 MiB both ways, through the gateway", "all 32 MiB come back", |world| {
            large_in_steps(world, GATEWAY)
        }),
        Row::new(
            "slow_reader_plain",
            "a client that writes and does not read, plain",
            "the writer is held back, the proxies do not grow, and everything comes back",
            |world| slow_reader(world, "10.99.0.1:9001", &["client"]),
        ),
        Row::new(
            "slow_reader_mtls",
            "a client that writes and does not read, in mTLS",
            "the writer is held back, the proxies do not grow, and everything comes back",
            |world| slow_reader(world, "10.96.1.11:9080", &["client", "server"]),
        ),
        Row::new("reset_client_plain", "the client breaks off, plain", "the server sees a reset", |world| {
            reset_by_client(world, PLAIN)
        }),
        Row::new("reset_client_mtls", "the client breaks off, in mTLS", "the server sees a reset", |world| {
            reset_by_client(world, MTLS)
        }),
        Row::new(
            "reset_client_gateway",
            "the client breaks off, through the gateway",
            "the server sees a reset",
            |world| reset_by_client(world, GATEWAY),
        ),
        Row::new("reset_server_plain", "the server breaks off, plain", "the client sees a reset", |world| {
            reset_by_server(world, PLAIN)
        }),
        Row::new("reset_server_mtls", "the server breaks off, in mTLS", "the client sees a reset", |world| {
            reset_by_server(world, MTLS)
        }),
        Row::new(
            "reset_server_gateway",
            "the server breaks off, through the gateway",
            "the client sees a reset",
            |world| reset_by_server(world, GATEWAY),
        ),
        Row::new(
            "truncated",
            "mesh TLS whose connection ends without TLS saying so",
            "the server sees a reset",
            |world| truncated(world),
        )
        .differs("the server sees an end", TRUNCATED),
        Row::new("parallel_mtls", "200 connections at once, in mTLS", "all 200 answer", |world| parallel(world, MTLS)),
        Row::new("parallel_gateway", "200 connections at once, through the gateway", "all 200 answer", |world| {
            parallel(world, GATEWAY)
        }),
        Row::new("one_after_another", "200 connections one after another, in mTLS", "all 200 answer", |world| {
            one_after_another(world, MTLS)
        }),
    ],
};
