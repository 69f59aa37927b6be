//! `meshtoll doctor`.

use crate::programs;
use meshtoll_testbed::doctor::{Finding, examine};
use std::process::ExitCode;

/// Prints what this machine allows and how to mend what is missing; fails when anything is.
pub(crate) fn doctor() -> ExitCode {
    let findings = examine(&programs::find());
    for Finding { what, ok, found, mend } in &findings {
        println!("{} {what}: {found}", if *ok { "ok     " } else { "MISSING" });
        if let Some(mend) = mend {
            println!("        mend it: {mend}");
        }
    }
    match findings.iter().filter(|finding| !finding.ok).count() {
        0 => {
            println!("everything is there");
            ExitCode::SUCCESS
        }
        missing => {
            println!("{missing} missing");
            ExitCode::FAILURE
        }
    }
}
