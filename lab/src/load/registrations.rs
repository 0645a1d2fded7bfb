//! A home agent under load by many mobile routers, which this program emulates.

use crate::bed::tap::Tap;
use crate::bed::{Daemon, Host};
use crate::clock;
use crate::load::forge::{SyntheticRouter, parse_acknowledgement};
use anyhow::{Context, Result, bail};
use roam6_proto::Entropy;
use roam6_wire::{CareOfAddress, HomeAddress, Sequence};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write;
use std::fs;
use std::net::Ipv6Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HOME_AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
/// A correspondent behind the home agent.
pub(crate) const CORRESPONDENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xc, 0, 0, 0, 0, 0xc);
const KEY: [u8; 20] = *b"a key of a testbed!!";
/// An unacknowledged update is retransmitted after this time.
const RETRANSMIT_AFTER: Duration = Duration::from_secs(2);

/// A home agent with `size` emulated mobile routers.
pub(crate) struct RegistrationLoad {
    pub(crate) size: u32,
    pub(crate) taps: RouterTaps,
    pub(crate) daemon: Daemon,
    pub(crate) prefix_table_file: PathBuf,
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) rng: Entropy,
}

/// The two interfaces of a router; this program emulates everything beyond them.
pub(crate) struct RouterTaps {
    /// The interface towards the mobile routers.
    pub(crate) uplink: Tap,
    /// The interface towards correspondents.
    pub(crate) correspondent_link: Tap,
}

impl RouterTaps {
    /// Creates the interfaces, with routes.
    pub(crate) fn open(host: &Host) -> Result<RouterTaps> {
        host.set_sysctl("ipv6/conf/all/forwarding", "1")?;
        host.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
        for (setting, value) in [("gc_thresh3", "300000"), ("gc_thresh2", "250000"), ("max_size", "1000000")] {
            host.set_sysctl(&format!("ipv6/route/{setting}"), value).ok(); // not in every kernel
        }
        let (uplink, correspondents) = (Tap::open(host, "net0")?, Tap::open(host, "cn0")?);
        host.ip(&[
            &format!("address add {HOME_AGENT}/64 dev net0"),
            "route add default via fe80::1 dev net0",
            &format!("route add {CORRESPONDENT}/128 via fe80::1 dev cn0"),
        ])?;
        Ok(RouterTaps { uplink, correspondent_link: correspondents })
    }
}

impl RegistrationLoad {
    /// Starts the home agent, with its journal in `disk` if given, otherwise in memory.
    pub(crate) fn start(size: u32, disk: Option<&Path>) -> Result<RegistrationLoad> {
        let host = Host::new(&format!("ha{size}"))?;
        let sides = RouterTaps::open(&host)?;
        let table = host.folder().join("mobiles.toml");
        fs::write(&table, prefix_table(size)?)?;
        fs::set_permissions(&table, fs::Permissions::from_mode(0o600))?;
        let config = format!(
            "[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nprefix_table = \"{}\"\nmax_bindings = {size}\n",
            table.display()
        );
        let daemon = match disk {
            Some(disk) => Daemon::start_with_journal(&host, &config, disk)?,
            None => Daemon::start(&host, &config)?,
        };
        let sequences = vec![Sequence(0); usize::try_from(size)?];
        Ok(RegistrationLoad {
            size,
            taps: sides,
            daemon,
            prefix_table_file: table,
            sequences,
            rng: Entropy::seed_from_u64(7),
        })
    }

    /// A random mobile router.
    pub(crate) fn random_router(&mut self) -> u32 {
        u32::try_from(self.rng.below(self.size.into())).unwrap_or_default()
    }

    /// Registers these mobile routers, at most `window` updates in flight; the delays of the acknowledgements,
    /// milliseconds.
    pub(crate) fn register(&mut self, who: &[u32], window: usize) -> Result<Vec<f64>> {
        let mut waiting: BTreeMap<CareOfAddress, (u32, Instant)> = BTreeMap::new();
        let mut delays = Vec::with_capacity(who.len());
        let mut queue = who.iter().copied();
        loop {
            while waiting.len() < window {
                let Some(next) = queue.next() else { break };
                // A router with an update in flight cannot send another: the acknowledgements would be
                // indistinguishable.
                if let Entry::Vacant(place) = waiting.entry(care_of(next)) {
                    place.insert((next, clock::now()));
                    self.send_update(next)?;
                }
            }
            if waiting.is_empty() {
                return Ok(delays);
            }
            self.taps.uplink.wait(20);
            while let Some((to, _)) = self.next_acknowledgement()? {
                if let Some((_, sent)) = waiting.remove(&to) {
                    delays.push(sent.elapsed().as_secs_f64() * 1000.0);
                }
            }
            let late: Vec<u32> = waiting
                .values()
                .filter(|(_, sent)| sent.elapsed() > RETRANSMIT_AFTER)
                .map(|(number, _)| *number)
                .collect();
            for number in late {
                self.send_update(number)?;
            }
        }
    }

    /// The next acknowledgement that has arrived: its destination and sequence number. Fails if the status is a
    /// refusal.
    pub(crate) fn next_acknowledgement(&mut self) -> Result<Option<(CareOfAddress, Sequence)>> {
        while let Some(packet) = self.taps.uplink.receive() {
            match parse_acknowledgement(packet) {
                Some((to, status, _)) if status >= 128 => {
                    bail!("an update for {} was refused with status {status}", to.0)
                }
                Some((to, _, sequence)) => return Ok(Some((to, sequence))),
                None => {}
            }
        }
        Ok(None)
    }

    /// Sends the next update of a mobile router.
    pub(crate) fn send_update(&mut self, number: u32) -> Result<()> {
        let slot = self.sequences.get_mut(usize::try_from(number)?).context("no such mobile router")?;
        *slot = slot.next();
        let packet = synthetic_router(number).update(*slot);
        Ok(self.taps.uplink.send(&packet)?)
    }
}

/// A mobile router with its key.
pub(crate) fn synthetic_router(number: u32) -> SyntheticRouter {
    SyntheticRouter {
        home_agent: HOME_AGENT,
        home_address: home_address(number),
        care_of: care_of(number),
        spi: 1000,
        key: KEY.to_vec(),
    }
}

fn home_address(number: u32) -> HomeAddress {
    HomeAddress(Ipv6Addr::from_bits(0x2001_0db8_0001_0000_0000_0000_0001_0000 + u128::from(number)))
}

/// Its care-of address.
pub(crate) fn care_of(number: u32) -> CareOfAddress {
    CareOfAddress(Ipv6Addr::from_bits(0x2001_0db8_00ca_0000_0000_0000_0001_0000 + u128::from(number)))
}

/// The first address of its mobile network, a /64.
pub(crate) fn mobile_network(number: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(0x2001_0db9_0000_0000_0000_0000_0000_0000 + (u128::from(number) << 64))
}

/// The prefix table of the first `size` mobile routers.
pub(crate) fn prefix_table(size: u32) -> Result<String> {
    let key = roam6_proto::base::hex::encode(&KEY);
    let mut text = String::new();
    for number in 0..size {
        let (home, network) = (home_address(number), mobile_network(number));
        writeln!(
            text,
            "[[mobile]]\nhome_address = \"{home}\"\nprefixes = [\"{network}/64\"]\nspi = 1000\nkey = \"{key}\"\n"
        )?;
    }
    Ok(text)
}
