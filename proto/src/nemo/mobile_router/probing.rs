//! Probing of the paths: which uplinks are probed when, and what follows from the state of their paths (RFC 5648 leaves
//! the detection of a failed care-of address to the mobile node).

use super::MobileRouter;
use super::probe::{PathChange, Probe};
use crate::contract::report::{LossReason, NemoReport};
use crate::{Outbox, Time};
use roam6_wire::Bid;

impl MobileRouter {
    /// Whether paths are probed: at home only if home and away is possible.
    pub(super) fn is_probing(&self) -> bool {
        (self.home_link.is_none() || self.may_be_home_and_away()) && self.home_agents.in_use().is_some()
    }

    /// The probes that are due, and the consequences of those that were not answered.
    pub(super) fn expire_probes(&mut self, now: Time, out: &mut Outbox) -> Vec<Probe> {
        let mut due = Vec::new();
        let Some(config) = self.config.probe.filter(|_| self.is_probing()) else {
            return due;
        };
        for index in 0..self.uplinks.len() {
            let known = self.uplinks.get(index).filter(|uplink| self.is_probed(uplink));
            let care_of = known.and_then(|uplink| self.care_of_on(uplink));
            let Some(uplink) = self.uplinks.get_mut(index).filter(|_| care_of.is_some()) else {
                continue;
            };
            let missed = uplink.prober.has_missed_one();
            let bid = uplink.config.bid;
            let Some((sequence, change)) = uplink.prober.next_probe(now, config) else {
                continue;
            };
            due.push(Probe { bid, sequence });
            if missed {
                self.receive_missed_probe(now, care_of);
            }
            if let Some(change) = change {
                self.report_path(bid, change, out);
                self.receive_path_change(now, (bid, change == PathChange::Down));
            }
        }
        due
    }

    /// Sends the probes that are due, after their source addresses are put.
    pub(super) fn send_probes(&self, due: &[Probe], out: &mut Outbox) {
        for probe in due {
            let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == probe.bid);
            if let Some(message) = uplink.and_then(|uplink| self.probe_packet(uplink, probe.sequence)) {
                out.transmit(message);
            }
        }
    }

    /// Reports that the path of the uplink with this BID went down or came up.
    pub(super) fn report_path(&self, bid: Bid, change: PathChange, out: &mut Outbox) {
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == bid);
        let at_home = uplink.and_then(|uplink| self.care_of_on(uplink)).map(|care_of| care_of.address.0);
        let formed = uplink.and_then(|uplink| uplink.care_of_address.as_ref()).map(|formed| formed.address.0);
        let Some(care_of) = at_home.or(formed) else {
            return;
        };
        out.report(match change {
            PathChange::Down => NemoReport::PathDown { bid, care_of, why: LossReason::ProbesLost },
            PathChange::Up => NemoReport::PathUp { bid, care_of },
        });
    }
}
