//! The papers' figures in the terminal, as on the page.

use super::contents::Contents;
use super::paper_figures::{Coverage, Measured, PaperFigure, PaperFigures};
use super::results_store;
use anyhow::Result;
use serde_json::Value;
use std::path::Path;
use textwrap::Options;

/// Columns of the terminal.
const WIDTH: usize = 100;
const INDENT: &str = "            ";

/// Prints each figure and table of the papers, with the results of a folder; nothing runs.
pub(crate) fn print(folder: &Path) -> Result<()> {
    let results = results_store::read_all(folder);
    print!("{}", table(&results)?);
    Ok(())
}

fn table(results: &[Value]) -> Result<String> {
    let (figures, contents) = (PaperFigures::read()?, Contents::read()?);
    let measured = Measured::new(results, &contents)?;
    let entries: String = figures.figures.iter().map(|one| entry(one, &measured)).collect();
    Ok(format!("{entries}{}\n", figures.coverage_in_words(&measured)))
}

fn entry(figure: &PaperFigure, measured: &Measured) -> String {
    let mut text = format!("{} {}: {}\n", PaperFigures::short_name(figure), figure.number, figure.title);
    let mut add = |title: &str, content: &str| {
        let first = format!("  {title:<10}");
        for line in textwrap::wrap(content, Options::new(WIDTH).initial_indent(&first).subsequent_indent(INDENT)) {
            text += &line;
            text.push('\n');
        }
    };
    if let Coverage::Absent(why) = figure.coverage(measured) {
        add("not shown", &why);
    } else {
        add("paper", &measured.fill_in(&figure.paper_says));
        add("here", &figure.here_in_words(measured));
        add("differs", &measured.fill_in(&figure.differs));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_figure_has_a_line_for_the_paper_for_ours_and_for_the_difference() {
        let result = json!({
            "experiment": "shim6/contexts",
            "rows": [{ "contexts": 1000, "i2_us": { "p50": 90.5, "min": 80.0, "max": 99.0 } }],
            "summary": { "i2_us_p50_at_1000": 90.5, "i2_us_p50_max_over_min": 1.02 },
        });
        let text = table(&[result]).unwrap();
        let wanted = "P4 Fig 10: Processing of an I2 by number of contexts\n  paper     About 2000 µs, flat up to 1000 contexts, \
                      with a key of 1024 bits on a Pentium III of 600\n            MHz.\n  here      90.5 µs with 1000 contexts; the slowest \
                      over the fastest number of contexts: 1.02.\n  differs   Keys of 2048 bits, another processor, and up to \
                      100 000 contexts.\n\n";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("  here      Not measured: nemo/nested has no result.\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.ends_with("1 of 22 figures and tables of the papers are measured.\n"), "{text}");
    }
}
