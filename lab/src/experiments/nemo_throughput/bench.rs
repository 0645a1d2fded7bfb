//! The chains of the experiment and the bursts through them.

use super::FLOWS;
use super::lanes::{Lane, Section};
use crate::bed::cage::Workers;
use crate::chain::{self, Chain, Kind};
use crate::traffic::bulk;
use crate::traffic::wind::{self, Blow, Place, Wind};
use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// Warm-up frames, so that neighbours and next hops are known.
const WARM: u32 = 1024;

/// Gigabits per second of CPU time for all rounds, by number of connections, sockets on the router, direction (upward),
/// and forwarding.
pub(super) type Bulks = BTreeMap<(usize, bool, bool, Kind), Vec<f64>>;

/// Forwardings without a roam6 daemon, and with one. On Linux 6.1 a packet socket in one network namespace costs each
/// packet that the kernel receives in any other. With an instruction-counting clock, where turns are not needed, the
/// former are measured before a daemon runs.
pub(super) const KINDS: [&[Kind]; 2] =
    [&[Kind::Plain, Kind::Segments, Kind::Ip6tnl, Kind::WireGuard, Kind::Ceiling], &[Kind::Roam6, Kind::Xdp]];

/// Builds a chain, or returns the reason why this machine cannot.
fn build(kind: Kind) -> Result<Result<Chain, String>> {
    if let Some(why) = kind.obstacle()? {
        return Ok(Err(why));
    }
    let chain = Chain::build(kind)?;
    Ok(chain.shortcoming()?.map_or(Ok(chain), Err))
}

/// The chains, a permanent counter at each end, and a second one for packets that end in the middle.
pub(super) struct Bench {
    chains: Vec<Chain>,
    /// Forwardings that this machine does not support, with the reason.
    pub(super) absent: Vec<String>,
    wind: Wind,
    ends: Vec<Place>,
}

impl Bench {
    /// Without chains.
    pub(super) fn new() -> Result<Bench> {
        Ok(Bench { chains: Vec::new(), absent: Vec::new(), wind: Wind::new()?, ends: Vec::new() })
    }

    /// Builds further chains.
    pub(super) fn add(&mut self, kinds: &[Kind]) -> Result<()> {
        for kind in kinds {
            match wind::beside(|| build(*kind))? {
                Ok(chain) => {
                    self.ends.push(self.wind.count_at(&chain.sink, "d0")?);
                    self.ends.push(self.wind.count_at(&chain.source, "s0")?);
                    self.chains.push(chain);
                }
                Err(why) => self.absent.push(format!("{}: {why}", kind.name())),
            }
        }
        Ok(())
    }

    fn chain(&self, kind: Kind) -> Result<&Chain> {
        self.chains.iter().find(|chain| chain.kind == kind).context("no such chain")
    }

    /// Whether packets of `size` octets can be sent on a lane.
    pub(super) fn has(&self, lane: Lane, size: usize) -> bool {
        lane.kind.carries(size) && self.chain(lane.kind).is_ok()
    }

    /// Sends packets of `size` octets (without the tunnel header) on a lane.
    pub(super) fn blow(&mut self, lane: Lane, size: usize, count: u32) -> Result<Blow> {
        let Lane { kind, section, upward } = lane;
        let chain = self.chains.iter().find(|chain| chain.kind == kind).context("no such chain")?;
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
        let plain = chain::packet(size, upward, 0);
        let inside = section == Section::Exit && kind == Kind::Roam6;
        let packet = if inside { chain::tunnelled(&plain, upward) } else { plain };
        let frames = [chain::frame(from, to, &packet)];
        self.wind.blow(host, from, &frames, WARM)?;
        let counter = if section.nothing() == Section::Nothing { Wind::count_at } else { Wind::swallow_at };
        let place = middle.map(|(host, interface)| counter(&mut self.wind, host, interface)).transpose()?;
        // WireGuard encrypts in worker threads.
        let before = (kind == Kind::WireGuard).then(Workers::now);
        let mut blow = self.wind.blow(host, from, &frames, count)?;
        blow.took += before.map(|before| Workers::now().worked_since(&before)).unwrap_or_default();
        drop(place);
        Ok(blow)
    }

    /// Bulk TCP in both directions through plain routers and through the tunnel in turn.
    pub(super) fn bulks(&self, bulks: &mut Bulks, octets: usize, at: usize) -> Result<()> {
        let mut kinds = [Kind::Plain, Kind::Roam6];
        kinds.rotate_left(at % 2);
        for flows in FLOWS {
            for kind in kinds {
                let chain = self.chain(kind)?;
                let far = (&chain.source, chain::SOURCE);
                let nodes = [(false, (&chain.sink, chain::SINK)), (true, (&chain.router, chain.router_address()))];
                for (local, near) in nodes {
                    for (upward, from, to) in [(false, far, near), (true, near, far)] {
                        let rate = bulk::carry(from, to, flows, octets)?;
                        bulks.entry((flows, local, upward, kind)).or_default().push(rate);
                    }
                }
            }
        }
        Ok(())
    }
}
