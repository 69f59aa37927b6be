//! Lines over the number of clients, labelled at their ends.

use super::{Frame, Name, framed, marker, n, style_class, text_width, ticks, variant_class};
use crate::format;
use maud::{Markup, html};

/// One line.
pub(in crate::page) struct Series {
    /// What stands at its end.
    pub(in crate::page) label: String,
    /// Its mark and colour.
    pub(in crate::page) style: usize,
    /// Its subject's place: what decides its dashes.
    pub(in crate::page) variant: usize,
    /// Its points, leftmost first.
    pub(in crate::page) points: Vec<Point>,
}

/// One point with its spread.
#[derive(Clone, Copy)]
pub(in crate::page) struct Point {
    pub(in crate::page) x: f64,
    pub(in crate::page) y: f64,
    /// Half the height of its whisker.
    pub(in crate::page) spread: f64,
}

/// Least distance between two labels at the lines' ends.
const LABEL_HEIGHT: f64 = 16.0;

/// Lines from zero on both axes; `top` is the largest value on the vertical one, so that charts can share it.
pub(in crate::page) fn lines(frame: Frame, name: &Name, axes: [&str; 2], top: f64, series: &[Series]) -> Markup {
    let longest = series.iter().map(|one| text_width(&one.label)).fold(0.0, f64::max);
    // Where the labels would leave no room for the lines, they stand below, and numbers at the lines' ends.
    let keyed = longest > frame.width / 2.5;
    let below = if keyed { series.len() as f64 * LABEL_HEIGHT + 12.0 } else { 0.0 };
    let (left, right, upper) = (50.0, if keyed { 50.0 } else { longest + 34.0 }, 30.0);
    let lower = 44.0 + below;
    let height = below + if frame.is_narrow() { 330.0 } else { 380.0 };
    let (plot_width, plot_height) = (frame.width - left - right, height - upper - lower);
    let mut stops: Vec<f64> = series.iter().flat_map(|one| one.points.iter().map(|point| point.x)).collect();
    stops.sort_by(f64::total_cmp);
    stops.dedup();
    let y_ticks = ticks(top);
    let (x_max, y_max) = (stops.last().copied().unwrap_or(0.0).max(1.0), y_ticks.last().copied().unwrap_or(1.0));
    let x = |value: f64| left + value / x_max * plot_width;
    let y = |value: f64| upper + (1.0 - value / y_max) * plot_height;
    let bottom = upper + plot_height;
    let ends: Vec<f64> = series.iter().map(|one| one.points.last().map_or(bottom, |point| y(point.y))).collect();
    let labels = apart(&ends, upper, bottom);
    let body = html! {
        text.axis x="0" y="14" { (axes[1]) }
        @for tick in &y_ticks {
            line.grid x1=(n(left)) x2=(n(left + plot_width)) y1=(n(y(*tick))) y2=(n(y(*tick))) {}
            text.tick x=(n(left - 8.0)) y=(n(y(*tick) + 4.0)) text-anchor="end" { (format::number(*tick)) }
        }
        @for stop in &stops {
            line.stop x1=(n(x(*stop))) x2=(n(x(*stop))) y1=(n(bottom)) y2=(n(bottom + 5.0)) {}
            text.tick x=(n(x(*stop))) y=(n(bottom + 19.0)) text-anchor="middle" { (n(*stop)) }
        }
        text.axis x=(n(left + plot_width / 2.0)) y=(n(height - below - 6.0)) text-anchor="middle" { (axes[0]) }
        @for (place, one) in series.iter().enumerate() {
            g class={ (style_class(one.style)) " " (variant_class(one.variant)) } {
                @let points: Vec<String> =
                    one.points.iter().map(|point| format!("{},{}", n(x(point.x)), n(y(point.y)))).collect();
                polyline.line points=(points.join(" ")) {}
                @for point in &one.points {
                    line.whisker x1=(n(x(point.x))) x2=(n(x(point.x)))
                        y1=(n(y(point.y + point.spread))) y2=(n(y((point.y - point.spread).max(0.0)))) {}
                    (marker(one.style, x(point.x), y(point.y), 4.5))
                }
                @if let Some(last) = one.points.last() {
                    polyline.leader points={
                        (n(x(last.x) + 7.0)) "," (n(ends[place])) " " (n(left + plot_width + 16.0)) "," (n(labels[place]))
                    } {}
                    (marker(one.style, left + plot_width + 21.0, labels[place], 4.5))
                }
            }
            @let end = if keyed { (place + 1).to_string() } else { one.label.clone() };
            text.end x=(n(left + plot_width + 30.0)) y=(n(labels[place] + 4.0)) { (end) }
            @if keyed { (key(one, place, height - below + 16.0 + place as f64 * LABEL_HEIGHT)) }
        }
    };
    framed(name, frame, height, body)
}

/// A line's number, look and label.
fn key(one: &Series, place: usize, middle: f64) -> Markup {
    html! {
        text.tick x="18" y=(n(middle + 4.0)) text-anchor="end" { (place + 1) }
        g class={ (style_class(one.style)) " " (variant_class(one.variant)) } {
            polyline.line points={ "26," (n(middle)) " 58," (n(middle)) } {}
            (marker(one.style, 42.0, middle, 4.5))
        }
        text.end x="66" y=(n(middle + 4.0)) { (one.label) }
    }
}

/// Heights for labels, as near as possible to the lines' ends but never on top of each other.
fn apart(ends: &[f64], upper: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by(|one, other| ends[*one].total_cmp(&ends[*other]));
    let mut placed = ends.to_vec();
    let mut free = upper;
    for place in &order {
        placed[*place] = placed[*place].max(free);
        free = placed[*place] + LABEL_HEIGHT;
    }
    // What was pushed below the plot goes up again, and pushes those above it.
    let mut limit = bottom;
    for place in order.iter().rev() {
        placed[*place] = placed[*place].min(limit);
        limit = placed[*place] - LABEL_HEIGHT;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_distance_and_their_order() {
        assert_eq!(apart(&[100.0, 104.0, 50.0], 0.0, 300.0), [100.0, 116.0, 50.0]);
        assert_eq!(apart(&[298.0, 299.0, 300.0], 0.0, 300.0), [268.0, 284.0, 300.0]);
    }
}
