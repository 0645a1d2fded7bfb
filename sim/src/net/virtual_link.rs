//! Frames of other EtherTypes than IPv6, virtual interfaces, radio channels and position fixes: what a host does for its
//! GeoNetworking station.

use crate::net::event::{Frame, Scheduled};
use crate::net::items::address_item;
use crate::net::radio::Audience;
use crate::net::track::Velocity;
use crate::net::{Header, HostId, MediumId, Port, World, datagram};
use core::time::Duration;
use roam6_proto::contract::input::AddressState;
use roam6_proto::geo::geometry::Plane;
use roam6_proto::{Fix, Input, Item, Key, LinkId, Time};
use roam6_wire::LinkAddress;
use roam6_wire::geo::Coordinates;
use roam6_wire::icmp6::Message;
use std::net::Ipv6Addr;
use std::rc::Rc;

const ETHERTYPE_IPV6: u16 = 0x86dd;
const BROADCAST: LinkAddress = LinkAddress([0xff; 6]);
/// Interval of position fixes.
const FIX_INTERVAL: Duration = Duration::from_secs(1);
/// The place of the origin of all tracks.
pub const ORIGIN: Coordinates = Coordinates { latitude: 480_000_000, longitude: 110_000_000 };

impl World {
    /// A frame that is not IPv6 arrives: for the engine, if it has subscribed to the EtherType.
    pub(crate) fn deliver_frame(&mut self, (host, link): Port, frame: &Frame) {
        if self.host(host).instance.is_none() || self.host(host).kernel.subscription(link, frame.ethertype).is_none() {
            return;
        }
        let (source, destination) = (frame.sender, frame.destination.unwrap_or(BROADCAST));
        let bytes = frame.bytes.to_vec();
        let frame = roam6_proto::Frame { link, source, destination, ethertype: frame.ethertype, bytes };
        self.handle(host, &Input::Frame(frame));
    }

    /// A frame of the engine: into its host on a virtual interface, else onto the medium.
    pub(crate) fn send_frame(&mut self, host: HostId, frame: &roam6_proto::Frame) {
        let port = (host, frame.link);
        if self.host(host).is_virtual(frame.link) {
            return self.receive_packet(port, Some(frame.source), &frame.bytes);
        }
        let medium = self.host(host).interfaces.get(&frame.link).and_then(|interface| interface.medium);
        let Some(medium) = medium else { return self.count_loss(host, "interface not plugged in") };
        let destination = Some(frame.destination).filter(|address| address.is_unicast());
        let bytes = Rc::new(frame.bytes.clone());
        let carried = Frame { sender: frame.source, destination, ethertype: frame.ethertype, bytes };
        if !self.transmit_frame(medium, port, &carried) {
            self.count_loss(host, "swallowed by the medium");
        }
    }

    /// The kernel sends a packet by a virtual interface: the engine gets the frame.
    pub(crate) fn emit_virtual(&mut self, (host, link): Port, to: Option<LinkAddress>, packet: Vec<u8>) {
        let Some(interface) = self.host(host).interfaces.get(&link) else { return };
        if interface.virtual_up != Some(true) {
            return self.count_loss(host, "virtual interface down");
        }
        if packet.len() > usize::try_from(interface.mtu).unwrap_or(usize::MAX) {
            return self.count_loss(host, "too big for the virtual link");
        }
        let source = interface.address;
        let group = || Header::parse(&packet).map_or(BROADCAST, |header| multicast_address(header.destination));
        let destination = to.unwrap_or_else(group);
        let frame = roam6_proto::Frame { link, source, destination, ethertype: ETHERTYPE_IPV6, bytes: packet };
        self.handle(host, &Input::Frame(frame));
    }

    /// The engine has created a virtual interface, or changed it.
    pub(crate) fn virtual_created(&mut self, host: HostId, name: &str, at: Time) {
        let instance = self.host(host).instances;
        let Some(link) = self.virtual_interface(host, name) else { return };
        self.enqueue(at, Scheduled::VirtualInterface { host, instance, link });
    }

    /// The state of a virtual interface has changed: its address and MTU are those of the engine's item.
    pub(crate) fn virtual_changed(&mut self, host: HostId, instance: u32, link: LinkId) {
        let id = host;
        let host = self.host_mut(id);
        let Some(interface) = host.interfaces.get_mut(&link).filter(|_| host.instances == instance) else { return };
        let key = Key::VirtualInterface(interface.name.clone());
        let Some(Item::VirtualInterface(item)) = host.kernel.plan().find(&key).cloned() else { return };
        let before = interface.address.link_local();
        (interface.address, interface.mtu, interface.virtual_up) = (item.address, item.mtu, Some(true));
        host.kernel.remove_static(&Key::Address(link, before));
        let address = address_item(link, item.address.link_local(), 128);
        host.kernel.add_static(address);
        self.announce_link(id, link);
        let host = self.host(id);
        let addresses = if host.reports_addresses { host.kernel.addresses(link) } else { Vec::new() };
        for address in addresses {
            self.report_address(id, (link, address), AddressState::Preferred);
        }
    }

    /// Removes a virtual interface, because the engine dropped it or its process ended.
    pub(crate) fn virtual_removed(&mut self, host: HostId, name: &str) {
        let Some(link) = self.virtual_interface(host, name) else { return };
        let host_state = self.host_mut(host);
        host_state.neighbours.forget(link);
        if let Some(interface) = host_state.interfaces.get_mut(&link) {
            interface.virtual_up = Some(false);
        }
        self.announce_link(host, link);
    }

    /// Virtual interfaces end with the process of their engine.
    pub(crate) fn remove_virtual_interfaces(&mut self, host: HostId) {
        let interfaces = self.host(host).interfaces.values();
        let names: Vec<String> =
            interfaces.filter(|it| it.virtual_up == Some(true)).map(|it| it.name.clone()).collect();
        for name in names {
            self.host_mut(host).kernel.drop(&Key::VirtualInterface(name.clone()));
            self.virtual_removed(host, &name);
        }
    }

    fn virtual_interface(&self, host: HostId, name: &str) -> Option<LinkId> {
        let mut interfaces = self.host(host).interfaces.iter();
        interfaces.find(|(_, it)| it.name == name && it.virtual_up.is_some()).map(|(link, _)| *link)
    }

    /// Neighbour discovery on a virtual link fills the neighbour cache (RFC 4861 §7.2.3, §7.2.5).
    pub(crate) fn learn_neighbours(
        &mut self,
        (host, link): Port,
        sender: Option<LinkAddress>,
        header: &Header,
        packet: &[u8],
    ) {
        let Some(sender) = sender.filter(|_| self.host(host).is_virtual(link)) else { return };
        let target = match datagram::parse_icmp6(packet) {
            Some(Message::NeighbourAdvertisement(message)) => Some(message.target),
            Some(
                Message::NeighbourSolicitation(_) | Message::RouterSolicitation(_) | Message::RouterAdvertisement(_),
            ) => None,
            _ => return,
        };
        let source = Some(header.source).filter(|source| !source.is_unspecified());
        for address in [source, target].into_iter().flatten() {
            for packet in self.host_mut(host).neighbours.learn(link, address, sender) {
                self.send_to_next_hop((host, link), address, packet);
            }
        }
    }

    /// Transmits a frame on a radio channel.
    pub(crate) fn send_on_channel(&mut self, medium: MediumId, from: Port, frame: &Frame) -> bool {
        let now = self.now();
        let of_address = |port: &Port| frame.destination.is_some_and(|to| self.receives(*port, to, frame));
        let to = self.medium(medium).members().find(of_address);
        let state = self.medium_mut(medium);
        let usable = state.carrier && !state.black_hole;
        let Some(channel) = state.channel.as_mut().filter(|_| usable) else { return false };
        let audience = match frame.destination {
            None => Audience::Broadcast,
            Some(_) => Audience::Unicast(to.and_then(|to| channel.station(to))),
        };
        let sent = channel.send(now, from, audience, frame.clone());
        self.schedule_channel(medium);
        sent
    }

    /// Whether an interface receives frames for a link-layer address.
    fn receives(&self, (host, link): Port, address: LinkAddress, frame: &Frame) -> bool {
        let own = self.host(host).interfaces.get(&link).is_some_and(|interface| interface.address == address);
        own || self.host(host).kernel.subscription(link, frame.ethertype).flatten() == Some(address)
    }

    /// An event of a radio channel is due.
    pub(crate) fn radio_event(&mut self, medium: MediumId) {
        let now = self.now();
        let Some(channel) = &mut self.medium_mut(medium).channel else { return };
        channel.event_handled(now);
        for (port, frame) in channel.receive(now) {
            self.arrive(port, medium, &frame);
        }
        self.schedule_channel(medium);
    }

    fn schedule_channel(&mut self, medium: MediumId) {
        let now = self.now();
        let next = self.medium_mut(medium).channel.as_mut().and_then(|channel| channel.next_event(now));
        if let Some(at) = next {
            self.enqueue(at, Scheduled::Radio { medium });
        }
    }

    /// Position fixes begin with the engine, if its host has a track.
    pub(crate) fn schedule_fix(&mut self, host: HostId) {
        if self.host(host).track.is_some() {
            let instance = self.host(host).instances;
            let at = self.now() + Duration::from_micros(self.entropy.below(1_000_000));
            self.enqueue(at, Scheduled::Fix { host, instance });
        }
    }

    /// The receiver of a host reports its position.
    pub(crate) fn fix_due(&mut self, host: HostId, instance: u32) {
        let state = self.host(host);
        if state.instances == instance && state.instance.is_some() {
            self.report_fix(host);
            self.enqueue(self.now() + FIX_INTERVAL, Scheduled::Fix { host, instance });
        }
    }

    /// Reports the position of a host to its engine.
    pub(crate) fn report_fix(&mut self, host: HostId) {
        let now = self.now();
        let track = self.host(host).track();
        let Velocity { speed, heading } = track.motion(now);
        let place = Plane::at(ORIGIN).place(track.at(now));
        // Casts of floats saturate.
        let (speed, heading) = ((speed * 100.0) as i16, (heading * 10.0) as u16 % 3600);
        self.handle(host, &Input::Fix(Some(Fix { place, uncertainty: Some(2), speed, heading })));
    }
}

/// The link-layer address of a multicast group (RFC 2464 §7).
fn multicast_address(group: Ipv6Addr) -> LinkAddress {
    let [.., a, b, c, d] = group.octets();
    LinkAddress([0x33, 0x33, a, b, c, d])
}
