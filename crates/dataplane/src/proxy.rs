//! A proxy from start to end: bring up, serve, reload, drain.

use crate::{
    accept::{House, accept},
    admin::{self, AdminState, Readiness},
    config::{ConfigError, Source},
    connect::{ConnectSettings, Connector, Resolver, ResolverError, ResolverSettings},
    origination::Originations,
    relay::{EpollRelay, OnEnd},
    reload::{self, Follow},
    settings::Settings,
    setup::{Dialer, Gateway, Inbound, Means, Outbound},
    telemetry::{AccessLogError, Telemetry},
};
use arc_swap::ArcSwap;
use meshtoll_identity::{CredentialsWatch, TlsVersions, WatchError};
use meshtoll_model::{
    host::HostPattern,
    ids::{SpiffeId, WorkloadName},
    topology::{INBOUND_PORT, OUTBOUND_PORT},
};
use meshtoll_policy::routes::{GatewayRoutes, SidecarRoutes};
use prometheus_client::registry::Registry;
use serde_json::json;
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::{Notify, Semaphore},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Connections that wait in the kernel to be accepted.
const BACKLOG: u32 = 4096;

/// What a proxy is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// What it is.
    pub kind: Kind,
    /// Where its configuration is.
    pub source: Source,
    /// Folder of its certificate, key and trust bundle.
    pub certificates: PathBuf,
    /// Versions of TLS inside the mesh.
    pub tls: TlsVersions,
    /// Where its administration interface listens.
    pub admin: SocketAddr,
    /// File for its access log.
    pub access_log: Option<PathBuf>,
    /// Limits and times.
    pub settings: Settings,
}

/// What a proxy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Beside a workload.
    Sidecar {
        /// Which.
        workload: WorkloadName,
    },
    /// At the mesh's edge.
    Gateway,
}

/// Why a proxy cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Its configuration cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// Its credentials cannot be used.
    #[error("{0}")]
    Credentials(#[from] WatchError),
    /// Its certificate is another workload's.
    #[error("the certificate is that of {found}, but the configuration is for {expected}")]
    Identity {
        /// Whom the certificate names.
        found: SpiffeId,
        /// Whom the configuration is for.
        expected: SpiffeId,
    },
    /// There is no way to resolve names.
    #[error("{0}")]
    Resolver(#[from] ResolverError),
    /// Its access log cannot be written.
    #[error("{0}")]
    AccessLog(#[from] AccessLogError),
    /// It cannot listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Its threads cannot be started.
    #[error("cannot start relay threads: {0}")]
    Threads(io::Error),
    /// Changes of its configuration cannot be followed.
    #[error("{0}")]
    Follow(#[from] reload::FollowError),
}

/// Runs until `shutdown`, then lets connections end by themselves for a while.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), ProxyError> {
    let mut registry = Registry::default();
    let telemetry = Arc::new(Telemetry::new(&mut registry, config.access_log.as_deref())?);
    let watched = telemetry.clone();
    let credentials = CredentialsWatch::open(&config.certificates, config.tls, move |reload| {
        watched.metrics.credentials_reloaded(&reload);
    })?;
    let credentials = Arc::new(credentials);
    telemetry.metrics.certificate_ends(credentials.current().not_after());
    let routes = Routes::load(&config)?;
    routes.belong_to(credentials.current().identity())?;

    telemetry.metrics.set_known_hosts(&routes.names());
    let proxy = Proxy::new(&config, credentials, telemetry)?;
    let readiness = Readiness::default();
    let starting = readiness.pending("starting");
    let stop = CancellationToken::new();
    let admin = listen(config.admin)?;
    let state = Arc::new(proxy.admin_state(&config, &routes, &readiness, registry));
    let admin_stop = CancellationToken::new();
    let admin = tokio::spawn(admin::run(admin, state, admin_stop.clone().cancelled_owned()));

    proxy.start(&routes, &stop)?;
    let following = proxy.follow(config.clone(), routes, stop.clone())?;
    drop(starting);
    tracing::info!(admin = %config.admin, "ready");

    shutdown.cancelled().await;
    let _draining = readiness.pending("draining");
    tracing::info!(drain = ?proxy.settings.drain_timeout, "draining");
    stop.cancel();
    drop(following);
    proxy.drain().await;
    proxy.telemetry.finish();
    admin_stop.cancel();
    // It serves until it is told to end, and has been.
    let _ = admin.await;
    Ok(())
}

/// What the proxy does, exchanged when its resources change.
#[derive(Clone)]
enum Routes {
    Sidecar { workload: WorkloadName, routes: Arc<ArcSwap<SidecarRoutes>> },
    Gateway(Arc<ArcSwap<GatewayRoutes>>),
}

impl Routes {
    fn load(config: &Config) -> Result<Self, ConfigError> {
        Ok(match &config.kind {
            Kind::Sidecar { workload } => Self::Sidecar {
                workload: workload.clone(),
                routes: Arc::new(ArcSwap::from_pointee(config.source.sidecar(workload)?)),
            },
            Kind::Gateway => Self::Gateway(Arc::new(ArcSwap::from_pointee(config.source.gateway()?))),
        })
    }

    /// Names that metrics may tell apart, since resources and not peers chose them.
    fn names(&self) -> Vec<HostPattern> {
        let names: Vec<String> = match self {
            Self::Sidecar { routes, .. } => {
                let routes = routes.load();
                let sni = routes.sni.iter().flat_map(|route| &route.names);
                sni.chain(routes.http.iter().flat_map(|route| &route.hosts)).cloned().collect()
            }
            Self::Gateway(routes) => {
                let routes = routes.load();
                let routes = routes.servers.iter().flat_map(|server| &server.routes);
                routes.flat_map(|route| &route.names).cloned().collect()
            }
        };
        // Addresses among the hosts of HTTP routes are no names.
        names.iter().filter_map(|name| name.parse().ok()).collect()
    }

    /// Takes the configuration as it is now; one that is wrong changes nothing.
    fn reload(&self, source: &Source) -> Result<(), ConfigError> {
        match self {
            Self::Sidecar { workload, routes } => routes.store(Arc::new(source.sidecar(workload)?)),
            Self::Gateway(routes) => routes.store(Arc::new(source.gateway()?)),
        }
        Ok(())
    }

    fn belong_to(&self, found: &SpiffeId) -> Result<(), ProxyError> {
        let expected = match self {
            Self::Sidecar { routes, .. } => routes.load().identity.clone(),
            Self::Gateway(routes) => routes.load().identity.clone(),
        };
        if *found == expected { Ok(()) } else { Err(ProxyError::Identity { found: found.clone(), expected }) }
    }

    fn dump(&self) -> serde_json::Value {
        let dumped = match self {
            Self::Sidecar { routes, .. } => serde_json::to_value(&**routes.load()),
            Self::Gateway(routes) => serde_json::to_value(&**routes.load()),
        };
        dumped.unwrap_or_else(|error| unreachable!("plain data is always JSON: {error}"))
    }
}

struct Proxy {
    settings: Arc<Settings>,
    credentials: Arc<CredentialsWatch>,
    telemetry: Arc<Telemetry>,
    means: Means,
    house: Arc<House>,
    /// Listeners of a gateway, by port.
    listeners: Arc<Mutex<BTreeMap<u16, CancellationToken>>>,
}

impl Proxy {
    fn new(config: &Config, credentials: Arc<CredentialsWatch>, telemetry: Arc<Telemetry>) -> Result<Self, ProxyError> {
        let settings = Arc::new(config.settings.clone());
        let resolver =
            Resolver::new(ResolverSettings { socket_mark: settings.socket_mark, ..ResolverSettings::default() })?;
        let connector = Connector::new(
            resolver,
            ConnectSettings {
                connect_timeout: settings.connect_timeout,
                socket_mark: settings.socket_mark,
                private_allowed: settings.private_allowed.clone(),
                ..ConnectSettings::default()
            },
        );
        let dialer = Dialer {
            connector,
            credentials: credentials.clone(),
            originations: Originations::default(),
            metrics: telemetry.metrics.clone(),
            settings: settings.clone(),
        };
        let freed = Arc::new(Notify::new());
        let (told, notify) = (telemetry.clone(), freed.clone());
        let on_end: OnEnd = Arc::new(move |record| {
            told.ended(record);
            notify.notify_one();
        });
        let relay = EpollRelay::start(settings.threads, settings.idle_timeout, &on_end).map_err(ProxyError::Threads)?;
        let house = House {
            relay: Arc::new(relay),
            telemetry: telemetry.clone(),
            slots: Arc::new(Semaphore::new(settings.max_connections)),
            freed,
            tasks: TaskTracker::new(),
        };
        let means = Means {
            settings: settings.clone(),
            dialer: Arc::new(dialer),
            pending: Arc::new(Semaphore::new(settings.max_pending)),
        };
        let listeners = Arc::default();
        Ok(Self { settings, credentials, telemetry, means, house: Arc::new(house), listeners })
    }

    fn admin_state(&self, config: &Config, routes: &Routes, readiness: &Readiness, registry: Registry) -> AdminState {
        let (routes, credentials) = (routes.clone(), self.credentials.clone());
        let kind = match &config.kind {
            Kind::Sidecar { workload } => format!("sidecar of {workload}"),
            Kind::Gateway => "egress gateway".to_owned(),
        };
        AdminState {
            readiness: readiness.clone(),
            registry,
            metrics: self.telemetry.metrics.clone(),
            routes: Box::new(move || routes.dump()),
            credentials: Box::new(move || Some(credentials.current())),
            settings: json!({
                "kind": kind,
                "relay": self.house.relay.name(),
                "httpBetweenServices": "passed as TCP",
                "limits": &*self.settings,
            }),
        }
    }

    /// Opens the listeners.
    fn start(&self, routes: &Routes, stop: &CancellationToken) -> Result<(), ProxyError> {
        match routes {
            Routes::Sidecar { routes, .. } => {
                let outbound = Outbound { routes: routes.clone(), means: self.means.clone() };
                let inbound = Inbound {
                    routes: routes.clone(),
                    means: self.means.clone(),
                    credentials: self.credentials.clone(),
                    metrics: self.telemetry.metrics.clone(),
                };
                let address = |port| SocketAddr::from((self.settings.listen, port));
                let (out, into) = (listen(address(OUTBOUND_PORT))?, listen(address(INBOUND_PORT))?);
                tokio::spawn(accept(out, Arc::new(outbound), self.house.clone(), stop.child_token()));
                tokio::spawn(accept(into, Arc::new(inbound), self.house.clone(), stop.child_token()));
                Ok(())
            }
            Routes::Gateway(routes) => self.gateway_listeners(routes, stop),
        }
    }

    /// Opens listeners of ports that are new, and closes those of ports that are gone.
    fn gateway_listeners(
        &self,
        routes: &Arc<ArcSwap<GatewayRoutes>>,
        stop: &CancellationToken,
    ) -> Result<(), ProxyError> {
        let ports: Vec<u16> = routes.load().servers.iter().map(|server| server.port).collect();
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|port, stop| {
            let stays = ports.contains(port);
            if !stays {
                stop.cancel();
            }
            stays
        });
        for port in ports {
            if listeners.contains_key(&port) {
                continue;
            }
            let listener = listen(SocketAddr::from((self.settings.listen, port)))?;
            let way = Gateway {
                port,
                routes: routes.clone(),
                means: self.means.clone(),
                credentials: self.credentials.clone(),
                metrics: self.telemetry.metrics.clone(),
            };
            let token = stop.child_token();
            tokio::spawn(accept(listener, Arc::new(way), self.house.clone(), token.clone()));
            listeners.insert(port, token);
        }
        Ok(())
    }

    /// Follows changes of the configuration's files until the result is dropped.
    fn follow(&self, config: Config, routes: Routes, stop: CancellationToken) -> Result<Follow, ProxyError> {
        let proxy = Self {
            settings: self.settings.clone(),
            credentials: self.credentials.clone(),
            telemetry: self.telemetry.clone(),
            means: self.means.clone(),
            house: self.house.clone(),
            listeners: self.listeners.clone(),
        };
        let files = [config.source.mesh.clone(), config.source.resources.clone()];
        let runtime = tokio::runtime::Handle::current();
        let follow = Follow::files(&files, move || {
            let _runtime = runtime.enter();
            let reloaded = routes.reload(&config.source).map_err(ProxyError::from).and_then(|()| match &routes {
                Routes::Sidecar { .. } => Ok(()),
                Routes::Gateway(routes) => proxy.gateway_listeners(routes, &stop),
            });
            proxy.means.dialer.originations.forget();
            proxy.telemetry.metrics.set_known_hosts(&routes.names());
            proxy.telemetry.configuration_changed(reloaded.is_ok());
            match reloaded {
                Ok(()) => tracing::info!("configuration loaded"),
                Err(error) => tracing::warn!(%error, "the changed configuration is refused, and the old one stays"),
            }
        })?;
        Ok(follow)
    }

    /// Lets connections end by themselves, then breaks off the rest.
    async fn drain(&self) {
        self.house.tasks.close();
        let all = u32::try_from(self.settings.max_connections).unwrap_or(u32::MAX);
        let ended = || self.house.slots.acquire_many(all);
        if timeout(self.settings.drain_timeout, ended()).await.is_err() {
            tracing::warn!("connections are left at the deadline, and are broken off");
            self.house.relay.close_all();
            // Those that are still being set up end by their own time limits, or with the process.
            let _ = timeout(self.settings.drain_timeout, ended()).await;
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, ProxyError> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|source| ProxyError::Listen { address, source })
}
