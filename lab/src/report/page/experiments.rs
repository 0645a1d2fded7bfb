//! The sections of the experiments: the charts that no figure of a paper has shown, all figures, and the conditions.

use super::overview::{Line, table};
use super::{Report, faults, file};
use crate::judge::Verdict;
use crate::report::chart::{self, escape};
use crate::report::contents::Chapter;
use crate::report::figure::{Figure, name};
use serde_json::Value;

impl Report<'_> {
    pub(super) fn experiment_sections(&self) -> String {
        let mut html = String::new();
        for Chapter { prefix, title, about } in &self.contents.chapters {
            let mut its = self.results.iter().filter(|result| name(result).starts_with(prefix)).peekable();
            if its.peek().is_some() {
                html += &format!("<h2>{}</h2>\n<p>{}</p>\n", escape(title), escape(about));
            }
            html += &its.map(|result| self.experiment(result)).collect::<String>();
        }
        html
    }

    fn experiment(&self, result: &Value) -> String {
        let name = name(result);
        let about = crate::experiments::ALL.iter().find(|one| one.name == name).map_or("", |one| one.about);
        let explanation = self.measured.fill_in(self.contents.explanation(name));
        let mut html = format!("<section id=\"{}\">\n<h3>{}</h3>\n", file(name), escape(name));
        html += &format!("<p><em>{}.</em> {}</p>\n", escape(about), escape(&explanation));
        html += &self.own_charts(name);
        let figures = Figure::all(result);
        let lines: Vec<Line> = figures.iter().map(line).collect();
        html += &table(&lines);
        if result.get("sound") == Some(&Value::Bool(false)) {
            let items = faults(result).into_iter().map(|fault| format!("<li>{}</li>\n", escape(fault)));
            let items: String = items.collect();
            html += &format!("<p class=\"fault\">Checks failed in this run.</p>\n<ul>\n{items}</ul>\n");
        }
        html + &origin(result) + "</section>\n"
    }

    /// The charts of an experiment that are in no figure of a paper.
    fn own_charts(&self, experiment: &str) -> String {
        let of_papers = || self.figures.figures.iter().flat_map(|one| one.charts.iter().chain(&one.full_run));
        let shown = |name: &str| of_papers().any(|chart| chart == name);
        let names = self.contents.chart_names(experiment).map(|id| format!("{experiment}#{id}"));
        let own = names.filter(|name| !shown(name));
        own.filter_map(|name| self.measured.chart(&name).map(chart::figure)).collect()
    }
}

fn line<'a>(figure: &'a Figure) -> Line<'a> {
    let verdict = figure.verdict().map_or("", Verdict::to_text);
    Line {
        experiment: None,
        key: figure.key,
        value: Some(figure.value),
        estimate: figure.estimate.as_ref(),
        bound: figure.bound,
        class: verdict,
        verdict: verdict.to_owned(),
    }
}

/// Conditions of the run, and a link to its result file.
fn origin(result: &Value) -> String {
    let text = |pointer: &str| match result.pointer(pointer) {
        Some(Value::String(text)) => escape(text),
        Some(value) => escape(&value.to_string()),
        None => "?".to_owned(),
    };
    let how = if result.get("quick") == Some(&Value::Bool(true)) { "quick run" } else { "full run" };
    let [date, kernel, cores, processor, load, commit] =
        ["date", "kernel", "cores", "processor", "load", "commit"].map(|key| text(&format!("/machine/{key}")));
    format!(
        "<p class=\"origin\">{how}, {date}, Linux {kernel}, {cores} cores ({processor}), load {load} before it, commit {commit}, \
         {} s. {} <a href=\"{}.json\">All measurements</a></p>\n",
        text("/seconds"),
        escape(&disturbance(result)),
        file(name(result))
    )
}

/// How many rounds there were, and what disturbed the machine; empty if the result does not tell.
fn disturbance(result: &Value) -> String {
    let mut text = String::new();
    for rounds in result.get("rounds").and_then(Value::as_array).into_iter().flatten() {
        let number = |key: &str| rounds.get(key).and_then(Value::as_u64).unwrap_or_default();
        let why = match rounds.get("stopped").and_then(Value::as_str) {
            Some("decided") => "all bounds decided",
            Some("time") => "the time was spent",
            _ => "no further look",
        };
        let (kept, disturbed, repeated) = (number("kept"), number("disturbed"), number("repeated"));
        text += &format!("{kept} rounds, {disturbed} of them disturbed, {repeated} repeated; {why}. ");
    }
    let of = |key: &str| result.pointer(&format!("/machine/disturbance/{key}")).and_then(Value::as_f64);
    if let (Some(cores), Some(steal), Some(slowness)) = (of("foreign_cores"), of("steal_percent"), of("slowness")) {
        text += &format!(
            "Other programs used {cores} cores, {steal} % was stolen, a fixed loop took {slowness} of its shortest time."
        );
    }
    text
}
