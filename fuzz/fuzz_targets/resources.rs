//! One file of Istio resources, whatever it contains: diagnostics with places, or resources that compile.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meshtoll_model::{
    diagnostics::SourceFile,
    ids::SpiffeId,
    istio::{self, MeshFacts},
    topology::{GatewayWorkload, HttpHandling, ProxyMarking, ProxySettings, SNI_PROXY_PORT, Service, Topology},
};
use meshtoll_policy::{compile_gateway, compile_sidecar};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = SourceFile { path: "any.yaml".into(), text: text.into() };
    let topology = topology();
    match istio::parse(&[file]).and_then(|resources| resources.check(&MeshFacts::of(&topology))) {
        Ok(resources) => {
            compile_sidecar(&resources, &topology, &topology.services[0].name).expect("checked resources compile");
            compile_gateway(&resources, &topology).expect("checked resources compile");
        }
        Err(diagnostics) => {
            assert!(!diagnostics.0.is_empty());
            assert!(diagnostics.0.iter().all(|found| found.line > 0 && found.column > 0 && !found.field.is_empty()));
        }
    }
});

fn topology() -> Topology {
    let identity = |namespace: &str, account: &str| SpiffeId {
        trust_domain: "cluster.local".into(),
        namespace: namespace.into(),
        service_account: account.into(),
    };
    Topology {
        case: "any".into(),
        subject: "meshtoll".into(),
        services: vec![Service {
            name: "booking".into(),
            host: "booking.airline.svc.cluster.local".into(),
            virtual_ip: [10, 96, 0, 1].into(),
            pod_ip: [10, 64, 0, 1].into(),
            port: 9080,
            identity: identity("airline", "booking"),
        }],
        gateway: Some(GatewayWorkload {
            host: "istio-egressgateway.istio-system.svc.cluster.local".into(),
            virtual_ip: [10, 96, 0, 100].into(),
            pod_ip: [10, 64, 0, 100].into(),
            labels: vec![("istio".into(), "egressgateway".into())],
            identity: identity("istio-system", "egress"),
            sni_proxy_port: Some(SNI_PROXY_PORT),
        }),
        external: Vec::new(),
        dns: [10, 64, 0, 53].into(),
        proxy_marking: ProxyMarking::Uid,
        proxy: ProxySettings { worker_threads: 1, access_log: false, http: HttpHandling::Full, registry_only: true },
    }
}
