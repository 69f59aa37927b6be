//! Whatever text comes, there is a result or there are diagnostics with places.

use meshtoll_model::{
    diagnostics::{Diagnostics, SourceFile},
    experiment, istio,
};
use proptest::prelude::*;

fn file(text: &str) -> SourceFile {
    SourceFile { path: "any.yaml".into(), text: text.into() }
}

fn has_places<T>(result: Result<T, Diagnostics>) {
    if let Err(diagnostics) = result {
        assert!(!diagnostics.0.is_empty());
        assert!(diagnostics.0.iter().all(|d| d.line > 0 && d.column > 0 && !d.field.is_empty()), "{diagnostics}");
    }
}

/// Text that looks like YAML more often than arbitrary text does.
fn yaml() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "name",
        "namespace",
        "hosts",
        "ports",
        "number",
        "tls",
        "match",
        "cases",
        "networking.istio.io/v1",
        "VirtualService",
        "Gateway",
        "ServiceEntry",
        "Experiment",
        ": ",
        ":",
        "\n",
        "\n  ",
        "\n    - ",
        "- ",
        "---\n",
        "...\n",
        "[",
        "]",
        "{",
        "}",
        "\"",
        "'",
        "*",
        "&a ",
        "*a",
        "!!str ",
        "<<",
        "|\n",
        ">\n",
        "~",
        "443",
        "1e999",
        "0x1F",
        "true",
        "*.example",
        "#",
        "\t",
        "\u{85}",
        "é",
        "\u{feff}",
        "%YAML 1.2\n",
        "? ",
    ]);
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in any::<String>()) {
        has_places(experiment::parse(&file(&text)));
        has_places(istio::parse(&[file(&text)]));
    }

    #[test]
    fn text_like_yaml_does_not_panic(text in yaml()) {
        has_places(experiment::parse(&file(&text)));
        has_places(istio::parse(&[file(&text)]));
    }

    #[test]
    fn a_line_lost_from_an_experiment_does_not_panic(line in 0usize..200) {
        let whole = include_str!("../../../../experiments/egress/experiment.yaml");
        let kept: Vec<_> = whole.lines().enumerate().filter(|(index, _)| *index != line).map(|(_, line)| line).collect();
        has_places(experiment::parse(&file(&kept.join("\n"))));
    }
}

proptest! {
    #[test]
    fn a_changed_line_of_a_case_does_not_panic(line in 0usize..140, change in 0usize..3) {
        let experiment = include_str!("../../../../experiments/egress/experiment.yaml");
        let whole = concat!(
            include_str!("../../../../experiments/egress/gateway-sni/database.yaml"),
            "---\n",
            include_str!("../../../../experiments/egress/gateway-sni/egress.yaml"),
        );
        let mut lines: Vec<_> = whole.lines().map(str::to_owned).collect();
        let line = line % lines.len();
        match change {
            0 => drop(lines.remove(line)),
            1 => lines.insert(line, lines[line].clone()),
            _ => lines[line] = lines[line].replace("mongodb", "mongo").replace("443", "8080").replace("MUTUAL", "X"),
        }
        let case = file(&lines.join("\n"));
        has_places(experiment::check(&file(experiment), |_| Ok::<_, String>(vec![case.clone()])));
    }
}

#[test]
fn deep_nesting_is_refused() {
    has_places(istio::parse(&[file(&"[".repeat(100_000))]));
    has_places(istio::parse(&[file(&"- ".repeat(100_000))]));
}
