//! Network interfaces in rtnetlink: the attributes that roam6 reads, and changes to them.

use super::attribute::{NESTED, attribute, find, text_attribute, text_of, u32_of};
use super::message::Message;
use netlink_packet_core::{Emitable, NlaBuffer, NlasIterator};
use roam6_proto::base::ids::LinkId;
use roam6_proto::contract::input::{LinkEvent, TrafficCount};
use roam6_wire::LinkAddress;

/// Octets of `struct ifinfomsg` of rtnetlink(7).
const HEAD: usize = 16;
/// Attributes nested in `IFLA_LINKINFO`.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
/// Up, with a carrier: a cable is plugged in, a network is joined.
const SERVES: u32 = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;

/// Positions of counters of packets that were not sent.
const TX_ERRORS: usize = 5;
const TX_DROPPED: usize = 7;

/// An interface as the kernel shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// As in `ip link add type KIND`; empty for others.
    pub(crate) kind: String,
    /// Traffic received and sent.
    pub(crate) traffic: (TrafficCount, TrafficCount),
    /// Packets that it could not send, and those that it dropped instead.
    #[cfg_attr(not(feature = "bpf"), allow(dead_code, reason = "devices that encrypt are counted"))]
    pub(crate) unsent: u64,
    /// How often it lost its carrier.
    pub(crate) carrier_losses: u32,
    /// Type of its link layer (ARPHRD_*).
    pub(crate) hardware: u16,
    /// Index of the interface that it was made on; 0 for none.
    #[cfg_attr(not(feature = "bpf"), allow(dead_code, reason = "devices that encrypt are bound to uplinks"))]
    pub(crate) parent: u32,
    /// Index of the bridge or bond that it belongs to; 0 for none.
    pub(crate) master: u32,
    pub(crate) family: u8,
    /// As in netdevice(7), IFF_*.
    pub(crate) flags: u32,
    pub(crate) mtu: u32,
    pub(crate) address: Option<LinkAddress>,
}

impl Link {
    /// Reads the body of a message; `None` if it is damaged.
    pub(super) fn read(octets: &[u8]) -> Option<Link> {
        let [family, _, hardware @ .., i0, i1, i2, i3, f0, f1, f2, f3] = octets.first_chunk::<{ HEAD - 4 }>()?;
        let mut link = Link {
            index: u32::from_ne_bytes([*i0, *i1, *i2, *i3]),
            family: *family,
            hardware: u16::from_ne_bytes(*hardware),
            flags: u32::from_ne_bytes([*f0, *f1, *f2, *f3]),
            ..Link::default()
        };
        for attribute in NlasIterator::new(octets.get(HEAD..)?) {
            link.note(&attribute.ok()?);
        }
        Some(link)
    }

    fn note(&mut self, attribute: &NlaBuffer<&[u8]>) {
        let value = attribute.value();
        match attribute.kind() {
            libc::IFLA_IFNAME => self.name = text_of(value),
            libc::IFLA_MASTER => self.master = u32_of(value).unwrap_or_default(),
            libc::IFLA_LINK => self.parent = u32_of(value).unwrap_or_default(),
            libc::IFLA_MTU => self.mtu = u32_of(value).unwrap_or_default(),
            libc::IFLA_ADDRESS => self.address = <[u8; 6]>::try_from(value).ok().map(LinkAddress),
            libc::IFLA_CARRIER_DOWN_COUNT => self.carrier_losses = u32_of(value).unwrap_or_default(),
            libc::IFLA_LINKINFO => self.kind = find(value, IFLA_INFO_KIND).map(text_of).unwrap_or_default(),
            libc::IFLA_STATS64 => {
                self.traffic = traffic(value).unwrap_or_default();
                self.unsent = numbers(value).skip(TX_ERRORS).step_by(TX_DROPPED - TX_ERRORS).take(2).sum();
            }
            _ => {}
        }
    }

    /// Whether its packets have an Ethernet header.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code))]
    pub(crate) fn is_ethernet(&self) -> bool {
        self.hardware == libc::ARPHRD_ETHER
    }

    /// Its event; `None` for messages about something other than the interface itself.
    pub(crate) fn event(&self) -> Option<LinkEvent> {
        let event = LinkEvent {
            link: LinkId(self.index),
            name: self.name.clone(),
            address: self.address,
            up: self.flags & SERVES == SERVES,
            mtu: self.mtu,
        };
        (self.family == libc::AF_UNSPEC as u8 && !self.name.is_empty()).then_some(event)
    }
}

/// The first four numbers of `struct rtnl_link_stats64`: packets received and sent, octets received and sent.
fn traffic(value: &[u8]) -> Option<(TrafficCount, TrafficCount)> {
    let mut numbers = numbers(value);
    let (received, sent) = (numbers.next()?, numbers.next()?);
    let count = |packets, octets| TrafficCount { packets, octets };
    Some((count(received, numbers.next()?), count(sent, numbers.next()?)))
}

/// The counters of an interface (`struct rtnl_link_stats64`).
fn numbers(value: &[u8]) -> impl Iterator<Item = u64> {
    value.chunks_exact(8).map_while(|number| Some(u64::from_ne_bytes(number.try_into().ok()?)))
}

/// A change of an interface, or a new one.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkChange {
    /// 0 for a new interface.
    index: u32,
    up: Option<bool>,
    attributes: Vec<u8>,
}

impl LinkChange {
    /// A change of an existing interface.
    pub(crate) fn of(index: u32) -> LinkChange {
        LinkChange { index, ..LinkChange::default() }
    }

    /// A new interface, or the other end of a pair.
    pub(crate) fn named(name: &str) -> LinkChange {
        LinkChange { attributes: text_attribute(libc::IFLA_IFNAME, name), ..LinkChange::default() }
    }

    /// Sets it up.
    pub(crate) fn up(self) -> LinkChange {
        LinkChange { up: Some(true), ..self }
    }

    /// Sets it down.
    pub(crate) fn down(self) -> LinkChange {
        LinkChange { up: Some(false), ..self }
    }

    /// Sets its MTU, octets.
    pub(crate) fn mtu(self, mtu: u32) -> LinkChange {
        self.with(libc::IFLA_MTU, &mtu.to_ne_bytes())
    }

    /// Sets its kind and the parameters of that kind, which are encoded attributes.
    pub(crate) fn kind(self, kind: &str, parameters: &[u8]) -> LinkChange {
        let mut info = text_attribute(IFLA_INFO_KIND, kind);
        if !parameters.is_empty() {
            info.extend(attribute(IFLA_INFO_DATA | NESTED, parameters));
        }
        self.with(libc::IFLA_LINKINFO | NESTED, &info)
    }

    /// Sets any other attribute (`IFLA_*`).
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> LinkChange {
        self.attributes.extend(attribute(kind, value));
        self
    }

    /// `struct ifinfomsg` and attributes.
    pub(crate) fn octets(&self) -> Vec<u8> {
        let up = |is_set: bool| if is_set { (libc::IFF_UP as u32).to_ne_bytes() } else { [0; 4] };
        let (flags, mask) = (up(self.up == Some(true)), up(self.up.is_some()));
        [&[0; 4][..], &self.index.to_ne_bytes(), &flags, &mask, &self.attributes].concat()
    }
}

impl Emitable for LinkChange {
    fn buffer_len(&self) -> usize {
        HEAD + self.attributes.len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.octets());
    }
}

/// Dumps all interfaces.
pub(crate) fn dump() -> Message {
    Message::new(libc::RTM_GETLINK, &LinkChange::default())
}

/// Requests one interface.
pub(crate) fn get(link: LinkId) -> Message {
    Message::new(libc::RTM_GETLINK, &LinkChange::of(link.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_change_round_trips() {
        let change = LinkChange::of(7).up().mtu(1400).kind("ip6tnl", &[]).with(libc::IFLA_IFNAME, b"nemo0\0");
        let link = Link::read(&change.octets()).unwrap();
        assert_eq!((link.index, &*link.name, &*link.kind), (7, "nemo0", "ip6tnl"));
        let event = link.event().unwrap();
        assert_eq!((event.mtu, event.up, event.address), (1400, false, None), "its lower layer is not up");
    }

    #[test]
    fn traffic_is_read_from_the_first_counters() {
        let statistics: Vec<u8> = (1..=24_u64).flat_map(|number| (number << 33).to_ne_bytes()).collect();
        let change = LinkChange::of(7).with(libc::IFLA_STATS64, &statistics);
        let (received, sent) = Link::read(&change.octets()).unwrap().traffic;
        assert_eq!((received.packets, received.octets), (1 << 33, 3 << 33));
        assert_eq!((sent.packets, sent.octets), (2 << 33, 4 << 33));
        assert_eq!(Link::read(&change.octets()).unwrap().unsent, (6 + 8) << 33, "errors and drops");
        let short = LinkChange::of(7).with(libc::IFLA_STATS64, statistics.get(..31).unwrap());
        assert_eq!(Link::read(&short.octets()).unwrap().traffic, Default::default());
    }

    #[test]
    fn damaged_link_message_is_refused() {
        let octets = LinkChange::named("nemo0").octets();
        // The last two octets are padding.
        for length in 0..octets.len() - 2 {
            assert!(Link::read(octets.get(..length).unwrap()).is_none_or(|link| link.name.is_empty()), "{length}");
        }
    }
}
