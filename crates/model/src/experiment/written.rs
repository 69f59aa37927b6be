//! An experiment as it was written: every value with its place, nothing decided yet.

use super::{API_VERSION, MeshTls, OutboundTrafficPolicy, PathHop};
use crate::{
    application::Application,
    cidr::Cidr,
    diagnostics::{Diagnostics, Place, SourceFile},
    host::HostPattern,
    topology::HttpHandling,
    yaml::{Decode, Located, Node, Port, documents, keyword, record},
};
use std::{collections::BTreeMap, time::Duration};

/// The one experiment of a file.
pub(super) fn read(file: &SourceFile, problems: &mut Diagnostics) -> Option<Written> {
    let nodes = documents(file, problems);
    match nodes.as_slice() {
        [node] => Written::decode(node, problems),
        [] => {
            if problems.0.is_empty() {
                let place = Place::new(file.path.as_path().into(), 1, 1, "");
                problems.error(&place, "the file is empty: an experiment was expected");
            }
            None
        }
        [_, second, ..] => {
            problems.error(&second.place, "a file has one experiment: remove this document");
            None
        }
    }
}

record! {
    Written {
        required _api_version: ApiVersion = "apiVersion",
        required _kind: Kind = "kind",
        required name: Located<String> = "name",
        required question: Located<String> = "question",
        required application: WrittenApplication = "application",
        required database: WrittenDatabase = "database",
        required mesh: WrittenMesh = "mesh",
        optional egress_gateway: WrittenGateway = "egressGateway",
        required proxies: WrittenProxies = "proxies",
        required subjects: Located<Vec<Located<String>>> = "subjects",
        required baseline: Located<String> = "baseline",
        required cases: Located<Vec<WrittenCase>> = "cases",
        required profiles: Located<BTreeMap<String, Located<WrittenProfile>>> = "profiles",
        optional published: WrittenPublished = "published",
    }
}

record! {
    WrittenApplication {
        required name: Application = "name",
        required app_work: Duration = "appWork",
        required customers: Located<u32> = "customers",
    }
}

record! {
    WrittenDatabase {
        required host: Located<HostPattern> = "host",
        required port: Port = "port",
    }
}

record! {
    WrittenMesh {
        required trust_domain: Located<String> = "trustDomain",
        required namespace: Located<String> = "namespace",
        required outbound_traffic_policy: OutboundTrafficPolicy = "outboundTrafficPolicy",
    }
}

record! {
    WrittenGateway {
        required host: Located<HostPattern> = "host",
        required labels: Located<BTreeMap<String, String>> = "labels",
        required service_account: Located<String> = "serviceAccount",
        required namespace: Located<String> = "namespace",
    }
}

record! {
    WrittenProxies {
        required worker_threads: Located<u32> = "workerThreads",
        required access_log: bool = "accessLog",
        optional http: HttpHandling = "http",
    }
}

record! {
    WrittenCase {
        required name: Located<String> = "name",
        required description: Located<String> = "description",
        required resources: Located<String> = "resources",
        optional interception: WrittenInterception = "interception",
        optional sni_proxy: Located<bool> = "sniProxy",
        required promise: WrittenPromise = "promise",
    }
}

record! {
    WrittenInterception {
        required exclude_outbound_ip_ranges: Located<Vec<Located<Cidr>>> = "excludeOutboundIPRanges",
    }
}

record! {
    WrittenPromise {
        required path: Located<Vec<Located<PathHop>>> = "path",
        required mesh_tls: Located<MeshTls> = "meshTls",
    }
}

record! {
    WrittenProfile {
        optional clients: Located<Vec<Located<u32>>> = "clients",
        optional rates: Located<Vec<Located<u32>>> = "rates",
        required lead_in: Duration = "leadIn",
        required slice: Located<Duration> = "slice",
        required rounds: Located<u32> = "rounds",
    }
}

record! {
    WrittenPublished {
        required source: Located<String> = "source",
        required setting: Located<String> = "setting",
        required findings: Located<Vec<WrittenFinding>> = "findings",
    }
}

record! {
    WrittenFinding {
        required case: Located<String> = "case",
        optional relative_throughput: Located<f64> = "relativeThroughput",
        required text: Located<String> = "text",
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ApiVersion;

impl Decode for ApiVersion {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        keyword(node, problems, &[(API_VERSION, Self)], &[])
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind;

impl Decode for Kind {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        keyword(node, problems, &[("Experiment", Self)], &[])
    }
}

impl Decode for Application {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        keyword(node, problems, &[("airline", Self::Airline)], &[])
    }
}

impl Decode for OutboundTrafficPolicy {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = [("REGISTRY_ONLY", Self::RegistryOnly), ("ALLOW_ANY", Self::AllowAny)];
        keyword(node, problems, &words, &[])
    }
}

impl Decode for HttpHandling {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        keyword(node, problems, &[("tcp", Self::Tcp), ("full", Self::Full)], &[])
    }
}

impl Decode for PathHop {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        let words = [Self::Sidecar, Self::Gateway, Self::SniProxy].map(|hop| (hop.as_str(), hop));
        keyword(node, problems, &words, &[])
    }
}

impl Decode for MeshTls {
    fn decode(node: &Node, problems: &mut Diagnostics) -> Option<Self> {
        keyword(node, problems, &[("none", Self::None), ("mutual", Self::Mutual)], &[])
    }
}
