//! Builds Binding Updates (RFC 6275 §6.1.7 and §11.7.1, RFC 3963 §5.2, RFC 5648 §5, RFC 6089 §5.1, RFC 4285 §5.1,
//! RFC 3776 §4, RFC 5555 §4.4.2).

use super::MobileRouter;
use super::registration::{CareOf, DesiredRegistration, Location};
use crate::contract::config::nemo::Authentication;
use crate::contract::item::{JournalRecord, SequenceRecord};
use crate::contract::report::NemoReport;
use crate::crypto::authenticator::{Timestamp, authenticate};
use crate::nemo::LLA_CODE_MOBILE_NODE;
use crate::{Item, Outbox, Time, Transmit, Via};
use core::time::Duration;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{
    BindingIdentifier, BindingUpdate, CareOfField, LIFETIME_UNIT_SECONDS, Message, MobilityOption, Status, UpdateFlags,
};
use roam6_wire::{CareOfAddress, Sequence};
use std::net::Ipv6Addr;

impl MobileRouter {
    /// The update for `wanted`, sent now.
    pub(super) fn send_update(
        &mut self,
        now: Time,
        wanted: &DesiredRegistration,
        out: &mut Outbox,
    ) -> Option<Transmit> {
        let units = match &wanted.location {
            Location::Home { .. } => 0,
            Location::Away { .. } => self.lifetime_units(now, wanted),
        };
        let sequence = self.registration.record_sent(now, lifetime_of(units));
        self.diagnosis.note_sent(now, wanted.home_agent);
        // The home agent applies the updates in the order of their numbers.
        self.path_update = None;
        if let Some(sender) = wanted.first_visited() {
            self.note_update_sent(now, sender);
        }
        let message = self.build_update(now, (wanted, true), sequence, units, out);
        let stamped = matches!(self.config.authentication, Authentication::SharedKey(_));
        self.registration.record_timestamp(self.last_timestamp.filter(|_| stamped));
        message
    }

    /// The update that de-registers `wanted`.
    pub(super) fn deregistration(
        &mut self,
        now: Time,
        wanted: &DesiredRegistration,
        out: &mut Outbox,
    ) -> Option<Transmit> {
        let sequence = self.registration.next_sequence();
        self.build_update(now, (wanted, true), sequence, 0, out)
    }

    /// The source of an update, which authenticators cover (RFC 4285 §5.1).
    pub(super) fn update_source(&self, wanted: &DesiredRegistration) -> CareOfAddress {
        // Over IPv4 and in UDP it is the inner home address; the outer address may be translated by a NAT and cannot be
        // authenticated.
        let native = wanted.first_visited().filter(|care_of| !care_of.is_observed());
        native.map_or(CareOfAddress(self.config.home_address.0), |care_of| care_of.address)
    }

    /// An update for `wanted`: instead of all registered care-of addresses, or beside them.
    pub(super) fn build_update(
        &mut self,
        now: Time,
        (wanted, overwrites): (&DesiredRegistration, bool),
        sequence: Sequence,
        lifetime_units: u16,
        out: &mut Outbox,
    ) -> Option<Transmit> {
        let home_address = self.config.home_address;
        let record = SequenceRecord { home_address, sequence };
        self.desired_state.put_once(Item::JournalRecord(JournalRecord::Sequence(record)), (), out);

        let mut flags = UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER;
        let mut options = Vec::new();
        let (via, care_of) = match &wanted.location {
            Location::Home { link } => {
                let address = self.home_link.as_ref()?.home_agent?;
                (Via::Neighbour { link: *link, address }, &[][..])
            }
            Location::Away { care_of, .. } => (self.update_path(wanted)?, &care_of[..]),
        };
        if let Location::Away { mcoa: multiple, care_of } = &wanted.location {
            // What the update does not name of flows and path MTUs ends, also that of other care-of addresses.
            let others = self.registration.binding().filter(|_| !overwrites).map(|held| held.care_of());
            let others = others.unwrap_or_default().iter().filter(|held| care_of.iter().all(|own| own.bid != held.bid));
            let all: Vec<CareOf> = care_of.iter().chain(others).copied().collect();
            if *multiple && lifetime_units > 0 {
                // All care-of addresses each time: unlisted ones are removed (RFC 5648 §4.2).
                flags = if overwrites { flags | UpdateFlags::OVERWRITE } else { flags };
                options.extend(self.bid_options(wanted));
                options.extend(self.own_home_link_address(wanted).map(|address| MobilityOption::LinkLayerAddress {
                    code: LLA_CODE_MOBILE_NODE,
                    address: address.0.to_vec(),
                }));
                options.extend(self.flows_of(&all).map(|(rule, bids)| self.flow_option(rule, bids)));
            } else if lifetime_units > 0 || matches!(self.config.authentication, Authentication::Ipsec(_)) {
                // ESP does not cover the source address (RFC 3776 §4.2).
                let native = wanted.first_visited().filter(|care_of| !care_of.is_observed());
                options.extend(native.map(|care_of| MobilityOption::AlternateCareOf(care_of.address.0)));
            }
            // With a Binding Identifier option, that alone has the address (RFC 5648 §8.1).
            let carried = wanted.first_visited().and_then(CareOf::ipv4).filter(|_| !(*multiple && lifetime_units > 0));
            options.extend(carried.map(|end| MobilityOption::Ipv4CareOf(end.address)));
            if self.prefix_mode.is_explicit() && lifetime_units > 0 {
                let prefixes = self.config.prefixes.iter().filter(|prefix| !prefix.is_ipv4());
                options.extend(prefixes.map(|prefix| MobilityOption::MobileNetworkPrefix(*prefix)));
            }
            if lifetime_units > 0 {
                flags = if MobileRouter::forces_udp4(wanted) { flags | UpdateFlags::FORCE_UDP } else { flags };
                options.extend(self.capability_option(wanted));
                options.extend(self.wireguard_options(wanted));
                options.extend(self.esp_options(now, wanted));
                options.extend(all.iter().filter_map(|care_of| self.path_mtu_option(care_of)));
                options.extend(self.ipv4_home_options(wanted.home_agent));
            }
        }
        options.extend(self.key_request(sequence));
        let message = BindingUpdate { sequence, flags, lifetime_units, options };
        let source = self.update_source(wanted);
        let header = Header::new(source.0, wanted.home_agent);
        let header = if source.0 == home_address.0 { header } else { header.with_home_address(home_address.0) };
        let payload = self.authenticate_update(now, message, source, wanted.home_agent);
        out.report(NemoReport::UpdateSent {
            home_agent: wanted.home_agent,
            care_of: care_of.iter().map(|care_of| care_of.address.0).collect(),
            sequence,
            lifetime: lifetime_of(lifetime_units),
        });
        let bytes = self.protect(&header, protocol::MOBILITY, &payload);
        match wanted.first_visited() {
            Some(care_of) => self.transmit_via(care_of, wanted.home_agent, bytes),
            None => Some(Transmit { via, bytes }),
        }
    }

    /// A packet to the home agent, in ESP if IPsec is configured.
    pub(super) fn protect(&mut self, header: &Header, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let Authentication::Ipsec(pair) = &self.config.authentication else {
            return ip6::emit(header, protocol, payload);
        };
        self.esp_sequence = self.esp_sequence.wrapping_add(1);
        ip6::emit(header, protocol::ESP, &pair.to_home_agent.seal(self.esp_sequence, protocol, payload))
    }

    /// The interface of an update with care-of addresses: that of a visited one, or the home link if there is none.
    fn update_path(&self, wanted: &DesiredRegistration) -> Option<Via> {
        if let Some(care_of) = wanted.first_visited() {
            return Some(Via::Link(care_of.link));
        }
        let link = wanted.care_of().first()?.link;
        Some(Via::Neighbour { link, address: self.home_agent_link_address(link)? })
    }

    /// The Mobility Header, authenticated, with a timestamp.
    fn authenticate_update(
        &mut self,
        now: Time,
        mut update: BindingUpdate,
        care_of: CareOfAddress,
        home_agent: Ipv6Addr,
    ) -> Vec<u8> {
        let home = self.config.home_address;
        let Some(key) = self.signing_key().cloned() else {
            return Message::BindingUpdate(update).emit(home.0, home_agent);
        };
        // Later than any before, also if the clock was set back; without a clock the home agent corrects it.
        let current = self.clock.timestamp(now).unwrap_or(Timestamp(now.as_micros()));
        let stamp = match self.last_timestamp {
            Some(last) if !current.is_after(last) => Timestamp(last.0.wrapping_add(1)),
            _ => current,
        };
        self.last_timestamp = Some(stamp);
        update.options.push(MobilityOption::ReplayProtection(stamp.0));
        Message::BindingUpdate(update)
            .emit_authenticated(home.0, home_agent, key.spi, |part| authenticate(&key.secret, care_of, home, part))
    }

    /// The lifetime to request: not beyond those of the care-of addresses, nor of the home address's prefix (RFC 6275
    /// §11.7.1, §11.4.2).
    pub(super) fn lifetime_units(&self, now: Time, wanted: &DesiredRegistration) -> u16 {
        let native = wanted.care_of().iter().filter(|care_of| care_of.ipv4().is_none());
        let addresses = native.filter_map(|care_of| self.uplink_of(care_of)?.care_of_address.as_ref());
        let home = self.home_prefixes.prefix_of(self.config.home_address.0).and_then(|known| known.valid_until);
        let ends = addresses.map(|formed| formed.valid_until).chain(home);
        let shortest = ends.map(|until| until.since(now)).fold(self.config.lifetime, Duration::min);
        let units = shortest.as_secs() / u64::from(LIFETIME_UNIT_SECONDS);
        u16::try_from(units).unwrap_or(u16::MAX).max(1)
    }

    /// The Binding Identifier options of an update for `wanted`.
    fn bid_options(&self, wanted: &DesiredRegistration) -> impl Iterator<Item = MobilityOption> {
        wanted.care_of().iter().filter_map(|care_of| {
            Some(MobilityOption::BindingIdentifier(BindingIdentifier {
                bid: care_of.bid,
                status: Status::ACCEPTED,
                simultaneous_home: care_of.on_home_link,
                priority: care_of.priority,
                care_of: self.care_of_field(care_of, wanted)?,
            }))
        })
    }

    /// The care-of address field of a Binding Identifier option. One over IPv4 or in UDP that the update is not sent from
    /// stays as it is registered (RFC 5648 §4.1); if it is not, it gets an update of its own.
    fn care_of_field(&self, care_of: &CareOf, wanted: &DesiredRegistration) -> Option<CareOfField> {
        let own = care_of.ipv4().map_or(CareOfField::V6(care_of.address.0), |end| CareOfField::V4(end.address));
        if !care_of.is_observed() || wanted.first_visited() == Some(care_of) {
            return Some(own);
        }
        let held = self.registration.binding().filter(|held| held.registration.home_agent == wanted.home_agent);
        let known = held.is_some_and(|held| {
            held.care_of().iter().any(|held| held.bid == care_of.bid && held.is_same_address(care_of))
        });
        (known && !self.ha_registers_source_only).then_some(CareOfField::None)
    }

    /// Whether the update asks for UDP over IPv4 without a NAT too (RFC 5555 §3.1.3).
    fn forces_udp4(wanted: &DesiredRegistration) -> bool {
        wanted.first_visited().is_some_and(|sender| sender.udp && sender.ipv4().is_some())
    }

    /// The path MTU of a care-of address, if it was found by probes: the home agent uses the same path and receives no
    /// Packet Too Big either.
    fn path_mtu_option(&self, care_of: &CareOf) -> Option<MobilityOption> {
        let mtu = self.uplink_of(care_of).filter(|_| !care_of.on_home_link)?.mtu_search.mtu()?;
        Some(MobilityOption::PathMtu { bid: care_of.bid, mtu: u16::try_from(mtu).ok()? })
    }
}

/// The duration of lifetime units.
pub(super) fn lifetime_of(units: u16) -> Duration {
    Duration::from_secs(u64::from(units) * u64::from(LIFETIME_UNIT_SECONDS))
}
