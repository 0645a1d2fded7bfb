//! The members of a fleet, as a table.

use crate::config::duration::format_duration;
use crate::control::NodeState;
use crate::render::table::Table;
use core::time::Duration;
use roam6_proto::contract::view::{FleetView, MemberView};

/// Heartbeats come more often than this, or a member is silent.
const SILENT: Duration = Duration::from_secs(2);

/// What the table does not say: the fleet, and this member.
pub(crate) fn head(state: &NodeState) -> String {
    let Some(fleet) = &state.view.fleet else { return String::new() };
    let fault = fleet.store_fault.as_ref().map(|why| format!("\nstore: {why}")).unwrap_or_default();
    let end = fleet.first_end.map(|end| format!("\nfirst binding ends in {}", format_duration(end)));
    let why = Some(&fleet.why).filter(|why| !why.is_empty()).map(|why| format!(" ({why})")).unwrap_or_default();
    format!(
        "fleet {}, member {}: {} for {}{why}{fault}{}\ncommits: {} kept, {} in conflict, {} unknown, {} refused\n",
        fleet.name,
        fleet.member,
        fleet.state,
        format_duration(fleet.changed),
        end.unwrap_or_default(),
        fleet.kept,
        fleet.conflicts,
        fleet.unknown,
        fleet.unavailable,
    )
}

/// This member first, then the others.
pub(crate) fn table(state: &NodeState) -> Table {
    let mut table = Table::new(&["MEMBER", "STATE", "APPLIED", "LAG", "SKEW", "VERSION", "SEEN", "ADDRESSES"]);
    let Some(fleet) = &state.view.fleet else { return table };
    let head = head_of(fleet);
    let own = [fleet.member.clone(), fleet.state.to_string(), fleet.applied.to_string()];
    let lag = (head - fleet.applied.0).to_string();
    let rest = [lag, String::new(), state.version.clone(), "this one".to_owned(), String::new()];
    table.push(own.into_iter().chain(rest).collect());
    for member in &fleet.members {
        table.push(row(member, head));
    }
    table
}

/// The last revision that any member knows.
fn head_of(fleet: &FleetView) -> u64 {
    fleet.members.iter().map(|member| member.applied.0).chain([fleet.applied.0]).max().unwrap_or_default()
}

fn row(member: &MemberView, head: u64) -> Vec<String> {
    let addresses: Vec<String> = member.addresses.iter().map(ToString::to_string).collect();
    let seen = format_duration(member.seen);
    vec![
        member.name.clone(),
        member.state.to_string(),
        member.applied.to_string(),
        head.saturating_sub(member.applied.0).to_string(),
        format!("{:+} ms", member.skew_micros / 1000),
        member.version.clone(),
        if member.seen > SILENT { format!("{seen}, silent") } else { seen },
        addresses.join(" "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;
    use crate::render::table::Paint;

    #[test]
    fn members_are_shown_with_what_keeps_them_from_serving() {
        let mut state = sample::state();
        let fleet = state.view.fleet.as_mut().unwrap();
        fleet.store_fault = Some("the store is full".to_owned());
        fleet.first_end = Some(Duration::from_secs(90));
        let text = head(&state) + &table(&state).render(Paint::Plain);
        for part in ["fleet north, member ha1: healthy", "the store is full", "ends in 1m30s", "7 kept", "+2 ms"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let row: Vec<&str> = text.lines().find(|line| line.starts_with("ha2")).unwrap().split_whitespace().collect();
        assert_eq!(row[..4], ["ha2", "degraded", "81190", "44"]);
        state.view.fleet = None;
        assert_eq!(head(&state) + &table(&state).render(Paint::Plain), "none\n");
    }
}
