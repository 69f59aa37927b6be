//! `meshtoll plan` and `meshtoll render`: what would run, without running it.

use crate::{args, database, files::read_experiment, output::say};
use anyhow::bail;
use meshtoll_lab::plan::{ExternalDatabase, Plan, Selection, Site};
use meshtoll_model::{
    process::Role,
    topology::{HttpHandling, ProxyMarking},
};
use std::process::ExitCode;

/// The selection as the lab takes it.
pub(crate) fn selection(args: &args::Selection, database: Option<ExternalDatabase>) -> Selection {
    Selection {
        cases: args.cases.iter().map(|name| name.as_str().into()).collect(),
        subjects: args.subjects.iter().map(|name| name.as_str().into()).collect(),
        profile: args.profile.clone(),
        clients: args.clients.clone(),
        rates: args.rates.clone(),
        rounds: args.rounds,
        slice: args.slice,
        app_work: args.app_work,
        http: args.http.map(|http| match http {
            args::Http::Tcp => HttpHandling::Tcp,
            args::Http::Full => HttpHandling::Full,
        }),
        database,
    }
}

/// How proxies are marked where this runs: uid 1337 exists only for root.
pub(crate) fn marking() -> ProxyMarking {
    if nix::unistd::geteuid().is_root() { ProxyMarking::Uid } else { ProxyMarking::SocketMark }
}

fn planned(args: &args::Selection) -> anyhow::Result<Plan> {
    let experiment = read_experiment(&args.experiment)?;
    let database = database::external(args, &experiment.checked.experiment)?;
    Ok(Plan::new(
        experiment.input(),
        &selection(args, database),
        Site { marking: marking(), seed: args.seed.unwrap_or(0) },
    )?)
}

/// Prints pods, processes and cells.
pub(crate) fn plan(args: &args::Selection) -> anyhow::Result<ExitCode> {
    let plan = planned(args)?;
    for planned in &plan.topologies {
        let topology = &planned.topology;
        say!("{} on {}", topology.case, topology.subject)?;
        for pod in &planned.pods {
            say!("  pod {:<42} {:<12} {:?} network", pod.spec.name, pod.spec.address, pod.spec.network)?;
            for process in &pod.processes {
                say!("    {:<28} {:?}, runs {:?}", process.hop, process.role, process.program)?;
            }
        }
    }
    say!("")?;
    let levels: Vec<String> = plan.profile.levels().map(|level| level.to_string()).collect();
    say!("{} cells: {} topologies × {}", plan.cells.len(), plan.topologies.len(), levels.join(", "))?;
    let slice = plan.profile.lead_in + plan.profile.slice;
    let slices = u32::try_from(plan.cells.len()).unwrap_or(u32::MAX).saturating_mul(plan.profile.rounds);
    say!(
        "{} rounds of slices of {:?} ({:?} of it measured): about {:?}",
        plan.profile.rounds,
        slice,
        plan.profile.slice,
        slice * slices
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the proxies' configurations; secrets are left out.
pub(crate) fn render(args: &args::Selection, pod: Option<&str>) -> anyhow::Result<ExitCode> {
    let plan = planned(args)?;
    let mut printed = false;
    for planned in &plan.topologies {
        let proxies = planned
            .processes()
            .filter(|(_, process)| matches!(process.role, Role::Sidecar | Role::Gateway | Role::SniProxy));
        for (_, process) in proxies {
            let of_pod = process.hop.as_str().split_once('/').map_or(process.hop.as_str(), |(name, _)| name);
            if pod.is_some_and(|pod| pod != of_pod) {
                continue;
            }
            for file in process.files.iter().filter(|file| !file.name.ends_with(".pem")) {
                let topology = &planned.topology;
                say!("# {} on {}: {}, {}", topology.case, topology.subject, process.hop, file.name)?;
                say!("{}", file.contents)?;
                printed = true;
            }
        }
    }
    if !printed {
        bail!("no proxy runs in a pod `{}`: `meshtoll plan` names the pods", pod.unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}
