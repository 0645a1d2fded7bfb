//! Durations as people write them: `200ms`, `10s`, `5m`, `1h30m`, `2d`.

use super::toml_reader::plain_toml;
use core::time::Duration;
use serde::{Deserialize, Deserializer, de::Error};

/// A duration written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HumanDuration(pub(crate) Duration);

plain_toml!(HumanDuration);

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HumanDuration, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text)
            .map(HumanDuration)
            .ok_or_else(|| D::Error::custom("not a duration; write it as \"200ms\", \"10s\", \"1h30m\""))
    }
}

const UNITS: [(&str, u64); 6] =
    [("us", 1), ("ms", 1000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)];

/// Reads one or more numbers, each with its unit.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = 0_u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|letter: char| letter.is_ascii_digit()).unwrap_or(after.len()));
        let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*micros)?)?;
        rest = after;
    }
    Some(Duration::from_micros(total))
}

/// Writes a duration with at most two units: `3d4h`, `9m12s`, `4.2s`, `180ms`.
pub(crate) fn format_duration(span: Duration) -> String {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let (seconds, tenths) = (micros / 1_000_000, micros % 1_000_000 / 100_000);
    match seconds {
        0 if micros == 0 => "0s".to_owned(),
        0 if micros < 1000 => format!("{micros}us"),
        0 => format!("{}ms", micros / 1000),
        1..=9 if tenths > 0 => format!("{seconds}.{tenths}s"),
        1..=59 => format!("{seconds}s"),
        60..=3599 => two_units(seconds / 60, "m", seconds % 60, "s"),
        3600..=86_399 => two_units(seconds / 3600, "h", seconds % 3600 / 60, "m"),
        _ => two_units(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    }
}

fn two_units(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_their_units() {
        for (text, millis) in [("200ms", 200), ("10s", 10_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("0s", 0)] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "10 parsecs", "-1s", "1.5s", "99999999999999999d"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_formatted_with_at_most_two_units() {
        let cases = [(0, "0s"), (180, "180ms"), (4200, "4.2s"), (12_000, "12s"), (552_000, "9m12s"), (3_600_000, "1h")];
        for (millis, text) in cases {
            assert_eq!(format_duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(format_duration(Duration::from_secs(3 * 86_400 + 4 * 3600)), "3d4h");
        assert_eq!(format_duration(Duration::from_micros(7)), "7us");
    }
}
