//! The cases: each is a run of a testbed inside a sandbox.

use meshtoll_model::{
    cidr::Cidr,
    process::{ConfigFile, ProcessSpec, Program, Ready, Role, RunAs},
    topology::{PROXY_MARK, ProxyMarking},
    units::Nanos,
};
use meshtoll_testbed::{
    Testbed, TestbedError,
    dns::Zone,
    interception::Interception,
    network::Network,
    pod::{PodId, PodSpec},
    probe::{HostTasks, MachineTimes},
    process::{ProcessId, Programs},
    sandbox::Sandbox,
};
use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::Ipv4Addr,
    process::{ChildStdin, ChildStdout, Command},
    time::{Duration, Instant},
};

pub(crate) type Problem = Box<dyn Error + Send + Sync>;
type Result<T = (), E = Problem> = std::result::Result<T, E>;

pub(crate) const NAMES: &[&str] = &[
    "exchange",
    "interception_by_uid",
    "interception_by_mark",
    "dns",
    "secrets",
    "confinement",
    "death",
    "orphans",
    "http",
    "names",
    "many_pods",
    "the_router_keeps_its_address",
    "cpu",
    "machine",
];

/// Cases that need more than one uid.
pub(crate) const NEEDS_ROOT: &[&str] = &["interception_by_uid"];

const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn run(name: &str, sandbox: Sandbox) -> Result {
    match name {
        "exchange" => exchange(sandbox),
        "interception_by_uid" => interception(sandbox, ProxyMarking::Uid),
        "interception_by_mark" => interception(sandbox, ProxyMarking::SocketMark),
        "dns" => dns(sandbox),
        "secrets" => secrets(sandbox),
        "confinement" => confinement(sandbox),
        "death" => death(sandbox),
        "orphans" => orphans(sandbox),
        "http" => http(sandbox),
        "names" => names(sandbox),
        "many_pods" => many_pods(sandbox),
        "the_router_keeps_its_address" => the_router_keeps_its_address(sandbox),
        "cpu" => cpu(sandbox),
        "machine" => machine(sandbox),
        "until_told" => crate::remains::until_told(sandbox),
        "stubborn" => crate::remains::stubborn(sandbox),
        "error" => crate::remains::failing(sandbox),
        "panic" => crate::remains::panicking(sandbox),
        other => Err(format!("unknown case {other}").into()),
    }
}

pub(crate) fn testbed(sandbox: Sandbox) -> Result<Testbed> {
    let programs = Programs { meshtoll: "/proc/self/exe".into(), envoy: "/nowhere".into(), nginx: "/nowhere".into() };
    Ok(Testbed::new(sandbox, programs)?)
}

/// A pod without interception; the last octet of its address tells it from others on its network.
pub(crate) fn pod(name: &str, network: Network, last: u8) -> PodSpec {
    let [a, b, c, _] = network.node_address().octets();
    let dns = network.node_address();
    PodSpec { name: name.into(), network, address: Ipv4Addr::new(a, b, c, last), dns, interception: None }
}

pub(crate) fn process(name: &str, run_as: RunAs, words: &[&str], ready: Ready) -> ProcessSpec {
    ProcessSpec {
        hop: name.into(),
        role: Role::Service,
        program: Program::Meshtoll,
        args: ["--process"].iter().chain(words).map(|word| (*word).to_owned()).collect(),
        env: Vec::new(),
        files: Vec::new(),
        run_as,
        ready,
    }
}

pub(crate) fn serve(testbed: &mut Testbed, pod: PodId, name: &str, run_as: RunAs, port: u16) -> Result<ProcessId> {
    let spec = process(name, run_as, &["serve", name, &port.to_string()], Ready::Tcp(port));
    let id = testbed.spawn(pod, &spec)?;
    testbed.wait_ready(&[id], TIMEOUT)?;
    Ok(id)
}

/// An agent in a pod, to be told what to do.
struct Agent {
    id: ProcessId,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Agent {
    fn start(testbed: &mut Testbed, pod: PodId, name: &str, run_as: RunAs) -> Result<Self> {
        let (id, stdin, stdout) = testbed.spawn_piped(pod, &process(name, run_as, &["agent"], Ready::Started))?;
        Ok(Self { id, stdin, stdout: BufReader::new(stdout) })
    }

    fn tell(&mut self, order: &str) -> Result<String> {
        writeln!(self.stdin, "{order}")?;
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} instead of {expected:?}").into()) }
}

fn exchange(sandbox: Sandbox) -> Result {
    let mut testbed = testbed(sandbox)?;
    let client = testbed.add_pod(&pod("client", Network::Mesh, 2))?;
    let near = testbed.add_pod(&pod("near", Network::Mesh, 3))?;
    let far = testbed.add_pod(&pod("far", Network::World, 2))?;
    serve(&mut testbed, near, "near/app", RunAs::Application, 443)?;
    serve(&mut testbed, far, "far/app", RunAs::Application, 27017)?;
    let mut agent = Agent::start(&mut testbed, client, "client/agent", RunAs::Application)?;
    expect("same network", agent.tell("connect 10.44.0.3:443")?.as_str(), "near/app 10.44.0.3:443 10.44.0.2")?;
    expect("routed", agent.tell("connect 10.88.0.2:27017")?.as_str(), "far/app 10.88.0.2:27017 10.44.0.2")?;
    expect("nobody listens", agent.tell("connect 10.88.0.2:1")?.as_str(), "ConnectionRefused")?;
    expect("own loopback", agent.tell("connect 127.0.0.1:443")?.as_str(), "ConnectionRefused")?;
    Ok(testbed.check_alive()?)
}

fn interception(sandbox: Sandbox, marking: ProxyMarking) -> Result {
    let mut testbed = testbed(sandbox)?;
    let mut spec = pod("app", Network::Mesh, 2);
    let excluded_outbound = vec![Cidr::around(Ipv4Addr::new(10, 88, 0, 0), 24)];
    spec.interception = Some(Interception { inbound_ports_excluded: vec![9999], excluded_outbound, marking });
    let app = testbed.add_pod(&spec)?;
    let peer = testbed.add_pod(&pod("peer", Network::Mesh, 3))?;
    let excluded = testbed.add_pod(&pod("excluded", Network::World, 2))?;
    let intercepted =
        testbed.add_pod(&PodSpec { address: Ipv4Addr::new(10, 88, 1, 2), ..pod("intercepted", Network::World, 0) })?;

    for port in [9080, 9999, 15021] {
        serve(&mut testbed, app, &format!("app/at-{port}"), RunAs::Application, port)?;
    }
    serve(&mut testbed, app, "app/outbound", RunAs::Proxy, 15001)?;
    serve(&mut testbed, app, "app/inbound", RunAs::Proxy, 15006)?;
    serve(&mut testbed, peer, "peer/app", RunAs::Application, 9080)?;
    serve(&mut testbed, excluded, "excluded/app", RunAs::Application, 27017)?;
    serve(&mut testbed, intercepted, "intercepted/app", RunAs::Application, 27017)?;

    let mut application = Agent::start(&mut testbed, app, "app/application", RunAs::Application)?;
    let mut proxy = Agent::start(&mut testbed, app, "app/proxy", RunAs::Proxy)?;
    let mut outside = Agent::start(&mut testbed, peer, "peer/agent", RunAs::Application)?;

    let mut tell = |what: &str, address: &str, expected: &str| {
        let (agent, mark) = match what {
            "application" => (&mut application, String::new()),
            "proxy" if marking == ProxyMarking::SocketMark => (&mut proxy, format!(" {PROXY_MARK}")),
            "proxy" => (&mut proxy, String::new()),
            _ => (&mut outside, String::new()),
        };
        let answer = agent.tell(&format!("connect {address}{mark}"))?;
        expect(&format!("{what} to {address}"), answer.as_str(), expected)
    };
    tell("application", "10.44.0.3:9080", "app/outbound 10.44.0.3:9080 10.44.0.2")?;
    tell("application", "10.88.1.2:27017", "app/outbound 10.88.1.2:27017 10.44.0.2")?;
    tell("application", "10.96.0.1:80", "app/outbound 10.96.0.1:80 10.44.0.2")?;
    tell("application", "10.88.0.2:27017", "excluded/app 10.88.0.2:27017 10.44.0.2")?;
    tell("application", "127.0.0.1:9080", "app/at-9080 127.0.0.1:9080 127.0.0.1")?;
    tell("application", "10.44.0.2:9080", "app/at-9080 10.44.0.2:9080 10.44.0.2")?;
    tell("proxy", "10.44.0.3:9080", "peer/app 10.44.0.3:9080 10.44.0.2")?;
    tell("proxy", "10.88.1.2:27017", "intercepted/app 10.88.1.2:27017 10.44.0.2")?;
    tell("proxy", "127.0.0.1:9080", "app/at-9080 127.0.0.1:9080 127.0.0.1")?;
    tell("proxy", "10.44.0.2:9080", "app/inbound 10.44.0.2:9080 10.44.0.2")?;
    tell("outside", "10.44.0.2:9080", "app/inbound 10.44.0.2:9080 10.44.0.3")?;
    tell("outside", "10.44.0.2:15021", "app/at-15021 10.44.0.2:15021 10.44.0.3")?;
    tell("outside", "10.44.0.2:9999", "app/at-9999 10.44.0.2:9999 10.44.0.3")
}

fn dns(sandbox: Sandbox) -> Result {
    let mut testbed = testbed(sandbox)?;
    let address = |last| vec![Ipv4Addr::new(10, 88, 0, last)];
    let many: Vec<Ipv4Addr> = (1..=60).map(|last| Ipv4Addr::new(10, 88, 7, last)).collect();
    let zone = Zone::new(
        5,
        BTreeMap::from([
            ("db.example".to_owned(), address(2)),
            ("*.wild.example".to_owned(), address(3)),
            ("booking.default.svc.cluster.local".to_owned(), address(4)),
            ("many.example".to_owned(), many),
        ]),
    )?;
    // On loopback too, where readiness is looked for.
    let words = ["dns", "zone.json", "10.44.0.1:53", "10.88.0.1:53", "127.0.0.1:53"];
    let mut spec = process("node/dns", RunAs::Application, &words, Ready::Tcp(53));
    spec.files.push(ConfigFile::public("zone.json", zone.to_json()));
    let server = testbed.spawn_on_node(&spec)?;
    testbed.wait_ready(&[server], TIMEOUT)?;

    let pod = testbed.add_pod(&pod("client", Network::Mesh, 2))?;
    let mut agent = Agent::start(&mut testbed, pod, "client/agent", RunAs::Application)?;
    for (question, answer) in [
        ("4 db.example", "10.88.0.2"),
        ("4 DB.example.", "10.88.0.2"),
        ("6 db.example", "no address"),
        ("4 a.wild.example", "10.88.0.3"),
        ("4 b.a.wild.example", "10.88.0.3"),
        ("4 booking.default.svc.cluster.local", "10.88.0.4"),
        ("4 other.example", "no such name"),
        ("6 other.example", "no such name"),
        ("4 client", "10.44.0.2"),
        ("4 localhost", "127.0.0.1"),
    ] {
        expect(question, agent.tell(&format!("resolve {question}"))?.as_str(), answer)?;
    }
    // Too many for a datagram: the C library asks again by TCP.
    let many = agent.tell("resolve 4 many.example")?;
    expect("addresses by TCP", many.split(' ').count(), 60)?;
    expect("ended by SIGTERM", testbed.stop(server, TIMEOUT)?.success(), true)?;
    let counts = fs::read_to_string(testbed.folder(server).join("stdout.log"))?;
    expect("counts", counts.trim(), r#"{"queries":10,"no_such_name":2,"malformed":0}"#)
}

fn secrets(sandbox: Sandbox) -> Result {
    let rootless = sandbox.is_rootless();
    let mut testbed = testbed(sandbox)?;
    let pod = testbed.add_pod(&pod("pod", Network::Mesh, 2))?;
    let mut spec = process("pod/proxy", RunAs::Proxy, &["agent"], Ready::Started);
    spec.files = vec![ConfigFile::secret("key.pem", "private"), ConfigFile::public("config", "public")];
    let (id, stdin, stdout) = testbed.spawn_piped(pod, &spec)?;
    let mut owner = Agent { id, stdin, stdout: BufReader::new(stdout) };
    let mut other = Agent::start(&mut testbed, pod, "pod/app", RunAs::Application)?;
    let folder = testbed.folder(owner.id).to_str().unwrap_or_default().to_owned();
    // It starts in its folder, so names without a path do.
    expect("own secret", owner.tell("read key.pem")?.as_str(), "private")?;
    expect("public file", other.tell(&format!("read {folder}/config"))?.as_str(), "public")?;
    let foreign = if rootless { "private" } else { "PermissionDenied" };
    expect("other's secret", other.tell(&format!("read {folder}/key.pem"))?.as_str(), foreign)?;
    expect("printed", format!("{spec:?}").contains("private"), false)
}

fn confinement(sandbox: Sandbox) -> Result {
    let rootless = sandbox.is_rootless();
    let mut testbed = testbed(sandbox)?;
    let pod = testbed.add_pod(&pod("pod", Network::Mesh, 2))?;
    for (run_as, uid, capabilities) in [(RunAs::Application, 1000, 0), (RunAs::Proxy, 1337, 1_u64 << 12)] {
        let mut agent = Agent::start(&mut testbed, pod, &format!("pod/{uid}"), run_as)?;
        let status = agent.tell("read /proc/self/status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")).ok_or(format!("no {name}"))
        };
        let (uid, capabilities) = if rootless { (0, capabilities) } else { (uid, 0) };
        expect("uid", field("Uid")?, format!("{uid} {uid} {uid} {uid}"))?;
        expect("gid", field("Gid")?, format!("{uid} {uid} {uid} {uid}"))?;
        for set in ["CapEff", "CapPrm", "CapBnd"] {
            expect(set, u64::from_str_radix(&field(set)?, 16)?, capabilities)?;
        }
        expect("no new privileges", field("NoNewPrivs")?.as_str(), "1")?;
        let pid = testbed.pid(agent.id).to_string();
        expect("own session", agent.tell("read /proc/self/stat")?.split(' ').nth(5), Some(pid.as_str()))?;
        let environment = agent.tell("read /proc/self/environ")?;
        expect("variables", environment.split_terminator('\0').count(), 3)?;
    }
    let resolver = Agent::start(&mut testbed, pod, "pod/reader", RunAs::Application)?.tell("read /etc/resolv.conf")?;
    expect("resolver", resolver.as_str(), "nameserver 10.44.0.1\noptions ndots:1\n")
}

fn death(sandbox: Sandbox) -> Result {
    let mut testbed = testbed(sandbox)?;
    let pod = testbed.add_pod(&pod("pod", Network::Mesh, 2))?;
    let well = serve(&mut testbed, pod, "pod/well", RunAs::Application, 80)?;
    let ill = testbed.spawn(pod, &process("pod/ill", RunAs::Application, &["fail"], Ready::Tcp(81)))?;
    let Err(TestbedError::Exited(death)) = testbed.wait_ready(&[well, ill], TIMEOUT) else {
        return Err("its death was not noticed".into());
    };
    expect("who", death.hop.as_str(), "pod/ill")?;
    expect("exit code", death.status.code(), Some(1))?;
    let lines: Vec<&str> = death.stderr.lines().collect();
    expect("lines", lines.len(), 20)?;
    expect("first line", lines.first().copied(), Some("line 12"))?;
    expect("last line", lines.last().copied(), Some("this process fails on purpose"))?;
    expect("noticed later", testbed.check_alive().is_err(), true)?;
    testbed.stop(ill, TIMEOUT)?;
    testbed.check_alive()?;

    let never = testbed.spawn(pod, &process("pod/never", RunAs::Application, &["agent"], Ready::Tcp(82)));
    let Err(error) = never.and_then(|never| testbed.wait_ready(&[never], Duration::from_millis(50))) else {
        return Err("an agent has no port".into());
    };
    // Without standard input an agent ends at once: either is right.
    expect("never ready", matches!(error, TestbedError::NotReady { .. } | TestbedError::Exited(_)), true)?;
    let missing = ProcessSpec { program: Program::Envoy, ..process("pod/envoy", RunAs::Proxy, &[], Ready::Started) };
    let error = testbed.spawn(pod, &missing).err().map(|error| error.to_string());
    expect("missing", error.as_deref(), Some("Envoy is not at /nowhere: see `meshtoll doctor`"))?;
    testbed.run_to_end(pod, &process("pod/good", RunAs::Application, &["succeed"], Ready::Started), TIMEOUT)?;
    let bad = process("pod/bad", RunAs::Application, &["fail"], Ready::Started);
    let error = testbed.run_to_end(pod, &bad, TIMEOUT);
    expect("a bad end", matches!(error, Err(TestbedError::Exited(_))), true)
}

fn orphans(sandbox: Sandbox) -> Result {
    let interruption = sandbox.interruption();
    let mut testbed = testbed(sandbox)?;
    let pod = testbed.add_pod(&pod("pod", Network::Mesh, 2))?;
    let mut agent = Agent::start(&mut testbed, pod, "pod/agent", RunAs::Application)?;
    let orphan = std::path::PathBuf::from(format!("/proc/{}", agent.tell("orphan")?));
    let started = Instant::now();
    while orphan.exists() {
        expect("reaped in time", started.elapsed() < TIMEOUT, true)?;
        interruption.wait(Duration::from_millis(5));
    }
    Ok(testbed.check_alive()?)
}

fn http(sandbox: Sandbox) -> Result {
    let mut testbed = testbed(sandbox)?;
    let pod = testbed.add_pod(&pod("pod", Network::Mesh, 2))?;
    let ready = Ready::Http { port: 15000, path: "/stats".into() };
    let admin = testbed.spawn(pod, &process("pod/admin", RunAs::Proxy, &["http", "15000"], ready))?;
    testbed.wait_ready(&[admin], TIMEOUT)?;
    expect("answer", testbed.http_get(pod, 15000, "/stats")?.as_str(), "stats: 1")?;
    let problem = |port, path| -> Option<String> {
        let error = testbed.http_get(pod, port, path).err()?;
        Some(format!("{error}: {}", error.source()?))
    };
    let expected = "GET 127.0.0.1:15000/other in pod `pod` failed: the answer is 404 Not Found";
    expect("other path", problem(15000, "/other").as_deref(), Some(expected))?;
    let expected = "GET 127.0.0.1:15001/stats in pod `pod` failed: cannot connect";
    expect("nobody listens", problem(15001, "/stats").as_deref(), Some(expected))
}

fn names(sandbox: Sandbox) -> Result {
    let mut testbed = testbed(sandbox)?;
    let first = testbed.add_pod(&pod("first", Network::Mesh, 2))?;
    for wrong in [
        pod("first", Network::Mesh, 3),
        pod("node", Network::Mesh, 3),
        pod("../up", Network::Mesh, 3),
        pod("", Network::Mesh, 3),
        pod("second", Network::Mesh, 2),
        pod("second", Network::Mesh, 1),
        PodSpec { network: Network::World, ..pod("second", Network::Mesh, 3) },
    ] {
        expect(&format!("{wrong:?}"), testbed.add_pod(&wrong).is_err(), true)?;
    }
    testbed.spawn(first, &process("first/app", RunAs::Application, &["agent"], Ready::Started))?;
    for wrong in ["first/app", "first/", "first/.."] {
        let spec = process(wrong, RunAs::Application, &["agent"], Ready::Started);
        expect(wrong, testbed.spawn(first, &spec).is_err(), true)?;
    }
    let mut spec = process("first/other", RunAs::Application, &["agent"], Ready::Started);
    spec.files.push(ConfigFile::public("../app/stderr.log", ""));
    expect("a file elsewhere", testbed.spawn(first, &spec).is_err(), true)
}

fn many_pods(sandbox: Sandbox) -> Result {
    let marking = if sandbox.is_rootless() { ProxyMarking::SocketMark } else { ProxyMarking::Uid };
    let mut testbed = testbed(sandbox)?;
    let started = Instant::now();
    for index in 0..45 {
        let interception =
            Some(Interception { inbound_ports_excluded: Vec::new(), excluded_outbound: Vec::new(), marking });
        testbed.add_pod(&PodSpec { interception, ..pod(&format!("pod-{index}"), Network::Mesh, index + 2) })?;
    }
    let took = started.elapsed();
    println!("45 pods in {took:?}");
    expect("in time", took < Duration::from_secs(20), true)
}

/// Pods that came first remember where the router is: were its address another one with each pod that joins, what they
/// send would be lost until they ask again, seconds later.
fn the_router_keeps_its_address(sandbox: Sandbox) -> Result {
    let mut testbed = testbed(sandbox)?;
    let link = |network: Network| -> Result<String> {
        let output = Command::new("ip").args(["-o", "link", "show", network.bridge()]).output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(text.split("link/ether ").nth(1).ok_or("no address")?.chars().take(17).collect())
    };
    for network in [Network::Mesh, Network::World] {
        let before = link(network)?;
        for index in 2..6 {
            testbed.add_pod(&pod(&format!("{}-{index}", network.bridge()), network, index))?;
        }
        expect(network.bridge(), link(network)?, before)?;
    }
    Ok(())
}

fn cpu(sandbox: Sandbox) -> Result {
    let mut testbed = testbed(sandbox)?;
    let pod = testbed.add_pod(&pod("pod", Network::Mesh, 2))?;
    let mut agent = Agent::start(&mut testbed, pod, "pod/agent", RunAs::Application)?;
    let start: u64 = agent.tell("spin 0")?.parse()?;
    let before = testbed.cpu(agent.id)?;
    let own = agent.tell("spin 500")?.parse::<u64>()? - start;
    let after = testbed.cpu(agent.id)?;
    let seen = after.since(before);
    let near = |what: &str, seen: Nanos, tolerance: f64| {
        let error = (seen.0 as f64 / own as f64 - 1.0).abs();
        if error < tolerance { Ok(()) } else { Err(format!("{what}: {seen:?}, but it says {own}")) }
    };
    near("CPU clock", seen.total, 0.02)?;
    near("user and system", seen.user + seen.system, 0.06)?;
    expect("memory", (500_000..500_000_000).contains(&testbed.memory(agent.id)?), true)?;
    let switches = testbed.context_switches(agent.id)?;
    expect("context switches", switches.voluntary > 0, true)
}

fn machine(sandbox: Sandbox) -> Result {
    let mut testbed = testbed(sandbox)?;
    let pod = testbed.add_pod(&pod("pod", Network::Mesh, 2))?;
    let mut agent = Agent::start(&mut testbed, pod, "pod/agent", RunAs::Application)?;
    let mut host = HostTasks::new()?;
    let start = MachineTimes::read()?;
    agent.tell("spin 500")?;
    let spent = MachineTimes::read()?.since(&start);
    let (kernel, foreign) = (host.kernel_threads()?, host.foreign()?);
    expect(&format!("busy {spent:?}"), spent.busy() > Nanos(480_000_000), true)?;
    // Counters in 10 ms steps on either side of the exact wall time.
    let most = spent.capacity + Nanos(50_000_000);
    expect(&format!("others {kernel:?} {foreign:?} {spent:?}"), kernel + foreign + Nanos(480_000_000) < most, true)
}
