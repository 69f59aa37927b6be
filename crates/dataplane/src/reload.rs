//! Following files: what depends on them is told when they changed and have settled.

use notify::{RecursiveMode, Watcher as _};
use std::{
    io,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread::{self, JoinHandle},
    time::Duration,
};

/// Files that belong together are replaced one after the other: a change counts once nothing happened for this long.
const SETTLED: Duration = Duration::from_millis(100);

/// Follows files until it is dropped.
pub(crate) struct Follow {
    watcher: Option<notify::RecommendedWatcher>,
    thread: Option<JoinHandle<()>>,
}

/// Why files cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The kernel does not watch a folder.
    #[error("cannot watch {} for changes: {source}", path.display())]
    Watch {
        /// Which.
        path: PathBuf,
        /// Why.
        source: notify::Error,
    },
    /// There is no thread for it.
    #[error("cannot start a thread that follows files: {0}")]
    Thread(#[from] io::Error),
}

impl Follow {
    /// Calls `changed` after changes of these files, or of files in these folders. A file is followed by its folder, since it
    /// may be replaced, or be a link into a folder that is.
    pub(crate) fn files(paths: &[PathBuf], mut changed: impl FnMut() + Send + 'static) -> Result<Self, FollowError> {
        let (tell, told) = mpsc::channel();
        let unwatched = |path: &Path, source| FollowError::Watch { path: path.into(), source };
        let followed: Vec<PathBuf> = paths.to_vec();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| event.kind.is_access() || !concerns(&event, &followed)) {
                return;
            }
            // Nobody listens when following ends.
            let _ = tell.send(());
        });
        let mut watcher = watcher.map_err(|source| unwatched(Path::new("files"), source))?;
        for path in paths {
            let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            watcher.watch(folder, RecursiveMode::NonRecursive).map_err(|source| unwatched(folder, source))?;
        }
        let thread = thread::Builder::new().name("reload".to_owned()).spawn(move || {
            while told.recv().is_ok() {
                loop {
                    match told.recv_timeout(SETTLED) {
                        Ok(()) => {}
                        Err(RecvTimeoutError::Timeout) => break,
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
                changed();
            }
        })?;
        Ok(Self { watcher: Some(watcher), thread: Some(thread) })
    }
}

/// Whether something happened to one of the files, rather than to others in their folders, such as a log.
fn concerns(event: &notify::Event, followed: &[PathBuf]) -> bool {
    let names = |path: &Path, own: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        let yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        // Kubernetes exchanges folders by links whose names start so.
        let exchanged = name.to_string_lossy().starts_with("..");
        exchanged
            || own.file_name() == Some(name)
            || (yaml && path.parent().is_some_and(|folder| folder.ends_with(own)))
    };
    event.paths.is_empty() || event.paths.iter().any(|path| followed.iter().any(|own| names(path, own)))
}

impl Drop for Follow {
    fn drop(&mut self) {
        drop(self.watcher.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}
