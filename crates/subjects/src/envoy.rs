//! Envoy, configured as Istio's control plane configures it for the same resources, but from a file.
//!
//! Left out, because only Istio's own build of Envoy has it or because it depends on a control plane: the filters
//! `istio.metadata_exchange`, `istio.stats` and `istio.alpn`, tracing, certificates by SDS, routes by RDS; and the filters
//! `fault`, `cors` and `grpc_stats`, which do nothing without further configuration. All counters are kept, where Istio
//! keeps a selection. So what is measured is Envoy, rather a little cheaper than Istio's.

mod bootstrap;
mod cluster;
mod filters;
mod gateway;
mod rbac;
mod server_name;
mod sidecar;
mod stats;
mod tls;

use crate::{ProxyContext, Subject, Unsupported, counters};
use meshtoll_model::{
    ids::{HopName, SubjectName},
    process::{ConfigFile, ProcessSpec, Program, Ready, Role, RunAs},
    topology::{ADMIN_PORT, HttpHandling},
};
use meshtoll_policy::routes::{GatewayRoutes, SidecarRoutes};
use serde_json::Value;

/// Envoy as sidecar and egress gateway.
#[derive(Clone, Copy, Debug)]
pub struct Envoy;

impl Subject for Envoy {
    fn name(&self) -> SubjectName {
        SubjectName::new("envoy")
    }

    fn sidecar(&self, routes: &SidecarRoutes, context: &ProxyContext<'_>) -> Result<ProcessSpec, Unsupported> {
        let hop = HopName::new(format!("{}/sidecar", context.workload));
        let resources = sidecar::resources(&hop, routes, context)?;
        Ok(process(hop, Role::Sidecar, resources, context))
    }

    fn gateway(&self, routes: &GatewayRoutes, context: &ProxyContext<'_>) -> Result<ProcessSpec, Unsupported> {
        let hop = HopName::new(format!("{}/gateway", context.workload));
        let resources = gateway::resources(&hop, routes, context)?;
        Ok(process(hop, Role::Gateway, resources, context))
    }

    fn http(&self, asked: HttpHandling) -> HttpHandling {
        asked
    }

    fn counters_path(&self) -> &'static str {
        stats::PATH
    }

    fn counters(&self, answer: &str) -> Result<counters::Counters, counters::Unreadable> {
        stats::parse(answer)
    }
}

/// What Envoy would be sent by a control plane.
struct Resources {
    listeners: Vec<Value>,
    clusters: Vec<Value>,
}

const CONFIG: &str = "envoy.json";

fn process(hop: HopName, role: Role, resources: Resources, context: &ProxyContext<'_>) -> ProcessSpec {
    let mut config = bootstrap::bootstrap(&hop, resources, context);
    // The order of keys would otherwise depend on features that other crates of the build ask of serde_json.
    config.sort_all_objects();
    let threads = context.settings.worker_threads.to_string();
    let args = ["-c", CONFIG, "--concurrency", &threads, "--log-level", "warning", "--disable-hot-restart"];
    ProcessSpec {
        hop,
        role,
        program: Program::Envoy,
        args: args.map(str::to_owned).to_vec(),
        env: Vec::new(),
        files: vec![
            ConfigFile::public(CONFIG, format!("{config:#}\n")),
            ConfigFile::public(tls::CERTIFICATE_CHAIN, &*context.certificate.chain_pem),
            ConfigFile::secret(tls::PRIVATE_KEY, &*context.certificate.key_pem),
            ConfigFile::public(tls::TRUST_BUNDLE, context.trust_bundle),
        ],
        run_as: RunAs::Proxy,
        ready: Ready::Http { port: ADMIN_PORT, path: "/ready".to_owned() },
    }
}
