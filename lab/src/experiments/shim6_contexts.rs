//! Cost of many contexts: time to process an I2 with a signature, and memory, with 1 000 to 100 000 contexts (the
//! paper's Fig 10). The engine alone, and the whole daemon.

use crate::bed::tap::Tap;
use crate::bed::{Daemon, Host};
use crate::experiments::prelude::*;
use crate::load::engine_bench::{self, EngineBench};
use crate::load::shim_peers::{HandshakeReply, ShimPeers, parse_reply};
use crate::{clock, sys};
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::command::ShimCommand;
use roam6_proto::contract::config::shim::ShimConfig;
use roam6_proto::{Command, Engine, Input, Outbox};
use roam6_wire::shim6::Fork;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Instant;

/// The host under test.
const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xa, 0, 0, 0, 0, 1);
/// Bits of the peers' RSA key.
const KEY: u32 = 2048;
/// Timed I2s with each number of contexts, in turn.
const TIMED: u32 = 1000;
/// So many of them are one value of the interval.
const BLOCK: usize = 100;
/// Handshakes in flight while the daemon's contexts are created.
const WINDOW: usize = 64;
/// A handshake with the daemon is restarted after this time.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn run(run: &mut Run) -> Result<()> {
    let sizes: &[u32] = if run.quick { &[1000, 10_000] } else { &[1000, 10_000, 100_000] };
    run.set_steps(3 * sizes.len() + 1);
    let peers = ShimPeers::new(HOST, KEY)?;
    let mut engines = Vec::new();
    for size in sizes {
        run.step(&format!("an engine with {size} contexts"));
        engines.push(Engines::fill(&peers, *size)?);
    }
    run.step("I2s in turn");
    for turn in 0..TIMED {
        for engine in &mut engines {
            engine.measure_handshakes(&peers, turn)?;
        }
    }
    let (mut largest, mut by_block) = ((0.0, None, None), Vec::new());
    for engine in engines {
        run.step(&format!("a daemon with {} contexts", engine.size));
        let (idle, _) = measure_daemon(&peers.at_ulids(), engine.size)?;
        run.step(&format!("a daemon with {} contexts, rewriting", engine.size));
        let (rewriting, delays) = measure_daemon(&peers, engine.size)?;
        run.rows.push(json!({
            "contexts": engine.size,
            "key": format!("RSA-{KEY}"),
            "i2_us": distribution(&engine.times),
            "engine_bytes_per_context": round(engine.memory),
            "daemon_bytes_per_context": idle.map(round),
            "daemon_bytes_per_rewriting_context": rewriting.map(round),
            "daemon_i2_to_r2_ms": distribution(&delays),
        }));
        let medians: Vec<f64> = engine.times.chunks(BLOCK).filter_map(|block| percentile(block, 0.5)).collect();
        run.estimate(&format!("i2_us_p50_at_{}", engine.size), median(&medians, LEVEL));
        by_block.push(medians);
        largest = (engine.memory, idle, rewriting);
    }
    // Block by block, since all sizes are measured in turn.
    let blocks = by_block.iter().map(Vec::len).min().unwrap_or_default();
    let spread = |block: usize| {
        let medians = || by_block.iter().filter_map(|medians| medians.get(block).copied());
        medians().fold(0.0, f64::max) / medians().fold(f64::INFINITY, f64::min)
    };
    run.estimate("i2_us_p50_max_over_min", median(&(0..blocks).map(spread).collect::<Vec<_>>(), LEVEL));
    run.summarise("engine_bytes_per_context", largest.0.round());
    run.summarise("bytes_per_context", largest.1.map(f64::round));
    run.summarise("bytes_per_rewriting_context", largest.2.map(f64::round));
    Ok(())
}

/// An engine with contexts, and their cost.
struct Engines {
    bench: EngineBench,
    size: u32,
    /// Octets per context.
    memory: f64,
    /// Microseconds of each timed I2.
    times: Vec<f64>,
}

impl Engines {
    fn fill(peers: &ShimPeers, size: u32) -> Result<Engines> {
        let config = ShimConfig {
            max_contexts: usize::MAX,
            verifications_per_second: 1_000_000,
            idle_timeout: Duration::from_secs(1_000_000),
            ..ShimConfig::default()
        };
        let mut bench = EngineBench::new(config, &[HOST]);
        let before = sys::allocated_octets();
        for number in 0..size {
            handshake(&mut bench, peers, number)?;
        }
        let memory = sys::allocated_octets().saturating_sub(before) as f64 / f64::from(size);
        Ok(Engines { bench, size, memory, times: Vec::new() })
    }

    /// Creates one more context and removes it.
    fn measure_handshakes(&mut self, peers: &ShimPeers, turn: u32) -> Result<()> {
        let number = self.size + turn;
        self.times.push(handshake(&mut self.bench, peers, number)?.as_secs_f64() * 1e6);
        let ulids = AddressPair { local: HOST, peer: peers.ulid(number) };
        self.bench
            .feed(&Input::Command(Command::Shim(ShimCommand::DeleteContext(ContextId { ulids, fork: Fork::NONE }))));
        Ok(())
    }
}

/// Establishes a context; the time of the I2, from the packet to the request that the host install the context.
fn handshake(bench: &mut EngineBench, peers: &ShimPeers, number: u32) -> Result<Duration> {
    bench.now = bench.now + Duration::from_millis(1);
    let Some(HandshakeReply::R1(_, validated)) =
        bench.receive(peers.i1(number)).first().and_then(|packet| parse_reply(packet))
    else {
        bail!("no R1 for peer {number}")
    };
    let second = engine_bench::packet(peers.i2(number, &validated));
    let mut out = Outbox::new();
    let began = clock::now();
    bench.shim.handle(bench.now, &second, &mut out);
    let duration = began.elapsed();
    let answers = bench.advance(out);
    if !answers.iter().any(|packet| matches!(parse_reply(packet), Some(HandshakeReply::R2(to)) if to == number)) {
        bail!("no R2 for peer {number}")
    }
    Ok(duration)
}

/// Growth of the daemon's memory per context in octets, over the second half of the contexts, because the first half
/// uses memory freed after start-up; `None` if all fit there. And milliseconds from I2 to R2 with all contexts.
fn measure_daemon(peers: &ShimPeers, size: u32) -> Result<(Option<f64>, Vec<f64>)> {
    let host = Host::new(&format!("host{size}"))?;
    host.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
    let tap = Tap::open(&host, "u0")?;
    host.ip(&[&format!("address add {HOST}/64 dev u0"), "route add default via fe80::1 dev u0"])?;
    let config = format!(
        "[shim]\ninterfaces = [\"u0\"]\nmax_contexts = {}\nverifications_per_second = 1000000\nidle_timeout = \"604800s\"\n",
        size + TIMED
    );
    let daemon = Daemon::start(&host, &config)?;
    let mut peers = Peers { tap, peers };
    let half = size / 2;
    peers.establish(&(0..half).collect::<Vec<_>>(), WINDOW)?;
    let before = daemon.anonymous_memory()?;
    peers.establish(&(half..size).collect::<Vec<_>>(), WINDOW)?;
    let grown = daemon.anonymous_memory()?.saturating_sub(before) as f64 / f64::from(size - half);
    let memory = (grown > 1.0).then_some(grown);
    let delays = peers.establish(&(size..size + TIMED / 4).collect::<Vec<_>>(), 1)?;
    Ok((memory, delays))
}

/// The peers at the daemon's interface.
struct Peers<'a> {
    tap: Tap,
    peers: &'a ShimPeers,
}

impl Peers<'_> {
    /// Establishes contexts with these peers, at most `window` handshakes in flight; milliseconds from each I2 to its
    /// R2.
    fn establish(&mut self, who: &[u32], window: usize) -> Result<Vec<f64>> {
        let mut queue = who.iter().copied();
        let mut begun: BTreeMap<u32, Instant> = BTreeMap::new();
        let mut delays = Vec::new();
        loop {
            while begun.len() < window {
                let Some(next) = queue.next() else { break };
                self.send_i1(next, &mut begun)?;
            }
            if begun.is_empty() {
                return Ok(delays);
            }
            self.tap.wait(20);
            while let Some(answer) = self.tap.receive().map(parse_reply) {
                match answer {
                    Some(HandshakeReply::R1(number, validated)) if begun.contains_key(&number) => {
                        begun.insert(number, clock::now());
                        self.tap.send(&self.peers.i2(number, &validated))?;
                    }
                    Some(HandshakeReply::R2(number)) => {
                        let sent = begun.remove(&number).context("an unexpected R2")?;
                        delays.push(sent.elapsed().as_secs_f64() * 1000.0);
                    }
                    _ => {}
                }
            }
            let late = begun.iter().filter(|(_, sent)| sent.elapsed() > TIMEOUT).map(|(number, _)| *number);
            for number in late.collect::<Vec<_>>() {
                self.send_i1(number, &mut begun)?;
            }
        }
    }

    fn send_i1(&mut self, number: u32, begun: &mut BTreeMap<u32, Instant>) -> Result<()> {
        begun.insert(number, clock::now());
        Ok(self.tap.send(&self.peers.i1(number))?)
    }
}
