//! The sections of the papers: each figure and table with our charts, and what differs.

use super::{Report, file};
use crate::report::chart::{self, escape};
use crate::report::paper_figures::{Coverage, PaperFigure};

impl Report<'_> {
    pub(super) fn paper_sections(&self) -> String {
        let mut html = String::new();
        for paper in &self.figures.papers {
            html += &format!("<h2>{}</h2>\n<p>{}</p>\n", escape(&paper.title), escape(&paper.authors));
            let its = self.figures.figures.iter().filter(|one| one.paper == paper.id);
            html += &its.map(|one| self.paper_figure(one)).collect::<String>();
        }
        html
    }

    fn paper_figure(&self, figure: &PaperFigure) -> String {
        let mut html = format!(
            "<section id=\"{}\">\n<h3>{}: {}</h3>\n",
            escape(&figure.id),
            escape(&figure.number),
            escape(&figure.title)
        );
        html += &figure.shown(&self.measured).map(chart::figure).collect::<String>();
        if let Coverage::Absent(why) = figure.coverage(&self.measured) {
            return html + &format!("<p><em>Not shown:</em> {}</p>\n</section>\n", escape(&why));
        }
        html += "<dl>\n";
        let fill_in = |text: &str| self.measured.fill_in(text);
        let here = figure.here_in_words(&self.measured);
        for (title, text) in
            [("Paper", fill_in(&figure.paper_says)), ("Here", here), ("Why it differs", fill_in(&figure.differs))]
        {
            html += &format!("<dt>{title}</dt><dd>{}</dd>\n", escape(&text));
        }
        html += "</dl>\n";
        let mut experiments: Vec<&str> = figure.charts.iter().filter_map(|name| name.split('#').next()).collect();
        experiments.dedup();
        let link = |name: &&str| format!("<a href=\"#{}\">{}</a> ", file(name), escape(name));
        let links: String = experiments.iter().map(link).collect();
        if !links.is_empty() {
            html += &format!("<p class=\"origin\">Conditions and all figures: {links}</p>\n");
        }
        html + "</section>\n"
    }
}
