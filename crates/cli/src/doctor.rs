//! `meshtoll doctor`.

use crate::{output::say, programs};
use meshtoll_testbed::doctor::{Finding, examine};
use std::process::ExitCode;

/// Prints what this machine allows and how to mend what is missing; fails when anything is.
pub(crate) fn doctor() -> anyhow::Result<ExitCode> {
    let findings = examine(&programs::find());
    for Finding { what, ok, found, mend } in &findings {
        say!("{} {what}: {found}", if *ok { "ok     " } else { "MISSING" })?;
        if let Some(mend) = mend {
            say!("        mend it: {mend}")?;
        }
    }
    match findings.iter().filter(|finding| !finding.ok).count() {
        0 => {
            say!("everything is there")?;
            Ok(ExitCode::SUCCESS)
        }
        missing => {
            say!("{missing} missing")?;
            Ok(ExitCode::FAILURE)
        }
    }
}
