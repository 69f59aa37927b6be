//! What a request costs this load generator, beside wrk: closed loop, 20 connections, rounds of both in turn.
//!
//! `cargo bench -p meshtoll-load` runs both against a server of its own that answers 620 bytes;
//! `cargo bench -p meshtoll-load -- SCENARIO.json` against a running service, with a `get` or `query` scenario.

#![expect(clippy::print_stdout, reason = "what a benchmark found is what it prints")]

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use meshtoll_load::{
    Options,
    control::Control,
    protocol::Schedule,
    scenario::{GetConfig, QueryConfig, ScenarioConfig, Target},
};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use std::{
    convert::Infallible,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

const CONNECTIONS: u32 = 20;
const ROUNDS: usize = 5;
const LEAD_IN: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_secs(2);
const BODY_BYTES: usize = 620;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--target"] => serve_target(),
        ["--load", file] => Ok(meshtoll_load::serve(&Options { scenario: read_scenario(file)?, seed: 1 })?),
        [] => {
            let mut target = Companion::start(&["--target"])?;
            let mut address = String::new();
            target.answers.read_line(&mut address)?;
            let target = Target { address: address.trim().parse()?, host: "target.example".to_owned() };
            compare(&ScenarioConfig::Get(GetConfig { target, path: "/".to_owned() }))
        }
        [file] => compare(&read_scenario(file)?),
        _ => bail!("give at most one argument, a file with a `get` or `query` scenario"),
    }
}

fn read_scenario(file: &str) -> anyhow::Result<ScenarioConfig> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    serde_json::from_str(&text).with_context(|| format!("{file} is not a scenario"))
}

/// What one run of one generator came to.
struct Run {
    per_second: f64,
    cpu_micros: f64,
}

/// Runs both in turn, and prints each round and the medians.
fn compare(scenario: &ScenarioConfig) -> anyhow::Result<()> {
    // Its status is no matter: wrk fails after it has told its version.
    if Command::new("wrk").arg("--version").output().is_err() {
        println!("skipped: wrk is not installed (Debian's package `wrk`)");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (file, script) = (folder.path().join("scenario.json"), folder.path().join("request.lua"));
    std::fs::write(&file, serde_json::to_string(scenario)?)?;
    let (target, lua) = wrk_script(scenario)?;
    std::fs::write(&script, lua)?;

    let load = Companion::start(&["--load", file.to_str().context("the temporary folder's name is not UTF-8")?])?;
    let Companion { reaped: load, answers, commands } = load;
    let mut control = Control::new(answers, commands);
    control.prepare(CONNECTIONS)?;

    println!("{CONNECTIONS} connections, closed loop, {WINDOW:?} a run\n");
    println!("round   wrk: requests/s  CPU µs   meshtoll: requests/s  CPU µs   ratio of requests/s");
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let first_wrk = (round % 2 == 0).then(|| run_wrk(target, &script)).transpose()?;
        let ours = run_load(&mut control, load.0.id())?;
        let wrk = first_wrk.map_or_else(|| run_wrk(target, &script), Ok)?;
        let ratio = ours.per_second / wrk.per_second;
        println!(
            "{round:5}   {:15.0}  {:6.2}   {:20.0}  {:6.2}   {ratio:.3}",
            wrk.per_second, wrk.cpu_micros, ours.per_second, ours.cpu_micros
        );
        rounds.push([wrk.per_second, wrk.cpu_micros, ours.per_second, ours.cpu_micros, ratio]);
    }
    let median = |column: usize| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!(
        "median  {:15.0}  {:6.2}   {:20.0}  {:6.2}   {:.3}",
        median(0),
        median(1),
        median(2),
        median(3),
        median(4)
    );
    Ok(())
}

fn run_load(control: &mut Control<BufReader<ChildStdout>, ChildStdin>, pid: u32) -> anyhow::Result<Run> {
    let before = run_time(pid)?;
    let slice = control.drive(Schedule::Closed { clients: CONNECTIONS }, LEAD_IN, WINDOW)?;
    let spent = run_time(pid)?.saturating_sub(before);
    ensure!(slice.errors.is_empty(), "requests failed: {:?}", slice.errors);
    Ok(Run {
        per_second: slice.window_transactions as f64 / WINDOW.as_secs_f64(),
        cpu_micros: spent.as_secs_f64() * 1e6 / slice.transactions as f64,
    })
}

/// CPU time of all threads of a process so far.
fn run_time(pid: u32) -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let schedstat = std::fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += schedstat.split(' ').next().context("schedstat is empty")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

fn run_wrk(target: &Target, script: &Path) -> anyhow::Result<Run> {
    let children = || -> anyhow::Result<i64> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        Ok(usage.user_time().num_microseconds() + usage.system_time().num_microseconds())
    };
    let before = children()?;
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{}s", WINDOW.as_secs()), "-s"])
        .arg(script)
        .arg(format!("http://{}", target.address))
        .output()?;
    let spent = children()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = text.contains("Non-2xx") || text.contains("Socket errors");
    ensure!(output.status.success() && !failed, "wrk failed: {text}{}", String::from_utf8_lossy(&output.stderr));
    let field = |line: &str| text.lines().find_map(|found| found.trim().strip_prefix(line)).map(str::trim);
    let per_second = field("Requests/sec:").context("wrk says no Requests/sec")?.parse()?;
    let requests =
        text.lines().find_map(|line| line.trim().split_once(" requests in")).context("wrk says no requests")?;
    Ok(Run { per_second, cpu_micros: spent as f64 / requests.0.parse::<f64>()? })
}

/// wrk's script for the scenario's one request, and where it goes. Nothing in it runs for each request.
fn wrk_script(scenario: &ScenarioConfig) -> anyhow::Result<(&Target, String)> {
    let (target, path, form) = match scenario {
        ScenarioConfig::Get(get) => (&get.target, get.path.as_str(), None),
        ScenarioConfig::Query(query) => (&query.flight, QueryConfig::PATH, Some(query.form())),
        ScenarioConfig::Airline(_) => bail!("wrk sends one request only: give a `get` or `query` scenario"),
    };
    // A Rust string literal without control characters is one in Lua, too.
    let mut lua = format!("wrk.path = {path:?}\nwrk.headers[\"Host\"] = {:?}\n", target.host);
    if let Some(form) = form {
        lua += &format!("wrk.method = \"POST\"\nwrk.body = {form:?}\n");
        lua += "wrk.headers[\"Content-Type\"] = \"application/x-www-form-urlencoded\"\n";
    }
    Ok((target, lua))
}

/// This program again, in another role.
struct Companion {
    reaped: Reaped,
    answers: BufReader<ChildStdout>,
    commands: ChildStdin,
}

impl Companion {
    fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let reaped = Reaped(child);
        let (commands, answers) = pipes.context("the child has no pipes")?;
        Ok(Self { reaped, answers: BufReader::new(answers), commands })
    }
}

/// Ends a child, by its pid, when dropped.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that answers every request with [`BODY_BYTES`] bytes, on one thread, until its standard input ends.
fn serve_target() -> anyhow::Result<()> {
    let (ending, mut end) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        drop(ending);
    });
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        let body = Bytes::from(vec![b'x'; BODY_BYTES]);
        loop {
            let (stream, _) = tokio::select! {
                accepted = listener.accept() => accepted?,
                _ = &mut end => return Ok(()),
            };
            stream.set_nodelay(true)?;
            let body = body.clone();
            tokio::spawn(async move {
                let service = service_fn(move |_| {
                    let response = Response::new(Full::new(body.clone()));
                    async { Ok::<_, Infallible>(response) }
                });
                // An error is the client's hanging up.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}
