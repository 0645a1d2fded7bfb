//! Packets of the host with an address of a former pseudonym. The addresses on a virtual link are made from the GeoNetworking
//! address (EN 302 636-6-1 §9.2.1). Until the host has the new ones and the binding is updated, the host sends packets with
//! the former ones, which in frames with the new pseudonym would link both (TS 102 940 §6).

use super::ipv6_adaptation::IPV6;
use crate::contract::input::Frame;
use roam6_wire::LinkAddress;
use std::collections::VecDeque;
use std::ops::Range;

/// Former pseudonyms that are known, at most: when a pseudonym is forgotten, the host has long ceased to use its addresses.
const MAX_FORMER: usize = 16;
/// The interface identifier of the source address in an IPv6 packet, octets (RFC 8200 §3).
const SOURCE_IDENTIFIER: Range<usize> = 16..24;

/// Interface identifiers of the former pseudonyms of a station.
#[derive(Debug, Default)]
pub struct FormerPseudonyms(VecDeque<[u8; 8]>);

impl FormerPseudonyms {
    /// A pseudonym was replaced.
    pub fn push(&mut self, former: LinkAddress) {
        if self.0.len() >= MAX_FORMER {
            self.0.pop_front();
        }
        self.0.push_back(former.interface_identifier().to_be_bytes());
    }

    /// Whether the source address of an IPv6 packet is of a former pseudonym.
    pub fn is_source_of(&self, frame: &Frame) -> bool {
        let source = frame.bytes.get(SOURCE_IDENTIFIER).filter(|_| frame.ethertype == IPV6);
        source.is_some_and(|source| self.0.iter().any(|former| former == source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LinkId;
    use crate::base::rng::Entropy;
    use crate::base::time::Time;
    use crate::contract::command::{Command, GeoCommand};
    use crate::contract::config::geo::{GeoConfig, LinkScope, Mib, SecurityConfig, VirtualLink};
    use crate::contract::engine::{Engine, Outbox};
    use crate::contract::input::{Fix, Input, LinkEvent};
    use crate::contract::output::Output;
    use crate::geo::GeoStation;
    use roam6_wire::geo::{Coordinates, ItsStationType};
    use roam6_wire::ip6;
    use std::net::Ipv6Addr;

    const RADIO: LinkId = LinkId(1);
    const VIRTUAL: LinkId = LinkId(2);
    const ALL_NODES: LinkAddress = LinkAddress([0x33, 0x33, 0, 0, 0, 1]);

    /// A station with pseudonyms, a radio and a virtual link.
    fn station() -> GeoStation {
        let config = GeoConfig {
            interfaces: ["radio0".to_owned()].into(),
            station: ItsStationType::BUS,
            virtual_links: vec![VirtualLink::new("gn0", LinkScope::Around(500))],
            advertised_links: 0,
            destinations: Vec::new(),
            facilities: None,
            mib: Mib::default(),
            security: SecurityConfig { pseudonyms: true, ..SecurityConfig::default() },
        };
        let mut station = GeoStation::new(config, Entropy::seed_from_u64(1));
        for (link, name) in [(RADIO, "radio0"), (VIRTUAL, "gn0")] {
            let address = Some(LinkAddress([2, 0, 0, 0, 0, 1]));
            feed(&mut station, &Input::Link(LinkEvent { link, name: name.to_owned(), address, up: true, mtu: 1500 }));
        }
        let place = Coordinates::from_degrees(48.0, 11.0).unwrap();
        feed(&mut station, &Input::Fix(Some(Fix { place, uncertainty: Some(1), speed: 0, heading: 0 })));
        station
    }

    fn feed(station: &mut GeoStation, input: &Input) -> Vec<Output> {
        let mut out = Outbox::new();
        station.handle(Time::from_micros(1), input, &mut out);
        out.drain().collect()
    }

    /// Whether the station sends a packet of the host to all nodes of the link.
    fn sends(station: &mut GeoStation, source: LinkAddress, address: Ipv6Addr) -> bool {
        let bytes = ip6::emit(&ip6::Header::new(address, "ff02::1".parse().unwrap()), 17, &[0; 32]);
        let frame = Frame { link: VIRTUAL, source, destination: ALL_NODES, ethertype: IPV6, bytes };
        let outputs = feed(station, &Input::Frame(frame));
        outputs.iter().any(|output| matches!(output, Output::Frame(sent) if sent.link == RADIO))
    }

    #[test]
    fn a_packet_with_an_address_of_a_former_pseudonym_is_not_sent() {
        let mut station = station();
        let prefix: Ipv6Addr = "2001:db8::".parse().unwrap();
        let global = |mid: LinkAddress| Ipv6Addr::from_bits(prefix.to_bits() | u128::from(mid.interface_identifier()));
        for _ in 0..3 {
            let former = station.router().address().mid;
            assert!(sends(&mut station, former, global(former)) && sends(&mut station, former, former.link_local()));
            feed(&mut station, &Input::Command(Command::Geo(GeoCommand::ChangePseudonym)));
            let mid = station.router().address().mid;
            assert_ne!(mid, former);
            assert!(!sends(&mut station, former, global(former)), "sent with the former link-layer address");
            assert!(!sends(&mut station, mid, global(former)), "sent from the former address");
            assert!(!sends(&mut station, mid, former.link_local()), "sent from the former link-local address");
            assert!(
                sends(&mut station, mid, global(mid)) && sends(&mut station, mid, "2001:db8:1::1".parse().unwrap())
            );
        }
    }

    #[test]
    fn the_oldest_of_too_many_pseudonyms_is_forgotten() {
        let mut former = FormerPseudonyms::default();
        let mid = |number| LinkAddress([2, 0, 0, 0, 0, number]);
        (0..=MAX_FORMER as u8).for_each(|number| former.push(mid(number)));
        let is_known = |number| former.0.contains(&mid(number).interface_identifier().to_be_bytes());
        assert_eq!((former.0.len(), is_known(0), is_known(1)), (MAX_FORMER, false, true));
    }
}
