//! The report page: one file with all figures, for screens of any size, light or dark, and for print.

use super::bounds::Bound;
use super::contents::{Chapter, Contents};
use crate::report::chart::{self, escape};
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write;
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
    overview(&mut html, results)?;
    navigation(&mut html, results)?;
    let contents = Contents::read()?;
    for Chapter { prefix, title, about } in &contents.chapters {
        let mut its = results.iter().filter(|result| name(result).starts_with(prefix)).peekable();
        if its.peek().is_some() {
            writeln!(html, "<h2>{}</h2>\n<p>{}</p>", escape(title), escape(about))?;
        }
        its.try_for_each(|result| experiment(&mut html, result, &contents))?;
    }
    Ok(html)
}

/// The number of bounds that hold, and those that are missed.
fn overview(html: &mut String, results: &[Value]) -> Result<()> {
    let figures: Vec<Figure> = results.iter().flat_map(Figure::all).filter(|figure| figure.bound.is_some()).collect();
    let missed: Vec<&Figure> = figures.iter().filter(|figure| figure.holds() == Some(false)).collect();
    writeln!(
        html,
        "<p>{} experiments, each on real packets between network namespaces of one machine. {} of {} bounds hold.</p>",
        results.len(),
        figures.len() - missed.len(),
        figures.len()
    )?;
    if !missed.is_empty() {
        html.push_str("<p>Missed:</p>\n");
        table(html, &missed, true)?;
    }
    Ok(())
}

fn navigation(html: &mut String, results: &[Value]) -> Result<()> {
    html.push_str("<nav>");
    for name in results.iter().map(name) {
        write!(html, "<a href=\"#{}\">{}</a> ", file(name), escape(name))?;
    }
    html.push_str("</nav>\n");
    Ok(())
}

fn experiment(html: &mut String, result: &Value, contents: &Contents) -> Result<()> {
    let name = name(result);
    let about = crate::experiments::ALL.iter().find(|one| one.name == name).map_or("", |one| one.about);
    writeln!(html, "<section id=\"{}\">\n<h3>{}</h3>", file(name), escape(name))?;
    writeln!(html, "<p><em>{}.</em> {}</p>", escape(about), escape(contents.explanation(name)))?;
    for chart in contents.charts(result)? {
        html.push_str(&chart::figure(&chart));
    }
    table(html, &Figure::all(result).iter().collect::<Vec<_>>(), false)?;
    fault_list(html, result)?;
    origin(html, result)?;
    html.push_str("</section>\n");
    Ok(())
}

/// Failed checks of the run.
fn fault_list(html: &mut String, result: &Value) -> Result<()> {
    if result.get("sound") != Some(&Value::Bool(false)) {
        return Ok(());
    }
    html.push_str("<p class=\"fault\">Checks failed in this run.</p>\n<ul>\n");
    for fault in faults(result) {
        writeln!(html, "<li>{}</li>", escape(fault))?;
    }
    html.push_str("</ul>\n");
    Ok(())
}

/// Conditions of the run, and a link to its result file.
fn origin(html: &mut String, result: &Value) -> Result<()> {
    let text = |pointer: &str| match result.pointer(pointer) {
        Some(Value::String(text)) => escape(text),
        Some(value) => escape(&value.to_string()),
        None => "?".to_owned(),
    };
    let how = if result.get("quick") == Some(&Value::Bool(true)) { "quick run" } else { "full run" };
    writeln!(
        html,
        "<p class=\"origin\">{how}, {}, Linux {}, {} cores, load {} before it, commit {}, {} s. \
         <a href=\"{}.json\">All measurements</a></p>",
        text("/machine/date"),
        text("/machine/kernel"),
        text("/machine/cores"),
        text("/machine/load"),
        text("/machine/commit"),
        text("/seconds"),
        file(name(result))
    )?;
    Ok(())
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

fn table(html: &mut String, figures: &[&Figure], of_many: bool) -> Result<()> {
    html.push_str("<table>\n");
    for figure in figures {
        let (class, verdict) = match figure.holds() {
            Some(true) => ("holds", "holds"),
            Some(false) => ("missed", "missed"),
            None => ("", ""),
        };
        let experiment = if of_many {
            format!("<a href=\"#{}\">{}</a> ", file(figure.experiment), escape(figure.experiment))
        } else {
            String::new()
        };
        let bound = figure.bound.map(Bound::to_text).unwrap_or_default();
        let (key, value) = (escape(figure.key), escape(&figure.value.to_string()));
        writeln!(
            html,
            "<tr class=\"{class}\"><th>{experiment}{key}</th><td>{value}</td><td>{bound}</td><td>{verdict}</td></tr>"
        )?;
    }
    html.push_str("</table>\n");
    Ok(())
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
