//! ND proxy for the prefix of a visited link (RFC 4389): learns which of its addresses are downstream, so that the
//! kernel answers for them upstream. Downstream the prefix is not on-link, so nodes send everything to this router and
//! only neighbour solicitations are relayed. An address is proxied once duplicate address detection upstream is
//! unanswered.

use crate::link::nd_messages;
use crate::{LinkId, Outbox, Time, TokenBucket, VecMap, Via};
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
    queried: VecMap<Ipv6Addr, Time>,
    query_limiter: TokenBucket,
    full_report_limiter: TokenBucket,
}

/// A downstream address.
#[derive(Debug, Clone, Copy)]
struct ProxiedAddress {
    link_address: Option<LinkAddress>,
    last_heard: Time,
    /// Duplicate address detection is in progress upstream.
    dad_running: bool,
}

impl NdProxy {
    /// A proxy without addresses; `own` is this router's address in the prefix.
    pub fn new(prefix: Prefix, own: Ipv6Addr, outside: ProxyInterface, inside: ProxyInterface) -> NdProxy {
        NdProxy {
            prefix,
            own_address: own,
            upstream: outside,
            downstream: inside,
            addresses: VecMap::new(),
            queried: VecMap::new(),
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
        self.addresses.iter().filter(|(_, node)| !node.dad_running).map(|(address, _)| *address)
    }

    /// A downstream Neighbour Solicitation, from an unspecified source if the node runs duplicate address detection.
    pub fn receive_downstream_solicitation(
        &mut self,
        now: Time,
        (source, sender): (Ipv6Addr, Option<LinkAddress>),
        message: &NeighbourSolicitation,
        out: &mut Outbox,
    ) {
        let address = if source.is_unspecified() { message.target } else { source };
        self.learn(now, address, sender, out);
    }

    /// A downstream Neighbour Advertisement.
    pub fn receive_downstream_advertisement(
        &mut self,
        now: Time,
        sender: Option<LinkAddress>,
        message: &NeighbourAdvertisement,
        out: &mut Outbox,
    ) {
        self.learn(now, message.target, sender, out);
    }

    /// The kernel's neighbour table gained or lost a downstream neighbour.
    pub fn update_reachability(&mut self, now: Time, address: Ipv6Addr, sender: Option<LinkAddress>, out: &mut Outbox) {
        match sender {
            Some(_) => self.learn(now, address, sender, out),
            None => drop(self.addresses.remove(&address)),
        }
    }

    /// An upstream Neighbour Solicitation: queries the address downstream if it is not known.
    pub fn receive_upstream_solicitation(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        message: &NeighbourSolicitation,
        out: &mut Outbox,
    ) {
        let target = message.target;
        // An upstream source is not downstream: the node may have moved there.
        self.addresses.remove(&source);
        if !self.prefix.contains(target) || target == self.own_address {
            return;
        }
        match self.addresses.get(&target) {
            // Two nodes run duplicate address detection for one address: both have to detect it (RFC 4862 §5.4.3).
            Some(node) if node.dad_running && source.is_unspecified() => {
                self.send_solicitation(now, self.downstream, target, out)
            }
            Some(_) => {}
            None if source.is_unspecified() => {}
            None => {
                let room = self.queried.len() < MAX_QUERIED;
                if room && !self.queried.contains_key(&target) && self.query_limiter.take(now) {
                    self.queried.insert(target, now + QUERY_HOLD_DOWN);
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
        if node.dad_running {
            let (link, own) = self.downstream;
            let options = vec![NeighbourOption::TargetLinkAddress(own)];
            let defence = NeighbourAdvertisement { router: false, solicited: false, overrides: true, target, options };
            let message = Message::NeighbourAdvertisement(defence);
            out.transmit(nd_messages::transmit_on_link(Via::Link(link), &message, own.link_local(), icmp6::ALL_NODES));
        }
    }

    /// Removes expired entries, and completes duplicate address detection.
    pub fn expire(&mut self, now: Time) {
        self.queried.retain(|_, until| *until > now);
        self.addresses.retain(|_, node| node.last_heard + IDLE_TIMEOUT > now);
        for node in
            self.addresses.values_mut().filter(|node| node.dad_running && node.last_heard + RETRANS_TIMER <= now)
        {
            node.dad_running = false;
        }
    }

    /// When [`NdProxy::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let nodes = self
            .addresses
            .values()
            .map(|node| node.last_heard + if node.dad_running { RETRANS_TIMER } else { IDLE_TIMEOUT });
        nodes.chain(self.queried.values().copied()).min()
    }

    /// Learns that `address` is inside, at `sender`.
    fn learn(&mut self, now: Time, address: Ipv6Addr, sender: Option<LinkAddress>, out: &mut Outbox) {
        if !self.prefix.contains(address) || address == self.own_address || self.prefix.address() == address {
            return;
        }
        self.queried.remove(&address);
        if let Some(node) = self.addresses.get_mut(&address) {
            node.link_address = sender.or(node.link_address);
            if !node.dad_running {
                node.last_heard = now;
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
        self.addresses.insert(address, ProxiedAddress { link_address: sender, last_heard: now, dad_running: true });
        self.send_solicitation(now, self.upstream, address, out);
    }

    /// Sends a solicitation for `target` on one interface.
    fn send_solicitation(&mut self, now: Time, (link, _): ProxyInterface, target: Ipv6Addr, out: &mut Outbox) {
        if self.query_limiter.take(now) {
            out.transmit(nd_messages::dad_solicitation(link, target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::output::Output;
    use crate::contract::report::{HostReport, Report};

    const UPSTREAM: ProxyInterface = (LinkId(1), LinkAddress([2, 0, 0, 0, 0, 1]));
    const DOWNSTREAM: ProxyInterface = (LinkId(2), LinkAddress([2, 0, 0, 0, 0, 2]));
    const PHONE: Option<LinkAddress> = Some(LinkAddress([2, 0, 0, 0, 0, 9]));

    fn ip(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, last)
    }

    fn proxy() -> NdProxy {
        NdProxy::new("2001:db8:9::/64".parse().unwrap(), ip(1), UPSTREAM, DOWNSTREAM)
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
        proxy.receive_upstream_solicitation(at(2100), Ipv6Addr::UNSPECIFIED, &solicitation(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [1, 2]);
    }

    #[test]
    fn upstream_ns_leads_to_bounded_downstream_queries() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.receive_upstream_solicitation(at(0), ip(0xfe), &solicitation(ip(9)), &mut out);
        proxy.receive_upstream_solicitation(at(10), ip(0xfe), &solicitation(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [2]);
        proxy.receive_downstream_advertisement(at(20), PHONE, &advertisement(ip(9)), &mut out);
        proxy.expire(at(1020));
        assert_eq!(proxy.addresses().collect::<Vec<_>>(), [ip(9)]);
        sent(&mut out);
        for last in 100..5000 {
            proxy.receive_upstream_solicitation(at(2000), ip(0xfe), &solicitation(ip(last)), &mut out);
        }
        assert!(sent(&mut out).len() <= 16 && proxy.queried.len() <= MAX_QUERIED, "a scan costs little inside");
        proxy.receive_upstream_solicitation(at(3000), ip(9), &solicitation(ip(1)), &mut out);
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
