//! Paths encrypted by ESP: for each a device of the kind "xfrm" and, while keys change, several pairs of associations. Everything
//! outlives the daemon: the kernel goes on while it restarts, and the next daemon finds pairs again by their SPIs.

use super::message::{AssociationId, Outbound, Xfrm};
use super::pairs::{Pair, Pairs, Spis};
use super::{DEVICE_PREFIX, KIND};
use crate::error::Error;
use crate::netlink::attribute::attribute;
use crate::netlink::link::{Link, LinkChange};
use crate::netlink::message::Message;
use crate::netlink::socket::{Netlink, Request};
use crate::tunnel::device;
use core::time::Duration;
use roam6_proto::contract::config::encryption::MAX_WIREGUARD_BID;
use roam6_proto::contract::item::{EspPair, Tunnel, TunnelId, TunnelPath};
use roam6_proto::crypto::path_esp::AssociationKey;
use roam6_proto::{LinkId, Time, VecSet};
use roam6_wire::Bid;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Parameters of a device (linux/if_link.h).
const IFLA_XFRM_LINK: u16 = 1;
const IFLA_XFRM_IF_ID: u16 = 2;
/// Tunnels of mobile routers, which are few, have lower numbers; those of a home agent are spread over all others.
const FIRST_OF_HOME_AGENTS: u32 = 1 << 12;
/// Set in the interface identifiers of a home agent.
const HOME_AGENT: u32 = 1 << 23;
const BIDS: u32 = MAX_WIREGUARD_BID as u32;
/// How long associations of an earlier daemon, of which this one was not told, still receive.
const RETIREMENT: Duration = Duration::from_secs(180);
/// The least pause for each path that was looked at, so that many paths do not take the processor.
const PAUSE_PER_PATH: Duration = Duration::from_micros(50);

/// Devices, policies and associations.
pub(crate) struct EspPaths {
    xfrm: Xfrm,
    netlink: Netlink,
    paths: BTreeMap<(TunnelId, Bid), Path>,
    /// Of an earlier daemon, and when they end, once that was looked for.
    leftover: Vec<(AssociationId, Option<Time>)>,
    next_check: Option<Time>,
}

struct Path {
    device: Device,
    pairs: Pairs,
    /// The association by which packets leave, as the policies say.
    outbound: Option<Outbound>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Device {
    name: String,
    interface_id: u32,
    link: LinkId,
    mtu: u32,
    /// The uplink by which its packets leave.
    uplink: Option<LinkId>,
}

impl EspPaths {
    /// Opens the kernel's IPsec; `None` if nothing is to be encrypted by it.
    ///
    /// # Errors
    /// The kernel has no part of it.
    pub(crate) fn open() -> Result<EspPaths, Error> {
        super::check()?;
        let (xfrm, netlink) = (Xfrm::open()?, Netlink::open()?);
        Ok(EspPaths { xfrm, netlink, paths: BTreeMap::new(), leftover: Vec::new(), next_check: None })
    }

    /// The link of the device of a path.
    pub(crate) fn link_of(&self, id: TunnelId, bid: Bid) -> Option<LinkId> {
        self.paths.get(&(id, bid)).map(|path| path.device.link)
    }

    /// Whether the other end is known to have the keys of a path.
    pub(crate) fn has_session(&self, id: TunnelId, bid: Bid) -> bool {
        self.paths.get(&(id, bid)).is_none_or(|path| path.pairs.has_session())
    }

    /// Installs the paths of a tunnel. Returns the devices that are new, with their names.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn put(&mut self, tunnel: &Tunnel) -> Result<Vec<(LinkId, String)>, Error> {
        let mut new = Vec::new();
        for (path, pair) in first_paths(tunnel) {
            let id = (tunnel.id, path.bid);
            let interface_id = self.interface_id(id);
            let device = self.ensure_device(id, interface_id, (path, pair), &mut new)?;
            self.put_pair(id, device, path, pair)?;
            self.put_policies(id)?;
        }
        Ok(new)
    }

    /// The interface identifier of a path: the one that it has, or a free one, which an earlier daemon has chosen alike.
    fn interface_id(&self, id: (TunnelId, Bid)) -> u32 {
        if let Some(path) = self.paths.get(&id) {
            return path.device.interface_id;
        }
        let taken: VecSet<u32> = self.paths.values().map(|path| path.device.interface_id).collect();
        let mut chosen = interface_id(id);
        while taken.contains(&chosen) {
            chosen = HOME_AGENT | (chosen.wrapping_add(BIDS) & (HOME_AGENT - 1));
        }
        chosen
    }

    fn ensure_device(
        &mut self,
        id: (TunnelId, Bid),
        interface_id: u32,
        (path, pair): (&TunnelPath, &EspPair),
        new: &mut Vec<(LinkId, String)>,
    ) -> Result<Device, Error> {
        let uplink = path.link.filter(|_| pair.initiates);
        let known = self.paths.get(&id).map(|path| path.device.clone());
        let known = known.filter(|device| device.uplink == uplink);
        if let Some(mut device) = known {
            if device.mtu != path.mtu {
                let change = Message::new(libc::RTM_SETLINK, &LinkChange::of(device.link.0).mtu(path.mtu));
                device::change_link(&mut self.netlink, &device.name, Request::change(change))?;
                device.mtu = path.mtu;
            }
            return Ok(device);
        }
        let name = format!("{DEVICE_PREFIX}{interface_id:x}");
        // One of an earlier daemon goes on, unless the uplink has another index now.
        let leads_there = |link: &Link| link.kind == KIND && link.parent == uplink.map_or(0, |uplink| uplink.0);
        let found = device::find(&mut self.netlink, &name)?;
        if !found.as_ref().is_some_and(leads_there) {
            if found.is_some() {
                device::remove(&name)?;
            }
            let change = xfrm_device(&name, interface_id, uplink);
            let request = Request::add(Message::new(libc::RTM_NEWLINK, &change));
            device::change_link(&mut self.netlink, &name, request)?;
        }
        let link = device::set_up(&mut self.netlink, &name, path.mtu)?;
        new.push((link, name.clone()));
        Ok(Device { name, interface_id, link, mtu: path.mtu, uplink })
    }

    /// Installs the associations of a path. A pair is added once: its sequence numbers never begin again.
    fn put_pair(
        &mut self,
        id: (TunnelId, Bid),
        device: Device,
        path: &TunnelPath,
        pair: &EspPair,
    ) -> Result<(), Error> {
        let spis = (pair.inbound, pair.outbound);
        if let Some(known) = self.paths.get_mut(&id) {
            known.device = device;
            if let Some(found) = known.pairs.want(spis, path.remote) {
                let before = *found;
                if (before.local, before.remote) != (path.local, path.remote) {
                    let outbound = AssociationId { destination: before.remote, spi: spis.1 };
                    self.xfrm.move_to(outbound, path.local, path.remote)?;
                    (found.local, found.remote) = (path.local, path.remote);
                }
                return Ok(());
            }
            for sharing in known.pairs.take_sharing(spis) {
                remove_pair(&mut self.xfrm, &sharing)?;
            }
            let added = add_pair(&mut self.xfrm, known.device.interface_id, path, pair)?;
            for given_up in known.pairs.add(added) {
                remove_pair(&mut self.xfrm, &given_up)?;
            }
        } else {
            let added = add_pair(&mut self.xfrm, device.interface_id, path, pair)?;
            let pairs = Pairs::new(added, pair.initiates);
            self.paths.insert(id, Path { device, pairs, outbound: None });
        }
        self.next_check = Some(Time::ZERO);
        Ok(())
    }

    /// Has packets of a path leave by the pair that carries.
    fn put_policies(&mut self, id: (TunnelId, Bid)) -> Result<(), Error> {
        let Some(path) = self.paths.get_mut(&id) else { return Ok(()) };
        let Pair { local, remote, spis: (_, spi), .. } = path.pairs.carrier();
        let outbound = Outbound { local, remote, spi };
        if path.outbound != Some(outbound) {
            self.xfrm.put_policies(path.device.interface_id, outbound)?;
            path.outbound = Some(outbound);
        }
        Ok(())
    }

    /// When to look for packets of new pairs, and for the end of former ones; `None` if there are neither.
    pub(crate) fn next_check(&self) -> Option<Time> {
        self.next_check
    }

    /// Looks for packets of new pairs: packets leave by those from now on, and former ones end. Returns the tunnels whose paths
    /// have got keys that the other end is known to have, and what to tell the operator.
    pub(crate) fn check(&mut self, now: Time) -> (Vec<TunnelId>, Vec<String>) {
        let (mut confirmed, mut notices, mut looks) = (Vec::new(), Vec::new(), 0_u32);
        let ids: Vec<(TunnelId, Bid)> = self.paths.keys().copied().collect();
        for id in ids {
            let Some(path) = self.paths.get_mut(&id).filter(|path| path.pairs.deadline(now).is_some()) else {
                continue;
            };
            looks = looks.saturating_add(1);
            let had_session = path.pairs.has_session();
            let is_active = path.pairs.is_waiting() && count_received(&mut self.xfrm, &mut path.pairs);
            let over = path.pairs.advance(now, is_active);
            if path.pairs.has_session() != had_session {
                confirmed.push(id.0);
            }
            let ended: Result<(), Error> = over.iter().try_for_each(|pair| remove_pair(&mut self.xfrm, pair));
            let done = ended.and(self.put_policies(id));
            notices.extend(done.err().map(|error| error.to_string()));
        }
        self.end_leftover(now);
        let deadlines = self.paths.values().filter_map(|path| path.pairs.deadline(now));
        let next = deadlines.chain(self.leftover.iter().filter_map(|(_, ends)| *ends)).min();
        self.next_check = next.map(|at| at.max(now + PAUSE_PER_PATH * looks));
        (confirmed, notices)
    }

    fn end_leftover(&mut self, now: Time) {
        for (_, ends) in &mut self.leftover {
            *ends = ends.or(Some(now + RETIREMENT));
        }
        let xfrm = &mut self.xfrm;
        self.leftover.retain(|(id, ends)| ends.is_none_or(|ends| ends > now) || xfrm.remove(*id).is_err());
    }

    /// Packets that the devices could not send, for want of an association. The kernel counts each as an error and as a drop.
    pub(crate) fn unsent(&mut self) -> u64 {
        let links = device::all(&mut self.netlink).unwrap_or_default();
        links.iter().filter(|link| is_ours(link)).map(|link| link.unsent / 2).sum()
    }

    /// The paths whose devices are gone, with their names.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn find_lost(&mut self) -> Result<Vec<(TunnelId, LinkId, String)>, Error> {
        if self.paths.is_empty() {
            return Ok(Vec::new());
        }
        let present: VecSet<LinkId> = device::all(&mut self.netlink)?.iter().map(|link| LinkId(link.index)).collect();
        let gone = self.paths.iter().filter(|(_, path)| !present.contains(&path.device.link));
        Ok(gone.map(|((id, _), path)| (*id, path.device.link, path.device.name.clone())).collect())
    }

    /// Has the next `put` make lost devices again. Associations are not of the device: they go on.
    pub(crate) fn forget(&mut self, lost: &[(TunnelId, LinkId, String)]) {
        for path in self.paths.values_mut() {
            if lost.iter().any(|(_, link, _)| *link == path.device.link) {
                // No uplink has this index.
                (path.device.uplink, path.outbound) = (Some(LinkId(u32::MAX)), None);
            }
        }
    }

    /// Removes the paths that a tunnel has no more. A mobile router keeps its few ones until they get another pair, or the tunnel
    /// ends: an uplink that returns goes on with the sequence numbers that it had.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn release(&mut self, id: TunnelId, now: Option<&Tunnel>) -> Result<(), Error> {
        let kept: VecSet<Bid> = now.into_iter().flat_map(first_paths).map(|(path, _)| path.bid).collect();
        let all = self.paths.range((id, Bid(0))..=(id, Bid(u16::MAX)));
        let is_gone = |path: &Path, bid| !kept.contains(bid) && (now.is_none() || !path.pairs.is_mobile_router());
        let gone: Vec<Bid> = all.filter(|((_, bid), path)| is_gone(path, bid)).map(|((_, bid), _)| *bid).collect();
        for bid in gone {
            let Some(path) = self.paths.remove(&(id, bid)) else { continue };
            device::remove(&path.device.name)?;
            self.xfrm.remove_policies(path.device.interface_id)?;
            path.pairs.all().iter().try_for_each(|pair| remove_pair(&mut self.xfrm, pair))?;
        }
        Ok(())
    }

    /// Removes what an earlier daemon has left and this one has not put again. Associations of paths that were put receive for a
    /// while: the other end may send by them still.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn remove_stale(&mut self) -> Result<(), Error> {
        let known: VecSet<u32> = self.paths.values().map(|path| path.device.interface_id).collect();
        remove_all(&mut self.xfrm, &mut self.netlink, |interface_id| known.contains(&interface_id))?;
        let pairs = self.paths.values().flat_map(|path| path.pairs.all());
        let own: VecSet<AssociationId> = pairs.flat_map(ids).collect();
        let all = self.xfrm.all()?.into_iter().map(|found| found.id);
        self.leftover = all.filter(|id| !own.contains(id)).map(|id| (id, None)).collect();
        if !self.leftover.is_empty() {
            self.next_check = Some(Time::ZERO);
        }
        Ok(())
    }
}

/// Removes the devices, policies and associations that are not to be kept, by their interface identifiers.
///
/// # Errors
/// The kernel's.
fn remove_all(xfrm: &mut Xfrm, netlink: &mut Netlink, keep: impl Fn(u32) -> bool) -> Result<(), Error> {
    for link in device::all(netlink)?.into_iter().filter(is_ours) {
        if !interface_id_of(&link.name).is_some_and(&keep) {
            device::remove(&link.name)?;
        }
    }
    for interface_id in xfrm.with_policies()?.into_iter().filter(|id| !keep(*id)) {
        xfrm.remove_policies(interface_id)?;
    }
    for found in xfrm.all()?.into_iter().filter(|found| !keep(found.interface_id)) {
        xfrm.remove(found.id)?;
    }
    Ok(())
}

/// Removes everything that a daemon has left.
///
/// # Errors
/// The kernel's.
pub(crate) fn remove_everything() -> Result<(), Error> {
    // A kernel without IPsec has nothing of it.
    let Ok(mut xfrm) = Xfrm::open() else { return Ok(()) };
    remove_all(&mut xfrm, &mut Netlink::open()?, |_| false)
}

/// A new device.
pub(super) fn xfrm_device(name: &str, interface_id: u32, uplink: Option<LinkId>) -> LinkChange {
    let uplink = uplink.map(|uplink| attribute(IFLA_XFRM_LINK, &uplink.0.to_ne_bytes())).unwrap_or_default();
    let parameters = [uplink, attribute(IFLA_XFRM_IF_ID, &interface_id.to_ne_bytes())].concat();
    LinkChange::named(name).kind(KIND, &parameters)
}

/// Whether it is the device of a path.
pub(super) fn is_ours(link: &Link) -> bool {
    link.kind == KIND && interface_id_of(&link.name).is_some()
}

/// The interface identifier of a device.
fn interface_id_of(name: &str) -> Option<u32> {
    u32::from_str_radix(name.strip_prefix(DEVICE_PREFIX)?, 16).ok()
}

/// The interface identifier of a path; its last digit in hexadecimal form is the BID.
fn interface_id((tunnel, bid): (TunnelId, Bid)) -> u32 {
    let bid = u32::from(bid.0) % BIDS;
    if tunnel.0 < FIRST_OF_HOME_AGENTS {
        return tunnel.0 * BIDS + bid;
    }
    let spread = tunnel.0.wrapping_mul(0x9e37_79b9) >> 13;
    HOME_AGENT | (spread * BIDS) | bid
}

/// The two associations of a pair.
fn ids(pair: &Pair) -> [AssociationId; 2] {
    let (inbound, outbound) = pair.spis;
    [
        AssociationId { destination: pair.inbound_at, spi: inbound },
        AssociationId { destination: pair.remote, spi: outbound },
    ]
}

/// Adds a pair to the kernel, or finds one of an earlier daemon there. That of a journal has no keys: without the kernel's associations
/// its path sends nothing until the next update has agreed on new keys.
fn add_pair(xfrm: &mut Xfrm, interface_id: u32, path: &TunnelPath, pair: &EspPair) -> Result<Pair, Error> {
    let spis: Spis = (pair.inbound, pair.outbound);
    let mut wanted = Pair::new(spis, path.local, path.remote, 0);
    let ends: [(AssociationId, Ipv6Addr, Option<AssociationKey>); 2] = {
        let [inbound, outbound] = ids(&wanted);
        let keys = pair.keys;
        [(inbound, path.remote, keys.map(|keys| keys.inbound)), (outbound, path.local, keys.map(|keys| keys.outbound))]
    };
    let mut added = None;
    for (id, source, key) in ends {
        let Some(key) = key else { continue };
        if let Err(error) = add_association(xfrm, (id, source), interface_id, &key) {
            added.map_or(Ok(()), |id| xfrm.remove(id))?;
            return Err(error);
        }
        added = Some(id);
    }
    if pair.keys.is_none() {
        let [(inbound, ..), _] = ends;
        let found = xfrm.find(inbound)?.filter(|found| found.interface_id == interface_id);
        wanted.received = found.map_or(0, |found| found.packets);
        wanted.is_used = wanted.received > 0;
    }
    Ok(wanted)
}

/// Adds an association, in place of one of this path that an earlier daemon has left.
fn add_association(
    xfrm: &mut Xfrm,
    (id, source): (AssociationId, Ipv6Addr),
    interface_id: u32,
    key: &AssociationKey,
) -> Result<(), Error> {
    if xfrm.add(id, source, interface_id, key)? {
        return Ok(());
    }
    if xfrm.find(id)?.is_some_and(|found| found.interface_id == interface_id) {
        xfrm.remove(id)?;
        if xfrm.add(id, source, interface_id, key)? {
            return Ok(());
        }
    }
    Err(Error::new("security association", format!("SPI {:08x} is taken", id.spi)))
}

fn remove_pair(xfrm: &mut Xfrm, pair: &Pair) -> Result<(), Error> {
    ids(pair).into_iter().try_for_each(|id| xfrm.remove(id))
}

/// Counts what has come by the pairs of a path. Returns whether it is more than before.
fn count_received(xfrm: &mut Xfrm, pairs: &mut Pairs) -> bool {
    let mut is_active = false;
    for pair in pairs.all_mut() {
        let [inbound, _] = ids(pair);
        let Ok(Some(found)) = xfrm.find(inbound) else { continue };
        is_active |= found.packets > pair.received;
        pair.received = found.packets;
        pair.is_used |= found.packets > 0;
    }
    is_active
}

/// The paths of a tunnel that are encrypted by ESP, one for each BID: the first, since former care-of addresses follow those in use.
fn first_paths(tunnel: &Tunnel) -> impl Iterator<Item = (&TunnelPath, &EspPair)> {
    let mut seen = VecSet::new();
    let encrypted = tunnel.paths.iter().filter_map(|path| Some((path, path.encap.esp()?)));
    encrypted.filter(move |(path, _)| seen.insert(path.bid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_identifiers_are_of_path_and_bid_and_fit_a_name() {
        let of = |tunnel, bid| interface_id((TunnelId(tunnel), Bid(bid)));
        assert_eq!((of(1, 0), of(1, 15)), (0x10, 0x1f));
        for tunnel in [1 << 31, 0x8fff_0001, u32::MAX] {
            let id = of(tunnel, 7);
            let name = format!("{DEVICE_PREFIX}{id:x}");
            assert!(id & 0xf == 7 && name.len() <= 15 && id & HOME_AGENT != 0, "{name}");
            assert_eq!(interface_id_of(&name), Some(id));
        }
        assert_ne!(of(1 << 31, 1), of(1 << 31 | 1, 1));
        assert_eq!(interface_id_of("roam6-wg1"), None);
    }

    #[test]
    fn device_is_bound_to_its_uplink() {
        let octets = xfrm_device("roam6-esp11", 0x11, Some(LinkId(7))).octets();
        let link = |id: u32| attribute(IFLA_XFRM_LINK, &id.to_ne_bytes());
        assert!(octets.windows(8).any(|window| window == link(7)));
        let free = xfrm_device("roam6-esp11", 0x11, None).octets();
        assert!(free.len() + 8 == octets.len());
    }
}
