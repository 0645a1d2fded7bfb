//! Packets in hosts and media: forwarding, address resolution, tunnels (RFC 8200 §3, RFC 4861 §7.2, RFC 2473 §3).

use crate::net::datagram::{ICMPV6, IPV6, UDP};
use crate::net::event::{Frame, Scheduled};
use crate::net::host::{TUNNELS, count_packet};
use crate::net::ipv4::packet as ipv4;
use crate::net::kernel::{self, Decapsulated};
use crate::net::shim_datapath::DatapathEvent;
use crate::net::{Header, HostId, MediumId, Observation, Port, World, datagram};
use core::time::Duration;
use roam6_proto::contract::input::Packet;
use roam6_proto::contract::item::{NextHop, TunnelId};
use roam6_proto::{Input, LinkId};
use roam6_wire::LinkAddress;
use roam6_wire::icmp6::{self, Message, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation};
use std::net::Ipv6Addr;
use std::rc::Rc;

const MTU: usize = 1500;
const FAILED_POLICY: u8 = 5;
const HOP_LIMIT: u8 = 64;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// The group bit of a link-layer address.
const GROUP_BIT: u8 = 1;
/// Timeout of address resolution (RFC 4861 §10: three solicitations, one second each).
const RESOLUTION_TIMEOUT: Duration = Duration::from_secs(3);
/// Link-layer source of injected frames.
const ATTACKER_ADDRESS: LinkAddress = LinkAddress([0x02, 0xff, 0, 0, 0, 0xff]);

impl World {
    /// A frame arrives at an interface.
    pub(crate) fn arrive(&mut self, port: Port, medium: MediumId, frame: &Frame) {
        let attached = self.host(port.0).interfaces.get(&port.1).is_some_and(|at| at.medium == Some(medium));
        if !attached || !self.medium(medium).carrier || !self.host(port.0).powered {
            return;
        }
        if let Some(interface) = self.host_mut(port.0).interfaces.get_mut(&port.1) {
            count_packet(&mut interface.traffic.1, frame.bytes.len());
        }
        match frame.ethertype {
            ETHERTYPE_IPV6 => self.receive_packet(port, Some(frame.sender), &frame.bytes),
            _ => self.deliver_frame(port, frame),
        }
    }

    /// A host sends a packet, by the interface `only` if given.
    pub(crate) fn send(&mut self, host: HostId, packet: Vec<u8>, egress: Option<LinkId>) {
        let (packet, egress) = self.shim_send(host, packet, egress);
        let Some(header) = Header::parse(&packet) else { return self.count_loss(host, "not a packet") };
        let link_local = header.destination.is_multicast() || header.destination.is_unicast_link_local();
        match egress {
            Some(link) if header.destination.is_multicast() => self.emit((host, link), None, packet),
            Some(link) if link_local => self.send_to_next_hop((host, link), header.destination, packet),
            None if link_local => self.count_loss(host, "link-local without a link"),
            None if self.host(host).kernel.has_address(header.destination) => {
                self.receive_packet((host, TUNNELS), None, &packet)
            }
            _ => self.forward((host, None), header, packet, egress),
        }
    }

    /// Applies the shim's data plane to a packet of this host.
    fn shim_send(&mut self, host: HostId, packet: Vec<u8>, egress: Option<LinkId>) -> (Vec<u8>, Option<LinkId>) {
        let now = self.now();
        let by = egress.or_else(|| self.shim_uplink(host, &packet));
        let passed = self.host_mut(host).kernel.shim.send(now, &packet, by);
        if let Some(news) = passed.event {
            self.deliver_soon(host, news);
        }
        (passed.packet.unwrap_or(packet), passed.link.or(egress))
    }

    /// The interface by which a packet would be sent.
    fn shim_uplink(&self, host: HostId, packet: &[u8]) -> Option<LinkId> {
        match self.host(host).kernel.route(&Header::parse(packet)?, None, |_| true)? {
            NextHop::OnLink(link) | NextHop::Gateway { link, .. } => Some(link),
            NextHop::Tunnel(_) | NextHop::Unreachable | NextHop::Blackhole => None,
        }
    }

    /// Transmits a packet on a medium, to one neighbour or to all.
    pub(crate) fn emit(&mut self, (host, link): Port, to: Option<LinkAddress>, packet: Vec<u8>) {
        if self.host(host).is_virtual(link) {
            return self.emit_virtual((host, link), to, packet);
        }
        let Some(interface) = self.host(host).interfaces.get(&link) else {
            return self.count_loss(host, "no interface");
        };
        let (sender, Some(medium)) = (interface.address, interface.medium) else {
            return self.count_loss(host, "interface not plugged in");
        };
        if packet.len() > MTU {
            return self.count_loss(host, "too big for the medium");
        }
        self.observe_leaving((host, link), medium, &packet);
        if let Some(interface) = self.host_mut(host).interfaces.get_mut(&link) {
            count_packet(&mut interface.traffic.0, packet.len());
        }
        let destination = to.filter(|address| address.0[0] & GROUP_BIT == 0);
        let frame = Frame { sender, destination, ethertype: ETHERTYPE_IPV6, bytes: Rc::new(packet) };
        let carried = self.transmit_frame(medium, (host, link), &frame);
        if !carried {
            self.count_loss(host, "swallowed by the medium");
        }
    }

    fn observe_leaving(&mut self, (host, link): Port, medium: MediumId, packet: &[u8]) {
        if !self.watched.contains(&(host, link)) {
            return;
        }
        let source = Header::parse(packet).map(|header| header.source);
        let global = |source: &Ipv6Addr| !source.is_unspecified() && !source.is_unicast_link_local();
        if let Some(source) = source.filter(global) {
            self.observations.push(Observation::PacketLeft((host, link), medium, source));
        }
    }

    /// Injects a packet of an off-path attacker into a medium.
    pub(crate) fn inject(&mut self, medium: MediumId, packet: Vec<u8>) {
        let Some(header) = Header::parse(&packet) else { return };
        let owner = self.owner_of(medium, header.destination);
        let router = self.medium(medium).members().find(|(host, _)| self.host(*host).forwards);
        let target = owner.or(router).and_then(|port| self.link_address(port));
        let outside = (HostId(usize::MAX), LinkId(0));
        let (sender, bytes) = (ATTACKER_ADDRESS, Rc::new(packet));
        let frame = Frame { sender, destination: target, ethertype: ETHERTYPE_IPV6, bytes };
        self.transmit_frame(medium, outside, &frame);
    }

    /// The link-layer address of `address` as resolved from `port`.
    pub(crate) fn resolve(&self, (host, link): Port, address: Ipv6Addr) -> Option<LinkAddress> {
        if let Some(known) = self.host(host).kernel.neighbour(address, link) {
            return Some(known);
        }
        if self.host(host).is_virtual(link) {
            return self.host(host).neighbours.find(link, address);
        }
        let medium = self.host(host).interfaces.get(&link)?.medium?;
        let others = || self.medium(medium).members().filter(|port| *port != (host, link));
        let owner = others().find(|port| self.owns(*port, address));
        let proxy = || others().find(|port| self.proxies_for(*port, address).is_some());
        owner.or_else(proxy).and_then(|port| self.link_address(port))
    }

    /// Transmits a frame on a medium; `false` if no member gets it.
    pub(crate) fn transmit_frame(&mut self, medium: MediumId, from: Port, frame: &Frame) -> bool {
        if self.medium(medium).channel.is_some() {
            return self.send_on_channel(medium, from, frame);
        }
        if self.medium(medium).filters_out(&frame.bytes) {
            return false;
        }
        let (now, size, to) = (self.now(), frame.bytes.len(), frame.destination);
        let heard_by = |port: &Port| *port != from && to.is_none_or(|to| self.link_address(*port) == Some(to));
        let listeners: Vec<Port> = self.medium(medium).members().filter(heard_by).collect();
        let mut carried = false;
        for (host, link) in listeners {
            for at in self.medium_mut(medium).deliver((host, link), now, size) {
                carried = true;
                self.enqueue(at, Scheduled::Arrive { host, link, medium, frame: frame.clone() });
            }
        }
        carried
    }

    pub(crate) fn receive_packet(&mut self, port: Port, sender: Option<LinkAddress>, packet: &[u8]) {
        let Some(header) = Header::parse(packet) else { return self.count_loss(port.0, "not a packet") };
        self.learn_neighbours(port, sender, &header, packet);
        if let Some(inward) = self.translate_inward(port, packet) {
            return self.receive_packet(port, sender, &inward);
        }
        let kernel = &self.host(port.0).kernel;
        if header.destination.is_multicast() {
            self.answer_solicitation(port, &header, packet);
            self.deliver_to_engine(port, sender, packet);
        } else if kernel.has_address(header.destination) {
            let now = self.now();
            let passed = self.host_mut(port.0).kernel.shim.receive(now, packet, port.1);
            if let Some(news) = passed.event {
                self.deliver_soon(port.0, news);
            }
            match passed.packet {
                // To a ULID, which need not be an address of any interface by now.
                Some(unwrapped) => self.deliver_to_engine(port, sender, &unwrapped),
                None => self.deliver_local(port, sender, &header, packet),
            }
        } else if !self.answer_solicitation(port, &header, packet) {
            // A solicitation sent straight to a proxy asks for an address this host does not hold.
            self.forward_packet(port, header, packet.to_vec());
        }
    }

    fn deliver_local(&mut self, port: Port, sender: Option<LinkAddress>, header: &Header, packet: &[u8]) {
        let host = port.0;
        if ipv4::is(packet) {
            return self.receive_ipv4(port, sender, packet);
        }
        match datagram::upper_layer(packet) {
            Some((IPV6, _)) => self.decapsulate(host, packet),
            Some(_) if datagram::is_sealed(packet) => self.decapsulate(host, packet),
            Some((UDP, _)) if datagram::is_data_in_udp(packet) => self.decapsulate(host, packet),
            Some((ICMPV6, _)) if let Some(Message::EchoRequest(echo)) = datagram::parse_icmp6(packet) => {
                let (source, destination) = (header.destination, header.source);
                let back = Header { source, destination, next: ICMPV6, hop_limit: HOP_LIMIT };
                let egress = header.source.is_unicast_link_local().then_some(port.1);
                self.send(host, datagram::icmp6(back, &Message::EchoReply(echo)), egress);
            }
            _ => {
                self.answer_solicitation(port, header, packet);
                self.deliver_to_engine(port, sender, packet);
            }
        }
    }

    /// Decapsulates a packet of a tunnel of this host, and receives the inner one.
    pub(crate) fn decapsulate(&mut self, host: HostId, packet: &[u8]) {
        match self.host(host).kernel.decapsulate(packet) {
            Decapsulated::Inner(inner) => {
                self.host_mut(host).kernel.note_session(packet);
                let path = self.host(host).kernel.path_of(packet);
                if let Some(path) = path.filter(|_| kernel::echo_identifier(inner).is_none()) {
                    let now = self.now();
                    self.host_mut(host).path_counters.count_received(path, now, inner.len());
                }
                self.receive_packet((host, TUNNELS), None, inner);
            }
            Decapsulated::Refused => self.count_loss(host, "not for this tunnel"),
            Decapsulated::Foreign => self.count_loss(host, "no such tunnel"),
        }
    }

    /// Forwards a packet of another host.
    fn forward_packet(&mut self, (host, link): Port, header: Header, mut packet: Vec<u8>) {
        let local = header.source.is_unicast_link_local() || header.destination.is_unicast_link_local();
        if !self.host(host).forwards || local || header.source.is_unspecified() {
            return self.count_loss(host, "not for this host");
        }
        if self.blocked_paths.contains(&(header.source, header.destination)) {
            return self.count_loss(host, "lost in the network");
        }
        if self.host(host).source_validation {
            let back = Header { source: header.destination, destination: header.source, ..header };
            let from_there = |target: &NextHop| matches!(target, NextHop::OnLink(by) | NextHop::Gateway { link: by, .. } if *by == link);
            let way_back = self.host(host).kernel.route(&back, None, |_| true);
            if !way_back.is_some_and(|target| from_there(&target)) {
                return self.count_loss(host, "source does not belong there");
            }
        }
        if !self.host(host).kernel.is_source_allowed(header.source, link) {
            self.count_loss(host, "source failed policy");
            return self.send_unreachable((host, link), header.source, &packet);
        }
        if !datagram::decrement_hop_limit(&mut packet) {
            return self.count_loss(host, "hop limit");
        }
        if self.is_translated((host, link), &header) {
            return match self.translate_outward(host, &packet) {
                Some(outward) => self.send(host, outward, None),
                None => self.count_loss(host, "not to be translated"),
            };
        }
        self.forward((host, Some(link)), header, packet, None);
    }

    /// Sends Destination Unreachable, source address failed ingress/egress policy (RFC 4443 §3.1, code 5).
    fn send_unreachable(&mut self, (host, link): Port, to: Ipv6Addr, packet: &[u8]) {
        let own = self.host(host).kernel.addresses(link).into_iter().find(|own| !own.is_unicast_link_local());
        let Some(source) = own else { return };
        let message = Message::DestinationUnreachable { code: FAILED_POLICY, invoking: packet.to_vec() };
        let header = Header { source, destination: to, next: ICMPV6, hop_limit: HOP_LIMIT };
        self.send(host, datagram::icmp6(header, &message), None);
    }

    fn forward(
        &mut self,
        (host, arrived): (HostId, Option<LinkId>),
        header: Header,
        packet: Vec<u8>,
        egress: Option<LinkId>,
    ) {
        let usable = |target: &NextHop| match target {
            NextHop::OnLink(link) | NextHop::Gateway { link, .. } => {
                egress.is_none_or(|egress| egress == *link) && self.is_up(host, *link)
            }
            NextHop::Tunnel(_) | NextHop::Unreachable | NextHop::Blackhole => egress.is_none(),
        };
        let name = |link| self.host(host).interfaces.get(&link).map_or("tunnels", |interface| interface.name.as_str());
        match self.host(host).kernel.route(&header, arrived.map(name), usable) {
            Some(NextHop::OnLink(link)) => self.send_to_next_hop((host, link), header.destination, packet),
            Some(NextHop::Gateway { link, router }) => self.send_to_next_hop((host, link), router, packet),
            Some(NextHop::Tunnel(id)) => self.tunnel((host, arrived), id, &packet),
            Some(NextHop::Unreachable) => self.count_loss(host, "unreachable"),
            Some(NextHop::Blackhole) => self.count_loss(host, "discarded"),
            None => self.count_loss(host, "no route"),
        }
    }

    fn tunnel(&mut self, (host, arrived): (HostId, Option<LinkId>), id: TunnelId, inner: &[u8]) {
        let Some(path) = self.host(host).kernel.path(id, inner, arrived) else {
            return self.count_loss(host, "no path in tunnel");
        };
        let (link, remote, direct, bid) = (path.link, path.remote, path.direct, path.bid);
        if inner.len() > usize::try_from(path.mtu).unwrap_or(usize::MAX) {
            return self.count_loss(host, "too big for the tunnel");
        }
        // The answer to a probe follows the path under test, also one that only receives.
        let answers_probe = path.weight == 0 && kernel::echo_identifier(inner).is_some();
        let outer = datagram::encapsulate_path(&self.host(host).kernel.carrier(id, path), inner);
        let (now, counted) = (self.now(), !direct && kernel::echo_identifier(inner).is_none());
        if counted && self.host_mut(host).path_counters.count_sent((id, bid), now, inner.len()) {
            self.deliver_soon(host, DatapathEvent::PathTraffic((id, bid)));
        }
        if !answers_probe {
            self.observations.push(Observation::Tunnelled(host, id, remote));
        }
        if let Some(link) = link.filter(|_| direct) {
            return self.send_to_next_hop((host, link), remote, inner.to_vec());
        }
        self.send(host, outer, link);
    }

    /// Sends a packet to a neighbour; on a virtual link it waits for address resolution.
    pub(crate) fn send_to_next_hop(&mut self, port: Port, next_hop: Ipv6Addr, packet: Vec<u8>) {
        match self.resolve(port, next_hop) {
            Some(address) => self.emit(port, Some(address), packet),
            None => {
                let is_virtual = self.host(port.0).is_virtual(port.1);
                if self.resolving.insert((port.0, port.1, next_hop)) {
                    let silence = Scheduled::ResolutionTimeout { host: port.0, link: port.1, address: next_hop };
                    self.enqueue(self.now() + RESOLUTION_TIMEOUT, silence);
                    if is_virtual || !self.watched.is_empty() {
                        self.solicit(port, next_hop);
                    }
                }
                if is_virtual {
                    self.host_mut(port.0).neighbours.wait(port.1, next_hop, packet);
                } else {
                    self.count_loss(port.0, "no such neighbour");
                }
            }
        }
    }

    /// Sends a solicitation to all on a link: an engine may be a proxy of the target, or find it (RFC 4389 §4.1.3.2).
    fn solicit(&mut self, port: Port, target: Ipv6Addr) {
        let Some(own) = self.link_address(port) else { return };
        let Some(source) = self.host(port.0).kernel.addresses(port.1).into_iter().next() else { return };
        self.emit(port, None, datagram::solicitation(source, target, Some(own)));
    }

    pub(crate) fn deliver_to_engine(&mut self, (host, link): Port, sender: Option<LinkAddress>, packet: &[u8]) {
        if self.host(host).instance.is_some() {
            self.handle(host, &Input::Packet(Packet { link, sender, bytes: packet.to_vec() }));
        }
    }

    /// Answers a neighbour solicitation for an address of this host or one that it is a proxy of.
    fn answer_solicitation(&mut self, port: Port, header: &Header, packet: &[u8]) -> bool {
        let message = Some(packet).filter(|_| header.next == ICMPV6).and_then(datagram::parse_icmp6);
        let Some(Message::NeighbourSolicitation(NeighbourSolicitation { target, .. })) = message else { return false };
        let router = match self.owns(port, target) {
            true => Some(self.host(port.0).forwards),
            false => self.proxies_for(port, target),
        };
        let (Some(router), Some(address)) = (router, self.link_address(port)) else { return false };
        let anonymous = header.source.is_unspecified();
        let options = vec![NeighbourOption::TargetLinkAddress(address)];
        let answer = NeighbourAdvertisement { router, solicited: !anonymous, overrides: true, target, options };
        let destination = if anonymous { icmp6::ALL_NODES } else { header.source };
        let answer = datagram::on_link(target, destination, &Message::NeighbourAdvertisement(answer));
        if anonymous {
            self.emit(port, None, answer);
        } else {
            self.send_to_next_hop(port, destination, answer);
        }
        true
    }

    fn owner_of(&self, medium: MediumId, address: Ipv6Addr) -> Option<Port> {
        self.medium(medium).members().find(|port| self.owns(*port, address))
    }

    fn owns(&self, (host, link): Port, address: Ipv6Addr) -> bool {
        self.host(host).powered && self.host(host).kernel.has_address_on(address, link)
    }

    fn proxies_for(&self, (host, link): Port, address: Ipv6Addr) -> Option<bool> {
        self.host(host).kernel.proxies(address, link).filter(|_| self.host(host).powered)
    }

    fn link_address(&self, (host, link): Port) -> Option<LinkAddress> {
        self.host(host).interfaces.get(&link).map(|interface| interface.address)
    }
}
