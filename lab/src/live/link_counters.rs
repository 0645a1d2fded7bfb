//! Counters of the frames on each link.

use crate::bed::{LinkEmulator, Segment};
use crate::threads::Shared;
use roam6_wire::ip6::protocol;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Offset of the Next Header field in an IPv6 packet.
const NEXT_HEADER_OFFSET: usize = 6;

/// Packets and octets of one link so far.
#[derive(Debug, Clone, Copy, Default)]
struct LinkCounter {
    packets: u64,
    octets: u64,
    tunnelled: u64,
}

/// Counters of all links.
#[derive(Debug)]
pub(super) struct LinkCounters(Shared<BTreeMap<Segment, LinkCounter>>);

impl LinkCounters {
    /// Counts from now on.
    pub(super) fn watch(emulator: &LinkEmulator) -> LinkCounters {
        LinkCounters(emulator.collect(|all: &mut BTreeMap<_, LinkCounter>, observed| {
            let count = all.entry(observed.segment).or_default();
            count.packets += 1;
            count.octets += observed.frame.len() as u64;
            let inner = observed.packet().and_then(|packet| packet.get(NEXT_HEADER_OFFSET));
            count.tunnelled += u64::from(inner == Some(&protocol::IPV6));
        }))
    }

    /// The counters of one link.
    pub(super) fn of_link(&self, segment: Segment) -> Value {
        let LinkCounter { packets, octets, tunnelled } = self.0.lock().get(&segment).copied().unwrap_or_default();
        json!({ "packets": packets, "octets": octets, "tunnelled": tunnelled })
    }
}
