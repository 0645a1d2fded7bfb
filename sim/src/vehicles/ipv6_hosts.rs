//! Stations in a row, with IPv6 hosts behind four virtual links each: hosts solicit one another and exchange echo
//! packets on every link, with link-local and global addresses (EN 302 636-6-1 §8.2.2). A reply arrives on the link of
//! its request; a request to a global address arrives on the link with that address.

use super::world::{LINK, address, owner};
use crate::failure::WorldFamily;
use crate::net::radio::{Audience, Radio, RadioSpec, StationId};
use crate::net::track::Track;
use crate::run::SeededWorld;
use core::time::Duration;
use roam6_proto::contract::config::geo::LinkScope;
use roam6_proto::contract::config::geo::{AreaForwarding, GeoConfig, Mib, VirtualLink};
use roam6_proto::contract::input::{AddressEvent, AddressState};
use roam6_proto::geo::GeoStation;
use roam6_proto::geo::geometry::{Offset, Plane};
use roam6_proto::geo::router::BROADCAST;
use roam6_proto::{Clock, Engine, Entropy, Fix, Frame, Input, LinkEvent, LinkId, Outbox, Output, Time};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, Coordinates, ItsStationType};
use roam6_wire::icmp6::{Message, NeighbourAdvertisement, NeighbourSolicitation};
use roam6_wire::ip6::{Datagram, protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::rc::Rc;

/// Virtual links of each station, the first of them, and the EtherType of IPv6.
const LINKS: u32 = 4;
const FIRST: u32 = 10;
const IPV6: u16 = 0x86dd;
/// Octets of an Ethernet header.
const HEADER: usize = 14;
/// Exchanges in each world, and the time of each.
const EXCHANGES: u64 = 24;
const TRANSIT: Duration = Duration::from_secs(2);
/// Communication range, metres.
const RANGE: f64 = 300.0;
const MIDDLE: Coordinates = Coordinates { latitude: 480_000_000, longitude: 110_000_000 };
const WALL_AT_START: u64 = 1_767_225_600_000_000;

/// An echo exchange on a link.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    number: u64,
    from: StationId,
    to: StationId,
    link: u32,
    global: bool,
}

/// A road of stations with IPv6 hosts.
pub struct Ipv6HostWorld {
    verbose: bool,
    now: Time,
    radio: Radio<Rc<Frame>>,
    hosts: BTreeMap<StationId, Ipv6Host>,
    entropy: Entropy,
}

struct Ipv6Host {
    id: StationId,
    station: GeoStation,
    /// Link-layer addresses of neighbours, by link and address.
    neighbours: BTreeMap<(LinkId, Ipv6Addr), LinkAddress>,
    /// Numbers of received requests and replies, with their link.
    requests: BTreeSet<(u64, LinkId)>,
    answers: BTreeSet<(u64, LinkId)>,
}

fn link_local(id: StationId) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(id.0))
}

fn global(id: StationId, link: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(link) << 64 | u128::from(id.0))
}

fn everybody(group: Ipv6Addr) -> LinkAddress {
    let [.., a, b, c, d] = group.octets();
    LinkAddress([0x33, 0x33, a, b, c, d])
}

/// Builds a packet.
fn packet(protocol: u8, source: Ipv6Addr, destination: Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap_or(u8::MAX);
    [&[0x60, 0, 0, 0, 0, length, protocol, 255], &source.octets()[..], &destination.octets(), payload].concat()
}

impl SeededWorld for Ipv6HostWorld {
    const FAMILY: WorldFamily = WorldFamily { name: "virtual link world", replay: "virtual-links" };
    /// The number of completed exchanges.
    type Result = u64;

    fn generate(seed: u64, verbose: bool) -> Ipv6HostWorld {
        let mut entropy = Entropy::seed_from_u64(seed ^ 0x1b6);
        let spec = RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::default() };
        let (radio, hosts) = (Radio::new(spec, seed), BTreeMap::new());
        let mut world = Ipv6HostWorld { verbose, now: Time::from_micros(1), radio, hosts, entropy: entropy.fork() };
        let mut east = 0.0;
        for number in 1..=3 + entropy.below(3) {
            let id = StationId(u32::try_from(number).unwrap_or(1));
            world.add(id, Offset { east, north: 0.0 });
            east += 60.0 + entropy.below(220) as f64;
        }
        world
    }

    fn now(&self) -> Time {
        self.now
    }

    fn run(&mut self) -> Result<u64, String> {
        self.advance(Duration::from_secs(5));
        for number in 0..EXCHANGES {
            let exchange = self.choose(number);
            if self.verbose {
                println!("{} {exchange:?}", self.now);
            }
            self.exchange(exchange)?;
        }
        Ok(EXCHANGES)
    }
}

impl Ipv6HostWorld {
    fn add(&mut self, id: StationId, place: Offset) {
        let area = |radius| LinkScope::Area(Area::circle(MIDDLE, radius));
        let reaches = [area(1_700), area(1_600), LinkScope::Around(1_500), LinkScope::Hops(5)];
        let link = |(number, reach)| VirtualLink {
            name: format!("gn{number}"),
            reach,
            class: VirtualLink::CLASS,
            lifetime: None,
        };
        let config = GeoConfig {
            interfaces: ["radio0".to_owned()].into(),
            station: ItsStationType::PASSENGER_CAR,
            virtual_links: (0..).zip(reaches).map(link).collect(),
            facilities: None,
            mib: Mib { in_area: AreaForwarding::Simple, ..Mib::default() },
        };
        let station = GeoStation::new(config, self.entropy.fork());
        let (neighbours, requests, answers) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        self.radio.put(id, Track::standing(place));
        self.hosts.insert(id, Ipv6Host { id, station, neighbours, requests, answers });
        let event = |link: u32, name: String| {
            Input::Link(LinkEvent { link: LinkId(link), name, address: Some(address(id)), up: true, mtu: 1500 })
        };
        self.feed(id, &Input::Clock(Clock { unix_micros: WALL_AT_START + self.now.as_micros() }));
        self.feed(id, &event(LINK.0, "radio0".to_owned()));
        for number in 0..LINKS {
            let link = LinkId(FIRST + number);
            self.feed(id, &event(link.0, format!("gn{number}")));
            for address in [link_local(id), global(id, number)] {
                self.feed(id, &Input::Address(AddressEvent { link, address, state: AddressState::Preferred }));
            }
        }
        let place = Plane::at(MIDDLE).place(place);
        self.feed(id, &Input::Fix(Some(Fix { place, uncertainty: Some(2), speed: 0, heading: 0 })));
    }

    fn choose(&mut self, number: u64) -> Exchange {
        let count = self.hosts.len() as u64;
        let from = self.entropy.below(count);
        let to = (from + 1 + self.entropy.below(count - 1)) % count;
        let id = |number: u64| StationId(u32::try_from(number + 1).unwrap_or(1));
        let link = u32::try_from(self.entropy.below(LINKS.into())).unwrap_or(0);
        Exchange { number, from: id(from), to: id(to), link, global: self.entropy.below(2) == 0 }
    }

    /// Resolves the neighbour on the link if necessary, sends an echo request, and checks the links of request and
    /// reply.
    fn exchange(&mut self, exchange: Exchange) -> Result<(), String> {
        let Exchange { number, from, to, link, global: is_global } = exchange;
        let of = |id| if is_global { global(id, link) } else { link_local(id) };
        let (link, source, target) = (LinkId(FIRST + link), of(from), of(to));
        if self.neighbour(from, link, target).is_none() {
            let group = Ipv6Addr::from_bits(0xff02 << 112 | 0x1_ff00_0000 | target.to_bits() & 0xff_ffff);
            let message = Message::NeighbourSolicitation(NeighbourSolicitation { target, options: Vec::new() });
            let bytes = packet(protocol::ICMPV6, source, group, &message.emit(source, group));
            self.host_sends(from, link, everybody(group), bytes);
            self.advance(TRANSIT);
        }
        let neighbour = self.neighbour(from, link, target).ok_or(format!("no advertisement: {exchange:?}"))?;
        let bytes = packet(protocol::UDP, source, target, &[&[0][..], &number.to_be_bytes()].concat());
        self.host_sends(from, link, neighbour, bytes);
        self.advance(TRANSIT);
        let came = |of: fn(&Ipv6Host) -> &BTreeSet<(u64, LinkId)>, id| -> Vec<LinkId> {
            let all = self.hosts.get(&id).into_iter().flat_map(of);
            all.filter(|(came, _)| *came == number).map(|(_, link)| *link).collect()
        };
        let (requests, answers) = (came(|host| &host.requests, to), came(|host| &host.answers, from));
        if is_global && requests != [link] {
            return Err(format!("{exchange:?} came up on {requests:?}"));
        }
        if answers == [link] { Ok(()) } else { Err(format!("the answer to {exchange:?} came up on {answers:?}")) }
    }

    fn neighbour(&self, id: StationId, link: LinkId, target: Ipv6Addr) -> Option<LinkAddress> {
        self.hosts.get(&id)?.neighbours.get(&(link, target)).copied()
    }

    fn host_sends(&mut self, id: StationId, link: LinkId, destination: LinkAddress, bytes: Vec<u8>) {
        let frame = Frame { link, source: address(id), destination, ethertype: IPV6, bytes };
        self.feed(id, &Input::Frame(frame));
    }

    fn advance(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let station = self.hosts.values().filter_map(|host| Some((host.station.deadline()?, host.id))).min();
            let next = [self.radio.deadline(), station.map(|(at, _)| at)].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if let Some(reception) = self.radio.expire(self.now) {
                for id in reception.receivers {
                    self.feed(id, &Input::Frame(Frame::clone(&reception.frame)));
                }
            } else if let Some((at, id)) = station
                && at <= self.now
            {
                self.feed(id, &Input::Tick);
            }
        }
        self.now = end;
    }

    /// Hands an input to a station; its frames go to the radio or to its host.
    fn feed(&mut self, id: StationId, input: &Input) {
        let Some(host) = self.hosts.get_mut(&id) else { return };
        let mut out = Outbox::new();
        host.station.handle(self.now, input, &mut out);
        let frames: Vec<Frame> = out
            .drain()
            .filter_map(|output| if let Output::Frame(frame) = output { Some(frame) } else { None })
            .collect();
        for frame in frames {
            if frame.link == LINK {
                self.send(id, frame);
            } else if let Some((link, to, bytes)) = self.hosts.get_mut(&id).and_then(|host| host.receive(&frame)) {
                self.host_sends(id, link, to, bytes);
            }
        }
    }

    fn send(&mut self, id: StationId, frame: Frame) {
        let to = frame.destination;
        let audience = if to == BROADCAST { Audience::Broadcast } else { Audience::Unicast(owner(to)) };
        self.radio.offer(self.now, id, audience, HEADER + frame.bytes.len(), Rc::new(frame));
    }
}

impl Ipv6Host {
    /// Receives a frame of a virtual link; returns the reply, its link and destination.
    fn receive(&mut self, frame: &Frame) -> Option<(LinkId, LinkAddress, Vec<u8>)> {
        let (link, sender) = (frame.link, frame.source);
        let datagram = Datagram::parse(&frame.bytes).ok()?;
        let (source, destination) = (datagram.source, datagram.destination);
        match datagram.protocol {
            protocol::ICMPV6 => match Message::parse(&datagram).ok()? {
                Message::NeighbourSolicitation(message) if self.has(link, message.target) => {
                    let target = message.target;
                    let (router, solicited, overrides, options) = (false, true, true, Vec::new());
                    let message = NeighbourAdvertisement { router, solicited, overrides, target, options };
                    let payload = Message::NeighbourAdvertisement(message).emit(target, source);
                    Some((link, sender, packet(protocol::ICMPV6, target, source, &payload)))
                }
                Message::NeighbourAdvertisement(message) => {
                    self.neighbours.insert((link, message.target), sender);
                    None
                }
                _ => None,
            },
            protocol::UDP => {
                let (kind, number) = datagram.payload.split_first()?;
                let number = u64::from_be_bytes(*number.first_chunk()?);
                if *kind == 1 {
                    self.answers.insert((number, link));
                    return None;
                }
                self.requests.insert((number, link));
                let payload = [&[1][..], &number.to_be_bytes()].concat();
                Some((link, sender, packet(protocol::UDP, destination, source, &payload)))
            }
            _ => None,
        }
    }

    fn has(&self, link: LinkId, target: Ipv6Addr) -> bool {
        target == link_local(self.id) || target == global(self.id, link.0.wrapping_sub(FIRST))
    }
}
