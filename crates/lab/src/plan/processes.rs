//! The pods of a topology and what runs in them.

use super::{ExternalDatabase, Plan, PlanError, PlannedPod, PlannedTopology, external, placement::Addresses};
use crate::database;
use meshtoll_apps::airline::data;
use meshtoll_identity::{ExternalCa, MeshCa, WorkloadCertificate};
use meshtoll_load::scenario::{AirlineConfig, AirlineServices, ScenarioConfig, Target};
use meshtoll_model::{
    diagnostics::SourceFile,
    experiment::Case,
    ids::{HopName, SpiffeId},
    istio::CheckedResources,
    process::{ConfigFile, ProcessSpec, Program, Ready, Role, RunAs},
    topology::{GatewayWorkload, Service, Topology},
};
use meshtoll_policy::{compile_gateway, compile_sidecar};
use meshtoll_subjects::{MeshSource, ProxyContext, Subject, nginx};
use meshtoll_testbed::{dns::Zone, interception::Interception, network::Network, pod::PodSpec};
use std::{net::SocketAddr, time::Duration};

/// How long workload certificates are valid: longer than any run, since nothing rotates them yet.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long DNS answers may be kept, as Kubernetes' DNS says for services.
const DNS_TTL_SECONDS: u32 = 30;
/// Connections of each service to the database.
const POOL_SIZE: u32 = 10;

/// Who vouches for whom in a run.
pub(super) struct Authorities {
    pub(super) mesh: MeshCa,
    pub(super) external: ExternalCa,
    /// What the application signs its sessions with.
    pub(super) session_key: String,
}

/// Makes the pods of one topology.
pub(super) struct Maker<'a> {
    pub(super) plan: &'a Plan,
    pub(super) case: &'a Case,
    pub(super) resources: &'a CheckedResources,
    pub(super) sources: &'a [SourceFile],
    pub(super) subject: &'a dyn Subject,
    pub(super) authorities: &'a Authorities,
    pub(super) database: Option<&'a ExternalDatabase>,
    pub(super) topology: &'a Topology,
    pub(super) index: usize,
}

impl Maker<'_> {
    pub(super) fn make(&self) -> Result<PlannedTopology, PlanError> {
        let mut pods = vec![self.load_pod()];
        for service in &self.topology.services {
            pods.push(self.service_pod(service)?);
        }
        if let Some(gateway) = &self.topology.gateway {
            pods.push(self.gateway_pod(gateway)?);
        }
        pods.push(self.database_pod()?);
        pods.push(self.dns_pod()?);
        Ok(PlannedTopology { topology: self.topology.clone(), pods, loader: self.loader() })
    }

    fn pod(&self, name: &str, network: Network, address: std::net::Ipv4Addr) -> PodSpec {
        PodSpec {
            name: format!("{}-{}-{name}", self.topology.case, self.topology.subject),
            network,
            address,
            dns: self.topology.dns,
            interception: None,
        }
    }

    fn load_pod(&self) -> PlannedPod {
        let target = |name: &str| {
            let service = self.topology.services.iter().find(|service| service.name.as_str() == name);
            // The airline has exactly these services, so that the default is never seen.
            service.map_or_else(
                || Target { address: SocketAddr::from(([0, 0, 0, 0], 0)), host: String::new() },
                |service| Target { address: service.endpoint().into(), host: service.host.clone() },
            )
        };
        let scenario = ScenarioConfig::Airline(AirlineConfig {
            services: AirlineServices {
                auth: target("auth"),
                customer: target("customer"),
                flight: target("flight"),
                booking: target("booking"),
            },
            airports: data::AIRPORTS.iter().map(|(code, _)| (*code).to_owned()).collect(),
            first_day: data::FIRST_DAY,
            days: data::DAYS,
            customers: self.plan.experiment.application.customers,
        });
        let process = ProcessSpec {
            files: vec![ConfigFile::public("scenario.json", to_json(&scenario))],
            ..meshtoll(
                "load/generator",
                Role::Load,
                &["load", "--scenario", "scenario.json", "--seed", &self.plan.seed.to_string()],
            )
        };
        PlannedPod { spec: self.pod("load", Network::Mesh, Addresses::of(self.index).load()), processes: vec![process] }
    }

    fn service_pod(&self, service: &Service) -> Result<PlannedPod, PlanError> {
        let routes = compile_sidecar(self.resources, self.topology, &service.name)
            .map_err(|source| PlanError::Compile { case: self.case.name.clone(), source })?;
        let certificate = self.certificate(&service.identity)?;
        let trust_bundle = self.authorities.mesh.trust_bundle_pem();
        let sidecar = self
            .subject
            .sidecar(&routes, &self.proxy(service.name.as_str(), &certificate, &trust_bundle))
            .map_err(|source| self.unsupported(source))?;
        let mut spec = self.pod(service.name.as_str(), Network::Mesh, service.pod_ip);
        spec.interception = Some(Interception {
            inbound_ports_excluded: Vec::new(),
            excluded_outbound: self.case.exclude_outbound_ip_ranges.clone(),
            marking: self.topology.proxy_marking,
        });
        Ok(PlannedPod { spec, processes: vec![sidecar, self.service(service)] })
    }

    fn service(&self, service: &Service) -> ProcessSpec {
        let listen = format!("0.0.0.0:{}", service.port);
        let work = format!("{}us", self.plan.app_work.as_micros());
        let pool = POOL_SIZE.to_string();
        let url = |name: &str| {
            let host = self.topology.services.iter().find(|other| other.name.as_str() == name);
            host.map_or_else(String::new, |host| format!("http://{}:{}", host.host, host.port))
        };
        let process = ProcessSpec {
            files: vec![ConfigFile::secret("session.key", self.authorities.session_key.clone())],
            ready: Ready::Http { port: service.port, path: "/healthz".to_owned() },
            ..meshtoll(
                &format!("{}/app", service.name),
                Role::Service,
                &[
                    &["app", "airline", service.name.as_str(), "--listen", &listen, "--pool-size", &pool][..],
                    &["--session-key", "session.key", "--app-work", &work],
                    &["--customer-url", &url("customer"), "--flight-url", &url("flight")],
                ]
                .concat(),
            )
        };
        self.with_database(process)
    }

    fn gateway_pod(&self, gateway: &GatewayWorkload) -> Result<PlannedPod, PlanError> {
        let routes = compile_gateway(self.resources, self.topology)
            .map_err(|source| PlanError::Compile { case: self.case.name.clone(), source })?;
        let certificate = self.certificate(&gateway.identity)?;
        let trust_bundle = self.authorities.mesh.trust_bundle_pem();
        let context = self.proxy("egress-gateway", &certificate, &trust_bundle);
        let mut processes = vec![self.subject.gateway(&routes, &context).map_err(|source| self.unsupported(source))?];
        if let Some(listen_port) = gateway.sni_proxy_port {
            let names: Vec<String> =
                routes.servers.iter().flat_map(|server| &server.routes).flat_map(|route| route.names.clone()).collect();
            let sni_proxy = nginx::sni_proxy(&nginx::SniProxy {
                workload: "egress-gateway",
                listen_port,
                names: &names,
                upstream_port: self.plan.experiment.database.port,
                dns: self.topology.dns,
                settings: &self.topology.proxy,
            });
            processes.push(sni_proxy.map_err(|source| self.unsupported(source))?);
        }
        Ok(PlannedPod { spec: self.pod("egress-gateway", Network::Mesh, gateway.pod_ip), processes })
    }

    fn database_pod(&self) -> Result<PlannedPod, PlanError> {
        let database = &self.plan.experiment.database;
        let listen = format!("0.0.0.0:{}", database.port);
        let admin = format!("127.0.0.1:{}", database::ADMIN_PORT);
        let process = match self.database {
            None => {
                let certificate = self.authorities.external.issue_server(&[&database.host])?;
                ProcessSpec {
                    files: vec![
                        ConfigFile::public("certificate.pem", certificate.chain_pem.clone()),
                        ConfigFile::secret("key.pem", certificate.key_pem.clone()),
                    ],
                    ready: Ready::Http { port: database::ADMIN_PORT, path: "/healthz".to_owned() },
                    ..meshtoll(
                        "database/docstore",
                        Role::Database,
                        &[
                            "docstore",
                            "--listen",
                            &listen,
                            "--admin",
                            &admin,
                            "--certificate",
                            "certificate.pem",
                            "--key",
                            "key.pem",
                        ],
                    )
                }
            }
            // Its standard input is the way to the database: see `Running::bring_up`.
            Some(_) => ProcessSpec {
                ready: Ready::Http { port: database::ADMIN_PORT, path: "/healthz".to_owned() },
                ..meshtoll("database/relay", Role::Database, &["relay", "--listen", &listen, "--admin", &admin])
            },
        };
        Ok(PlannedPod {
            spec: self.pod("database", Network::World, Addresses::of(self.index).database()),
            processes: vec![process],
        })
    }

    /// Fills the database from a pod outside of the mesh.
    fn loader(&self) -> ProcessSpec {
        let customers = self.plan.experiment.application.customers.to_string();
        let arguments = ["app", "airline", "load", "--customers", &customers];
        self.with_database(meshtoll("database/loader", Role::Testbed, &arguments))
    }

    fn dns_pod(&self) -> Result<PlannedPod, PlanError> {
        let services = self.topology.services.iter().map(|service| (&service.host, service.virtual_ip));
        let gateway = self.topology.gateway.iter().map(|gateway| (&gateway.host, gateway.virtual_ip));
        let external = self.topology.external.iter().map(|external| (&external.host, external.address));
        let records = services.chain(gateway).chain(external).map(|(host, address)| (host.clone(), vec![address]));
        let zone = Zone::new(DNS_TTL_SECONDS, records.collect())
            .map_err(|source| PlanError::Zone { case: self.case.name.clone(), source })?;
        let listen = [format!("{}:53", self.topology.dns), "127.0.0.1:53".to_owned()];
        Ok(PlannedPod {
            spec: self.pod("dns", Network::Mesh, self.topology.dns),
            processes: vec![ProcessSpec {
                files: vec![ConfigFile::public("zone.json", zone.to_json())],
                ready: Ready::Tcp(53),
                ..meshtoll(
                    "dns/server",
                    Role::Testbed,
                    &["dns", "--listen", &listen[0], "--listen", &listen[1], "--zone", "zone.json"],
                )
            }],
        })
    }

    fn proxy<'b>(
        &'b self,
        workload: &'b str,
        certificate: &'b WorkloadCertificate,
        trust_bundle: &'b str,
    ) -> ProxyContext<'b> {
        ProxyContext {
            workload,
            certificate,
            trust_bundle,
            dns: self.topology.dns,
            marking: self.topology.proxy_marking,
            settings: &self.topology.proxy,
            mesh: MeshSource { topology: self.topology, resources: self.sources },
        }
    }

    fn certificate(&self, identity: &SpiffeId) -> Result<WorkloadCertificate, PlanError> {
        Ok(self.authorities.mesh.issue(identity, CERTIFICATE_LIFETIME)?)
    }

    /// What a client of the database needs: its URI, in a variable because it may hold a password; the CA of its
    /// certificate; and which of its databases to use.
    fn with_database(&self, mut process: ProcessSpec) -> ProcessSpec {
        let inside = &self.plan.experiment.database;
        let (uri, ca) = match self.database {
            None => {
                let uri = format!("mongodb://{}:{}/?tls=true", inside.host, inside.port);
                (uri, Some(self.authorities.external.trust_bundle_pem()))
            }
            Some(external) => {
                process.args.extend([
                    "--database-name".to_owned(),
                    external::database_name(&self.topology.case, &self.topology.subject),
                ]);
                (external.location.uri.clone(), external.ca_pem.clone())
            }
        };
        process.env.push(("MESHTOLL_DATABASE".to_owned(), uri));
        if let Some(ca) = ca {
            process.args.extend(["--database-ca", "database-ca.pem"].map(str::to_owned));
            process.files.push(ConfigFile::public("database-ca.pem", ca));
        }
        process
    }

    fn unsupported(&self, source: meshtoll_subjects::Unsupported) -> PlanError {
        PlanError::Unsupported { case: self.case.name.clone(), subject: self.topology.subject.clone(), source }
    }
}

/// A process of this very binary, run as an application.
fn meshtoll(hop: &str, role: Role, arguments: &[&str]) -> ProcessSpec {
    ProcessSpec {
        hop: HopName::new(hop),
        role,
        program: Program::Meshtoll,
        args: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        env: Vec::new(),
        files: Vec::new(),
        run_as: RunAs::Application,
        ready: Ready::Started,
    }
}

/// A scenario or zone as the file that its process reads.
fn to_json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| unreachable!("plain data is always JSON: {error}"))
}
