//! ND proxy for the prefix of a visited link (RFC 4389): learns which of its addresses are downstream, so that the
//! kernel answers for them upstream. Downstream the prefix is not on-link, so nodes send everything to this router and
//! only neighbour solicitations are relayed. An address is proxied once duplicate address detection upstream is
//! unanswered; earlier, if an upstream node solicits it and a downstream node uses it already, as an optimistic node would
//! defend it: without overriding what others know (RFC 4429 §3.3).

use crate::link::nd_messages;
use crate::{LinkId, Outbox, Time, TokenBucket, Transmit, VecMap, Via};
use core::time::Duration;
use roam6_wire::icmp6::{self, Message, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Maximum proxied addresses, those in detection included; further ones are reported and ignored.
pub const MAX_ADDRESSES: usize = 64;
/// Maximum addresses of one node.
pub const MAX_ADDRESSES_PER_NODE: usize = 16;
/// Maximum addresses that are queried downstream at a time.
const MAX_QUERIED: usize = 32;
/// Time for an upstream node to defend its address (RFC 4861 §10, RETRANS_TIMER).
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// Hold-down before an unanswered address is queried again.
const QUERY_HOLD_DOWN: Duration = Duration::from_secs(5);
/// An address without any message for this time is no longer proxied.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1800);
/// Burst and interval of relayed solicitations, whatever the number of requests.
const QUERY_BURST: u32 = 16;
const QUERY_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between two reports of a full table.
const FULL_REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// An interface, with its link-layer address.
pub type ProxyInterface = (LinkId, LinkAddress);

/// The proxy between a visited link and one ingress interface.
#[derive(Debug, Clone)]
pub struct NdProxy {
    prefix: Prefix,
    /// Our own address in the prefix.
    own_address: Ipv6Addr,
    upstream: ProxyInterface,
    downstream: ProxyInterface,
    addresses: VecMap<Ipv6Addr, ProxiedAddress>,
    queried: VecMap<Ipv6Addr, Query>,
    /// Addresses that were proxied in an earlier visit: the upstream neighbours may still have an entry for each.
    former: Vec<Ipv6Addr>,
    /// Neighbour Advertisements to be sent upstream once the addresses are routed.
    advertisements: Vec<Transmit>,
    query_limiter: TokenBucket,
    full_report_limiter: TokenBucket,
}

/// A downstream address.
#[derive(Debug, Clone, Copy)]
struct ProxiedAddress {
    link_address: Option<LinkAddress>,
    last_heard: Time,
    state: AddressState,
}

/// The progress of duplicate address detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressState {
    /// The node itself runs it, and so does the proxy upstream.
    Tentative,
    /// The node uses the address; the proxy runs it upstream.
    InUse,
    /// The same, and an upstream node solicits the address: it is proxied.
    Solicited,
    /// It is complete: the address is proxied.
    Unique,
}

/// A query for an address downstream.
#[derive(Debug, Clone, Copy)]
struct Query {
    /// The upstream node that solicits it.
    asker: NeighbourAddress,
    /// No further query before.
    hold_until: Time,
}

/// A neighbour's address, and its link-layer address if known.
pub type NeighbourAddress = (Ipv6Addr, Option<LinkAddress>);

impl NdProxy {
    /// A proxy without addresses; `own` is this router's address in the prefix, `former` what it proxied in an earlier visit.
    pub fn new(
        (prefix, own): (Prefix, Ipv6Addr),
        outside: ProxyInterface,
        inside: ProxyInterface,
        former: Vec<Ipv6Addr>,
    ) -> NdProxy {
        NdProxy {
            prefix,
            own_address: own,
            upstream: outside,
            downstream: inside,
            addresses: VecMap::new(),
            queried: VecMap::new(),
            former,
            advertisements: Vec::new(),
            query_limiter: TokenBucket::new(QUERY_BURST, QUERY_INTERVAL),
            full_report_limiter: TokenBucket::new(1, FULL_REPORT_INTERVAL),
        }
    }

    /// The downstream interface.
    pub fn downstream(&self) -> ProxyInterface {
        self.downstream
    }

    /// The addresses to proxy upstream.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.addresses.iter().filter(|(_, node)| node.state.is_proxied()).map(|(address, _)| *address)
    }

    /// Takes the Neighbour Advertisements for upstream neighbours, to be sent once [`NdProxy::addresses`] are routed.
    pub fn take_advertisements(&mut self) -> Vec<Transmit> {
        std::mem::take(&mut self.advertisements)
    }

    /// Queries downstream the addresses of an earlier visit: the router of the visited link may have an entry for each, with
    /// the link-layer address of this router then, and would solicit none for seconds (RFC 4861 §7.3.3).
    pub fn query_former_addresses(&mut self, now: Time, out: &mut Outbox) {
        let (link, own) = self.downstream;
        for target in &self.former {
            if self.query_limiter.take(now) {
                out.transmit(nd_messages::nud_solicitation(link, Some(own), *target, None));
            }
        }
    }

    /// A downstream Neighbour Solicitation, from an unspecified source if the node runs duplicate address detection.
    pub fn receive_downstream_solicitation(
        &mut self,
        now: Time,
        (source, sender): NeighbourAddress,
        message: &NeighbourSolicitation,
        out: &mut Outbox,
    ) {
        let (address, state) = match source.is_unspecified() {
            true => (message.target, AddressState::Tentative),
            false => (source, AddressState::InUse),
        };
        self.learn(now, (address, sender), state, out);
    }

    /// A downstream Neighbour Advertisement.
    pub fn receive_downstream_advertisement(
        &mut self,
        now: Time,
        sender: Option<LinkAddress>,
        message: &NeighbourAdvertisement,
        out: &mut Outbox,
    ) {
        self.learn(now, (message.target, sender), AddressState::InUse, out);
    }

    /// The kernel's neighbour table gained or lost a downstream neighbour.
    pub fn update_reachability(&mut self, now: Time, address: Ipv6Addr, sender: Option<LinkAddress>, out: &mut Outbox) {
        match sender {
            Some(_) => self.learn(now, (address, sender), AddressState::InUse, out),
            None => drop(self.addresses.remove(&address)),
        }
    }

    /// An upstream Neighbour Solicitation: queries the address downstream if it is not known.
    pub fn receive_upstream_solicitation(
        &mut self,
        now: Time,
        asker: NeighbourAddress,
        message: &NeighbourSolicitation,
        out: &mut Outbox,
    ) {
        let (source, target) = (asker.0, message.target);
        // An upstream source is not downstream: the node may have moved there.
        self.addresses.remove(&source);
        if !self.prefix.contains(target) || target == self.own_address {
            return;
        }
        match self.addresses.get_mut(&target) {
            // Two nodes run duplicate address detection for one address: both have to detect it (RFC 4862 §5.4.3).
            Some(node) if node.state != AddressState::Unique && source.is_unspecified() => {
                self.send_solicitation(now, self.downstream, target, out)
            }
            Some(node) if node.state == AddressState::InUse => {
                node.state = AddressState::Solicited;
                self.answer(asker, target);
            }
            Some(_) => {}
            None if source.is_unspecified() => {}
            None => {
                let room = self.queried.len() < MAX_QUERIED;
                if room && !self.queried.contains_key(&target) && self.query_limiter.take(now) {
                    self.queried.insert(target, Query { asker, hold_until: now + QUERY_HOLD_DOWN });
                    let (link, own) = self.downstream;
                    out.transmit(nd_messages::nud_solicitation(link, Some(own), target, None));
                }
            }
        }
    }

    /// An upstream Neighbour Advertisement: the address is not downstream, and is defended there if in detection.
    pub fn receive_upstream_advertisement(&mut self, message: &NeighbourAdvertisement, out: &mut Outbox) {
        let target = message.target;
        let Some(node) = self.addresses.remove(&target) else { return };
        if node.state != AddressState::Unique {
            let (link, own) = self.downstream;
            let options = vec![NeighbourOption::TargetLinkAddress(own)];
            let defence = NeighbourAdvertisement { router: false, solicited: false, overrides: true, target, options };
            let message = Message::NeighbourAdvertisement(defence);
            out.transmit(nd_messages::transmit_on_link(Via::Link(link), &message, own.link_local(), icmp6::ALL_NODES));
        }
    }

    /// Removes expired entries, and completes duplicate address detection.
    pub fn expire(&mut self, now: Time) {
        self.queried.retain(|_, query| query.hold_until > now);
        self.addresses.retain(|_, node| node.last_heard + IDLE_TIMEOUT > now);
        for node in self.addresses.values_mut().filter(|node| node.last_heard + RETRANS_TIMER <= now) {
            node.state = AddressState::Unique;
        }
    }

    /// When [`NdProxy::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let nodes = self.addresses.values().map(|node| {
            node.last_heard + if node.state == AddressState::Unique { IDLE_TIMEOUT } else { RETRANS_TIMER }
        });
        nodes.chain(self.queried.values().map(|query| query.hold_until)).min()
    }

    /// Learns that an address is inside, and whether the node uses it already.
    fn learn(&mut self, now: Time, (address, sender): NeighbourAddress, state: AddressState, out: &mut Outbox) {
        if !self.prefix.contains(address) || address == self.own_address || self.prefix.address() == address {
            return;
        }
        let query = self.queried.remove(&address);
        if let Some(node) = self.addresses.get_mut(&address) {
            node.link_address = sender.or(node.link_address);
            match node.state {
                AddressState::Unique => node.last_heard = now,
                AddressState::Tentative => node.state = state,
                AddressState::InUse | AddressState::Solicited => {}
            }
            return;
        }
        let each = self.addresses.values().filter(|node| node.link_address == sender).count();
        if self.addresses.len() >= MAX_ADDRESSES || each >= MAX_ADDRESSES_PER_NODE {
            let limit = if each >= MAX_ADDRESSES_PER_NODE { MAX_ADDRESSES_PER_NODE } else { MAX_ADDRESSES };
            if self.full_report_limiter.take(now) {
                out.report_full_table("ND proxy addresses", limit);
            }
            return;
        }
        let query = query.filter(|_| state == AddressState::InUse);
        let returned = state == AddressState::InUse && self.former.contains(&address);
        let state = if returned || query.is_some() { AddressState::Solicited } else { state };
        self.addresses.insert(address, ProxiedAddress { link_address: sender, last_heard: now, state });
        self.send_solicitation(now, self.upstream, address, out);
        if returned {
            self.advertise((icmp6::ALL_NODES, None), address, false);
        } else if let Some(query) = query {
            self.answer(query.asker, address);
        }
    }

    /// Answers an upstream solicitation for `target`. The kernel answers only later ones, and the next comes after a
    /// second (RFC 4861 §10, RETRANS_TIMER).
    fn answer(&mut self, asker: NeighbourAddress, target: Ipv6Addr) {
        self.advertise(asker, target, true);
    }

    /// Advertises `target` upstream. An answer does not override what the asker knows, since duplicate address detection is
    /// still running; an unsolicited one does, since it is for an address that this router proxied before (RFC 4861 §7.2.6).
    fn advertise(&mut self, (to, link_address): NeighbourAddress, target: Ipv6Addr, solicited: bool) {
        let (link, own) = self.upstream;
        let options = vec![NeighbourOption::TargetLinkAddress(own)];
        let answer = NeighbourAdvertisement { router: false, solicited, overrides: !solicited, target, options };
        let message = Message::NeighbourAdvertisement(answer);
        let via = Via::on_link(link, link_address);
        self.advertisements.push(nd_messages::transmit_on_link(via, &message, own.link_local(), to));
    }

    /// Sends a solicitation for `target` on one interface.
    fn send_solicitation(&mut self, now: Time, (link, _): ProxyInterface, target: Ipv6Addr, out: &mut Outbox) {
        if self.query_limiter.take(now) {
            out.transmit(nd_messages::dad_solicitation(link, target));
        }
    }
}

impl AddressState {
    /// Whether the proxy answers for the address.
    fn is_proxied(self) -> bool {
        matches!(self, AddressState::Solicited | AddressState::Unique)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::output::Output;
    use crate::contract::report::{HostReport, Report};
    use roam6_wire::ip6::Datagram;

    const UPSTREAM: ProxyInterface = (LinkId(1), LinkAddress([2, 0, 0, 0, 0, 1]));
    const DOWNSTREAM: ProxyInterface = (LinkId(2), LinkAddress([2, 0, 0, 0, 0, 2]));
    /// A router of the visited link.
    const ROUTER: NeighbourAddress =
        (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), Some(LinkAddress([2, 0, 0, 0, 0, 7])));
    const PHONE: Option<LinkAddress> = Some(LinkAddress([2, 0, 0, 0, 0, 9]));

    fn ip(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, last)
    }

    fn proxy() -> NdProxy {
        proxy_after(Vec::new())
    }

    fn proxy_after(former: Vec<Ipv6Addr>) -> NdProxy {
        NdProxy::new(("2001:db8:9::/64".parse().unwrap(), ip(1)), UPSTREAM, DOWNSTREAM, former)
    }

    fn solicitation(target: Ipv6Addr) -> NeighbourSolicitation {
        NeighbourSolicitation { target, options: Vec::new() }
    }

    fn advertisement(target: Ipv6Addr) -> NeighbourAdvertisement {
        NeighbourAdvertisement { router: false, solicited: true, overrides: true, target, options: Vec::new() }
    }

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    /// The outgoing interfaces of the packets sent.
    fn sent(out: &mut Outbox) -> Vec<u32> {
        let by = |output| match output {
            Output::Transmit(transmit) => match transmit.via {
                crate::contract::output::Via::Link(link) => Some(link.0),
                other => panic!("{other:?}"),
            },
            _ => None,
        };
        out.drain().filter_map(by).collect()
    }

    #[test]
    fn address_is_proxied_once_dad_upstream_is_unanswered() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.receive_downstream_solicitation(at(0), (Ipv6Addr::UNSPECIFIED, PHONE), &solicitation(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [1], "solicited upstream");
        proxy.expire(at(999));
        assert_eq!(proxy.addresses().count(), 0);
        assert_eq!(proxy.deadline(), Some(at(1000)));
        proxy.expire(at(1000));
        assert_eq!(proxy.addresses().collect::<Vec<_>>(), [ip(9)]);
        proxy.update_reachability(at(2000), ip(9), None, &mut out);
        assert_eq!(proxy.addresses().count(), 0, "the kernel no longer reaches it");
    }

    /// The Neighbour Advertisements that answer upstream solicitations: destination, target, O flag.
    fn answered(proxy: &mut NdProxy) -> Vec<(Ipv6Addr, Ipv6Addr, bool)> {
        let answer = |transmit: Transmit| {
            let datagram = Datagram::parse(&transmit.bytes).unwrap();
            let Ok(Message::NeighbourAdvertisement(message)) = Message::parse(&datagram) else { panic!() };
            assert_eq!(transmit.via, Via::Neighbour { link: UPSTREAM.0, address: ROUTER.1.unwrap() });
            assert_eq!(message.options, [NeighbourOption::TargetLinkAddress(UPSTREAM.1)]);
            assert!(message.solicited && !message.router);
            (datagram.destination, message.target, message.overrides)
        };
        proxy.take_advertisements().into_iter().map(answer).collect()
    }

    #[test]
    fn address_in_use_is_proxied_at_once_if_an_upstream_node_solicits_it() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.receive_upstream_solicitation(at(0), ROUTER, &solicitation(ip(9)), &mut out);
        proxy.receive_downstream_advertisement(at(5), PHONE, &advertisement(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [2, 1], "queried downstream, then detected upstream");
        assert_eq!(proxy.addresses().collect::<Vec<_>>(), [ip(9)]);
        assert_eq!(answered(&mut proxy), [(ROUTER.0, ip(9), false)]);
        assert!(answered(&mut proxy).is_empty());
        // An upstream node has the address.
        proxy.receive_upstream_advertisement(&advertisement(ip(9)), &mut out);
        assert_eq!((proxy.addresses().count(), sent(&mut out)), (0, vec![2]));

        // A node that uses its address, but that nobody solicits, may wait for the detection.
        proxy.receive_downstream_solicitation(at(2000), (ip(8), PHONE), &solicitation(ip(1)), &mut out);
        assert_eq!((proxy.addresses().count(), answered(&mut proxy).len()), (0, 0));
        proxy.receive_upstream_solicitation(at(2010), ROUTER, &solicitation(ip(8)), &mut out);
        assert_eq!(proxy.addresses().collect::<Vec<_>>(), [ip(8)]);
        assert_eq!(answered(&mut proxy), [(ROUTER.0, ip(8), false)]);
        proxy.receive_upstream_solicitation(at(2020), ROUTER, &solicitation(ip(8)), &mut out);
        proxy.expire(at(3000));
        proxy.receive_upstream_solicitation(at(3010), ROUTER, &solicitation(ip(8)), &mut out);
        assert!(answered(&mut proxy).is_empty(), "the kernel answers");
    }

    #[test]
    fn addresses_of_an_earlier_visit_are_queried_and_advertised() {
        let (mut proxy, mut out) = (proxy_after(vec![ip(8), ip(9)]), Outbox::new());
        proxy.query_former_addresses(at(0), &mut out);
        assert_eq!(sent(&mut out), [2, 2]);
        proxy.receive_downstream_advertisement(at(5), PHONE, &advertisement(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [1], "another node may have it now");
        assert_eq!(proxy.addresses().collect::<Vec<_>>(), [ip(9)], "the other node is no longer here");
        let transmit = proxy.take_advertisements().pop().unwrap();
        let datagram = Datagram::parse(&transmit.bytes).unwrap();
        let Ok(Message::NeighbourAdvertisement(message)) = Message::parse(&datagram) else { panic!() };
        assert_eq!((transmit.via, datagram.destination), (Via::Link(UPSTREAM.0), icmp6::ALL_NODES));
        assert_eq!((message.target, message.overrides, message.solicited), (ip(9), true, false));
        proxy.receive_downstream_advertisement(at(10), PHONE, &advertisement(ip(7)), &mut out);
        assert!(proxy.take_advertisements().is_empty(), "it was not here before");
    }

    #[test]
    fn address_whose_node_runs_dad_is_not_proxied_early() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.receive_downstream_solicitation(at(0), (Ipv6Addr::UNSPECIFIED, PHONE), &solicitation(ip(9)), &mut out);
        proxy.receive_upstream_solicitation(at(10), ROUTER, &solicitation(ip(9)), &mut out);
        assert_eq!((proxy.addresses().count(), answered(&mut proxy).len()), (0, 0));
        // Its detection ended before that of the proxy.
        proxy.receive_downstream_solicitation(at(900), (ip(9), PHONE), &solicitation(ip(1)), &mut out);
        proxy.receive_upstream_solicitation(at(910), ROUTER, &solicitation(ip(9)), &mut out);
        assert_eq!((proxy.addresses().count(), answered(&mut proxy).len()), (1, 1));
    }

    #[test]
    fn upstream_defence_is_relayed_downstream() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.receive_downstream_solicitation(at(0), (Ipv6Addr::UNSPECIFIED, PHONE), &solicitation(ip(9)), &mut out);
        proxy.receive_upstream_advertisement(&advertisement(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [1, 2]);
        proxy.expire(at(1000));
        assert_eq!(proxy.addresses().count(), 0);
        // One that checks it at the same time.
        proxy.receive_downstream_solicitation(at(2000), (Ipv6Addr::UNSPECIFIED, PHONE), &solicitation(ip(9)), &mut out);
        proxy.receive_upstream_solicitation(at(2100), (Ipv6Addr::UNSPECIFIED, None), &solicitation(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [1, 2]);
    }

    #[test]
    fn upstream_ns_leads_to_bounded_downstream_queries() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.receive_upstream_solicitation(at(0), (ip(0xfe), None), &solicitation(ip(9)), &mut out);
        proxy.receive_upstream_solicitation(at(10), (ip(0xfe), None), &solicitation(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [2]);
        proxy.receive_downstream_advertisement(at(20), PHONE, &advertisement(ip(9)), &mut out);
        proxy.expire(at(1020));
        assert_eq!(proxy.addresses().collect::<Vec<_>>(), [ip(9)]);
        sent(&mut out);
        for last in 100..5000 {
            proxy.receive_upstream_solicitation(at(2000), (ip(0xfe), None), &solicitation(ip(last)), &mut out);
        }
        assert!(sent(&mut out).len() <= 16 && proxy.queried.len() <= MAX_QUERIED, "a scan costs little inside");
        proxy.receive_upstream_solicitation(at(3000), (ip(9), None), &solicitation(ip(1)), &mut out);
        assert_eq!(proxy.addresses().count(), 0, "it has moved outside");
    }

    #[test]
    fn full_proxy_table_is_reported_and_one_node_cannot_fill_it() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        for last in 2..1000 {
            proxy.receive_downstream_solicitation(
                at(u64::from(last)),
                (ip(last), PHONE),
                &solicitation(ip(1)),
                &mut out,
            );
        }
        assert_eq!(proxy.addresses.len(), MAX_ADDRESSES_PER_NODE);
        for last in 2..1000_u16 {
            let [high, low] = last.to_be_bytes();
            let other = Some(LinkAddress([2, 0, 0, 1, high, low]));
            proxy.receive_downstream_solicitation(at(2000), (ip(last + 1000), other), &solicitation(ip(1)), &mut out);
        }
        assert_eq!(proxy.addresses.len(), MAX_ADDRESSES);
        let full = |output: &Output| matches!(output, Output::Report(Report::Host(HostReport::TableFull { .. })));
        let reports = out.outputs().iter().filter(|output| full(output)).count();
        assert_eq!(reports, 1);
        proxy.expire(at(4000));
        proxy.expire(at(2000) + IDLE_TIMEOUT);
        assert_eq!(proxy.addresses.len(), 0, "idle addresses are removed");
    }

    #[test]
    fn own_and_foreign_addresses_are_not_proxied() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        for address in [ip(1), ip(0), "2001:db8:8::9".parse().unwrap(), "fe80::9".parse().unwrap()] {
            proxy.receive_downstream_solicitation(at(0), (address, PHONE), &solicitation(ip(5)), &mut out);
        }
        assert!(proxy.addresses.is_empty() && out.is_empty());
    }
}
