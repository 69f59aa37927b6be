//! A written experiment without its places, once nothing is wrong with it.

use super::{
    ApplicationSettings, Case, Database, EgressGateway, Experiment, Finding, MeshSettings, Profile, Promise, Proxies,
    Published,
    written::{Written, WrittenCase, WrittenGateway, WrittenProfile, WrittenPublished},
};
use crate::{
    ids::{CaseName, SubjectName},
    yaml::Located,
};
use std::{path::PathBuf, time::Duration};

pub(super) fn experiment(written: &Written) -> Experiment {
    Experiment {
        name: written.name.value.clone(),
        question: written.question.trim().into(),
        application: ApplicationSettings {
            name: written.application.name,
            app_work: written.application.app_work,
            customers: *written.application.customers,
        },
        database: Database { host: written.database.host.to_string(), port: written.database.port.0 },
        mesh: MeshSettings {
            trust_domain: written.mesh.trust_domain.value.clone(),
            namespace: written.mesh.namespace.value.clone(),
            outbound_traffic_policy: written.mesh.outbound_traffic_policy,
        },
        egress_gateway: written.egress_gateway.as_ref().map(gateway),
        proxies: Proxies {
            worker_threads: *written.proxies.worker_threads,
            access_log: written.proxies.access_log,
            http: written.proxies.http.unwrap_or_default(),
        },
        subjects: written.subjects.iter().map(|subject| SubjectName::new(subject.as_str())).collect(),
        baseline: CaseName::new(written.baseline.as_str()),
        cases: written.cases.iter().map(case).collect(),
        profiles: written.profiles.iter().map(|(name, profile_)| (name.clone(), profile(profile_))).collect(),
        published: written.published.as_ref().map(published),
    }
}

pub(super) fn gateway(written: &WrittenGateway) -> EgressGateway {
    EgressGateway {
        host: written.host.to_string(),
        labels: written.labels.value.clone(),
        service_account: written.service_account.value.clone(),
        namespace: written.namespace.value.clone(),
    }
}

fn case(written: &WrittenCase) -> Case {
    let ranges = written.interception.as_ref().map(|interception| &interception.exclude_outbound_ip_ranges.value);
    Case {
        name: CaseName::new(written.name.as_str()),
        description: written.description.trim().into(),
        resources: PathBuf::from(&written.resources.value),
        exclude_outbound_ip_ranges: ranges.into_iter().flatten().map(|range| range.value).collect(),
        sni_proxy: written.sni_proxy.as_ref().is_some_and(|sni_proxy| sni_proxy.value),
        promise: Promise {
            path: written.promise.path.iter().map(|hop| hop.value).collect(),
            mesh_tls: written.promise.mesh_tls.value,
        },
    }
}

fn profile(written: &WrittenProfile) -> Profile {
    let levels = |levels: &Option<Located<Vec<Located<u32>>>>| -> Vec<u32> {
        levels.iter().flat_map(|levels| levels.iter()).map(|level| level.value).collect()
    };
    Profile {
        clients: levels(&written.clients),
        rates: levels(&written.rates),
        lead_in: written.lead_in,
        slice: Duration::clone(&written.slice),
        rounds: *written.rounds,
    }
}

fn published(written: &WrittenPublished) -> Published {
    let findings = written.findings.iter().map(|finding| Finding {
        case: CaseName::new(finding.case.as_str()),
        relative_throughput: finding.relative_throughput.as_ref().map(|relative| relative.value),
        text: finding.text.trim().into(),
    });
    Published {
        source: written.source.trim().into(),
        setting: written.setting.trim().into(),
        findings: findings.collect(),
    }
}
