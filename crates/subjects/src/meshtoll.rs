//! Meshtoll's own data plane: `meshtoll proxy`, which compiles the same Istio resources itself.

use crate::{ProxyContext, Subject, Unsupported, counters};
use meshtoll_model::{
    ids::{HopName, SubjectName},
    process::{ConfigFile, ProcessSpec, Program, Ready, Role, RunAs},
    topology::{ADMIN_PORT, HttpHandling},
};
use meshtoll_policy::routes::{GatewayRoutes, SidecarRoutes};

/// Meshtoll as sidecar and egress gateway.
#[derive(Clone, Copy, Debug)]
pub struct Meshtoll;

const MESH: &str = "mesh.json";
const RESOURCES: &str = "resources.yaml";
const CERTIFICATE_CHAIN: &str = "cert-chain.pem";
const PRIVATE_KEY: &str = "key.pem";
const TRUST_BUNDLE: &str = "root-cert.pem";
const ACCESS_LOG: &str = "access.log";

impl Subject for Meshtoll {
    fn name(&self) -> SubjectName {
        SubjectName::new("meshtoll")
    }

    fn sidecar(&self, _routes: &SidecarRoutes, context: &ProxyContext<'_>) -> Result<ProcessSpec, Unsupported> {
        Ok(process("sidecar", Role::Sidecar, context))
    }

    fn gateway(&self, _routes: &GatewayRoutes, context: &ProxyContext<'_>) -> Result<ProcessSpec, Unsupported> {
        Ok(process("gateway", Role::Gateway, context))
    }

    /// It passes HTTP on as TCP, whatever is asked for.
    fn http(&self, _asked: HttpHandling) -> HttpHandling {
        HttpHandling::Tcp
    }

    fn counters_path(&self) -> &'static str {
        "/counters"
    }

    fn counters(&self, answer: &str) -> Result<counters::Counters, counters::Unreadable> {
        serde_json::from_str(answer).map_err(|source| counters::Unreadable::Meshtoll { source })
    }
}

fn process(part: &str, role: Role, context: &ProxyContext<'_>) -> ProcessSpec {
    let threads = context.settings.worker_threads.to_string();
    let admin = format!("127.0.0.1:{ADMIN_PORT}");
    let mut args = vec!["proxy", part, "--mesh", MESH, "--resources", RESOURCES, "--workload", context.workload];
    args.extend(["--certificates", ".", "--admin", &admin, "--threads", &threads]);
    if context.settings.access_log {
        args.extend(["--access-log", ACCESS_LOG]);
    }
    // What is external here has private addresses; they alone may be what wildcard hosts resolve to.
    let external = &context.mesh.topology.external;
    let external: Vec<String> = external.iter().map(|host| format!("{}/32", host.address)).collect();
    args.extend(external.iter().flat_map(|address| ["--allow-private", address]));
    ProcessSpec {
        hop: HopName::new(format!("{}/{part}", context.workload)),
        role,
        program: Program::Meshtoll,
        args: args.into_iter().map(str::to_owned).collect(),
        env: Vec::new(),
        files: vec![
            ConfigFile::public(MESH, mesh(context)),
            ConfigFile::public(RESOURCES, resources(context)),
            ConfigFile::public(CERTIFICATE_CHAIN, &*context.certificate.chain_pem),
            ConfigFile::secret(PRIVATE_KEY, &*context.certificate.key_pem),
            ConfigFile::public(TRUST_BUNDLE, context.trust_bundle),
        ],
        run_as: RunAs::Proxy,
        ready: Ready::Http { port: ADMIN_PORT, path: "/healthz/ready".to_owned() },
    }
}

fn mesh(context: &ProxyContext<'_>) -> String {
    let mut json = serde_json::to_value(context.mesh.topology)
        .unwrap_or_else(|error| unreachable!("a topology is always JSON: {error}"));
    // The order of keys would otherwise depend on features that other crates of the build ask of serde_json.
    json.sort_all_objects();
    format!("{json:#}\n")
}

/// All documents as one file.
fn resources(context: &ProxyContext<'_>) -> String {
    let documents: Vec<&str> = context.mesh.resources.iter().map(|file| file.text.trim_end()).collect();
    format!("{}\n", documents.join("\n---\n"))
}
