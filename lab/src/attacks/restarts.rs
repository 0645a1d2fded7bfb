//! State of a home agent after `kill -9`: de-registrations acknowledged with a full disk, and replayed updates.

use crate::bed::Daemon;
use crate::clock;
use crate::load::forge::{UpdateRequest, parse_acknowledgement};
use crate::load::registrations::{RegistrationLoad, synthetic_router};
use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use roam6_proto::contract::view::BindingView;
use roam6_wire::Sequence;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROUTERS: u32 = 100;
/// How long acknowledgements may take; a home agent that cannot write may refuse, or not answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Mount options of the small file system.
const DISK_OPTIONS: &str = "size=128k";

/// A small tmpfs that can be filled.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: &Path) -> Result<SmallDisk> {
        fs::create_dir_all(path)?;
        mount(Some("lab"), path, Some("tmpfs"), MsFlags::empty(), Some(DISK_OPTIONS))?;
        Ok(SmallDisk(path.to_owned()))
    }

    /// Writes until the file system is full.
    fn fill(&self) -> Result<()> {
        let mut file = fs::File::create(self.0.join("filler"))?;
        while file.write_all(&[0; 512]).is_ok() {}
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        umount2(&self.0, MntFlags::MNT_DETACH).ok();
    }
}

/// The number of de-registrations acknowledged with a full disk that a restart undoes, and a result row.
pub(crate) fn undone_deregistrations() -> Result<(usize, Value)> {
    let folder = Path::new(crate::bed::sandbox::WORK_DIR).join("small-disk");
    let disk = SmallDisk::mount(&folder)?;
    let mut load = RegistrationLoad::start(ROUTERS, Some(&folder))?;
    let all: Vec<u32> = (0..ROUTERS).collect();
    load.register(&all, 10)?;
    disk.fill()?;
    let left = deregister(&mut load, &all)?;
    load.daemon.kill();
    fs::remove_file(folder.join("filler"))?;
    load.daemon.spawn()?;
    let bound = bound_addresses(&load.daemon)?;
    let undone = left.iter().filter(|number| bound.contains(&synthetic_router(**number).home_address.0)).count();
    let row = json!({
        "attack": "de-registrations on a full disk, kill -9",
        "routers": ROUTERS, "acknowledged": left.len(), "bound_after_restart": bound.len(), "undone": undone,
    });
    Ok((undone, row))
}

/// The number of recorded updates of ended bindings that are accepted after a restart, and a result row.
pub(crate) fn accepted_replays() -> Result<(usize, Value)> {
    let count = 10;
    let mut load = RegistrationLoad::start(count, None)?;
    let mut recorded = Vec::new();
    for number in 0..count {
        let packet = synthetic_router(number).signed_update(&UpdateRequest::new(Sequence(100)));
        load.taps.uplink.send(&packet)?;
        recorded.push(packet);
        await_statuses(&mut load, 1).context("no initial binding")?;
        load.taps
            .uplink
            .send(&synthetic_router(number).signed_update(&UpdateRequest::deregistration(Sequence(101))))?;
        await_statuses(&mut load, 1).context("no de-registration")?;
    }
    load.daemon.kill();
    load.daemon.spawn()?;
    for packet in &recorded {
        load.taps.uplink.send(packet)?;
    }
    let statuses: Vec<u8> = await_statuses(&mut load, recorded.len()).unwrap_or_default().into_values().collect();
    let accepted = bound_addresses(&load.daemon)?.len();
    let row = json!({ "attack": "replays after kill -9", "sent": count, "statuses": statuses, "bound": accepted });
    Ok((accepted, row))
}

/// De-registers these mobile routers; those whose de-registration was accepted.
fn deregister(load: &mut RegistrationLoad, who: &[u32]) -> Result<Vec<u32>> {
    let mut waiting: BTreeMap<_, u32> = BTreeMap::new();
    for number in who {
        let next = load.sequences.get(usize::try_from(*number)?).context("no such router")?.next();
        let leaving = synthetic_router(*number);
        load.taps.uplink.send(&leaving.signed_update(&UpdateRequest::deregistration(next)))?;
        waiting.insert(leaving.care_of, *number);
    }
    let accepted = await_statuses(load, who.len()).unwrap_or_default();
    let left = accepted.into_iter().filter(|(_, status)| *status < 128);
    Ok(left.filter_map(|(care_of, _)| waiting.remove(&care_of)).collect())
}

/// The statuses of the next `count` acknowledgements, by care-of address; fewer after the timeout. `None` if there is
/// none.
fn await_statuses(load: &mut RegistrationLoad, count: usize) -> Option<BTreeMap<roam6_wire::CareOfAddress, u8>> {
    let mut statuses = BTreeMap::new();
    let end = clock::now() + TIMEOUT;
    while statuses.len() < count {
        let remaining = end.saturating_duration_since(clock::now());
        let Some((to, status, _)) = load.taps.uplink.receive_within(remaining, parse_acknowledgement) else { break };
        statuses.insert(to, status);
    }
    (!statuses.is_empty()).then_some(statuses)
}

/// Home addresses of all bindings.
fn bound_addresses(daemon: &Daemon) -> Result<Vec<std::net::Ipv6Addr>> {
    let bindings: Vec<BindingView> = daemon.show("bindings")?;
    Ok(bindings.iter().filter(|binding| binding.care_of.is_some()).map(|binding| binding.home_address.0).collect())
}
