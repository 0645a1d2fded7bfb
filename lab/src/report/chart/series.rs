//! Values on the paper: lines, bars, areas, and the range that each value had.

use super::scale::{LETTER_WIDTH, Scale, format_number};
use super::sheet::INK;
use super::{Point, Series, Style};
use anyhow::Result;
use std::fmt::Write;

/// What the range of a value takes to either side.
const WHISKER: f64 = 4.0;
/// A range that ends so far above its value is long.
const LONG_RANGE: f64 = 14.0;

impl Series {
    /// Draws it; `bar` is which of how many series of bars it is, `floor` what areas before it were piled up to.
    pub(super) fn draw(
        &self,
        svg: &mut String,
        scale: Scale,
        colour: &str,
        bar: (usize, usize),
        floor: &mut Vec<(f64, f64)>,
    ) -> Result<()> {
        match self.style {
            Style::Line | Style::Dashes => self.draw_line(svg, scale, colour),
            Style::Bar => self.draw_bars(svg, scale, colour, bar),
            Style::Area => {
                *floor = self.draw_area(svg, scale, colour, floor)?;
                Ok(())
            }
        }
    }

    fn draw_line(&self, svg: &mut String, scale: Scale, colour: &str) -> Result<()> {
        let places: Vec<String> =
            self.points.iter().map(|point| format!("{:.1},{:.1}", scale.x(point.x), scale.y(point.y))).collect();
        let dashes = if self.style == Style::Dashes { "stroke-dasharray=\"6 4\"" } else { "" };
        let places = places.join(" ");
        writeln!(svg, "<polyline points=\"{places}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" {dashes}/>")?;
        for point in &self.points {
            let (x, y) = (scale.x(point.x), scale.y(point.y));
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
            point.draw_spread(svg, scale, x, colour)?;
        }
        Ok(())
    }

    fn draw_bars(&self, svg: &mut String, scale: Scale, colour: &str, (which, all): (usize, usize)) -> Result<()> {
        let width = scale.category_width() * 0.8 / all.max(1) as f64;
        for point in &self.points {
            let left = scale.x(point.x) + width * (which as f64 - all as f64 / 2.0);
            let (top, height) = (scale.y(point.y), scale.y(0.0) - scale.y(point.y));
            writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
                width * 0.92
            )?;
            let (middle, right) = (left + width * 0.46, left + width * 0.92);
            let text = format_number(point.y);
            let room = text.len() as f64 * LETTER_WIDTH * 0.8;
            // Above a long range a number would read as that of the range's end: it stands on the bar, beside the range.
            let highest = scale.y(point.top());
            let beside = top - highest > LONG_RANGE;
            let whisker = if beside { middle.max(left + room + WHISKER * 2.0).min(right - WHISKER) } else { middle };
            // A number that would run into its neighbour's is left to the axis.
            if width > room + if beside { WHISKER * 3.0 } else { 0.0 } {
                let (x, y, anchor) = if beside {
                    (whisker - WHISKER * 1.5, top - 5.0, "end")
                } else {
                    (middle, highest - 5.0, "middle")
                };
                let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"");
                writeln!(svg, "<text {place} font-size=\"11\">{text}</text>")?;
            }
            point.draw_spread(svg, scale, whisker, INK)?;
        }
        Ok(())
    }

    /// Draws it on `floor`; what the next one stands on.
    fn draw_area(&self, svg: &mut String, scale: Scale, colour: &str, floor: &[(f64, f64)]) -> Result<Vec<(f64, f64)>> {
        let under = |index: usize| floor.get(index).map_or(0.0, |(_, y)| *y);
        let roof: Vec<(f64, f64)> =
            self.points.iter().enumerate().map(|(index, point)| (point.x, point.y + under(index))).collect();
        let below = self.points.iter().enumerate().map(|(index, point)| (point.x, under(index))).rev();
        let places: Vec<String> =
            roof.iter().copied().chain(below).map(|(x, y)| format!("{:.1},{:.1}", scale.x(x), scale.y(y))).collect();
        writeln!(svg, "<polygon points=\"{}\" fill=\"{colour}\"/>", places.join(" "))?;
        Ok(roof)
    }
}

impl Point {
    /// The highest value that is drawn of it.
    pub(super) fn top(&self) -> f64 {
        self.spread.map_or(self.y, |(_, high)| high.max(self.y))
    }

    fn draw_spread(&self, svg: &mut String, scale: Scale, x: f64, colour: &str) -> Result<()> {
        let Some((low, high)) = self.spread else { return Ok(()) };
        let (low, high, left) = (scale.y(low), scale.y(high), x - WHISKER);
        let lines = format!("M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h8M{left:.1} {high:.1}h8");
        let ink = if colour == INK { "class=\"ink\"" } else { "" };
        writeln!(svg, "<path {ink} d=\"{lines}\" stroke=\"{colour}\" fill=\"none\"/>")?;
        Ok(())
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
        let points = vec![Point { x: 0.0, y: 2.23, spread: Some((1.0, 98.0)) }];
        let series = Series { name: "all".to_owned(), style: Style::Bar, points };
        let chart = Chart { categories: vec!["moves".to_owned()], series: vec![series], ..Chart::default() };
        let scale = Scale::of(&chart, 900.0, 330.0);
        let mut svg = String::new();
        chart.series[0].draw(&mut svg, scale, "red", (0, 1), &mut Vec::new()).unwrap();
        let bar = attribute(&svg, "<rect", "y");
        let text = attribute(&svg, "<text", "y");
        assert!((0.0..10.0).contains(&(bar - text)), "{svg}");
        let (_, range) = svg.split_once("d=\"M").unwrap();
        let whisker: f64 = range.split_once(' ').unwrap().0.parse().unwrap();
        assert!(attribute(&svg, "<text", "x") <= whisker - WHISKER, "{svg}");
    }
}
