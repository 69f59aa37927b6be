//! The `meshtoll` binary: reads the command line, calls the stages, prints, and turns results into exit codes.
//! Nothing else in the workspace prints.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this crate is where printing belongs")]

mod app;
mod args;
mod ca;
mod check;
mod database;
mod doctor;
mod files;
mod output;
mod plan;
mod programs;
mod progress;
mod proxy;
mod report;
mod run;

use anyhow::Context as _;
use args::{Cli, Command};
use clap::Parser as _;
use std::{io::IsTerminal as _, process::ExitCode};
use tracing_subscriber::EnvFilter;

/// Version and the revision it was built from.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("MESHTOLL_REVISION"), ")");

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_env("MESHTOLL_LOG").unwrap_or_else(|_| EnvFilter::new("warn")))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Check { experiment } => check::check(&experiment),
        Command::Plan(selection) => plan::plan(&selection),
        Command::Render { selection, pod } => plan::render(&selection, pod.as_deref()),
        Command::Report { run, store, out } => report::report(&run, store.as_deref(), &out),
        Command::Doctor => doctor::doctor(),
        Command::App(app) => app::run(app).map(|()| ExitCode::SUCCESS),
        Command::Proxy(proxy) => proxy::run(proxy).map(|()| ExitCode::SUCCESS),
        Command::Ca(command) => ca::run(command).map(|()| ExitCode::SUCCESS),
        Command::Docstore { listen, admin, certificate, key } => {
            let tls = certificate.zip(key).map(|(certificate, key)| meshtoll_docstore::TlsFiles { certificate, key });
            meshtoll_docstore::serve(meshtoll_docstore::Options { listen, admin, tls }).context("docstore")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Relay { listen, admin } => {
            database::relay(&meshtoll_docstore::relay::Options { listen, admin })?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Load { scenario, seed } => {
            let scenario = files::read_json(&scenario)?;
            meshtoll_load::serve(&meshtoll_load::Options { scenario, seed }).context("load")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Dns { listen, zone } => {
            meshtoll_testbed::dns::serve(&meshtoll_testbed::dns::Options { listen, zone }).context("dns")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
