//! Data plans of uplinks, and numbers of octets as people write them: `5GB`, `1.5 GB`, `500MB`, `2GiB`.

use super::spanned::Spanned;
use super::toml_reader::plain_toml;
use crate::config::source::Diagnostics;
use roam6_proto::contract::config::nemo::{BeyondCap, DataPlan, PlanPeriod};
use serde::{Deserialize, Deserializer, de::Error};

/// A number of octets written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HumanOctets(pub(crate) u64);

plain_toml!(HumanOctets);

impl<'de> Deserialize<'de> for HumanOctets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HumanOctets, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(HumanOctets).ok_or_else(|| D::Error::custom("not an amount; write it as \"5GB\", \"500MB\""))
    }
}

/// Decimal units, and binary ones.
const UNITS: [(&str, u64); 8] = [
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a number with its unit.
fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 9)?;
    let parts = fraction.parse::<u64>().ok()?.checked_mul(*unit)?.checked_div(10_u64.checked_pow(digits)?)?;
    whole.parse::<u64>().ok()?.checked_mul(*unit)?.checked_add(parts)
}

/// Writes a number of octets with three digits: `4.81GB`, `52.3MB`, `812kB`, `17B`.
pub(crate) fn format_octets(octets: u64) -> String {
    let unit = UNITS.iter().take(4).rev().find(|(_, unit)| octets >= *unit);
    let Some((name, unit)) = unit else { return format!("{octets}B") };
    let hundredths = u128::from(octets) * 100 / u128::from(*unit);
    match (hundredths / 100, hundredths % 100) {
        (whole @ 0..10, rest) => format!("{whole}.{rest:02}{name}"),
        (whole @ 10..100, rest) => format!("{whole}.{}{name}", rest / 10),
        (whole, _) => format!("{whole}{name}"),
    }
}

/// The keys of an uplink's data plan, as written.
pub(super) struct DataPlanKeys<'a> {
    pub(super) cap: &'a Option<Spanned<HumanOctets>>,
    pub(super) period: Option<PlanPeriod>,
    pub(super) period_start: &'a Option<Spanned<u8>>,
    pub(super) beyond: &'a Option<Spanned<BeyondCap>>,
}

impl DataPlanKeys<'_> {
    /// The plan; without keys the month's traffic is counted.
    pub(super) fn validate(&self, diagnostics: &mut Diagnostics<'_>) -> DataPlan {
        let period = self.period.unwrap_or(PlanPeriod::Month);
        let days = match period {
            PlanPeriod::Month => 1..=31,
            PlanPeriod::Week => 1..=7,
            PlanPeriod::Day => 1..=1,
        };
        let starts = diagnostics.number(self.period_start, "period_start", days).unwrap_or(1);
        if let Some(zero) = self.cap.as_ref().filter(|cap| cap.0 == 0) {
            diagnostics.report(zero.span(), "a cap of 0", "write the amount of the data plan, as \"5GB\"");
        }
        if let Some(beyond) = self.beyond.as_ref().filter(|_| self.cap.is_none()) {
            let hint = "add cap = \"5GB\", or remove the line";
            diagnostics.report(beyond.span(), "beyond means nothing without a cap", hint);
        }
        let beyond = self.beyond.as_ref().map_or(BeyondCap::Backup, |beyond| **beyond);
        DataPlan { cap: self.cap.as_ref().map(|cap| cap.0), period, starts, beyond }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_with_their_units() {
        let cases = [("5GB", 5_000_000_000), ("1.5 GB", 1_500_000_000), ("500MB", 500_000_000), ("2GiB", 2 << 30)];
        for (text, octets) in cases {
            assert_eq!(parse(text), Some(octets), "{text}");
        }
        for text in ["", "5", "GB", "5gb", "-1GB", "1.5.5GB", ".5GB", "5.GB", "99999999999TB", "1.0000000001GB"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn amounts_are_formatted_with_three_digits() {
        let cases = [(0, "0B"), (999, "999B"), (1000, "1.00kB"), (52_349_999, "52.3MB"), (812_999_000, "812MB")];
        for (octets, text) in cases {
            assert_eq!(format_octets(octets), text);
        }
        assert_eq!(format_octets(u64::MAX), "18446744TB");
    }
}
