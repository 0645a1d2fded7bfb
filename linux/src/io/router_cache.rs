//! Link-layer addresses of routers, from their Router Advertisements. roam6 keeps the kernel from processing these, so
//! that the kernel has no neighbour entry for a new router (RFC 4861 §6.3.4); it makes one when it sends the first packet,
//! and refuses that packet with EINVAL if it cannot, as while its neighbour table is full.

use roam6_proto::{LinkId, Packet};
use roam6_wire::LinkAddress;
use roam6_wire::icmp6::{ON_LINK_HOP_LIMIT, kind};
use roam6_wire::ip6::protocol;
use std::collections::VecDeque;
use std::net::Ipv6Addr;

/// Most routers; a further one replaces the one that has been silent for the longest time.
const MAX_ROUTERS: usize = 16;
/// Octets of an IPv6 header.
const HEADER: usize = 40;

/// The routers heard, the latest last.
#[derive(Debug, Default)]
pub(crate) struct RouterCache(VecDeque<(LinkId, Ipv6Addr, LinkAddress)>);

impl RouterCache {
    /// Notes the sender if the packet is a Router Advertisement (RFC 4861 §6.1.2).
    pub(crate) fn note(&mut self, packet: &Packet) {
        let octet = |index: usize| packet.bytes.get(index).copied();
        let is_advertisement = octet(6) == Some(protocol::ICMPV6)
            && octet(7) == Some(ON_LINK_HOP_LIMIT)
            && octet(HEADER) == Some(kind::ROUTER_ADVERTISEMENT);
        let source = packet.bytes.get(8..).and_then(<[u8]>::first_chunk::<16>).map(|octets| Ipv6Addr::from(*octets));
        let router = source.filter(|source| is_advertisement && source.is_unicast_link_local());
        let Some((router, address)) = router.zip(packet.sender) else { return };
        self.0.retain(|(link, known, _)| (*link, *known) != (packet.link, router));
        if self.0.len() >= MAX_ROUTERS {
            self.0.pop_front();
        }
        self.0.push_back((packet.link, router, address));
    }

    /// The link-layer address of a router.
    pub(crate) fn find(&self, link: LinkId, router: Ipv6Addr) -> Option<LinkAddress> {
        self.0.iter().find(|(on, known, _)| (*on, *known) == (link, router)).map(|(.., address)| *address)
    }

    /// Forgets the routers of a link that was left.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.0.retain(|(on, ..)| *on != link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::icmp6::{ALL_NODES, Message, RouterAdvertisement};
    use roam6_wire::ip6::{self, Header};

    const LINK: LinkId = LinkId(2);

    fn router(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last)
    }

    fn advertisement(source: Ipv6Addr, hop_limit: u8, sender: u8) -> Packet {
        let message = Message::RouterAdvertisement(RouterAdvertisement::default());
        let header = Header::new(source, ALL_NODES).with_hop_limit(hop_limit);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, ALL_NODES));
        Packet { link: LINK, sender: Some(LinkAddress([2, 0, 0, 0, 0, sender])), bytes }
    }

    #[test]
    fn routers_are_known_by_their_advertisements() {
        let mut cache = RouterCache::default();
        let known = |cache: &RouterCache| cache.find(LINK, router(1)).map(|address| address.0[5]);
        let mut cut = advertisement(router(1), 255, 7);
        cut.bytes.truncate(HEADER);
        let global = advertisement("2001:db8::1".parse().unwrap(), 255, 7);
        for packet in [advertisement(router(1), 254, 7), global, cut] {
            cache.note(&packet);
        }
        assert!(cache.0.is_empty());
        cache.note(&advertisement(router(1), 255, 7));
        assert_eq!(known(&cache), Some(7));
        cache.note(&advertisement(router(1), 255, 8));
        assert_eq!((known(&cache), cache.0.len()), (Some(8), 1), "it has another link-layer address now");
        assert_eq!(cache.find(LinkId(3), router(1)), None);
        for last in 2..1000 {
            cache.note(&advertisement(router(last), 255, 9));
        }
        assert_eq!((cache.0.len(), known(&cache)), (MAX_ROUTERS, None), "bounded");
        cache.forget(LINK);
        assert!(cache.0.is_empty());
    }
}
