//! The papers' figures and tables (lab/papers/figures.json): what the paper says, what was measured here, and why it differs.

use super::chart::Chart;
use super::contents::Contents;
use super::figure::{self, Figure};
use super::papers;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All figures and tables, with their papers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperFigures {
    pub(super) papers: Vec<Paper>,
    /// In the order of the papers.
    pub(super) figures: Vec<PaperFigure>,
}

/// A paper.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) authors: String,
}

/// A figure or a table of a paper. Its texts may hold `{p1:quantity}`, `{p1:quantity@x}` (lab/papers/*.csv) and
/// `{experiment:key}` (a figure of that experiment's summary).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaperFigure {
    /// Its anchor on the page.
    pub(super) id: String,
    pub(super) paper: String,
    /// In the paper, for example "Fig 7".
    pub(super) number: String,
    pub(super) title: String,
    /// The charts that show it: experiment, `#`, and the chart's name.
    #[serde(default)]
    pub(super) charts: Vec<String>,
    /// Further charts, which only a full run has.
    #[serde(default)]
    pub(super) full_run: Vec<String>,
    #[serde(default)]
    pub(super) paper_says: String,
    #[serde(default)]
    pub(super) here: String,
    #[serde(default)]
    pub(super) differs: String,
    /// Why it is not to be shown at all.
    pub(super) absent: Option<String>,
}

/// Whether a figure of a paper is shown with values of ours.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Coverage {
    Covered,
    /// The reason.
    NotMeasured(String),
    /// The reason why it is not to be shown.
    Absent(String),
}

/// The results, with their charts.
pub(super) struct Measured<'a> {
    results: BTreeMap<&'a str, &'a Value>,
    charts: BTreeMap<String, Chart>,
}

impl PaperFigures {
    /// Reads them.
    pub(super) fn read() -> Result<PaperFigures> {
        serde_json::from_str(include_str!("../../papers/figures.json")).context("figures.json")
    }

    /// The paper of a figure, for example "P1".
    pub(super) fn short_name(figure: &PaperFigure) -> String {
        figure.paper.to_uppercase()
    }

    /// How many figures are covered, of all, and of each paper; and those that are not, with the reason.
    pub(super) fn coverage(&self, measured: &Measured) -> Value {
        let of_paper = |paper: Option<&Paper>| {
            let figures = || self.figures.iter().filter(|one| paper.is_none_or(|paper| one.paper == paper.id));
            let states = || figures().map(|one| one.coverage(measured));
            let covered = states().filter(|state| *state == Coverage::Covered).count();
            let of = states().filter(|state| !matches!(state, Coverage::Absent(_))).count();
            json!({ "covered": covered, "of": of })
        };
        let (mut not_measured, mut absent) = (Vec::new(), Vec::new());
        for one in &self.figures {
            match one.coverage(measured) {
                Coverage::Covered => {}
                Coverage::NotMeasured(why) => not_measured.push(json!({ "id": one.id, "why": why })),
                Coverage::Absent(why) => absent.push(json!({ "id": one.id, "why": why })),
            }
        }
        let by_paper: serde_json::Map<String, Value> =
            self.papers.iter().map(|paper| (paper.id.clone(), of_paper(Some(paper)))).collect();
        json!({ "figures": of_paper(None), "by_paper": by_paper, "not_measured": not_measured, "absent": absent })
    }

    /// The coverage in one sentence.
    pub(super) fn coverage_in_words(&self, measured: &Measured) -> String {
        let coverage = self.coverage(measured);
        let number = |path: &str| coverage.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        format!(
            "{} of {} figures and tables of the papers are measured.",
            number("/figures/covered"),
            number("/figures/of")
        )
    }
}

impl PaperFigure {
    /// The charts to show: its own, and those of a full run that have a value of ours.
    pub(super) fn shown<'a>(&'a self, measured: &'a Measured) -> impl Iterator<Item = &'a Chart> {
        let own = self.charts.iter().filter_map(|name| measured.chart(name));
        own.chain(self.full_run.iter().filter_map(|name| measured.chart(name).filter(|chart| has_own_point(chart))))
    }

    /// Whether each of its charts has a point of ours.
    pub(super) fn coverage(&self, measured: &Measured) -> Coverage {
        if let Some(why) = &self.absent {
            return Coverage::Absent(why.clone());
        }
        if self.charts.is_empty() {
            return Coverage::NotMeasured(measured.fill_in(&self.differs));
        }
        let missing = self.charts.iter().find(|name| !measured.chart(name).is_some_and(has_own_point));
        missing.map_or(Coverage::Covered, |name| Coverage::NotMeasured(measured.why_empty(name)))
    }

    /// What was measured here; if nothing was, the reason.
    pub(super) fn here_in_words(&self, measured: &Measured) -> String {
        let is_shown = |name: &String| measured.chart(name).is_some_and(has_own_point);
        match self.coverage(measured) {
            Coverage::NotMeasured(why) if !self.charts.is_empty() => {
                let shown =
                    if self.charts.iter().any(is_shown) { measured.fill_in(&self.here) + " " } else { String::new() };
                format!("{shown}Not measured: {why}.")
            }
            _ => measured.fill_in(&self.here),
        }
    }
}

fn has_own_point(chart: &Chart) -> bool {
    chart.series.iter().any(|series| !series.is_of_others() && !series.points.is_empty())
}

impl<'a> Measured<'a> {
    /// Draws the charts of the results.
    pub(super) fn new(results: &'a [Value], contents: &Contents) -> Result<Measured<'a>> {
        let mut charts = BTreeMap::new();
        for result in results {
            let own = contents.charts(result)?.into_iter();
            charts.extend(own.map(|chart| (format!("{}#{}", figure::name(result), chart.id), chart)));
        }
        Ok(Measured { results: results.iter().map(|result| (figure::name(result), result)).collect(), charts })
    }

    /// A chart: experiment, `#`, and the chart's name.
    pub(super) fn chart(&self, name: &str) -> Option<&Chart> {
        self.charts.get(name)
    }

    fn why_empty(&self, chart: &str) -> String {
        let experiment = chart.split('#').next().unwrap_or_default();
        let Some(result) = self.results.get(experiment) else { return format!("{experiment} has no result") };
        let absent = result.pointer("/summary/absent").map(in_words).filter(|text| !text.is_empty());
        absent.map_or_else(|| format!("{experiment} measured nothing of it"), |why| format!("{experiment}: {why}"))
    }

    /// A text with its placeholders filled in.
    pub(super) fn fill_in(&self, template: &str) -> String {
        let part = |(index, part): (usize, &str)| if index % 2 == 0 { part.to_owned() } else { self.value(part) };
        template.split(['{', '}']).enumerate().map(part).collect()
    }

    fn value(&self, placeholder: &str) -> String {
        let (source, key) = placeholder.split_once(':').unwrap_or_default();
        let stated = papers::in_words(source, key);
        stated.or_else(|| self.own_value(source, key)).unwrap_or_else(|| "not measured".to_owned())
    }

    fn own_value(&self, experiment: &str, key: &str) -> Option<String> {
        let figures = Figure::all(self.results.get(experiment)?);
        let figure = figures.into_iter().find(|figure| figure.key == key && !figure.value.is_null())?;
        let interval = figure.estimate.and_then(|estimate| Some(format!(" ({} to {})", estimate.low?, estimate.high?)));
        Some(in_words(figure.value) + &interval.unwrap_or_default())
    }
}

/// A value without the marks of JSON.
fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(in_words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use std::collections::BTreeSet;

    fn results() -> Vec<Value> {
        vec![json!({
            "experiment": "shim6/contexts",
            "rows": [{ "contexts": 1000, "i2_us": { "p50": 90.0, "min": 80.0, "max": 99.0 } }],
            "summary": { "i2_us_p50_at_1000": 90.0, "i2_us_p50_max_over_min": 1.02 },
            "estimates": { "i2_us_p50_at_1000":
                { "value": 90.0, "low": 89.5, "high": 91.0, "n": 10, "level": 0.95, "method": "median" } },
        })]
    }

    #[test]
    fn texts_show_measured_values_with_their_intervals_and_stated_ones() {
        let (results, contents) = (results(), Contents::read().unwrap());
        let measured = Measured::new(&results, &contents).unwrap();
        assert_eq!(measured.fill_in("{shim6/contexts:i2_us_p50_at_1000} µs"), "90.0 (89.5 to 91) µs");
        assert_eq!(measured.fill_in("{p4:i2_us@1000} and {p2:gain_ns1}"), "2000 and 1.15 (1.1 to 1.2)");
        assert_eq!(measured.fill_in("{nemo/nested:mtu}, {p4:unknown}"), "not measured, not measured");
    }

    #[test]
    fn a_figure_is_covered_if_each_of_its_charts_has_a_value_of_ours() {
        let (results, contents, figures) = (results(), Contents::read().unwrap(), PaperFigures::read().unwrap());
        let coverage = figures.coverage(&Measured::new(&results, &contents).unwrap());
        assert_eq!(coverage["by_paper"]["p4"], json!({ "covered": 1, "of": 5 }));
        assert_eq!(coverage["figures"]["covered"], 1);
        let none = Measured::new(&[], &contents).unwrap();
        assert_eq!(figures.coverage(&none)["figures"]["covered"], 0);
        let nested = figures.figures.iter().find(|one| one.id == "p1-fig-2").unwrap();
        assert_eq!(nested.coverage(&none), Coverage::NotMeasured("nemo/nested has no result".to_owned()));
    }

    #[test]
    fn every_figure_has_a_paper_charts_that_exist_and_texts_that_name_what_exists() {
        let (figures, contents) = (PaperFigures::read().unwrap(), Contents::read().unwrap());
        let empty: Vec<Value> =
            experiments::ALL.iter().map(|one| json!({ "experiment": one.name, "rows": [], "summary": {} })).collect();
        let measured = Measured::new(&empty, &contents).unwrap();
        let ids: BTreeSet<&str> = figures.figures.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids.len(), figures.figures.len());
        for one in &figures.figures {
            assert!(figures.papers.iter().any(|paper| paper.id == one.paper), "{}", one.id);
            let has_text = [&one.paper_says, &one.here, &one.differs].iter().all(|text| !text.is_empty());
            assert_ne!(has_text, one.absent.is_some(), "{}: either the three texts, or why it is absent", one.id);
            for chart in one.charts.iter().chain(&one.full_run) {
                assert!(measured.chart(chart).is_some(), "{}: no chart {chart}", one.id);
            }
            for text in [&one.paper_says, &one.here, &one.differs] {
                for placeholder in text.split(['{', '}']).skip(1).step_by(2) {
                    let (source, key) = placeholder.split_once(':').unwrap_or_default();
                    let is_known = experiments::ALL.iter().any(|experiment| experiment.name == source);
                    assert!(is_known || papers::in_words(source, key).is_some(), "{}: {placeholder}", one.id);
                }
            }
        }
    }

    #[test]
    fn the_documentation_argues_each_absence() {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/experiments.md")).unwrap();
        let part = text.split("## Figures that are not here").nth(1).expect("the section");
        let contents = Contents::read().unwrap();
        let none = Measured::new(&[], &contents).unwrap();
        let is_absent = |one: &&PaperFigure| one.charts.is_empty() && one.coverage(&none) != Coverage::Covered;
        for one in PaperFigures::read().unwrap().figures.iter().filter(is_absent) {
            assert!(part.contains(&format!("`{}`", one.id)), "{} is not argued", one.id);
        }
    }
}
