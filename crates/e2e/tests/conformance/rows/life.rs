//! A proxy's life: administration, new resources and certificates, and its end.

use super::inbound::{HOUR, with_certificate};
use crate::{
    client::{echoes, meet, tell, until},
    servers::PATIENCE,
    table::{Group, Kind, Mesh, Problem, Row, Seen},
    world::{World, identity},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, io::Read as _};

const YAML: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tcp, namespace: app}
spec: {hosts: [tcp.example], addresses: [10.99.0.1], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.11}]}
";

/// Another host besides.
const MORE: &str = "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: more, namespace: app}
spec: {hosts: [more.example], addresses: [10.99.0.2], ports: [{number: 9001, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.88.1.12}]}
";

const TCP: &str = "10.99.0.1:9001";
const MORE_TCP: &str = "10.99.0.2:9001";
const SERVICE: &str = "10.96.1.11:9080";
const SERVER: &str = "10.44.1.11:9080";

fn status(world: &World, path: &str) -> Seen {
    Ok(format!("status {}", world.admin("client", path)?.0))
}

fn write_resources(world: &World, yaml: &str) -> Result<(), Problem> {
    Ok(fs::write(world.folder("client").join("resources.yaml"), yaml)?)
}

/// How often changed resources were refused.
fn refusals(world: &World) -> Result<u64, Problem> {
    let (_, metrics) = world.admin("client", "/metrics")?;
    let lines = metrics.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        line.contains("reloads_total{") && line.contains("resources") && line.contains("refused")
    });
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(counts.sum())
}

fn reload(world: &World) -> Seen {
    let mut before = world.connect("client", TCP)?;
    tell(&mut before, "echo")?;
    if meet(world.connect("client", MORE_TCP))? != "refused" {
        return Ok("it knows the new host before it is told".into());
    }
    write_resources(world, &format!("{YAML}{MORE}"))?;
    until("the new host is known", || {
        meet(world.connect("client", MORE_TCP)).ok().filter(|seen| seen == "reaches two")
    })?;
    echoes(&mut before)?;
    Ok("the new host is reached, and connections go on".into())
}

fn broken(world: &World) -> Seen {
    let before = refusals(world)?;
    write_resources(
        world,
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: tcp}\nspec: {hosts: 7}\n",
    )?;
    until("the refusal is counted", || refusals(world).ok().filter(|count| *count > before))?;
    let seen = meet(world.connect("client", TCP))?;
    write_resources(world, YAML)?;
    until("the host of the broken resources is gone", || {
        meet(world.connect("client", MORE_TCP)).ok().filter(|seen| seen == "refused")
    })?;
    Ok(match seen.as_str() {
        "reaches one" => "the refusal is counted, and what was before holds".into(),
        _ => seen,
    })
}

fn rotation(world: &World) -> Seen {
    let mut before = world.connect("client", SERVICE)?;
    tell(&mut before, "echo")?;
    let dated = |world: &World| -> Option<String> {
        let (_, dump) = world.admin("client", "/config_dump").ok()?;
        Some(dump.lines().find(|line| line.contains("notAfter"))?.to_owned())
    };
    let old = dated(world).ok_or("/config_dump tells nothing of the certificate")?;
    let certificate = world.authorities.mesh.issue(&identity("app", "client"), 2 * HOUR)?;
    let folder = world.folder("client");
    fs::write(folder.join("key.pem"), &certificate.key_pem)?;
    fs::write(folder.join("cert-chain.pem"), &certificate.chain_pem)?;
    until("the new certificate is in force", || dated(world).filter(|new| *new != old))?;
    echoes(&mut before)?;
    let seen = meet(world.connect("client", SERVICE))?;
    Ok(match seen.as_str() {
        "reaches server" => "connections go on, and new ones are made with the new certificate".into(),
        _ => seen,
    })
}

fn rollover(world: &World) -> Seen {
    let successor = world.authorities.mesh.successor()?;
    let certificate = successor.issue(&identity("app", "client"), HOUR)?;
    let first = with_certificate(world, SERVER, Some(&certificate))?;
    fs::write(world.folder("server").join("root-cert.pem"), successor.trust_bundle_pem())?;
    until("the new authority is trusted", || {
        with_certificate(world, SERVER, Some(&certificate)).ok().filter(|seen| seen == "reaches server")
    })?;
    let old = meet(world.connect("client", SERVICE))?;
    Ok(format!("{first}, then reaches server, as does the old one: {old}"))
}

/// The peer's proxy is killed: what it has not said is not to be taken for said.
fn killed(world: &World) -> Seen {
    let mut socket = world.connect("client", SERVICE)?;
    tell(&mut socket, "echo")?;
    kill(Pid::from_raw(world.testbed.pid(world.proxy("server")).cast_signed()), Signal::SIGKILL)?;
    Ok(match socket.read(&mut [0; 100]) {
        Ok(0) => "the client sees an end".into(),
        Ok(_) => "the client sees something else".into(),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => "the client sees a reset".into(),
        Err(error) => return crate::client::ended(&error),
    })
}

fn drain(world: &mut World) -> Seen {
    let mut before = world.connect("client", TCP)?;
    tell(&mut before, "echo")?;
    let proxy = world.proxy("client");
    kill(Pid::from_raw(world.testbed.pid(proxy).cast_signed()), Signal::SIGTERM)?;
    let drains = until("it is not ready any more", || match world.admin("client", "/healthz/ready") {
        Ok((503, _)) => Some(true),
        Err(_) => Some(false),
        Ok(_) => None,
    })?;
    if !drains {
        let on = echoes(&mut before).is_ok();
        return Ok(if on {
            "it ends at once, and connections go on"
        } else {
            "it ends at once, and connections with it"
        }
        .into());
    }
    echoes(&mut before)?;
    let new = meet(world.connect("client", TCP))?;
    drop(before);
    let status = world.testbed.stop(proxy, PATIENCE)?;
    Ok(format!("not ready, connections go on, new ones are {new}, and it ends with the last, {status}"))
}

fn drain_deadline(world: &mut World) -> Seen {
    let mut before = world.connect("other", TCP)?;
    tell(&mut before, "echo")?;
    let status = world.testbed.stop(world.proxy("other"), PATIENCE)?;
    Ok(match before.read(&mut [0; 100]) {
        Ok(0) => format!("the connection sees an end, {status}"),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
            format!("the connection is broken off, {status}")
        }
        _ => "the connection goes on".into(),
    })
}

const NO_CONTROL_PLANE: &str = "Envoy takes changes from Istio's control plane, by xDS; here its configuration is a file that it reads at its start.";

pub(crate) const GROUP: Group = Group {
    name: "life",
    about: "A proxy's life: administration, new resources and certificates, and its end.",
    mesh: Mesh {
        yaml: &[YAML],
        services: &[("client", Kind::Sidecar), ("server", Kind::Sidecar), ("other", Kind::Sidecar)],
        drain_seconds: Some(4),
        ..Mesh::DEFAULT
    },
    rows: &[
        Row::new("admin_ready", "/healthz/ready of a proxy that is ready", "status 200", |world| {
            status(world, "/healthz/ready")
        })
        .differs("status 404", "In Istio that path is the agent's, on port 15021; Envoy's own is `/ready`. Meshtoll needs no agent."),
        Row::new("admin_metrics", "/metrics", "status 200", |world| status(world, "/metrics"))
            .differs("status 404", "Envoy's path is `/stats/prometheus`. Meshtoll has the one that Prometheus asks for by default."),
        Row::new("admin_config_dump", "/config_dump", "status 200, without private keys", |world| {
            let (status, body) = world.admin("client", "/config_dump")?;
            let keys = if body.contains("PRIVATE KEY") { "with" } else { "without" };
            Ok(format!("status {status}, {keys} private keys"))
        }),
        Row::new("admin_counters", "/counters", "status 200", |world| status(world, "/counters"))
            .differs("status 404", "Envoy's counters are at `/stats`."),
        Row::new("admin_from_outside", "the administration port, from another pod", "refused", |world| {
            meet(world.connect("stranger", "10.44.1.10:15000"))
        }),
        Row::new(
            "reload",
            "a resource is added while the proxy runs",
            "the new host is reached, and connections go on",
            |world| reload(world),
        )
        .not_on_envoy(NO_CONTROL_PLANE),
        Row::new(
            "reload_broken",
            "a resource is broken while the proxy runs",
            "the refusal is counted, and what was before holds",
            |world| broken(world),
        )
        .not_on_envoy(NO_CONTROL_PLANE),
        Row::new(
            "certificate_rotation",
            "certificate and key are replaced while the proxy runs",
            "connections go on, and new ones are made with the new certificate",
            |world| rotation(world),
        )
        .not_on_envoy("Envoy takes certificates from Istio's agent, by SDS; here they are files that it reads at its start."),
        Row::new(
            "trust_bundle_rollover",
            "a peer's certificate is of a new authority, which is then added to the trust bundle",
            "refused, then reaches server, as does the old one: reaches server",
            |world| rollover(world),
        )
        .not_on_envoy("Envoy takes certificates from Istio's agent, by SDS; here they are files that it reads at its start."),
        Row::new(
            "peer_proxy_killed",
            "the server's proxy is killed while a connection is open",
            "the client sees a reset",
            |world| killed(world),
        )
        .differs(
            "the client sees an end",
            "Envoy takes the end of the TCP connection for the end of what is said in it. Meshtoll passes on as an end what TLS \
             says is one.",
        ),
        Row::new(
            "drain",
            "SIGTERM while a connection is open",
            "not ready, connections go on, new ones are refused, and it ends with the last, exit status: 0",
            drain,
        )
        .differs(
            "it ends at once, and connections with it",
            "In Istio the agent drains Envoy before it ends it. Meshtoll needs no agent.",
        ),
        Row::new(
            "drain_deadline",
            "SIGTERM while a connection is open that does not end",
            "the connection is broken off, exit status: 0",
            drain_deadline,
        )
        .differs(
            "the connection sees an end, exit status: 0",
            "Envoy closes what is open as if it had ended. Meshtoll waits until the deadline, and then breaks off, so that nobody \
             takes what he got for the whole.",
        ),
    ],
};
