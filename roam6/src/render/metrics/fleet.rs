//! Metrics of a member of a fleet.

use super::page::Page;
use roam6_proto::View;
use roam6_proto::contract::fleet::MemberState;

const STATES: [MemberState; 5] =
    [MemberState::Joining, MemberState::Healthy, MemberState::Degraded, MemberState::Draining, MemberState::Gone];

/// Appends them; none if the home agent is in no fleet.
pub(super) fn append(page: &mut Page, view: &View) {
    let Some(fleet) = &view.fleet else { return };
    page.head("roam6_fleet_state", "gauge", "1 for the state of this member.");
    for state in STATES {
        page.sample(&[("state", state.into())], if state == fleet.state { "1" } else { "0" });
    }
    page.head("roam6_fleet_members", "gauge", "Other members by their states.");
    for state in STATES {
        let count = fleet.members.iter().filter(|member| member.state == state).count();
        page.sample(&[("state", state.into())], &count.to_string());
    }
    page.head("roam6_fleet_applied_revision", "gauge", "The changes of the store that are known here.");
    page.sample(&[], &fleet.applied.to_string());
    page.head("roam6_fleet_behind_revisions", "gauge", "Changes of the store known here and not at another member.");
    for member in &fleet.members {
        let behind = fleet.applied.0.saturating_sub(member.applied.0);
        page.sample(&[("member", &member.name)], &behind.to_string());
    }
    page.head("roam6_fleet_skew_seconds", "gauge", "By how much the clock here is ahead of that of another member.");
    for member in &fleet.members {
        let sign = if member.skew_micros < 0 { "-" } else { "" };
        let micros = member.skew_micros.unsigned_abs();
        page.sample(&[("member", &member.name)], &format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000));
    }
    page.head("roam6_fleet_commits_total", "counter", "Writes to the store by their results.");
    let results = [
        ("kept", fleet.kept),
        ("conflict", fleet.conflicts),
        ("unknown", fleet.unknown),
        ("unavailable", fleet.unavailable),
    ];
    for (result, count) in results {
        page.sample(&[("result", result)], &count.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::sample;

    #[test]
    fn members_are_sampled() {
        let mut page = Page::default();
        let mut view = sample::state().view;
        view.fleet.as_mut().unwrap().members[0].skew_micros = -2_500;
        append(&mut page, &view);
        for line in [
            "roam6_fleet_state{state=\"healthy\"} 1",
            "roam6_fleet_state{state=\"degraded\"} 0",
            "roam6_fleet_members{state=\"degraded\"} 1",
            "roam6_fleet_behind_revisions{member=\"ha2\"} 44",
            "roam6_fleet_skew_seconds{member=\"ha2\"} -0.002500",
            "roam6_fleet_commits_total{result=\"conflict\"} 1",
        ] {
            assert!(page.text.lines().any(|found| found == line), "{line} not in {}", page.text);
        }
        let mut page = Page::default();
        append(&mut page, &View::default());
        assert_eq!(page.text, "");
    }
}
