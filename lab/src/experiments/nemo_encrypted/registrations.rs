//! What encryption costs a home agent for each path: 1000 emulated mobile routers register two paths each, without encryption and
//! with it. No session is opened: the kernel's state of a peer is there before its first handshake.

use crate::experiments::prelude::*;
use crate::load::forge::{UpdateRequest, bid_option, parse_acknowledgement};
use crate::load::registrations::{RegistrationLoad, care_of, synthetic_router};
use roam6_proto::contract::config::encryption::WIREGUARD_PORT;
use roam6_wire::mobility::{MobilityOption, WireguardKey};
use roam6_wire::{Bid, CareOfAddress};
use std::collections::BTreeSet;
use std::fs;

const ROUTERS: u32 = 1000;
const BIDS: [u16; 2] = [1, 2];
/// Updates in flight.
const WINDOW: usize = 64;
/// Steps of the progress.
pub(super) const STEPS: usize = 2;
/// How long the acknowledgements of a window may take, and the data plane after the last of them.
const TIMEOUT: Duration = Duration::from_secs(60);
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// The kernel's memory that grows with devices, peers and routes.
const KERNEL_MEMORY: [&str; 3] = ["Slab:", "Percpu:", "VmallocUsed:"];

/// Both registrations of all mobile routers.
struct Cost {
    time: Duration,
    /// Memory of each path, kB.
    process_kb: f64,
    kernel_kb: f64,
}

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let mut costs = Vec::new();
    for encrypts in [false, true] {
        run.step(&format!("{ROUTERS} mobile routers, {}", if encrypts { "encrypted" } else { "not encrypted" }));
        let cost = register_all(encrypts)?;
        run.rows.push(json!({
            "what": "registrations", "encrypted": encrypts, "mobile_routers": ROUTERS, "paths": BIDS.len(),
            "ms_per_registration": round(cost.time.as_secs_f64() * 1000.0 / f64::from(ROUTERS) / BIDS.len() as f64),
            "process_kb_per_path": round(cost.process_kb), "kernel_kb_per_path": round(cost.kernel_kb),
        }));
        costs.push(cost);
    }
    let [plain, encrypted] = costs.as_slice() else { return Ok(()) };
    run.summarise("registered_1000_s", round(encrypted.time.as_secs_f64()));
    run.summarise("registered_1000_over_tunnel", round(encrypted.time.as_secs_f64() / plain.time.as_secs_f64()));
    run.summarise("kb_per_path", round(encrypted.process_kb + encrypted.kernel_kb));
    run.summarise("kb_per_path_of_tunnel", round(plain.process_kb + plain.kernel_kb));
    Ok(())
}

fn register_all(encrypts: bool) -> Result<Cost> {
    let more = if encrypts { "encrypt = \"required\"\n" } else { "" };
    let mut load = RegistrationLoad::start_with(ROUTERS, None, more)?;
    let before = (load.daemon.anonymous_memory()?, kernel_memory()?);
    let began = clock::now();
    let all: Vec<u32> = (0..ROUTERS).collect();
    for bid in BIDS {
        for numbers in all.chunks(WINDOW) {
            register(&mut load, numbers, bid, encrypts)?;
        }
    }
    let time = began.elapsed();
    sleep(SETTLE_TIME);
    let paths = f64::from(ROUTERS) * BIDS.len() as f64;
    let grown = |before: u64, after: u64| after.saturating_sub(before) as f64 / 1024.0 / paths;
    let (process_kb, kernel_kb) = (grown(before.0, load.daemon.anonymous_memory()?), grown(before.1, kernel_memory()?));
    Ok(Cost { time, process_kb, kernel_kb })
}

/// Registers one path of these mobile routers.
fn register(load: &mut RegistrationLoad, numbers: &[u32], bid: u16, encrypts: bool) -> Result<()> {
    let mut waiting: BTreeSet<CareOfAddress> = BTreeSet::new();
    for number in numbers {
        let slot = load.sequences.get_mut(usize::try_from(*number)?).context("no such mobile router")?;
        *slot = slot.next();
        let mut router = synthetic_router(*number);
        router.care_of = care_of(u32::from(bid) * ROUTERS + number);
        let mut options = vec![bid_option(bid, router.care_of.0)];
        options.extend(encrypts.then(|| public_key(bid, router.care_of)));
        let request = UpdateRequest { options, ..UpdateRequest::new(*slot) };
        load.taps.uplink.send(&router.signed_update(&request))?;
        waiting.insert(router.care_of);
    }
    let mut refused = None;
    clock::wait_for(TIMEOUT, || {
        while let Some(packet) = load.taps.uplink.receive() {
            let Some((to, status, _)) = parse_acknowledgement(packet) else { continue };
            refused = refused.or((status >= 128).then_some(status));
            waiting.remove(&to);
        }
        waiting.is_empty().then_some(())
    })
    .with_context(|| format!("{} updates have no acknowledgement", waiting.len()))?;
    ensure!(refused.is_none(), "an update was refused with status {refused:?}");
    Ok(())
}

/// Another key for each path; nobody has the private one.
fn public_key(bid: u16, care_of: CareOfAddress) -> MobilityOption {
    let mut public_key = [0; 32];
    public_key.iter_mut().zip(care_of.0.octets()).for_each(|(octet, known)| *octet = known);
    MobilityOption::WireguardKey(WireguardKey { bid: Bid(bid), port: WIREGUARD_PORT + bid, public_key })
}

/// Octets.
fn kernel_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("memory of the kernel")?;
    let kilobytes = |line: &str| {
        let mut words = line.split_whitespace();
        let is_counted = words.next().is_some_and(|name| KERNEL_MEMORY.contains(&name));
        is_counted.then(|| words.next()?.parse::<u64>().ok()).flatten()
    };
    Ok(text.lines().filter_map(kilobytes).sum::<u64>() * 1024)
}
