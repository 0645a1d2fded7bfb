//! Values that the papers state, and those of other programs (lab/papers/*.csv).

/// The tables: figure, quantity, x, value, low, high, source.
const TABLES: [(&str, &str); 5] = [
    ("p1", include_str!("../../papers/p1.csv")),
    ("p2", include_str!("../../papers/p2.csv")),
    ("p3", include_str!("../../papers/p3.csv")),
    ("p4", include_str!("../../papers/p4.csv")),
    ("peers", include_str!("../../papers/peers.csv")),
];

/// What a paper states of a quantity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PaperPoint {
    /// `None`: for the whole axis.
    pub(super) x: Option<f64>,
    /// `None`: a range or an order only.
    pub(super) value: Option<f64>,
    /// The higher end is infinite if only an order is stated.
    pub(super) range: Option<(f64, f64)>,
}

impl PaperPoint {
    /// The range, unless it has no end.
    pub(super) fn bounded_range(self) -> Option<(f64, f64)> {
        self.range.filter(|(_, high)| high.is_finite())
    }
}

/// What a table states of a quantity; empty if nothing.
pub(super) fn paper_points(table: &str, quantity: &str) -> Vec<PaperPoint> {
    let lines = TABLES.iter().filter(|(name, _)| *name == table).flat_map(|(_, text)| text.lines());
    let point = |line: &str| {
        let columns: Vec<&str> = line.splitn(7, ',').collect();
        let [_, name, x, value, low, high, _] = *columns.as_slice() else { return None };
        let number = |text: &str| text.parse::<f64>().ok();
        let point = PaperPoint { x: number(x), value: number(value), range: number(low).zip(number(high)) };
        (name == quantity && !line.starts_with('#')).then_some(point)
    };
    lines.filter_map(point).collect()
}

/// What a table states of a quantity, in words; of `quantity@x` at that x, and without it for the whole axis. `None`: nothing.
pub(super) fn in_words(table: &str, key: &str) -> Option<String> {
    let (quantity, x) = key.split_once('@').map_or((key, None), |(quantity, x)| (quantity, x.parse::<f64>().ok()));
    let point = paper_points(table, quantity).into_iter().find(|point| point.x == x)?;
    Some(match (point.value, point.range) {
        (Some(value), Some((low, high))) => format!("{value} ({low} to {high})"),
        (Some(value), None) => value.to_string(),
        (None, Some((low, high))) if high.is_finite() => format!("{low} to {high}"),
        (None, Some((low, _))) => format!("more than {low}"),
        (None, None) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_values_are_parsed() {
        let gain = PaperPoint { x: None, value: Some(1.15), range: Some((1.10, 1.20)) };
        assert_eq!(paper_points("p2", "gain_ns1"), [gain]);
        assert_eq!(paper_points("p2", "rtt_ns1c_over_ns1p")[0].bounded_range(), None, "an order only");
        assert_eq!(paper_points("p3", "rtt_1hop")[1], PaperPoint { x: Some(370.0), value: Some(25.0), range: None });
        assert_eq!(paper_points("p2", "nothing"), []);
        assert_eq!(in_words("p3", "rtt_1hop").as_deref(), Some("2 to 10"));
        assert_eq!(in_words("p3", "rtt_1hop@370").as_deref(), Some("25"));
        assert_eq!(in_words("p2", "tunnel_overhead_percent").as_deref(), Some("more than 2.74"));
        assert_eq!(in_words("nemo/nested", "mtu"), None);
    }

    #[test]
    fn every_line_has_a_value_or_a_range_and_its_source() {
        for (table, text) in TABLES {
            let mut lines = text.lines().filter(|line| !line.starts_with('#'));
            assert_eq!(lines.next(), Some("figure,quantity,x,value,low,high,source"), "{table}");
            for line in lines {
                let columns: Vec<&str> = line.splitn(7, ',').collect();
                assert!(columns.len() == 7 && !columns[6].is_empty(), "{line}");
                let is_number = |index: usize| columns[index].parse::<f64>().is_ok();
                assert!(is_number(3) || is_number(4) && is_number(5), "{line}");
            }
        }
    }
}
