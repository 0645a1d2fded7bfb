//! Chains of hosts with a permanent packet counter at each end, and bursts of packets through them.

use super::packet_generator::{self, Burst, PacketCounter, PacketGenerator};
use crate::topology::chain::{self, Chain, Forwarding};
use anyhow::{Context, Result, anyhow};
use std::ops::Range;

/// Chains and their packet generator.
pub(crate) struct ChainBench {
    chains: Vec<Chain>,
    /// Forwardings that this machine does not support, with the reason.
    pub(crate) unavailable: Vec<String>,
    generator: PacketGenerator,
    counters: Vec<PacketCounter>,
}

/// Builds a chain, or returns the reason why this machine cannot.
fn build(kind: Forwarding) -> Result<Result<Chain, String>> {
    if let Some(why) = kind.unavailable_reason()? {
        return Ok(Err(why));
    }
    let chain = Chain::build(kind)?;
    Ok(chain.xdp_fallback_reason()?.map_or(Ok(chain), Err))
}

impl ChainBench {
    /// Builds chains of these kinds.
    pub(crate) fn new(kinds: &[Forwarding]) -> Result<ChainBench> {
        let generator = PacketGenerator::new()?;
        let mut bench = ChainBench { chains: Vec::new(), unavailable: Vec::new(), generator, counters: Vec::new() };
        bench.add(kinds)?;
        Ok(bench)
    }

    /// Builds further chains, at the same time, since most of that is waiting.
    pub(crate) fn add(&mut self, kinds: &[Forwarding]) -> Result<()> {
        let build = |kind: Forwarding| move || packet_generator::on_generator_cpu(|| build(kind));
        let built: Vec<_> = std::thread::scope(|scope| {
            let builders: Vec<_> = kinds.iter().map(|kind| scope.spawn(build(*kind))).collect();
            builders
                .into_iter()
                .map(|builder| builder.join().map_err(|_| anyhow!("a chain's thread panicked"))?)
                .collect()
        });
        for (kind, chain) in kinds.iter().zip(built) {
            match chain? {
                Ok(chain) => {
                    self.counters.push(self.generator.count_at(&chain.sink, "d0")?);
                    self.counters.push(self.generator.count_at(&chain.source, "s0")?);
                    self.chains.push(chain);
                }
                Err(why) => self.unavailable.push(format!("{}: {why}", kind.name())),
            }
        }
        Ok(())
    }

    /// The chain of this kind, with the generator.
    pub(crate) fn parts(&mut self, kind: Forwarding) -> Result<(&Chain, &mut PacketGenerator)> {
        let chain = self.chains.iter().find(|chain| chain.forwarding == kind).context("no such chain")?;
        Ok((chain, &mut self.generator))
    }

    /// The chain of this kind.
    pub(crate) fn chain(&self, kind: Forwarding) -> Result<&Chain> {
        self.chains.iter().find(|chain| chain.forwarding == kind).context("no such chain")
    }

    /// Sends `count` packets of `octets` from end to end, one of each flow in turn, after `warm_up` others that are not
    /// counted.
    pub(crate) fn send_burst(
        &mut self,
        (kind, upward): (Forwarding, bool),
        octets: usize,
        flows: Range<u16>,
        (warm_up, count): (u32, u32),
    ) -> Result<Burst> {
        self.send_packets((kind, upward), flows, (warm_up, count), |flow| chain::udp_packet(octets, upward, flow))
    }

    /// The same of packets of any kind, by flow.
    pub(crate) fn send_packets(
        &mut self,
        (kind, upward): (Forwarding, bool),
        flows: Range<u16>,
        (warm_up, count): (u32, u32),
        packet: impl Fn(u16) -> Vec<u8>,
    ) -> Result<Burst> {
        let (chain, generator) = self.parts(kind)?;
        let (host, from, to) = if upward { (&chain.sink, "d0", "in0") } else { (&chain.source, "s0", "h0") };
        let frames: Vec<Vec<u8>> = flows.map(|flow| chain::ethernet_frame(from, to, &packet(flow))).collect();
        generator.send_burst(host, from, &frames, warm_up)?;
        kind.with_workers(|| generator.send_burst(host, from, &frames, count))
    }
}
