//! FerretDB, built from tools/ferretdb.

use super::{app::Server, certificates::Certificates};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Why FerretDB cannot run here, if it cannot.
pub(crate) fn missing() -> Option<String> {
    let go = Command::new("go").arg("version").stdout(Stdio::null()).status();
    go.err().map(|error| format!("it is built with `go`, which cannot be run: {error}"))
}

pub(crate) fn start() -> Result<Server, String> {
    let program = build()?;
    let certificates = Certificates::new();
    let state = certificates.directory.path().join("state");
    fs::create_dir(&state).map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(["--listen", "127.0.0.1:0", "--certificate"])
        .arg(&certificates.certificate)
        .arg("--key")
        .arg(&certificates.key)
        .arg("--state")
        .arg(state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start FerretDB: {error}"))?;
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).map_err(|error| error.to_string())?;
    let running = Box::new(Running(child));
    let address = address.trim().parse().map_err(|_| format!("FerretDB did not start; it said {address:?}"))?;
    Ok(Server { address, certificates, running })
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn build() -> Result<PathBuf, String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = workspace.join(".tools/ferretdb/ferretdb");
    let built = Command::new("go")
        .args(["build", "-buildvcs=false", "-o"])
        .arg(fs::canonicalize(&workspace).map_err(|error| error.to_string())?.join(".tools/ferretdb/ferretdb"))
        .arg(".")
        .current_dir(workspace.join("tools/ferretdb"))
        .status()
        .map_err(|error| format!("cannot run `go build`: {error}"))?;
    if built.success() { Ok(program) } else { Err(format!("`go build` in tools/ferretdb failed: {built}")) }
}
