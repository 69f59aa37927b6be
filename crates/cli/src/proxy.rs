//! `meshtoll proxy`: Meshtoll's own data plane.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use meshtoll_dataplane::{
    config::Source,
    proxy::{self, Config, Kind},
    settings::Settings,
};
use meshtoll_identity::TlsVersions;
use meshtoll_model::{
    cidr::Cidr,
    ids::WorkloadName,
    topology::{PROXY_MARK, ProxyMarking},
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Descriptors that are no connection's.
const OTHER_DESCRIPTORS: u64 = 128;

/// What the proxy is.
#[derive(Debug, Subcommand)]
pub(crate) enum Proxy {
    /// Beside a workload: takes what its pod's interception redirects to ports 15001 (outbound) and 15006 (inbound)
    #[command(after_help = "Example:
  meshtoll proxy sidecar --mesh mesh.json --resources istio/ --workload booking --certificates /etc/certs")]
    Sidecar {
        /// Which of the mesh's workloads
        #[arg(long)]
        workload: String,
        #[command(flatten)]
        options: ProxyOptions,
    },
    /// At the mesh's edge: listens on the ports of the Gateway resources
    #[command(after_help = "Example:
  meshtoll proxy gateway --mesh mesh.json --resources istio/ --certificates /etc/certs --allow-private 10.88.0.0/16")]
    Gateway {
        /// Name of the workload, for logs
        #[arg(long, default_value = "egress-gateway")]
        workload: String,
        #[command(flatten)]
        options: ProxyOptions,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ProxyOptions {
    /// The mesh: its services, gateway and addresses (JSON, as `meshtoll render` prints it)
    #[arg(long, value_name = "FILE")]
    mesh: PathBuf,
    /// Istio resources: a YAML file or a folder of them; changes are taken up, broken ones refused
    #[arg(long, value_name = "PATH")]
    resources: PathBuf,
    /// Folder with cert-chain.pem, key.pem and root-cert.pem, as `meshtoll ca issue` writes them; changes are taken up
    #[arg(long, value_name = "DIR")]
    certificates: PathBuf,
    /// Serves /healthz/ready, /metrics, /config_dump and /counters
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:15000")]
    admin: SocketAddr,
    /// Relay threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    listen: IpAddr,
    /// Logs every connection at its end, a JSON object a line
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Connections at once; default: as many as there are file descriptors for
    #[arg(long, value_name = "N")]
    max_connections: Option<usize>,
    /// Connections at once that have not said yet who they are or what they want
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_pending)]
    max_pending: usize,
    /// How long nothing may be sent on a connection
    #[arg(long, value_name = "DURATION", value_parser = meshtoll_model::duration::parse, default_value = "1h")]
    idle_timeout: Duration,
    /// How long connections may go on after SIGTERM
    #[arg(long, value_name = "DURATION", value_parser = meshtoll_model::duration::parse, default_value = "30s")]
    drain: Duration,
    /// Private addresses that hosts of wildcard ServiceEntries may resolve to all the same
    #[arg(long, value_name = "CIDR")]
    allow_private: Vec<Cidr>,
    /// Speaks TLS 1.2 too, with peers of the mesh that have no better
    #[arg(long)]
    allow_tls12: bool,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(proxy: Proxy) -> anyhow::Result<()> {
    let (kind, options) = match proxy {
        Proxy::Sidecar { workload, options } => (Kind::Sidecar { workload: WorkloadName::new(workload) }, options),
        Proxy::Gateway { options, .. } => (Kind::Gateway, options),
    };
    let config = config(kind, options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.settings.threads)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        let shutdown = CancellationToken::new();
        let mut ends = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
        let told = shutdown.clone();
        tokio::spawn(async move {
            let [terminate, interrupt] = &mut ends;
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            told.cancel();
        });
        proxy::run(config, shutdown).await?;
        Ok(())
    })
}

fn config(kind: Kind, options: ProxyOptions) -> anyhow::Result<Config> {
    let source = Source { mesh: options.mesh, resources: options.resources };
    let topology = source.topology()?;
    let socket_mark = match topology.proxy_marking {
        ProxyMarking::Uid => None,
        ProxyMarking::SocketMark => Some(PROXY_MARK),
    };
    let settings = Settings {
        threads: options.threads.into(),
        listen: options.listen,
        socket_mark,
        max_connections: max_connections(options.max_connections)?,
        max_pending: options.max_pending,
        idle_timeout: Some(options.idle_timeout),
        drain_timeout: options.drain,
        private_allowed: options.allow_private,
        ..Settings::default()
    };
    Ok(Config {
        kind,
        source,
        certificates: options.certificates,
        tls: if options.allow_tls12 { TlsVersions::AllowTls12 } else { TlsVersions::OnlyTls13 },
        admin: options.admin,
        access_log: options.access_log,
        settings,
    })
}

/// Asks for as many descriptors as there can be; two make a connection.
fn max_connections(wanted: Option<usize>) -> anyhow::Result<usize> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).context("cannot raise the limit of open files")?;
    let possible = usize::try_from(hard.saturating_sub(OTHER_DESCRIPTORS) / 2)?.max(1);
    if let Some(wanted) = wanted.filter(|wanted| *wanted > possible) {
        tracing::warn!(wanted, possible, "fewer connections are possible: raise the limit of open files (ulimit -Hn)");
    }
    Ok(wanted.unwrap_or(Settings::default().max_connections).min(possible).max(1))
}
