//! Whether each case took the path that its name promises.

use super::{
    part::{case_tag, each_subject, table},
    section,
};
use crate::results::Results;
use maud::{Markup, html};

pub(super) fn proof(results: &Results) -> Markup {
    let body = html! {
        p {
            "The hops’ own counters, read before and after every slice, say which way the database’s traffic went. A \
             case whose claims do not all hold did not measure what its name says."
        }
        (each_subject(results, |subject| {
            let head = html! {
                tr {
                    th scope="col" { "case" }
                    th.text scope="col" { "claim" }
                    th.text scope="col" { "held" }
                    th.text scope="col" { "evidence of one slice" }
                }
            };
            let body = html! {
                @for case in &results.cases {
                    @let claims = results.proof(&case.name, subject);
                    @if claims.is_empty() {
                        tr.failed { th scope="row" { (case_tag(results, &case.name)) } td.text colspan="3" { "✗ no evidence was recorded" } }
                    }
                    @for claim in claims {
                        tr.failed[!claim.holds()] {
                            th scope="row" { (case_tag(results, &case.name)) }
                            td.text { (claim.claim) }
                            td.text { (if claim.holds() { "✓" } else { "✗" }) " in " (claim.held) " of " (claim.slices) " slices" }
                            td.text.evidence { (claim.evidence) }
                        }
                    }
                }
            };
            table(&format!("proof-{subject}"), html! { "Path of database traffic on " (subject) ", all load levels" }, head, body)
        }))
    };
    section("proof", body)
}
