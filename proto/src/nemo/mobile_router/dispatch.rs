//! Dispatch of received packets; unexpected ones are counted (RFC 4861 §6.1 and §7.1, RFC 6275 §9.2, RFC 3776 §4).

use super::path_mtu::probe_size;
use super::probe::PathChange;
use super::registration::CareOf;
use super::uplink::Uplink;
use super::{MobileRouter, discovery};
use crate::contract::config::nemo::{Authentication, HomeNetwork};
use crate::contract::report::NemoReport;
use crate::link::nd_messages;
use crate::nemo::dsmip::is_ipv4;
use crate::nemo::ipsec::open_esp;
use crate::nemo::quoted::QuotedPacket;
use crate::{DropReason, LinkId, Outbox, Packet, Time, Transmit, Via};
use core::time::Duration;
use roam6_wire::icmp6::{
    Echo, Message, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation, RouterAdvertisement,
    RouterSolicitation,
};
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::{self, Datagram, Header, MINIMUM_MTU, protocol};
use roam6_wire::udp6::destination_port;
use roam6_wire::{Bid, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// RFC 8201 §5.2: how long a Packet Too Big is valid.
const PATH_MTU_LIFETIME: Duration = Duration::from_secs(600);

/// Where a neighbour discovery message came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct NdSender {
    pub(super) link: LinkId,
    pub(super) source: Ipv6Addr,
    /// Source of the frame, if the link has such addresses.
    pub(super) link_address: Option<LinkAddress>,
}

impl MobileRouter {
    /// Processes a packet.
    pub(super) fn receive_packet(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let own = self.uplink_on(packet.link).and_then(|uplink| uplink.interface.as_ref()?.address);
        if own.is_some() && packet.sender == own {
            return;
        }
        if is_ipv4(packet) {
            return self.receive_ipv4(now, packet, out);
        }
        let datagram = match Datagram::parse(&packet.bytes) {
            Ok(datagram) => datagram,
            Err(why) if self.uses_link(packet.link) => return out.report_malformed(None, &why),
            Err(_) => return,
        };
        match datagram.protocol {
            protocol::ICMPV6 => self.receive_icmp6(now, packet, &datagram, out),
            protocol::MOBILITY => self.receive_mobility(now, &datagram, false, out),
            protocol::ESP => self.receive_esp(now, &datagram, out),
            protocol::IPV6 => self.receive_tunnelled(&datagram, out),
            protocol::UDP if destination_port(&packet.bytes) == Some(DSMIP_PORT) => self.receive_udp6(now, packet, out),
            protocol::UDP => self.receive_dhcp(now, packet.link, &datagram, out),
            _ => {}
        }
    }

    /// Decapsulates ESP from a home agent with the security association.
    pub(super) fn receive_esp(&mut self, now: Time, datagram: &Datagram<'_>, out: &mut Outbox) {
        let Authentication::Ipsec(pair) = &self.config.authentication else { return };
        let ours = datagram.real_destination() == self.config.home_address.0;
        if !ours || !self.home_agents.contains(datagram.source) {
            return;
        }
        let Some(inner) = open_esp(&pair.to_mobile_router, datagram, out) else { return };
        if inner.protocol == protocol::MOBILITY {
            return self.receive_mobility(now, &inner, true, out);
        }
        match Message::parse(&inner) {
            Ok(Message::MobilePrefixAdvertisement { identifier, options, .. }) => {
                self.receive_prefix_advertisement(now, &inner, (identifier, &options), true, out);
            }
            Ok(_) => out.report_drop(DropReason::NotForUs, datagram.source, "ICMPv6 in ESP"),
            Err(why) => out.report_malformed(datagram.source, &why),
        }
    }

    fn receive_icmp6(&mut self, now: Time, packet: &Packet, datagram: &Datagram<'_>, out: &mut Outbox) {
        let from = NdSender { link: packet.link, source: datagram.source, link_address: packet.sender };
        let message = match Message::parse(datagram) {
            Ok(message) => message,
            Err(why) if self.uses_link(packet.link) => return out.report_malformed(datagram.source, &why),
            Err(_) => return,
        };
        if let Err(why) = message.check_on_link(datagram)
            && self.uses_link(packet.link)
        {
            out.report_drop(DropReason::NotOnLink, datagram.source, why.to_string());
            return;
        }
        match message {
            Message::RouterAdvertisement(message) => self.receive_router_advertisement(now, from, &message, out),
            Message::RouterSolicitation(message) => self.receive_router_solicitation(now, from, &message, out),
            Message::NeighbourSolicitation(message) => self.receive_neighbour_solicitation(now, from, &message, out),
            Message::NeighbourAdvertisement(message) => self.receive_neighbour_advertisement(now, from, &message, out),
            Message::EchoReply(echo) => self.receive_echo_reply(datagram, &echo, out),
            Message::DestinationUnreachable { .. }
            | Message::TimeExceeded { .. }
            | Message::ParameterProblem { .. } => {
                self.receive_icmp_error(now, datagram.source, &message);
            }
            Message::PacketTooBig { mtu, invoking } => self.receive_packet_too_big(now, mtu, &invoking, out),
            Message::HomeAgentReply { identifier, router, addresses } => {
                self.receive_discovery_reply(datagram, identifier, router, addresses, out);
            }
            Message::MobilePrefixAdvertisement { identifier, options, .. } => {
                self.receive_prefix_advertisement(now, datagram, (identifier, &options), false, out);
            }
            _ => {}
        }
    }

    /// Whether `link` is an uplink or an ingress interface; other roles of this host may use others.
    fn uses_link(&mut self, link: LinkId) -> bool {
        self.uplink_on(link).is_some() || self.ingress_on(link).is_some()
    }

    /// Processes a Router Advertisement. Our own on ingress interfaces must not be mistaken for one of a visited link.
    fn receive_router_advertisement(
        &mut self,
        now: Time,
        from: NdSender,
        message: &RouterAdvertisement,
        out: &mut Outbox,
    ) {
        self.note_inside_advertisement(now, from.link, from.source, message.lifetime);
        let has = |option: &NeighbourOption, mine: &Prefix| match option {
            NeighbourOption::PrefixInformation { prefix, .. } => mine.covers(*prefix) || prefix.covers(*mine),
            _ => false,
        };
        let home = Some(&self.config.home_prefix).filter(|_| self.config.home_network == HomeNetwork::Virtual);
        if home.is_some_and(|home| message.options.iter().any(|option| has(option, home))) {
            out.report_drop(DropReason::NotForUs, from.source, "advertises the home prefix, which is on no link");
            return;
        }
        let ours = |option: &NeighbourOption| self.config.prefixes.iter().any(|mine| has(option, mine));
        if message.options.iter().any(ours) {
            out.report_drop(DropReason::NotForUs, from.source, "advertises a prefix of this mobile network");
            return;
        }
        self.note_other_router(now, from.link);
        if let Some(attachment) = self.uplink_on(from.link).and_then(|uplink| uplink.attachment.as_mut()) {
            attachment.receive_advertisement(now, from.source, from.link_address, message, out);
        }
    }

    /// Processes a Router Solicitation on an ingress interface.
    fn receive_router_solicitation(
        &mut self,
        now: Time,
        from: NdSender,
        message: &RouterSolicitation,
        out: &mut Outbox,
    ) {
        let link_address = nd_messages::source_link_address(&message.options).or(from.link_address);
        let Some(advertiser) = self.ingress_on(from.link).and_then(|inside| inside.advertiser.as_mut()) else {
            return;
        };
        if !advertiser.answer_solicitation(now, from.source, link_address, out) {
            out.report_drop(DropReason::RateLimited, from.source, "router solicitation");
        }
    }

    /// Processes a Neighbour Solicitation; one of duplicate address detection may be for an address that is being
    /// checked here (RFC 4862 §5.4.3).
    fn receive_neighbour_solicitation(
        &mut self,
        now: Time,
        from: NdSender,
        message: &NeighbourSolicitation,
        out: &mut Outbox,
    ) {
        self.relay_solicitation(now, from, message, out);
        if from.source.is_unspecified() && message.target == self.config.home_address.0 {
            return self.give_up_home_address(from.link, out);
        }
        let checking = self.uplink_on(from.link).is_some_and(|uplink| uplink.is_checking(message.target));
        if from.source.is_unspecified() && checking {
            self.receive_duplicate(now, from.link, message.target, out);
        }
    }

    fn receive_neighbour_advertisement(
        &mut self,
        now: Time,
        from: NdSender,
        message: &NeighbourAdvertisement,
        out: &mut Outbox,
    ) {
        self.relay_advertisement(now, from, message, out);
        let link_address = nd_messages::target_link_address(&message.options);
        if message.target == self.config.home_address.0 {
            if let Some(defender) = link_address.or(from.link_address) {
                self.receive_defence(from.link, defender, out);
            }
            return;
        }
        let Some(uplink) = self.uplink_on(from.link) else {
            return;
        };
        if uplink.is_checking(message.target) {
            self.receive_duplicate(now, from.link, message.target, out);
        } else if message.target == from.source
            && message.solicited
            && let Some(attachment) = &mut uplink.attachment
        {
            attachment.confirm_reachable(now, from.source);
        }
    }

    /// A packet that was not decapsulated: only replies to our probes are expected.
    fn receive_tunnelled(&mut self, outer: &Datagram<'_>, out: &mut Outbox) {
        if !self.home_agents.contains(outer.source) {
            return;
        }
        if let Ok(inner) = Datagram::parse(outer.payload)
            && let Ok(Message::EchoReply(echo)) = Message::parse(&inner)
        {
            self.receive_echo_reply(&inner, &echo, out);
        }
    }

    /// Processes an echo reply.
    fn receive_echo_reply(&mut self, datagram: &Datagram<'_>, echo: &Echo, out: &mut Outbox) {
        if !self.home_agents.contains(datagram.source) || self.receive_alternate_echo(self.now, datagram.source, echo) {
            return;
        }
        // A reply of another home agent does not prove this path.
        let padding = echo.data.strip_prefix(self.probe_cookie.to_be_bytes().as_slice());
        let Some(padding) = padding.filter(|_| self.home_agents.in_use() == Some(datagram.source)) else { return };
        let in_tunnel = datagram.destination == self.config.home_address.0;
        if !padding.is_empty() {
            let Some(size) = probe_size(&echo.data, padding, in_tunnel) else { return };
            return self.receive_mtu_probe_reply(self.now, echo.identifier, size, out);
        }
        let is_probed = |uplink: &Uplink| uplink.config.bid.0 == echo.identifier;
        if !in_tunnel && self.uplinks.iter().any(|uplink| is_probed(uplink) && self.is_encrypted_path(uplink)) {
            return;
        }
        let now = self.now;
        let mut probed = self.uplinks.iter_mut().find(|uplink| is_probed(uplink));
        if let Some(uplink) = probed.as_mut().filter(|_| in_tunnel) {
            uplink.last_tunnelled_reply = Some(self.now);
        }
        let was_recovering = probed.as_ref().is_some_and(|uplink| uplink.prober.is_recovering());
        let change = probed.as_mut().and_then(|uplink| uplink.prober.receive_reply(now, echo.sequence));
        let recovers = probed.filter(|uplink| uplink.prober.is_recovering() && !was_recovering);
        let round_trip = recovers.and_then(|uplink| uplink.prober.round_trip());
        if self.registration.binding().is_none() {
            self.home_agents.end_delay(now);
            // The home agent is reachable again: an update that waits for its retransmission need not.
            if let Some(round_trip) = round_trip {
                self.registration.retransmit_overdue(now, round_trip);
            } else if change.is_some() {
                self.registration.retransmit_waiting(now);
            }
        }
        let bid = Bid(echo.identifier);
        self.judge_path(now, bid, out);
        if let Some(change) = change {
            self.report_path(bid, change, out);
            self.receive_path_change(self.now, (bid, change == PathChange::Down));
        }
    }

    /// The probe of an uplink: through the tunnel if its care-of address is registered, where the home agent's data
    /// plane returns the answer on the path that the identifier names; else outside it.
    pub(super) fn probe_packet(&self, uplink: &Uplink, sequence: u16) -> Option<Transmit> {
        let home_agent = self.home_agents.in_use()?;
        let care_of = self.care_of_on(uplink)?;
        let data = self.probe_cookie.to_be_bytes().to_vec();
        let message = Message::EchoRequest(Echo { identifier: care_of.bid.0, sequence, data });
        let registered = self.is_registered_at(home_agent, &care_of);
        let from = |source: Ipv6Addr| {
            let header = Header::new(source, home_agent);
            ip6::emit(&header, protocol::ICMPV6, &message.emit(source, home_agent))
        };
        if care_of.on_home_link {
            let via = Via::Neighbour { link: care_of.link, address: self.home_router_link_address(care_of.link)? };
            return Some(Transmit { via, bytes: from(care_of.address.0) });
        }
        if registered && self.encrypts() {
            // By the route of the home address into the tunnel, and there by the path that the identifier names.
            return Some(Transmit { via: Via::Route, bytes: from(self.config.home_address.0) });
        }
        if care_of.ipv4().is_some() {
            let inner = from(self.config.home_address.0);
            return self.ipv4_probe(&care_of, uplink, home_agent, &inner).filter(|_| registered);
        }
        if care_of.udp {
            let inner = from(self.config.home_address.0);
            return self.transmit_via(&care_of, home_agent, inner).filter(|_| registered);
        }
        let outer = Header::new(care_of.address.0, home_agent);
        let bytes = if registered {
            ip6::encapsulate(&outer, &from(self.config.home_address.0))
        } else {
            from(care_of.address.0)
        };
        Some(Transmit { via: Via::Link(care_of.link), bytes })
    }

    /// Whether this home agent has the care-of address registered.
    fn is_registered_at(&self, home_agent: Ipv6Addr, care_of: &CareOf) -> bool {
        let binding = self.registration.binding();
        binding.is_some_and(|binding| binding.registration.home_agent == home_agent) && self.is_held(care_of)
    }

    /// Whether the probes of `uplink` are encrypted. An unencrypted reply then answers a probe that was sent before the registration,
    /// and does not confirm the session.
    fn is_encrypted_path(&self, uplink: &Uplink) -> bool {
        let path = self.home_agents.in_use().zip(self.care_of_on(uplink));
        let path = path.filter(|(_, care_of)| self.encrypts() && !care_of.on_home_link);
        path.is_some_and(|(home_agent, care_of)| self.is_registered_at(home_agent, &care_of))
    }

    /// Processes a Packet Too Big (RFC 2473 §7.1). It must quote a packet that the tunnel may have sent, and its MTU
    /// must be at least 1280 (RFC 8201 §4).
    fn receive_packet_too_big(&mut self, now: Time, mtu: u32, invoking: &[u8], out: &mut Outbox) {
        let Some(quoted) = QuotedPacket::parse(invoking).filter(|quoted| self.is_own_tunnel_packet(quoted)) else {
            return;
        };
        let (source, remote) = (quoted.source, quoted.destination);
        if mtu < MINIMUM_MTU || quoted.length <= mtu {
            out.report_drop(
                DropReason::Malformed,
                remote,
                format!("packet too big: {mtu} octets, of a packet of {} octets", quoted.length),
            );
            return;
        }
        let sent_by =
            |uplink: &&mut Uplink| uplink.care_of_address.as_ref().is_some_and(|formed| formed.address.0 == source);
        if let Some(uplink) = self.uplinks.iter_mut().find(sent_by)
            && mtu < uplink.mtu()
        {
            uplink.path_mtu = Some((mtu, now + PATH_MTU_LIFETIME));
            out.report(NemoReport::PathMtu { remote, mtu });
        }
    }

    /// Whether a path of the tunnel may have sent the packet: from a registered care-of address to its home agent,
    /// with an inner packet from the mobile network or the home address to elsewhere.
    fn is_own_tunnel_packet(&self, quoted: &QuotedPacket) -> bool {
        let binding = self.registration.binding().filter(|held| held.registration.home_agent == quoted.destination);
        let left = self.lingering.iter().map(|left| left.care_of);
        let held = binding.into_iter().flat_map(|binding| binding.care_of().iter().copied()).chain(left);
        let moves = |address: Ipv6Addr| {
            address == self.config.home_address.0 || self.networks().any(|prefix| prefix.contains(address))
        };
        let outer = held.into_iter().any(|care_of| care_of.address.0 == quoted.source);
        let carried = quoted.inner.is_some_and(|(source, destination)| moves(source) && !moves(destination));
        outer && carried
    }

    /// Processes a discovery reply; only home agents that support mobile routers count (RFC 3963 §7.2).
    fn receive_discovery_reply(
        &mut self,
        datagram: &Datagram<'_>,
        identifier: u16,
        router: bool,
        addresses: Vec<Ipv6Addr>,
        out: &mut Outbox,
    ) {
        let global: Vec<Ipv6Addr> = addresses.into_iter().filter(|address| is_global(*address)).collect();
        if !router || !self.home_agents.receive_reply(identifier, &global) {
            out.report_drop(DropReason::Unsolicited, datagram.source, "home agent address discovery reply");
            return;
        }
        out.report(NemoReport::HomeAgents { addresses: global });
    }

    /// The Home Agent Address Discovery Request.
    pub(super) fn discovery_request(&self, care_of: CareOf, identifier: u16) -> Transmit {
        let (source, anycast) = (care_of.address.0, discovery::home_agents_anycast(self.config.home_prefix));
        let message = Message::HomeAgentRequest { identifier, router: true };
        let bytes = ip6::emit(&Header::new(source, anycast), protocol::ICMPV6, &message.emit(source, anycast));
        Transmit { via: Via::Link(care_of.link), bytes }
    }
}

fn is_global(address: Ipv6Addr) -> bool {
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || address.is_unicast_link_local())
}
