//! `results.json` as a reader of it sees it.

use serde_json::Value;
use std::{fs, path::Path};

/// The cases; the five published ones come first, from the cheapest path to the dearest.
pub(crate) const CASES: [&str; 6] = ["bypass", "sidecar", "gateway", "gateway-mtls", "gateway-sni", "gateway-wildcard"];
/// The published ones among them.
pub(crate) const PUBLISHED: usize = 5;

/// The results in a run's folder.
pub(crate) struct Results(pub(crate) Value);

impl Results {
    pub(crate) fn read(out: &Path) -> Self {
        Self(json(&out.join("results.json")))
    }

    pub(crate) fn cells(&self) -> &[Value] {
        self.0["cells"].as_array().unwrap()
    }

    /// The cell of a case on Envoy at `clients` or at `rate` so many.
    #[track_caller]
    pub(crate) fn cell(&self, case: &str, level: &str, amount: u64) -> &Value {
        let found = self
            .cells()
            .iter()
            .find(|cell| cell["case"] == case && cell["subject"] == "envoy" && cell["level"][level] == amount);
        found.unwrap_or_else(|| panic!("no cell of {case} at {amount} {level}"))
    }

    /// Claims that did not hold in every slice, over all cells: case, claim, evidence.
    pub(crate) fn refuted(&self) -> Vec<(&str, &str, &str)> {
        let of_cell = |cell: &'_ Value| cell["proof"].as_array().unwrap().len();
        assert!(self.cells().iter().all(|cell| cell["slices"] == 0 || of_cell(cell) >= 4), "cells without proof");
        let claims = self.cells().iter().flat_map(|cell| {
            let case = cell["case"].as_str().unwrap();
            cell["proof"].as_array().unwrap().iter().map(move |claim| (case, claim))
        });
        let refuted = claims.filter(|(_, claim)| claim["held"] != claim["slices"]);
        refuted.map(|(case, claim)| (case, text(&claim["claim"]), text(&claim["evidence"]))).collect()
    }
}

pub(crate) fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
