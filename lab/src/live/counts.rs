//! Counters of the frames on each link.

use crate::bed::{Air, Segment};
use roam6_wire::ip6::protocol;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Offset of the Next Header field in an IPv6 packet.
const NEXT_HEADER: usize = 6;

/// Packets and octets of one link so far.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    packets: u64,
    octets: u64,
    tunnelled: u64,
}

/// Counters of all links.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts(Arc<Mutex<BTreeMap<Segment, Count>>>);

impl Counts {
    /// Counts from now on.
    pub(super) fn watch(air: &Air) -> Counts {
        let counts = Counts::default();
        let shared = counts.clone();
        air.observe(move |sighting| {
            let mut all = shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            let count = all.entry(sighting.segment).or_default();
            count.packets += 1;
            count.octets += sighting.frame.len() as u64;
            let inner = sighting.packet().and_then(|packet| packet.get(NEXT_HEADER));
            count.tunnelled += u64::from(inner == Some(&protocol::IPV6));
        });
        counts
    }

    /// The counters of one link.
    pub(super) fn of(&self, segment: Segment) -> Value {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Count { packets, octets, tunnelled } = all.get(&segment).copied().unwrap_or_default();
        json!({ "packets": packets, "octets": octets, "tunnelled": tunnelled })
    }
}
