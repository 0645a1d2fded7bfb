//! One home agent, 10 to 100 000 bindings: updates handled a second, memory, delay of the answer, forwarding rate.

use super::Experiment;
use crate::bed::tap::Tap;
use crate::bed::{Daemon, Host};
use crate::clock;
use crate::figures::{Findings, percentile, round, spread};
use crate::progress::Progress;
use crate::traffic::forge::{Registrant, acknowledgement};
use anyhow::{Context, Result, bail};
use nix::time::{ClockId, clock_gettime};
use roam6_proto::Entropy;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::{CareOfAddress, HomeAddress, Sequence};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;
use std::fs;
use std::net::Ipv6Addr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// See the file's head.
pub(crate) const EXPERIMENT: Experiment =
    Experiment { name: "nemo/scale", about: "10 to 100 000 bindings in one home agent: rate, memory, delay", run };

const HOME_AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const CORRESPONDENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xc, 0, 0, 0, 0, 0xc);
const KEY: [u8; 20] = *b"a key of a testbed!!";
/// Updates under way at once when the rate is measured.
const WINDOW: usize = 64;
/// An update without answer is sent again after this.
const PATIENCE: Duration = Duration::from_secs(2);
/// Frames offered before those that came out are counted.
const BURST: usize = 256;
/// Mobile networks that have traffic at a time, when not all have.
const ACTIVE: usize = 64;
/// Octets of a forwarded packet.
const PACKET: usize = 250;

fn run(quick: bool) -> Result<Findings> {
    let sizes: &[u32] = if quick { &[10, 1000, 10_000] } else { &[10, 1000, 10_000, 100_000] };
    let frames = if quick { 100_000 } else { 400_000 };
    let mut findings = Findings { sound: true, ..Findings::default() };
    let mut progress = Progress::new(sizes.len() as u64);
    for size in sizes {
        progress.say(&format!("{size} bindings"));
        findings.rows.push(measure(*size, frames)?);
        progress.step();
    }
    let figure = |name: &str| -> Vec<f64> {
        findings.rows.iter().filter_map(|row| row.pointer(name).and_then(Value::as_f64)).collect()
    };
    // The slowest size against the smallest one.
    let ratio = |rates: Vec<f64>| {
        let smallest = rates.first().copied().unwrap_or_default();
        Some(round(rates.into_iter().fold(f64::INFINITY, f64::min) / smallest))
    };
    let resident = figure("/resident_after_kb");
    let grown = resident.last().zip(resident.first()).map(|(most, least)| (most - least) * 1024.0);
    let largest = figure("/bindings").last().copied();
    let summary = [
        ("bindings_max", largest),
        ("updates_per_s_at_max", figure("/refreshes_per_s").last().copied()),
        ("bytes_per_binding_at_max", figure("/bytes_per_binding").last().copied()),
        ("bu_to_ba_ms_p50_at_max", figure("/bu_to_ba_ms/p50").last().copied()),
        ("bu_to_ba_ms_p99_at_max", figure("/bu_to_ba_ms/p99").last().copied()),
        ("bytes_per_router_with_table_at_max", grown.zip(largest).map(|(grown, largest)| (grown / largest).round())),
        ("forwarding_ratio_min", ratio(figure("/forwarding_kpps_per_core"))),
        ("forwarding_random_ratio_min", ratio(figure("/forwarding_random_kpps_per_core"))),
    ];
    for (name, value) in summary {
        findings.sum_up(name, value);
    }
    Ok(findings)
}

/// A home agent with `size` mobile routers, all of which this program plays.
struct Crowd {
    size: u32,
    uplink: Tap,
    correspondents: Tap,
    daemon: Daemon,
    sequences: Vec<Sequence>,
    dice: Entropy,
}

fn measure(size: u32, frames: usize) -> Result<Value> {
    let mut crowd = Crowd::gather(size)?;
    let empty = crowd.daemon.memory()?;
    let all: Vec<u32> = (0..size).collect();
    let began = clock::now();
    crowd.register(&all, WINDOW)?;
    let registering = began.elapsed();
    let full = crowd.daemon.memory()?;
    // In turn, so that nobody is asked again before the answer came.
    let some: Vec<u32> = (0..20_000).map(|number| number % size).collect();
    let began = clock::now();
    crowd.register(&some, WINDOW.min(usize::try_from(size / 2)?))?;
    let refreshing = began.elapsed();
    let few: Vec<u32> = (0..300).map(|_| crowd.anyone()).collect();
    let delays = crowd.register(&few, 1)?;
    let active: Vec<u32> = (0..ACTIVE).map(|_| crowd.anyone()).collect();
    let (rate, through) = crowd.forward(frames, Some(&active))?;
    let (random_rate, random_through) = crowd.forward(frames, None)?;
    Ok(json!({
        "bindings": size,
        "registrations_per_s": (f64::from(size) / registering.as_secs_f64()).round(),
        "refreshes_per_s": (some.len() as f64 / refreshing.as_secs_f64()).round(),
        "bytes_per_binding": (full.saturating_sub(empty) as f64 / f64::from(size)).round(),
        "resident_before_kb": empty / 1024,
        "resident_after_kb": full / 1024,
        "bu_to_ba_ms": spread(&delays),
        "forwarding_kpps_per_core": round(rate),
        "forwarding_random_kpps_per_core": round(random_rate),
        "forwarded_share": round(through.min(random_through)),
        "journal": "in memory",
    }))
}

impl Crowd {
    fn gather(size: u32) -> Result<Crowd> {
        let host = Host::new(&format!("ha{size}"))?;
        host.set("ipv6/conf/all/forwarding", "1")?;
        host.set("ipv6/conf/default/accept_dad", "0")?;
        for (setting, value) in [("gc_thresh3", "300000"), ("gc_thresh2", "250000"), ("max_size", "1000000")] {
            host.set(&format!("ipv6/route/{setting}"), value).ok(); // not in every kernel
        }
        let (uplink, correspondents) = (Tap::open(&host, "net0")?, Tap::open(&host, "cn0")?);
        host.ip(&[
            &format!("address add {HOME_AGENT}/64 dev net0"),
            "route add default via fe80::1 dev net0",
            &format!("route add {CORRESPONDENT}/128 via fe80::1 dev cn0"),
        ])?;
        let table = host.folder().join("mobiles.toml");
        fs::write(&table, prefix_table(size)?)?;
        fs::set_permissions(&table, fs::Permissions::from_mode(0o600))?;
        let config = format!(
            "[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nprefix_table = \"{}\"\n",
            table.display()
        );
        let daemon = Daemon::start(&host, &config)?;
        let sequences = vec![Sequence(0); usize::try_from(size)?];
        Ok(Crowd { size, uplink, correspondents, daemon, sequences, dice: Entropy::from_number(7) })
    }

    fn anyone(&mut self) -> u32 {
        u32::try_from(self.dice.below(self.size.into())).unwrap_or_default()
    }

    /// Registers these, `window` at a time; the delays of the answers, milliseconds.
    fn register(&mut self, who: &[u32], window: usize) -> Result<Vec<f64>> {
        let mut waiting: BTreeMap<CareOfAddress, (u32, Instant)> = BTreeMap::new();
        let mut delays = Vec::with_capacity(who.len());
        let mut queue = who.iter().copied();
        loop {
            while waiting.len() < window {
                let Some(next) = queue.next() else { break };
                // One who is waited for already cannot be asked twice: the answers would look alike.
                if let Entry::Vacant(place) = waiting.entry(care_of(next)) {
                    place.insert((next, clock::now()));
                    self.send(next)?;
                }
            }
            if waiting.is_empty() {
                return Ok(delays);
            }
            self.uplink.wait(20);
            while let Some(packet) = self.uplink.receive() {
                let Some((to, status, _)) = acknowledgement(packet) else { continue };
                if status >= 128 {
                    bail!("an update for {} was refused with status {status}", to.0);
                }
                if let Some((_, sent)) = waiting.remove(&to) {
                    delays.push(sent.elapsed().as_secs_f64() * 1000.0);
                }
            }
            let late: Vec<u32> =
                waiting.values().filter(|(_, sent)| sent.elapsed() > PATIENCE).map(|(number, _)| *number).collect();
            for number in late {
                self.send(number)?;
            }
        }
    }

    fn send(&mut self, number: u32) -> Result<()> {
        let slot = self.sequences.get_mut(usize::try_from(number)?).context("no such mobile router")?;
        *slot = slot.next();
        let packet = registrant(number).update(*slot);
        Ok(self.uplink.send(&packet)?)
    }

    /// Sends packets from a correspondent to mobile networks, those of `active` or any; thousands a second of processor
    /// time (median of the bursts), and the share that came out in a tunnel.
    fn forward(&mut self, frames: usize, active: Option<&[u32]>) -> Result<(f64, f64)> {
        while self.uplink.receive().is_some() {}
        let (mut through, mut offered) = (0, 0);
        let mut rates = Vec::new();
        while offered < frames {
            let mut packets = Vec::with_capacity(BURST);
            for number in 0..BURST {
                let someone = active.and_then(|active| active.iter().cycle().nth(number).copied());
                let network = someone.unwrap_or_else(|| self.anyone());
                packets.push(data(inside(network)));
            }
            let before = processor_time()?;
            for packet in &packets {
                self.correspondents.send(packet)?;
            }
            rates.push(BURST as f64 / (processor_time()? - before).as_secs_f64() / 1000.0);
            offered += BURST;
            while let Some(packet) = self.uplink.receive() {
                through += usize::from(packet.get(6) == Some(&protocol::IPV6));
            }
        }
        Ok((percentile(&rates, 0.5).unwrap_or_default(), through as f64 / offered as f64))
    }
}

fn registrant(number: u32) -> Registrant {
    Registrant { home_agent: HOME_AGENT, home: home(number), care_of: care_of(number), spi: 1000, secret: KEY.to_vec() }
}

fn home(number: u32) -> HomeAddress {
    HomeAddress(Ipv6Addr::from_bits(0x2001_0db8_0001_0000_0000_0000_0001_0000 + u128::from(number)))
}

fn care_of(number: u32) -> CareOfAddress {
    CareOfAddress(Ipv6Addr::from_bits(0x2001_0db8_00ca_0000_0000_0000_0001_0000 + u128::from(number)))
}

/// First address of the mobile network, a /64.
fn network(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db9_0000_0000_0000_0000_0000_0000 + (u128::from(number) << 64))
}

/// A node in the mobile network.
fn inside(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(network(number).to_bits() + 1)
}

fn data(destination: Ipv6Addr) -> Vec<u8> {
    let payload = [0; PACKET - ip6::HEADER_LENGTH];
    ip6::emit(&Header::new(CORRESPONDENT, destination), protocol::NONE, &payload)
}

fn prefix_table(size: u32) -> Result<String> {
    let key = roam6_proto::output::hex::encode(&KEY);
    let mut text = String::new();
    for number in 0..size {
        let (home, network) = (home(number), network(number));
        writeln!(
            text,
            "[[mobile]]\nhome_address = \"{home}\"\nprefixes = [\"{network}/64\"]\nspi = 1000\nkey = \"{key}\"\n"
        )?;
    }
    Ok(text)
}

fn processor_time() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
