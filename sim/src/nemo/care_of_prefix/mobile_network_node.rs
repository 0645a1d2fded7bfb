//! A mobile network node that forms addresses from every advertised prefix of a visited network, and sends echo
//! requests from each while it is valid (RFC 4862 §5.4, §5.5.3, §5.5.4).

use crate::net::access_router::autonomous_prefixes;
use crate::net::datagram::ICMPV6;
use crate::net::items::address_item;
use crate::net::{Header, datagram};
use core::time::Duration;
use roam6_proto::{Engine, Input, Item, LinkId, Outbox, Time, Transmit, Via, View};
use roam6_wire::icmp6::{Echo, Message};
use roam6_wire::{LinkAddress, Prefix};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// Interval of echo requests from each address.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time of duplicate address detection (RFC 4861 §10, RETRANS_TIMER), with a margin for proxies.
const DAD_SPAN: Duration = Duration::from_millis(1200);
/// Neighbours are solicited every so many packets, by which proxies learn the address too.
const SOLICIT_EVERY: u32 = 5;
/// Time until proxies have learnt the address.
const ROUTER_LOSS_SPAN: Duration = Duration::from_secs(6);
/// Remaining lifetime that an advertisement cannot shorten (RFC 4862 §5.5.3).
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// An answer is required only for packets from an address without changes for this time before and after.
const DISTURBANCE: Duration = Duration::from_secs(1);
/// Source address failed ingress/egress policy (RFC 4443 §3.1).
const FAILED_POLICY: u8 = 5;

/// The echo requests of a node, and their answers.
#[derive(Debug, Default, Clone)]
pub struct EchoLog {
    /// Its addresses, and whether each is preferred.
    pub addresses: BTreeMap<Ipv6Addr, bool>,
    echoes: Vec<SentEcho>,
}

#[derive(Debug, Clone)]
struct SentEcho {
    source: Ipv6Addr,
    sent: Time,
    /// The source was preferred.
    preferred: bool,
    /// An answer is required.
    must_be_answered: bool,
    answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The correspondent has replied.
    Peer,
    /// The router has refused the source address.
    SourceRefused,
}

impl EchoLog {
    /// The first request sent from `since` on and before `until` that was neither answered nor refused, or refused
    /// although its source was preferred.
    pub fn unanswered(&self, since: Time, until: Time) -> Option<(Ipv6Addr, Time)> {
        let missing = |echo: &&SentEcho| match echo.answer {
            None => true,
            Some(answer) => echo.preferred && answer == Answer::SourceRefused,
        };
        let asked = self.echoes.iter().filter(|echo| echo.must_be_answered && (since..until).contains(&echo.sent));
        asked.filter(missing).map(|echo| (echo.source, echo.sent)).next()
    }

    /// Whether a request from a preferred address, sent from `since` on, was answered by the correspondent.
    pub fn has_connectivity(&self, since: Time) -> bool {
        self.echoes.iter().rev().any(|echo| echo.sent >= since && echo.preferred && echo.answer == Some(Answer::Peer))
    }

    fn disturb(&mut self, now: Time, source: Ipv6Addr) {
        let lately = |echo: &&mut SentEcho| echo.source == source && echo.sent + DISTURBANCE > now;
        self.echoes.iter_mut().rev().take(64).filter(lately).for_each(|echo| echo.must_be_answered = false);
    }
}

/// Where a node is attached.
#[derive(Debug, Clone, Copy)]
pub struct NodeSpec {
    /// Its interface.
    pub link: LinkId,
    /// Its link-layer address.
    pub address: LinkAddress,
    /// Its correspondent.
    pub peer: Ipv6Addr,
    /// The mobile network prefix, whose addresses other hosts use.
    pub home: Prefix,
}

/// The node.
#[derive(Debug)]
pub struct MobileNetworkNode {
    spec: NodeSpec,
    router: Option<Ipv6Addr>,
    addresses: BTreeMap<Prefix, FormedAddress>,
    log: Rc<RefCell<EchoLog>>,
    next: Time,
    sent: u32,
}

#[derive(Debug)]
struct FormedAddress {
    address: Ipv6Addr,
    usable: Time,
    preferred_until: Time,
    valid_until: Time,
    /// The latest advertisement has not ended it.
    alive: bool,
    changed: Time,
}

impl MobileNetworkNode {
    /// A node that writes into `ledger`.
    pub fn new(spec: NodeSpec, log: &Rc<RefCell<EchoLog>>) -> MobileNetworkNode {
        let log = Rc::clone(log);
        MobileNetworkNode { spec, router: None, addresses: BTreeMap::new(), log, next: Time::ZERO, sent: 0 }
    }

    fn receive(&mut self, now: Time, packet: &[u8], out: &mut Outbox) {
        match datagram::parse_icmp6(packet) {
            Some(Message::RouterAdvertisement(message)) => {
                self.router = Header::parse(packet).map(|header| header.source);
                for (prefix, lifetimes) in autonomous_prefixes(&message) {
                    self.receive_prefix(now, prefix, lifetimes, out);
                }
            }
            Some(Message::EchoReply(echo)) => self.record_answer(&echo, Answer::Peer),
            Some(Message::DestinationUnreachable { code: FAILED_POLICY, invoking }) => {
                if let Some(Message::EchoRequest(echo)) = datagram::parse_icmp6(&invoking) {
                    self.record_answer(&echo, Answer::SourceRefused);
                }
            }
            _ => {}
        }
    }

    fn record_answer(&self, echo: &Echo, answer: Answer) {
        let number = usize::from(echo.identifier) << 16 | usize::from(echo.sequence);
        if let Some(echo) = self.log.borrow_mut().echoes.get_mut(number) {
            echo.answer.get_or_insert(answer);
        }
    }

    fn receive_prefix(&mut self, now: Time, prefix: Prefix, (preferred, valid): (u32, u32), out: &mut Outbox) {
        if prefix == self.spec.home || prefix.length() != 64 {
            return;
        }
        let [valid, preferred] = [valid, preferred].map(|seconds| Duration::from_secs(seconds.into()));
        if let Some(formed) = self.addresses.get_mut(&prefix) {
            let rest = formed.valid_until.since(now);
            let was = formed.preferred_until > now;
            formed.preferred_until = now + preferred;
            if valid > TWO_HOURS || valid > rest {
                formed.valid_until = now + valid;
            } else if rest > TWO_HOURS {
                formed.valid_until = now + TWO_HOURS;
            }
            let back = !formed.alive && !valid.is_zero();
            if back || was != (formed.preferred_until > now) {
                // An address that is valid again is in no neighbour cache until its node has sent a solicitation.
                formed.changed = if back { now + ROUTER_LOSS_SPAN } else { now };
                self.log.borrow_mut().disturb(now, formed.address);
            }
            formed.alive = !valid.is_zero();
            return;
        }
        let Some(address) = prefix.with_identifier(self.spec.address.interface_identifier()) else { return };
        if valid.is_zero() {
            return;
        }
        let (usable, preferred_until, valid_until) = (now + DAD_SPAN, now + preferred, now + valid);
        let formed = FormedAddress { address, usable, preferred_until, valid_until, alive: true, changed: usable };
        self.addresses.insert(prefix, formed);
        out.put(self.item(address));
        self.solicit(Ipv6Addr::UNSPECIFIED, address, out);
    }

    fn item(&self, address: Ipv6Addr) -> Item {
        address_item(self.spec.link, address, 128)
    }

    /// Solicits `target`: a neighbour, or the address itself for duplicate address detection.
    fn solicit(&self, source: Ipv6Addr, target: Ipv6Addr, out: &mut Outbox) {
        let own = Some(self.spec.address).filter(|_| !source.is_unspecified());
        let bytes = datagram::solicitation(source, target, own);
        out.transmit(Transmit { via: Via::Link(self.spec.link), bytes });
    }

    /// Sends an echo request from every address.
    fn send_echoes(&mut self, now: Time, out: &mut Outbox) {
        let ended: Vec<Prefix> =
            self.addresses.iter().filter(|(_, formed)| formed.valid_until <= now).map(|(prefix, _)| *prefix).collect();
        for prefix in ended {
            let Some(formed) = self.addresses.remove(&prefix) else { continue };
            self.log.borrow_mut().disturb(now, formed.address);
            out.drop(self.item(formed.address).key());
        }
        self.sent += 1;
        let usable = self.addresses.values().filter(|formed| formed.usable <= now);
        for formed in usable {
            let preferred = formed.preferred_until > now;
            let lasts =
                formed.valid_until > now + DISTURBANCE && (formed.preferred_until > now + DISTURBANCE || !preferred);
            let must_be_answered = lasts && formed.changed + DISTURBANCE <= now;
            let mut log = self.log.borrow_mut();
            let number = log.echoes.len();
            let source = formed.address;
            log.echoes.push(SentEcho { source, sent: now, preferred, must_be_answered, answer: None });
            let (identifier, sequence) = ((number >> 16) as u16, number as u16);
            let echo = Message::EchoRequest(Echo { identifier, sequence, data: Vec::new() });
            let header = Header { source, destination: self.spec.peer, next: ICMPV6, hop_limit: 64 };
            let bytes = datagram::icmp6(header, &echo);
            out.transmit(Transmit { via: Via::Route, bytes });
            if let Some(router) = self.router.filter(|_| self.sent.is_multiple_of(SOLICIT_EVERY)) {
                self.solicit(source, router, out);
            }
        }
        let state = |formed: &FormedAddress| (formed.address, formed.preferred_until > now);
        self.log.borrow_mut().addresses = self.addresses.values().map(state).collect();
    }
}

impl Engine for MobileNetworkNode {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if let Input::Packet(packet) = input {
            self.receive(now, &packet.bytes, out);
        }
        if now >= self.next {
            self.send_echoes(now, out);
            self.next = now + INTERVAL;
        }
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.next)
    }

    fn view(&self, _: Time, _: &mut View) {}
}
