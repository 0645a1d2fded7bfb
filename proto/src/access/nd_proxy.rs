//! Shares the prefix of a visited link with the nodes inside: which of its addresses live behind us, so that they are
//! answered for outside (RFC 4389). Inside, the prefix is not on-link, so nodes send all to us and nothing is relayed but
//! questions; an address is answered for only once nobody outside has defended it.

use crate::access::neighbour;
use crate::base::few;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::base::token_bucket::TokenBucket;
use crate::contract::engine::Outbox;
use crate::contract::report::Report;
use core::time::Duration;
use roam6_wire::icmp6::{self, Message, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Addresses inside that are answered for, or are about to be; more are told and left alone.
pub const MAX_NODES: usize = 64;
/// Addresses of one node.
pub const MAX_EACH: usize = 16;
/// Addresses asked for inside at once, because somebody outside looks for them.
const MAX_ASKED: usize = 32;
/// Time in which an owner outside defends an address (RFC 4861 §10, RETRANS_TIMER).
const CHECK: Duration = Duration::from_secs(1);
/// An address nobody inside has is not asked for again so soon.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// An address not heard of for so long is not answered for any more.
const SILENT: Duration = Duration::from_secs(1800);
/// Questions passed on: this many at once, then one each interval, however many are asked.
const QUESTIONS: u32 = 16;
const QUESTION_INTERVAL: Duration = Duration::from_millis(50);
/// Between two reports of a full table.
const TOLD: Duration = Duration::from_secs(10);

/// An interface, with its link-layer address.
pub type Side = (LinkId, LinkAddress);

/// The proxy between a visited link and one interface inside.
#[derive(Debug, Clone)]
pub struct NdProxy {
    prefix: Prefix,
    /// Our own address in the prefix.
    own: Ipv6Addr,
    outside: Side,
    inside: Side,
    nodes: few::VecMap<Ipv6Addr, Node>,
    asked: few::VecMap<Ipv6Addr, Time>,
    questions: TokenBucket,
    full: TokenBucket,
}

/// An address inside.
#[derive(Debug, Clone, Copy)]
struct Node {
    link_address: Option<LinkAddress>,
    heard: Time,
    /// While nobody may have been heard to defend it.
    checking: bool,
}

impl NdProxy {
    /// A proxy that knows no nodes yet; `own` is our address in the prefix.
    pub fn new(prefix: Prefix, own: Ipv6Addr, outside: Side, inside: Side) -> NdProxy {
        NdProxy {
            prefix,
            own,
            outside,
            inside,
            nodes: few::VecMap::new(),
            asked: few::VecMap::new(),
            questions: TokenBucket::new(QUESTIONS, QUESTION_INTERVAL),
            full: TokenBucket::new(1, TOLD),
        }
    }

    /// The interface inside.
    pub fn inside(&self) -> Side {
        self.inside
    }

    /// The addresses to answer for outside.
    pub fn nodes(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.nodes.iter().filter(|(_, node)| !node.checking).map(|(address, _)| *address)
    }

    /// A node inside asks: for nobody's sake if it checks an address of its own.
    pub fn solicited_inside(
        &mut self,
        now: Time,
        (source, sender): (Ipv6Addr, Option<LinkAddress>),
        message: &NeighbourSolicitation,
        out: &mut Outbox,
    ) {
        let address = if source.is_unspecified() { message.target } else { source };
        self.put(now, address, sender, out);
    }

    /// A node inside says who it is.
    pub fn advertised_inside(
        &mut self,
        now: Time,
        sender: Option<LinkAddress>,
        message: &NeighbourAdvertisement,
        out: &mut Outbox,
    ) {
        self.put(now, message.target, sender, out);
    }

    /// The kernel reaches, or no longer reaches, a neighbour inside.
    pub fn put_reachable(&mut self, now: Time, address: Ipv6Addr, sender: Option<LinkAddress>, out: &mut Outbox) {
        match sender {
            Some(_) => self.put(now, address, sender, out),
            None => drop(self.nodes.remove(&address)),
        }
    }

    /// Somebody outside asks for an address: is it inside?
    pub fn solicited_outside(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        message: &NeighbourSolicitation,
        out: &mut Outbox,
    ) {
        let target = message.target;
        self.defended(source);
        if !self.prefix.contains(target) || target == self.own {
            return;
        }
        match self.nodes.get(&target) {
            // Two check the same address at once: both have to hear of it (RFC 4862 §5.4.3).
            Some(node) if node.checking && source.is_unspecified() => self.ask(now, self.inside, target, out),
            Some(_) => {}
            None if source.is_unspecified() => {}
            None => {
                let room = self.asked.len() < MAX_ASKED;
                if room && !self.asked.contains_key(&target) && self.questions.take(now) {
                    self.asked.insert(target, now + ASK_AGAIN);
                    let (link, own) = self.inside;
                    out.transmit(neighbour::confirmation(link, Some(own), target, None));
                }
            }
        }
    }

    /// Somebody outside has an address, which is then nobody's inside.
    pub fn advertised_outside(&mut self, message: &NeighbourAdvertisement, out: &mut Outbox) {
        let target = message.target;
        let Some(node) = self.nodes.remove(&target) else { return };
        if node.checking {
            let (link, own) = self.inside;
            let options = vec![NeighbourOption::TargetLinkAddress(own)];
            let defence = NeighbourAdvertisement { router: false, solicited: false, overrides: true, target, options };
            let message = Message::NeighbourAdvertisement(defence);
            let source = neighbour::link_local(own);
            out.transmit(neighbour::on_link((link, Some(own)), &message, source, icmp6::ALL_NODES, None));
        }
    }

    /// Ends what has run its time.
    pub fn expire(&mut self, now: Time) {
        self.asked.retain(|_, until| *until > now);
        self.nodes.retain(|_, node| node.heard + SILENT > now);
        for node in self.nodes.values_mut().filter(|node| node.checking && node.heard + CHECK <= now) {
            node.checking = false;
        }
    }

    /// When [`NdProxy::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let nodes = self.nodes.values().map(|node| node.heard + if node.checking { CHECK } else { SILENT });
        nodes.chain(self.asked.values().copied()).min()
    }

    /// Learns that `address` is inside, at `sender`.
    fn put(&mut self, now: Time, address: Ipv6Addr, sender: Option<LinkAddress>, out: &mut Outbox) {
        if !self.prefix.contains(address) || address == self.own || self.prefix.address() == address {
            return;
        }
        self.asked.remove(&address);
        if let Some(node) = self.nodes.get_mut(&address) {
            node.link_address = sender.or(node.link_address);
            if !node.checking {
                node.heard = now;
            }
            return;
        }
        let each = self.nodes.values().filter(|node| node.link_address == sender).count();
        if self.nodes.len() >= MAX_NODES || each >= MAX_EACH {
            let limit = if each >= MAX_EACH { MAX_EACH } else { MAX_NODES };
            if self.full.take(now) {
                out.report(Report::TableFull { table: "nodes that share a visited prefix".to_owned(), limit });
            }
            return;
        }
        self.nodes.insert(address, Node { link_address: sender, heard: now, checking: true });
        self.ask(now, self.outside, address, out);
    }

    /// A source of traffic outside is not inside: it may have moved there.
    fn defended(&mut self, source: Ipv6Addr) {
        self.nodes.remove(&source);
    }

    /// Asks on one side whether anybody has `target`.
    fn ask(&mut self, now: Time, (link, own): Side, target: Ipv6Addr, out: &mut Outbox) {
        if self.questions.take(now) {
            out.transmit(neighbour::anonymous_solicitation(link, Some(own), target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::output::Output;

    const OUTSIDE: Side = (LinkId(1), LinkAddress([2, 0, 0, 0, 0, 1]));
    const INSIDE: Side = (LinkId(2), LinkAddress([2, 0, 0, 0, 0, 2]));
    const PHONE: Option<LinkAddress> = Some(LinkAddress([2, 0, 0, 0, 0, 9]));

    fn ip(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, last)
    }

    fn proxy() -> NdProxy {
        NdProxy::new("2001:db8:9::/64".parse().unwrap(), ip(1), OUTSIDE, INSIDE)
    }

    fn asks(target: Ipv6Addr) -> NeighbourSolicitation {
        NeighbourSolicitation { target, options: Vec::new() }
    }

    fn says(target: Ipv6Addr) -> NeighbourAdvertisement {
        NeighbourAdvertisement { router: false, solicited: true, overrides: true, target, options: Vec::new() }
    }

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1000)
    }

    /// The interfaces something was sent by.
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
    fn an_address_nobody_defends_is_answered_for_after_a_second() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.solicited_inside(at(0), (Ipv6Addr::UNSPECIFIED, PHONE), &asks(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [1], "asked outside");
        proxy.expire(at(999));
        assert_eq!(proxy.nodes().count(), 0);
        assert_eq!(proxy.deadline(), Some(at(1000)));
        proxy.expire(at(1000));
        assert_eq!(proxy.nodes().collect::<Vec<_>>(), [ip(9)]);
        proxy.put_reachable(at(2000), ip(9), None, &mut out);
        assert_eq!(proxy.nodes().count(), 0, "the kernel no longer reaches it");
    }

    #[test]
    fn an_owner_outside_is_heard_inside() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.solicited_inside(at(0), (Ipv6Addr::UNSPECIFIED, PHONE), &asks(ip(9)), &mut out);
        proxy.advertised_outside(&says(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [1, 2]);
        proxy.expire(at(1000));
        assert_eq!(proxy.nodes().count(), 0);
        // One that checks it at the same time.
        proxy.solicited_inside(at(2000), (Ipv6Addr::UNSPECIFIED, PHONE), &asks(ip(9)), &mut out);
        proxy.solicited_outside(at(2100), Ipv6Addr::UNSPECIFIED, &asks(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [1, 2]);
    }

    #[test]
    fn who_is_looked_for_outside_is_asked_for_inside_and_not_for_ever() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        proxy.solicited_outside(at(0), ip(0xfe), &asks(ip(9)), &mut out);
        proxy.solicited_outside(at(10), ip(0xfe), &asks(ip(9)), &mut out);
        assert_eq!(sent(&mut out), [2]);
        proxy.advertised_inside(at(20), PHONE, &says(ip(9)), &mut out);
        proxy.expire(at(1020));
        assert_eq!(proxy.nodes().collect::<Vec<_>>(), [ip(9)]);
        sent(&mut out);
        for last in 100..5000 {
            proxy.solicited_outside(at(2000), ip(0xfe), &asks(ip(last)), &mut out);
        }
        assert!(sent(&mut out).len() <= 16 && proxy.asked.len() <= MAX_ASKED, "a scan costs little inside");
        proxy.solicited_outside(at(3000), ip(9), &asks(ip(1)), &mut out);
        assert_eq!(proxy.nodes().count(), 0, "it has moved outside");
    }

    #[test]
    fn a_full_table_is_told_and_one_node_cannot_fill_it() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        for last in 2..1000 {
            proxy.solicited_inside(at(u64::from(last)), (ip(last), PHONE), &asks(ip(1)), &mut out);
        }
        assert_eq!(proxy.nodes.len(), MAX_EACH);
        for last in 2..1000_u16 {
            let [high, low] = last.to_be_bytes();
            let other = Some(LinkAddress([2, 0, 0, 1, high, low]));
            proxy.solicited_inside(at(2000), (ip(last + 1000), other), &asks(ip(1)), &mut out);
        }
        assert_eq!(proxy.nodes.len(), MAX_NODES);
        let full = |output: &Output| matches!(output, Output::Report(Report::TableFull { .. }));
        let told = out.outputs().iter().filter(|output| full(output)).count();
        assert_eq!(told, 1);
        proxy.expire(at(4000));
        proxy.expire(at(2000) + SILENT);
        assert_eq!(proxy.nodes.len(), 0, "who is silent makes room");
    }

    #[test]
    fn others_addresses_and_our_own_are_nobodys_inside() {
        let (mut proxy, mut out) = (proxy(), Outbox::new());
        for address in [ip(1), ip(0), "2001:db8:8::9".parse().unwrap(), "fe80::9".parse().unwrap()] {
            proxy.solicited_inside(at(0), (address, PHONE), &asks(ip(5)), &mut out);
        }
        assert!(proxy.nodes.is_empty() && out.is_empty());
    }
}
