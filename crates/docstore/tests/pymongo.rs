//! The same server through a second driver, pymongo: what one driver happens to accept may not be the protocol.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::{
    path::{Path, PathBuf},
    process::Command,
};
use support::Server;

#[test]
fn pymongo_works() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python =
        std::env::var_os("MESHTOLL_PYTHON").map_or_else(|| workspace.join(".tools/python/bin/python"), PathBuf::from);
    if !python.exists() {
        println!("SKIPPED: there is no {} with pymongo; run `make tools`, or set MESHTOLL_PYTHON", python.display());
        return;
    }
    let server = Server::with_tls();
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pymongo_suite.py");
    let output = Command::new(python)
        .args([suite.as_os_str(), server.address.port().to_string().as_ref(), server.ca_file().as_os_str()])
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    server.stop();
}
