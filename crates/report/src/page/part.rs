//! Pieces that several sections use.

use super::chart::marker;
use crate::{
    format,
    results::{Cost, Results},
};
use maud::{Markup, html};
use meshtoll_model::ids::{CaseName, SubjectName};

/// A case's place in the experiment: what decides its mark and colour.
pub(super) fn style(results: &Results, case: &CaseName) -> usize {
    results.cases.iter().position(|known| known.name == *case).unwrap_or(0)
}

/// A case's name after its mark.
pub(super) fn case_tag(results: &Results, case: &CaseName) -> Markup {
    html! {
        span.case {
            svg.dot viewBox="0 0 16 16" aria-hidden="true" { (marker(style(results, case), 8.0, 8.0, 5.5)) }
            (case)
        }
    }
}

/// A table that scrolls in a container of its own where it does not fit.
pub(super) fn table(id: &str, caption: Markup, head: Markup, body: Markup) -> Markup {
    html! {
        div.scroll role="region" aria-labelledby={ (id) "-caption" } tabindex="0" {
            table id=(id) { caption { span id={ (id) "-caption" } { (caption) } } thead { (head) } tbody { (body) } }
        }
    }
}

/// A figure with what was published beside it.
pub(super) fn figure(caption: Markup, drawing: Markup, aside: Option<Markup>) -> Markup {
    html! {
        div.beside {
            figure { (drawing) figcaption { (caption) } }
            @if let Some(aside) = aside { aside aria-label="Published finding" { (aside) } }
        }
    }
}

/// Draws something once for each subject, under its name where there are several.
pub(super) fn each_subject(results: &Results, draw: impl Fn(&SubjectName) -> Markup) -> Markup {
    let several = results.run.subjects.len() > 1;
    html! {
        @for subject in &results.run.subjects {
            @if several { h3.subject { (subject) } }
            (draw(subject))
        }
    }
}

/// A number, or a dash where there is none.
pub(super) fn or_dash(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), format::number)
}

/// User, system, total and standard deviation as cells.
pub(super) fn cost_cells(cost: &Cost) -> Markup {
    html! {
        td { (or_dash(cost.user)) }
        td { (or_dash(cost.system)) }
        td.strong { (format::number(cost.micros)) }
        td { (format::number(cost.rounds.standard_deviation)) }
    }
}
