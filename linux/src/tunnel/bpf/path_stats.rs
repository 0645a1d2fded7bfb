//! The traffic of the paths of tunnels that begin at this host, as the programs count it: a home agent has too many paths,
//! and no use for it.

use super::Bpf;
use super::abi::{PATH_STATS, PathCount, PathStamp, decode_path_count, decode_path_stamp};
use crate::bpf::coarse_clock::ClockReading;
use crate::error::{Context, Error};
use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray, RingBuf};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::input::TrafficCount;
use roam6_proto::contract::item::{Tunnel, TunnelId};
use roam6_proto::{PathTraffic, PathTrafficQuery, Time};
use roam6_wire::{Bid, Prefix};

/// The maps, and the numbers of the paths in them.
pub(crate) struct PathStats {
    numbers: VecMap<(TunnelId, Bid), u16>,
    stamps: Array<MapData, PathStamp>,
    counts: PerCpuArray<MapData, PathCount>,
    wanted: Array<MapData, u32>,
    events: RingBuf<MapData>,
}

crate::sys::impl_as_fd!(PathStats, events);

impl PathStats {
    /// Takes the maps out of a loaded object.
    pub(super) fn take(ebpf: &mut Ebpf) -> Result<PathStats, Error> {
        let mut take = |name| ebpf.take_map(name).ok_or_else(|| Error::new(name, "no such map in the BPF object"));
        Ok(PathStats {
            numbers: VecMap::new(),
            stamps: Array::try_from(take("path_stamps")?).context("map path_stamps")?,
            counts: PerCpuArray::try_from(take("path_counts")?).context("map path_counts")?,
            wanted: Array::try_from(take("path_wanted")?).context("map path_wanted")?,
            events: RingBuf::try_from(take("path_events")?).context("map path_events")?,
        })
    }

    /// Numbers the paths of a tunnel; those that it has not any more become free. The first packet sent by a new path is
    /// notified.
    pub(super) fn number(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        let counted = !tunnel.local_prefixes.contains(&Prefix::ALL);
        let has = |bid: Bid| counted && tunnel.paths.iter().any(|path| path.bid == bid && !path.direct);
        self.numbers.retain(|&(id, bid), _| id != tunnel.id || has(bid));
        for path in tunnel.paths.iter().filter(|path| has(path.bid)) {
            let key = (tunnel.id, path.bid);
            let free = |number: &u16| self.numbers.values().all(|taken| taken != number);
            if self.numbers.contains_key(&key) {
                continue;
            }
            if let Some(number) = (1..PATH_STATS).find(free) {
                self.stamps.set(number.into(), PathStamp::default(), 0).context("map path_stamps")?;
                // Until the daemon reads, the path counts as idle.
                self.wanted.set(number.into(), 1, 0).context("map path_wanted")?;
                self.numbers.insert(key, number);
            }
        }
        Ok(())
    }

    /// A tunnel is removed.
    pub(super) fn release(&mut self, id: TunnelId) {
        self.numbers.retain(|&(other, _), _| other != id);
    }

    /// The number of a path; 0: its traffic is not counted.
    pub(super) fn number_of(&self, id: TunnelId, bid: Bid) -> u16 {
        self.numbers.get(&(id, bid)).copied().unwrap_or_default()
    }

    fn read(&self, clock: &ClockReading, (tunnel, bid): (TunnelId, Bid), number: u16) -> Result<PathTraffic, Error> {
        let index = u32::from(number);
        let stamp = self.stamps.get(&index, 0).context("map path_stamps")?;
        let [last_sent, last_received, unanswered_since] = decode_path_stamp(&stamp).map(|nanos| clock.time(nanos));
        let mut sum = [0_u64; 4];
        for count in self.counts.get(&index, 0).context("map path_counts")?.iter() {
            sum.iter_mut().zip(decode_path_count(count)).for_each(|(sum, count)| *sum += count);
        }
        let [sent, sent_octets, received, received_octets] = sum;
        Ok(PathTraffic {
            tunnel,
            bid,
            last_sent,
            last_received,
            unanswered_since,
            tx: TrafficCount { packets: sent, octets: sent_octets },
            rx: TrafficCount { packets: received, octets: received_octets },
        })
    }
}

impl Bpf {
    /// Reads the traffic of the paths of a tunnel. A notification is requested first, so that no packet falls between.
    pub(super) fn read_paths(&mut self, now: Time, query: &PathTrafficQuery) -> Result<Vec<PathTraffic>, Error> {
        let stats = &mut self.path_stats;
        let paths: Vec<_> = stats.numbers.iter().filter(|((id, _), _)| *id == query.tunnel).collect();
        if query.notify_sent {
            for &(_, &number) in &paths {
                stats.wanted.set(number.into(), 1, 0).context("map path_wanted")?;
            }
        }
        let clock = ClockReading::of(now);
        paths.into_iter().map(|(&key, &number)| stats.read(&clock, key, number)).collect()
    }

    /// The traffic of the paths of which the programs have notified.
    pub(super) fn read_notifications(&mut self, now: Time) -> Vec<PathTraffic> {
        let mut numbers = Vec::new();
        while let Some(event) = self.path_stats.events.next() {
            numbers.extend(event.first_chunk().map(|octets| u32::from_ne_bytes(*octets)));
        }
        let (clock, stats) = (ClockReading::of(now), &self.path_stats);
        let path = |number: u32| {
            let (&key, &number) = stats.numbers.iter().find(|(_, of)| u32::from(**of) == number)?;
            stats.read(&clock, key, number).ok()
        };
        numbers.into_iter().filter_map(path).collect()
    }
}
