//! `meshtoll run`.

use crate::{
    VERSION,
    args::RunArgs,
    database,
    files::{ReadExperiment, read_experiment},
    output::say,
    plan, programs,
    progress::Progress,
    report,
};
use anyhow::Context as _;
use meshtoll_lab::{
    clock,
    environment::{self, Versioned},
    plan::{ExternalDatabase, Plan, Site},
    record::{RunHeader, RunId},
    run::{Event, Outcome, Run, RunError},
    running::Outside,
    store::Store,
};
use meshtoll_model::topology::ProxyMarking;
use meshtoll_testbed::{
    Testbed,
    outlet::Outlet,
    process::Programs,
    sandbox::{self, Entered, Sandbox},
};
use std::{fs, process::ExitCode, time::Duration};

/// The promised path was not taken, or too many requests failed.
const NOT_AS_PROMISED: u8 = 3;
/// Stopped by a signal, as shells say it of SIGINT.
const INTERRUPTED: u8 = 130;

/// Runs an experiment in a sandbox, and writes its report.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let experiment = read_experiment(&args.selection.experiment)?;
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let out = args.out.canonicalize().with_context(|| format!("cannot find {}", args.out.display()))?;
    anyhow::ensure!(
        !Sandbox::is_private(&out),
        "--out {} would vanish with the run, which covers /dev/shm with a file system of its own: name another folder",
        args.out.display()
    );
    let database = database::external(&args.selection, &experiment.checked.experiment)?;
    // It has to stay where there is a way to the database.
    let outlet = database.as_ref().map(database::outlet).transpose()?;
    match sandbox::enter(sandbox::Mode::Automatic).context("cannot make a sandbox for the run")? {
        Entered::Ended(code) => Ok(ExitCode::from(code)),
        Entered::Inside(sandbox) => inside(args, &experiment, database, outlet.as_ref(), sandbox),
    }
}

fn inside(
    args: &RunArgs,
    experiment: &ReadExperiment,
    database: Option<ExternalDatabase>,
    outlet: Option<&Outlet>,
    sandbox: Sandbox,
) -> anyhow::Result<ExitCode> {
    let rootless = sandbox.is_rootless();
    let outside = Outside { interruption: sandbox.interruption(), outlet };
    let site = Site {
        marking: if rootless { ProxyMarking::SocketMark } else { ProxyMarking::Uid },
        seed: args.selection.seed.unwrap_or_else(|| u64::from(std::process::id()) ^ clock::unix_seconds()),
    };
    let plan = Plan::new(experiment.input(), &plan::selection(&args.selection, database), site)?;
    let programs = programs::find();
    let id = clock::run_id();
    let header = header(&plan, experiment, &programs, rootless)?;
    let mut store = Store::open(&report::store_in(&args.out))?;
    let mut testbed = Testbed::new(sandbox, programs)?;

    let mut progress = Progress::new();
    let mut observe = |event: Event<'_>| progress.show(event);
    let begun = Run::begin(&plan, &header, &id, &mut testbed, &mut store, outside, &mut observe);
    let outcome = match begun {
        Ok(mut run) => {
            let outcome = run.measure(&mut observe);
            progress.finish();
            if args.keep {
                keep(&mut run)?;
            }
            outcome
        }
        Err(error) => Err(error),
    };
    drop(testbed);
    conclude(args, &id, &store, outcome)
}

/// Writes the report of what there is, and says how the run ended.
fn conclude(args: &RunArgs, id: &RunId, store: &Store, outcome: Result<Outcome, RunError>) -> anyhow::Result<ExitCode> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(RunError::Interrupted) => {
            eprintln!("interrupted; what was measured is run {id} in {}", store.path().display());
            return Ok(ExitCode::from(INTERRUPTED));
        }
        Err(error) => return Err(error.into()),
    };
    report::write(&store.read(&id.0)?, &args.out)?;
    for broken in &outcome.broken_paths {
        eprintln!(
            "error: {} on {}, {}: not the promised path: {} — {}",
            broken.case, broken.subject, broken.level, broken.line.claim, broken.line.evidence
        );
    }
    for cell in &outcome.failing_cells {
        eprintln!(
            "error: {} on {}, {}: {} of {} requests failed, mostly `{}`",
            cell.case,
            cell.subject,
            cell.level,
            cell.errors,
            cell.errors + cell.transactions,
            cell.kind
        );
    }
    let sound = outcome.broken_paths.is_empty() && outcome.failing_cells.is_empty();
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(NOT_AS_PROMISED) })
}

/// Leaves the testbed up until somebody asks to stop.
fn keep(run: &mut Run<'_>) -> anyhow::Result<()> {
    say!("The testbed is up. To enter a pod, in another terminal:")?;
    for (pod, command) in run.enter_commands()? {
        say!("  {pod:<40} {command}")?;
    }
    say!("Ctrl-C ends it.")?;
    while !run.interruption().wait(Duration::from_secs(3600)) {}
    Ok(())
}

fn header(plan: &Plan, experiment: &ReadExperiment, programs: &Programs, rootless: bool) -> anyhow::Result<RunHeader> {
    let versioned = [
        Versioned { name: "envoy", program: &programs.envoy, argument: "--version" },
        Versioned { name: "nginx", program: &programs.nginx, argument: "-v" },
    ];
    let uses_sni_proxy = plan
        .topologies
        .iter()
        .any(|planned| planned.topology.gateway.as_ref().is_some_and(|gateway| gateway.sni_proxy_port.is_some()));
    let uses_envoy = plan.subjects.iter().any(|subject| subject.as_str() == "envoy");
    let needed = [uses_envoy, uses_sni_proxy];
    let needed: Vec<Versioned> =
        versioned.into_iter().zip(needed).filter_map(|(versioned, needed)| needed.then_some(versioned)).collect();
    let environment = environment::describe(VERSION, rootless, &needed, plan.fairness())?;
    Ok(RunHeader {
        started: clock::now(),
        experiment: plan.experiment.name.clone(),
        question: plan.experiment.question.clone(),
        cases: plan.cases.clone(),
        baseline: plan.experiment.baseline.clone(),
        subjects: plan.subjects.clone(),
        profile: plan.profile_name.clone(),
        rounds: plan.profile.rounds,
        slice: plan.profile.slice,
        lead_in: plan.profile.lead_in,
        app_work: plan.app_work,
        customers: plan.experiment.application.customers,
        database: plan.database.clone(),
        seed: plan.seed,
        experiment_yaml: experiment.yaml.clone(),
        environment,
    })
}
