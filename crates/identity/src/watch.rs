//! Credentials that follow the files they come from.

use crate::{Credentials, CredentialsError, TlsVersions, files};
use arc_swap::ArcSwap;
use notify::{RecursiveMode, Watcher as _};
use std::{
    error::Error,
    fmt, fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime},
};

/// Files that belong together are replaced one after the other: they are read once nothing has happened for this long.
const SETTLED: Duration = Duration::from_millis(100);
/// A folder that never settles is read all the same.
const UNSETTLED: Duration = Duration::from_secs(2);
/// What the kernel does not report (a network file system, a folder that was replaced) is noticed after this long.
const LOOK: Duration = Duration::from_secs(30);

/// The current credentials of a folder. Connections take them when they start, and keep them.
pub struct CredentialsWatch {
    current: Arc<ArcSwap<Credentials>>,
    /// Reports changes while it is there; the thread ends when it goes.
    watcher: Option<notify::RecommendedWatcher>,
    thread: Option<JoinHandle<()>>,
}

/// What became of a change.
#[derive(Debug)]
pub enum Reload<'a> {
    /// These are the credentials from now on.
    Loaded(&'a Arc<Credentials>),
    /// What is in the folder cannot be used; the credentials stay.
    Refused(&'a WatchError),
}

/// Why a folder's credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The files cannot be used.
    #[error("the credentials in {} cannot be used", folder.display())]
    Credentials {
        /// Where they are.
        folder: PathBuf,
        /// Why.
        source: CredentialsError,
    },
    /// The certificate in the folder names somebody else than before: who a workload is does not change while it runs.
    #[error("the credentials in {} are another workload's: {found}, where {expected} was before", folder.display())]
    Identity {
        /// Where they are.
        folder: PathBuf,
        /// Who they name.
        found: meshtoll_model::ids::SpiffeId,
        /// Who they named.
        expected: meshtoll_model::ids::SpiffeId,
    },
    /// The folder cannot be watched.
    #[error("cannot watch {} for changes", folder.display())]
    Watch {
        /// Which one.
        folder: PathBuf,
        /// Why.
        source: notify::Error,
    },
    /// There is no thread for it.
    #[error("cannot start a thread that watches credentials")]
    Thread(#[source] io::Error),
}

impl CredentialsWatch {
    /// Loads [`files`] of a folder, and follows them from then on; `observe` is told of every change.
    ///
    /// A change that cannot be used (a broken file, a key of another certificate, another identity) leaves the credentials as they
    /// are, and is logged; so is a certificate that is past two thirds of its life, since by then it should have been
    /// replaced.
    pub fn open(
        folder: &Path,
        versions: TlsVersions,
        mut observe: impl FnMut(Reload<'_>) + Send + 'static,
    ) -> Result<Self, WatchError> {
        let failed = |source| WatchError::Watch { folder: folder.to_owned(), source };
        let (changed, changes) = mpsc::channel();
        // Watched before it is read, so that no change falls in between. What changed does not matter: files may be symbolic links
        // into a folder that is swapped as a whole, as Kubernetes does it.
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| event.kind.is_access() || !concerns(&event)) {
                return;
            }
            // Nobody listens when the watch is ending.
            let _ = changed.send(());
        })
        .map_err(failed)?;
        watcher.watch(folder, RecursiveMode::NonRecursive).map_err(failed)?;

        let mut folder = Folder { path: folder.to_owned(), versions, seen: 0 };
        let content = folder.read()?;
        folder.seen = content.fingerprint();
        let current = Arc::new(ArcSwap::from_pointee(content.load(&folder)?));
        let shared = current.clone();
        let thread = thread::Builder::new()
            .name("credentials".to_owned())
            .spawn(move || follow(&changes, &mut folder, &shared, &mut observe))
            .map_err(WatchError::Thread)?;
        Ok(Self { current, watcher: Some(watcher), thread: Some(thread) })
    }

    /// The credentials as of now.
    pub fn current(&self) -> Arc<Credentials> {
        self.current.load_full()
    }
}

impl Drop for CredentialsWatch {
    fn drop(&mut self) {
        drop(self.watcher.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for CredentialsWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialsWatch").field("current", &self.current).finish_non_exhaustive()
    }
}

/// Where credentials come from.
struct Folder {
    path: PathBuf,
    versions: TlsVersions,
    /// Fingerprint of what was read last, so that nothing is refused twice for the same reason.
    seen: u64,
}

/// What the files hold.
struct Content {
    chain: Vec<u8>,
    key: Vec<u8>,
    trust_bundle: Vec<u8>,
}

impl Folder {
    fn read(&self) -> Result<Content, WatchError> {
        let read = |name: &str| {
            let path = self.path.join(name);
            fs::read(&path).map_err(|source| WatchError::Read { path, source })
        };
        Ok(Content {
            chain: read(files::CERTIFICATE_CHAIN)?,
            key: read(files::PRIVATE_KEY)?,
            trust_bundle: read(files::TRUST_BUNDLE)?,
        })
    }
}

impl Content {
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.chain, &self.key, &self.trust_bundle).hash(&mut hasher);
        hasher.finish()
    }

    fn load(&self, folder: &Folder) -> Result<Credentials, WatchError> {
        Credentials::from_pem_with(&self.chain, &self.key, &self.trust_bundle, folder.versions)
            .map_err(|source| WatchError::Credentials { folder: folder.path.clone(), source })
    }
}

/// Whether something happened to the credentials, rather than to other files of the folder, such as a log.
fn concerns(event: &notify::Event) -> bool {
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // Kubernetes exchanges folders by links whose names start so.
        files::ALL.contains(&&*name) || name.starts_with("..")
    };
    event.paths.is_empty() || event.paths.iter().any(ours)
}

/// Until the watcher goes.
fn follow(
    changes: &Receiver<()>,
    folder: &mut Folder,
    current: &ArcSwap<Credentials>,
    observe: &mut dyn FnMut(Reload<'_>),
) {
    let mut warned = Age::Young;
    loop {
        let age = Age::of(&current.load(), SystemTime::now());
        if age != warned {
            age.warn(&current.load());
            warned = age;
        }
        match changes.recv_timeout(LOOK) {
            Ok(()) if !settle(changes) => return,
            Err(RecvTimeoutError::Disconnected) => return,
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
        }
        match changed(folder, &current.load()) {
            Ok(None) => {}
            Ok(Some(credentials)) => {
                let credentials = Arc::new(credentials);
                current.store(credentials.clone());
                tracing::info!(identity = %credentials.identity(), "credentials loaded");
                observe(Reload::Loaded(&credentials));
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn Error, "changed credentials are refused, and the old ones stay");
                observe(Reload::Refused(&error));
            }
        }
    }
}

/// Waits until nothing happens; false when the watcher is gone.
fn settle(changes: &Receiver<()>) -> bool {
    let started = Instant::now();
    while started.elapsed() < UNSETTLED {
        match changes.recv_timeout(SETTLED) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    true
}

/// New credentials, where the files are others than before.
fn changed(folder: &mut Folder, current: &Credentials) -> Result<Option<Credentials>, WatchError> {
    let content = folder.read().inspect_err(|_| folder.seen = 0)?;
    let fingerprint = content.fingerprint();
    if fingerprint == folder.seen {
        return Ok(None);
    }
    folder.seen = fingerprint;
    let credentials = content.load(folder)?;
    if credentials.identity() != current.identity() {
        return Err(WatchError::Identity {
            folder: folder.path.clone(),
            found: credentials.identity().clone(),
            expected: current.identity().clone(),
        });
    }
    Ok(Some(credentials))
}

/// How far a certificate's life has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Young,
    PastTwoThirds,
    Expired,
}

impl Age {
    fn of(credentials: &Credentials, now: SystemTime) -> Self {
        let (start, end) = (credentials.not_before(), credentials.not_after());
        let life = end.duration_since(start).unwrap_or_default();
        if now >= end {
            Self::Expired
        } else if now >= start + life * 2 / 3 {
            Self::PastTwoThirds
        } else {
            Self::Young
        }
    }

    fn warn(self, credentials: &Credentials) {
        let (identity, end) = (credentials.identity(), time::OffsetDateTime::from(credentials.not_after()));
        match self {
            Self::Young => {}
            Self::PastTwoThirds => {
                tracing::warn!(%identity, until = %end, "the certificate should have been renewed by now");
            }
            Self::Expired => {
                tracing::error!(%identity, until = %end, "the certificate has expired: no peer accepts it")
            }
        }
    }
}
