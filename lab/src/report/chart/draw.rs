//! A figure on paper: axes, series, moments that have a name.

use super::scale::{LEFT, Scale, TOP, format_number, step};
use super::sheet::{INK, escape};
use super::{Chart, Style};
use anyhow::Result;
use std::fmt::Write;

const COLOURS: [&str; 7] = ["#c8662b", "#2f6fb0", "#3b8f4f", "#8a5fb5", "#c2a02b", "#4a9fb0", "#b5567f"];
/// What others say is grey.
const GREY: &str = "#9aa3ad";
/// What an axis has room for between two of its numbers.
const LABEL_WIDTH: f64 = 85.0;

impl Chart {
    /// The colour of each series: what a paper says is grey.
    pub(super) fn colours(&self) -> Vec<&'static str> {
        let mut ours = COLOURS.iter().copied().cycle();
        let colour = |name: &str| if name.starts_with("paper") { Some(GREY) } else { ours.next() };
        self.series.iter().map(|series| series.name.as_str()).map(colour).map(|colour| colour.unwrap_or(INK)).collect()
    }

    /// Draws all but title and legend.
    pub(super) fn draw(&self, svg: &mut String, scale: Scale) -> Result<()> {
        self.draw_value_axis(svg, scale)?;
        self.draw_category_axis(svg, scale)?;
        let bars = self.series.iter().filter(|series| series.style == Style::Bar).count();
        let mut bar = 0;
        let mut floor = Vec::new();
        for (series, colour) in self.series.iter().zip(self.colours()) {
            series.draw(svg, scale, colour, (bar, bars), &mut floor)?;
            bar += usize::from(series.style == Style::Bar);
        }
        self.draw_marks(svg, scale)
    }

    /// The lines across, their values, and what they are values of.
    fn draw_value_axis(&self, svg: &mut String, scale: Scale) -> Result<()> {
        let (right, floor) = (scale.right(), scale.baseline());
        let step = step(scale.y_max, 8.0);
        let mut value = 0.0;
        while value <= scale.y_max {
            let (x, y) = (LEFT - 8.0, scale.y(value));
            writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#e3e6ea\"/>")?;
            writeln!(svg, "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", y + 4.0, format_number(value))?;
            value += step.max(f64::MIN_POSITIVE);
        }
        writeln!(svg, "<path class=\"ink\" d=\"M{LEFT} {floor}H{right}\" stroke=\"{INK}\"/>")?;
        let (x, y) = (18.0, (TOP + floor) / 2.0);
        let turned = format!("transform=\"rotate(-90 {x} {y})\"");
        writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" {turned}>{}</text>", escape(&self.y_label))?;
        Ok(())
    }

    /// The places to the right, by name or by number, and what they are.
    fn draw_category_axis(&self, svg: &mut String, scale: Scale) -> Result<()> {
        let under = scale.baseline() + 18.0;
        for (x, name) in self.labels(scale) {
            let (x, name) = (scale.x(x), escape(&name));
            let turned = format!("text-anchor=\"end\" transform=\"rotate(-32 {x:.1} {under})\"");
            let how = if scale.slanted { turned.as_str() } else { "text-anchor=\"middle\"" };
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{under}\" {how}>{name}</text>")?;
        }
        // Slanted names leave room to their right only.
        let (middle, last) = ((LEFT + scale.right()) / 2.0, scale.height - 14.0);
        let (x, anchor) = if scale.slanted { (scale.right(), "end") } else { (middle, "middle") };
        writeln!(svg, "<text x=\"{x}\" y=\"{last}\" text-anchor=\"{anchor}\">{}</text>", escape(&self.x_label))?;
        Ok(())
    }

    fn labels(&self, scale: Scale) -> Vec<(f64, String)> {
        if !self.categories.is_empty() {
            return self.categories.iter().enumerate().map(|(place, name)| (place as f64, name.clone())).collect();
        }
        let step = step(scale.x_max - scale.x_min, ((scale.right() - LEFT) / LABEL_WIDTH).clamp(2.0, 8.0));
        let first = (scale.x_min / step).ceil();
        let numbers = (0..20).map(|index| (first + f64::from(index)) * step);
        numbers.take_while(|value| *value <= scale.x_max).map(|value| (value, format_number(value))).collect()
    }

    fn draw_marks(&self, svg: &mut String, scale: Scale) -> Result<()> {
        for (number, (x, name)) in self.markers.iter().enumerate() {
            let (x, y) = (scale.x(*x), TOP + 12.0 + (number % 2) as f64 * 14.0);
            let line = format!("M{x:.1} {TOP}V{}", scale.baseline());
            writeln!(svg, "<path class=\"ink\" d=\"{line}\" stroke=\"{INK}\" stroke-dasharray=\"3 3\"/>")?;
            writeln!(svg, "<text x=\"{:.1}\" y=\"{y}\" font-size=\"11\">{}</text>", x + 4.0, escape(name))?;
        }
        Ok(())
    }
}
