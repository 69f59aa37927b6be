//! TLS that proxies speak to hosts outside of the mesh, for applications that do not.

use super::{full_host, not_empty};
use crate::{
    diagnostics::Diagnostics,
    host::HostPattern,
    istio::{
        ClientCertificate, OriginatedTls, Protocol,
        words::ClientMode,
        written::{self, ClientTlsSettings, Resource, TrafficPolicy, Written},
    },
    yaml::Located,
};
use std::path::{Path, PathBuf};

type Rule = Resource<written::DestinationRule>;

/// Reads the settings of mode SIMPLE or MUTUAL.
pub(super) fn settings(tls: &ClientTlsSettings, problems: &mut Diagnostics) -> OriginatedTls {
    one_name(tls.sni.as_ref(), problems);
    if let Some(names) = &tls.subject_alt_names {
        not_empty(names, problems);
        for name in names.iter() {
            one_name(Some(name), problems);
        }
    }
    let names = tls.subject_alt_names.iter().flat_map(|names| names.iter());
    OriginatedTls {
        sni: tls.sni.as_ref().map(|sni| sni.to_string()),
        subject_alt_names: names.map(|name| name.to_string()).collect(),
        ca_certificates: file(tls.ca_certificates.as_ref(), problems),
        client: client(tls, problems),
    }
}

/// Reports settings that only the modes SIMPLE and MUTUAL have.
pub(super) fn none_of_them(tls: &ClientTlsSettings, problems: &mut Diagnostics) {
    let files = [&tls.ca_certificates, &tls.client_certificate, &tls.private_key];
    let files = files.into_iter().flatten().map(|file| &file.place);
    for place in files.chain(tls.subject_alt_names.iter().map(|names| &names.place)) {
        problems.error(place, "has a meaning with the modes SIMPLE and MUTUAL alone: remove it, or use one of them");
    }
}

pub(super) fn one_name(name: Option<&Located<HostPattern>>, problems: &mut Diagnostics) {
    if let Some(name) = name.filter(|name| name.is_wildcard()) {
        problems.error(&name.place, format!("`{}` is a pattern: one name is meant here", name.value));
    }
}

fn client(tls: &ClientTlsSettings, problems: &mut Diagnostics) -> Option<ClientCertificate> {
    let files = [(&tls.client_certificate, "clientCertificate"), (&tls.private_key, "privateKey")];
    if tls.mode.value == ClientMode::Simple {
        for (file, name) in files {
            if let Some(file) = file {
                let message = format!("with mode SIMPLE nothing is presented: use MUTUAL, or remove `{name}`");
                problems.error(&file.place, message);
            }
        }
        return None;
    }
    for (_, name) in files.iter().filter(|(file, _)| file.is_none()) {
        problems.error(&tls.mode.place, format!("with mode MUTUAL, a certificate is presented: add `{name}`"));
    }
    let chain = file(tls.client_certificate.as_ref(), problems)?;
    Some(ClientCertificate { chain, key: file(tls.private_key.as_ref(), problems)? })
}

/// A file of the proxy's pod.
fn file(path: Option<&Located<String>>, problems: &mut Diagnostics) -> Option<PathBuf> {
    let path = path?;
    if !Path::new(&path.value).is_absolute() {
        let message = format!("`{}` is not an absolute path, and relative to what a proxy would not know", path.value);
        problems.error(&path.place, message);
        return None;
    }
    Some(PathBuf::from(&path.value))
}

/// Whether each port that a policy is about can be spoken to as it says.
pub(super) fn fits_ports(rule: &Rule, policy: &TrafficPolicy, written: &Written, problems: &mut Diagnostics) {
    let of_ports = || policy.port_level_settings.iter().flat_map(|settings| settings.iter());
    for (entry, host) in hosts(rule, written) {
        for port in entry.spec.ports.iter() {
            let own = of_ports().find(|settings| settings.port.number.value == port.number.value);
            let Some(tls) = own.map_or(policy.tls.as_ref(), |settings| settings.tls.as_ref()) else { continue };
            let number = port.number.0;
            let message = match tls.mode.value {
                ClientMode::Disable => continue,
                ClientMode::IstioMutual => {
                    format!(
                        "`{host}` is outside of the mesh and has none of its certificates: name hosts of the mesh alone"
                    )
                }
                ClientMode::Simple | ClientMode::Mutual if port.protocol.value == Protocol::Tls => format!(
                    "port {number} of `{host}` has protocol TLS already, and TLS within TLS is most likely a mistake: give \
                     the port protocol HTTP or TCP, or leave it out by `portLevelSettings`"
                ),
                ClientMode::Simple | ClientMode::Mutual if host.is_wildcard() && tls.sni.is_none() => {
                    format!("`{host}` is no server name that could be sent: set `sni`")
                }
                ClientMode::Simple | ClientMode::Mutual => continue,
            };
            problems.error(&tls.mode.place, message);
        }
    }
}

/// Hosts outside of the mesh that a rule is about, but for those that another of its namespace is more specific about.
fn hosts<'a>(
    rule: &'a Rule,
    written: &'a Written,
) -> impl Iterator<Item = (&'a Resource<written::ServiceEntry>, &'a HostPattern)> {
    let pattern = |rule: &Rule| full_host(&rule.spec.host, rule.namespace());
    let own = pattern(rule);
    let hosts = written.service_entries.iter().flat_map(|entry| {
        let hosts = entry.spec.hosts.iter();
        hosts.map(move |host| (entry, &host.value))
    });
    hosts.filter(move |(_, host)| {
        let mut others = written.destination_rules.iter().filter(|other| other.namespace() == rule.namespace());
        let overridden =
            others.any(|other| pattern(other).covers(host) && pattern(other).specificity() < own.specificity());
        own.covers(host) && !overridden
    })
}
