//! One home agent, 10 to 100 000 bindings: updates handled a second, memory, delay of the answer, how long the daemon lets
//! an update wait for other work, forwarding rate beside that of plain routing with as many routes.

use super::Experiment;
use crate::bed::cage;
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
use std::path::{Path, PathBuf};
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
/// Time in which a prefix table is surely read.
const TABLE_TIME: Duration = Duration::from_secs(4);
/// Octets of a forwarded packet.
const PACKET: usize = 250;

fn run(quick: bool) -> Result<Findings> {
    let sizes: &[u32] = if quick { &[10, 1000, 10_000] } else { &[10, 1000, 10_000, 100_000] };
    let frames = if quick { 100_000 } else { 400_000 };
    let on_disk = if quick { 1000 } else { 10_000 };
    let mut findings = Findings { sound: true, ..Findings::default() };
    let mut progress = Progress::new(sizes.len() as u64 + 1);
    for size in sizes {
        progress.say(&format!("{size} bindings"));
        findings.rows.push(measure(*size, frames, Some(size) == sizes.last())?);
        progress.step();
    }
    progress.say(&format!("{on_disk} bindings, journal on disk"));
    let disk = measure_disk(on_disk)?;
    progress.step();
    sum_up(&mut findings, &disk);
    findings.rows.push(disk);
    Ok(findings)
}

fn sum_up(findings: &mut Findings, disk: &Value) {
    let figure = |name: &str| -> Vec<f64> {
        findings.rows.iter().filter_map(|row| row.pointer(name).and_then(Value::as_f64)).collect()
    };
    // The slowest size against the smallest one.
    let ratio = |name: &str| {
        let rates = figure(name);
        let smallest = rates.first().copied().unwrap_or_default();
        Some(round(rates.into_iter().fold(f64::INFINITY, f64::min) / smallest))
    };
    let last = |name: &str| figure(name).last().copied();
    let over_plain = |ours: &str, plain: &str| last(ours).zip(last(plain)).map(|(ours, plain)| round(ours / plain));
    let resident = figure("/resident_after_kb");
    let grown = resident.last().zip(resident.first()).map(|(most, least)| (most - least) * 1024.0);
    let largest = last("/bindings");
    let on_disk = |name: &str| disk.pointer(name).and_then(Value::as_f64);
    let summary = [
        ("bindings_max", largest),
        ("updates_per_s_at_max", last("/refreshes_per_s")),
        ("bytes_per_binding_at_max", last("/bytes_per_binding")),
        ("bytes_per_router_with_table_at_max", grown.zip(largest).map(|(grown, largest)| (grown / largest).round())),
        ("bu_to_ba_ms_p50_at_max", last("/bu_to_ba_ms/p50")),
        ("bu_to_ba_ms_p99_at_max", last("/bu_to_ba_ms/p99")),
        ("bu_to_ba_while_shown_ms_max", last("/bu_to_ba_while_shown_ms/max")),
        ("bu_to_ba_while_table_read_ms_max", last("/bu_to_ba_while_table_read_ms/max")),
        ("disk_registrations_per_s", on_disk("/registrations_per_s")),
        ("disk_bu_to_ba_ms_p50", on_disk("/bu_to_ba_ms/p50")),
        ("forwarding_ratio_min", ratio("/forwarding_kpps_per_core")),
        ("forwarding_random_ratio_min", ratio("/forwarding_random_kpps_per_core")),
        ("plain_random_ratio_min", ratio("/plain_random_kpps_per_core")),
        ("forwarding_over_plain_at_max", over_plain("/forwarding_kpps_per_core", "/plain_kpps_per_core")),
        (
            "forwarding_random_over_plain_at_max",
            over_plain("/forwarding_random_kpps_per_core", "/plain_random_kpps_per_core"),
        ),
    ];
    for (name, value) in summary {
        findings.sum_up(name, value);
    }
}

/// A home agent with `size` mobile routers, all of which this program plays.
struct Crowd {
    size: u32,
    passage: Passage,
    daemon: Daemon,
    table: PathBuf,
    sequences: Vec<Sequence>,
    dice: Entropy,
}

/// A router between correspondents and an uplink, and all that is beyond its two interfaces.
struct Passage {
    uplink: Tap,
    correspondents: Tap,
    /// Next header of what comes out.
    carried: u8,
    rates: Vec<f64>,
    offered: usize,
    through: usize,
}

fn measure(size: u32, frames: usize, is_largest: bool) -> Result<Value> {
    let mut crowd = Crowd::gather(size, None)?;
    let empty = crowd.daemon.memory()?;
    let mut row = crowd.count_updates()?;
    let full = crowd.daemon.memory()?;
    let mut add = |name: &str, value: Value| row.as_object_mut().and_then(|row| row.insert(name.to_owned(), value));
    add("bytes_per_binding", json!((full.saturating_sub(empty) as f64 / f64::from(size)).round()));
    add("resident_before_kb", json!(empty / 1024));
    add("resident_after_kb", json!(full / 1024));
    add("journal", json!("in memory"));
    if is_largest {
        add("bu_to_ba_while_shown_ms", spread(&crowd.delays_while_shown()?));
        add("bu_to_ba_while_table_read_ms", spread(&crowd.delays_while_table_read()?));
    }
    let host = Host::new(&format!("plain{size}"))?;
    let mut plain = plain_router(&host, size)?;
    let mut share = f64::INFINITY;
    let active: Vec<u32> = (0..ACTIVE).map(|_| crowd.anyone()).collect();
    for (kind, active) in [("", Some(&active)), ("random_", None)] {
        let rate = crowd.race(&mut plain, frames, active.map(Vec::as_slice))?;
        add(&format!("forwarding_{kind}kpps_per_core"), json!(round(rate.ours)));
        add(&format!("plain_{kind}kpps_per_core"), json!(round(rate.plain)));
        share = share.min(rate.through);
    }
    add("forwarded_share", json!(round(share)));
    Ok(row)
}

/// What the journal costs on a disk.
fn measure_disk(size: u32) -> Result<Value> {
    let (folder, kind) = cage::disk()?;
    let mut crowd = Crowd::gather(size, Some(&folder))?;
    let mut row = crowd.count_updates()?;
    row.as_object_mut().and_then(|row| row.insert("journal".into(), kind.into()));
    Ok(row)
}

/// A router without tunnels and with a route to each of `size` networks.
fn plain_router(host: &Host, size: u32) -> Result<Passage> {
    let passage = Passage::open(host, protocol::NONE)?;
    let mut routes = Vec::new();
    for number in 0..size {
        routes.push(format!("route add {}/64 via fe80::1 dev net0", network(number)));
    }
    host.ip(&routes.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(passage)
}

/// Thousands of packets a second of processor time, and the share of ours that came out.
struct Rate {
    ours: f64,
    plain: f64,
    through: f64,
}

impl Passage {
    fn open(host: &Host, carried: u8) -> Result<Passage> {
        host.set("ipv6/conf/all/forwarding", "1")?;
        host.set("ipv6/conf/default/accept_dad", "0")?;
        for (setting, value) in [("gc_thresh3", "300000"), ("gc_thresh2", "250000"), ("max_size", "1000000")] {
            host.set(&format!("ipv6/route/{setting}"), value).ok(); // not in every kernel
        }
        let (uplink, correspondents) = (Tap::open(host, "net0")?, Tap::open(host, "cn0")?);
        host.ip(&[
            &format!("address add {HOME_AGENT}/64 dev net0"),
            "route add default via fe80::1 dev net0",
            &format!("route add {CORRESPONDENT}/128 via fe80::1 dev cn0"),
        ])?;
        Ok(Passage { uplink, correspondents, carried, rates: Vec::new(), offered: 0, through: 0 })
    }

    fn begin(&mut self) {
        while self.uplink.receive().is_some() {}
        self.rates.clear();
        (self.offered, self.through) = (0, 0);
    }

    /// Offers all packets, then counts those that came out.
    fn burst(&mut self, packets: &[Vec<u8>]) -> Result<()> {
        let before = processor_time()?;
        for packet in packets {
            self.correspondents.send(packet)?;
        }
        self.rates.push(packets.len() as f64 / (processor_time()? - before).as_secs_f64() / 1000.0);
        self.offered += packets.len();
        while let Some(packet) = self.uplink.receive() {
            self.through += usize::from(packet.get(6) == Some(&self.carried));
        }
        Ok(())
    }

    /// The median of the bursts.
    fn rate(&self) -> f64 {
        percentile(&self.rates, 0.5).unwrap_or_default()
    }
}

impl Crowd {
    /// With its journal in `disk`, if any, else in memory.
    fn gather(size: u32, disk: Option<&Path>) -> Result<Crowd> {
        let host = Host::new(&format!("ha{size}"))?;
        let passage = Passage::open(&host, protocol::IPV6)?;
        let table = host.folder().join("mobiles.toml");
        fs::write(&table, prefix_table(size)?)?;
        fs::set_permissions(&table, fs::Permissions::from_mode(0o600))?;
        let config = format!(
            "[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nprefix_table = \"{}\"\n",
            table.display()
        );
        let daemon = match disk {
            Some(disk) => Daemon::start_with_journal(&host, &config, disk)?,
            None => Daemon::start(&host, &config)?,
        };
        let sequences = vec![Sequence(0); usize::try_from(size)?];
        Ok(Crowd { size, passage, daemon, table, sequences, dice: Entropy::from_number(7) })
    }

    /// Registers everybody once, then some again, then a few one by one.
    fn count_updates(&mut self) -> Result<Value> {
        let all: Vec<u32> = (0..self.size).collect();
        let began = clock::now();
        self.register(&all, WINDOW)?;
        let registering = began.elapsed();
        // In turn, so that nobody is asked again before the answer came.
        let some: Vec<u32> = (0..20_000).map(|number| number % self.size).collect();
        let began = clock::now();
        self.register(&some, WINDOW.min(usize::try_from(self.size / 2)?))?;
        let refreshing = began.elapsed();
        let few: Vec<u32> = (0..300).map(|_| self.anyone()).collect();
        let delays = self.register(&few, 1)?;
        Ok(json!({
            "bindings": self.size,
            "registrations_per_s": (f64::from(self.size) / registering.as_secs_f64()).round(),
            "refreshes_per_s": (some.len() as f64 / refreshing.as_secs_f64()).round(),
            "bu_to_ba_ms": spread(&delays),
        }))
    }

    /// What single updates wait while the daemon shows all bindings to somebody.
    fn delays_while_shown(&mut self) -> Result<Vec<f64>> {
        let mut reader = self.daemon.begin_to_ask(&["show", "bindings", "--json"])?;
        let mut delays = Vec::new();
        while reader.try_wait()?.is_none() {
            let someone = self.anyone();
            delays.extend(self.register(&[someone], 1)?);
        }
        Ok(delays)
    }

    /// The same while its prefix table is read anew, with its last row gone.
    fn delays_while_table_read(&mut self) -> Result<Vec<f64>> {
        let began = clock::now();
        fs::write(&self.table, prefix_table(self.size - 1)?)?;
        let mut delays = Vec::new();
        while began.elapsed() < TABLE_TIME {
            let someone = self.anyone() % (self.size - 1);
            delays.extend(self.register(&[someone], 1)?);
        }
        Ok(delays)
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
            self.passage.uplink.wait(20);
            while let Some(packet) = self.passage.uplink.receive() {
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
        Ok(self.passage.uplink.send(&packet)?)
    }

    /// Sends packets from a correspondent to mobile networks, those of `active` or any, through the home agent and the
    /// plain router in turn.
    fn race(&mut self, plain: &mut Passage, frames: usize, active: Option<&[u32]>) -> Result<Rate> {
        // Once by everybody, so that what is learnt of each is not what is measured.
        let everybody: Vec<u32> = (0..self.size - 1).collect();
        for some in active.unwrap_or(&everybody).chunks(BURST) {
            let packets: Vec<Vec<u8>> = some.iter().map(|number| data(inside(number % (self.size - 1)))).collect();
            self.passage.burst(&packets)?;
            plain.burst(&packets)?;
        }
        self.passage.begin();
        plain.begin();
        while self.passage.offered < frames {
            let mut packets = Vec::with_capacity(BURST);
            for number in 0..BURST {
                let someone = active.and_then(|active| active.iter().cycle().nth(number).copied());
                // The last row of the largest table is gone by now.
                let network = someone.unwrap_or_else(|| self.anyone()) % (self.size - 1);
                packets.push(data(inside(network)));
            }
            self.passage.burst(&packets)?;
            plain.burst(&packets)?;
        }
        let through = self.passage.through as f64 / self.passage.offered as f64;
        Ok(Rate { ours: self.passage.rate(), plain: plain.rate(), through })
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
