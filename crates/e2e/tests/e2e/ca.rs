//! `meshtoll ca`: what it writes, for whom, and when it does so again.

use crate::support::{meshtoll, stderr, stdout, until};
use meshtoll_identity::{Credentials, MeshCa, files};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
    time::{Duration, SystemTime},
};
use tempfile::TempDir;

const BOOKING: &str = "spiffe://cluster.local/ns/airline/sa/booking";

/// A folder with an authority in `ca`, and workloads beside it.
struct Mesh {
    folder: TempDir,
}

impl Mesh {
    fn new() -> Self {
        let mesh = Self { folder: tempfile::tempdir().unwrap() };
        mesh.done(&["init", "ca"]);
        mesh
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn ca(&self, arguments: &[&str]) -> Output {
        meshtoll().arg("ca").args(arguments).current_dir(self.folder.path()).output().unwrap()
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let output = self.ca(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        stdout(&output)
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.ca(arguments);
        assert!(!output.status.success(), "{arguments:?}: {output:?}");
        stderr(&output)
    }

    fn issue(&self) -> Credentials {
        self.done(&["issue", "--ca", "ca", "--spiffe-id", BOOKING, "--out", "booking"]);
        credentials(&self.path("booking")).unwrap()
    }

    fn roots(&self, folder: &str) -> usize {
        let bundle = fs::read_to_string(self.path(folder).join(files::TRUST_BUNDLE)).unwrap();
        bundle.matches("BEGIN CERTIFICATE").count()
    }
}

/// What a workload reads; nothing while files are being replaced.
fn credentials(folder: &Path) -> Option<Credentials> {
    let read = |name| fs::read(folder.join(name)).unwrap();
    let (chain, key) = (read(files::CERTIFICATE_CHAIN), read(files::PRIVATE_KEY));
    Credentials::from_pem(&chain, &key, &read(files::TRUST_BUNDLE)).ok()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_authority_is_made_once_and_its_key_is_its_owner_s() {
    let mesh = Mesh::new();
    assert_eq!(names(&mesh.path("ca")), ["ca-key.pem", files::TRUST_BUNDLE]);
    assert_eq!(mode(&mesh.path("ca/ca-key.pem")), 0o600);
    assert_eq!(mode(&mesh.path("ca/root-cert.pem")), 0o644);
    let key = fs::read_to_string(mesh.path("ca/ca-key.pem")).unwrap();
    let said = mesh.refused(&["init", "ca"]);
    assert!(said.contains("ca/ca-key.pem is there already"), "{said}");
    assert_eq!(fs::read_to_string(mesh.path("ca/ca-key.pem")).unwrap(), key);

    mesh.done(&["init", "other", "--trust-domain", "mesh.example"]);
    let read = |name| fs::read_to_string(mesh.path("other").join(name)).unwrap();
    let other = MeshCa::load(&read(files::TRUST_BUNDLE), &read("ca-key.pem")).unwrap();
    assert_eq!(other.trust_domain(), "mesh.example");
    assert!(mesh.refused(&["init", "third", "--trust-domain", "Mesh"]).contains("trust domain"));
}

#[test]
fn a_certificate_is_issued_for_a_workload_of_the_mesh() {
    let mesh = Mesh::new();
    let booking = mesh.issue();
    assert_eq!(booking.identity().to_string(), BOOKING);
    let remaining = booking.not_after().duration_since(SystemTime::now()).unwrap();
    assert!(remaining > Duration::from_secs(23 * 3600) && remaining <= Duration::from_secs(24 * 3600), "{remaining:?}");
    let folder = mesh.path("booking");
    assert_eq!(names(&folder), [files::CERTIFICATE_CHAIN, files::PRIVATE_KEY, files::TRUST_BUNDLE]);
    assert_eq!(mode(&folder.join(files::PRIVATE_KEY)), 0o600);
    assert_eq!(mode(&folder.join(files::CERTIFICATE_CHAIN)), 0o644);

    for (spiffe_id, lifetime, expected) in [
        ("spiffe://elsewhere.example/ns/a/sa/b", "1h", "elsewhere.example"),
        ("spiffe://cluster.local/booking", "1h", "not a SPIFFE identity"),
        (BOOKING, "25h", "longer than 24h"),
        (BOOKING, "1ms", "a second at least"),
    ] {
        let said =
            mesh.refused(&["issue", "--ca", "ca", "--spiffe-id", spiffe_id, "--out", "x", "--lifetime", lifetime]);
        assert!(said.contains(expected), "{said}");
    }
    let said = mesh.refused(&["issue", "--ca", "missing", "--spiffe-id", BOOKING, "--out", "x"]);
    assert!(said.contains("missing/root-cert.pem") && said.contains("meshtoll ca init"), "{said}");
    assert!(!mesh.path("x").exists());
}

#[test]
fn a_root_is_replaced_and_the_old_one_trusted_until_it_retires() {
    let mesh = Mesh::new();
    mesh.issue();
    let before = fs::read_to_string(mesh.path("booking/cert-chain.pem")).unwrap();
    let old_root = fs::read_to_string(mesh.path("ca/root-cert.pem")).unwrap();
    assert!(before.ends_with(&old_root));

    mesh.done(&["roll", "ca"]);
    assert_eq!(mesh.roots("ca"), 2);
    mesh.issue();
    assert_eq!(mesh.roots("booking"), 2);
    assert!(!fs::read_to_string(mesh.path("booking/cert-chain.pem")).unwrap().contains(&old_root));
    assert!(mesh.done(&["roll", "ca", "--retire"]).contains("1 old root is retired"));
    assert_eq!(mesh.roots("ca"), 1);
    assert_eq!(mode(&mesh.path("ca/ca-key.pem")), 0o600);
    mesh.issue();
    assert!(!fs::read_to_string(mesh.path("booking/root-cert.pem")).unwrap().contains(&old_root));
}

/// `ca issue --renew`, ended with the test.
struct Renewing(Child);

impl Renewing {
    fn start(mesh: &Mesh, lifetime: &str) -> Self {
        let arguments = ["issue", "--ca", "ca", "--spiffe-id", BOOKING, "--out", "booking", "--renew", "--lifetime"];
        let mut command = meshtoll();
        command.arg("ca").args(arguments).arg(lifetime).current_dir(mesh.folder.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
        let renewing = Self(child);
        until("the first certificate", || mesh.path("booking/cert-chain.pem").exists().then_some(()));
        renewing
    }

    #[track_caller]
    fn ends_on(mut self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), signal).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        // It has ended already, where the test got that far.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_certificate_is_renewed_before_it_ends() {
    let mesh = Mesh::new();
    let renewing = Renewing::start(&mesh, "6s");
    let first = until("sound files", || credentials(&mesh.path("booking"))).not_after();
    let second = until("a second certificate", || {
        let issued = credentials(&mesh.path("booking"))?;
        (issued.not_after() > first).then_some(issued)
    });
    let issued = second.not_after() - Duration::from_secs(6);
    assert!(issued < first, "issued {issued:?}, when the first had ended {first:?}");
    assert_eq!(second.identity().to_string(), BOOKING);
    renewing.ends_on(Signal::SIGTERM);
}

#[test]
fn a_new_root_is_trusted_at_once_and_a_retired_one_signs_no_more() {
    let mesh = Mesh::new();
    let renewing = Renewing::start(&mesh, "24h");
    let chain = || fs::read_to_string(mesh.path("booking/cert-chain.pem")).unwrap();
    let before = chain();
    mesh.done(&["roll", "ca"]);
    until("the new root in the workload's bundle", || (mesh.roots("booking") == 2).then_some(()));
    assert_eq!(chain(), before, "a certificate that is trusted is kept until its time");
    mesh.done(&["roll", "ca", "--retire"]);
    until("a certificate of the new root", || (chain() != before).then_some(()));
    assert_eq!(mesh.roots("booking"), 1);
    renewing.ends_on(Signal::SIGINT);
}
