//! An on-link prefix of this host as a mobile network prefix, where the provider routes nothing (`shared_prefix`): the home
//! agent answers Neighbour Solicitations for its addresses by proxy (RFC 4861 §7.2.8), while a mobile router has it. The Override
//! flag is clear, so that the answer of a host that really has an address prevails.

use super::HomeAgent;
use super::forwarding::TUNNEL_METRIC;
use crate::contract::item::{NextHop, RouteTable};
use crate::link::nd_messages;
use crate::{AddressEvent, Item, LinkEvent, LinkId, Outbox, Packet, Via};
use roam6_wire::icmp6::{Message, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation};
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// The link that has the prefix.
#[derive(Debug, Default)]
pub(super) struct SharedLink {
    /// Its interface, while it is up.
    link: Option<LinkId>,
    address: Option<LinkAddress>,
    link_local: Option<Ipv6Addr>,
}

impl HomeAgent {
    /// Whether mobile routers may register this prefix although this host is in it.
    pub(super) fn is_shared_prefix(&self, prefix: Prefix) -> bool {
        self.config.shared_prefix.as_ref().is_some_and(|shared| shared.prefix == prefix)
    }

    /// Processes a link event: packets for this host and the gateway must not enter the tunnel.
    pub(super) fn shared_link_changed(&mut self, event: &LinkEvent, out: &mut Outbox) {
        let Some(shared) = self.config.shared_prefix.as_ref().filter(|shared| shared.interface == event.name) else {
            return;
        };
        let (gateway, own) = (shared.gateway, self.config.address);
        if self.shared_link.link != Some(event.link) {
            self.shared_link.link_local = None;
        }
        self.shared_link.link = event.up.then_some(event.link);
        self.shared_link.address = event.address;
        if !event.up {
            return;
        }
        for address in gateway.into_iter().chain([own]) {
            self.put_own(Item::TunnelBypass(Prefix::host(address)), out);
        }
        if let Some(gateway) = gateway {
            let target = NextHop::OnLink(event.link);
            self.put_own(Item::route(RouteTable::MAIN, Prefix::host(gateway), TUNNEL_METRIC, target), out);
        }
    }

    /// Processes an address event of this host: packets for its own addresses do not enter the tunnel.
    pub(super) fn shared_address_changed(&mut self, event: &AddressEvent, out: &mut Outbox) {
        let Some(shared) = &self.config.shared_prefix else { return };
        let assigned = event.state.is_usable();
        if Some(event.link) == self.shared_link.link && event.address.is_unicast_link_local() {
            self.shared_link.link_local = Some(event.address).filter(|_| assigned);
        }
        if !shared.prefix.contains(event.address) || event.address == self.config.address {
            return;
        }
        let bypass = Item::TunnelBypass(Prefix::host(event.address));
        match assigned {
            true => self.put_own(bypass, out),
            false if shared.gateway != Some(event.address) => out.drop(bypass.key()),
            false => {}
        }
    }

    /// Answers a Neighbour Solicitation for an address of the mobile network. Not one of duplicate address detection: a host
    /// that really wants an address may have it. Returns whether the packet is such a solicitation.
    pub(super) fn answer_shared(&mut self, packet: &Packet, destination: Ipv6Addr, out: &mut Outbox) -> bool {
        let Some(shared) = &self.config.shared_prefix else { return false };
        let SharedLink { link: Some(link), address: Some(own), link_local } = self.shared_link else { return false };
        let may_be = destination.is_multicast() || shared.prefix.contains(destination);
        if link != packet.link || packet.sender == Some(own) || !may_be {
            return false;
        }
        let Ok(datagram) = Datagram::parse(&packet.bytes) else { return false };
        let Some(solicitation) = solicitation(&datagram) else { return false };
        let (target, to) = (solicitation.target, datagram.source);
        if !self.is_defended(target) {
            return false;
        }
        if !to.is_unspecified() {
            let options = vec![NeighbourOption::TargetLinkAddress(own)];
            let answer = NeighbourAdvertisement { router: false, solicited: true, overrides: false, target, options };
            let neighbour = nd_messages::source_link_address(&solicitation.options).or(packet.sender);
            let via = Via::on_link(link, neighbour);
            let source = link_local.unwrap_or_else(|| own.link_local());
            out.transmit(nd_messages::transmit_on_link(via, &Message::NeighbourAdvertisement(answer), source, to));
        }
        true
    }

    /// Whether packets for this address are to come here for the tunnel.
    fn is_defended(&self, target: Ipv6Addr) -> bool {
        let Some(shared) = self.config.shared_prefix.as_ref().filter(|shared| shared.prefix.contains(target)) else {
            return false;
        };
        let own = target == self.config.address || self.home_link.is_own_address(target);
        let is_bound = || {
            let mut homes = self.prefixes.covering(target).filter_map(|tunnel| self.tunnels.get(&tunnel));
            homes.any(|home| self.bindings.get(home).is_some_and(|binding| binding.current.is_some()))
        };
        !own && shared.gateway != Some(target) && is_bound()
    }
}

/// The Neighbour Solicitation in a packet, if it is a valid one.
fn solicitation(datagram: &Datagram<'_>) -> Option<NeighbourSolicitation> {
    if datagram.protocol != protocol::ICMPV6 {
        return None;
    }
    let message = Message::parse(datagram).ok()?;
    message.check_on_link(datagram).ok()?;
    match message {
        Message::NeighbourSolicitation(solicitation) => Some(solicitation),
        _ => None,
    }
}
