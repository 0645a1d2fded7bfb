//! Figures: axes, lines with their spread, bars and areas, drawn as SVG; and rows of blocks for a terminal.

mod blocks;
mod draw;
mod scale;
mod series;
mod sheet;

pub(crate) use blocks::block_row;
pub(crate) use sheet::{STYLE, escape, figure, write};

/// One figure.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chart {
    /// What it shows.
    pub(crate) title: String,
    /// What is to the right, with its unit.
    pub(crate) x_label: String,
    /// What is upwards, with its unit.
    pub(crate) y_label: String,
    /// Names of the places 0, 1, 2, ... to the right; empty: numbers.
    pub(crate) categories: Vec<String>,
    /// What is drawn, the first at the bottom.
    pub(crate) series: Vec<Series>,
    /// Moments to the right that have a name.
    pub(crate) markers: Vec<(f64, String)>,
}

/// Values that belong together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub(crate) name: String,
    /// How it is drawn.
    pub(crate) style: Style,
    /// Its points, from left to right.
    pub(crate) points: Vec<Point>,
}

/// A value and between which it lay.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Point {
    /// Where.
    pub(crate) x: f64,
    /// How much.
    pub(crate) y: f64,
    /// From where to where it went, if that is known.
    pub(crate) spread: Option<(f64, f64)>,
}

impl Point {
    /// A value without a range.
    pub(crate) fn at(x: f64, y: f64) -> Point {
        Point { x, y, spread: None }
    }
}

impl Series {
    /// A series of these points, from left to right.
    pub(crate) fn new(name: &str, style: Style, points: impl IntoIterator<Item = Point>) -> Series {
        Series { name: name.to_owned(), style, points: points.into_iter().collect() }
    }
}

impl Chart {
    /// A chart with a numeric x axis.
    pub(crate) fn of(series: Vec<Series>) -> Chart {
        Chart { series, ..Chart::default() }
    }

    /// A chart with these names at 0, 1, 2, ...
    pub(crate) fn with_categories(categories: impl IntoIterator<Item = String>, series: Vec<Series>) -> Chart {
        Chart { categories: categories.into_iter().collect(), series, ..Chart::default() }
    }

    /// The same with title and axis labels.
    pub(crate) fn titled(self, title: &str, x_label: &str, y_label: &str) -> Chart {
        Chart { title: title.to_owned(), x_label: x_label.to_owned(), y_label: y_label.to_owned(), ..self }
    }
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Style {
    /// Joined points.
    #[default]
    Line,
    /// Joined points in dashes: what others say.
    Dashes,
    /// A bar at each place, beside those of other series.
    Bar,
    /// What is under the line, on top of earlier areas.
    Area,
}
