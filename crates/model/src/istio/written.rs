//! Istio resources as they were written: every value with its place. Each list of `unsupported` fields holds what
//! Istio 1.27 has in that place and Meshtoll does not act on.

use super::{
    Action, Protocol, ServerTls,
    words::{
        ClientMode, CredentialName, Location, NeedsHttp, Resolution, ServerProtocol, SimpleLoadBalancer, SkipVerify,
        WrittenPeerMode,
    },
};
use crate::{
    diagnostics::{Diagnostics, Place, SourceFile},
    host::HostPattern,
    yaml::{Fields, Located, Node, Port, documents, record},
};
use std::collections::BTreeMap;

/// Kinds that Meshtoll acts on, with their API groups.
const KINDS: [(&str, &str); 6] = [
    ("ServiceEntry", NETWORKING),
    ("Gateway", NETWORKING),
    ("VirtualService", NETWORKING),
    ("DestinationRule", NETWORKING),
    ("PeerAuthentication", SECURITY),
    ("AuthorizationPolicy", SECURITY),
];
/// Istio's other kinds.
const UNSUPPORTED_KINDS: [&str; 8] = [
    "EnvoyFilter",
    "ProxyConfig",
    "RequestAuthentication",
    "Sidecar",
    "Telemetry",
    "WasmPlugin",
    "WorkloadEntry",
    "WorkloadGroup",
];
const NETWORKING: &str = "networking.istio.io";
const SECURITY: &str = "security.istio.io";

/// The resources of some files.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) service_entries: Vec<Resource<ServiceEntry>>,
    pub(crate) gateways: Vec<Resource<Gateway>>,
    pub(crate) virtual_services: Vec<Resource<VirtualService>>,
    pub(crate) destination_rules: Vec<Resource<DestinationRule>>,
    pub(crate) peer_authentications: Vec<Resource<PeerAuthentication>>,
    pub(crate) authorization_policies: Vec<Resource<AuthorizationPolicy>>,
}

/// A resource: who it is, and what it says.
#[derive(Debug)]
pub(crate) struct Resource<T> {
    pub(crate) metadata: Metadata,
    pub(crate) spec: T,
}

impl<T> Resource<T> {
    pub(crate) fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn place(&self) -> &Place {
        &self.metadata.name.place
    }
}

/// Reads all documents of all files.
pub(crate) fn read(files: &[SourceFile], problems: &mut Diagnostics) -> Written {
    let mut written = Written::default();
    for file in files {
        for node in documents(file, problems) {
            written.read(&node, problems);
        }
    }
    written
}

impl Written {
    fn read(&mut self, node: &Node, problems: &mut Diagnostics) -> Option<()> {
        let mut fields = Fields::of(node, problems)?;
        let kind = fields.required::<Located<String>>("kind");
        let api_version = fields.required::<Located<String>>("apiVersion");
        let metadata = fields.required::<Metadata>("metadata");
        let kind = kind?;
        match kind.as_str() {
            "ServiceEntry" => push(&mut self.service_entries, metadata, fields.required("spec")),
            "Gateway" => push(&mut self.gateways, metadata, fields.required("spec")),
            "VirtualService" => push(&mut self.virtual_services, metadata, fields.required("spec")),
            "DestinationRule" => push(&mut self.destination_rules, metadata, fields.required("spec")),
            "PeerAuthentication" => push(&mut self.peer_authentications, metadata, fields.required("spec")),
            "AuthorizationPolicy" => push(&mut self.authorization_policies, metadata, fields.required("spec")),
            _ => {
                let supported: Vec<_> = KINDS.iter().map(|(kind, _)| *kind).collect();
                let what = if UNSUPPORTED_KINDS.contains(&kind.as_str()) {
                    "not supported by Meshtoll"
                } else {
                    "no kind of Istio"
                };
                problems.error(&kind.place, format!("`{}` is {what}; supported: {}", kind.value, supported.join(", ")));
                return None;
            }
        }
        fields.finish(&["status"]);
        check_api_version(&kind, &api_version?, problems);
        Some(())
    }
}

fn push<T>(resources: &mut Vec<Resource<T>>, metadata: Option<Metadata>, spec: Option<T>) {
    resources.extend(metadata.zip(spec).map(|(metadata, spec)| Resource { metadata, spec }));
}

fn check_api_version(kind: &str, written: &Located<String>, problems: &mut Diagnostics) {
    let Some((_, group)) = KINDS.iter().find(|(known, _)| *known == kind) else { return };
    let versions: &[&str] = if *group == SECURITY { &["v1", "v1beta1"] } else { &["v1", "v1beta1", "v1alpha3"] };
    let known = written.split_once('/').is_some_and(|(g, version)| g == *group && versions.contains(&version));
    if !known {
        let accepted: Vec<_> = versions.iter().map(|version| format!("{group}/{version}")).collect();
        let message = format!("`{}` is not an apiVersion of {kind}; accepted: {}", written.value, accepted.join(", "));
        problems.error(&written.place, message);
    }
}

record! {
    Metadata {
        required name: Located<String> = "name",
        required namespace: Located<String> = "namespace",
        optional labels: BTreeMap<String, Located<String>> = "labels",
        optional _annotations: BTreeMap<String, String> = "annotations",
    }
    unsupported [
        "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName",
        "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid",
    ]
}

record! {
    ServiceEntry {
        required hosts: Located<Vec<Located<HostPattern>>> = "hosts",
        optional addresses: Located<Vec<Located<String>>> = "addresses",
        required ports: Located<Vec<ServicePort>> = "ports",
        optional _location: Location = "location",
        optional resolution: Located<Resolution> = "resolution",
        optional endpoints: Located<Vec<Endpoint>> = "endpoints",
        optional export_to: Located<Vec<Located<String>>> = "exportTo",
    }
    unsupported ["subjectAltNames", "workloadSelector"]
}

record! {
    ServicePort {
        required number: Located<Port> = "number",
        required name: Located<String> = "name",
        required protocol: Located<Protocol> = "protocol",
        optional target_port: Port = "targetPort",
    }
}

record! {
    Endpoint {
        required address: Located<String> = "address",
        optional ports: BTreeMap<String, Located<Port>> = "ports",
    }
    unsupported ["labels", "locality", "network", "serviceAccount", "weight"]
}

record! {
    Gateway {
        required selector: Located<BTreeMap<String, Located<String>>> = "selector",
        required servers: Located<Vec<Server>> = "servers",
    }
}

record! {
    Server {
        required port: ServerPort = "port",
        required hosts: Located<Vec<Located<HostPattern>>> = "hosts",
        required tls: ServerTlsSettings = "tls",
    }
    unsupported ["bind", "defaultEndpoint", "name"]
}

record! {
    ServerPort {
        required number: Located<Port> = "number",
        required _name: String = "name",
        required protocol: Located<ServerProtocol> = "protocol",
    }
    unsupported ["targetPort"]
}

record! {
    ServerTlsSettings {
        required mode: Located<ServerTls> = "mode",
    }
    unsupported [
        "caCertCredentialName", "caCertificates", "caCrl", "cipherSuites", "credentialName", "credentialNames",
        "httpsRedirect", "maxProtocolVersion", "minProtocolVersion", "privateKey", "serverCertificate",
        "subjectAltNames", "tlsCertificates", "verifyCertificateHash", "verifyCertificateSpki",
    ]
}

record! {
    VirtualService {
        required hosts: Located<Vec<Located<HostPattern>>> = "hosts",
        optional gateways: Located<Vec<Located<String>>> = "gateways",
        optional tls: Located<Vec<TlsRoute>> = "tls",
        optional tcp: Located<Vec<TcpRoute>> = "tcp",
    }
    unsupported ["exportTo", "http"]
}

record! {
    TlsRoute {
        required matches: Located<Vec<TlsMatch>> = "match",
        required route: Located<Vec<RouteDestination>> = "route",
    }
}

record! {
    TlsMatch {
        required sni_hosts: Located<Vec<Located<HostPattern>>> = "sniHosts",
        optional port: Located<Port> = "port",
        optional gateways: Located<Vec<Located<String>>> = "gateways",
    }
    unsupported ["destinationSubnets", "sourceLabels", "sourceNamespace"]
}

record! {
    TcpRoute {
        optional matches: Located<Vec<TcpMatch>> = "match",
        required route: Located<Vec<RouteDestination>> = "route",
    }
}

record! {
    TcpMatch {
        optional port: Located<Port> = "port",
        optional gateways: Located<Vec<Located<String>>> = "gateways",
    }
    unsupported ["destinationSubnets", "sourceLabels", "sourceNamespace", "sourceSubnet"]
}

record! {
    RouteDestination {
        required destination: Destination = "destination",
        optional weight: Located<u32> = "weight",
    }
}

record! {
    Destination {
        required host: Located<HostPattern> = "host",
        optional subset: Located<String> = "subset",
        optional port: PortSelector = "port",
    }
}

record! {
    PortSelector {
        required number: Located<Port> = "number",
    }
}

record! {
    DestinationRule {
        required host: Located<HostPattern> = "host",
        optional traffic_policy: TrafficPolicy = "trafficPolicy",
        optional subsets: Located<Vec<Subset>> = "subsets",
    }
    unsupported ["exportTo", "workloadSelector"]
}

record! {
    TrafficPolicy {
        optional tls: ClientTlsSettings = "tls",
        optional port_level_settings: Located<Vec<PortLevelSettings>> = "portLevelSettings",
        optional _load_balancer: LoadBalancer = "loadBalancer",
    }
    unsupported ["connectionPool", "outlierDetection", "proxyProtocol", "retryBudget", "tunnel"]
}

record! {
    PortLevelSettings {
        required port: PortSelector = "port",
        optional tls: ClientTlsSettings = "tls",
        optional _load_balancer: LoadBalancer = "loadBalancer",
    }
    unsupported ["connectionPool", "outlierDetection"]
}

record! {
    ClientTlsSettings {
        required mode: Located<ClientMode> = "mode",
        optional sni: Located<HostPattern> = "sni",
        optional subject_alt_names: Located<Vec<Located<HostPattern>>> = "subjectAltNames",
        optional ca_certificates: Located<String> = "caCertificates",
        optional client_certificate: Located<String> = "clientCertificate",
        optional private_key: Located<String> = "privateKey",
        optional _credential_name: CredentialName = "credentialName",
        optional _insecure_skip_verify: SkipVerify = "insecureSkipVerify",
    }
    unsupported ["caCrl"]
}

record! {
    LoadBalancer {
        required _simple: SimpleLoadBalancer = "simple",
    }
    unsupported ["consistentHash", "localityLbSetting", "warmup", "warmupDurationSecs"]
}

record! {
    Subset {
        required name: Located<String> = "name",
        optional labels: BTreeMap<String, Located<String>> = "labels",
        optional traffic_policy: TrafficPolicy = "trafficPolicy",
    }
}

record! {
    PeerAuthentication {
        optional selector: Selector = "selector",
        optional mtls: Mtls = "mtls",
    }
    unsupported ["portLevelMtls"]
}

record! {
    Selector {
        required match_labels: Located<BTreeMap<String, String>> = "matchLabels",
    }
}

record! {
    Mtls {
        required mode: Located<WrittenPeerMode> = "mode",
    }
}

record! {
    AuthorizationPolicy {
        optional selector: Selector = "selector",
        optional action: Located<Action> = "action",
        optional rules: Located<Vec<AuthorizationRule>> = "rules",
    }
    unsupported ["provider", "targetRef", "targetRefs"]
}

record! {
    AuthorizationRule {
        optional from: Located<Vec<From>> = "from",
        optional to: Located<Vec<To>> = "to",
        optional when: Located<Vec<Condition>> = "when",
    }
}

record! {
    From {
        required source: Located<Source> = "source",
    }
}

record! {
    Source {
        optional principals: Located<Vec<Located<String>>> = "principals",
        optional not_principals: Located<Vec<Located<String>>> = "notPrincipals",
        optional namespaces: Located<Vec<Located<String>>> = "namespaces",
        optional not_namespaces: Located<Vec<Located<String>>> = "notNamespaces",
        optional ip_blocks: Located<Vec<Located<String>>> = "ipBlocks",
        optional not_ip_blocks: Located<Vec<Located<String>>> = "notIpBlocks",
        optional _request_principals: NeedsHttp = "requestPrincipals",
        optional _not_request_principals: NeedsHttp = "notRequestPrincipals",
        optional _remote_ip_blocks: NeedsHttp = "remoteIpBlocks",
        optional _not_remote_ip_blocks: NeedsHttp = "notRemoteIpBlocks",
    }
    unsupported ["serviceAccounts", "notServiceAccounts"]
}

record! {
    To {
        required operation: Located<Operation> = "operation",
    }
}

record! {
    Operation {
        optional ports: Located<Vec<Located<String>>> = "ports",
        optional not_ports: Located<Vec<Located<String>>> = "notPorts",
        optional _hosts: NeedsHttp = "hosts",
        optional _not_hosts: NeedsHttp = "notHosts",
        optional _methods: NeedsHttp = "methods",
        optional _not_methods: NeedsHttp = "notMethods",
        optional _paths: NeedsHttp = "paths",
        optional _not_paths: NeedsHttp = "notPaths",
    }
}

record! {
    Condition {
        required key: Located<String> = "key",
        optional values: Located<Vec<Located<String>>> = "values",
        optional not_values: Located<Vec<Located<String>>> = "notValues",
    }
}
