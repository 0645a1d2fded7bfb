//! Keys and values of the maps that the daemon and the Shim6 programs share: the layouts of `bpf/shim/abi.h`, field by
//! field.

use crate::bpf::layout::{Reader, layout};
use core::time::Duration;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::item::{ContextTrigger, MAX_LOCATORS, ShimContext};
use roam6_wire::shim6::Tag;
use std::net::Ipv6Addr;

/// Requests to notify the daemon of the next packet sent, or received.
pub(super) const NOTIFY_SENT: u32 = 1;
pub(super) const NOTIFY_RECEIVED: u32 = 2;

pub(super) type SettingsValue = [u8; 48];
pub(super) type ContextKey = [u8; 36];
pub(super) type ContextValue = [u8; 80];
pub(super) type TaggedValue = [u8; 40 + 16 * MAX_LOCATORS];
pub(super) type TrafficValue = [u8; 64];

/// The index under which the programs count the traffic of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContextIndex(pub(super) u32);

/// A context in the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredContext {
    pub(super) index: ContextIndex,
    pub(super) locators: AddressPair,
    pub(super) tag_in: Tag,
    pub(super) tag_out: Tag,
}

impl StoredContext {
    /// What identifies it in an ICMPv6 error about one of its packets, if it rewrites.
    pub(super) fn error_key(&self, id: ContextId) -> Option<(Tag, AddressPair)> {
        (self.locators != id.ulids).then_some((self.tag_out, self.locators))
    }
}

/// The traffic of a context, as the programs count it; times in nanoseconds of their clock, 0 for never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContextTraffic {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) unanswered: u64,
    pub(super) unreturned: u64,
    pub(super) packets_out: u64,
    pub(super) octets_out: u64,
    pub(super) packets_in: u64,
    pub(super) octets_in: u64,
}

/// An event from the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// A conversation over the threshold; `since` in nanoseconds of the programs' clock.
    Flow { link: u32, pair: AddressPair, packets: u64, octets: u64, since: u64 },
    /// A context with a requested notification has sent or received.
    Activity(ContextIndex),
    /// The first octets of a packet that no context accepts.
    Packet { link: u32, octets: Vec<u8> },
}

pub(super) fn encode_settings(trigger: Option<&ContextTrigger>, segmentation_link: u32) -> SettingsValue {
    let span = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    layout(|out| {
        let number = |number: Option<u64>| number.unwrap_or_default();
        let given = trigger.map(|trigger| {
            let age = trigger.age.map(|age| span(age).max(1));
            [
                number(trigger.octets),
                number(trigger.packets),
                number(age),
                span(trigger.idle_timeout),
                span(trigger.repeat_after),
            ]
        });
        out.extend(given.unwrap_or_default().into_iter().flat_map(u64::to_ne_bytes));
        out.extend(u32::from(trigger.is_some()).to_ne_bytes());
        out.extend(segmentation_link.to_ne_bytes());
    })
}

pub(super) fn context_key(id: ContextId) -> ContextKey {
    layout(|out| {
        put_pair(out, id.ulids);
        out.extend(id.fork.0.to_ne_bytes());
    })
}

pub(super) fn encode_context(context: &ShimContext, slot: ContextIndex) -> ContextValue {
    layout(|out| {
        put_pair(out, context.locators);
        out.extend(context.next_hop.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
        out.extend([context.tag_out, context.tag_in].into_iter().flat_map(|tag| tag.bits().to_ne_bytes()));
        let rewrites = u32::from(context.locators != context.id.ulids);
        out.extend([slot.0, context.link.0, rewrites, 0].into_iter().flat_map(u32::to_ne_bytes));
    })
}

/// Decodes what the daemon needs of a context; `None` for a damaged value.
pub(super) fn decode_context(value: &ContextValue) -> Option<StoredContext> {
    let mut reader = Reader(value);
    let locators = AddressPair { local: reader.address()?, peer: reader.address()? };
    reader.take::<16>()?;
    let (tag_out, tag_in) = (Tag::new(reader.u64()?)?, Tag::new(reader.u64()?)?);
    Some(StoredContext { index: ContextIndex(reader.u32()?), locators, tag_in, tag_out })
}

pub(super) fn encode_tag(context: &ShimContext, slot: ContextIndex) -> TaggedValue {
    layout(|out| {
        put_pair(out, context.id.ulids);
        out.extend(slot.0.to_ne_bytes());
        out.extend((context.allowed_sources.len() as u32).to_ne_bytes());
        out.extend(context.allowed_sources.iter().flat_map(Ipv6Addr::octets));
    })
}

pub(super) fn decode_traffic(value: &TrafficValue) -> ContextTraffic {
    let mut reader = Reader(value);
    let mut next = || reader.u64().unwrap_or_default();
    ContextTraffic {
        sent: next(),
        received: next(),
        unanswered: next(),
        unreturned: next(),
        packets_out: next(),
        octets_out: next(),
        packets_in: next(),
        octets_in: next(),
    }
}

/// Decodes an event; `None` for unknown ones.
pub(super) fn decode_event(bytes: &[u8]) -> Option<Event> {
    let mut reader = Reader(bytes);
    match reader.u32()? {
        1 => Some(Event::Flow {
            link: reader.u32()?,
            pair: AddressPair { local: reader.address()?, peer: reader.address()? },
            packets: reader.u64()?,
            octets: reader.u64()?,
            since: reader.u64()?,
        }),
        2 => reader.u32().map(|slot| Event::Activity(ContextIndex(slot))),
        3 => {
            let (link, length, _) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let octets = reader.0.get(..usize::try_from(length).ok()?)?.to_vec();
            Some(Event::Packet { link, octets })
        }
        _ => None,
    }
}

fn put_pair(out: &mut Vec<u8>, pair: AddressPair) {
    out.extend(pair.local.octets());
    out.extend(pair.peer.octets());
}
