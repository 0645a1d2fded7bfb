//! Series in the drawing: lines, bars and areas, and the range of each value.

use super::scale::{LETTER_WIDTH, Scale, format_number};
use super::{INK, Point, Series, Style, text};

/// Half the width of the ends of a range.
const WHISKER: f64 = 4.0;
/// A range that ends this far above its value is long.
const LONG_RANGE: f64 = 14.0;

impl Series {
    /// The series as a line.
    pub(super) fn lines(&self, scale: Scale, colour: &str) -> String {
        let dashes = if self.style == Style::Dashes { "stroke-dasharray=\"6 4\"" } else { "" };
        let line = positions(scale, self.points.iter().map(|point| (point.x, point.y)));
        let mut svg = match self.style {
            Style::Dots => String::new(),
            _ => {
                format!("<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" {dashes}/>\n")
            }
        };
        for point in &self.points {
            let (x, y) = (scale.x(point.x), scale.y(point.y));
            svg += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
            svg += &point.whisker(scale, x, colour);
        }
        svg
    }

    /// The series as the area between the ends of its ranges.
    pub(super) fn band(&self, scale: Scale, colour: &str) -> String {
        let ends = self.points.iter().filter_map(|point| Some((point.x, point.range?)));
        let above = ends.clone().map(|(x, (_, high))| (x, high));
        let below: Vec<(f64, f64)> = ends.map(|(x, (low, _))| (x, low)).collect();
        let outline = positions(scale, above.chain(below.into_iter().rev()));
        let mut svg = format!("<polygon points=\"{outline}\" fill=\"{colour}\" fill-opacity=\"0.25\"/>\n");
        if let [only] = self.points.as_slice() {
            svg += &only.whisker(scale, scale.x(only.x), colour);
        }
        svg
    }

    /// Whether the number of each bar fits beside its neighbours', with `all` series of bars.
    pub(super) fn numbers_fit(&self, scale: Scale, all: usize) -> bool {
        self.points.iter().all(|point| slot(scale, all) > point.number_width() + point.beside_width(scale))
    }

    /// The series as bars, each with its number or not; it is number `which` of `all` series of bars.
    pub(super) fn bars(&self, scale: Scale, colour: &str, (which, all): (usize, usize), numbers: bool) -> String {
        let mut svg = String::new();
        let slot = slot(scale, all);
        let width = slot * 0.92;
        for point in &self.points {
            let left = scale.x(point.x) + slot * (which as f64 - all as f64 / 2.0);
            let (top, height) = (scale.y(point.y), scale.y(0.0) - scale.y(point.y));
            svg += &format!(
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>\n"
            );
            let middle = left + width / 2.0;
            let beside = point.has_long_range(scale);
            let beyond = left + point.number_width() + WHISKER * 2.0;
            let whisker = if beside { middle.max(beyond).min(left + width - WHISKER) } else { middle };
            if numbers {
                let (place, anchor) = if beside {
                    ((whisker - WHISKER * 1.5, top - 5.0), "end")
                } else {
                    ((middle, scale.y(point.top()) - 5.0), "middle")
                };
                svg += &text(place, &format!("text-anchor=\"{anchor}\" font-size=\"11\""), &format_number(point.y));
            }
            svg += &point.whisker(scale, whisker, INK);
        }
        svg
    }

    /// The series as an area on `floor`, which becomes its upper edge.
    pub(super) fn area(&self, scale: Scale, colour: &str, floor: &mut Vec<f64>) -> String {
        floor.resize(self.points.len(), 0.0);
        let below: Vec<(f64, f64)> = self.points.iter().zip(&*floor).map(|(point, floor)| (point.x, *floor)).collect();
        floor.iter_mut().zip(&self.points).for_each(|(floor, point)| *floor += point.y);
        let above = self.points.iter().zip(&*floor).map(|(point, floor)| (point.x, *floor));
        format!("<polygon points=\"{}\" fill=\"{colour}\"/>\n", positions(scale, above.chain(below.into_iter().rev())))
    }
}

/// Positions of values, as SVG lists points.
fn positions(scale: Scale, values: impl Iterator<Item = (f64, f64)>) -> String {
    values.map(|(x, y)| format!("{:.1},{:.1}", scale.x(x), scale.y(y))).collect::<Vec<_>>().join(" ")
}

/// The width that each bar of a category has, with `all` series of bars.
fn slot(scale: Scale, all: usize) -> f64 {
    scale.category_width() * 0.8 / all.max(1) as f64
}

impl Point {
    /// The width of its number.
    fn number_width(&self) -> f64 {
        format_number(self.y).len() as f64 * LETTER_WIDTH * 0.8
    }

    /// Above a long range a number would be taken for the end of the range: it is on the bar, beside the range.
    fn has_long_range(&self, scale: Scale) -> bool {
        scale.y(self.y) - scale.y(self.top()) > LONG_RANGE
    }

    /// What the range takes beside the number.
    fn beside_width(&self, scale: Scale) -> f64 {
        if self.has_long_range(scale) { WHISKER * 3.0 } else { 0.0 }
    }

    /// The highest value that is drawn of it.
    pub(super) fn top(&self) -> f64 {
        self.range.map_or(self.y, |(_, high)| high.max(self.y))
    }

    /// Its range at the position `x`.
    fn whisker(&self, scale: Scale, x: f64, colour: &str) -> String {
        let Some((low, high)) = self.range else { return String::new() };
        let (low, high, left) = (scale.y(low), scale.y(high), x - WHISKER);
        let lines = format!("M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h8M{left:.1} {high:.1}h8");
        let class = if colour == INK { "class=\"ink\"" } else { "" };
        format!("<path {class} d=\"{lines}\" stroke=\"{colour}\" fill=\"none\"/>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::Chart;

    /// The value of an attribute in the line of `svg` that begins so.
    fn attribute(svg: &str, begins: &str, name: &str) -> f64 {
        let line = svg.lines().find(|line| line.starts_with(begins)).unwrap();
        let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
        rest.split_once('"').unwrap().0.parse().unwrap()
    }

    #[test]
    fn bar_label_is_beside_a_long_range() {
        let points = vec![Point { x: 0.0, y: 2.23, range: Some((1.0, 98.0)) }];
        let series = Series { name: "all".to_owned(), style: Style::Bar, points };
        let chart = Chart { categories: vec!["moves".to_owned()], series: vec![series], ..Chart::default() };
        let scale = Scale::of(&chart, 900.0, 330.0);
        let svg = chart.series[0].bars(scale, "red", (0, 1), true);
        let bar = attribute(&svg, "<rect", "y");
        let text = attribute(&svg, "<text", "y");
        assert!((0.0..10.0).contains(&(bar - text)), "{svg}");
        let (_, range) = svg.split_once("d=\"M").unwrap();
        let whisker: f64 = range.split_once(' ').unwrap().0.parse().unwrap();
        assert!(attribute(&svg, "<text", "x") <= whisker - WHISKER, "{svg}");
    }

    /// A number on some bars only would say that they matter more.
    #[test]
    fn all_bars_have_numbers_or_none() {
        let bars = |values: &[f64]| {
            let points = (0..).map(f64::from).zip(values).map(|(x, y)| Point::at(x, *y)).collect();
            let series = Series { name: "all".to_owned(), style: Style::Bar, points };
            let categories = values.iter().map(f64::to_string).collect();
            let chart = Chart { categories, series: vec![series], ..Chart::default() };
            let scale = Scale::of(&chart, 900.0, 330.0);
            (chart.series[0].numbers_fit(scale, 1), chart.draw(scale).matches("font-size=\"11\"").count())
        };
        assert_eq!(bars(&[1.0, 2.0]), (true, 2));
        let many: Vec<f64> = (0..60).map(f64::from).map(|value| value + 0.25).collect();
        assert_eq!(bars(&many), (false, 0));
    }
}
