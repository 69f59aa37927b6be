//! Broken experiments: a folder each, with the diagnostics that it gives in `expected.txt`.

use crate::folder;
use std::{fs, path::Path};

#[test]
fn each_gives_the_diagnostics_expected() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/broken");
    let mut folders: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let mut wrong = String::new();
    for folder in &folders {
        let name = folder.file_name().unwrap().to_string_lossy();
        let Err(found) = folder::check(folder) else {
            wrong += &format!("== {name}\nnothing is wrong with it\n");
            continue;
        };
        for diagnostic in &found.0 {
            assert!(folder.join(&diagnostic.file).is_file(), "{name}: {diagnostic}");
            let lines = fs::read_to_string(folder.join(&diagnostic.file)).unwrap().lines().count() as u64;
            assert!((1..=lines).contains(&diagnostic.line) && diagnostic.column > 0, "{name}: {diagnostic}");
            assert!(!diagnostic.field.is_empty() && !diagnostic.message.is_empty(), "{name}: {diagnostic}");
        }
        let expected = fs::read_to_string(folder.join("expected.txt")).unwrap_or_default();
        if expected.trim_end() != found.to_string() {
            wrong += &format!("== {name}\n{found}\n");
        }
    }
    assert!(folders.len() >= 20);
    assert!(wrong.is_empty(), "these folders give other diagnostics than expected.txt says:\n{wrong}");
}
