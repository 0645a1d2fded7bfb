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
pub(super) struct SentPositions(VecDeque<(Timestamp, Coordinates)>);

impl SentPositions {
    pub(super) fn record(&mut self, position: &LongPositionVector) {
        if self.0.len() >= MAX_OWN_POSITIONS {
            self.0.pop_front();
        }
        self.0.push_back((position.timestamp, position.place));
    }

    fn contains(&self, position: &LongPositionVector) -> bool {
        self.0.contains(&(position.timestamp, position.place))
    }
}

impl GeoRouter {
    /// The state of an interface with this link-layer address; keeps the address it had, and never takes one that was
    /// replaced.
    pub(super) fn interface(&self, before: Option<Interface>, device: LinkAddress) -> Interface {
        let is_given_up = self.former_address.is_some_and(|given_up| given_up.address == device);
        let made = Interface { device, address: if is_given_up { self.address.mid } else { device } };
        before.filter(|before| before.device == device).unwrap_or(made)
    }

    /// Checks a packet whose source address or link-layer source is this station's.
    pub(super) fn detect_duplicate_address(
        &mut self,
        now: Time,
        extended: &ExtendedHeader,
        frame: &Frame,
        out: &mut Outbox,
    ) {
        let source = extended.source();
        let is_echo = source.address.mid == self.address.mid && self.sent_positions.contains(source);
        let lately = self.former_address.is_some_and(|given_up| now.since(given_up.at) < INTERVAL);
        if !extended.is_single_hop() || is_echo || !self.mib.automatic_address || lately {
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
