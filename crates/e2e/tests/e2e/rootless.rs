//! As a user without any privilege: everything in a user namespace of its own.

use crate::{
    host::{Host, Traces},
    results::{CASES, Results},
    running::Running,
    support::{alone, binary, copy_folder, is_root, meshtoll, workspace},
};
use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::Command,
};

/// A user that owns nothing, as a rule called `nobody`.
const NOBODY: u32 = 65534;

#[test]
fn a_user_without_privileges_can_run() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let before = Host::look();
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // The originals may be in a home folder that is closed to others.
    let (program, envoy) = (folder.path().join("bin"), folder.path().join("proxy"));
    fs::copy(binary(), &program).unwrap();
    fs::copy(installed_envoy(), &envoy).unwrap();
    copy_folder(&workspace().join("experiments"), &folder.path().join("experiments"));

    let mut command = Command::new(program);
    command.current_dir(folder.path()).env("MESHTOLL_ENVOY", envoy).uid(NOBODY).gid(NOBODY);
    let arguments = "--clients 2 --rates 0 --rounds 1 --slice 500ms";
    let out = folder.path().join("out");
    let run = Running::start_as(command, Path::new("egress"), arguments, &out);
    run.until_measuring();
    let traces = Traces::of(&run.processes(), &out);
    run.end().with(0);
    traces.until_gone();

    let results = Results::read(&out);
    assert_eq!(results.0["environment"]["rootless"], true);
    assert_eq!(results.cells().len(), CASES.len());
    assert_eq!(results.refuted(), []);
    assert!(results.cells().iter().all(|cell| cell["transactions"].as_u64() > Some(0)), "{:#}", results.0["cells"]);
    assert_eq!(Host::look(), before);
}

/// The Envoy that `meshtoll doctor` finds, as it says itself.
fn installed_envoy() -> PathBuf {
    let output = meshtoll().arg("doctor").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let line = said.lines().find_map(|line| line.strip_prefix("ok      envoy: ")).expect("Envoy is installed");
    let path = line.split("  version:").next().unwrap();
    PathBuf::from(path)
}
