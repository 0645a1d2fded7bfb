//! The multicast groups that the host behind a virtual link has joined, by snooping its MLD reports (MLDv2, RFC 3810;
//! MLDv1, RFC 2710; RFC 4541 §3). Each station of an area delivers the groups its own host has joined.

use crate::base::vec_set::VecSet;
use roam6_wire::icmp6::{Message, kind};
use roam6_wire::ip6::{Datagram, protocol};
use std::net::Ipv6Addr;

/// Groups tracked at most.
pub const MAX_GROUPS: usize = 1024;
/// Offset of the next header field: MLD is behind a hop-by-hop header (RFC 3810 §5).
const NEXT_HEADER_OFFSET: usize = 6;
/// Groups of link scope and below need no report, or get one late: all are delivered.
const LINK_SCOPE: u8 = 2;

/// The groups of a host.
#[derive(Debug, Default)]
pub struct MulticastListeners {
    groups: VecSet<Ipv6Addr>,
    /// All groups are delivered: the host sends MLD queries, hence is a router, or has joined more groups than are
    /// tracked.
    forward_all: bool,
}

impl MulticastListeners {
    /// Snoops a packet of the host.
    pub fn observe(&mut self, packet: &[u8]) {
        if packet.get(NEXT_HEADER_OFFSET) != Some(&protocol::HOP_BY_HOP) {
            return;
        }
        let message = Datagram::parse(packet).ok().and_then(|datagram| Message::parse(&datagram).ok());
        match message {
            Some(Message::ListenerReport { records }) => {
                for record in records {
                    if let Some(listens) = record.is_listening() {
                        self.set_group(record.group, listens);
                    }
                }
            }
            Some(Message::ListenerReport1 { group }) => self.set_group(group, true),
            Some(Message::ListenerDone { group }) => self.set_group(group, false),
            Some(Message::Unknown { kind: kind::LISTENER_QUERY, .. }) => self.forward_all = true,
            _ => {}
        }
    }

    fn set_group(&mut self, group: Ipv6Addr, listens: bool) {
        if !listens {
            self.groups.remove(&group);
        } else if self.groups.len() < MAX_GROUPS {
            self.groups.insert(group);
        } else {
            self.forward_all |= !self.groups.contains(&group);
        }
    }

    /// Whether the host has joined a multicast group.
    pub fn has_listener(&self, group: Ipv6Addr) -> bool {
        let [_, flags_and_scope, ..] = group.octets();
        self.forward_all || flags_and_scope & 0xf <= LINK_SCOPE || self.groups.contains(&group)
    }

    /// The joined groups, without those of link scope.
    pub fn groups(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.groups.iter().copied().filter(|group| group.octets()[1] & 0xf > LINK_SCOPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::icmp6::MulticastAddressRecord;
    use roam6_wire::icmp6::mld::record;

    const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
    /// Router alert (RFC 2711 §2.1) and two octets of padding.
    const ALERT: [u8; 8] = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];

    fn mld_packet(message: &Message) -> Vec<u8> {
        let body = message.emit(HOST, ROUTERS);
        let length = u16::try_from(ALERT.len() + body.len()).unwrap();
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(length.to_be_bytes());
        packet.extend([protocol::HOP_BY_HOP, 1]);
        packet.extend([HOST.octets(), ROUTERS.octets()].concat());
        [packet, ALERT.to_vec(), body].concat()
    }

    fn report(kind: u8, groups: &[&str]) -> Vec<u8> {
        let record = |group: &&str| MulticastAddressRecord { kind, group: group.parse().unwrap(), sources: Vec::new() };
        mld_packet(&Message::ListenerReport { records: groups.iter().map(record).collect() })
    }

    fn group(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    #[test]
    fn an_mld_report_and_done_start_and_stop_delivery() {
        let mut listeners = MulticastListeners::default();
        assert!(listeners.has_listener(group("ff02::1")) && listeners.has_listener(group("ff02::fb")));
        assert!(!listeners.has_listener(group("ff18::7")));
        listeners.observe(&report(record::CHANGE_TO_EXCLUDE, &["ff18::7", "ff05::2", "ff02::fb"]));
        assert!(listeners.has_listener(group("ff18::7")) && !listeners.has_listener(group("ff18::8")));
        assert_eq!(listeners.groups().collect::<Vec<_>>(), [group("ff05::2"), group("ff18::7")]);
        listeners.observe(&report(record::CHANGE_TO_INCLUDE, &["ff18::7"]));
        assert!(!listeners.has_listener(group("ff18::7")));

        listeners.observe(&mld_packet(&Message::ListenerReport1 { group: group("ff18::7") }));
        assert!(listeners.has_listener(group("ff18::7")));
        listeners.observe(&mld_packet(&Message::ListenerDone { group: group("ff18::7") }));
        assert!(!listeners.has_listener(group("ff18::7")));
    }

    #[test]
    fn an_mld_query_makes_the_listener_a_router_of_all_groups() {
        let mut listeners = MulticastListeners::default();
        listeners.observe(&mld_packet(&Message::Unknown { kind: kind::LISTENER_QUERY, code: 0, body: vec![0; 24] }));
        assert!(listeners.has_listener(group("ff18::7")));
    }

    #[test]
    fn more_mld_groups_than_fit_mean_all_groups() {
        let mut listeners = MulticastListeners::default();
        for number in 0..MAX_GROUPS + 1 {
            assert!(!listeners.has_listener(group("ff18::ffff")));
            listeners.observe(&report(record::CHANGE_TO_EXCLUDE, &[&format!("ff18::1:{number:x}")]));
        }
        assert!(listeners.has_listener(group("ff18::ffff")) && listeners.groups.len() == MAX_GROUPS);
    }

    #[test]
    fn packets_other_than_mld_reports_change_nothing() {
        let whole = report(record::CHANGE_TO_EXCLUDE, &["ff18::7"]);
        for length in 0..whole.len() {
            let mut listeners = MulticastListeners::default();
            listeners.observe(&whole[..length]);
            assert!(!listeners.has_listener(group("ff18::7")), "{length} octets");
        }
    }
}
