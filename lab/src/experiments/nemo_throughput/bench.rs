//! The chains of the experiment and the bursts through them.

use super::lanes::{PacketLane, Section, lanes};
use super::{Effort, FLOWS};
use crate::experiments::prelude::*;
use crate::load::chain_bench::ChainBench;
use crate::load::packet_generator::{Burst, PacketGenerator};
use crate::load::tcp_cost;
use crate::topology::chain::{self, Forwarding};
use std::collections::BTreeMap;

/// Warm-up frames, so that neighbours and next hops are known.
const WARM_UP: u32 = 1024;

/// Gigabits per second of CPU time for all rounds, by number of connections, sockets on the router, direction (upward),
/// and forwarding.
pub(super) type BulkRates = BTreeMap<(usize, bool, bool, Forwarding), Vec<f64>>;

/// Forwardings without a roam6 daemon, with one, and in UDP. On Linux 6.1 a packet socket in one network namespace costs each
/// packet that the kernel receives in any other. With an instruction-counting clock, where turns are not needed, each group is
/// measured before the daemons of the next one run.
pub(super) const FORWARDINGS: [&[Forwarding]; 3] = [
    &[Forwarding::Plain, Forwarding::Seg6, Forwarding::Ip6tnl, Forwarding::WireGuard, Forwarding::Redirect],
    &[Forwarding::Roam6, Forwarding::Xdp],
    &[Forwarding::Udp4, Forwarding::Udp6],
];

/// The chains of the experiment; packets may also be counted, and end, in the middle.
pub(super) struct ThroughputBench(pub(super) ChainBench);

impl ThroughputBench {
    /// Whether packets of `size` octets can be sent on a lane.
    fn can_measure(&self, lane: PacketLane, size: usize) -> bool {
        lane.forwarding.fits(size) && self.0.chain(lane.forwarding).is_ok()
    }

    /// Measures the lanes of these forwardings in turn, pass by pass; another lane begins each round.
    pub(super) fn measure_lanes(
        &mut self,
        kinds: &[Forwarding],
        size: usize,
        effort: &Effort,
        round: usize,
    ) -> Result<BTreeMap<PacketLane, Burst>> {
        let mut turn = lanes();
        let first = round % turn.len();
        turn.rotate_left(first);
        turn.retain(|lane| kinds.contains(&lane.forwarding) && self.can_measure(*lane, size));
        let mut bursts: BTreeMap<PacketLane, Burst> = BTreeMap::new();
        for lane in (0..effort.passes).flat_map(|_| turn.iter().copied()) {
            let burst = self.send_burst(lane, size, effort.frames)?;
            bursts.entry(lane).and_modify(|sum| *sum += burst).or_insert(burst);
        }
        Ok(bursts)
    }

    /// Sends packets of `size` octets (without the tunnel header) on a lane.
    fn send_burst(&mut self, lane: PacketLane, size: usize, count: u32) -> Result<Burst> {
        let PacketLane { forwarding: kind, section, upward } = lane;
        let (chain, generator) = self.0.parts(kind)?;
        let middle = match (section, upward) {
            (Section::Nothing | Section::NothingBare, _) => Some((&chain.agent, "h0")),
            (Section::WholeBare, _) => Some((&chain.sink, "d0")),
            (Section::Entry, false) => Some((&chain.router, "up0")),
            (Section::Entry, true) => Some((&chain.agent, "h1")),
            _ => None,
        };
        let (host, from, to) = match (section, upward) {
            (Section::Exit, false) => (&chain.agent, "h1", "up0"),
            (Section::Exit, true) => (&chain.router, "up0", "h1"),
            (_, false) => (&chain.source, "s0", "h0"),
            (_, true) => (&chain.sink, "d0", "in0"),
        };
        let plain = chain::udp_packet(size, upward, 0);
        let inside = section == Section::Exit && kind == Forwarding::Roam6;
        let packet = if inside { chain::encapsulated(&plain, upward) } else { plain };
        let frames = [chain::ethernet_frame(from, to, &packet)];
        generator.send_burst(host, from, &frames, WARM_UP)?;
        let counter = if section.generator_only() == Section::Nothing {
            PacketGenerator::count_at
        } else {
            PacketGenerator::count_at_driver
        };
        let place = middle.map(|(host, interface)| counter(generator, host, interface)).transpose()?;
        let burst = kind.with_workers(|| generator.send_burst(host, from, &frames, count))?;
        drop(place);
        Ok(burst)
    }

    /// Bulk TCP in both directions through plain routers and through the tunnel in turn.
    pub(super) fn measure_bulk(&self, bulks: &mut BulkRates, octets: usize, at: usize) -> Result<()> {
        let mut kinds = [Forwarding::Plain, Forwarding::Roam6, Forwarding::Udp4, Forwarding::Udp6];
        kinds.rotate_left(at % 4);
        for flows in FLOWS {
            for kind in kinds {
                let chain = self.0.chain(kind)?;
                let nodes = [(false, &chain.sink, chain::SINK), (true, &chain.router, chain.router_address())];
                for ((local, host, address), upward) in nodes.into_iter().flat_map(|node| [(node, false), (node, true)])
                {
                    let far = Endpoint { host: &chain.source, address: chain::SOURCE };
                    let mut ends = [far, Endpoint { host, address }];
                    if upward {
                        ends.reverse();
                    }
                    let rate = tcp_cost::rate_per_cpu_second(ends, flows, octets)?;
                    bulks.entry((flows, local, upward, kind)).or_default().push(rate);
                }
            }
        }
        Ok(())
    }
}
