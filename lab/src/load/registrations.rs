//! A home agent under load by many mobile routers, which this program emulates.

use crate::bed::tap::Tap;
use crate::bed::{Daemon, Host};
use crate::clock;
use crate::load::forge::{SyntheticRouter, parse_acknowledgement};
use anyhow::{Context, Result, ensure};
use roam6_proto::Entropy;
use roam6_wire::{CareOfAddress, HomeAddress, Sequence};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
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
/// Retransmission timeouts of a mobile router: initial, doubled each time, and maximum (RFC 6275 §12).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(32);
/// How long a mobile router may be without an acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Updates sent before acknowledgements are read.
const SEND_BURST: u64 = 64;

/// A home agent with `size` emulated mobile routers.
pub(crate) struct RegistrationLoad {
    pub(crate) size: u32,
    pub(crate) taps: RouterTaps,
    pub(crate) daemon: Daemon,
    pub(crate) prefix_table_file: PathBuf,
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) rng: Entropy,
}

/// Registrations of mobile routers.
#[derive(Default)]
pub(crate) struct Registrations {
    /// From the begin of each router's registration to the acknowledgement of its last update, milliseconds.
    pub(crate) delays: Vec<f64>,
    /// Updates sent.
    pub(crate) sent: u64,
    /// Acknowledgements of updates that had already been retransmitted.
    pub(crate) late_answers: u64,
    waiting: BTreeMap<CareOfAddress, Waiting>,
    due: BinaryHeap<Reverse<(Instant, u32)>>,
}

/// A mobile router without an acknowledgement.
#[derive(Clone, Copy)]
struct Waiting {
    number: u32,
    since: Instant,
    timeout: Duration,
    /// When it retransmits its update.
    due: Instant,
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
        RegistrationLoad::start_with(size, disk, "")
    }

    /// [`RegistrationLoad::start`]; `more` is added to the configuration of the home agent.
    pub(crate) fn start_with(size: u32, disk: Option<&Path>, more: &str) -> Result<RegistrationLoad> {
        let host = Host::new(&format!("ha{size}"))?;
        let taps = RouterTaps::open(&host)?;
        let table = host.folder().join("mobiles.toml");
        fs::write(&table, prefix_table(size)?)?;
        fs::set_permissions(&table, fs::Permissions::from_mode(0o600))?;
        let config = format!(
            "[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nprefix_table = \"{}\"\nmax_bindings = {size}\nmax_update_rate = 100000\n{more}",
            table.display()
        );
        let daemon = match disk {
            Some(disk) => Daemon::start_with_journal(&host, &config, disk)?,
            None => Daemon::start(&host, &config)?,
        };
        let (sequences, rng) = (vec![Sequence(0); usize::try_from(size)?], Entropy::seed_from_u64(7));
        Ok(RegistrationLoad { size, taps, daemon, prefix_table_file: table, sequences, rng })
    }

    /// A random mobile router.
    pub(crate) fn random_router(&mut self) -> u32 {
        u32::try_from(self.rng.below(self.size.into())).unwrap_or_default()
    }

    /// Registers these mobile routers, at most `window` updates in flight. Each retransmits its update as a mobile router
    /// does.
    pub(crate) fn register(&mut self, who: &[u32], window: usize) -> Result<Registrations> {
        let mut all = Registrations::default();
        let mut queue = who.iter().copied();
        loop {
            let since = clock::now();
            while all.waiting.len() < window {
                let Some(number) = queue.next() else { break };
                // A router with an update in flight cannot send another: the acknowledgements would be
                // indistinguishable.
                if !all.waiting.contains_key(&care_of(number)) {
                    self.send(&mut all, Waiting { number, since, timeout: INITIAL_TIMEOUT, due: since })?;
                    if all.sent.is_multiple_of(SEND_BURST) {
                        self.receive_answers(&mut all)?;
                    }
                }
            }
            if all.waiting.is_empty() {
                return Ok(all);
            }
            self.taps.uplink.wait(20);
            self.receive_answers(&mut all)?;
            self.retransmit(&mut all)?;
        }
    }

    /// Sends the next update of a mobile router.
    fn send(&mut self, all: &mut Registrations, mut waiting: Waiting) -> Result<()> {
        let number = waiting.number;
        let slot = self.sequences.get_mut(usize::try_from(number)?).context("no such mobile router")?;
        *slot = slot.next();
        self.taps.uplink.send(&synthetic_router(number).update(*slot))?;
        all.sent += 1;
        waiting.due = clock::now() + waiting.timeout;
        all.due.push(Reverse((waiting.due, number)));
        all.waiting.insert(care_of(number), waiting);
        Ok(())
    }

    /// Only acknowledgements of the last update count, as at a mobile router (RFC 6275 §11.7.3). Fails if the status is a
    /// refusal.
    fn receive_answers(&mut self, all: &mut Registrations) -> Result<()> {
        while let Some(packet) = self.taps.uplink.receive() {
            let Some((to, status, sequence)) = parse_acknowledgement(packet) else { continue };
            ensure!(status < 128, "an update for {} was refused with status {status}", to.0);
            let Some(Waiting { number, since, .. }) = all.waiting.get(&to) else { continue };
            if self.sequences.get(*number as usize) == Some(&sequence) {
                all.delays.push(since.elapsed().as_secs_f64() * 1000.0);
                all.waiting.remove(&to);
            } else {
                all.late_answers += 1;
            }
        }
        Ok(())
    }

    fn retransmit(&mut self, all: &mut Registrations) -> Result<()> {
        for _ in 0..SEND_BURST {
            let Some(Reverse((at, number))) = all.due.peek().copied().filter(|Reverse((at, _))| *at <= clock::now())
            else {
                break;
            };
            all.due.pop();
            let waiting = all.waiting.get(&care_of(number)).copied();
            if let Some(waiting) = waiting.filter(|waiting| waiting.due == at) {
                let left = all.waiting.len();
                ensure!(waiting.since.elapsed() < TIMEOUT, "{left} mobile routers have no acknowledgement");
                self.send(all, Waiting { timeout: (waiting.timeout * 2).min(MAX_TIMEOUT), ..waiting })?;
            }
        }
        Ok(())
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

/// Its home address.
pub(crate) fn home_address(number: u32) -> HomeAddress {
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
