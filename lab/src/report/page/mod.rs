//! The report page: one file with all figures, for screens of any size, light or dark, and for print.

mod experiments;
mod overview;
mod papers;

use super::bounds::{self, Judged};
use super::contents::Contents;
use super::figure;
use super::paper_figures::{Measured, PaperFigures};
use crate::report::chart::{self, escape};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use std::path::Path;

const STYLE: &str = include_str!("../page.css");

/// What the page shows.
struct Report<'a> {
    results: &'a [Value],
    contents: Contents,
    figures: PaperFigures,
    measured: Measured<'a>,
    bounds: Vec<Judged<'a>>,
}

/// Writes the page that shows `results` into the folder, and the summary of the page (`summary.json`).
pub(super) fn write(folder: &Path, results: &[Value]) -> Result<()> {
    let report = Report::new(results)?;
    let summary = serde_json::to_string_pretty(&report.summary())?;
    for (name, text) in [("index.html", report.page()), ("summary.json", summary)] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

impl<'a> Report<'a> {
    fn new(results: &'a [Value]) -> Result<Report<'a>> {
        let (contents, figures) = (Contents::read()?, PaperFigures::read()?);
        let measured = Measured::new(results, &contents)?;
        Ok(Report { results, contents, figures, measured, bounds: bounds::judge_all(results) })
    }

    fn page(&self) -> String {
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>roam6: every figure</title>\n<style>\n{STYLE}\n{}\n</style>\n<h1>roam6: every figure</h1>\n",
            chart::STYLE
        );
        html += &self.overview();
        html += &self.list_of_contents();
        html += &self.open_bounds();
        html += &self.paper_sections();
        html += &self.experiment_sections();
        html + &self.all_bounds()
    }

    /// Coverage, verdicts and conditions, for programs.
    fn summary(&self) -> Value {
        let [holds, missed, undecided, not_measured] = bounds::count(&self.bounds);
        let condition = |result: &Value| {
            let of = |key: &str| result.get(key).cloned().unwrap_or_default();
            let condition = json!({ "quick": of("quick"), "seconds": of("seconds"), "sound": of("sound"),
                "machine": of("machine"), "rounds": of("rounds") });
            (figure::name(result).to_owned(), condition)
        };
        json!({
            "report": {
                "coverage": self.figures.coverage(&self.measured),
                "verdicts": { "holds": holds, "missed": missed, "undecided": undecided, "not_measured": not_measured },
            },
            "bounds": self.bounds.iter().map(Judged::to_json).collect::<Vec<_>>(),
            "conditions": self.results.iter().map(condition).collect::<Map<String, Value>>(),
        })
    }
}

/// Descriptions of the failed checks of a run.
pub(super) fn faults(result: &Value) -> Vec<&str> {
    result.get("faults").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The name of an experiment as an anchor, and as a part of its files' names.
fn file(name: &str) -> String {
    escape(&name.replace('/', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(results: &[Value]) -> String {
        Report::new(results).expect("a report").page()
    }

    #[test]
    fn missed_bounds_come_first_and_html_is_escaped() {
        let result = json!({
            "experiment": "nemo/handover",
            "machine": { "commit": "<script>" },
            "summary": { "planned_lost_max": 3, "tcp_survived": 1 },
            "sound": false,
            "faults": ["lost <3> packets"],
        });
        let page = page(&[result]);
        assert!(page.contains("1 hold, 1 are missed, 0 are undecided"), "{page}");
        assert!(
            page.contains(
                "<tr class=\"missed\"><th><a href=\"#nemo-handover\">nemo/handover</a> planned_lost_max</th>"
            )
        );
        assert!(page.contains("<li>lost &lt;3&gt; packets</li>"));
        assert!(!page.contains("<script>"));
    }

    #[test]
    fn each_figure_of_a_paper_is_on_the_page_once_and_in_the_list_of_contents() {
        let page = page(&[
            json!({ "experiment": "nemo/nested", "rows": [{ "depth": 1, "home_agents": "one", "mtu": 1460 }], "summary": { "depth_reached_own_agents": 3 } }),
        ]);
        for one in PaperFigures::read().unwrap().figures {
            assert_eq!(page.matches(&format!("id=\"{}\"", one.id)).count(), 1, "{}", one.id);
            assert_eq!(page.matches(&format!("href=\"#{}\"", one.id)).count(), 1, "{}", one.id);
        }
        assert!(page.contains("connected to depth 3; the largest inner packets by depth have not measured octets"));
        assert_eq!(page.matches("id=\"nemo-nested\"").count(), 1);
    }

    #[test]
    fn the_summary_counts_verdicts_and_coverage() {
        let row = json!({ "depth": 1, "home_agents": "one", "mtu": 1460, "rtt_ms_p50": 41.0 });
        let results = [json!({ "experiment": "nemo/nested", "quick": true, "rows": [row],
            "summary": { "depth_reached": 3 } })];
        let summary = Report::new(&results).expect("a report").summary();
        assert_eq!(summary["report"]["verdicts"]["holds"], 1);
        assert_eq!(summary["report"]["coverage"]["by_paper"]["p1"]["covered"], 1);
        assert_eq!(summary["conditions"]["nemo/nested"]["quick"], true);
        let known = summary["bounds"].as_array().expect("the bounds");
        assert!(known.iter().any(|bound| bound["verdict"] == "not measured"));
    }
}
