//! Where the programs are that are tested.

use meshtoll_testbed::process::Programs;
use std::{
    env,
    path::{Path, PathBuf},
};

/// Cargo's folder for files of integration tests, in the target folder.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

pub(crate) fn find() -> Programs {
    Programs { meshtoll: meshtoll(), envoy: envoy(), nginx: "/nowhere".into() }
}

pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// `MESHTOLL_BIN`, or in the target folder of these tests, or in the usual one.
fn meshtoll() -> PathBuf {
    if let Some(named) = env::var_os("MESHTOLL_BIN") {
        return named.into();
    }
    let targets = [Path::new(SCRATCH).join(".."), workspace().join("target")];
    let found = targets.iter().find_map(|target| target.join("release/meshtoll").canonicalize().ok());
    found.expect("there is no meshtoll binary: run `cargo build --release -p meshtoll-cli`, or set MESHTOLL_BIN")
}

/// `MESHTOLL_ENVOY`, or where `make tools-run` puts it.
fn envoy() -> PathBuf {
    if let Some(named) = env::var_os("MESHTOLL_ENVOY") {
        return named.into();
    }
    let libraries = workspace().join(".tools/envoy/lib").read_dir().into_iter().flatten().flatten();
    let mut binaries = libraries.map(|library| library.path().join("site-packages/envoy/_bin/envoy"));
    binaries.find(|path| path.is_file()).expect("there is no Envoy: run `make tools-run`, or set MESHTOLL_ENVOY")
}
