//! Duplicate address detection: EN 302 636-4-1 §10.2.1.5. A single-hop packet whose source address or link-layer source
//! is that of this station comes from another station with the same address, unless the medium has returned one of our
//! own packets. This station then takes a new address, and its frames carry it.

use super::{GeoRouter, random_mid};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::input::Frame;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Coordinates, ExtendedHeader, LongPositionVector, Timestamp};
use std::collections::VecDeque;

/// Minimum interval between address changes: a faster peer is an attacker.
const INTERVAL: Duration = Duration::from_secs(60);
/// Own position vectors remembered: more than the last second at ten messages a second.
const MAX_OWN_POSITIONS: usize = 16;

/// The previous address, and when it was replaced.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormerAddress {
    pub(super) address: LinkAddress,
    at: Time,
}

/// An interface that sends and receives frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interface {
    /// The hardware's link-layer address.
    device: LinkAddress,
    /// The link-layer address that frames carry.
    pub(super) address: LinkAddress,
}

/// The latest position vectors sent in single-hop packets.
#[derive(Debug, Clone, Default)]
pub(super) struct SentPositions {
    positions: VecDeque<(Timestamp, Coordinates)>,
    /// The time up to which position vectors are not remembered.
    forgotten: Option<Timestamp>,
}

impl SentPositions {
    pub(super) fn record(&mut self, position: &LongPositionVector) {
        if self.positions.len() >= MAX_OWN_POSITIONS {
            self.forgotten = self.positions.pop_front().map(|(sent, _)| sent);
        }
        self.positions.push_back((position.timestamp, position.place));
    }

    /// The clock starts at `clock`, or is set to it: nothing that was sent before is remembered.
    pub(super) fn begin(&mut self, clock: Timestamp) {
        self.forgotten = Some(clock);
    }

    /// Whether another station must have sent this position vector.
    fn excludes(&self, position: &LongPositionVector) -> bool {
        let time = position.timestamp;
        let was_forgotten = self.forgotten.is_some_and(|until| !time.is_newer_than(until));
        !was_forgotten && !self.positions.contains(&(time, position.place))
    }
}

impl GeoRouter {
    /// The state of an interface with this link-layer address; keeps the address it had, and never takes one that was
    /// replaced.
    pub(super) fn interface(&self, before: Option<Interface>, device: LinkAddress) -> Interface {
        let is_given_up = self.former_address.is_some_and(|given_up| given_up.address == device);
        let is_random = is_given_up || self.has_random_address();
        let made = Interface { device, address: if is_random { self.address.mid } else { device } };
        before.filter(|before| before.device == device).unwrap_or(made)
    }

    /// Checks a packet whose source address or link-layer source is this station's. One that may be a recorded packet
    /// of this station proves nothing: a replay does not make the station change its address.
    pub(super) fn detect_duplicate_address(
        &mut self,
        now: Time,
        extended: &ExtendedHeader,
        frame: &Frame,
        out: &mut Outbox,
    ) {
        let source = extended.source();
        let is_of_another = self.sent_positions.excludes(source);
        let lately = self.former_address.is_some_and(|given_up| now.since(given_up.at) < INTERVAL);
        if !extended.is_single_hop() || !is_of_another || !self.mib.automatic_address || lately {
            return;
        }
        let former = self.address;
        self.address.mid = random_mid(&mut self.entropy);
        self.former_address = Some(FormerAddress { address: former.mid, at: now });
        let new = self.address.mid;
        if let Some(interface) = self.links.get_mut(&frame.link).filter(|interface| interface.address == frame.source) {
            interface.address = new;
        }
        for interface in self.links.values_mut().filter(|interface| interface.address == former.mid) {
            interface.address = new;
        }
        let text = format!(
            "duplicate GeoNetworking address {former} (frame from {}): this station changes its address to {}",
            frame.source, self.address
        );
        out.notice(text);
        self.schedule_first_beacon(now);
    }
}
