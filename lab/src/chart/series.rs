//! Values on the paper: lines, bars, areas, and the range that each value had.

use super::scale::{LETTER, Scale, number};
use super::sheet::INK;
use super::{Point, Series, Style};
use anyhow::Result;
use std::fmt::Write;

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
        let width = scale.place() * 0.8 / all.max(1) as f64;
        for point in &self.points {
            let left = scale.x(point.x) + width * (which as f64 - all as f64 / 2.0);
            let (top, height) = (scale.y(point.y), scale.y(0.0) - scale.y(point.y));
            writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
                width * 0.92
            )?;
            let middle = left + width * 0.46;
            let above = scale.y(point.top()) - 5.0;
            let text = number(point.y);
            // A figure that would run into its neighbour's is left to the axis.
            if width > text.len() as f64 * LETTER * 0.8 {
                let place = format!("x=\"{middle:.1}\" y=\"{above:.1}\" text-anchor=\"middle\"");
                writeln!(svg, "<text {place} font-size=\"11\">{text}</text>")?;
            }
            point.draw_spread(svg, scale, middle, INK)?;
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
        let (low, high, left) = (scale.y(low), scale.y(high), x - 4.0);
        let lines = format!("M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}h8M{left:.1} {high:.1}h8");
        let ink = if colour == INK { "class=\"ink\"" } else { "" };
        writeln!(svg, "<path {ink} d=\"{lines}\" stroke=\"{colour}\" fill=\"none\"/>")?;
        Ok(())
    }
}
