//! A mesh on one subject, and the world around it.

use crate::{
    dns::Names,
    programs,
    servers::{Log, PATIENCE, Speech, serve},
    table::{Kind, Mesh, Problem},
    tls,
};
use meshtoll_identity::{ExternalCa, MeshCa, WorkloadCertificate};
use meshtoll_model::{
    diagnostics::SourceFile,
    ids::SpiffeId,
    istio::{self, CheckedResources, MeshFacts},
    process::{ConfigFile, ProcessSpec, Program},
    topology::{ExternalHost, GatewayWorkload, HttpHandling, ProxyMarking, ProxySettings, Service, Topology},
};
use meshtoll_policy::{compile_gateway, compile_sidecar};
use meshtoll_subjects::{MeshSource, ProxyContext, Subject, by_name};
use meshtoll_testbed::{
    Testbed,
    interception::Interception,
    network::Network,
    pod::{PodId, PodSpec},
    process::ProcessId,
    sandbox::Sandbox,
};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, TcpListener, UdpSocket},
    path::PathBuf,
    time::Duration,
};

pub(crate) const DNS: Ipv4Addr = Ipv4Addr::new(10, 44, 1, 2);
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 44, 1, 3);
pub(crate) const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 44, 1, 200);
pub(crate) const ONE: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 11);
pub(crate) const TWO: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 12);
const THREE: Ipv4Addr = Ipv4Addr::new(10, 88, 1, 13);
/// The services' port.
pub(crate) const PORT: u16 = 9080;
/// Where their applications listen besides, which no resource says.
pub(crate) const UNKNOWN_PORT: u16 = 9081;
/// Where the external servers speak TLS.
const TLS_PORTS: [u16; 2] = [443, 8444];
/// Where they speak TLS and demand a certificate of the partner's.
const MUTUAL_PORT: u16 = 8446;
/// Where they speak TLS with a certificate that nobody trusts.
const UNTRUSTED_PORT: u16 = 8447;
const SECONDS_OF_A_CERTIFICATE: u64 = 3600;

/// What the certificates of TLS servers are for. No wildcard of a top-level domain: clients do not take these.
const NAMES: &[&str] = &[
    "a.example",
    "dns.example",
    "exact.example",
    "mtls.example",
    "mutual.example",
    "nothing.example",
    "other.example",
    "pass.example",
    "real.example",
    "simple.example",
    "untrusted.example",
    "deep.wild.example",
    "*.wild.example",
    "*.orig.example",
    "*.deep.wild.example",
    "*.dyn.example",
    "missing.test",
];

pub(crate) struct World {
    pub(crate) subject: String,
    pub(crate) testbed: Testbed,
    pub(crate) topology: Topology,
    pub(crate) names: Names,
    pub(crate) log: Log,
    pub(crate) authorities: Authorities,
    pods: BTreeMap<String, PodId>,
    proxies: BTreeMap<String, ProcessId>,
}

pub(crate) struct Authorities {
    pub(crate) mesh: MeshCa,
    /// Of another trust domain, that the mesh knows.
    pub(crate) friend: MeshCa,
    /// Of the mesh's trust domain by its own account, that the mesh does not know.
    pub(crate) forger: MeshCa,
    pub(crate) external: ExternalCa,
    pub(crate) partner: MeshCa,
}

impl Authorities {
    fn new() -> Result<Self, Problem> {
        Ok(Self {
            mesh: MeshCa::new("cluster.local")?,
            friend: MeshCa::new("friend.local")?,
            forger: MeshCa::new("cluster.local")?,
            external: ExternalCa::new("external")?,
            partner: MeshCa::new("partner.example")?,
        })
    }

    fn trust_bundle(&self) -> String {
        self.mesh.trust_bundle_pem() + &self.friend.trust_bundle_pem()
    }

    pub(crate) fn workload(&self, identity: &SpiffeId) -> Result<WorkloadCertificate, Problem> {
        Ok(self.mesh.issue(identity, Duration::from_secs(SECONDS_OF_A_CERTIFICATE))?)
    }
}

impl World {
    pub(crate) fn bring_up(mesh: &Mesh, subject: &str, sandbox: Sandbox) -> Result<Self, Problem> {
        let marking = if sandbox.is_rootless() { ProxyMarking::SocketMark } else { ProxyMarking::Uid };
        let mut world = Self {
            subject: subject.to_owned(),
            testbed: Testbed::new(sandbox, programs::find())?,
            topology: topology(mesh, subject, marking),
            names: Names::default(),
            log: Log::default(),
            authorities: Authorities::new()?,
            pods: BTreeMap::new(),
            proxies: BTreeMap::new(),
        };
        world.surroundings()?;
        world.proxies_of(mesh)?;
        Ok(world)
    }

    /// What is outside of the mesh, and DNS.
    fn surroundings(&mut self) -> Result<(), Problem> {
        let dns = self.add_pod("dns", Network::Mesh, DNS, false)?;
        let socket = self.testbed.within(dns, || UdpSocket::bind((DNS, 53)))??;
        self.names.serve(socket);
        for service in &self.topology.services {
            self.names.set(&service.host, &[service.virtual_ip]);
        }
        self.names.set("*.example", &[ONE]);
        self.names.set("two.dyn.example", &[TWO]);
        self.names.set("three.dyn.example", &[THREE]);
        self.names.set("loopback.dyn.example", &[Ipv4Addr::LOCALHOST]);
        self.names.set("private.dyn.example", &[STRANGER]);

        let certificate = self.authorities.external.issue_server(NAMES)?;
        let untrusted = ExternalCa::new("nobody")?.issue_server(NAMES)?;
        let tls = Speech::Tls(tls::server(&certificate, None));
        let mutual = Speech::Tls(tls::server(&certificate, Some(&self.authorities.partner.trust_bundle_pem())));
        let untrusted = Speech::Tls(tls::server(&untrusted, None));
        for (name, address) in [("one", ONE), ("two", TWO), ("three", THREE)] {
            self.add_pod(name, Network::World, address, false)?;
            for port in TLS_PORTS {
                self.serve(name, port, name, tls.clone())?;
            }
            self.serve(name, MUTUAL_PORT, name, mutual.clone())?;
            self.serve(name, UNTRUSTED_PORT, name, untrusted.clone())?;
            self.serve(name, 80, name, Speech::Http)?;
            self.serve(name, 9000, name, Speech::First)?;
            self.serve(name, 9001, name, Speech::Lines)?;
        }
        // A port that the other address of the name refuses.
        self.serve("one", 9002, "one", Speech::Lines)?;
        self.names.set("pair.example", &[THREE, ONE]);
        self.add_pod("stranger", Network::Mesh, STRANGER, false)?;
        self.serve("stranger", TLS_PORTS[1], "stranger", tls.clone())?;
        if self.topology.gateway.is_some() {
            let pod = self.add_pod("egress-gateway", Network::Mesh, GATEWAY, false)?;
            let loopback = (Ipv4Addr::LOCALHOST, TLS_PORTS[1]);
            let listener = self.testbed.within(pod, || TcpListener::bind(loopback))??;
            serve(listener, "loopback", tls, &self.log);
        }
        Ok(())
    }

    fn proxies_of(&mut self, mesh: &Mesh) -> Result<(), Problem> {
        let sources = [SourceFile { path: "resources.yaml".into(), text: mesh.yaml.join("---") }];
        let checked = istio::parse(&sources).and_then(|it| it.check(&MeshFacts::of(&self.topology)));
        let resources = checked.map_err(|problems| problems.to_string())?;
        let services = self.topology.services.clone();
        for (service, (_, kind)) in services.iter().zip(mesh.services) {
            let name = service.name.as_str();
            let has_sidecar = !matches!(kind, Kind::Impostor | Kind::Bare);
            self.add_pod(name, Network::Mesh, service.pod_ip, has_sidecar)?;
            let speech = match kind {
                Kind::Sidecar | Kind::Bare => Speech::Lines,
                Kind::SpeaksFirst => Speech::First,
                Kind::SpeaksTls => Speech::Tls(tls::server(&self.authorities.external.issue_server(NAMES)?, None)),
                Kind::Impostor => {
                    Speech::Tls(tls::workload_server(&self.authorities.workload(&identity("app", "mallory"))?))
                }
            };
            self.serve(name, PORT, name, speech)?;
            self.serve(name, UNKNOWN_PORT, name, Speech::Lines)?;
            if has_sidecar {
                let spec = self.sidecar(service, &resources, &sources)?;
                self.start(name, spec, mesh)?;
            }
        }
        if let Some(gateway) = self.topology.gateway.clone() {
            let routes = compile_gateway(&resources, &self.topology)?;
            let certificate = self.authorities.workload(&gateway.identity)?;
            let bundle = self.authorities.trust_bundle();
            let context = self.context("egress-gateway", &certificate, &bundle, &sources);
            let spec = self.subject()?.gateway(&routes, &context)?;
            self.start("egress-gateway", spec, mesh)?;
        }
        let processes: Vec<ProcessId> = self.proxies.values().copied().collect();
        Ok(self.testbed.wait_ready(&processes, PATIENCE)?)
    }

    fn sidecar(
        &self,
        service: &Service,
        resources: &CheckedResources,
        sources: &[SourceFile],
    ) -> Result<ProcessSpec, Problem> {
        let routes = compile_sidecar(resources, &self.topology, &service.name)?;
        let certificate = self.authorities.workload(&service.identity)?;
        let bundle = self.authorities.trust_bundle();
        let context = self.context(service.name.as_str(), &certificate, &bundle, sources);
        let mut spec = self.subject()?.sidecar(&routes, &context)?;
        let partner = identity("app", "client");
        let partner = SpiffeId { trust_domain: "partner.example".into(), ..partner };
        let partner = self.authorities.partner.issue(&partner, Duration::from_secs(SECONDS_OF_A_CERTIFICATE))?;
        spec.files.extend([
            ConfigFile::public("external-ca.pem", self.authorities.external.trust_bundle_pem()),
            ConfigFile::public("partner-chain.pem", partner.chain_pem),
            ConfigFile::secret("partner-key.pem", partner.key_pem),
        ]);
        Ok(spec)
    }

    fn subject(&self) -> Result<Box<dyn Subject>, Problem> {
        Ok(by_name(&self.subject)?)
    }

    fn context<'a>(
        &'a self,
        workload: &'a str,
        certificate: &'a WorkloadCertificate,
        trust_bundle: &'a str,
        resources: &'a [SourceFile],
    ) -> ProxyContext<'a> {
        ProxyContext {
            workload,
            certificate,
            trust_bundle,
            dns: DNS,
            marking: self.topology.proxy_marking,
            settings: &self.topology.proxy,
            mesh: MeshSource { topology: &self.topology, resources },
        }
    }

    fn start(&mut self, name: &str, mut spec: ProcessSpec, mesh: &Mesh) -> Result<(), Problem> {
        match spec.program {
            Program::Meshtoll => {
                if let Some(seconds) = mesh.idle_seconds {
                    spec.args.extend(["--idle-timeout".to_owned(), format!("{seconds}s")]);
                }
                if let Some(seconds) = mesh.drain_seconds {
                    spec.args.extend(["--drain".to_owned(), format!("{seconds}s")]);
                }
            }
            _ => {
                if let Some(seconds) = mesh.idle_seconds {
                    let file = &mut spec.files[0];
                    let mut config = serde_json::from_str(&file.contents)?;
                    set_idle_timeout(&mut config, seconds);
                    file.contents = config.to_string();
                }
            }
        }
        let process = self.testbed.spawn(self.pod(name), &spec)?;
        self.proxies.insert(name.to_owned(), process);
        Ok(())
    }

    fn add_pod(&mut self, name: &str, network: Network, address: Ipv4Addr, sidecar: bool) -> Result<PodId, Problem> {
        let interception = sidecar.then(|| Interception {
            inbound_ports_excluded: Vec::new(),
            excluded_outbound: Vec::new(),
            marking: self.topology.proxy_marking,
        });
        let pod = self.testbed.add_pod(&PodSpec { name: name.to_owned(), network, address, dns: DNS, interception })?;
        self.pods.insert(name.to_owned(), pod);
        Ok(pod)
    }

    /// A server in a pod.
    fn serve(&self, pod: &str, port: u16, name: &str, speech: Speech) -> Result<(), Problem> {
        let listener = self.testbed.within(self.pod(pod), || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))??;
        serve(listener, name, speech, &self.log);
        Ok(())
    }

    pub(crate) fn pod(&self, name: &str) -> PodId {
        self.pods[name]
    }

    pub(crate) fn proxy(&self, name: &str) -> ProcessId {
        self.proxies[name]
    }

    /// Folder of a proxy's files.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.testbed.folder(self.proxy(name)).to_owned()
    }

    /// What the proxies said last.
    pub(crate) fn last_words(&self) -> String {
        let mut words = String::new();
        for name in self.proxies.keys() {
            let text = std::fs::read_to_string(self.folder(name).join("stderr.log")).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            for line in &lines[lines.len().saturating_sub(3)..] {
                words += &format!("\n    {name}: {line}");
            }
        }
        words
    }
}

pub(crate) fn identity(namespace: &str, service_account: &str) -> SpiffeId {
    SpiffeId {
        trust_domain: "cluster.local".into(),
        namespace: namespace.into(),
        service_account: service_account.into(),
    }
}

fn topology(mesh: &Mesh, subject: &str, proxy_marking: ProxyMarking) -> Topology {
    let services = (10..).zip(mesh.services).map(|(last, (name, _))| Service {
        name: (*name).into(),
        host: format!("{name}.app.svc.cluster.local"),
        virtual_ip: Ipv4Addr::new(10, 96, 1, last),
        pod_ip: Ipv4Addr::new(10, 44, 1, last),
        port: PORT,
        identity: identity("app", name),
    });
    Topology {
        case: "conformance".into(),
        subject: subject.into(),
        services: services.collect(),
        gateway: mesh.gateway.then(|| GatewayWorkload {
            host: "istio-egressgateway.istio-system.svc.cluster.local".into(),
            virtual_ip: Ipv4Addr::new(10, 96, 1, 3),
            pod_ip: GATEWAY,
            labels: vec![("istio".into(), "egressgateway".into())],
            identity: identity("istio-system", "istio-egressgateway-service-account"),
            sni_proxy_port: None,
        }),
        external: [("one.example", ONE), ("two.example", TWO), ("three.example", THREE)]
            .map(|(host, address)| ExternalHost { host: host.into(), address, port: 443 })
            .into(),
        dns: DNS,
        proxy_marking,
        proxy: ProxySettings {
            worker_threads: 1,
            http: HttpHandling::Tcp,
            access_log: true,
            registry_only: mesh.registry_only,
        },
    }
}

/// Gives every relay of a configuration of Envoy's a time-out that resources have no word for.
fn set_idle_timeout(config: &mut serde_json::Value, seconds: u32) {
    let is_relay = |value: &serde_json::Value| {
        value.get("@type").and_then(|it| it.as_str()).is_some_and(|it| it.ends_with(".TcpProxy"))
    };
    if is_relay(config) {
        config["idle_timeout"] = format!("{seconds}s").into();
    }
    match config {
        serde_json::Value::Object(fields) => fields.values_mut().for_each(|it| set_idle_timeout(it, seconds)),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|it| set_idle_timeout(it, seconds)),
        _ => {}
    }
}
