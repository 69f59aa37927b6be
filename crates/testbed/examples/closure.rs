//! How much of the machine's busy time the probes account for, and what a reading costs:
//! `cargo run --release --example closure`.
//!
//! Two processes in two pods exchange small messages over TCP, as fast as they can or at a fixed rate. Processes, kernel threads and
//! foreign processes should add up to the machine's busy time, but for what it spends on waking up.

#![expect(clippy::print_stdout, reason = "this is a program of its own")]

use meshtoll_model::{
    process::{ProcessSpec, Program, Ready, Role, RunAs},
    units::Nanos,
};
use meshtoll_testbed::{
    Testbed,
    network::Network,
    pod::PodSpec,
    probe::{HostTasks, MachineTimes},
    process::Programs,
    sandbox::{Entered, Mode, Sandbox, enter},
};
use nix::time::ClockId;
use std::{
    env,
    error::Error,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

const WINDOW: Duration = Duration::from_secs(2);

fn main() -> Result<ExitCode> {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve"] => serve()?,
        ["drive", connections, rate] => drive(connections.parse()?, rate.parse()?)?,
        _ => match enter(Mode::Automatic)? {
            Entered::Inside(sandbox) => measure(sandbox)?,
            Entered::Ended(code) => return Ok(ExitCode::from(code)),
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn serve() -> Result {
    for stream in TcpListener::bind((Ipv4Addr::UNSPECIFIED, 80))?.incoming() {
        let mut stream = stream?;
        stream.set_nodelay(true)?;
        thread::spawn(move || {
            let mut message = [0; 64];
            while stream.read_exact(&mut message).and_then(|()| stream.write_all(&message)).is_ok() {}
        });
    }
    Ok(())
}

/// `rate` messages a second on each connection, or as many as go when it is 0.
fn drive(connections: u32, rate: u32) -> Result {
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            thread::spawn(move || -> std::io::Result<()> {
                let mut stream = TcpStream::connect((Ipv4Addr::new(10, 44, 0, 3), 80))?;
                stream.set_nodelay(true)?;
                let (mut message, mut due) = ([7; 64], Instant::now());
                loop {
                    stream.write_all(&message)?;
                    stream.read_exact(&mut message)?;
                    if rate > 0 {
                        due += Duration::from_secs(1) / rate;
                        rest(due.saturating_duration_since(Instant::now()));
                    }
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .try_for_each(|thread| thread.join().map_err(|_| "a connection's thread panicked")?.map_err(Into::into))
}

#[expect(clippy::disallowed_methods, reason = "pacing and measuring a span of time is what this program is for")]
fn rest(time: Duration) {
    thread::sleep(time);
}

fn measure(sandbox: Sandbox) -> Result {
    let programs = Programs { meshtoll: "/proc/self/exe".into(), envoy: "/nowhere".into(), nginx: "/nowhere".into() };
    let mut testbed = Testbed::new(sandbox, programs)?;
    let dns = Network::Mesh.node_address();
    let mut pod = |name: &str, last| {
        let address = Ipv4Addr::new(10, 44, 0, last);
        testbed.add_pod(&PodSpec { name: name.into(), network: Network::Mesh, address, dns, interception: None })
    };
    let (client, server) = (pod("client", 2)?, pod("server", 3)?);
    let process = |name: &str, words: &[&str], ready| ProcessSpec {
        hop: name.into(),
        role: Role::Service,
        program: Program::Meshtoll,
        args: words.iter().map(|word| (*word).to_owned()).collect(),
        env: Vec::new(),
        files: Vec::new(),
        run_as: RunAs::Application,
        ready,
    };
    let serving = testbed.spawn(server, &process("server/app", &["serve"], Ready::Tcp(80)))?;
    testbed.wait_ready(&[serving], Duration::from_secs(5))?;
    let mut host = HostTasks::new()?;

    println!(
        "in % of the machine; at the end in % of busy: what the probes miss, and the part of that in which no task ran"
    );
    println!(
        "{:<24}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}{:>9}",
        "load", "busy", "pods", "lab", "kernel", "foreign", "tasks", "missed", "no task"
    );
    for (name, connections, rate) in [
        ("saturated, 16 clients", 16, 0),
        ("saturated, 2 clients", 2, 0),
        ("saturated, 1 client", 1, 0),
        ("8000/s", 4, 2000),
        ("2000/s", 4, 500),
        ("500/s", 1, 500),
        ("idle", 0, 1),
    ] {
        let words = ["drive", &connections.to_string(), &rate.to_string()];
        let driving =
            testbed.spawn(client, &process(&format!("client/{connections}-{rate}"), &words, Ready::Started))?;
        let pods = || -> Result<Nanos> {
            let client = if connections > 0 { testbed.cpu(driving)?.total } else { Nanos(0) };
            Ok(client + testbed.cpu(serving)?.total)
        };
        rest(Duration::from_millis(300));
        let mut look = || -> Result<_> {
            let lab = ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?;
            let lab = Nanos(lab.tv_sec() as u64 * 1_000_000_000 + lab.tv_nsec() as u64);
            Ok((host.kernel_threads()?, host.foreign()?, pods()?, lab, MachineTimes::read()?))
        };
        let before = look()?;
        rest(WINDOW);
        let after = look()?;
        let machine = after.4.since(&before.4);
        let part = |time: Nanos| 100.0 * time.0 as f64 / machine.capacity.0 as f64;
        let busy = part(machine.busy());
        let (kernel, foreign) = (part(after.0.since(before.0)), part(after.1.since(before.1)));
        let (pods, lab) = (part(after.2.since(before.2)), part(after.3.since(before.3)));
        let sum = pods + lab + kernel + foreign;
        let tasks = machine.tasks.map_or(f64::NAN, part);
        let outside_tasks = machine.outside_tasks().map_or(f64::NAN, part);
        println!(
            "{name:<24}{busy:>8.2}{pods:>8.2}{lab:>8.2}{kernel:>8.2}{foreign:>8.2}{tasks:>8.2}{:>8.1}%{:>8.1}%",
            100.0 * (busy - sum) / busy,
            100.0 * outside_tasks / busy,
        );
        testbed.stop(driving, Duration::from_secs(1))?;
    }

    let used = || -> Result<f64> {
        let time = ClockId::CLOCK_THREAD_CPUTIME_ID.now()?;
        Ok(time.tv_sec() as f64 * 1e6 + time.tv_nsec() as f64 / 1e3)
    };
    let cost = |what: &str, read: &mut dyn FnMut() -> Result| -> Result {
        let start = used()?;
        (0..100).try_for_each(|_| read())?;
        println!("{what}: {:.1} µs of CPU time", (used()? - start) / 100.0);
        Ok(())
    };
    cost("cpu of 45 processes", &mut || (0..45).try_for_each(|_| Ok(testbed.cpu(serving).map(drop)?)))?;
    cost("memory of 45 processes", &mut || (0..45).try_for_each(|_| Ok(testbed.memory(serving).map(drop)?)))?;
    cost("machine", &mut || Ok(MachineTimes::read().map(drop)?))?;
    cost("kernel threads", &mut || Ok(host.kernel_threads().map(drop)?))?;
    cost("foreign", &mut || Ok(host.foreign().map(drop)?))
}
