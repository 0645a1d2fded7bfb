//! Contents of the page (`contents.json`): chapters, how to read each experiment, and its charts with the papers' values
//! (lab/papers/).

use super::chart::{Chart, Point, Series, Style};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The tables of the papers' values.
const PAPERS: [(&str, &str); 3] = [
    ("p2", include_str!("../../papers/p2.csv")),
    ("p3", include_str!("../../papers/p3.csv")),
    ("p4", include_str!("../../papers/p4.csv")),
];

type Fields = Map<String, Value>;

/// What the page has beside the results.
#[derive(Deserialize)]
pub(super) struct Contents {
    /// In the order of the page.
    pub(super) chapters: Vec<Chapter>,
    experiments: BTreeMap<String, Entry>,
}

/// A group of experiments, by the prefix of their names.
#[derive(Deserialize)]
pub(super) struct Chapter {
    pub(super) prefix: String,
    pub(super) title: String,
    /// The document that the experiments refer to.
    pub(super) about: String,
}

/// An experiment on the page.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    explanation: String,
    charts: Vec<ChartSpec>,
}

/// A chart.
#[derive(Deserialize)]
struct ChartSpec {
    title: String,
    x_label: String,
    y_label: String,
    #[serde(default)]
    series: Vec<Fields>,
    /// Figures of the summary, which are shown beside those of the paper.
    #[serde(default)]
    summary: Vec<String>,
    /// Fields that all series have unless they set them.
    #[serde(flatten)]
    common: Fields,
}

/// One series, or one for each name that its rows give. In texts, `{key}` is the value of a row's field, and
/// `{key?a:b}` is a or b for a boolean.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SeriesSpec {
    name: String,
    style: Style,
    /// Values that the fields of its rows have.
    #[serde(rename = "where")]
    filter: Fields,
    /// An array in each row: its elements are the rows; a number is a row with the fields `value` and `place`.
    each: Option<String>,
    /// Whether these numbers are sorted.
    sorted: bool,
    /// The category of a row.
    at: String,
    /// Instead of a category: the field of a numeric x axis.
    over: Option<String>,
    /// The field of the y axis, as a JSON pointer without its first slash: a number or a distribution.
    value: String,
    /// Fields of the row at the same x whose value is subtracted.
    less: Option<Fields>,
    /// Factors of x and y; 1 if they are not set.
    x_scale: Option<f64>,
    scale: Option<f64>,
    /// The table of a paper.
    paper: String,
    /// Instead of rows: x, and y or a quantity of the paper.
    points: Vec<(f64, Value)>,
    /// Whether the ranges of these quantities are omitted.
    no_ranges: bool,
}

impl Contents {
    /// Reads the contents.
    pub(super) fn read() -> Result<Contents> {
        serde_json::from_str(include_str!("contents.json")).context("contents.json")
    }

    /// How to read the figures of an experiment; empty if that is clear.
    pub(super) fn explanation(&self, experiment: &str) -> &str {
        self.experiments.get(experiment).map_or("", |entry| &entry.explanation)
    }

    /// The charts of a result; none if its experiment has none.
    pub(super) fn charts(&self, result: &Value) -> Result<Vec<Chart>> {
        let name = result.get("experiment").and_then(Value::as_str).unwrap_or_default();
        let charts = self.experiments.get(name).into_iter().flat_map(|entry| &entry.charts);
        charts.map(|spec| spec.draw(result).with_context(|| format!("the chart '{}'", spec.title))).collect()
    }
}

impl ChartSpec {
    fn draw(&self, result: &Value) -> Result<Chart> {
        let (title, x_label, y_label) = (self.title.clone(), self.x_label.clone(), self.y_label.clone());
        let mut chart = Chart { title, x_label, y_label, ..Chart::default() };
        for own in &self.series {
            let mut fields = self.common.clone();
            for (key, value) in own {
                match (fields.get_mut(key), value) {
                    (Some(Value::Object(common)), Value::Object(own)) => common.extend(own.clone()),
                    _ => drop(fields.insert(key.clone(), value.clone())),
                }
            }
            SeriesSpec::deserialize(Value::Object(fields))?.draw(result, &mut chart);
        }
        let paper = self.common.get("paper").and_then(Value::as_str).unwrap_or_default();
        for name in &self.summary {
            let x = chart.category(name);
            let measured = number(result, &format!("summary/{name}")).map(|y| Point::at(x, y));
            chart.push("measured", Style::Bar, measured);
            chart.push("paper", Style::Bar, paper_point(paper, name, x));
        }
        Ok(chart)
    }
}

impl SeriesSpec {
    fn draw(&self, result: &Value, chart: &mut Chart) {
        for (x, value) in &self.points {
            let constant = || Some(Point::at(*x, value.as_f64()?));
            let point = value.as_str().map_or_else(constant, |name| paper_point(&self.paper, name, *x));
            let range = |point: Point| point.range.filter(|_| !self.no_ranges);
            chart.push(&self.name, self.style, point.map(|point| Point { range: range(point), ..point }));
        }
        if !self.points.is_empty() {
            return;
        }
        let rows = self.rows(result);
        for row in rows.iter().filter(|row| has(row, &self.filter)) {
            let Some(mut point) = self.point(row, &rows) else { continue };
            if self.over.is_none() {
                point.x = chart.category(&fill_in(&self.at, row));
            }
            chart.push(&fill_in(&self.name, row), self.style, Some(point));
        }
    }

    /// The rows, of this series and of others.
    fn rows(&self, result: &Value) -> Vec<Value> {
        let rows = result.get("rows").and_then(Value::as_array).into_iter().flatten();
        let Some(each) = &self.each else { return rows.cloned().collect() };
        let inner = |row: &Value| {
            let mut elements = row.get(each).and_then(Value::as_array).cloned().unwrap_or_default();
            if self.sorted {
                elements.sort_by(|one, other| one.as_f64().unwrap_or(0.0).total_cmp(&other.as_f64().unwrap_or(0.0)));
            }
            let outer = row.as_object().cloned().unwrap_or_default();
            (1..)
                .zip(elements)
                .map(move |(place, element)| {
                    let mut row = outer.clone();
                    match element {
                        Value::Object(inner) => row.extend(inner),
                        value => row.extend([("place".to_owned(), place.into()), ("value".to_owned(), value)]),
                    }
                    Value::Object(row)
                })
                .collect::<Vec<_>>()
        };
        rows.flat_map(inner).collect()
    }

    /// The point of a row; at x 0 if it belongs to a category.
    fn point(&self, row: &Value, rows: &[Value]) -> Option<Point> {
        let x = self.over.as_ref().map_or(Some(0.0), |over| number(row, over))?;
        let mut point = figure(row, &self.value)?;
        if let Some(less) = &self.less {
            let mut others = rows.iter().filter(|other| has(other, less));
            let other = others.find(|other| self.over.as_ref().is_some_and(|over| row.get(over) == other.get(over)))?;
            point = Point::at(0.0, point.y - figure(other, &self.value)?.y);
        }
        let scale = self.scale.unwrap_or(1.0);
        let range = point.range.map(|(low, high)| (low * scale, high * scale));
        Some(Point { x: x * self.x_scale.unwrap_or(1.0), y: (point.y * scale).max(0.0), range })
    }
}

impl Chart {
    /// Adds a point to the series with this name.
    fn push(&mut self, name: &str, style: Style, point: Option<Point>) {
        match self.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.extend(point),
            None => self.series.push(Series { name: name.to_owned(), style, points: point.into_iter().collect() }),
        }
    }

    /// The position of a category on the x axis.
    fn category(&mut self, name: &str) -> f64 {
        let index = self.categories.iter().position(|known| known == name).unwrap_or_else(|| {
            self.categories.push(name.to_owned());
            self.categories.len() - 1
        });
        index as f64
    }
}

/// Whether a row has these values.
fn has(row: &Value, fields: &Fields) -> bool {
    fields.iter().all(|(key, value)| row.get(key) == Some(value))
}

/// A number, by JSON pointer without its first slash.
fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(&format!("/{path}"))?.as_f64()
}

/// A figure of a row at x 0: the median and the range of a distribution, or a number with the range of its `rounds`.
fn figure(row: &Value, path: &str) -> Option<Point> {
    if let Some(y) = number(row, &format!("{path}/p50")) {
        let range = number(row, &format!("{path}/min")).zip(number(row, &format!("{path}/max")));
        return Some(Point { x: 0.0, y, range });
    }
    let rounds = || row.get("rounds")?.as_array().map(|rounds| rounds.iter().filter_map(Value::as_f64));
    let range = rounds().and_then(|rounds| rounds.clone().reduce(f64::min).zip(rounds.reduce(f64::max)));
    Some(Point { x: 0.0, y: number(row, path)?, range })
}

/// A paper's value of a quantity: its line in the table.
fn paper_point(paper: &str, name: &str, x: f64) -> Option<Point> {
    let (_, table) = PAPERS.iter().find(|(known, _)| *known == paper)?;
    let line = table.lines().find(|line| line.split(',').nth(1) == Some(name))?;
    let mut columns = line.split(',').skip(2).map(|column| column.parse::<f64>().ok());
    let (y, low, high) = (columns.next()??, columns.next()?, columns.next()?);
    Some(Point { x, y, range: low.zip(high).filter(|(_, high)| high.is_finite()) })
}

/// A text with the fields of a row filled in.
fn fill_in(template: &str, row: &Value) -> String {
    let part = |(index, part): (usize, &str)| {
        if index % 2 == 0 {
            return part.to_owned();
        }
        let (key, words) = part.split_once('?').unwrap_or((part, ":"));
        let (yes, no) = words.split_once(':').unwrap_or_default();
        match row.get(key) {
            Some(Value::String(text)) => text.replace('_', " "),
            Some(Value::Bool(holds)) => if *holds { yes } else { no }.to_owned(),
            Some(value) => value.as_f64().map(|number| number.to_string()).unwrap_or_default(),
            None => String::new(),
        }
    };
    template.split(['{', '}']).enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chart(spec: Value, rows: Value) -> Chart {
        ChartSpec::deserialize(spec).unwrap().draw(&json!({ "rows": rows })).unwrap()
    }

    fn points(series: &Series) -> Vec<(f64, f64)> {
        series.points.iter().map(|point| (point.x, point.y)).collect()
    }

    #[test]
    fn bars_are_placed_by_category() {
        let spec = json!({
            "title": "", "x_label": "", "y_label": "", "at": "{a}", "name": "{b}", "value": "v", "series": [{}]
        });
        let rows = json!([{ "a": "x", "b": "p", "v": 1.0 }, { "a": "y", "b": "p", "v": { "p50": 2.0, "max": 3.0 } }]);
        let chart = chart(spec, rows);
        assert_eq!(chart.categories, ["x", "y"]);
        assert_eq!((chart.series.len(), points(&chart.series[0])), (1, vec![(0.0, 1.0), (1.0, 2.0)]));
    }

    #[test]
    fn elements_of_an_array_are_rows() {
        let spec = json!({
            "title": "", "x_label": "", "y_label": "", "over": "place", "each": "v", "sorted": true,
            "value": "value", "name": "{up?up:down}, {n}", "series": [{}]
        });
        let chart = chart(spec, json!([{ "n": 2, "up": false, "v": [5.0, 3.0] }]));
        assert_eq!(
            (chart.series[0].name.as_str(), points(&chart.series[0])),
            ("down, 2", vec![(1.0, 3.0), (2.0, 5.0)])
        );
    }

    #[test]
    fn vanetza_figures_are_labelled_as_another_machine() {
        let row = json!({ "neighbours": 1, "pps_of_a_core": { "p50": 1, "min": 1, "max": 1 } });
        let result = json!({ "experiment": "geonet/forwarding", "rows": [row] });
        let charts = Contents::read().unwrap().charts(&result).unwrap();
        let vanetza = charts[0].series.iter().find(|series| series.name.starts_with("vanetza")).unwrap();
        assert!(vanetza.name.ends_with("on another machine"));
        assert_eq!(points(vanetza).iter().map(|point| point.0).collect::<Vec<_>>(), [1.0, 10.0, 50.0]);
    }

    #[test]
    fn paper_figures_are_parsed() {
        let gain = paper_point("p2", "gain_ns1", 2.0);
        assert_eq!(gain, Some(Point { x: 2.0, y: 1.15, range: Some((1.10, 1.20)) }));
        assert_eq!(paper_point("p2", "rtt_ns1c_over_ns1p", 0.0).and_then(|point| point.range), None);
        assert_eq!(paper_point("p2", "nothing", 0.0), None);
    }

    #[test]
    fn every_chart_is_of_an_experiment_and_can_be_drawn() {
        let contents = Contents::read().unwrap();
        for name in contents.experiments.keys() {
            assert!(crate::experiments::ALL.iter().any(|one| one.name == name), "{name}");
            contents.charts(&json!({ "experiment": name, "rows": [], "summary": {} })).unwrap();
        }
    }
}
