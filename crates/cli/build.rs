//! Tells the binary which revision it was built from.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let revision = git(&["describe", "--always", "--dirty", "--abbrev=12"]).unwrap_or_else(|| "no git".to_owned());
    println!("cargo::rustc-env=MESHTOLL_REVISION={revision}");
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo::rerun-if-changed={folder}/HEAD");
        println!("cargo::rerun-if-changed={folder}/index");
    }
}
