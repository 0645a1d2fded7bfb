//! Dispatch of received packets: to validation of updates, discovery, path MTU, or dropped. RFC 6275 §9.2, §9.3.1 and
//! §9.3.3, RFC 3776 §4, RFC 2473 §8.

use super::HomeAgent;
use super::care_of::is_routable_unicast;
use super::path_mtu::MAX_PATH_MTUS;
use super::request::UpdateRequest;
use super::types::HomeAgentTimer;
use crate::contract::config::nemo::Authentication;
use crate::contract::item::TunnelId;
use crate::contract::report::NemoReport;
use crate::nemo::dsmip::{is_icmp4, is_ipv4};
use crate::nemo::ipsec::open_esp;
use crate::nemo::quoted::{QuotedPacket, ipv6_at};
use crate::{DropReason, Outbox, Packet, Time, Transmit, Via};
use roam6_wire::ip6::{self, Datagram, Header, MINIMUM_MTU, protocol};
use roam6_wire::mobility::{self, ErrorStatus, kind};
use roam6_wire::{HomeAddress, icmp6};
use std::net::Ipv6Addr;

/// Rate limit of Binding Errors (required by RFC 6275 §9.3.3).
pub(super) const BINDING_ERRORS_PER_SECOND: u32 = 10;

impl HomeAgent {
    /// Processes a received packet. One that is neither for this home agent nor of its home link is ignored.
    pub(super) fn receive_packet(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        if is_ipv4(packet) {
            // ICMPv4 concerns mobile routers.
            if !is_icmp4(packet) {
                self.receive_dsmip(now, packet, out);
            }
            return;
        }
        let Some(destination) = ipv6_at(&packet.bytes, 24) else { return };
        let ours = destination == self.config.address;
        let on_link = self.home_link.link() == Some(packet.link)
            && (destination.is_multicast() || destination.is_unicast_link_local() || ours);
        if !ours && self.answer_shared(packet, destination, out) || !(ours || on_link || self.is_anycast(destination)) {
            return;
        }
        match Datagram::parse(&packet.bytes) {
            Ok(datagram) if datagram.routing_home.is_some() => {}
            Ok(datagram) => self.dispatch(now, packet, &datagram, on_link, out),
            Err(malformed) if ours => {
                let from = ipv6_at(&packet.bytes, 8);
                out.report_malformed(from, &malformed);
            }
            Err(_) => {}
        }
    }

    fn dispatch(&mut self, now: Time, packet: &Packet, datagram: &Datagram<'_>, on_link: bool, out: &mut Outbox) {
        let ours = datagram.destination == self.config.address;
        match datagram.protocol {
            protocol::UDP if ours && self.config.udp6 => self.receive_udp6(now, packet, out),
            protocol::MOBILITY if ours => self.receive_mobility(now, packet, datagram, false, out),
            // The security association identifies the sender (RFC 6275 §9.3.1).
            protocol::ESP if ours => self.receive_esp(now, packet, datagram, out),
            protocol::ESP | protocol::AUTHENTICATION => {}
            _ if ours && !self.is_bound_sender(datagram) => {
                self.report_binding_error(now, datagram, ErrorStatus::UNKNOWN_BINDING, out)
            }
            // One that does not parse is left to the host's own stack.
            protocol::ICMPV6 => {
                if let Ok(message) = icmp6::Message::parse(datagram) {
                    self.receive_icmp6(now, packet, datagram, message, on_link, out);
                }
            }
            _ => {}
        }
    }

    /// Decapsulates ESP with the security association of the source home address (RFC 3776 §4.1). ESP of any other
    /// sender is left to the host.
    fn receive_esp(&mut self, now: Time, packet: &Packet, datagram: &Datagram<'_>, out: &mut Outbox) {
        let row = self.prefix_table_row(HomeAddress(datagram.real_source()));
        let Some(Authentication::Ipsec(pair)) = row.map(|row| &row.authentication) else { return };
        let Some(inner) = open_esp(&pair.to_home_agent, datagram, out) else { return };
        if inner.protocol == protocol::MOBILITY {
            return self.receive_mobility(now, packet, &inner, true, out);
        }
        match icmp6::Message::parse(&inner) {
            Ok(icmp6::Message::MobilePrefixSolicitation { identifier }) if self.is_bound_sender(&inner) => {
                self.answer_prefix_solicitation(now, &inner, (identifier, true), out);
            }
            Ok(_) => out.report_drop(DropReason::NotForUs, datagram.source, "ICMPv6 in ESP"),
            Err(why) => out.report_malformed(datagram.source, &why),
        }
    }

    fn receive_mobility(
        &mut self,
        now: Time,
        packet: &Packet,
        datagram: &Datagram<'_>,
        protected: bool,
        out: &mut Outbox,
    ) {
        let from = Some(datagram.source);
        let message = mobility::Message::parse(datagram.payload, datagram.real_source(), datagram.real_destination());
        match message {
            Ok(mobility::Message::BindingUpdate(update)) => {
                let at_home = self.home_link.link() == Some(packet.link);
                let request =
                    UpdateRequest { in_esp: protected, ..UpdateRequest::parse(packet, datagram, &update, at_home) };
                self.receive_update(now, request, out);
            }
            Ok(mobility::Message::Unknown { kind, .. }) if !is_return_routability(kind) => {
                self.report_binding_error(now, datagram, ErrorStatus::UNRECOGNISED_TYPE, out);
            }
            Ok(_) if !self.is_bound_sender(datagram) => {
                self.report_binding_error(now, datagram, ErrorStatus::UNKNOWN_BINDING, out);
            }
            Ok(mobility::Message::BindingError { status, .. }) => {
                out.report(NemoReport::BindingError { peer: datagram.source, status: status.0, sent: false });
            }
            Ok(_) => {
                out.report_drop(DropReason::NotForUs, from, "a mobility message that is not for a home agent");
            }
            Err(malformed) => {
                out.report_malformed(from, &malformed);
                if let Some(at) = mobility::parameter_problem(&malformed) {
                    self.send_parameter_problem(now, packet, datagram, at, out);
                }
            }
        }
    }

    /// Sends an ICMPv6 Parameter Problem about a mobility header, rate limited (RFC 6275 §9.2).
    fn send_parameter_problem(
        &mut self,
        now: Time,
        packet: &Packet,
        datagram: &Datagram<'_>,
        at: usize,
        out: &mut Outbox,
    ) {
        let to = datagram.source;
        if !is_routable_unicast(to) || !self.error_limiter.take(now) {
            return;
        }
        let pointer = u32::try_from(datagram.payload_at + at).unwrap_or(u32::MAX);
        let problem = icmp6::Message::ParameterProblem { code: 0, pointer, invoking: packet.bytes.clone() };
        let header = Header::new(self.config.address, to);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &problem.emit(self.config.address, to));
        out.transmit(Transmit { via: Via::Route, bytes });
    }

    /// Whether the source is a registered care-of address of the Home Address option, if there is one.
    pub(super) fn is_bound_sender(&self, datagram: &Datagram<'_>) -> bool {
        let Some(home) = datagram.home_address else { return true };
        self.bindings.get(&HomeAddress(home)).is_some_and(|binding| binding.has_care_of(datagram.source))
    }

    /// Sends a Binding Error about a mobility header or a Home Address option, rate limited.
    fn report_binding_error(&mut self, now: Time, datagram: &Datagram<'_>, status: ErrorStatus, out: &mut Outbox) {
        let peer = datagram.source;
        if !is_routable_unicast(peer) {
            return;
        }
        if !self.error_limiter.take(now) {
            return out.report_drop(DropReason::RateLimited, peer, "Binding Error not sent");
        }
        self.send_binding_error(peer, status, datagram.home_address, out);
        out.report(NemoReport::BindingError { peer, status: status.0, sent: true });
    }

    fn receive_icmp6(
        &mut self,
        now: Time,
        packet: &Packet,
        datagram: &Datagram<'_>,
        message: icmp6::Message,
        on_link: bool,
        out: &mut Outbox,
    ) {
        match message {
            icmp6::Message::PacketTooBig { mtu, invoking } => {
                self.receive_packet_too_big(now, (datagram.source, mtu), &invoking, out)
            }
            icmp6::Message::HomeAgentRequest { identifier, router } => {
                self.answer_discovery_request(now, datagram.source, identifier, router, out);
            }
            icmp6::Message::MobilePrefixSolicitation { identifier } => {
                self.answer_prefix_solicitation(now, datagram, (identifier, false), out);
            }
            message if on_link && message.check_on_link(datagram).is_ok() => {
                self.receive_neighbour_discovery(now, packet, datagram, message, out);
            }
            _ => {}
        }
    }

    /// Processes a Packet Too Big about a path to a care-of address. It must quote a packet of the tunnel, which an
    /// off-path sender does not know, and its MTU must be at least 1280 (RFC 8201 §4).
    fn receive_packet_too_big(&mut self, now: Time, (from, mtu): (Ipv6Addr, u32), invoking: &[u8], out: &mut Outbox) {
        let Some(quoted) = QuotedPacket::parse(invoking).filter(|quoted| quoted.source == self.config.address) else {
            return;
        };
        let remote = quoted.destination;
        let homes = self.homes_bound_at(remote);
        if homes.is_empty() {
            return;
        }
        let inner = quoted.inner.map(|(_, destination)| destination);
        let is_of_tunnel = inner.is_some_and(|inner| homes.iter().any(|home| self.tunnel_leads_to(*home, inner)));
        if mtu < MINIMUM_MTU || !is_of_tunnel {
            let detail =
                format!("Packet Too Big, MTU {mtu}, about {remote}: below 1280, or quotes no packet of its tunnel");
            return out.report_drop(DropReason::Malformed, from, detail);
        }
        if self.path_mtu.is_full_for(remote) {
            return out.report_full_table("path MTUs", MAX_PATH_MTUS);
        }
        let Some(mtu) = self.path_mtu.learn(now, remote, mtu) else { return };
        if let Some(until) = self.path_mtu.expire(now, remote) {
            self.timers.set(HomeAgentTimer::PathMtu(remote), until);
        }
        self.path_mtu_changed(remote, mtu, out);
        #[cfg(feature = "fleet")]
        self.share_path_mtu(remote, mtu, out);
    }

    /// Whether packets to `address` take the tunnel of `home`.
    fn tunnel_leads_to(&self, home: HomeAddress, address: Ipv6Addr) -> bool {
        let latest = self.bindings.get(&home).and_then(|binding| binding.latest());
        let inside = latest.is_some_and(|latest| latest.prefixes.iter().any(|prefix| prefix.contains(address)));
        inside || address == home.0
    }

    /// Removes an expired path MTU, and returns to the configured one.
    pub(super) fn expire_path_mtu(&mut self, now: Time, remote: Ipv6Addr, out: &mut Outbox) {
        let before = self.path_mtu.mtu_to(remote);
        if let Some(until) = self.path_mtu.expire(now, remote) {
            self.timers.set(HomeAgentTimer::PathMtu(remote), until);
        }
        let mtu = self.path_mtu.mtu_to(remote);
        if mtu != before {
            self.path_mtu_changed(remote, mtu, out);
        }
    }

    pub(super) fn path_mtu_changed(&mut self, remote: Ipv6Addr, mtu: u32, out: &mut Outbox) {
        let homes = self.homes_bound_at(remote);
        for home in &homes {
            self.update_tunnel(*home, out);
        }
        if !homes.is_empty() {
            out.report(NemoReport::PathMtu { remote, mtu });
        }
    }

    /// The home addresses bound to a care-of address, rarely more than one.
    pub(super) fn homes_bound_at(&self, care_of: Ipv6Addr) -> Vec<HomeAddress> {
        let bound = self.care_of_index.range((care_of, TunnelId(0))..=(care_of, TunnelId(u32::MAX)));
        bound.filter_map(|(_, tunnel)| self.tunnels.get(tunnel).copied()).collect()
    }
}

/// Whether it is a message of return routability: known, but not for a home agent.
fn is_return_routability(kind: u8) -> bool {
    (kind::HOME_TEST_INIT..=kind::CARE_OF_TEST).contains(&kind)
}
