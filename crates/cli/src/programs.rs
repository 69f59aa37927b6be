//! Where the programs are that the testbed runs.

use meshtoll_testbed::process::Programs;
use std::{
    env,
    path::{Path, PathBuf},
};

/// The programs as found: Envoy below `.tools/` (where `make tools-run` installs it) or where `MESHTOLL_ENVOY` says;
/// nginx where Debian has it. A program that is not found is named by a path that does not exist, and the error comes when
/// it is needed.
pub(crate) fn find() -> Programs {
    Programs {
        meshtoll: PathBuf::from("/proc/self/exe"),
        envoy: env::var_os("MESHTOLL_ENVOY")
            .map(PathBuf::from)
            .or_else(installed_envoy)
            .unwrap_or_else(|| in_path("envoy")),
        nginx: in_path("nginx"),
    }
}

fn installed_envoy() -> Option<PathBuf> {
    let beside_binary = env::current_exe().ok().and_then(|path| path.ancestors().nth(3).map(Path::to_owned));
    let roots = [env::current_dir().ok(), beside_binary];
    roots.into_iter().flatten().find_map(|root| {
        let libraries = root.join(".tools/envoy/lib").read_dir().ok()?;
        let mut binaries = libraries.flatten().map(|entry| entry.path().join("site-packages/envoy/_bin/envoy"));
        binaries.find(|path| path.is_file())
    })
}

fn in_path(program: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = folders.map(|folder| folder.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| Path::new("/usr/sbin").join(program))
}
