//! Who removes what nobody needs: one living member for each home address, by rendezvous hashing, and by compare-and-set.

use super::super::HomeAgent;
use super::super::deregistration::REPLAY_WINDOW;
use crate::contract::config::nemo::Authentication;
use crate::contract::fleet::MemberState;
use crate::contract::item::BindingRecord;
use crate::{Outbox, Time};
use core::time::Duration;
use roam6_wire::HomeAddress;

/// How long a record stays after its end, so that clocks may differ.
const GRACE: Duration = Duration::from_secs(60);

impl HomeAgent {
    /// Whether this member cares for what one member does for `home`: refresh requests, and the removal of its record.
    pub(in super::super) fn is_tidier(&self, home: HomeAddress) -> bool {
        let Some(fleet) = &self.fleet else { return true };
        let own = fleet.config.member.as_str();
        fleet.membership.tidier(own, &home.0.octets()) == Some(own)
    }

    /// When a record may be removed. One with ESP never is: only its sequence number makes old updates stale (RFC 3776 §5.1).
    pub(super) fn tidy_time(&self, now: Time, record: &BindingRecord) -> Option<Time> {
        let fleet = self.fleet.as_ref()?;
        let row = self.prefix_table_row(record.home_address);
        if row.is_some_and(|row| matches!(row.authentication, Authentication::Ipsec(_))) {
            return None;
        }
        let unix_now = self.clock.unix_micros(now)?;
        let left = Duration::from_micros(record.expires_unix_micros.saturating_sub(unix_now));
        Some(now + left.min(self.config.max_lifetime + REPLAY_WINDOW) + GRACE + 2 * fleet.config.max_skew)
    }

    /// Removes the records that nobody needs any more.
    pub(super) fn tidy_records(&mut self, now: Time, out: &mut Outbox) {
        loop {
            let Some(fleet) = &mut self.fleet else { return };
            let Some((at, home)) = fleet.tidy.first().copied().filter(|(at, _)| *at <= now) else { return };
            fleet.tidy.remove(&(at, home));
            let healthy = fleet.membership.state() == MemberState::Healthy;
            if let Some(known) = fleet.records.get_mut(&home) {
                known.tidy_at = Some(now + GRACE);
                fleet.tidy.insert((now + GRACE, home));
            }
            let busy = fleet.changes.contains_key(&home) || fleet.tombstones.contains(&home);
            let ended = self.bindings.get(&home).is_none_or(|binding| binding.latest().is_none());
            if healthy && !busy && ended && self.is_tidier(home) {
                self.delete_tidied(home, out);
            }
        }
    }
}
