//! The Prometheus text format, version 0.0.4: a metric is its help, its type, and its samples, without others in between.

use roam6_proto::base::vec_map::VecMap;
use std::fmt::Write;

/// The page under construction.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
    name: &'static str,
}

impl Page {
    /// Begins a metric.
    pub(super) fn head(&mut self, name: &'static str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        self.name = name;
    }

    /// A sample of the present metric.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: &str) {
        self.sample_of("", labels, value);
    }

    /// A sample whose name has a suffix, such as `_sum`.
    pub(super) fn sample_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: &str) {
        let _ = write!(self.text, "{}{suffix}", self.name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{}\"", escape(text));
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// The number of rows with each combination of labels.
    pub(super) fn count_by_labels<'a, const N: usize>(
        &mut self,
        name: &'static str,
        help: &str,
        rows: impl Iterator<Item = [(&'a str, &'a str); N]>,
    ) {
        let mut sums: VecMap<[(&str, &str); N], u64> = VecMap::new();
        for row in rows {
            let sum = sums.entry(row).or_default();
            *sum = sum.saturating_add(1);
        }
        self.head(name, "gauge", help);
        for (labels, sum) in sums {
            self.sample(&labels, &sum.to_string());
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
