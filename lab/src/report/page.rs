//! The report page: one file with all figures, for screens of any size, light or dark, and for print.

use super::bounds::Bound;
use super::contents::{Chapter, Contents};
use crate::report::chart::{self, escape};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

const STYLE: &str = include_str!("page.css");

/// Writes the page that shows `results`.
pub(super) fn write(path: &Path, results: &[Value]) -> Result<()> {
    std::fs::write(path, page(results)?).with_context(|| format!("cannot write {}", path.display()))
}

fn page(results: &[Value]) -> Result<String> {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>roam6: every figure</title>\n<style>\n{STYLE}\n{}\n</style>\n<h1>roam6: every figure</h1>\n",
        chart::STYLE
    );
    html += &overview(results);
    let links = results.iter().map(name).map(|name| format!("<a href=\"#{}\">{}</a> ", file(name), escape(name)));
    html += &format!("<nav>{}</nav>\n", links.collect::<String>());
    let contents = Contents::read()?;
    for Chapter { prefix, title, about } in &contents.chapters {
        let mut its = results.iter().filter(|result| name(result).starts_with(prefix)).peekable();
        if its.peek().is_some() {
            html += &format!("<h2>{}</h2>\n<p>{}</p>\n", escape(title), escape(about));
        }
        for result in its {
            html += &experiment(result, &contents)?;
        }
    }
    Ok(html)
}

/// The number of bounds that hold, and those that are missed.
fn overview(results: &[Value]) -> String {
    let figures: Vec<Figure> = results.iter().flat_map(Figure::all).filter(|figure| figure.bound.is_some()).collect();
    let missed: Vec<&Figure> = figures.iter().filter(|figure| figure.holds() == Some(false)).collect();
    let (number, all, held) = (results.len(), figures.len(), figures.len() - missed.len());
    let html = format!(
        "<p>{number} experiments, each on real packets between network namespaces of one machine. {held} of {all} bounds \
         hold.</p>\n"
    );
    if missed.is_empty() { html } else { html + "<p>Missed:</p>\n" + &table(&missed, true) }
}

fn experiment(result: &Value, contents: &Contents) -> Result<String> {
    let name = name(result);
    let about = crate::experiments::ALL.iter().find(|one| one.name == name).map_or("", |one| one.about);
    let mut html = format!("<section id=\"{}\">\n<h3>{}</h3>\n", file(name), escape(name));
    html += &format!("<p><em>{}.</em> {}</p>\n", escape(about), escape(contents.explanation(name)));
    html += &contents.charts(result)?.iter().map(chart::figure).collect::<String>();
    html += &table(&Figure::all(result).iter().collect::<Vec<_>>(), false);
    if result.get("sound") == Some(&Value::Bool(false)) {
        let items = faults(result).into_iter().map(|fault| format!("<li>{}</li>\n", escape(fault)));
        let items: String = items.collect();
        html += &format!("<p class=\"fault\">Checks failed in this run.</p>\n<ul>\n{items}</ul>\n");
    }
    Ok(html + &origin(result) + "</section>\n")
}

/// Conditions of the run, and a link to its result file.
fn origin(result: &Value) -> String {
    let text = |pointer: &str| match result.pointer(pointer) {
        Some(Value::String(text)) => escape(text),
        Some(value) => escape(&value.to_string()),
        None => "?".to_owned(),
    };
    let how = if result.get("quick") == Some(&Value::Bool(true)) { "quick run" } else { "full run" };
    let [date, kernel, cores, load, commit] =
        ["date", "kernel", "cores", "load", "commit"].map(|key| text(&format!("/machine/{key}")));
    format!(
        "<p class=\"origin\">{how}, {date}, Linux {kernel}, {cores} cores, load {load} before it, commit {commit}, {} s. \
         <a href=\"{}.json\">All measurements</a></p>\n",
        text("/seconds"),
        file(name(result))
    )
}

/// One figure of a summary.
struct Figure<'a> {
    experiment: &'a str,
    key: &'a str,
    value: &'a Value,
    bound: Option<Bound>,
}

impl Figure<'_> {
    fn all(result: &Value) -> Vec<Figure<'_>> {
        let experiment = name(result);
        let summary = result.get("summary").and_then(Value::as_object);
        let figures = summary.into_iter().flatten();
        figures.map(|(key, value)| Figure { experiment, key, value, bound: Bound::of(experiment, key) }).collect()
    }

    /// A missing figure misses its bound.
    fn holds(&self) -> Option<bool> {
        self.bound.map(|bound| self.value.as_f64().is_some_and(|value| bound.holds(value)))
    }
}

fn table(figures: &[&Figure], of_many: bool) -> String {
    let row = |figure: &&Figure| {
        let verdict = match figure.holds() {
            Some(true) => "holds",
            Some(false) => "missed",
            None => "",
        };
        let link = format!("<a href=\"#{}\">{}</a> ", file(figure.experiment), escape(figure.experiment));
        let experiment = if of_many { link } else { String::new() };
        let bound = figure.bound.map(Bound::to_text).unwrap_or_default();
        let (key, value) = (escape(figure.key), escape(&figure.value.to_string()));
        format!(
            "<tr class=\"{verdict}\"><th>{experiment}{key}</th><td>{value}</td><td>{bound}</td><td>{verdict}</td></tr>\n"
        )
    };
    format!("<table>\n{}</table>\n", figures.iter().map(row).collect::<String>())
}

/// Descriptions of the failed checks of a run.
pub(super) fn faults(result: &Value) -> Vec<&str> {
    result.get("faults").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn name(result: &Value) -> &str {
    result.get("experiment").and_then(Value::as_str).unwrap_or_default()
}

fn file(name: &str) -> String {
    escape(&name.replace('/', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missed_bounds_come_first_and_html_is_escaped() {
        let result = json!({
            "experiment": "nemo/handover",
            "machine": { "commit": "<script>" },
            "summary": { "planned_lost_max": 3, "tcp_survived": 1 },
            "sound": false,
            "faults": ["lost <3> packets"],
        });
        let page = page(&[result]).expect("a page");
        assert!(page.contains("1 of 2 bounds hold"));
        assert!(
            page.contains(
                "<tr class=\"missed\"><th><a href=\"#nemo-handover\">nemo/handover</a> planned_lost_max</th>"
            )
        );
        assert!(page.contains("<li>lost &lt;3&gt; packets</li>"));
        assert!(!page.contains("<script>"));
    }
}
