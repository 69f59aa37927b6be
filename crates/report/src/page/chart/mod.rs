//! Charts as SVG, drawn for two widths: the page shows the one that fits, so that text is never scaled down.
//!
//! Colours come from the page's style sheet by class (`s0` … `s5` for cases, `k0` … `k2` for kinds of hops);
//! nothing is told by colour alone.

pub(super) mod bars;
pub(super) mod interval;
pub(super) mod line;
pub(super) mod stacked;

use maud::{Markup, html};

/// Number of distinct styles; further cases start again from the first.
const STYLES: usize = 6;

/// Number of distinct variants of a style.
const VARIANTS: usize = 3;

/// What a chart is drawn for.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Class of the drawing, and part of its ids.
    name: &'static str,
    /// Width in user units, which are about pixels.
    width: f64,
}

const WIDE: Frame = Frame { name: "wide", width: 680.0 };
const NARROW: Frame = Frame { name: "narrow", width: 336.0 };

impl Frame {
    fn is_narrow(self) -> bool {
        self.width < 400.0
    }
}

/// What a chart is called, for people who hear it.
#[derive(Clone)]
pub(super) struct Name {
    /// Unique on the page.
    pub(super) id: String,
    /// What is shown.
    pub(super) title: String,
    /// What is to be seen, with the numbers.
    pub(super) description: String,
}

/// The same chart for wide and for narrow screens.
pub(super) fn both(draw: impl Fn(Frame) -> Markup) -> Markup {
    html! { (draw(WIDE)) (draw(NARROW)) }
}

/// A drawing of this size with its name.
pub(super) fn svg(name: &Name, class: &str, width: f64, height: f64, body: Markup) -> Markup {
    let id = format!("{}-{class}", name.id);
    html! {
        svg.(class) role="img" viewBox={ "0 0 " (n(width)) " " (n(height)) } aria-labelledby={ (id) "-t " (id) "-d" } {
            title id={ (id) "-t" } { (name.title) }
            desc id={ (id) "-d" } { (name.description) }
            (body)
        }
    }
}

fn framed(name: &Name, frame: Frame, height: f64, body: Markup) -> Markup {
    svg(name, frame.name, frame.width, height, body)
}

/// The class that colours a case.
pub(super) fn style_class(style: usize) -> String {
    format!("s{}", style % STYLES)
}

/// The mark of a case: a shape of its own beside a colour of its own.
pub(super) fn marker(style: usize, x: f64, y: f64, radius: f64) -> Markup {
    let class = format!("mark {}", style_class(style));
    let polygon = |corners: &[(f64, f64)]| {
        let points: Vec<String> =
            corners.iter().map(|(right, down)| format!("{},{}", n(x + right * radius), n(y + down * radius))).collect();
        html! { polygon class=(class) points=(points.join(" ")) {} }
    };
    match style % STYLES {
        0 => html! { circle class=(class) cx=(n(x)) cy=(n(y)) r=(n(radius)) {} },
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)]),
        3 => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        4 => polygon(&[(0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)]),
        _ => polygon(&[
            (-0.4, -1.2),
            (0.4, -1.2),
            (0.4, -0.4),
            (1.2, -0.4),
            (1.2, 0.4),
            (0.4, 0.4),
            (0.4, 1.2),
            (-0.4, 1.2),
            (-0.4, 0.4),
            (-1.2, 0.4),
            (-1.2, -0.4),
            (-0.4, -0.4),
        ]),
    }
}

/// The class of what belongs to a subject other than the first: dashed lines, hollow marks.
pub(super) fn variant_class(variant: usize) -> String {
    format!("v{}", variant % VARIANTS)
}

/// A coordinate with one decimal.
fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Round values from 0 to at least `max`: about five steps of 1, 2, 2.5 or 5 times a power of ten.
fn ticks(max: f64) -> Vec<f64> {
    if max.is_nan() || max <= 0.0 {
        return vec![0.0, 1.0];
    }
    let power = 10f64.powf((max / 5.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| max / step <= 5.0);
    let step = step.unwrap_or(10.0 * power);
    (0..=(max / step).ceil() as u32).map(|place| f64::from(place) * step).collect()
}

/// User units a unit of value, so that `max` takes `width`; nothing is drawn where all values are 0.
fn scale(width: f64, max: f64) -> f64 {
    if max > 0.0 { width / max } else { 0.0 }
}

/// About how wide a text is, in user units, at the charts’ 12-unit font, for a wide face.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_maximum() {
        assert_eq!(ticks(1912.0), [0.0, 500.0, 1000.0, 1500.0, 2000.0]);
        assert_eq!(ticks(0.7), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]);
        assert_eq!(ticks(5.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(ticks(0.0), [0.0, 1.0]);
        assert_eq!(ticks(f64::NAN), [0.0, 1.0]);
    }
}
