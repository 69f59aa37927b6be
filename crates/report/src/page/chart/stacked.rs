//! Horizontal bars made of parts, with the parts' values written below each.

use super::{Frame, Name, framed, marker, n, scale, text_width};
use crate::format;
use maud::{Markup, html};

/// A bar made of parts.
pub(in crate::page) struct Stack {
    /// What stands above it.
    pub(in crate::page) label: String,
    /// The mark before its label.
    pub(in crate::page) style: usize,
    /// Sizes of the parts in the order of the chart's kinds; 0 where a part is missing.
    pub(in crate::page) parts: Vec<f64>,
    /// Standard deviation of the whole, drawn as a whisker.
    pub(in crate::page) spread: f64,
}

const BAR: f64 = 18.0;
const STEP: f64 = 66.0;
const LEGEND: f64 = 34.0;

/// Bars from zero on one scale; `top` is the largest value on it, so that charts can share it. `reference` is drawn as a dashed line through all bars; `kinds` name the parts.
pub(in crate::page) fn stacks(
    frame: Frame,
    name: &Name,
    top: f64,
    kinds: &[&str],
    reference: Option<f64>,
    stacks: &[Stack],
) -> Markup {
    let total = |stack: &Stack| stack.parts.iter().sum::<f64>();
    let right = stacks.iter().map(|stack| text_width(&format::number(total(stack)))).fold(0.0, f64::max) + 12.0;
    let scale = scale(frame.width - right - 2.0, top);
    let height = LEGEND + stacks.len() as f64 * STEP;
    let hatch = |kind: usize| format!("{}-{}-h{kind}", name.id, frame.name);
    let body = html! {
        defs {
            @for kind in 1..kinds.len() {
                pattern id=(hatch(kind)) width="6" height="6" patternUnits="userSpaceOnUse"
                    patternTransform={ "rotate(" (kind * 60 - 15) ")" } {
                    rect.{ "k" (kind) } width="6" height="6" {}
                    line.hatch x1="0" x2="0" y1="0" y2="6" stroke-width=(kind + 1) {}
                }
            }
        }
        @for (kind, label) in kinds.iter().enumerate() {
            @let x = kinds[..kind].iter().map(|before| text_width(before) + 34.0).sum::<f64>();
            (part(kind, &hatch(kind), x, 4.0, 14.0, 14.0))
            text.tick x=(n(x + 20.0)) y="15.5" { (label) }
        }
        @for (place, stack) in stacks.iter().enumerate() {
            @let upper = LEGEND + place as f64 * STEP;
            @let middle = upper + 19.0 + BAR / 2.0;
            (marker(stack.style, 7.0, upper + 8.0, 4.5))
            text.head x="18" y=(n(upper + 12.0)) { (stack.label) }
            @for (kind, size) in stack.parts.iter().enumerate() {
                @if *size > 0.0 {
                    @let x = stack.parts[..kind].iter().sum::<f64>() * scale;
                    (part(kind, &hatch(kind), x, upper + 19.0, size * scale, BAR))
                }
            }
            @let end = total(stack) * scale;
            line.error x1=(n(end - stack.spread * scale)) x2=(n(end + stack.spread * scale))
                y1=(n(middle)) y2=(n(middle)) {}
            text.value x=(n(end + stack.spread * scale + 6.0)) y=(n(middle + 4.0)) {
                (format::number(total(stack)))
            }
            text.small x="0" y=(n(upper + 19.0 + BAR + 14.0)) { (sum(kinds, &stack.parts)) }
        }
        @if let Some(reference) = reference {
            line.dashed x1=(n(reference * scale)) x2=(n(reference * scale)) y1=(n(LEGEND + 17.0)) y2=(n(height - 27.0)) {}
        }
    };
    framed(name, frame, height, body)
}

fn part(kind: usize, hatch: &str, x: f64, y: f64, width: f64, height: f64) -> Markup {
    let fill = (kind > 0).then(|| format!("url(#{hatch})"));
    html! {
        rect class={ "part k" (kind) } x=(n(x)) y=(n(y)) width=(n(width)) height=(n(height)) style=[fill.map(|fill| format!("fill:{fill}"))] {}
    }
}

/// `sidecars 393 + gateway 62`.
fn sum(kinds: &[&str], parts: &[f64]) -> String {
    let present = kinds.iter().zip(parts).filter(|(_, size)| **size > 0.0);
    present.map(|(kind, size)| format!("{kind} {}", format::number(*size))).collect::<Vec<_>>().join(" + ")
}
