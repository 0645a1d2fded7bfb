//! Figures: axes, lines with their spread, bars and areas, drawn as SVG; and rows of blocks for a terminal.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

/// One figure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    /// What it shows.
    pub(crate) title: String,
    /// What is to the right, with its unit.
    pub(crate) across: String,
    /// What is upwards, with its unit.
    pub(crate) up: String,
    /// Names of the places 0, 1, 2, ... to the right; empty: numbers.
    pub(crate) places: Vec<String>,
    /// What is drawn, the first at the bottom.
    pub(crate) series: Vec<Series>,
    /// Moments to the right that have a name.
    pub(crate) marks: Vec<(f64, String)>,
}

/// Values that belong together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub(crate) name: String,
    /// How it is drawn.
    pub(crate) style: Style,
    /// Its points, from left to right.
    pub(crate) points: Vec<Point>,
}

/// A value and between which it lay.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Point {
    /// Where.
    pub(crate) x: f64,
    /// How much.
    pub(crate) y: f64,
    /// From where to where it went, if that is known.
    pub(crate) spread: Option<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// Joined points.
    #[default]
    Line,
    /// Joined points in dashes: what others say.
    Dashes,
    /// A bar at each place, beside those of other series.
    Bar,
    /// What is under the line, on top of earlier areas.
    Area,
}

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 330.0;
/// Around the plot: left, top, right, bottom.
const LEFT: f64 = 70.0;
const TOP: f64 = 62.0;
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 52.0;
const COLOURS: [&str; 7] = ["#c8662b", "#2f6fb0", "#3b8f4f", "#8a5fb5", "#b0b7c0", "#c2a02b", "#4a9fb0"];
/// From empty to full.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Writes the figures, one below the other.
pub(crate) fn write(path: &Path, charts: &[Chart]) -> Result<()> {
    let height = HEIGHT * charts.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\" fill=\"#30363d\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (number, chart) in charts.iter().enumerate() {
        writeln!(svg, "<g transform=\"translate(0,{})\">", HEIGHT * number as f64)?;
        chart.draw(&mut svg)?;
        writeln!(svg, "</g>")?;
    }
    svg += "</svg>\n";
    std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
}

/// One character for each value, `full` being a whole block; nothing is drawn for nothing.
pub(crate) fn blocks(values: &[f64], full: f64) -> String {
    let block = |value: &f64| {
        let height = if full > 0.0 { (value / full * 8.0).ceil().clamp(0.0, 8.0) as usize } else { 0 };
        BLOCKS.get(height).copied().unwrap_or(' ')
    };
    values.iter().map(block).collect()
}

/// How values become places on the paper.
#[derive(Debug, Clone, Copy)]
struct Scale {
    from: f64,
    to: f64,
    top: f64,
}

impl Scale {
    fn x(self, x: f64) -> f64 {
        LEFT + (x - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE) * (WIDTH - LEFT - RIGHT)
    }

    fn y(self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.top.max(f64::MIN_POSITIVE) * (HEIGHT - TOP - BOTTOM)
    }
}

impl Chart {
    fn draw(&self, svg: &mut String) -> Result<()> {
        let scale = self.scale();
        writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{}</text>",
            escape(&self.title)
        )?;
        self.draw_axes(svg, scale)?;
        let mut floor: Vec<(f64, f64)> = Vec::new();
        let bars = self.series.iter().filter(|series| series.style == Style::Bar).count();
        let mut bar = 0;
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS.get(number % COLOURS.len()).copied().unwrap_or("black");
            match series.style {
                Style::Line | Style::Dashes => series.draw_line(svg, scale, colour)?,
                Style::Area => floor = series.draw_area(svg, scale, colour, &floor)?,
                Style::Bar => {
                    series.draw_bars(svg, scale, colour, (bar, bars))?;
                    bar += 1;
                }
            }
        }
        self.draw_marks(svg, scale)?;
        self.draw_legend(svg)
    }

    fn scale(&self) -> Scale {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let edges = |least: f64, most: f64| if self.places.is_empty() { (least, most) } else { (-0.5, most + 0.5) };
        let last = self.places.len().saturating_sub(1) as f64;
        let least = points().map(|point| point.x).fold(f64::INFINITY, f64::min);
        let most = points().map(|point| point.x).fold(last, f64::max);
        let (from, to) = edges(if least.is_finite() { least } else { 0.0 }, most);
        let stacked = self.series.iter().any(|series| series.style == Style::Area);
        let top = if stacked {
            let longest = self.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
            let sum =
                |index: usize| self.series.iter().filter_map(|one| one.points.get(index)).map(|one| one.y).sum::<f64>();
            (0..longest).map(sum).fold(0.0, f64::max)
        } else {
            points().map(|point| point.spread.map_or(point.y, |(_, high)| high.max(point.y))).fold(0.0, f64::max)
        };
        Scale { from, to, top: top * 1.06 }
    }

    fn draw_axes(&self, svg: &mut String, scale: Scale) -> Result<()> {
        let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let step = step(scale.top);
        let mut value = 0.0;
        while value <= scale.top {
            let y = scale.y(value);
            writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e3e6ea\"/>")?;
            let x = LEFT - 8.0;
            writeln!(svg, "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", y + 4.0, number(value))?;
            value += step;
        }
        writeln!(svg, "<path d=\"M{LEFT} {floor}H{right}\" stroke=\"#30363d\"/>")?;
        let label = |svg: &mut String, x: f64, text: &str| {
            let x = scale.x(x);
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", floor + 18.0, escape(text))
        };
        if self.places.is_empty() {
            let step = self::step(scale.to - scale.from);
            let mut value = (scale.from / step).ceil() * step;
            while value <= scale.to {
                label(svg, value, &number(value))?;
                value += step;
            }
        }
        for (place, name) in self.places.iter().enumerate() {
            label(svg, place as f64, name)?;
        }
        let middle = (LEFT + right) / 2.0;
        writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            floor + 38.0,
            escape(&self.across)
        )?;
        let (x, y) = (18.0, (TOP + floor) / 2.0);
        let turned = format!("transform=\"rotate(-90 {x} {y})\"");
        writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" {turned}>{}</text>", escape(&self.up))?;
        Ok(())
    }

    fn draw_marks(&self, svg: &mut String, scale: Scale) -> Result<()> {
        for (number, (x, name)) in self.marks.iter().enumerate() {
            let (x, y) = (scale.x(*x), TOP + 12.0 + (number % 2) as f64 * 14.0);
            writeln!(
                svg,
                "<path d=\"M{x:.1} {TOP}V{}\" stroke=\"#30363d\" stroke-dasharray=\"3 3\"/>",
                HEIGHT - BOTTOM
            )?;
            writeln!(svg, "<text x=\"{:.1}\" y=\"{y}\" font-size=\"11\">{}</text>", x + 4.0, escape(name))?;
        }
        Ok(())
    }

    fn draw_legend(&self, svg: &mut String) -> Result<()> {
        let mut x = LEFT;
        for (number, series) in self.series.iter().enumerate() {
            let colour = COLOURS.get(number % COLOURS.len()).copied().unwrap_or("black");
            writeln!(svg, "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{colour}\"/>")?;
            writeln!(svg, "<text x=\"{}\" y=\"46\">{}</text>", x + 17.0, escape(&series.name))?;
            x += 34.0 + series.name.chars().count() as f64 * 6.6;
        }
        Ok(())
    }
}

impl Series {
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

    fn draw_bars(&self, svg: &mut String, scale: Scale, colour: &str, (number, all): (usize, usize)) -> Result<()> {
        let width = (scale.x(1.0) - scale.x(0.0)) * 0.8 / all.max(1) as f64;
        for point in &self.points {
            let left = scale.x(point.x) + width * (number as f64 - all as f64 / 2.0);
            let (top, height) = (scale.y(point.y), scale.y(0.0) - scale.y(point.y));
            writeln!(
                svg,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
                width * 0.92
            )?;
            let middle = left + width * 0.46;
            let above = point.spread.map_or(top, |(_, high)| scale.y(high.max(point.y))) - 5.0;
            let text = self::number(point.y);
            writeln!(
                svg,
                "<text x=\"{middle:.1}\" y=\"{above:.1}\" text-anchor=\"middle\" font-size=\"11\">{text}</text>"
            )?;
            point.draw_spread(svg, scale, middle, "#30363d")?;
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
    fn draw_spread(&self, svg: &mut String, scale: Scale, x: f64, colour: &str) -> Result<()> {
        let Some((low, high)) = self.spread else { return Ok(()) };
        let (low, high) = (scale.y(low), scale.y(high));
        writeln!(
            svg,
            "<path d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8\" stroke=\"{colour}\" fill=\"none\"/>",
            x - 4.0,
            x - 4.0
        )?;
        Ok(())
    }
}

/// A round distance that divides `span` into four to ten.
fn step(span: f64) -> f64 {
    let power = 10_f64.powf((span / 4.0).max(f64::MIN_POSITIVE).log10().floor());
    let fits = |times: &&f64| span / (power * **times) <= 8.0;
    power * [1.0, 2.0, 5.0].iter().find(fits).copied().unwrap_or(10.0)
}

fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    text.to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_few() {
        for (span, wanted) in [(10.0, 2.0), (41.0, 10.0), (0.5, 0.1), (7.0, 1.0), (450.0, 100.0)] {
            assert!((step(span) - wanted).abs() < 1e-9, "{span}: {}", step(span));
        }
    }

    #[test]
    fn blocks_grow_with_the_value() {
        assert_eq!(blocks(&[0.0, 0.1, 4.0, 8.0, 9.0], 8.0), " ▁▄██");
    }
}
