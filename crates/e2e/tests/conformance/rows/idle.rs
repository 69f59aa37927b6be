//! Connections on which nothing is said, where the limit is two seconds.

use crate::{
    client::{echoes, tell},
    table::{Group, Kind, Mesh, Row, Seen},
    world::World,
};
use std::{
    io::{self, Read as _},
    net::TcpStream,
    time::{Duration, Instant},
};

const YAML: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tcp, namespace: app}
spec: {hosts: [tcp.example], addresses: [10.99.0.1], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
";

const LIMIT: u32 = 2;

fn open(world: &World, to: &str) -> io::Result<TcpStream> {
    let mut socket = world.connect("client", to)?;
    tell(&mut socket, "echo")?;
    Ok(socket)
}

fn idle(world: &World, to: &str) -> Seen {
    let mut socket = open(world, to)?;
    let since = Instant::now();
    let read = socket.read(&mut [0; 100]);
    let after = since.elapsed();
    if after < Duration::from_secs(LIMIT.into()) - Duration::from_millis(100) {
        return Ok("closed too early".into());
    }
    Ok(match read {
        Ok(0) => "closed".into(),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => "closed".into(),
        _ => "left open".into(),
    })
}

fn busy(world: &World, to: &str) -> Seen {
    let mut socket = open(world, to)?;
    for _ in 0..8 {
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        match socket.read(&mut [0; 100]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return Ok("closed".into()),
        }
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        echoes(&mut socket)?;
    }
    Ok("left open".into())
}

pub(crate) const GROUP: Group = Group {
    name: "idle",
    about: "Connections on which nothing is said, where the limit is two seconds. Resources have no word for it; both are told by their configuration.",
    mesh: Mesh {
        yaml: &[YAML],
        services: &[("client", Kind::Sidecar), ("server", Kind::Sidecar)],
        idle_seconds: Some(LIMIT),
        ..Mesh::DEFAULT
    },
    rows: &[
        Row::new("idle_plain", "nothing is said for longer than the limit, plain", "closed", |world| {
            idle(world, "10.99.0.1:9001")
        }),
        Row::new("idle_mtls", "nothing is said for longer than the limit, in mTLS", "closed", |world| {
            idle(world, "10.96.1.11:9080")
        }),
        Row::new(
            "busy_plain",
            "something is said every half second, for longer than the limit",
            "left open",
            |world| busy(world, "10.99.0.1:9001"),
        ),
        Row::new("busy_mtls", "the same, in mTLS", "left open", |world| busy(world, "10.96.1.11:9080")),
    ],
};
