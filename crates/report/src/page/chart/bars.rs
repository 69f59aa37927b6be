//! Groups of horizontal bars, each with its name and its value beside it.

use super::{Frame, Name, framed, marker, n, scale, style_class, text_width};
use crate::format;
use maud::{Markup, html};

/// Bars that belong together.
pub(in crate::page) struct Group {
    /// What stands above them.
    pub(in crate::page) label: String,
    /// Their mark and colour.
    pub(in crate::page) style: usize,
    /// The bars, topmost first.
    pub(in crate::page) bars: Vec<Bar>,
}

/// One bar.
pub(in crate::page) struct Bar {
    pub(in crate::page) label: &'static str,
    pub(in crate::page) value: f64,
    /// The baseline's value, drawn as a tick across the bar.
    pub(in crate::page) reference: Option<f64>,
}

const BAR: f64 = 12.0;
const STEP: f64 = 18.0;
const HEAD: f64 = 24.0;
const GAP: f64 = 12.0;

/// Groups of bars from zero on one scale; `top` is the largest value on it, so that charts can share it.
pub(in crate::page) fn groups(frame: Frame, name: &Name, top: f64, groups: &[Group]) -> Markup {
    let bars = || groups.iter().flat_map(|group| &group.bars);
    let left = bars().map(|bar| text_width(bar.label)).fold(0.0, f64::max) + 10.0;
    let right = bars().map(|bar| text_width(&format::number(bar.value))).fold(0.0, f64::max) + 14.0;
    let scale = scale(frame.width - left - right, top);
    let mut tops = Vec::new();
    let mut height = 0.0;
    for group in groups {
        tops.push(height);
        height += HEAD + group.bars.len() as f64 * STEP + GAP;
    }
    let body = html! {
        @for (group, top) in groups.iter().zip(tops) {
            (marker(group.style, 7.0, top + 11.0, 4.5))
            text.head x="18" y=(n(top + 15.0)) { (group.label) }
            @for (place, bar) in group.bars.iter().enumerate() {
                @let middle = top + HEAD + place as f64 * STEP + STEP / 2.0;
                text.tick x=(n(left - 8.0)) y=(n(middle + 4.0)) text-anchor="end" { (bar.label) }
                rect class={ "bar " (style_class(group.style)) } x=(n(left)) y=(n(middle - BAR / 2.0))
                    width=(n(bar.value * scale)) height=(n(BAR)) {}
                @if let Some(reference) = bar.reference {
                    line.reference x1=(n(left + reference * scale)) x2=(n(left + reference * scale))
                        y1=(n(middle - STEP / 2.0 + 1.0)) y2=(n(middle + STEP / 2.0 - 1.0)) {}
                }
                @let end = bar.reference.map_or(bar.value, |reference| bar.value.max(reference)) * scale;
                text.value x=(n(left + end + 6.0)) y=(n(middle + 4.0)) { (format::number(bar.value)) }
            }
        }
    };
    framed(name, frame, height, body)
}
