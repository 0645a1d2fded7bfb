//! A line of `roam6 watch` as text: timestamp, event, and its fields as `key=value`.

use crate::config::duration::format_duration;
use core::time::Duration;
use roam6_wire::Ipv4Endpoint;
use roam6_wire::mobility::{ErrorStatus, Status};
use serde_json::{Map, Value};
use std::fmt::Write;
use std::time::UNIX_EPOCH;

/// The JSON line as text; a line that is not an object is shown unchanged.
pub(crate) fn render(line: &str) -> String {
    let Ok(Value::Object(mut values)) = serde_json::from_slice(line.as_bytes()) else { return line.to_owned() };
    let micros = values.remove("unix_micros").as_ref().and_then(Value::as_u64);
    values.remove("at");
    let event = values.remove("event");
    if let Some(name) = values.remove("link_name") {
        values.insert("link".to_owned(), name);
    }
    if let Some(status) = values.get("status").and_then(Value::as_u64).and_then(|status| u8::try_from(status).ok()) {
        let text = match event.as_ref().and_then(Value::as_str) {
            Some("binding_error") => format!("{status} ({})", ErrorStatus(status)),
            _ => Status(status).to_string(),
        };
        values.insert("status".to_owned(), Value::String(text));
    }
    let mut text = micros.map(timestamp).unwrap_or_default();
    if let Some(event) = event.as_ref().and_then(Value::as_str) {
        let _ = write!(text, " {event}");
    }
    for (key, value) in values.iter().filter(|(_, value)| !value.is_null()) {
        let _ = write!(text, " {key}={}", format_value(value));
    }
    text.trim_start().to_owned()
}

/// A timestamp as `2026-11-20T23:49:32.123456Z`.
pub(crate) fn timestamp(unix_micros: u64) -> String {
    // The calendar of RFC 3339 ends with the year 9999.
    let time = UNIX_EPOCH + Duration::from_micros(unix_micros.min(LAST_MICROSECOND));
    humantime::format_rfc3339_micros(time).to_string()
}

/// The last microsecond of the year 9999.
const LAST_MICROSECOND: u64 = 253_402_300_799_999_999;

fn format_value(value: &Value) -> String {
    match value {
        Value::String(text) if ipv4_end(text).is_some() => ipv4_end(text).unwrap_or_default(),
        Value::String(text) if text.contains([' ', '"', '=']) || text.is_empty() => format!("{text:?}"),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(format_value).collect::<Vec<_>>().join(","),
        Value::Object(fields) => duration(fields).map_or_else(|| value.to_string(), format_duration),
        other => other.to_string(),
    }
}

/// An IPv4 tunnel address in dotted form; in JSON it is embedded in an IPv6 address.
fn ipv4_end(text: &str) -> Option<String> {
    Some(Ipv4Endpoint::from_ipv6(text.parse().ok()?)?.to_string())
}

/// A duration; in JSON it has seconds and nanoseconds.
fn duration(fields: &Map<String, Value>) -> Option<Duration> {
    let nanos = u32::try_from(fields.get("nanos")?.as_u64()?).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    Some(Duration::new(fields.get("secs")?.as_u64()?, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::WatchLine;
    use crate::render::sample;
    use roam6_proto::Report;
    use roam6_proto::contract::report::NemoReport;

    #[test]
    fn timestamps_are_calendar_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (951_868_800, "2000-03-01T00:00:00.000000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000000Z"),
        ] {
            assert_eq!(timestamp(seconds * 1_000_000), text);
        }
    }

    #[test]
    fn an_event_is_one_line_of_key_value_pairs() {
        let report = Report::Nemo(NemoReport::Registered {
            home_address: roam6_wire::HomeAddress("2001:db8::1".parse().unwrap()),
            care_of: vec!["2001:db8:2::1".parse().unwrap(), "2001:db8:3::1".parse().unwrap()],
            sequence: roam6_wire::Sequence(3),
            lifetime: Duration::from_secs(600),
            moved: true,
        });
        let line = WatchLine { unix_micros: 1_500_000, at: 7, link_name: None, mobile_router: None, report: &report };
        let line = line.to_json();
        assert_eq!(
            render(&line),
            "1970-01-01T00:00:01.500000Z registered care_of=2001:db8:2::1,2001:db8:3::1 home_address=2001:db8::1 \
             lifetime=10m moved=true sequence=3"
        );
        assert_eq!(render("not json"), "not json");
    }

    #[test]
    fn interface_names_status_texts_and_ipv4_addresses_are_shown() {
        let report = Report::Nemo(NemoReport::CareOfRemoved {
            link: roam6_proto::LinkId(20),
            bid: roam6_wire::Bid(1),
            address: "::105f:ffff:c0a8:10a".parse().unwrap(),
        });
        let line = WatchLine { unix_micros: 0, at: 7, link_name: Some("wlan0"), mobile_router: None, report: &report };
        let text = render(&line.to_json());
        assert!(text.ends_with(" care_of_gone address=192.168.1.10:4191 bid=1 link=wlan0"), "{text}");
        let line = r#"{"unix_micros":0,"event":"refused","status":142}"#;
        assert!(render(line).ends_with(" refused status=\"142 (not authorised for prefix)\""), "{}", render(line));
    }

    #[test]
    fn state_rows_have_the_form_of_events() {
        let state = sample::state();
        let lines = String::from_utf8(state.watch_lines(&[])).unwrap();
        let lines: Vec<String> = lines.lines().map(render).collect();
        let optional = [cfg!(feature = "fleet"), cfg!(feature = "dcc")];
        assert_eq!(lines.len(), 11 + optional.iter().filter(|has| **has).count());
        assert!(lines[0].contains(" state_binding bid=1 care_of=2001:db8:2::1 "), "{}", lines[0]);
        assert!(
            lines[3].contains(" state_tunnel bid=1 changed=1h2m far=2001:db8:1::100/128,2001:db8:100::/56 "),
            "{}",
            lines[3]
        );
    }
}
