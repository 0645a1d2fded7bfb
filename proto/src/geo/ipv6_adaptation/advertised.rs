//! Virtual links created from Router Advertisements (EN 302 636-6-1: an SGVL whose area is that of a GeoBroadcast packet
//! with an advertisement). Such a link exists for as long as one of its routers is a default router, and while this station
//! is in the area.

use super::{IPV6, Ipv6Adaptation, VirtualLinkState, multicast_address};
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::{LinkScope, VirtualLink};
use crate::contract::input::Frame;
use crate::geo::geometry;
use crate::geo::multicast_listeners::MulticastListeners;
use core::net::Ipv6Addr;
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{Area, Coordinates, ExtendedHeader, Packet, UpperProtocol};
use roam6_wire::icmp6::Message;
use roam6_wire::ip6::{Datagram, protocol};

/// Routers remembered for each link, at most.
const MAX_ROUTERS: usize = 8;
/// A link is removed once this station has been outside its area for so long: a position is not exact.
const OUTSIDE: Duration = Duration::from_secs(5);

/// The state of a virtual link that Router Advertisements have created.
#[derive(Debug)]
pub(super) struct AdvertisedLink {
    /// Its routers, by their link-layer addresses, and until when each is a default router.
    routers: VecMap<LinkAddress, Time>,
    /// The advertisement that has created it, until its interface exists.
    held: Option<Frame>,
    /// Since when this station is outside the area.
    outside_since: Option<Time>,
}

/// What an advertisement changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdvertisementEffect {
    /// No virtual link.
    None,
    /// A virtual link was created for the area; the packet is delivered once its interface exists.
    Created,
    /// The last router of the area withdraws: [`Ipv6Adaptation::expire_links`] removes the link.
    Withdrawn,
    /// A link for the area is wanted, and as many exist as may.
    Refused,
}

impl Ipv6Adaptation {
    /// Receives a packet that may carry a Router Advertisement for an area.
    pub fn receive_advertisement(&mut self, now: Time, packet: &Packet<'_>, own: LinkAddress) -> AdvertisementEffect {
        if self.max_advertised == 0 {
            return AdvertisementEffect::None;
        }
        let Some((area, lifetime)) = advertisement(packet) else { return AdvertisementEffect::None };
        let router = packet.extended.source().address.mid;
        let known = self.links.iter_mut().find(|known| known.config.reach == LinkScope::Area(area));
        let Some(known) = known else {
            if lifetime.is_zero() {
                return AdvertisementEffect::None;
            }
            return self.create_link(now, packet, (area, lifetime), own);
        };
        let Some(advertised) = &mut known.advertised else { return AdvertisementEffect::None };
        if lifetime.is_zero() {
            advertised.routers.remove(&router);
            let is_last = advertised.routers.is_empty();
            return if is_last { AdvertisementEffect::Withdrawn } else { AdvertisementEffect::None };
        }
        if advertised.routers.len() < MAX_ROUTERS || advertised.routers.contains_key(&router) {
            advertised.routers.insert(router, now + lifetime);
        }
        AdvertisementEffect::None
    }

    fn create_link(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        (area, lifetime): (Area, Duration),
        own: LinkAddress,
    ) -> AdvertisementEffect {
        let advertised = self.links.iter().filter(|known| known.advertised.is_some()).count();
        let name = (0..self.max_advertised).map(VirtualLink::advertised_name).find(|name| self.is_free(name));
        let Some(name) = name.filter(|_| advertised < self.max_advertised) else { return AdvertisementEffect::Refused };
        let source = packet.extended.source().address.mid;
        let destination = destination(packet.payload).map_or(own, multicast_address);
        // The link is set once its interface exists.
        let held = Frame { link: LinkId(0), source, destination, ethertype: IPV6, bytes: packet.payload.to_vec() };
        let routers = [(source, now + lifetime)].into_iter().collect();
        self.links.push(VirtualLinkState {
            config: VirtualLink::new(name, LinkScope::Area(area)),
            link: None,
            listeners: MulticastListeners::default(),
            advertised: Some(AdvertisedLink { routers, held: Some(held), outside_since: None }),
        });
        AdvertisementEffect::Created
    }

    fn is_free(&self, name: &str) -> bool {
        self.links.iter().all(|known| known.config.name != name)
    }

    /// The advertisement that has created the link of this interface, once.
    pub fn take_held(&mut self, link: LinkId) -> Option<Frame> {
        let known = self.links.iter_mut().find(|known| known.link == Some(link))?;
        let held = known.advertised.as_mut()?.held.take()?;
        Some(Frame { link, ..held })
    }

    /// Removes the links that no router serves any more, or whose area this station has left; returns their names.
    pub fn expire_links(&mut self, now: Time, here: Option<Coordinates>) -> Vec<String> {
        let mut removed = Vec::new();
        self.links.retain_mut(|known| {
            let (LinkScope::Area(area), Some(advertised)) = (known.config.reach, &mut known.advertised) else {
                return true;
            };
            advertised.routers.retain(|_, until| *until > now);
            let is_outside = here.is_some_and(|here| !geometry::contains(&area, here));
            advertised.outside_since = is_outside.then(|| advertised.outside_since.unwrap_or(now));
            let has_left = advertised.outside_since.is_some_and(|since| now.since(since) >= OUTSIDE);
            let stays = !advertised.routers.is_empty() && !has_left;
            if !stays {
                removed.push(known.config.name.clone());
            }
            stays
        });
        removed
    }

    /// When [`Ipv6Adaptation::expire_links`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let advertised = self.links.iter().filter_map(|known| known.advertised.as_ref());
        let ends = advertised.flat_map(|link| {
            let outside = link.outside_since.map(|since| since + OUTSIDE);
            link.routers.values().copied().chain(outside)
        });
        ends.min()
    }
}

/// The area and the router lifetime of a valid Router Advertisement that was broadcast in an area.
fn advertisement(packet: &Packet<'_>) -> Option<(Area, Duration)> {
    let ExtendedHeader::GeoBroadcast { area, .. } = packet.extended else { return None };
    if packet.upper_protocol != UpperProtocol::Ipv6 {
        return None;
    }
    let datagram = Datagram::parse(packet.payload).ok().filter(|datagram| datagram.protocol == protocol::ICMPV6)?;
    let message = Message::parse(&datagram).ok()?;
    message.check_on_link(&datagram).ok()?;
    match message {
        Message::RouterAdvertisement(advertised) => Some((area, Duration::from_secs(u64::from(advertised.lifetime)))),
        _ => None,
    }
}

fn destination(payload: &[u8]) -> Option<Ipv6Addr> {
    super::destination(payload).filter(Ipv6Addr::is_multicast)
}
