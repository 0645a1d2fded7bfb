//! The traffic of the paths of tunnels, as the data plane counts it.

use roam6_proto::contract::input::TrafficCount;
use roam6_proto::contract::item::TunnelId;
use roam6_proto::{PathTraffic, Time};
use roam6_wire::Bid;
use std::collections::{BTreeMap, BTreeSet};

/// A path of a tunnel.
pub type PathKey = (TunnelId, Bid);

/// What a host counts.
#[derive(Debug, Default)]
pub struct PathCounters {
    paths: BTreeMap<PathKey, Counted>,
    wanted: BTreeSet<PathKey>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counted {
    tx: TrafficCount,
    rx: TrafficCount,
    last_sent: Option<Time>,
    last_received: Option<Time>,
    unanswered_since: Option<Time>,
}

impl PathCounters {
    /// Counts a packet sent; whether the engine is to be notified: of the first of all, and where it was requested.
    pub fn count_sent(&mut self, path: PathKey, now: Time, octets: usize) -> bool {
        let is_first = self.paths.get(&path).is_none_or(|counted| counted.last_sent.is_none());
        let counted = self.paths.entry(path).or_default();
        add(&mut counted.tx, octets);
        counted.last_sent = Some(now);
        counted.unanswered_since.get_or_insert(now);
        self.wanted.remove(&path) | is_first
    }

    /// Counts a packet received.
    pub fn count_received(&mut self, path: PathKey, now: Time, octets: usize) {
        let counted = self.paths.entry(path).or_default();
        add(&mut counted.rx, octets);
        (counted.last_received, counted.unanswered_since) = (Some(now), None);
    }

    /// Requests a notification of the next packet sent.
    pub fn request(&mut self, path: PathKey) {
        self.wanted.insert(path);
    }

    /// What was counted; `at` is the time of the host.
    pub fn read(&self, path: PathKey, at: impl Fn(Time) -> Time) -> PathTraffic {
        let counted = self.paths.get(&path).copied().unwrap_or_default();
        PathTraffic {
            tunnel: path.0,
            bid: path.1,
            last_sent: counted.last_sent.map(&at),
            last_received: counted.last_received.map(&at),
            unanswered_since: counted.unanswered_since.map(&at),
            tx: counted.tx,
            rx: counted.rx,
        }
    }
}

fn add(count: &mut TrafficCount, octets: usize) {
    count.packets += 1;
    count.octets += octets as u64;
}
