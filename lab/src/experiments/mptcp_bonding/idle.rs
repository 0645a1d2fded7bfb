//! What open connections that are idle cost each end in memory: of the kernel, whose sockets are counted by its slab caches, and of
//! the relays.

use crate::bed::anonymous_memory_of;
use crate::experiments::prelude::*;
use crate::topology::bonding::{BONDED, BondingBed, TUNNELLED};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use roam6_sim::LinkSpec;
use std::fs;
use std::net::{TcpListener, TcpStream};

/// Connections of a quick and of a full run.
const CONNECTIONS: [usize; 2] = [1000, 10_000];
/// Open files of this process, and of each relay, that are no connections; each connection is two in all three.
const OTHER_FILES: u64 = 1000;
/// Until subflows have joined, and closed sockets are freed.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// The caches of sockets, of what belongs to them, and of memory of any kind.
const CACHES: [&str; 7] = ["TCP", "MPTCP", "sock_inode_cache", "filp", "eventpoll_", "kmalloc-", "skbuff_"];

pub(super) fn measure(run: &mut Run) -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let possible = usize::try_from(most.saturating_sub(OTHER_FILES) / 2)?;
    let bed = BondingBed::new([LinkSpec::default(); 2])?;
    let count = possible.min(if run.quick { CONNECTIONS[0] } else { CONNECTIONS[1] });
    let tunnelled = grow(&bed, TUNNELLED, count)?;
    sleep(SETTLE_TIME);
    let before = relayed(&bed)?;
    let bonded = grow(&bed, BONDED, count)?;
    let opened = relayed(&bed)?.saturating_sub(before);
    ensure!(opened >= count as u64, "{opened} of {count} connections were relayed; {}", bed.logs());
    let kernel = bonded.kernel - tunnelled.kernel;
    let process = bonded.relays - tunnelled.relays;
    let each = (kernel + process) / 2.0 / count as f64;
    run.summarise("kb_per_idle_connection", round(each));
    run.rows.push(json!({ "kind": "idle", "connections": count, "kernel_kb": round(kernel / 2.0 / count as f64),
        "process_kb": round(process / 2.0 / count as f64) }));
    Ok(())
}

/// Memory of both ends, kB.
struct Memory {
    kernel: f64,
    relays: f64,
}

/// The memory that so many connections take.
fn grow(bed: &BondingBed, port: u16, count: usize) -> Result<Memory> {
    let before = now(bed)?;
    let connections = open(bed, port, count)?;
    sleep(SETTLE_TIME);
    let after = now(bed)?;
    drop(connections);
    Ok(Memory { kernel: after.kernel - before.kernel, relays: after.relays - before.relays })
}

fn open(bed: &BondingBed, port: u16, count: usize) -> Result<Vec<(TcpStream, TcpStream)>> {
    let [node, correspondent] = bed.ends(true);
    let listener = correspondent.host.in_namespace(|| TcpListener::bind((correspondent.address, port)))??;
    let pair = || Ok((TcpStream::connect((correspondent.address, port))?, listener.accept()?.0));
    node.host.in_namespace(|| (0..count).map(|_| pair()).collect())?
}

fn now(bed: &BondingBed) -> Result<Memory> {
    let relays = bed.relays()?.into_iter().map(anonymous_memory_of).sum::<Result<u64>>()?;
    Ok(Memory { kernel: slab_octets()? / 1024.0, relays: relays as f64 / 1024.0 })
}

/// Octets of the objects in use.
fn slab_octets() -> Result<f64> {
    let text = fs::read_to_string("/proc/slabinfo").context("the kernel's slab caches")?;
    let size = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let is_counted = CACHES.iter().any(|cache| name.starts_with(cache));
        let (active, _, size) = (words.next()?, words.next()?, words.next()?);
        is_counted.then_some(active.parse::<f64>().ok()? * size.parse::<f64>().ok()?)
    };
    Ok(text.lines().filter_map(size).sum())
}

fn relayed(bed: &BondingBed) -> Result<u64> {
    bed.flows()?.pointer("/counters/relayed").and_then(Value::as_u64).context("no counter of relayed connections")
}
