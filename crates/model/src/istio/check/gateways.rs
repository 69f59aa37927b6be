//! What the egress gateway accepts.

use super::{not_empty, resource_name};
use crate::{
    diagnostics::Diagnostics,
    host::HostPattern,
    istio::{
        Gateway, MeshFacts, Server, ServerTls,
        words::ServerProtocol,
        written::{self, Resource},
    },
    yaml::Located,
};

type Written = Resource<written::Gateway>;

pub(super) fn check(gateways: &[Written], facts: &MeshFacts, problems: &mut Diagnostics) -> Vec<Gateway> {
    let mut taken: Vec<(u16, &Located<HostPattern>)> = Vec::new();
    let mut checked = Vec::new();
    for gateway in gateways {
        let before = problems.0.len();
        selects(gateway, facts, problems);
        not_empty(&gateway.spec.servers, problems);
        let servers: Vec<_> =
            gateway.spec.servers.iter().map(|written| server(written, &mut taken, problems)).collect();
        if problems.0.len() == before {
            checked.push(Gateway { name: resource_name(gateway), servers });
        }
    }
    checked
}

/// Whether the selector is about the egress gateway's pods.
fn selects(gateway: &Written, facts: &MeshFacts, problems: &mut Diagnostics) {
    let selector = &gateway.spec.selector;
    let Some(workload) = &facts.gateway else {
        problems.error(&selector.place, "the experiment has no egressGateway: describe its workload there");
        return;
    };
    if selector.is_empty() {
        let message = "selects every workload of the mesh: name the egress gateway's labels";
        problems.error(&selector.place, message);
    }
    for (key, value) in selector.iter().filter(|(key, value)| workload.labels.get(*key) != Some(&value.value)) {
        let labels: Vec<_> = workload.labels.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        let message =
            format!("`{key}: {}` is not a label of the egress gateway, which has {}", value.value, labels.join(", "));
        problems.error(&value.place, message);
    }
}

fn server<'a>(
    written: &'a written::Server,
    taken: &mut Vec<(u16, &'a Located<HostPattern>)>,
    problems: &mut Diagnostics,
) -> Server {
    let port = written.port.number.0;
    let mode = written.tls.mode.value;
    not_empty(&written.hosts, problems);
    if mode == ServerTls::IstioMutual && written.port.protocol.value == ServerProtocol::Https {
        let message =
            "with HTTPS, Istio would route the requests inside: what Meshtoll supports with ISTIO_MUTUAL is TLS";
        problems.error(&written.port.protocol.place, message);
    }
    for host in written.hosts.iter() {
        if let Some((_, earlier)) = taken.iter().find(|(p, h)| *p == port && h.value == host.value) {
            let message = format!("port {port} accepts `{}` already, at {}", host.value, earlier.place.line());
            problems.error(&host.place, message);
        }
        taken.push((port, host));
    }
    Server { port, hosts: written.hosts.iter().map(|host| host.value.clone()).collect(), tls: mode }
}
