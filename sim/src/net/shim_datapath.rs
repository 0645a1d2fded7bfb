//! The shim's data plane of a simulated host: contexts, uplinks and the trigger, applied to packets (RFC 5533 §11,
//! §12.1, §12.2).

use crate::net::datagram::HEADER;
use crate::net::path_counters::PathKey;
use crate::net::{Header, datagram};
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::input::{Activity, FlowEvent, TrafficCount};
use roam6_proto::contract::item::{ContextTrigger, ShimContext};
use roam6_proto::{ActivityQuery, Key, LinkId, Time};
use roam6_wire::shim6::{self, Fork, PayloadHeader, Tag};
use std::collections::{BTreeMap, BTreeSet};

/// Flows without a context counted at most.
const MOST_FLOWS: usize = 256;

/// Installed contexts and their counters.
#[derive(Debug, Default)]
pub struct ShimDatapath {
    links: BTreeSet<LinkId>,
    trigger: Option<ContextTrigger>,
    contexts: BTreeMap<ContextId, ContextEntry>,
    tags: BTreeMap<Tag, ContextId>,
    flows: BTreeMap<AddressPair, FlowEntry>,
}

#[derive(Debug)]
struct ContextEntry {
    context: ShimContext,
    outbound: DirectionState,
    inbound: DirectionState,
    report_sent: bool,
    report_received: bool,
}

/// Counters of one direction.
#[derive(Debug, Default, Clone, Copy)]
struct DirectionState {
    last: Option<Time>,
    /// The first packet after the last one of the other direction.
    first: Option<Time>,
    amount: TrafficCount,
}

#[derive(Debug, Clone, Copy)]
struct FlowEntry {
    since: Time,
    last_sent: Time,
    reported: Option<Time>,
    amount: TrafficCount,
}

/// An event for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatapathEvent {
    /// Activity of a context.
    Activity(ContextId),
    /// A flow has reached the trigger threshold.
    Flow(FlowEvent),
    /// The traffic of an interface.
    LinkTraffic(LinkId),
    /// The traffic of a path.
    PathTraffic(PathKey),
}

/// The result for a packet.
#[derive(Debug, Default)]
pub struct Processed {
    /// The rewritten packet; `None` if it is unchanged.
    pub packet: Option<Vec<u8>>,
    /// The interface by which it must be sent.
    pub link: Option<LinkId>,
    /// An event for the engine.
    pub event: Option<DatapathEvent>,
}

impl ShimDatapath {
    /// Processes the packets of an interface.
    pub fn put_link(&mut self, link: LinkId) {
        self.links.insert(link);
    }

    /// Reports flows that reach the threshold.
    pub fn put_trigger(&mut self, trigger: ContextTrigger) {
        self.trigger = Some(trigger);
    }

    /// Installs a context; one with the same identifier keeps its counters.
    pub fn put(&mut self, context: ShimContext) {
        self.flows.remove(&context.id.ulids);
        let id = context.id;
        if let Some(earlier) = self.find(&id).map(|earlier| earlier.tag_in) {
            self.tags.remove(&earlier);
        }
        self.tags.insert(context.tag_in, id);
        match self.contexts.get_mut(&id) {
            Some(entry) => entry.context = context,
            None => {
                let (outbound, inbound) = Default::default();
                let entry = ContextEntry { context, outbound, inbound, report_sent: false, report_received: false };
                self.contexts.insert(id, entry);
            }
        }
    }

    /// Removes the item of `key`.
    pub fn drop(&mut self, key: &Key) {
        match key {
            Key::ShimUplink(link) => drop(self.links.remove(link)),
            Key::ContextTrigger => {
                self.trigger = None;
                self.flows.clear();
            }
            Key::ShimContext(id) => {
                if let Some(entry) = self.contexts.remove(id) {
                    self.tags.remove(&entry.context.tag_in);
                }
            }
            _ => {}
        }
    }

    /// The context of this name.
    pub fn find(&self, id: &ContextId) -> Option<&ShimContext> {
        self.contexts.get(id).map(|entry| &entry.context)
    }

    /// All contexts.
    pub fn contexts(&self) -> impl Iterator<Item = &ShimContext> {
        self.contexts.values().map(|entry| &entry.context)
    }

    /// Requests a report of activity; whether the context is installed.
    pub fn request_report(&mut self, sample: &ActivityQuery) -> bool {
        let Some(entry) = self.contexts.get_mut(&sample.context) else { return false };
        (entry.report_sent, entry.report_received) = (sample.notify_sent, sample.notify_received);
        true
    }

    /// The activity of a context; `at` converts the world's time to the engine's.
    pub fn activity(&self, id: &ContextId, at: impl Fn(Time) -> Time) -> Option<Activity> {
        let entry = self.contexts.get(id)?;
        Some(Activity {
            context: *id,
            last_sent: entry.outbound.last.map(&at),
            last_received: entry.inbound.last.map(&at),
            unanswered_since: entry.outbound.first.map(&at),
            unreturned_since: entry.inbound.first.map(&at),
            tx: entry.outbound.amount,
            rx: entry.inbound.amount,
        })
    }

    /// Processes a packet sent by this host, by `link` if that is known.
    pub fn send(&mut self, now: Time, packet: &[u8], link: Option<LinkId>) -> Processed {
        let Some(header) = Header::parse(packet).filter(counts) else { return Processed::default() };
        let pair = AddressPair { local: header.source, peer: header.destination };
        let Some(entry) = self.contexts.get_mut(&ContextId { ulids: pair, fork: Fork::NONE }) else {
            let flow = link.and_then(|link| self.flow(now, pair, link, packet.len(), true));
            return Processed { event: flow.map(DatapathEvent::Flow), ..Processed::default() };
        };
        entry.outbound.count(now, packet.len());
        entry.inbound.first = None;
        let reported = core::mem::take(&mut entry.report_sent);
        let context = &entry.context;
        let rewrites = context.locators != context.id.ulids;
        Processed {
            packet: rewrites.then(|| rewrite(packet, &header, context)),
            link: rewrites.then_some(context.link),
            event: reported.then_some(DatapathEvent::Activity(context.id)),
        }
    }

    /// Processes a packet for this host. One with an unknown tag is delivered unchanged.
    pub fn receive(&mut self, now: Time, packet: &[u8], link: LinkId) -> Processed {
        let Some(header) = Header::parse(packet) else { return Processed::default() };
        let unwrapped = self.receive_rewritten(packet, &header);
        let header = unwrapped.as_deref().and_then(Header::parse).unwrap_or(header);
        if !counts(&header) {
            return Processed::default();
        }
        let pair = AddressPair { local: header.destination, peer: header.source };
        let news = match self.contexts.get_mut(&ContextId { ulids: pair, fork: Fork::NONE }) {
            Some(entry) => {
                entry.inbound.count(now, packet.len());
                entry.outbound.first = None;
                let id = entry.context.id;
                core::mem::take(&mut entry.report_received).then_some(DatapathEvent::Activity(id))
            }
            None => self.flow(now, pair, link, packet.len(), false).map(DatapathEvent::Flow),
        };
        Processed { packet: unwrapped, link: None, event: news }
    }

    fn receive_rewritten(&self, packet: &[u8], header: &Header) -> Option<Vec<u8>> {
        let shim = PayloadHeader::parse(datagram::payload(packet)).filter(|_| header.next == shim6::PROTOCOL)?;
        let context = &self.contexts.get(self.tags.get(&shim.tag)?)?.context;
        if !context.allowed_sources.contains(&header.source) {
            return None;
        }
        let ulids = context.id.ulids;
        let inner = Header { source: ulids.peer, destination: ulids.local, next: shim.next_header, ..*header };
        Some(datagram::build(inner, packet.get(HEADER + shim6::PAYLOAD_HEADER_LENGTH..)?))
    }

    fn flow(&mut self, now: Time, pair: AddressPair, link: LinkId, octets: usize, sent: bool) -> Option<FlowEvent> {
        let trigger = self.trigger.filter(|_| self.links.contains(&link))?;
        if !self.flows.contains_key(&pair) && self.flows.len() >= MOST_FLOWS {
            self.flows.pop_first();
        }
        let fresh = FlowEntry { since: now, last_sent: now, reported: None, amount: TrafficCount::default() };
        let flow = self.flows.entry(pair).or_insert(fresh);
        if now.since(flow.last_sent) > trigger.idle_timeout {
            *flow = fresh;
        }
        count_packet(&mut flow.amount, octets);
        if sent {
            flow.last_sent = now;
        }
        let due = flow.reported.is_none_or(|reported| now.since(reported) >= trigger.repeat_after);
        let much = trigger.octets.is_some_and(|limit| flow.amount.octets >= limit)
            || trigger.packets.is_some_and(|limit| flow.amount.packets >= limit)
            || sent && trigger.age.is_some_and(|age| now.since(flow.since) >= age);
        if !(due && much) {
            return None;
        }
        flow.reported = Some(now);
        let FlowEntry { since, amount, .. } = *flow;
        Some(FlowEvent { pair, link, packets: amount.packets, octets: amount.octets, since })
    }
}

impl DirectionState {
    fn count(&mut self, now: Time, octets: usize) {
        self.last = Some(now);
        self.first.get_or_insert(now);
        count_packet(&mut self.amount, octets);
    }
}

fn count_packet(amount: &mut TrafficCount, octets: usize) {
    amount.packets += 1;
    amount.octets += u64::try_from(octets).unwrap_or(0);
}

/// Whether a packet belongs to an upper layer.
fn counts(header: &Header) -> bool {
    let global = |address: std::net::Ipv6Addr| !(address.is_multicast() || address.is_unicast_link_local());
    header.next != shim6::PROTOCOL && global(header.source) && global(header.destination)
}

fn rewrite(packet: &[u8], header: &Header, context: &ShimContext) -> Vec<u8> {
    let shim = PayloadHeader { next_header: header.next, tag: context.tag_out }.emit();
    let payload = [&shim[..], datagram::payload(packet)].concat();
    let AddressPair { local: source, peer: destination } = context.locators;
    datagram::build(Header { source, destination, next: shim6::PROTOCOL, ..*header }, &payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    const LINK: LinkId = LinkId(3);

    fn pair(local: &str, peer: &str) -> AddressPair {
        AddressPair { local: local.parse().unwrap(), peer: peer.parse().unwrap() }
    }

    fn ulids() -> AddressPair {
        pair("2001:db8:a::1", "2001:db8:b::1")
    }

    fn context(locators: AddressPair) -> ShimContext {
        ShimContext {
            id: ContextId { ulids: ulids(), fork: Fork::NONE },
            locators,
            link: LINK,
            next_hop: None,
            tag_in: Tag::from_low_bits(1),
            tag_out: Tag::from_low_bits(2),
            allowed_sources: vec!["2001:db8:b::1".parse().unwrap(), "2001:db8:d::1".parse().unwrap()],
        }
    }

    fn packet(from: AddressPair) -> Vec<u8> {
        let header = Header { source: from.local, destination: from.peer, next: 17, hop_limit: 64 };
        datagram::build(header, b"payload!")
    }

    fn turned(pair: AddressPair) -> AddressPair {
        AddressPair { local: pair.peer, peer: pair.local }
    }

    #[test]
    fn payload_extension_headers_are_added_and_removed() {
        let (mut near, mut far) = (ShimDatapath::default(), ShimDatapath::default());
        let locators = pair("2001:db8:c::1", "2001:db8:d::1");
        near.put(context(locators));
        let sent = near.send(Time::ZERO, &packet(ulids()), None);
        let wrapped = sent.packet.unwrap();
        assert_eq!((sent.link, Header::parse(&wrapped).unwrap().source), (Some(LINK), locators.local));

        let id = ContextId { ulids: turned(ulids()), fork: Fork::NONE };
        let other = ShimContext {
            id,
            tag_in: Tag::from_low_bits(2),
            allowed_sources: vec![locators.local],
            ..context(turned(ulids()))
        };
        far.put(other.clone());
        assert_eq!(far.receive(Time::ZERO, &wrapped, LINK).packet, Some(packet(ulids())));
        far.put(ShimContext { allowed_sources: Vec::new(), ..other });
        assert_eq!(
            far.receive(Time::ZERO, &wrapped, LINK).packet,
            None,
            "a packet from another source is passed to the engine"
        );
    }

    #[test]
    fn activity_is_reported_once_per_request() {
        let mut plane = ShimDatapath::default();
        plane.put(context(ulids()));
        let id = context(ulids()).id;
        assert_eq!(plane.send(Time::ZERO, &packet(ulids()), None).event, None);
        assert!(plane.request_report(&ActivityQuery { context: id, notify_sent: true, notify_received: false }));
        assert_eq!(plane.receive(Time::ZERO, &packet(turned(ulids())), LINK).event, None);
        let later = Time::from_micros(7);
        assert_eq!(plane.send(later, &packet(ulids()), None).event, Some(DatapathEvent::Activity(id)));
        assert_eq!(plane.send(Time::from_micros(9), &packet(ulids()), None).event, None);
        let activity = plane.activity(&id, |time| time).unwrap();
        assert_eq!((activity.unanswered_since, activity.unreturned_since), (Some(later), None));
        assert_eq!((activity.tx.packets, activity.rx.packets), (3, 1));
    }

    #[test]
    fn a_flow_is_reported_at_the_trigger_threshold_and_again_later() {
        let mut plane = ShimDatapath::default();
        plane.put_link(LINK);
        plane.put_trigger(ContextTrigger { octets: Some(100), packets: None, ..ContextTrigger::default() });
        let mut send = |seconds| {
            let now = Time::ZERO + Duration::from_secs(seconds);
            plane.send(now, &packet(ulids()), Some(LINK)).event.is_some()
        };
        assert_eq!([0, 1, 2, 3, 62, 63].map(&mut send), [false, false, true, false, true, false]);
    }
}
