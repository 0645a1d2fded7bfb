//! A mobile router of these worlds: it moves, de-registers, refreshes, and retransmits as RFC 6275 §11.8 has it. One that
//! does not run the engine makes a world cheap, and can send the same update to two members.

use crate::nemo::binding_messages::Acknowledgement;
use core::time::Duration;
use roam6_proto::contract::config::nemo::PrefixTableRow;
use roam6_proto::crypto::authenticator::{Timestamp, authenticate};
use roam6_proto::{LinkId, Packet, Time};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{BindingUpdate, Message, MobilityOption, UpdateFlags};
use roam6_wire::{CareOfAddress, HomeAddress, Sequence};
use std::net::{Ipv4Addr, Ipv6Addr};

/// First retransmission (RFC 6275 §12, INITIAL_BINDACK_TIMEOUT), and the longest interval here.
const FIRST_RETRANSMISSION: Duration = Duration::from_secs(1);
const LAST_RETRANSMISSION: Duration = Duration::from_secs(4);
/// Statuses (RFC 6275 §6.1.8, RFC 4285 §6).
const NOT_HOME_AGENT: u8 = 133;
const SEQUENCE_OUT_OF_WINDOW: u8 = 135;
const REJECTED: u8 = 128;

/// A mobile router.
#[derive(Debug)]
pub struct Mobile {
    row: PrefixTableRow,
    agent: Ipv6Addr,
    /// Lifetime that it asks for, units of four seconds.
    lifetime_units: u16,
    /// It asks for an IPv4 address of the pool.
    wants_ipv4: bool,
    /// Where it is; `None`: it wants no binding.
    place: Option<Ipv6Addr>,
    /// The source of its updates: also of the last one, which de-registers.
    source: Ipv6Addr,
    sequence: u16,
    /// What the home agent has acknowledged last: sequence number, care-of address, and when.
    acknowledged: Option<(Sequence, Option<Ipv6Addr>, Time)>,
    /// The next update, and the interval after it.
    next: Option<(Time, Duration)>,
    is_done: bool,
}

impl Mobile {
    /// The mobile router of `row`.
    pub fn new(row: PrefixTableRow, agent: Ipv6Addr, lifetime_units: u16, wants_ipv4: bool) -> Mobile {
        let source = row.home_address.0;
        Mobile {
            row,
            agent,
            lifetime_units,
            wants_ipv4,
            place: None,
            source,
            sequence: 0,
            acknowledged: None,
            next: None,
            is_done: true,
        }
    }

    /// Its home address.
    pub fn home(&self) -> HomeAddress {
        self.row.home_address
    }

    /// Where it wants its packets.
    pub fn place(&self) -> Option<Ipv6Addr> {
        self.place
    }

    /// Whether its last wish is acknowledged.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// What was acknowledged last.
    pub fn acknowledged(&self) -> Option<(Sequence, Option<Ipv6Addr>, Time)> {
        self.acknowledged
    }

    /// When it sends an update.
    pub fn deadline(&self) -> Option<Time> {
        self.next.map(|(at, _)| at)
    }

    /// It moves, or de-registers.
    pub fn go(&mut self, now: Time, place: Option<Ipv6Addr>) {
        if place.is_none() && self.acknowledged.is_none() {
            return;
        }
        self.place = place;
        self.source = place.unwrap_or(self.source);
        self.is_done = false;
        self.next = Some((now, FIRST_RETRANSMISSION));
    }

    /// The update that is due.
    pub fn update(&mut self, now: Time, unix_micros: u64) -> Option<Packet> {
        let (_, interval) = self.next.filter(|(at, _)| *at <= now)?;
        self.next = Some((now + interval, (interval * 2).min(LAST_RETRANSMISSION)));
        self.sequence = self.sequence.wrapping_add(1);
        let mut options = vec![MobilityOption::AlternateCareOf(self.source)];
        if self.wants_ipv4 && self.place.is_some() {
            let address = Ipv4Addr::UNSPECIFIED;
            options.push(MobilityOption::Ipv4HomeAddress { prefix_length: 32, prefix_wanted: false, address });
        }
        options.push(MobilityOption::ReplayProtection(Timestamp::from_unix_micros(unix_micros).0));
        let message = Message::BindingUpdate(BindingUpdate {
            sequence: Sequence(self.sequence),
            flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
            lifetime_units: if self.place.is_some() { self.lifetime_units } else { 0 },
            options,
        });
        let home = self.row.home_address;
        let header = Header::new(self.source, self.agent).with_home_address(home.0);
        let (source, destination) = (header.real_source(), header.real_destination());
        let key = self.row.shared_key()?;
        let bytes = message.emit_authenticated(source, destination, key.spi, |part| {
            authenticate(&key.secret, CareOfAddress(self.source), home, part)
        });
        Some(Packet { link: LinkId(1), sender: None, bytes: ip6::emit(&header, protocol::MOBILITY, &bytes) })
    }

    /// An acknowledgement of the home agent. Returns whether it accepts the last update.
    pub fn receive(&mut self, now: Time, acknowledgement: &Acknowledgement) -> bool {
        let Acknowledgement { status, sequence, lifetime, .. } = *acknowledgement;
        if status == SEQUENCE_OUT_OF_WINDOW && !self.is_done && sequence.is_newer_than(Sequence(self.sequence)) {
            self.sequence = sequence.0;
            self.next = Some((now, FIRST_RETRANSMISSION));
        }
        if sequence != Sequence(self.sequence) {
            return false;
        }
        let ended = self.place.is_none() && status == NOT_HOME_AGENT;
        if status >= REJECTED && !ended {
            return false;
        }
        self.is_done = true;
        let refresh = lifetime.mul_f64(0.75);
        self.next = self.place.map(|_| (now + refresh, FIRST_RETRANSMISSION));
        if !ended {
            self.acknowledged = Some((sequence, self.place, now));
        }
        !ended
    }
}
