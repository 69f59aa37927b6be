//! One experiment, whatever it contains: diagnostics with places, or an experiment. Its cases have resources that are right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meshtoll_model::{diagnostics::SourceFile, experiment};

const RESOURCES: &str = include_str!("../../experiments/egress/sidecar/database.yaml");

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let file = SourceFile { path: "experiment.yaml".into(), text: text.into() };
    let resources = SourceFile { path: "case.yaml".into(), text: RESOURCES.into() };
    if let Err(diagnostics) = experiment::check(&file, |_| Ok::<_, String>(vec![resources.clone()])) {
        assert!(!diagnostics.0.is_empty());
        assert!(diagnostics.0.iter().all(|found| found.line > 0 && found.column > 0 && !found.field.is_empty()));
    }
});
