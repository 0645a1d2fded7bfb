//! What a reader wants to know first: verdicts, coverage, and what there is on the page. Tables of bounds.

use super::{Report, file};
use crate::judge::{Bound, Estimate, Verdict};
use crate::report::bounds::{self, Judged};
use crate::report::chart::escape;
use crate::report::figure;
use crate::report::paper_figures::PaperFigures;
use serde_json::Value;

/// A figure of a table: its experiment, if that is to be shown, its key, and what is known of it.
pub(super) struct Line<'a> {
    pub(super) experiment: Option<&'a str>,
    pub(super) key: &'a str,
    pub(super) value: Option<&'a Value>,
    pub(super) estimate: Option<&'a Estimate>,
    pub(super) bound: Option<Bound>,
    /// The class of the line.
    pub(super) class: &'a str,
    pub(super) verdict: String,
}

impl Report<'_> {
    /// The numbers of verdicts and of figures covered.
    pub(super) fn overview(&self) -> String {
        let [holds, missed, undecided, not_measured] = bounds::count(&self.bounds);
        format!(
            "<p>{} experiments, each on real packets between network namespaces of one machine. Of {} bounds {holds} hold, \
             {missed} are missed, {undecided} are undecided (the interval of the figure crosses the bound, or there is none), \
             {not_measured} are not measured. {} Intervals of medians are those of the sign test; the number of rounds is n.</p>\n",
            self.results.len(),
            self.bounds.len(),
            escape(&self.figures.coverage_in_words(&self.measured)),
        )
    }

    /// The bounds that do not hold.
    pub(super) fn open_bounds(&self) -> String {
        let mut html = String::new();
        for (title, verdict) in [("Missed", Verdict::Missed), ("Undecided", Verdict::Undecided)] {
            let lines: Vec<Line> = self.bounds.iter().filter(|one| one.verdict == Some(verdict)).map(line).collect();
            if !lines.is_empty() {
                html += &format!("<p>{title}:</p>\n{}", table(&lines));
            }
        }
        html
    }

    /// The papers' figures, then the experiments.
    pub(super) fn list_of_contents(&self) -> String {
        let mut html = String::from("<nav>\n");
        for paper in &self.figures.papers {
            let its = self.figures.figures.iter().filter(|one| one.paper == paper.id);
            let link = |one: &crate::report::paper_figures::PaperFigure| {
                format!("<a href=\"#{}\">{}</a> ", escape(&one.id), escape(&one.number))
            };
            let name = its.clone().next().map(PaperFigures::short_name).unwrap_or_default();
            let links: String = its.map(link).collect();
            html += &format!("<p>{name}, {}: {links}</p>\n", escape(&paper.title));
        }
        let names = self.results.iter().map(figure::name);
        let links: String = names.map(|name| format!("<a href=\"#{}\">{}</a> ", file(name), escape(name))).collect();
        html + &format!("<p>Experiments: {links}<a href=\"#bounds\">all bounds</a></p>\n</nav>\n")
    }

    /// All bounds, measured or not.
    pub(super) fn all_bounds(&self) -> String {
        let lines: Vec<Line> = self.bounds.iter().map(line).collect();
        format!("<h2 id=\"bounds\">All bounds</h2>\n{}", table(&lines))
    }
}

fn line<'a>(one: &'a Judged) -> Line<'a> {
    Line {
        experiment: Some(one.experiment),
        key: one.key,
        value: one.value,
        estimate: one.estimate.as_ref(),
        bound: Some(one.bound),
        class: one.verdict.map_or("", Verdict::to_text),
        verdict: one.verdict_in_words(),
    }
}

/// Key, value, interval, bound and verdict of each.
pub(super) fn table(lines: &[Line]) -> String {
    let row = |line: &Line| {
        let link = |name| format!("<a href=\"#{}\">{}</a> ", file(name), escape(name));
        let (experiment, class) = (line.experiment.map(link).unwrap_or_default(), line.class);
        let bound = line.bound.map(Bound::to_text).unwrap_or_default();
        let (key, value) = (escape(line.key), line.value.map(|value| escape(&value.to_string())).unwrap_or_default());
        let interval = line.estimate.map(Estimate::to_text).unwrap_or_default();
        let verdict = escape(&line.verdict);
        format!(
            "<tr class=\"{class}\"><th>{experiment}{key}</th><td>{value}</td><td>{interval}</td><td>{bound}</td>\
             <td>{verdict}</td></tr>\n"
        )
    };
    format!("<table>\n{}</table>\n", lines.iter().map(row).collect::<String>())
}
