//! Writes the report of a made-up run into a folder, for working on the report without measuring first:
//! `cargo run --example page -p meshtoll-report -- OUT_DIR [SUBJECT…]`.

#[path = "../tests/it/fixture.rs"]
mod fixture;

use std::{env, io, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let folder = arguments.next().map(PathBuf::from).ok_or_else(|| io::Error::other("name a folder to write to"))?;
    let subjects: Vec<String> = arguments.collect();
    let mut subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    if subjects.is_empty() {
        subjects.push("envoy");
    }
    meshtoll_report::write_all(&fixture::record(&subjects), &folder)?;
    Ok(())
}
