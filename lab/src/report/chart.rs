//! Charts: axes, lines with their ranges, bars and areas, drawn as SVG; and rows of blocks for a terminal.

mod scale;
mod series;

use anyhow::{Context, Result};
use scale::{LEFT, LETTER_WIDTH, Scale, TOP, format_number, step};
use serde::Deserialize;
use std::path::Path;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 330.0;
const NARROW_WIDTH: f64 = 420.0;
/// That of [`SVG_ATTRIBUTES`].
const FONT_SIZE: f64 = 12.0;
/// Height of title and legend, which are text on a page.
const HEADING_HEIGHT: f64 = 46.0;
/// Room between two numbers of an axis.
const LABEL_WIDTH: f64 = 85.0;
const COLOURS: [&str; 7] = ["#c8662b", "#2f6fb0", "#3b8f4f", "#8a5fb5", "#c2a02b", "#4a9fb0", "#b5567f"];
/// Values of a paper, and of others, are grey.
const GREY: &str = "#9aa3ad";
/// Text and axes.
pub(super) const INK: &str = "#30363d";
pub(super) const SVG_ATTRIBUTES: &str =
    "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\" fill=\"#30363d\"";
/// From empty to full.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Style sheet for a dark colour scheme. Without it charts are dark on white, as for print.
pub(crate) const STYLE: &str = "@media screen and (prefers-color-scheme: dark) { \
    svg.figure, svg.figure text { fill: #d7dce2 } svg.figure .ink { stroke: #d7dce2 } \
    svg.figure .grid { stroke: #3a4048 } svg.figure .ground { fill: #15181c } }";

/// A chart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    /// Its name within its experiment; empty: it belongs to none.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Label of the x axis, with its unit.
    pub(crate) x_label: String,
    /// Label of the y axis, with its unit.
    pub(crate) y_label: String,
    /// Names at 0, 1, 2, ... of the x axis; empty: numbers.
    pub(crate) categories: Vec<String>,
    /// The first is drawn first.
    pub(crate) series: Vec<Series>,
    /// Named vertical lines.
    pub(crate) markers: Vec<(f64, String)>,
}

/// Values that belong together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub(crate) name: String,
    pub(crate) style: Style,
    /// From left to right.
    pub(crate) points: Vec<Point>,
}

/// A value, with its range if that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) range: Option<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Style {
    /// A bar at each category, beside those of other series.
    #[default]
    Bar,
    /// Joined points.
    Line,
    /// Joined points, dashed: values of others.
    Dashes,
    /// The area below the points, on top of earlier areas.
    Area,
    /// Single values, each with its range.
    Dots,
    /// The area between the ends of the ranges; a single range is a whisker.
    Band,
}

impl Series {
    /// Whether these are values of a paper or of another program.
    pub(crate) fn is_of_others(&self) -> bool {
        self.name.starts_with("paper") || self.name.starts_with("vanetza")
    }
}

impl Point {
    /// A value without a range.
    pub(crate) fn at(x: f64, y: f64) -> Point {
        Point { x, y, range: None }
    }
}

/// Writes charts, one below the other, each with its title and legend.
pub(crate) fn write(path: &Path, charts: &[Chart]) -> Result<()> {
    let height = HEIGHT * charts.len() as f64;
    let mut svg = format!(
        "<svg class=\"figure\" {SVG_ATTRIBUTES} width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n\
         <style>{STYLE}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (number, chart) in charts.iter().enumerate() {
        svg += &format!("<g transform=\"translate(0,{})\">\n", HEIGHT * number as f64);
        svg += &text((LEFT, 24.0), "font-size=\"15\" font-weight=\"bold\"", &chart.title);
        let mut x = LEFT;
        for (series, colour) in chart.series.iter().zip(chart.colours()) {
            svg += &format!("<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\n");
            svg += &text((x + 17.0, 46.0), "", &series.name);
            x += 34.0 + series.name.chars().count() as f64 * LETTER_WIDTH;
        }
        svg += &chart.draw(Scale::of(chart, WIDTH, HEIGHT));
        svg += "</g>\n";
    }
    std::fs::write(path, svg + "</svg>\n").with_context(|| format!("cannot write {}", path.display()))
}

/// A chart within a page that has [`STYLE`]: title and legend as text, and the plot once for wide screens and paper,
/// once for narrow screens (classes `wide` and `narrow`).
pub(crate) fn figure(chart: &Chart) -> String {
    let title = escape(&chart.title);
    let mut html = format!(
        "<figure data-chart=\"{}\">\n<figcaption>{title}</figcaption>\n<p class=\"legend\">",
        escape(&chart.id)
    );
    for (series, colour) in chart.series.iter().zip(chart.colours()) {
        html += &format!("<span><i style=\"background:{colour}\"></i>{}</span> ", escape(&series.name));
    }
    html += "</p>\n";
    for (class, width) in [("wide", WIDTH), ("narrow", NARROW_WIDTH)] {
        let view = format!("viewBox=\"0 {HEADING_HEIGHT} {width} {}\"", HEIGHT - HEADING_HEIGHT);
        html +=
            &format!("<svg class=\"figure {class}\" role=\"img\" aria-label=\"{title}\" {SVG_ATTRIBUTES} {view}>\n");
        html += &chart.draw(Scale::of(chart, width, HEIGHT));
        html += "</svg>\n";
    }
    html + "</figure>\n"
}

/// One character for each value; `full` is a whole block.
pub(crate) fn block_row(values: &[f64], full: f64) -> String {
    let block = |value: &f64| {
        let height = if full > 0.0 { (value / full * 8.0).ceil().clamp(0.0, 8.0) as usize } else { 0 };
        BLOCKS.get(height).copied().unwrap_or(' ')
    };
    values.iter().map(block).collect()
}

/// Text with the characters escaped that SVG and HTML reserve.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A text element with these attributes.
pub(super) fn text((x, y): (f64, f64), attributes: &str, content: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{}</text>\n", escape(content))
}

impl Chart {
    /// The colour of each series.
    fn colours(&self) -> Vec<&'static str> {
        let mut ours = COLOURS.iter().copied().cycle();
        let colour = |series: &Series| if series.is_of_others() { Some(GREY) } else { ours.next() };
        self.series.iter().map(colour).map(|colour| colour.unwrap_or(INK)).collect()
    }

    /// All but title and legend.
    fn draw(&self, scale: Scale) -> String {
        let mut svg = self.value_axis(scale) + &self.category_axis(scale);
        let bars = || self.series.iter().filter(|series| series.style == Style::Bar);
        let numbers = bars().all(|series| series.numbers_fit(scale, bars().count()));
        let bars = bars().count();
        let (mut bar, mut floor) = (0, Vec::new());
        for (series, colour) in self.series.iter().zip(self.colours()) {
            match series.style {
                Style::Line | Style::Dashes | Style::Dots => svg += &series.lines(scale, colour),
                Style::Band => svg += &series.band(scale, colour),
                Style::Bar => svg += &series.bars(scale, colour, (bar, bars), numbers),
                Style::Area => svg += &series.area(scale, colour, &mut floor),
            }
            bar += usize::from(series.style == Style::Bar);
        }
        for (number, (x, name)) in self.markers.iter().enumerate() {
            let (x, y, floor) = (scale.x(*x), TOP + 12.0 + (number % 2) as f64 * 14.0, scale.baseline());
            svg += &format!(
                "<path class=\"ink\" d=\"M{x:.1} {TOP}V{floor}\" stroke=\"{INK}\" stroke-dasharray=\"3 3\"/>\n"
            );
            svg += &text((x + 4.0, y), "font-size=\"11\"", name);
        }
        svg
    }

    /// Horizontal lines, their values, and the label of the axis.
    fn value_axis(&self, scale: Scale) -> String {
        let (right, floor) = (scale.right(), scale.baseline());
        let step = step(scale.y_max, 8.0).max(f64::MIN_POSITIVE);
        let mut svg = format!("<path class=\"ink\" d=\"M{LEFT} {floor}H{right}\" stroke=\"{INK}\"/>\n");
        let values = (0..20).map(|index| f64::from(index) * step).take_while(|value| *value <= scale.y_max);
        for value in values {
            let y = scale.y(value);
            svg += &format!("<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e3e6ea\"/>\n");
            svg += &text((LEFT - 8.0, y + 4.0), "text-anchor=\"end\"", &format_number(value));
        }
        let (x, y) = (18.0, (TOP + floor) / 2.0);
        // A long label is smaller, so that it is as long as the axis.
        let length = self.y_label.chars().count() as f64 * LETTER_WIDTH;
        let size = FONT_SIZE * ((floor - TOP) / length.max(1.0)).min(1.0);
        let attributes = format!("text-anchor=\"middle\" font-size=\"{size:.1}\" transform=\"rotate(-90 {x} {y})\"");
        svg + &text((x, y), &attributes, &self.y_label)
    }

    /// Categories or numbers, and the label of the axis.
    fn category_axis(&self, scale: Scale) -> String {
        let (mut svg, y) = (String::new(), scale.baseline() + 18.0);
        for (x, name) in self.category_labels(scale) {
            let x = scale.x(x);
            let turned = format!("text-anchor=\"end\" transform=\"rotate(-32 {x:.1} {y})\"");
            svg += &text((x, y), if scale.slanted { &turned } else { "text-anchor=\"middle\"" }, &name);
        }
        // Slanted names leave room to their right only.
        let middle = (LEFT + scale.right()) / 2.0;
        let (x, anchor) = if scale.slanted { (scale.right(), "end") } else { (middle, "middle") };
        svg + &text((x, scale.height - 14.0), &format!("text-anchor=\"{anchor}\""), &self.x_label)
    }

    fn category_labels(&self, scale: Scale) -> Vec<(f64, String)> {
        if !self.categories.is_empty() {
            return (0..).map(f64::from).zip(self.categories.iter().cloned()).collect();
        }
        let mut numbers = self.series.iter().flat_map(|series| &series.points).map(|point| point.x);
        let only = numbers.next().filter(|first| numbers.all(|other| other == *first));
        if let Some(only) = only {
            return vec![(only, format_number(only))];
        }
        let step = step(scale.x_max - scale.x_min, ((scale.right() - LEFT) / LABEL_WIDTH).clamp(2.0, 8.0));
        let has_bars = self.series.iter().any(|series| series.style == Style::Bar);
        let step = if has_bars { step.max(1.0) } else { step };
        let first = (scale.x_min / step).ceil();
        let numbers = (0..20).map(|index| (first + f64::from(index)) * step);
        numbers.take_while(|value| *value <= scale.x_max).map(|value| (value, format_number(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_value() {
        assert_eq!(block_row(&[0.0, 0.1, 4.0, 8.0, 9.0], 8.0), " ▁▄██");
    }
}
