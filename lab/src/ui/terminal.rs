//! Output of a demo: lines on the terminal, and the same lines as a picture.

use crate::clock;
use crate::report::chart::escape;
use crate::threads::Shared;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;

/// A space that does not collapse: SVG renderers differ in their support of `xml:space` and `white-space`.
const NO_BREAK: &str = "\u{a0}";

/// The meaning of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineStyle {
    /// Ordinary.
    Plain,
    /// An action of the demo.
    Action,
    /// An event reported by roam6.
    Event,
    /// A passed check.
    Success,
    /// A failed check.
    Failure,
}

/// The lines so far.
pub(crate) struct Terminal {
    began: u64,
    colour: bool,
    lines: Shared<Vec<(LineStyle, String)>>,
}

impl Terminal {
    /// An empty terminal whose clock starts now.
    pub(crate) fn new() -> Terminal {
        Terminal { began: clock::unix_micros(), colour: std::io::stdout().is_terminal(), lines: Shared::default() }
    }

    /// Shows a line.
    pub(crate) fn line(&self, style: LineStyle, text: impl Into<String>) {
        let text = text.into();
        if self.colour {
            println!("\x1b[{}m{text}\x1b[0m", style.colours().0);
        } else {
            println!("{text}");
        }
        self.lines.lock().push((style, text));
    }

    /// Shows a line with the seconds since the beginning before it.
    pub(crate) fn timed_line(&self, style: LineStyle, text: impl AsRef<str>) {
        self.timed_line_at(clock::unix_micros(), style, text);
    }

    /// [`Terminal::timed_line`] with the time `unix_micros`, microseconds since 1970.
    pub(crate) fn timed_line_at(&self, unix_micros: u64, style: LineStyle, text: impl AsRef<str>) {
        let seconds = unix_micros.saturating_sub(self.began) as f64 / 1e6;
        self.line(style, format!("{seconds:7.3} s  {}", text.as_ref()));
    }

    /// Writes all lines as a picture of a terminal.
    pub(crate) fn write_svg(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.to_svg()?).with_context(|| format!("cannot write {}", path.display()))
    }

    fn to_svg(&self) -> Result<String> {
        let lines = self.lines.lock();
        let columns = lines.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let (width, height) = (columns * 8 + 40, lines.len() * 18 + 40);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#101418\"/>\n\
             <g font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">\n"
        );
        for (row, (style, text)) in lines.iter().enumerate() {
            let text = escape(text).replace(' ', NO_BREAK);
            writeln!(svg, "<text x=\"20\" y=\"{}\" fill=\"{}\">{text}</text>", row * 18 + 32, style.colours().1)?;
        }
        svg += "</g>\n</svg>\n";
        Ok(svg)
    }
}

impl LineStyle {
    /// Colours: as an ANSI code on a terminal, and in the picture.
    fn colours(self) -> (u8, &'static str) {
        match self {
            LineStyle::Plain => (0, "#c8d0d8"),
            LineStyle::Action => (1, "#ffffff"),
            LineStyle::Event => (36, "#6cc7d9"),
            LineStyle::Success => (32, "#7ed67e"),
            LineStyle::Failure => (31, "#ff7b72"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_kept_in_the_svg() {
        let terminal = Terminal::new();
        terminal.line(LineStyle::Plain, "STATION  KIND           STATE");
        terminal.line(LineStyle::Plain, "  a<b    passenger-car  own");
        let svg = terminal.to_svg().unwrap();
        let texts: Vec<&str> = svg.lines().filter(|line| line.starts_with("<text")).collect();
        let shown = |line: &str| line.split_once('>').unwrap().1.split_once("</text>").unwrap().0.replace("&lt;", "<");
        let columns: Vec<Option<usize>> = ["STATE", "own"]
            .iter()
            .zip(&texts)
            .map(|(word, line)| shown(line).split_once(word).map(|(before, _)| before.chars().count()))
            .collect();
        assert_eq!(columns, [Some(24), Some(24)]);
        // Ordinary spaces would be drawn as one.
        assert!(texts.iter().all(|line| !shown(line).contains(' ')), "{svg}");
    }
}
