//! Differences from the baseline: mean, 95 % interval and range of the rounds around a line of no difference.

use super::{Frame, Name, framed, marker, n, scale, style_class, text_width};
use maud::{Markup, html};

/// One difference.
pub(in crate::page) struct Interval {
    /// What stands above it.
    pub(in crate::page) label: String,
    /// Its mark and colour.
    pub(in crate::page) style: usize,
    /// Mean over rounds.
    pub(in crate::page) mean: f64,
    /// Half the 95 % interval, where there is one.
    pub(in crate::page) margin: Option<f64>,
    /// Smallest and largest round.
    pub(in crate::page) range: (f64, f64),
    /// The difference in words.
    pub(in crate::page) text: String,
}

const STEP: f64 = 46.0;
const FOOT: f64 = 22.0;

/// Differences on one scale that has 0 in it; `none` stands at the line of no difference.
pub(in crate::page) fn intervals(frame: Frame, name: &Name, none: &str, rows: &[Interval]) -> Markup {
    let reach = |row: &Interval| {
        let margin = row.margin.unwrap_or(0.0);
        [row.range.0, row.range.1, row.mean - margin, row.mean + margin]
    };
    let low = rows.iter().flat_map(reach).fold(0.0, f64::min);
    let high = rows.iter().flat_map(reach).fold(0.0, f64::max);
    let (left, right) = (8.0, 8.0);
    let scale = scale(frame.width - left - right, high - low);
    let x = |value: f64| left + (value - low) * scale;
    let height = rows.len() as f64 * STEP + FOOT;
    let zero = x(0.0);
    let anchor = if zero > frame.width - text_width(none) / 2.0 {
        "end"
    } else if zero < text_width(none) / 2.0 {
        "start"
    } else {
        "middle"
    };
    let body = html! {
        line.dashed x1=(n(zero)) x2=(n(zero)) y1="0" y2=(n(height - FOOT + 4.0)) {}
        text.tick x=(n(zero)) y=(n(height - 4.0)) text-anchor=(anchor) { (none) }
        @for (place, row) in rows.iter().enumerate() {
            @let top = place as f64 * STEP;
            @let middle = top + 30.0;
            text.head.halo x="0" y=(n(top + 14.0)) { (row.label) tspan.plain { "  " (row.text) } }
            g.(style_class(row.style)) {
                line.range x1=(n(x(row.range.0))) x2=(n(x(row.range.1))) y1=(n(middle)) y2=(n(middle)) {}
                @if let Some(margin) = row.margin {
                    line.margin x1=(n(x(row.mean - margin))) x2=(n(x(row.mean + margin))) y1=(n(middle)) y2=(n(middle)) {}
                }
                (marker(row.style, x(row.mean), middle, 5.0))
            }
        }
    };
    framed(name, frame, height, body)
}
