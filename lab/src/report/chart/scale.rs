//! Conversion of values to positions in the drawing.

use super::{Chart, Style};

/// Margins of the plot.
pub(super) const LEFT: f64 = 70.0;
pub(super) const TOP: f64 = 62.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 52.0;
/// Below slanted names.
const BOTTOM_SLANTED: f64 = 92.0;
/// Approximate width of a letter.
pub(super) const LETTER_WIDTH: f64 = 6.6;

/// The size of the drawing, and the span of the values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x_min: f64,
    pub(super) x_max: f64,
    pub(super) y_max: f64,
    /// Whether the names of categories are slanted, because they are long.
    pub(super) slanted: bool,
}

impl Scale {
    /// The scale at which all of `chart` fits into this width and height.
    pub(super) fn of(chart: &Chart, width: f64, height: f64) -> Scale {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let last = chart.categories.len().saturating_sub(1) as f64;
        let x_min = points().map(|point| point.x).reduce(f64::min).unwrap_or(0.0);
        let x_max = points().map(|point| point.x).fold(last, f64::max);
        let has_bars = chart.series.iter().any(|series| series.style == Style::Bar);
        // Half of what a bar may take; a single number is in the middle.
        let margin = if has_bars || x_min == x_max { 0.5 } else { 0.0 };
        let x_min = if chart.categories.is_empty() { x_min - margin } else { -margin };
        let x_max = x_max + margin;
        let stacked = chart.series.iter().any(|series| series.style == Style::Area);
        let top = if stacked { stacked_top(chart) } else { points().map(|point| point.top()).fold(0.0, f64::max) };
        let upright = Scale { width, height, x_min, x_max, y_max: top * 1.06, slanted: false };
        let longest = chart.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        Scale { slanted: longest as f64 * LETTER_WIDTH > upright.category_width(), ..upright }
    }

    pub(super) fn x(self, x: f64) -> f64 {
        LEFT + (x - self.x_min) / (self.x_max - self.x_min).max(f64::MIN_POSITIVE) * (self.right() - LEFT)
    }

    pub(super) fn y(self, y: f64) -> f64 {
        self.baseline() - y / self.y_max.max(f64::MIN_POSITIVE) * (self.baseline() - TOP)
    }

    /// The right end of the plot.
    pub(super) fn right(self) -> f64 {
        self.width - RIGHT
    }

    /// The position of zero.
    pub(super) fn baseline(self) -> f64 {
        self.height - if self.slanted { BOTTOM_SLANTED } else { BOTTOM }
    }

    /// The width of a category.
    pub(super) fn category_width(self) -> f64 {
        self.x(1.0) - self.x(0.0)
    }
}

fn stacked_top(chart: &Chart) -> f64 {
    let longest = chart.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let sum = |index: usize| chart.series.iter().filter_map(|one| one.points.get(index)).map(|one| one.y).sum::<f64>();
    (0..longest).map(sum).fold(0.0, f64::max)
}

/// A round distance that divides `span` into at most `most` parts.
pub(super) fn step(span: f64, most: f64) -> f64 {
    let power = 10_f64.powf((span / most).max(f64::MIN_POSITIVE).log10().floor());
    let fits = |times: &&f64| span / (power * **times) <= most;
    power * [1.0, 2.0, 5.0].iter().find(fits).copied().unwrap_or(10.0)
}

/// A value with as many decimals as it needs.
pub(super) fn format_number(value: f64) -> String {
    let text = if value != 0.0 && value.abs() < 0.01 { format!("{value:.4}") } else { format!("{value:.2}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{Point, Series};
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        for (span, wanted) in [(10.0, 2.0), (41.0, 10.0), (0.5, 0.1), (7.0, 1.0), (450.0, 100.0)] {
            assert!((step(span, 8.0) - wanted).abs() < 1e-9, "{span}: {}", step(span, 8.0));
        }
    }

    fn chart(style: Style, numbers: &[f64]) -> Chart {
        let points = numbers.iter().map(|x| Point::at(*x, 1.0)).collect();
        Chart { series: vec![Series { name: "all".to_owned(), style, points }], ..Chart::default() }
    }

    #[test]
    fn bars_at_numbers_are_within_the_plot() {
        let scale = Scale::of(&chart(Style::Bar, &[1.0, 2.0, 3.0]), 900.0, 330.0);
        let half = scale.category_width() / 2.0;
        assert!(scale.x(1.0) - half >= LEFT && scale.x(3.0) + half <= scale.right(), "{scale:?}");
    }

    #[test]
    fn a_single_number_is_in_the_middle() {
        let scale = Scale::of(&chart(Style::Line, &[64_000.0]), 900.0, 330.0);
        assert!((scale.x(64_000.0) - (LEFT + scale.right()) / 2.0).abs() < 1e-6, "{scale:?}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [format_number(0.0), format_number(100.0), format_number(1.5), format_number(0.0031)],
            ["0", "100", "1.5", "0.0031"]
        );
    }
}
