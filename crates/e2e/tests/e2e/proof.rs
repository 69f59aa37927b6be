//! The proof of path, by breaking each case on purpose: in its resources where the check of the model cannot see it, or in
//! the pods' networks while they come up.

use crate::{
    results::Results,
    running::{Ended, Running, run},
    support::{Copy, alone, is_root, meshtoll, stderr, stdout},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

const LAST_HOP: &str = "the database is asked from the gateway's pod alone";
const PAST_SIDECARS: &str = "database traffic passes no sidecar";
const THROUGH_SIDECARS: &str = "database traffic passes the sidecars, to the database";
const THROUGH_GATEWAY: &str = "database traffic passes the gateway, to the database";
const TO_SNI_PROXY: &str = "database traffic passes the gateway, to the SNI proxy";
const IN_SNI_PROXY: &str = "the gateway's connections end in the SNI proxy";
const MUTUAL_TLS: &str = "sidecars and gateway speak mutual TLS";
const BETWEEN_SERVICES: &str = "the services' own traffic passes their sidecars, with mutual TLS between them";

fn arguments(case: &str) -> String {
    format!("--cases {case} --clients 2 --rates 0 --rounds 1 --slice 500ms")
}

/// The run fails because of exactly these claims, says so, and reports it.
#[track_caller]
fn refutes(ended: Ended, out: &Path, case: &str, claims: &[&str]) {
    let ended = ended.with(3);
    let error = format!("error: {case} on envoy, 2 clients: not the promised path: ");
    let told: Vec<&str> = ended.stderr.lines().filter_map(|line| line.strip_prefix(&error)).collect();
    let told: Vec<&str> = told.iter().map(|line| line.split(" — ").next().unwrap()).collect();
    assert_eq!(told, claims, "{ended:#?}");
    assert!(ended.stdout.contains("FAILED"), "{ended:#?}");

    let results = Results::read(out);
    let refuted: Vec<&str> = results.refuted().iter().map(|(_, claim, _)| *claim).collect();
    assert_eq!(refuted, claims);
    assert!(results.refuted().iter().all(|(of, _, evidence)| *of == case && !evidence.is_empty()));
    assert!(results.0["notices"].as_array().unwrap().iter().any(|notice| notice["severity"] == "fault"));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("not proven"), "the report has to say that the path is not proven");
}

/// A run of a changed experiment, which the check of the model finds nothing wrong with.
#[track_caller]
fn refuted(copy: &Copy, case: &str, claims: &[&str]) {
    let check = meshtoll().arg("check").arg(copy.path()).output().unwrap();
    assert!(check.status.success(), "{}", stderr(&check));
    let out = tempfile::tempdir().unwrap();
    refutes(run(copy.path(), &arguments(case), out.path()), out.path(), case, claims);
}

/// The model finds the contradiction, at a line of this file that has `what`.
#[track_caller]
fn refused(copy: &Copy, case: &str, file: &str, what: &str, message: &str) {
    let out = tempfile::tempdir().unwrap();
    let ended = run(copy.path(), &arguments(case), out.path()).with(1);
    let path = copy.path().join(file);
    let place = format!("{}:", path.display());
    let diagnostics = ended.stderr.trim_start_matches("error: ");
    let found = diagnostics.lines().filter_map(|line| line.strip_prefix(&place)).find(|line| line.contains(message));
    let found = found.unwrap_or_else(|| panic!("nothing of {message:?} in {ended:#?}"));
    let line: usize = found.split(':').next().unwrap().parse().unwrap();
    let text = fs::read_to_string(path).unwrap();
    assert!(text.lines().nth(line - 1).unwrap().contains(what), "line {line} has no {what:?}: {found}");
}

#[test]
fn a_bypass_that_meets_the_sidecars_is_refuted() {
    let _alone = alone();
    let copy = Copy::of("bypass");
    copy.replace("experiment.yaml", "[10.88.0.0/16]", "[10.99.0.0/16]").replace(
        "experiment.yaml",
        "outboundTrafficPolicy: REGISTRY_ONLY",
        "outboundTrafficPolicy: ALLOW_ANY",
    );
    refuted(&copy, "bypass", &[PAST_SIDECARS]);
}

/// Where sidecars refuse what is not registered, the application does not even start.
#[test]
fn a_bypass_that_the_sidecars_refuse_names_the_service_that_cannot_start() {
    let _alone = alone();
    let copy = Copy::of("bypass");
    copy.replace("experiment.yaml", "[10.88.0.0/16]", "[10.99.0.0/16]");
    let out = tempfile::tempdir().unwrap();
    let ended = run(copy.path(), &arguments("bypass"), out.path()).with(1);
    let told = ended.stderr.lines().find(|line| line.starts_with("error: bypass on envoy: ")).unwrap_or_default();
    assert!(told.contains("/app in pod `bypass-envoy-") && told.contains(" has ended"), "{ended:#?}");
    ended.saying("the database at airline.mongodb.example:27017 does not answer");
}

#[test]
fn a_sidecar_case_with_the_database_excluded_is_refused() {
    let _alone = alone();
    let copy = Copy::of("sidecar");
    let excluded = "    resources: sidecar\n    interception:\n      excludeOutboundIPRanges: [10.88.0.0/16]\n";
    copy.replace("experiment.yaml", "    resources: sidecar\n", excluded);
    let message = "the excluded addresses bypass the mesh, but the promised path goes through it";
    refused(&copy, "sidecar", "experiment.yaml", "excludeOutboundIPRanges", message);
}

#[test]
fn a_sidecar_that_one_service_bypasses_is_refuted() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let rule = "insert rule ip istio ISTIO_OUTPUT ip daddr 10.88.0.0/16 return";
    detoured("sidecar", |_| rule.to_owned(), &[THROUGH_SIDECARS]);
}

#[test]
fn a_gateway_without_routes_is_refused() {
    let _alone = alone();
    let copy = Copy::of("gateway");
    let egress = fs::read_to_string(copy.path().join("gateway/egress.yaml")).unwrap();
    let (rest, route) = egress.rsplit_once("---\n").unwrap();
    assert!(route.contains("kind: VirtualService"));
    fs::write(copy.path().join("gateway/egress.yaml"), rest).unwrap();
    let message = "no route of `mesh` leads to port 443 of the egress gateway";
    refused(&copy, "gateway", "gateway/egress.yaml", "number: 443", message);
}

/// The sidecar believes that it talks to the gateway; the gateway and the database know better.
#[test]
fn a_gateway_that_one_sidecar_bypasses_is_refuted() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    let detour = |plan: &str| {
        let (gateway, database) =
            (address(plan, "gateway-envoy-egress-gateway"), address(plan, "gateway-envoy-database"));
        format!(
            "table ip detour {{
                chain output {{
                    type nat hook output priority -110;
                    ip daddr {gateway} tcp dport 443 dnat to {database}:27017
                }}
            }}"
        )
    };
    detoured("gateway", detour, &[LAST_HOP, THROUGH_GATEWAY]);
}

#[test]
fn mutual_tls_where_none_is_promised_is_refused() {
    let _alone = alone();
    let copy = Copy::of("gateway");
    copy.take("gateway/egress.yaml", "gateway-mtls/egress.yaml");
    refused(
        &copy,
        "gateway",
        "experiment.yaml",
        "meshTls: none",
        "the case's Gateway has a server of mode ISTIO_MUTUAL",
    );
}

#[test]
fn a_promise_of_mutual_tls_without_it_is_refused() {
    let _alone = alone();
    let copy = Copy::of("gateway-mtls");
    copy.take("gateway-mtls/egress.yaml", "gateway/egress.yaml");
    let message = "no server of the case's Gateway has mode ISTIO_MUTUAL";
    refused(&copy, "gateway-mtls", "experiment.yaml", "meshTls: mutual", message);
}

/// Another database's way has mutual TLS, which is what the check of the model sees; the application's has none.
#[test]
fn mutual_tls_that_the_database_traffic_does_not_have_is_refuted() {
    let _alone = alone();
    let copy = Copy::of("gateway-mtls");
    copy.put("gateway-mtls/egress.yaml", "gateway-mtls-for-another.yaml");
    refuted(&copy, "gateway-mtls", &[MUTUAL_TLS]);
}

#[test]
fn an_sni_proxy_without_a_route_is_refused() {
    let _alone = alone();
    let copy = Copy::of("gateway-sni");
    copy.take("gateway-sni/egress.yaml", "gateway-mtls/egress.yaml");
    copy.take("gateway-sni/database.yaml", "gateway-mtls/database.yaml");
    refused(
        &copy,
        "gateway-sni",
        "experiment.yaml",
        "path: [sidecar, gateway, sni-proxy]",
        "no route leads to the SNI proxy",
    );
}

/// Other databases' way goes through the SNI proxy, which is what the check of the model sees; the application's does not.
#[test]
fn an_sni_proxy_that_the_database_traffic_does_not_pass_is_refuted() {
    let _alone = alone();
    let copy = Copy::of("gateway-sni");
    copy.put("gateway-sni/egress.yaml", "gateway-sni-for-others.yaml");
    refuted(&copy, "gateway-sni", &[TO_SNI_PROXY, IN_SNI_PROXY]);
}

#[test]
fn services_without_mutual_tls_between_them_are_refuted() {
    let _alone = alone();
    let copy = Copy::of("bypass");
    copy.replace("bypass/peer-authentication.yaml", "mode: PERMISSIVE", "mode: DISABLE");
    refuted(&copy, "bypass", &[BETWEEN_SERVICES]);
}

/// A process that dies is named, whichever topology it belongs to.
#[test]
fn a_sidecar_that_dies_in_mid_run_is_named() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let arguments = "--cases sidecar --clients 2 --rates 0 --rounds 20 --slice 500ms";
    let run = Running::start(Path::new("egress"), arguments, out.path());
    run.until_measuring();
    kill(run.process("sidecar-envoy-customer/sidecar"), Signal::SIGKILL).unwrap();
    let ended = run.end().with(1);
    ended.saying("customer/sidecar in pod `sidecar-envoy-customer` has ended (signal: 9 (SIGKILL))");
}

/// Runs a case whose customer service gets these rules before it starts; they are made from what `meshtoll plan` says.
#[track_caller]
fn detoured(case: &str, rules: impl FnOnce(&str) -> String, claims: &[&str]) {
    let (copy, out) = (Copy::of(case), tempfile::tempdir().unwrap());
    let plan = meshtoll().arg("plan").arg(copy.path()).args(["--cases", case]).output().unwrap();
    let rules = rules(&stdout(&plan));

    let run = Running::start(copy.path(), &arguments(case), out.path());
    let sidecar = run.process(&format!("{case}-envoy-customer/sidecar"));
    // Services are started when all sidecars are ready, which a stopped one does not become.
    kill(sidecar, Signal::SIGSTOP).unwrap();
    let services = run.processes().iter().filter(|it| it.folder.as_ref().is_some_and(|it| it.ends_with("app"))).count();
    assert_eq!(services, 0, "the sidecar was not stopped in time");
    add_rules(sidecar, &rules);
    kill(sidecar, Signal::SIGCONT).unwrap();
    refutes(run.end(), out.path(), case, claims);
}

fn add_rules(pid: Pid, rules: &str) {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target"]).arg(pid.to_string()).args(["nft", "-f", "-"]);
    let mut nft = command.stdin(Stdio::piped()).spawn().unwrap();
    nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success(), "nft does not take {rules}");
}

/// A pod's address as `meshtoll plan` says it.
fn address<'a>(plan: &'a str, pod: &str) -> &'a str {
    let mut words = plan.split_whitespace().skip_while(|word| *word != pod);
    words.nth(1).unwrap_or_else(|| panic!("no {pod} in:\n{plan}"))
}
