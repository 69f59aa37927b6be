//! Credentials follow their files.

use crate::mesh::{HOUR, credentials, id, shake};
use meshtoll_identity::{
    Credentials, CredentialsError, CredentialsWatch, MeshCa, Reload, TlsVersions, WatchError, WorkloadCertificate,
    files,
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    time::Duration,
};

/// How long a change may take to be noticed, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn write(folder: &Path, issued: &WorkloadCertificate, bundle: &str) {
    fs::create_dir_all(folder).unwrap();
    for (name, content) in [
        (files::TRUST_BUNDLE, bundle),
        (files::PRIVATE_KEY, issued.key_pem.as_str()),
        (files::CERTIFICATE_CHAIN, &issued.chain_pem),
    ] {
        let new = folder.join("new");
        fs::write(&new, content).unwrap();
        fs::rename(&new, folder.join(name)).unwrap();
    }
}

/// What became of a change: the new credentials, or what was said.
type Outcome = Result<Arc<Credentials>, String>;

fn open(folder: &Path) -> (CredentialsWatch, Receiver<Outcome>) {
    let (sender, outcomes) = mpsc::channel();
    let watch = CredentialsWatch::open(folder, TlsVersions::default(), move |reload| {
        let outcome = match reload {
            Reload::Loaded(credentials) => Ok(credentials.clone()),
            Reload::Refused(WatchError::Credentials { source, .. }) => Err(source.to_string()),
            Reload::Refused(error) => Err(error.to_string()),
        };
        sender.send(outcome).unwrap();
    });
    (watch.unwrap(), outcomes)
}

struct Booking {
    ca: MeshCa,
    folder: tempfile::TempDir,
}

impl Booking {
    fn new() -> Self {
        let booking = Self { ca: MeshCa::new("cluster.local").unwrap(), folder: tempfile::tempdir().unwrap() };
        booking.write_new();
        booking
    }

    fn write_new(&self) {
        write(self.folder.path(), &self.issue(), &self.ca.trust_bundle_pem());
    }

    fn issue(&self) -> WorkloadCertificate {
        self.ca.issue(&id("booking"), HOUR).unwrap()
    }
}

#[test]
fn a_renewed_certificate_is_taken_and_connections_made_before_go_on() {
    let booking = Booking::new();
    let (watch, outcomes) = open(booking.folder.path());
    let before = watch.current();
    let gateway = credentials(&booking.ca, "gateway");
    let mut old = shake(before.client_config(&id("gateway")), gateway.server_config()).accepted();

    booking.write_new();
    let loaded = outcomes.recv_timeout(DEADLINE).unwrap().unwrap();
    assert!(Arc::ptr_eq(&loaded, &watch.current()) && !Arc::ptr_eq(&loaded, &before));
    shake(loaded.client_config(&id("gateway")), gateway.server_config()).accepted();
    old.say_something();
}

#[test]
fn what_cannot_be_used_leaves_the_old_credentials_until_it_is_mended() {
    let booking = Booking::new();
    let folder = booking.folder.path();
    let (watch, outcomes) = open(folder);
    let before = watch.current();
    let refused = || {
        let said = outcomes.recv_timeout(DEADLINE).unwrap().unwrap_err();
        assert!(Arc::ptr_eq(&before, &watch.current()), "{said}");
        said
    };

    fs::write(folder.join(files::CERTIFICATE_CHAIN), "broken").unwrap();
    assert!(refused().contains("certificate chain has no certificate"));
    fs::write(folder.join(files::CERTIFICATE_CHAIN), booking.issue().chain_pem).unwrap();
    assert_eq!(refused(), CredentialsError::KeyMismatch.to_string());
    let flight = booking.ca.issue(&id("flight"), HOUR).unwrap();
    write(folder, &flight, &booking.ca.trust_bundle_pem());
    assert!(refused().contains("another workload's"));
    fs::remove_file(folder.join(files::PRIVATE_KEY)).unwrap();
    assert!(refused().contains("cannot read"));

    booking.write_new();
    let loaded = outcomes.recv_timeout(DEADLINE).unwrap().unwrap();
    assert!(Arc::ptr_eq(&loaded, &watch.current()));
}

#[test]
fn a_folder_of_links_that_is_swapped_as_kubernetes_does_is_followed() {
    let booking = Booking::new();
    let mounted = tempfile::tempdir().unwrap();
    let bundle = booking.ca.trust_bundle_pem();
    write(&mounted.path().join("..1"), &booking.issue(), &bundle);
    symlink("..1", mounted.path().join("..data")).unwrap();
    for name in [files::CERTIFICATE_CHAIN, files::PRIVATE_KEY, files::TRUST_BUNDLE] {
        symlink(Path::new("..data").join(name), mounted.path().join(name)).unwrap();
    }
    let (watch, outcomes) = open(mounted.path());
    let before = watch.current();

    write(&mounted.path().join("..2"), &booking.issue(), &bundle);
    symlink("..2", mounted.path().join("..data_tmp")).unwrap();
    fs::rename(mounted.path().join("..data_tmp"), mounted.path().join("..data")).unwrap();
    outcomes.recv_timeout(DEADLINE).unwrap().unwrap();
    assert!(!Arc::ptr_eq(&before, &watch.current()));
}

#[test]
fn a_root_that_is_added_to_the_bundle_is_trusted_and_one_that_is_retired_is_not() {
    let mut booking = Booking::new();
    let (watch, outcomes) = open(booking.folder.path());
    let old_gateway = credentials(&booking.ca, "gateway");
    booking.ca = booking.ca.successor().unwrap();
    let new_gateway = credentials(&booking.ca, "gateway");
    let call = |gateway: &Credentials| shake(watch.current().client_config(&id("gateway")), gateway.server_config());
    call(&old_gateway).accepted();
    call(&new_gateway).refused_by_client();

    fs::write(booking.folder.path().join(files::TRUST_BUNDLE), booking.ca.trust_bundle_pem()).unwrap();
    outcomes.recv_timeout(DEADLINE).unwrap().unwrap();
    // The own certificate is still of the old root, which the new gateway trusts, too.
    call(&new_gateway).accepted();
    call(&old_gateway).accepted();

    booking.ca.retire_old_roots();
    booking.write_new();
    outcomes.recv_timeout(DEADLINE).unwrap().unwrap();
    call(&new_gateway).accepted();
    call(&old_gateway).refused_by_client();
}

#[test]
fn a_folder_without_credentials_is_refused_at_once() {
    let open = |folder: &Path| CredentialsWatch::open(folder, TlsVersions::default(), |_| {}).unwrap_err();
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(open(&folder.path().join("missing")), WatchError::Watch { .. }));
    assert!(matches!(open(folder.path()), WatchError::Read { .. }));
}
