//! What was written to what it means.

use super::{
    CheckedExperiment, Experiment, assemble, promise,
    written::{Written, WrittenCase, WrittenGateway, WrittenProfile, WrittenPublished},
};
use crate::{
    application::CLUSTER_DOMAIN,
    cidr::Cidr,
    diagnostics::{Diagnostics, SourceFile},
    host::{HostPattern, is_label},
    ids::CaseName,
    istio::{self, MeshFacts},
    yaml::Located,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Component, Path},
};

/// Checks all but the resources.
pub(super) fn experiment(written: &Written, problems: &mut Diagnostics) -> Option<Experiment> {
    let before = problems.0.len();
    label(&written.name, problems);
    not_blank(&written.question, problems);
    if *written.application.customers == 0 {
        problems.error(&written.application.customers.place, "at least one customer is needed to log in");
    }
    exact(&written.database.host, problems);
    domain(&written.mesh.trust_domain, problems);
    label(&written.mesh.namespace, problems);
    if *written.proxies.worker_threads == 0 {
        problems.error(&written.proxies.worker_threads.place, "a proxy needs at least one worker thread");
    }
    if let Some(gateway) = &written.egress_gateway {
        egress_gateway(gateway, problems);
    }
    not_empty(&written.subjects, "subjects", problems);
    for subject in written.subjects.iter() {
        label(subject, problems);
    }
    unique(written.subjects.iter(), "subject", problems);
    cases(written, problems);
    not_empty_map(&written.profiles, problems);
    for (name, profile) in written.profiles.iter() {
        if !is_label(name) {
            problems
                .error(&profile.place, format!("`{name}` is not a name (lower-case letters, digits, inner hyphens)"));
        }
        check_profile(profile, problems);
    }
    if let Some(published) = &written.published {
        check_published(published, written, problems);
    }
    (problems.0.len() == before).then(|| assemble::experiment(written))
}

/// Checks the experiment and the resources of all its cases.
pub(super) fn whole<E: fmt::Display>(
    written: &Written,
    mut resources: impl FnMut(&Path) -> Result<Vec<SourceFile>, E>,
    problems: &mut Diagnostics,
) -> Option<CheckedExperiment> {
    let experiment = experiment(written, problems);
    let mut checked = BTreeMap::new();
    for case in written.cases.iter().filter(|case| is_inside(&case.resources)) {
        let files = match resources(Path::new(&case.resources.value)) {
            Ok(files) => files,
            Err(error) => {
                problems.error(&case.resources.place, format!("cannot read this folder: {error}"));
                continue;
            }
        };
        if files.is_empty() {
            problems.error(&case.resources.place, "this folder has no .yaml file; a case has at least one resource");
            continue;
        }
        let parsed = istio::parse(&files).map_err(|found| problems.extend(found)).ok();
        let facts = facts(written, case);
        let Some(parsed) = parsed else { continue };
        match parsed.check(&facts) {
            Ok(resources) => {
                promise::kept(written, case, &resources, problems);
                checked.insert(CaseName::new(case.name.value.as_str()), resources);
            }
            Err(found) => problems.extend(found),
        }
    }
    Some(CheckedExperiment { experiment: experiment?, resources: checked })
}

/// What the resources of a case may refer to.
fn facts(written: &Written, case: &WrittenCase) -> MeshFacts {
    MeshFacts {
        services: MeshFacts::services_of(written.application.name, &written.mesh.namespace),
        namespace: written.mesh.namespace.value.clone(),
        gateway: written.egress_gateway.as_ref().map(assemble::gateway),
        sni_proxy: case.sni_proxy.as_ref().is_some_and(|sni_proxy| sni_proxy.value),
    }
}

fn egress_gateway(gateway: &WrittenGateway, problems: &mut Diagnostics) {
    exact(&gateway.host, problems);
    label(&gateway.service_account, problems);
    label(&gateway.namespace, problems);
    if !gateway.host.as_str().ends_with(&format!(".{}.svc.{CLUSTER_DOMAIN}", gateway.namespace.value)) {
        let message = format!(
            "`{}` is no service of namespace `{}`: NAME.NAMESPACE.svc.{CLUSTER_DOMAIN}",
            gateway.host.value, gateway.namespace.value
        );
        problems.error(&gateway.host.place, message);
    }
    if gateway.labels.is_empty() {
        problems.error(&gateway.labels.place, "a Gateway selects the workload by its labels: give it at least one");
    }
}

fn cases(written: &Written, problems: &mut Diagnostics) {
    let cases = &written.cases;
    not_empty(cases, "cases", problems);
    unique(cases.iter().map(|case| &case.name), "case", problems);
    if !cases.is_empty() && !cases.iter().any(|case| case.name.value == written.baseline.value) {
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        let message = format!("`{}` is not one of the cases: {}", written.baseline.value, names.join(", "));
        problems.error(&written.baseline.place, message);
    }
    for case in cases.iter() {
        label(&case.name, problems);
        not_blank(&case.description, problems);
        if !is_inside(&case.resources) {
            let message = "name a folder beside the experiment's file, without `..` and without a slash at the start";
            problems.error(&case.resources.place, message);
        }
        if let Some(interception) = &case.interception {
            let ranges = &interception.exclude_outbound_ip_ranges;
            not_empty(ranges, "excludeOutboundIPRanges", problems);
            disjoint(ranges, problems);
        }
        promise::possible(case, written.egress_gateway.is_some(), problems);
    }
}

/// Whether a path leads from the experiment's file into a folder beside it.
fn is_inside(path: &str) -> bool {
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !path.trim().is_empty() && Path::new(path).components().all(inside)
}

fn disjoint(ranges: &[Located<Cidr>], problems: &mut Diagnostics) {
    for (index, range) in ranges.iter().enumerate() {
        if let Some(earlier) = ranges[..index].iter().find(|earlier| earlier.overlaps(range.value)) {
            let message = format!("{} overlaps {}: name each address once", range.value, earlier.value);
            problems.error(&range.place, message);
        }
    }
}

fn check_profile(profile: &Located<WrittenProfile>, problems: &mut Diagnostics) {
    if profile.clients.is_none() && profile.rates.is_none() {
        problems.error(&profile.place, "a profile has `clients` (closed loop), `rates` (open loop), or both");
    }
    for (levels, name) in [(&profile.clients, "clients"), (&profile.rates, "rates")] {
        let Some(levels) = levels else { continue };
        not_empty(levels, name, problems);
        for (index, level) in levels.iter().enumerate() {
            if level.value == 0 {
                problems.error(&level.place, "nobody is driven by a level of 0: levels are from 1");
            } else if index > 0 && levels[index - 1].value >= level.value {
                problems.error(&level.place, "levels are ascending, each once");
            }
        }
    }
    if profile.slice.is_zero() {
        problems.error(&profile.slice.place, "a slice of no time measures nothing");
    }
    if profile.rounds.value == 0 {
        problems.error(&profile.rounds.place, "without rounds nothing is measured: at least 1");
    }
}

fn check_published(published: &WrittenPublished, written: &Written, problems: &mut Diagnostics) {
    not_blank(&published.source, problems);
    not_blank(&published.setting, problems);
    not_empty(&published.findings, "findings", problems);
    unique(published.findings.iter().map(|finding| &finding.case), "finding on the case", problems);
    for finding in published.findings.iter() {
        not_blank(&finding.text, problems);
        if !written.cases.iter().any(|case| case.name.value == finding.case.value) {
            problems.error(&finding.case.place, format!("`{}` is not one of the cases", finding.case.value));
        }
        if let Some(relative) = &finding.relative_throughput
            && !(relative.is_finite() && relative.value > 0.0)
        {
            problems.error(&relative.place, "a multiple of the baseline's throughput, above 0, like 0.9");
        }
    }
}

fn label(name: &Located<String>, problems: &mut Diagnostics) {
    if !is_label(name) {
        let message = format!("`{}` is not a name: 1 to 63 lower-case letters, digits and inner hyphens", name.value);
        problems.error(&name.place, message);
    }
}

fn domain(name: &Located<String>, problems: &mut Diagnostics) {
    match name.parse::<HostPattern>() {
        Ok(pattern) if !pattern.is_wildcard() => {}
        Ok(_) => problems.error(&name.place, "a wildcard has no place here"),
        Err(error) => problems.error(&name.place, error.to_string()),
    }
}

fn exact(host: &Located<HostPattern>, problems: &mut Diagnostics) {
    if host.is_wildcard() {
        problems.error(&host.place, format!("`{}` is a pattern: one host is meant here", host.value));
    }
}

fn not_blank(text: &Located<String>, problems: &mut Diagnostics) {
    if text.trim().is_empty() {
        problems.error(&text.place, "is empty: readers of reports see this text");
    }
}

fn not_empty<T>(list: &Located<Vec<T>>, name: &str, problems: &mut Diagnostics) {
    if list.is_empty() {
        problems.error(&list.place, format!("`{name}` is empty: at least one is needed"));
    }
}

fn not_empty_map<T>(map: &Located<BTreeMap<String, T>>, problems: &mut Diagnostics) {
    if map.is_empty() {
        problems.error(&map.place, "there is no profile: at least one is needed");
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a Located<String>>, what: &str, problems: &mut Diagnostics) {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(&name.value) {
            problems.error(&name.place, format!("there already is a {what} `{}`", name.value));
        }
    }
}
