//! Contents of the page (`contents/`): chapters, and for each experiment how to read it, and its charts with the papers'
//! values.

use super::chart::{Chart, Point, Series, Style};
use super::papers::{PaperPoint, paper_points};
use crate::experiments;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Fields = Map<String, Value>;

/// What the page has beside the results.
pub(super) struct Contents {
    /// In the order of the page.
    pub(super) chapters: Vec<Chapter>,
    experiments: BTreeMap<&'static str, Entry>,
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
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    explanation: String,
    charts: Vec<ChartSpec>,
}

/// A chart.
#[derive(Deserialize)]
struct ChartSpec {
    /// Its name within the experiment, in lower case with hyphens.
    id: String,
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
    style: Option<Style>,
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
    /// The ends of the range of a distribution; its minimum and its maximum if they are not named.
    range: Option<[String; 2]>,
    /// Fields of the row at the same x whose value is subtracted.
    less: Option<Fields>,
    /// Factors of x and y; 1 if they are not set.
    x_scale: Option<f64>,
    scale: Option<f64>,
    /// The table of a paper, or of peers (lab/papers/).
    paper: String,
    /// Instead of rows: a quantity of that table.
    quantity: String,
    /// Whether the quantity is a factor of x.
    times_x: bool,
}

impl Contents {
    /// Reads the contents.
    pub(super) fn read() -> Result<Contents> {
        let chapters = serde_json::from_str(include_str!("contents/chapters.json")).context("chapters.json")?;
        let entry = |one: &experiments::Experiment| {
            let entry = serde_json::from_str(one.contents).with_context(|| format!("the contents of {}", one.name))?;
            Ok((one.name, entry))
        };
        Ok(Contents { chapters, experiments: experiments::ALL.iter().map(entry).collect::<Result<_>>()? })
    }

    /// How to read the figures of an experiment; empty if that is clear.
    pub(super) fn explanation(&self, experiment: &str) -> &str {
        self.experiments.get(experiment).map_or("", |entry| &entry.explanation)
    }

    /// The names of an experiment's charts, in the order of the page.
    pub(super) fn chart_names(&self, experiment: &str) -> impl Iterator<Item = &str> {
        self.experiments.get(experiment).into_iter().flat_map(|entry| &entry.charts).map(|chart| chart.id.as_str())
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
        let mut chart = Chart { id: self.id.clone(), title, x_label, y_label, ..Chart::default() };
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
            let measured = number(result, &format!("summary/{name}"));
            let stated = paper_points(paper, name).into_iter().find(|point| point.x.is_none());
            if measured.is_none() && stated.is_none() {
                continue;
            }
            let x = chart.category(name);
            let interval = number(result, &format!("estimates/{name}/low"));
            let range = interval.zip(number(result, &format!("estimates/{name}/high")));
            chart.push("measured", Style::Bar, measured.map(|y| Point { x, y, range }));
            let bar = stated.and_then(|point| Some(Point { x, y: point.value?, range: point.bounded_range() }));
            chart.push("paper", Style::Bar, bar);
        }
        Ok(chart)
    }
}

impl SeriesSpec {
    fn draw(&self, result: &Value, chart: &mut Chart) {
        if !self.quantity.is_empty() {
            return self.draw_stated(&paper_points(&self.paper, &self.quantity), chart);
        }
        let rows = self.rows(result);
        for row in rows.iter().filter(|row| has(row, &self.filter)) {
            let Some(mut point) = self.point(row, &rows) else { continue };
            if self.over.is_none() {
                point.x = chart.category(&fill_in(&self.at, row));
            }
            chart.push(&fill_in(&self.name, row), self.style.unwrap_or_default(), Some(point));
        }
    }

    /// What a paper or a peer states: single values as dots, a value of the whole axis as a line, ranges as a band. An order
    /// without an end is not drawn.
    fn draw_stated(&self, stated: &[PaperPoint], chart: &mut Chart) {
        let (scale, x_scale) = (self.scale.unwrap_or(1.0), self.x_scale.unwrap_or(1.0));
        let ends = chart.ends();
        let has_dots = stated.iter().any(|point| point.x.is_some() && point.value.is_some());
        for point in stated {
            let x = point.x.map(|x| if self.at.is_empty() { x * x_scale } else { chart.category(&x.to_string()) });
            let range = point.bounded_range().map(|(low, high)| (low * scale, high * scale));
            let factor = |x: f64| if self.times_x { x } else { 1.0 };
            let (suffix, style) = match (point.value, x) {
                (Some(_), Some(_)) => ("", self.style.unwrap_or(Style::Dots)),
                (Some(_), None) if has_dots => (", mean", Style::Dashes),
                (Some(_), None) => ("", Style::Dashes),
                (None, _) if has_dots => (", range", Style::Band),
                (None, _) => ("", Style::Band),
            };
            let Some(y) = point.value.map(|value| value * scale).or(range.map(|(low, _)| low)) else { continue };
            let places = x.map_or_else(|| ends.to_vec(), |x| vec![x]);
            for x in places {
                let point = Point { x, y: y * factor(x), range: range.filter(|_| style != Style::Dashes) };
                chart.push(&format!("{}{suffix}", self.name), style, Some(point));
            }
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
        let ends = self.range.as_ref().map_or(["min", "max"], |ends| ends.each_ref().map(String::as_str));
        let mut point = figure(row, &self.value, ends)?;
        if let Some(less) = &self.less {
            let mut others = rows.iter().filter(|other| has(other, less));
            let other = others.find(|other| self.over.as_ref().is_some_and(|over| row.get(over) == other.get(over)))?;
            point = Point::at(0.0, point.y - figure(other, &self.value, ends)?.y);
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

    /// The first and the last x of the points so far.
    fn ends(&self) -> [f64; 2] {
        if !self.categories.is_empty() {
            return [-0.5, self.categories.len() as f64 - 0.5];
        }
        let all = || self.series.iter().flat_map(|series| &series.points).map(|point| point.x);
        [all().reduce(f64::min).unwrap_or(0.0), all().reduce(f64::max).unwrap_or(0.0)]
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

/// A figure of a row at x 0: the median of a distribution and its range, which has these ends, or a number with the range of its
/// `rounds`.
fn figure(row: &Value, path: &str, [low, high]: [&str; 2]) -> Option<Point> {
    if let Some(y) = number(row, &format!("{path}/p50")) {
        let range = number(row, &format!("{path}/{low}")).zip(number(row, &format!("{path}/{high}")));
        return Some(Point { x: 0.0, y, range });
    }
    let rounds = || row.get("rounds")?.as_array().map(|rounds| rounds.iter().filter_map(Value::as_f64));
    let range = rounds().and_then(|rounds| rounds.clone().reduce(f64::min).zip(rounds.reduce(f64::max)));
    Some(Point { x: 0.0, y: number(row, path)?, range })
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
    use std::collections::BTreeSet;

    fn chart(spec: Value, rows: Value) -> Chart {
        ChartSpec::deserialize(spec).unwrap().draw(&json!({ "rows": rows })).unwrap()
    }

    fn points(series: &Series) -> Vec<(f64, f64)> {
        series.points.iter().map(|point| (point.x, point.y)).collect()
    }

    #[test]
    fn bars_are_placed_by_category() {
        let spec = json!({
            "id": "", "title": "", "x_label": "", "y_label": "", "at": "{a}", "name": "{b}", "value": "v", "series": [{}]
        });
        let rows = json!([{ "a": "x", "b": "p", "v": 1.0 }, { "a": "y", "b": "p", "v": { "p50": 2.0, "max": 3.0 } }]);
        let chart = chart(spec, rows);
        assert_eq!(chart.categories, ["x", "y"]);
        assert_eq!((chart.series.len(), points(&chart.series[0])), (1, vec![(0.0, 1.0), (1.0, 2.0)]));
    }

    #[test]
    fn elements_of_an_array_are_rows() {
        let spec = json!({
            "id": "", "title": "", "x_label": "", "y_label": "", "over": "place", "each": "v", "sorted": true,
            "value": "value", "name": "{up?up:down}, {n}", "series": [{}]
        });
        let chart = chart(spec, json!([{ "n": 2, "up": false, "v": [5.0, 3.0] }]));
        assert_eq!(
            (chart.series[0].name.as_str(), points(&chart.series[0])),
            ("down, 2", vec![(1.0, 3.0), (2.0, 5.0)])
        );
    }

    #[test]
    fn stated_ranges_are_bands_and_stated_values_dots() {
        let spec = json!({
            "id": "", "title": "", "x_label": "", "y_label": "", "over": "n", "value": "v", "scale": 2.0, "series": [
                { "name": "ours" }, { "name": "paper", "paper": "p3", "quantity": "rtt_1hop" },
                { "name": "orders", "paper": "p2", "quantity": "rtt_ns1c_over_ns1p" }
            ]
        });
        let chart = chart(spec, json!([{ "n": 20, "v": 1.0 }, { "n": 1500, "v": 1.0 }]));
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["ours", "paper, range", "paper"]);
        assert_eq!(chart.series[1].points[1], Point { x: 1500.0, y: 4.0, range: Some((4.0, 20.0)) });
        assert_eq!((chart.series[1].style, points(&chart.series[2])), (Style::Band, vec![(370.0, 50.0)]));
    }

    #[test]
    fn no_number_of_a_chart_is_a_constant_of_its_contents() {
        let points = json!({ "name": "paper", "points": [[1, 2]] });
        assert!(SeriesSpec::deserialize(points).is_err());
    }

    #[test]
    fn vanetza_figures_are_labelled_as_another_machine() {
        let row = |number: u8| json!({ "neighbours": number, "pps_of_a_core": { "p50": 1, "min": 1, "max": 1 } });
        let result = json!({ "experiment": "geonet/forwarding", "rows": [row(1), row(10), row(50), row(200)] });
        let charts = Contents::read().unwrap().charts(&result).unwrap();
        let vanetza = charts[0].series.iter().find(|series| series.name.starts_with("vanetza")).unwrap();
        assert!(vanetza.name.ends_with("on another machine"));
        assert_eq!(charts[0].categories, ["1", "10", "50", "200"]);
        assert_eq!(points(vanetza), [(0.0, 108.0), (1.0, 68.0), (2.0, 24.0)], "at 1, 10 and 50 neighbours");
    }

    #[test]
    fn every_chart_is_of_an_experiment_and_can_be_drawn() {
        let contents = Contents::read().unwrap();
        for name in contents.experiments.keys() {
            let charts = contents.charts(&json!({ "experiment": name, "rows": [], "summary": {} })).unwrap();
            let ids: BTreeSet<&str> = charts.iter().map(|chart| chart.id.as_str()).collect();
            assert_eq!(ids.len(), charts.len(), "{name}: {ids:?}");
        }
    }
}
