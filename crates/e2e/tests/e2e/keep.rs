//! `run --keep`: the testbed stays up, to be looked at.

use crate::{
    host::{Host, Traces},
    running::Running,
    support::{alone, meshtoll, stdout},
};
use nix::sys::signal::Signal;
use std::{path::Path, process::Command};

#[test]
fn pods_can_be_entered_until_ctrl_c() {
    let _alone = alone();
    let (before, out) = (Host::look(), tempfile::tempdir().unwrap());
    let arguments = "--cases bypass --clients 1 --rates 0 --rounds 1 --slice 300ms --keep";
    let run = Running::start(Path::new("egress"), arguments, out.path());
    let printed = run.until_printed("Ctrl-C ends it.\n");
    let traces = Traces::of(&run.processes(), out.path());

    let command = printed.lines().find_map(|line| line.trim().strip_prefix("bypass on envoy, booking "));
    let command = command.unwrap_or_else(|| panic!("no command for booking in:\n{printed}")).trim();
    let enter: Vec<&str> = command.strip_suffix("bash").expect("a shell").split_whitespace().collect();
    let inside = Command::new(enter[0]).args(&enter[1..]).args(["ip", "-4", "-oneline", "address"]).output().unwrap();
    assert!(inside.status.success(), "{command}: {inside:?}");
    let address = address_of("bypass-envoy-booking");
    assert!(stdout(&inside).contains(&format!("inet {address}/")), "not {address}: {inside:?}");

    run.interrupt(Signal::SIGINT);
    let ended = run.end().with(0);
    assert!(ended.stdout.contains("Report: "), "{ended:#?}");
    traces.until_gone();
    assert_eq!(Host::look(), before);
}

/// A pod's address as `meshtoll plan` says it.
fn address_of(pod: &str) -> String {
    let plan = stdout(&meshtoll().args(["plan", "egress", "--cases", "bypass"]).output().unwrap());
    let mut words = plan.split_whitespace().skip_while(|word| *word != pod);
    words.nth(1).expect("plan names the pod and its address").to_owned()
}
