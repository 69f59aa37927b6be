//! The command line as it is written; what it means is up to each command.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// What each hop of a service mesh costs, and a data plane that costs less.
#[derive(Debug, Parser)]
#[command(name = "meshtoll", version = crate::VERSION, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Examples:
  meshtoll doctor                        what this machine still needs
  meshtoll check experiments/egress      is the experiment sound? Runs nothing
  meshtoll run egress                    run it; the report is out/report.html
  meshtoll report latest                 make the report again from the store")]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "each variant's doc comment is its help text")]
pub(crate) enum Command {
    /// Runs an experiment and writes its report
    #[command(after_help = "Examples:
  meshtoll run egress
  meshtoll run egress --cases bypass,gateway-mtls --clients 20
  meshtoll run egress --profile full --seed 7 --out /tmp/egress
  meshtoll run egress --subjects envoy,meshtoll --http tcp      both pass HTTP on as TCP: like with like
  meshtoll run egress --cases gateway-sni --keep      look around in the pods afterwards
  meshtoll run egress --database 'mongodb://db.example.com/?tls=true' --database-ca ca.pem

Exit codes: 0 measured and proven; 1 failed; 2 wrong usage; 3 a cell's path was not the promised one or had
too many errors (the report is written all the same); 130 interrupted.")]
    Run(RunArgs),
    /// Says whether an experiment is sound, without running anything
    #[command(after_help = "Example:
  meshtoll check experiments/egress")]
    Check {
        /// Folder of the experiment, or its name below ./experiments
        #[arg(default_value = "egress")]
        experiment: PathBuf,
    },
    /// Prints the pods, processes and cells of a run, without running anything
    #[command(after_help = "Example:
  meshtoll plan egress --cases sidecar,gateway")]
    Plan(Selection),
    /// Prints each proxy's configuration, without running anything
    #[command(after_help = "Examples:
  meshtoll render egress --cases gateway-mtls
  meshtoll render egress --cases gateway-sni --pod egress-gateway")]
    Render {
        #[command(flatten)]
        selection: Selection,
        /// Only this pod's proxies
        #[arg(long)]
        pod: Option<String>,
    },
    /// Makes the report of a stored run again
    #[command(after_help = "Examples:
  meshtoll report latest
  meshtoll report 20260105T101500-7f3a --store out/meshtoll.sqlite --out /tmp/again")]
    Report {
        /// The run's id, or `latest`
        run: String,
        /// The store that has it; default: meshtoll.sqlite in --out
        #[arg(long, value_name = "FILE")]
        store: Option<PathBuf>,
        /// Folder to write to
        #[arg(long, value_name = "DIR", default_value = "out")]
        out: PathBuf,
    },
    /// Says what this machine allows, and how to mend what is missing
    Doctor,
    /// Runs a part of an application on its own
    #[command(subcommand)]
    App(App),
    /// Runs Meshtoll's own data plane
    #[command(subcommand)]
    Proxy(crate::proxy::Proxy),
    /// Keeps a mesh's certificate authority, and issues workloads' certificates
    #[command(subcommand)]
    Ca(crate::ca::Ca),
    /// Internal: the embedded external database
    #[command(hide = true)]
    Docstore {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        admin: SocketAddr,
        #[arg(long, requires = "key")]
        certificate: Option<PathBuf>,
        #[arg(long, requires = "certificate")]
        key: Option<PathBuf>,
    },
    /// Internal: stands for an external database, to which standard input is the way
    #[command(hide = true)]
    Relay {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        admin: SocketAddr,
    },
    /// Internal: the load generator, told what to do on standard input
    #[command(hide = true)]
    Load {
        /// Its scenario, JSON
        #[arg(long)]
        scenario: PathBuf,
        #[arg(long)]
        seed: u64,
    },
    /// Internal: the testbed's DNS server
    #[command(hide = true)]
    Dns {
        #[arg(long)]
        listen: Vec<std::net::SocketAddrV4>,
        /// Its zone, JSON
        #[arg(long)]
        zone: PathBuf,
    },
}

/// Which part of an experiment.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Folder of the experiment, or its name below ./experiments
    pub(crate) experiment: PathBuf,
    /// Only these cases; the baseline is always among them
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    pub(crate) cases: Vec<String>,
    /// Only these subjects
    #[arg(long, value_delimiter = ',', value_name = "SUBJECT,…")]
    pub(crate) subjects: Vec<String>,
    /// How much is measured: quick (minutes), full (all eight numbers of clients), published (5-minute slices)
    #[arg(long, default_value = "quick", value_name = "PROFILE")]
    pub(crate) profile: String,
    /// Only these numbers of closed-loop clients, instead of the profile's
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub(crate) clients: Vec<u32>,
    /// Only these open-loop rates in requests/s, instead of the profile's; 0 for none
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub(crate) rates: Vec<u32>,
    /// Rounds, instead of the profile's
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<u32>,
    /// Measured window of a slice, instead of the profile's, such as 500ms or 2s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) slice: Option<Duration>,
    /// CPU time that each request of the application burns, instead of the experiment's, such as 2ms
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) app_work: Option<Duration>,
    /// What Envoy's sidecars read of HTTP between the services: nothing (tcp), or each request (full, the default)
    ///
    /// Meshtoll's own sidecars pass it on as TCP either way; with tcp both do the same.
    #[arg(long, value_name = "tcp|full")]
    pub(crate) http: Option<Http>,
    /// Use this MongoDB instead of the built-in database, and DROP what it holds in the databases airline_CASE_SUBJECT
    ///
    /// Each case and subject gets a database of its own on that server, such as airline_gateway_mtls_envoy; what is in it is
    /// dropped and replaced. The services know the server by the experiment's name of the database, because the
    /// mesh routes by it: its certificate has to be valid for that name (airline.mongodb.example in the egress experiment),
    /// and the URI needs tls=true. User, password and options of the URI are kept. One server is used:
    /// directConnection=true is added unless the URI says otherwise, since the mesh knows none of a replica set's further
    /// names; name the primary. A password is better given in the variable than as an argument, which other users see.
    #[arg(long, value_name = "mongodb://HOST:PORT/?tls=true", env = "MESHTOLL_RUN_DATABASE", hide_env_values = true)]
    pub(crate) database: Option<String>,
    /// CA of that database's certificate, PEM; default: the public ones
    #[arg(long, value_name = "FILE", requires = "database")]
    pub(crate) database_ca: Option<PathBuf>,
    /// Seed of every random choice; default: a fresh one, which the report names
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

/// What sidecars read of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "each variant is the word on the command line")]
pub(crate) enum Http {
    Tcp,
    Full,
}

/// What `run` takes.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Folder for everything that is written: report.html, report.md, results.csv, results.json, meshtoll.sqlite
    #[arg(long, value_name = "DIR", default_value = "out")]
    pub(crate) out: PathBuf,
    /// Leave the testbed up after the run, and print how to enter its pods; Ctrl-C ends it
    #[arg(long)]
    pub(crate) keep: bool,
}

/// A part of an application.
#[derive(Debug, Subcommand)]
pub(crate) enum App {
    /// The airline: four services before a MongoDB
    #[command(after_help = "Example, with a MongoDB on this machine:
  meshtoll app airline load --database mongodb://localhost:27017
  head -c 32 /dev/urandom > session.key
  meshtoll app airline customer --listen 127.0.0.1:9081 --database mongodb://localhost:27017 --session-key session.key")]
    Airline {
        /// Which of its services; `load` fills the database instead
        part: AirlinePart,
        #[command(flatten)]
        options: AirlineArgs,
    },
}

/// A part of the airline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "each variant is the service of that name")]
pub(crate) enum AirlinePart {
    Auth,
    Customer,
    Flight,
    Booking,
    Load,
}

/// What a service of the airline takes.
#[derive(Debug, Args)]
pub(crate) struct AirlineArgs {
    /// Where it listens
    #[arg(long, default_value = "127.0.0.1:9080")]
    pub(crate) listen: SocketAddr,
    /// URI of its MongoDB
    #[arg(long, env = "MESHTOLL_DATABASE", hide_env_values = true)]
    pub(crate) database: String,
    /// CA of the database's certificate, PEM
    #[arg(long)]
    pub(crate) database_ca: Option<PathBuf>,
    /// Name of the database
    #[arg(long, default_value = "airline")]
    pub(crate) database_name: String,
    /// File with the key that sessions are signed with, the same for all four services (not for `load`)
    #[arg(long, value_name = "FILE")]
    pub(crate) session_key: Option<PathBuf>,
    /// Base URL of the customer service
    #[arg(long, default_value = "http://customer.airline.svc.cluster.local:9080")]
    pub(crate) customer_url: String,
    /// Base URL of the flight service
    #[arg(long, default_value = "http://flight.airline.svc.cluster.local:9080")]
    pub(crate) flight_url: String,
    /// CPU time that each request burns, such as 2ms
    #[arg(long, default_value = "0us", value_parser = duration)]
    pub(crate) app_work: Duration,
    /// Database connections
    #[arg(long, default_value_t = 10)]
    pub(crate) pool_size: u32,
    /// Customers that `load` makes
    #[arg(long, default_value_t = 10_000)]
    pub(crate) customers: u32,
}

/// Reads `250us`, `500ms`, `2s`, `5m`.
fn duration(text: &str) -> Result<Duration, String> {
    meshtoll_model::duration::parse(text)
}
