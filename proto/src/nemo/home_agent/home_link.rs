//! The home link: duplicate address detection for home addresses, their defence, and Router Advertisements. RFC 6275
//! §7, §10.3.1 and §10.4.1, RFC 3963 §6.2 and §7.3, RFC 4861 §6.2 and §7.2, RFC 4862 §5.4.

use super::cache::{Binding, RegistrationState};
use super::types::HomeAgentTimer;
use super::{HomeAgent, discovery, forwarding};
use crate::contract::item::AnycastAddress;
use crate::contract::report::LinkReport;
use crate::link::nd_messages;
use crate::{AddressEvent, Item, Key, LinkEvent, LinkId, Outbox, Packet, Time, VecSet, Via};
use core::time::Duration;
use roam6_wire::icmp6::{
    self, ALL_NODES, Message, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation, RouterAdvertisement,
};
use roam6_wire::ip6::Datagram;
use roam6_wire::mobility::Status;
use roam6_wire::{HomeAddress, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Duration of duplicate address detection (RFC 4861 §10, RetransTimer).
pub(super) const RETRANS_TIMER: Duration = Duration::from_secs(1);

/// Unsolicited Neighbour Advertisements for a new binding (RFC 4861 §10, MAX_NEIGHBOR_ADVERTISEMENT), a second apart.
pub(super) const MAX_NEIGHBOR_ADVERTISEMENT: u8 = 3;

/// Minimum interval of multicast Router Advertisements (RFC 6275 §7.5).
const MIN_DELAY_BETWEEN_RAS: Duration = Duration::from_millis(30);

/// Maximum delay of a multicast answer to a solicitation (RFC 4861 §10, MAX_RA_DELAY_TIME).
const MAX_RA_DELAY_TIME: Duration = Duration::from_millis(500);

/// Advertised lifetime of home prefixes, valid and preferred (RFC 4861 §6.2.1), seconds.
pub(super) const PREFIX_LIFETIMES: (u32, u32) = (2_592_000, 604_800);

/// The state of the home link.
#[derive(Debug, Default)]
pub(super) struct HomeLink {
    id: Option<LinkId>,
    up: bool,
    /// Octets.
    pub(super) mtu: u32,
    link_address: Option<LinkAddress>,
    link_local: Option<Ipv6Addr>,
    last_advertisement: Option<Time>,
    /// Addresses of this host: none can be a tunnel's remote end.
    own_addresses: VecSet<Ipv6Addr>,
    /// The link on which the anycast addresses are configured.
    anycast_link: Option<LinkId>,
}

impl HomeLink {
    /// Its interface, once it exists.
    pub(super) fn link(&self) -> Option<LinkId> {
        self.id
    }

    /// Whether it is up.
    pub(super) fn is_up(&self) -> bool {
        self.id.is_some() && self.up
    }

    /// Whether `address` is one of this host's.
    pub(super) fn is_own_address(&self, address: Ipv6Addr) -> bool {
        self.own_addresses.contains(&address) || self.source() == Some(address)
    }

    /// Its interface and MTU, while it is up: the next hop of routers at home, and of those at home and away.
    pub(super) fn direct(&self) -> Option<(LinkId, u32)> {
        self.link().filter(|_| self.up).map(|link| (link, self.mtu))
    }

    /// The source address of advertisements.
    fn source(&self) -> Option<Ipv6Addr> {
        self.link_local.or_else(|| Some(self.link_address?.link_local()))
    }
}

impl HomeAgent {
    /// Processes a link event, and updates the items that depend on the home link.
    pub(super) fn link_changed(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        if self.config.home_link.as_ref() != Some(&event.name) {
            return;
        }
        let appeared = event.up && !self.home_link.up;
        let other = self.home_link.id != Some(event.link);
        let changed = other || (self.home_link.up, self.home_link.mtu) != (event.up, event.mtu);
        let before = self.home_link.id.replace(event.link);
        (self.home_link.up, self.home_link.mtu, self.home_link.link_address) = (event.up, event.mtu, event.address);
        if let Some(before) = before.filter(|_| other) {
            self.home_link.link_local = None;
            for (home, binding) in &self.bindings {
                let live = binding.pending.iter().map(|pending| &pending.registration).chain(&binding.current);
                live.flat_map(|live| forwarding::proxy_items(before, *home, live))
                    .for_each(|proxy| out.drop(proxy.key()));
                if let Some(at) = binding.current.as_ref().and_then(|current| current.home_link_address) {
                    out.drop(forwarding::neighbour_item(before, at).key());
                }
            }
        }
        if appeared || other {
            self.put_anycast_addresses(event.link, out);
            self.put_home_routes(event.link, out);
            let bound = self.bindings.iter().filter_map(|(home, binding)| Some((*home, binding.current.as_ref()?)));
            let proxies: Vec<(HomeAddress, Item)> = bound
                .flat_map(|(home, bound)| {
                    forwarding::proxy_items(event.link, home, bound).map(move |item| (home, item))
                })
                .collect();
            for (home, proxy) in proxies {
                self.put(home, proxy, out);
            }
        }
        if changed {
            self.update_direct_paths(event.link, out);
        }
        match self.config.advertisement_interval {
            Some(_) if event.up && appeared => self.timers.set(HomeAgentTimer::Advertise, now),
            Some(_) if !event.up => self.timers.cancel(&HomeAgentTimer::Advertise),
            _ => {}
        }
    }

    /// Updates the paths over the home link of bindings at home and away.
    fn update_direct_paths(&mut self, link: LinkId, out: &mut Outbox) {
        let at_home = |binding: &Binding| binding.current.as_ref().and_then(|current| current.home_link_address);
        let homes = self.bindings.iter().filter_map(|(home, binding)| Some((*home, at_home(binding)?)));
        for (home, at) in homes.collect::<Vec<_>>() {
            if self.home_link.up {
                self.put(home, forwarding::neighbour_item(link, at), out);
            }
            self.update_tunnel(home, out);
        }
    }

    /// Processes an address event of this host.
    pub(super) fn address_changed(&mut self, event: &AddressEvent, out: &mut Outbox) {
        let assigned = event.state.is_usable();
        if assigned {
            self.home_link.own_addresses.insert(event.address);
        } else {
            self.home_link.own_addresses.remove(&event.address);
        }
        if Some(event.link) == self.home_link.id && event.address.is_unicast_link_local() {
            self.home_link.link_local = Some(event.address).filter(|_| assigned);
        }
        if event.address == self.config.address && assigned {
            let link = if self.config.home_link.is_none() { Some(event.link) } else { self.home_link.id };
            if let Some(link) = link {
                // Also if they were put before: the host may have rejected them for want of this address.
                self.put_anycast_addresses(link, out);
            }
        }
    }

    /// Configures the home agents' anycast address of every home prefix, for discovery (RFC 6275 §8.4).
    fn put_anycast_addresses(&mut self, link: LinkId, out: &mut Outbox) {
        let before = self.home_link.anycast_link.replace(link);
        let addresses: Vec<Ipv6Addr> = self.config.home_prefixes.iter().filter_map(discovery::anycast).collect();
        for address in addresses {
            if let Some(before) = before.filter(|before| *before != link) {
                out.drop(Key::Anycast(before, address));
            }
            self.put_own(Item::Anycast(AnycastAddress { link, address }), out);
        }
    }

    /// Puts again the items that belong to no binding.
    pub(super) fn reinstall_home_link(&mut self, out: &mut Outbox) {
        if let Some(link) = self.home_link.anycast_link {
            self.put_anycast_addresses(link, out);
        }
        if let Some(link) = self.home_link.link() {
            self.put_home_routes(link, out);
        }
        if self.has_unreachable_routes {
            self.put_unreachable_routes(out);
            self.guard_subflows(out);
        }
    }

    /// Whether duplicate address detection for `home` is required (RFC 6275 §10.3.1).
    pub(super) fn needs_dad(&self, home: HomeAddress) -> bool {
        let bound = self.bindings.get(&home).is_some_and(|binding| binding.current.is_some());
        self.config.duplicate_detection && self.home_link.up && !bound
    }

    /// Starts duplicate address detection for `home`, and for the link-local address registered with it.
    pub(super) fn send_dad_solicitations(&mut self, home: HomeAddress, out: &mut Outbox) {
        let latest = self.bindings.get(&home).and_then(|binding| binding.latest());
        for target in latest.into_iter().flat_map(|latest| latest.defended_addresses(home)).collect::<Vec<_>>() {
            let mut nonce = vec![0; 6];
            self.entropy.fill(&mut nonce);
            let options = vec![NeighbourOption::Nonce(nonce)];
            let solicitation = Message::NeighbourSolicitation(NeighbourSolicitation { target, options });
            self.send_on_link(&solicitation, Ipv6Addr::UNSPECIFIED, icmp6::solicited_node(target), out);
        }
    }

    /// Announces on the home link that this home agent receives packets for `home`, `times` times in all (RFC 6275
    /// §10.4.1).
    pub(super) fn send_neighbour_advertisements(&mut self, now: Time, home: HomeAddress, times: u8, out: &mut Outbox) {
        let current = self.bindings.get(&home).and_then(|binding| binding.current.as_ref());
        let (Some(current), Some(link_address)) = (current, self.home_link.link_address) else { return };
        let router = current.router;
        for target in current.defended_addresses(home) {
            let options = vec![NeighbourOption::TargetLinkAddress(link_address)];
            let advertisement = NeighbourAdvertisement { router, solicited: false, overrides: true, target, options };
            self.send_on_link(&Message::NeighbourAdvertisement(advertisement), self.config.address, ALL_NODES, out);
        }
        if times > 1 {
            self.timers.set(HomeAgentTimer::Announce(home, times - 1), now + RETRANS_TIMER);
        }
    }

    /// Processes a neighbour discovery message on the home link that passed the checks of RFC 4861.
    pub(super) fn receive_neighbour_discovery(
        &mut self,
        now: Time,
        packet: &Packet,
        datagram: &Datagram<'_>,
        message: Message,
        out: &mut Outbox,
    ) {
        if packet.sender.is_some() && packet.sender == self.home_link.link_address {
            return;
        }
        match message {
            Message::NeighbourAdvertisement(advertisement) => {
                self.dad_conflict(now, self.home_address_of(advertisement.target), out);
            }
            Message::NeighbourSolicitation(solicitation) if datagram.source.is_unspecified() => {
                self.dad_conflict(now, self.home_address_of(solicitation.target), out);
            }
            Message::RouterSolicitation(solicitation) if self.config.advertisement_interval.is_some() => {
                let link_address = nd_messages::source_link_address(&solicitation.options).or(packet.sender);
                self.answer_router_solicitation(now, (datagram.source, link_address), out)
            }
            Message::RouterAdvertisement(advertisement) => {
                self.receive_router_advertisement(now, datagram.source, &advertisement, out)
            }
            _ => {}
        }
    }

    /// Another node has, or is about to configure, an address in duplicate address detection.
    fn dad_conflict(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        if !binding
            .pending
            .as_ref()
            .is_some_and(|pending| matches!(pending.state, RegistrationState::CheckingDuplicates(_)))
        {
            return;
        }
        let Some(pending) = binding.pending.take() else { return };
        binding.current = Some(pending.registration);
        self.end_binding(now, home, false, out);
        if let Some(link) = self.home_link.link() {
            out.report(LinkReport::DuplicateAddress { link, address: home.0 });
        }
        self.reject(&pending.reply, Status::DUPLICATE_ADDRESS, out);
    }

    /// Answers a solicitation with a source address at once, by unicast to its link-layer address. The random delay of
    /// RFC 4861 §6.2.6 keeps routers from multicasting at the same time and would delay a returning mobile router by
    /// up to half a second; resolving its address would fail while that is tentative. Beyond the rate limit, and
    /// without a source address, the answer is multicast after the delay.
    fn answer_router_solicitation(
        &mut self,
        now: Time,
        (from, sender): (Ipv6Addr, Option<LinkAddress>),
        out: &mut Outbox,
    ) {
        if !from.is_unspecified() && self.discovery.limiter.take(now) {
            return self.send_advertisement((from, sender), self.router_lifetime(), out);
        }
        let delay = u64::try_from(MAX_RA_DELAY_TIME.as_micros()).unwrap_or(0);
        let soon = now + Duration::from_micros(self.entropy.below(delay));
        let earliest = self.home_link.last_advertisement.map_or(soon, |last| soon.max(last + MIN_DELAY_BETWEEN_RAS));
        if self.timers.deadline_of(&HomeAgentTimer::Advertise).is_none_or(|at| at > earliest) {
            self.timers.set(HomeAgentTimer::Advertise, earliest);
        }
    }

    /// Multicasts a Router Advertisement, and schedules the next.
    pub(super) fn send_periodic_advertisement(&mut self, now: Time, out: &mut Outbox) {
        let Some(longest) = self.config.advertisement_interval.filter(|_| self.home_link.up) else { return };
        self.home_link.last_advertisement = Some(now);
        self.send_advertisement((ALL_NODES, None), self.router_lifetime(), out);
        let shortest = (longest / 3).max(MIN_DELAY_BETWEEN_RAS);
        let spread = u64::try_from(longest.saturating_sub(shortest).as_micros()).unwrap_or(0);
        self.timers.set(HomeAgentTimer::Advertise, now + shortest + Duration::from_micros(self.entropy.below(spread)));
    }

    /// Sends the final advertisement of a home agent that stops (RFC 4861 §6.2.5).
    pub(super) fn stop_advertising(&mut self, out: &mut Outbox) {
        if self.config.advertisement_interval.is_some() && self.home_link.up {
            self.timers.cancel(&HomeAgentTimer::Advertise);
            self.send_advertisement((ALL_NODES, None), 0, out);
        }
    }

    /// Three times the maximum interval (RFC 4861 §6.2.1), seconds.
    fn router_lifetime(&self) -> u16 {
        let longest = self.config.advertisement_interval.unwrap_or_default();
        u16::try_from((longest * 3).as_secs().clamp(3, 9000)).unwrap_or(9000)
    }

    fn send_advertisement(
        &mut self,
        (to, neighbour): (Ipv6Addr, Option<LinkAddress>),
        lifetime: u16,
        out: &mut Outbox,
    ) {
        let (Some(source), Some(link)) = (self.home_link.source(), self.home_link.link()) else { return };
        let longest = self.config.advertisement_interval.unwrap_or_default();
        // RFC 6275 §7.3: 20 ms are added to an interval below 200 ms, for delays of the sender.
        let slack = Duration::from_millis(if longest < Duration::from_millis(200) { 20 } else { 0 });
        let milliseconds = u32::try_from((longest + slack).as_millis()).unwrap_or(u32::MAX);
        let mut options: Vec<NeighbourOption> =
            self.home_link.link_address.map(NeighbourOption::SourceLinkAddress).into_iter().collect();
        options.push(NeighbourOption::Mtu(self.home_link.mtu));
        options.push(NeighbourOption::AdvertisementInterval { milliseconds });
        options.extend(self.prefix_options());
        if lifetime > 0 {
            let preference = self.config.preference;
            options.push(NeighbourOption::HomeAgentInformation { router: true, preference, lifetime });
        }
        let advertisement = RouterAdvertisement { home_agent: lifetime > 0, lifetime, options, ..Default::default() };
        let (via, message) = (Via::on_link(link, neighbour), Message::RouterAdvertisement(advertisement));
        out.transmit(nd_messages::transmit_on_link(via, &message, source, to));
    }

    /// The home prefixes, with this home agent's full address in the one that contains it (RFC 6275 §7.2).
    pub(super) fn prefix_options(&self) -> Vec<NeighbourOption> {
        let option = |prefix: &Prefix| {
            let router_address = prefix.contains(self.config.address);
            NeighbourOption::PrefixInformation {
                prefix: *prefix,
                address: if router_address { self.config.address } else { prefix.address() },
                on_link: true,
                autonomous: prefix.length() == 64,
                router_address,
                valid: PREFIX_LIFETIMES.0,
                preferred: PREFIX_LIFETIMES.1,
            }
        };
        self.config.home_prefixes.iter().map(option).collect()
    }

    fn send_on_link(&self, message: &Message, source: Ipv6Addr, to: Ipv6Addr, out: &mut Outbox) {
        let Some(link) = self.home_link.link() else { return };
        out.transmit(nd_messages::transmit_on_link(Via::Link(link), message, source, to));
    }
}
