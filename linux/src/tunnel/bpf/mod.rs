//! Tunnels in BPF programs: one device for all routes, maps for all else. Everything is pinned, so that packets are
//! forwarded while no daemon runs, and the next one takes the maps over (RFC 2473, RFC 3963 §6.5 and §9).

pub(crate) mod abi;
pub(crate) mod attach;
mod bypass;
mod encrypted;
#[cfg(test)]
mod fixtures;
mod lengths;
mod maps;
mod path_stats;
pub(crate) mod pin;
pub(crate) mod prefix_table;
mod replication;
pub(crate) mod xdp_ingress;

use crate::error::{Context as _, Error};
use crate::esp::{self, EspPaths};
use crate::netlink::socket::Netlink;
use crate::tunnel::reassembly::Reassembly;
use crate::tunnel::udp_encap::UdpEncap;
use crate::tunnel::udp6_encap::Udp6Encap;
use crate::tunnel::{Hooks, Tunnels, device, is_indexed_by};
use crate::wireguard::{DEVICE_PREFIX, Encryption, PublicKeys, WireguardPaths, remove_devices};
use abi::{LOCAL_ENDPOINTS, OVER_IP4, PATHS, PrefixKey, PrefixLength, RULES, Settings, Side, Version};
use attach::{Interface, Program, Programs};
use core::cell::Cell;
use lengths::{LengthUse, release_length, use_length};
use maps::Maps;
use nix::time::{ClockId, clock_getres};
use path_stats::PathStats;
use pin::Pins;
use roam6_proto::base::ids::LinkId;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::encryption::EncryptionMethod;
use roam6_proto::contract::item::subflow::is_subflow_prefix;
use roam6_proto::contract::item::{Tunnel, TunnelId, TunnelPath};
use roam6_proto::{PathTraffic, PathTrafficQuery, Time};
use roam6_wire::ip6::MINIMUM_MTU;
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;
use xdp_ingress::XdpIngress;

/// Octets of the outer header (RFC 2473 §3).
const OVERHEAD: u32 = 40;
/// MTU of the device: an Ethernet's less the outer header.
const DEVICE_MTU: u32 = 1500 - OVERHEAD;
/// The same with tunnels over IPv4: no route can have a larger MTU than its device (RFC 4213 §3.2).
const DSMIP_DEVICE_MTU: u32 = 1500 - 20;
/// How long a cached next hop is valid.
const NEXT_HOP_LIFETIME: Duration = Duration::from_millis(256);
/// Nested tunnels that are taken into account in the MTU.
const MAX_NESTING: u8 = 4;

/// Names and limits of one daemon's tunnels.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name of the device, unique in its network namespace.
    pub device: String,
    /// Directory of the daemon for what must not outlive a restart of the machine; `bpf` in it becomes a BPF file
    /// system.
    pub run: PathBuf,
    /// Local addresses of mobility signalling over IPv4 (RFC 5555); empty: none.
    pub dsmip_addresses: VecSet<Ipv6Addr>,
    /// Local addresses of mobility signalling in UDP over IPv6; empty: none.
    pub udp6_addresses: VecSet<Ipv6Addr>,
    /// Directory of the keys of encrypted paths.
    pub state_dir: PathBuf,
    /// Whether paths are encrypted.
    pub encryption: Encryption,
    /// Whether TCP connections may be relayed.
    pub bonding: bool,
    /// Whether to attach the XDP program too, where drivers support it.
    pub xdp: bool,
    /// Most tunnels. The limit of the first daemon holds until [`Tunnels::clean`].
    pub max_tunnels: u32,
}

/// The back end.
pub struct Bpf {
    options: Options,
    pins: Pins,
    programs: Programs,
    xdp_ingress: Option<XdpIngress>,
    maps: Maps,
    device: LinkId,
    settings: Settings,
    last_version: u32,
    /// The tunnels that this daemon has put. What can be decoded from the map is not stored a second time.
    installed: BTreeMap<TunnelId, Option<Box<FullTunnel>>>,
    /// Tunnels whose map entries are incomplete, because a part was refused.
    incomplete: BTreeSet<TunnelId>,
    /// The prefix lengths in use on each side.
    lengths: [VecMap<u8, LengthUse>; 3],
    /// Destinations that bypass the tunnels.
    bypasses: VecSet<Prefix>,
    /// Local endpoints of paths.
    endpoints: VecMap<Ipv6Addr, Endpoint>,
    attached: VecMap<LinkId, Attached>,
    path_stats: PathStats,
    wireguard: Option<WireguardPaths>,
    esp: Option<EspPaths>,
    /// The MTU that was computed last, until a tunnel changes: each route into a tunnel needs that of the same tunnel, and to
    /// compute it takes some system calls.
    last_mtu: Cell<Option<(TunnelId, Option<u32>)>>,
    _reassembly: Reassembly,
}

/// A tunnel that cannot be decoded from the map, and the version of its flow rules.
struct FullTunnel {
    tunnel: Tunnel,
    version: Version,
}

/// A local endpoint.
struct Endpoint {
    /// Number of paths.
    count: usize,
    /// Its index in the map, if one was free.
    index: Option<u8>,
}

struct Attached {
    name: String,
    program: Program,
    /// Attached later: the earlier daemon's program uses maps that are full, those of this daemon are still empty.
    deferred: bool,
}

impl Bpf {
    /// Adopts the pinned objects of an earlier daemon, or creates new ones.
    ///
    /// # Errors
    /// The kernel's, if it refuses the programs, the maps or the device.
    pub fn open(options: Options) -> Result<Bpf, Error> {
        let mut pins = Pins::open(&options.run.join("bpf"))?;
        let mut programs = Programs::load(pins.clone(), options.max_tunnels)?;
        let mut maps = Maps::take(programs.ebpf())?;
        let path_stats = PathStats::take(programs.ebpf())?;
        let xdp_ingress = options.xdp.then(|| XdpIngress::load(pins.clone())).transpose()?;
        let mtu = if options.dsmip_addresses.is_empty() { DEVICE_MTU } else { DSMIP_DEVICE_MTU };
        let device = device::make_tun(&options.device, mtu)?;
        if !options.dsmip_addresses.is_empty() {
            device::forward_ipv4(&options.device)?;
        }
        let signalling: VecSet<Ipv6Addr> =
            options.dsmip_addresses.iter().chain(&options.udp6_addresses).copied().collect();
        maps.signalling.retain(|address| signalling.contains(&Ipv6Addr::from(*address)))?;
        for address in &signalling {
            maps.signalling.put(&address.octets(), &1)?;
        }
        let mut settings = maps.settings()?;
        settings.device = device.0;
        settings.generation = settings.generation.wrapping_add(1);
        settings.epoch = next_epoch(settings.epoch);
        settings.lifetime_shift = lifetime_shift(tick()?);
        settings.bonding = options.bonding;
        settings.slot_mask = maps.prefixes.slot_mask();
        let fresh = settings.generation == 1;
        let mut inherited = [const { Vec::new() }; 3];
        for (side, lengths) in Side::ALL.into_iter().zip(&mut inherited) {
            match fresh {
                true => maps.set_lengths(settings.length_set, side, &[])?,
                false => *lengths = maps.lengths(settings.length_set, side)?,
            }
        }
        maps.set_settings(settings)?;
        if !pins.outdated {
            attach_device(&mut programs, device, &options.device)?;
        }
        let wireguard = WireguardPaths::open(options.encryption, &options.state_dir)?;
        let by_esp = options.encryption.method() == Some(EncryptionMethod::Esp);
        let esp = by_esp.then(EspPaths::open).transpose()?;
        if let Encryption::Required(_) = options.encryption {
            pins.outdated = false;
            encrypted::remove_plain(&mut maps)?;
        }
        if options.encryption.method().is_some() {
            // The verifier takes tens of milliseconds, which the first packets of a new path would wait for.
            programs.program(Program::Decrypted)?;
        }
        let over_ipv4 = Some(options.dsmip_addresses.clone()).filter(|over_ipv4| !over_ipv4.is_empty());
        let udp_encap = over_ipv4.map(UdpEncap::open).transpose()?;
        let over_udp6 = Some(options.udp6_addresses.clone()).filter(|over_udp6| !over_udp6.is_empty());
        let udp6_encap = over_udp6.map(Udp6Encap::open).transpose()?;
        Ok(Bpf {
            _reassembly: Reassembly::start(&options.device, device, udp_encap, udp6_encap)?,
            last_version: settings.generation << 16,
            // Counted once more until stale entries are removed, so that no length in use is dropped.
            lengths: inherited.map(|side| {
                let used = |PrefixLength { bits, cover }| (bits, LengthUse { count: 1, cover });
                side.into_iter().map(used).collect()
            }),
            bypasses: VecSet::new(),
            installed: BTreeMap::new(),
            incomplete: BTreeSet::new(),
            endpoints: inherited_endpoints(&maps)?,
            attached: VecMap::new(),
            path_stats,
            wireguard,
            esp,
            last_mtu: Cell::new(None),
            options,
            pins,
            programs,
            xdp_ingress,
            maps,
            device,
            settings,
        })
    }

    /// Writes the endpoints and flow rules of a tunnel: before its value, so that no packet finds an incomplete tunnel.
    fn prepare(&mut self, tunnel: &Tunnel, version: Version) -> Result<(), Error> {
        for path in encapsulating(tunnel) {
            let over_ipv4 = Ipv4Endpoint::from_ipv6(path.local).is_some();
            let free = if self.endpoints.contains_key(&path.local) { None } else { self.free_index() };
            let end = self.endpoints.entry(path.local).or_insert(Endpoint { count: 0, index: free });
            end.count += 1;
            if end.count == 1 {
                if let Some(place) = end.index {
                    self.maps.set_local_endpoint(place, &path.local.octets())?;
                }
                let index = end.index.map_or(LOCAL_ENDPOINTS, u32::from) | if over_ipv4 { OVER_IP4 } else { 0 };
                self.maps.endpoints.put(&path.local.octets(), &index)?;
            }
        }
        self.begin_sequence(tunnel)?;
        if !tunnel.flows.is_empty() {
            self.maps.rules.put(&abi::rules_key(tunnel.id, version), &abi::encode_rules(&tunnel.flows))?;
        }
        Ok(())
    }

    fn free_index(&self) -> Option<u8> {
        let taken: VecSet<u8> = self.endpoints.values().filter_map(|end| end.index).collect();
        (0..=u8::MAX).find(|place| !taken.contains(place))
    }

    /// Writes the prefix entries of the tunnel.
    fn index_prefixes(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        let mut changed = self.incomplete.contains(&tunnel.id);
        for (side, prefix) in indexed(tunnel) {
            changed |= use_length(self.length_use(side), prefix);
        }
        if changed {
            self.publish_lengths()?;
        }
        let end = tunnel.paths.first().and_then(|path| self.endpoints.get(&path.local));
        let way = abi::prefix_entry(tunnel, end.and_then(|end| end.index));
        for (side, prefix) in indexed(tunnel) {
            self.maps.prefixes.put(&abi::prefix_key(side, prefix), &way)?;
        }
        Ok(())
    }

    /// Removes what the former state of a tunnel needed and `now` does not.
    fn release(&mut self, former: &Tunnel, rules: Option<Version>, now: Option<&Tunnel>) -> Result<(), Error> {
        let kept: VecSet<(Side, Prefix)> = now.into_iter().flat_map(indexed).collect();
        let mut changed = false;
        for (side, prefix) in indexed(former) {
            if !kept.contains(&(side, prefix)) {
                self.maps.prefixes.drop_if_of(&abi::prefix_key(side, prefix), former.id)?;
            }
            changed |= release_length(self.length_use(side), prefix);
        }
        if changed {
            self.publish_lengths()?;
        }
        if let Some(version) = rules {
            self.maps.rules.drop(&abi::rules_key(former.id, version))?;
        }
        for path in encapsulating(former) {
            if let Some(end) = self.endpoints.get_mut(&path.local) {
                end.count = end.count.saturating_sub(1);
                if end.count == 0 {
                    self.endpoints.remove(&path.local);
                    self.maps.endpoints.drop(&path.local.octets())?;
                }
            }
        }
        Ok(())
    }

    /// A tunnel of this daemon, with the version of its flow rules, if it has any.
    fn former(&self, id: TunnelId) -> Option<(Tunnel, Option<Version>)> {
        let kept = self.installed.get(&id)?.as_ref().filter(|held| !held.tunnel.flows.is_empty());
        Some((self.find(id)?, kept.map(|held| held.version)))
    }

    /// The tunnel of packets to `address`.
    fn tunnel_to(&self, address: Ipv6Addr) -> Option<Tunnel> {
        let [far, ..] = &self.lengths;
        let find = |&length: &u8| {
            let key = abi::prefix_key(Side::Far, Prefix::new(address, length)?);
            self.find(self.maps.prefixes.tunnel(&key)?)
        };
        far.keys().rev().find_map(find)
    }

    /// The MTU of a path, where it leads through other tunnels too.
    fn path_mtu(&self, path: &TunnelPath, deeper: u8) -> u32 {
        let over_ipv4 = Ipv4Endpoint::from_ipv6(path.remote).is_some();
        let outer = if path.link.is_none() && deeper > 0 && !over_ipv4 { self.tunnel_to(path.remote) } else { None };
        match outer {
            Some(outer) => path.mtu.min(path.encap.inner_mtu(self.tunnel_mtu(&outer, deeper - 1).max(MINIMUM_MTU))),
            None => path.mtu,
        }
    }

    fn tunnel_mtu(&self, tunnel: &Tunnel, deeper: u8) -> u32 {
        least_mtu(tunnel, |path| self.path_mtu(path, deeper))
    }

    fn attach_now(&mut self, link: LinkId) -> Result<(), Error> {
        let Some(attached) = self.attached.get_mut(&link) else { return Ok(()) };
        attached.deferred = false;
        let (program, name) = (attached.program, attached.name.clone());
        let done = self.programs.attach(program, Interface { link, name: &name });
        done.inspect_err(|_| drop(self.attached.remove(&link)))?;
        self.attach_xdp(link)
    }

    /// Attaches the XDP program to an interface, if configured; else detaches an earlier daemon's.
    fn attach_xdp(&mut self, link: LinkId) -> Result<(), Error> {
        let attached = self.attached.get(&link).filter(|attached| attached.program == Program::Ethernet);
        let (Some(xdp_ingress), Some(Attached { name, .. })) = (&mut self.xdp_ingress, attached) else {
            return self.detach_xdp(link);
        };
        let taken = xdp_ingress.attach(Interface { link, name }).and_then(|()| {
            let address = device::address_of(link)?.ok_or_else(|| Error::new(name, "no link-layer address"))?;
            self.maps
                .set_xdp_interface(link, &abi::encode_xdp_interface(link, address, xdp_ingress::can_transmit(link)?))
        });
        taken.or_else(|why| self.detach_xdp(link).and(Err(why)))
    }

    fn detach_xdp(&mut self, link: LinkId) -> Result<(), Error> {
        xdp_ingress::detach(&self.pins, link);
        self.maps.clear_xdp_interface(link)
    }

    /// Writes a tunnel to the maps.
    fn change(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        let what = format_args!("tunnel {}", tunnel.id.0);
        if tunnel.paths.len() > PATHS {
            return Err(Error::new(what, format_args!("{} paths, at most {PATHS}", tunnel.paths.len())));
        }
        if tunnel.flows.len() > RULES {
            return Err(Error::new(what, format_args!("{} flow rules, at most {RULES}", tunnel.flows.len())));
        }
        self.put_encrypted(tunnel)?;
        self.last_version = self.last_version.wrapping_add(1);
        let version = Version(self.last_version);
        self.prepare(tunnel, version)?;
        let former = self.former(tunnel.id);
        self.path_stats.number(tunnel)?;
        let device = |path: &TunnelPath| self.device_of(tunnel.id, path);
        let stat = |bid| self.path_stats.number_of(tunnel.id, encrypted::shown(bid));
        let value = abi::encode_tunnel(&self.with_devices(tunnel), version, stat, device);
        self.maps.tunnels.put(&tunnel.id.0, &value)?;
        let is_decodable = abi::decode_tunnel(&value).as_ref() == Some(tunnel);
        self.installed
            .insert(tunnel.id, (!is_decodable).then(|| Box::new(FullTunnel { tunnel: tunnel.clone(), version })));
        let indexed = self.index_prefixes(tunnel);
        if let Some((former, rules)) = former {
            self.release(&former, rules, Some(tunnel))?;
        }
        self.release_encrypted(tunnel.id, Some(tunnel))?;
        indexed
    }

    /// Removes a tunnel from the maps.
    fn remove(&mut self, id: TunnelId) -> Result<(), Error> {
        self.path_stats.release(id);
        if let Some((former, rules)) = self.former(id) {
            self.installed.remove(&id);
            self.release(&former, rules, None)?;
        }
        self.maps.sequences.drop(&id.0)?;
        self.maps.tunnels.drop(&id.0)?;
        self.release_encrypted(id, None)
    }

    /// Begins a new epoch, which voids all cached decisions.
    fn begin_epoch(&mut self) -> Result<(), Error> {
        self.last_mtu.set(None);
        self.settings.epoch = next_epoch(self.settings.epoch);
        self.maps.set_settings(self.settings)
    }

    /// Removes the prefixes, tunnels, rules and endpoints that no tunnel of this daemon has.
    fn remove_stale_entries(&mut self) -> Result<(), Error> {
        for key in self.maps.prefixes.keys()? {
            let tunnel = self.maps.prefixes.tunnel(&key).and_then(|id| self.find(id));
            let owned = tunnel.is_some_and(|tunnel| owns(&tunnel, &key));
            if !owned && !self.is_bypass(&key) {
                self.maps.prefixes.drop(&key)?;
            }
        }
        self.maps.tunnels.retain(|id| self.installed.contains_key(&TunnelId(*id)))?;
        self.maps.sequences.retain(|id| self.installed.contains_key(&TunnelId(*id)))?;
        let whole = self.installed.values().flatten();
        let rules: BTreeSet<_> = whole.map(|held| abi::rules_key(held.tunnel.id, held.version)).collect();
        self.maps.rules.retain(|key| rules.contains(key))?;
        self.endpoints.retain(|_, end| end.count > 0);
        self.maps.endpoints.retain(|key| self.endpoints.contains_key(&Ipv6Addr::from(*key)))?;
        self.lengths = Default::default();
        for prefix in self.bypasses.clone() {
            use_length(self.length_use(Side::Bypass), prefix);
        }
        for id in self.installed.keys().copied().collect::<Vec<_>>() {
            let Some(tunnel) = self.find(id) else { continue };
            for (side, prefix) in indexed(&tunnel) {
                use_length(self.length_use(side), prefix);
            }
        }
        self.publish_lengths()
    }
}

impl Tunnels for Bpf {
    fn put(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        // A refreshed binding voids no cached decisions.
        if !self.incomplete.contains(&tunnel.id) && self.find(tunnel.id).as_ref() == Some(tunnel) {
            return Ok(());
        }
        let done = self.change(tunnel);
        match &done {
            Ok(()) => self.incomplete.remove(&tunnel.id),
            Err(_) => self.incomplete.insert(tunnel.id),
        };
        self.begin_epoch().and(done)
    }

    fn drop(&mut self, id: TunnelId) -> Result<(), Error> {
        self.incomplete.remove(&id);
        let done = self.remove(id);
        self.begin_epoch().and(done)
    }

    fn replicates(&self) -> bool {
        true
    }

    fn put_bypass(&mut self, to: Prefix) -> Result<(), Error> {
        let done = self.add_bypass(to);
        self.begin_epoch().and(done)
    }

    fn drop_bypass(&mut self, to: Prefix) -> Result<(), Error> {
        let done = self.remove_bypass(to);
        self.begin_epoch().and(done)
    }

    fn find(&self, id: TunnelId) -> Option<Tunnel> {
        match self.installed.get(&id)? {
            Some(held) => Some(held.tunnel.clone()),
            None => abi::decode_tunnel(&self.maps.tunnels.find(&id.0)?),
        }
    }

    fn device(&self, id: TunnelId) -> Option<LinkId> {
        // A tunnel with paths has both.
        self.mtu(id).map(|_| self.device)
    }

    fn mtu(&self, id: TunnelId) -> Option<u32> {
        match self.last_mtu.get() {
            Some((of, mtu)) if of == id => mtu,
            _ => {
                let tunnel = self.find(id).filter(|tunnel| !tunnel.paths.is_empty());
                let mtu = tunnel.map(|tunnel| self.tunnel_mtu(&tunnel, MAX_NESTING).max(MINIMUM_MTU));
                self.last_mtu.set(Some((id, mtu)));
                mtu
            }
        }
    }

    fn attach(&mut self, link: LinkId, name: &str) -> Result<(), Error> {
        let is_encrypting = [DEVICE_PREFIX, esp::DEVICE_PREFIX].iter().any(|prefix| name.starts_with(prefix));
        if link == self.device || self.attached.contains_key(&link) || is_encrypting {
            return Ok(());
        }
        let program = if device::has_ethernet(link)? { Program::Ethernet } else { Program::Bare };
        let waiting = self.pins.outdated;
        self.attached.insert(link, Attached { name: name.to_owned(), program, deferred: waiting });
        if waiting { Ok(()) } else { self.attach_now(link) }
    }

    fn detach(&mut self, link: LinkId) {
        if let Some(attached) = self.attached.remove(&link) {
            let _ = self.detach_xdp(link);
            self.programs.detach(attached.program, Interface { link, name: &attached.name });
        }
    }

    fn invalidate_next_hops(&mut self) -> Result<(), Error> {
        self.settings.generation = self.settings.generation.wrapping_add(1);
        self.maps.set_settings(self.settings)?;
        self.wireguard.as_mut().map_or(Ok(()), WireguardPaths::follow_routes)
    }

    fn set_firewall_hooks(&mut self, obeyed: Hooks, bypassed: bool) -> Result<bool, Error> {
        if (self.settings.hooks, self.settings.firewall_bypassed) != (obeyed, bypassed) {
            self.settings.hooks = obeyed;
            self.settings.firewall_bypassed = bypassed;
            self.begin_epoch()?;
        }
        Ok(true)
    }

    fn remove_stale(&mut self) -> Result<(), Error> {
        self.remove_stale_entries()?;
        self.begin_epoch()?;
        self.remove_stale_encrypted()?;
        let mut done = Ok(());
        if self.pins.outdated {
            attach_device(&mut self.programs, self.device, &self.options.device)?;
            let waiting = self.attached.iter().filter(|(_, attached)| attached.deferred);
            let waiting: Vec<LinkId> = waiting.map(|(&link, _)| link).collect();
            done = waiting.into_iter().map(|link| self.attach_now(link)).fold(done, Result::and);
            self.pins.outdated = false;
        }
        self.pins.drop_other_layouts();
        done
    }

    fn counters(&mut self) -> VecMap<String, u64> {
        self.packet_counters()
    }

    fn repair_devices(&mut self) -> Result<Option<String>, Error> {
        self.repair_encrypted()
    }

    fn next_session_check(&self) -> Option<Time> {
        self.next_encryption_check()
    }

    fn check_sessions(&mut self, now: Time) -> Result<Vec<String>, Error> {
        self.look_for_sessions(now)
    }

    fn renew_keys(&mut self) -> Result<PublicKeys, Error> {
        self.renew_wireguard_keys()
    }

    fn path_traffic(&mut self, now: Time, query: &PathTrafficQuery) -> Result<Vec<PathTraffic>, Error> {
        self.read_paths(now, query)
    }

    fn path_notifications(&self) -> Option<BorrowedFd<'_>> {
        Some(self.path_stats.as_fd())
    }

    fn read_path_notifications(&mut self, now: Time) -> Vec<PathTraffic> {
        self.read_notifications(now)
    }

    fn inventory(&mut self) -> Result<Vec<TunnelId>, Error> {
        let mut ids: Vec<TunnelId> = self.maps.tunnels.keys()?.into_iter().map(TunnelId).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn clean(&mut self) -> Result<(), Error> {
        for link in self.attached.keys().copied().collect::<Vec<_>>() {
            self.detach(link);
        }
        device::remove(&self.options.device)?;
        remove_devices(&mut Netlink::open()?, |_| false)?;
        esp::remove_everything()?;
        self.pins.clean()
    }
}

/// The tick of the kernel's clock, which the programs count.
fn tick() -> Result<Duration, Error> {
    clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map(Duration::from).context("clock resolution")
}

/// The lifetime of a next hop for the programs: two to this power ticks.
fn lifetime_shift(tick: Duration) -> u32 {
    let ticks = NEXT_HOP_LIFETIME.as_nanos().checked_div(tick.as_nanos()).unwrap_or_default();
    ticks.max(1).ilog2()
}

/// The epoch after this one.
fn next_epoch(epoch: u32) -> u32 {
    (epoch % (u32::MAX - 1)) + 1
}

/// Attaches the programs of the tunnel device: for what the kernel routes into it, and for reassembled packets.
fn attach_device(programs: &mut Programs, link: LinkId, name: &str) -> Result<(), Error> {
    let device = Interface { link, name };
    programs.attach(Program::Device, device)?;
    programs.attach(Program::Reassembled, device)
}

/// The endpoints of an earlier daemon: its tunnels refer to them until they are put again.
fn inherited_endpoints(maps: &Maps) -> Result<VecMap<Ipv6Addr, Endpoint>, Error> {
    let keys = maps.endpoints.keys()?.into_iter();
    let end = |key| Endpoint {
        count: 0,
        index: maps.endpoints.find(&key).and_then(|place| u8::try_from(place & !OVER_IP4).ok()),
    };
    Ok(keys.map(|key| (Ipv6Addr::from(key), end(key))).collect())
}

/// The least MTU of the paths in use; of all paths if none is. Subflows use all that are encrypted.
fn least_mtu(tunnel: &Tunnel, mtu: impl Fn(&TunnelPath) -> u32) -> u32 {
    let has_subflows = Side::BOTH.iter().flat_map(|side| side.of(tunnel)).any(|prefix| is_subflow_prefix(*prefix));
    let carries = |path: &&TunnelPath| {
        let has_flow = tunnel.flows.iter().any(|flow| flow.uses(path.bid));
        path.weight > 0 || has_flow || has_subflows && path.encap.is_encrypted()
    };
    let carrying = tunnel.paths.iter().filter(carries).map(&mtu).min();
    carrying.or_else(|| tunnel.paths.iter().map(&mtu).min()).unwrap_or(MINIMUM_MTU)
}

/// The paths with an outer header.
fn encapsulating(tunnel: &Tunnel) -> impl Iterator<Item = &TunnelPath> {
    tunnel.paths.iter().filter(|path| !path.direct && !path.encap.is_encrypted())
}

/// The prefixes that index a tunnel: those of the side that distinguishes it from others, or of both.
fn indexed(tunnel: &Tunnel) -> impl Iterator<Item = (Side, Prefix)> + '_ {
    let special = |side: &Side| is_indexed_by(side.of(tunnel)) || (*side == Side::Far && is_for_all(tunnel));
    Side::BOTH.into_iter().filter(special).flat_map(|side| side.of(tunnel).iter().map(move |&prefix| (side, prefix)))
}

fn is_for_all(tunnel: &Tunnel) -> bool {
    !is_indexed_by(&tunnel.local_prefixes) && !is_indexed_by(&tunnel.remote_prefixes)
}

fn owns(tunnel: &Tunnel, key: &PrefixKey) -> bool {
    abi::decode_prefix_key(key).is_some_and(|found| indexed(tunnel).any(|own| own == found))
}
