//! Sheets of figures: a file of its own, or a picture within a page.

use super::Chart;
use super::scale::{LEFT, LETTER_WIDTH, Scale};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 330.0;
const NARROW: f64 = 420.0;
/// What the title and the legend of a sheet take, which a page writes itself.
const SPARED: f64 = 46.0;
const OPEN: &str =
    "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\" fill=\"#30363d\"";

/// What turns the figures dark where the reader likes it so. Without it they are dark on white, as print needs them.
pub(crate) const STYLE: &str = "@media screen and (prefers-color-scheme: dark) { \
    svg.figure, svg.figure text { fill: #d7dce2 } svg.figure .ink { stroke: #d7dce2 } \
    svg.figure .grid { stroke: #3a4048 } svg.figure .ground { fill: #15181c } }";

/// What text and axes are drawn with.
pub(super) const INK: &str = "#30363d";

/// Writes the figures, one below the other, each with its title and legend.
pub(crate) fn write(path: &Path, charts: &[Chart]) -> Result<()> {
    let height = HEIGHT * charts.len() as f64;
    let mut svg = format!(
        "<svg class=\"figure\" {OPEN} width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n\
         <style>{STYLE}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    for (number, chart) in charts.iter().enumerate() {
        writeln!(svg, "<g transform=\"translate(0,{})\">", HEIGHT * number as f64)?;
        let title = escape(&chart.title);
        writeln!(svg, "<text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{title}</text>")?;
        draw_legend(chart, &mut svg)?;
        chart.draw(&mut svg, Scale::of(chart, WIDTH, HEIGHT))?;
        writeln!(svg, "</g>")?;
    }
    svg += "</svg>\n";
    std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))
}

fn draw_legend(chart: &Chart, svg: &mut String) -> Result<()> {
    let mut x = LEFT;
    for (series, colour) in chart.series.iter().zip(chart.colours()) {
        writeln!(svg, "<rect x=\"{x}\" y=\"36\" width=\"12\" height=\"12\" fill=\"{colour}\"/>")?;
        writeln!(svg, "<text x=\"{}\" y=\"46\">{}</text>", x + 17.0, escape(&series.name))?;
        x += 34.0 + series.name.chars().count() as f64 * LETTER_WIDTH;
    }
    Ok(())
}

/// One figure within a page that brings [`STYLE`]: title and legend as text, and the plot once for wide screens and
/// paper, once for narrow screens (classes `wide` and `narrow`).
pub(crate) fn figure(chart: &Chart) -> Result<String> {
    let title = escape(&chart.title);
    let mut html = format!("<figure>\n<figcaption>{title}</figcaption>\n<p class=\"legend\">");
    for (series, colour) in chart.series.iter().zip(chart.colours()) {
        write!(html, "<span><i style=\"background:{colour}\"></i>{}</span> ", escape(&series.name))?;
    }
    html += "</p>\n";
    for (class, width) in [("wide", WIDTH), ("narrow", NARROW)] {
        let view = format!("viewBox=\"0 {SPARED} {width} {}\"", HEIGHT - SPARED);
        writeln!(html, "<svg class=\"figure {class}\" role=\"img\" aria-label=\"{title}\" {OPEN} {view}>")?;
        chart.draw(&mut html, Scale::of(chart, width, HEIGHT))?;
        html += "</svg>\n";
    }
    html += "</figure>\n";
    Ok(html)
}

/// Text as SVG and HTML take it.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
