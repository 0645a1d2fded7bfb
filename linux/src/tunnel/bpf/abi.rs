//! Keys and values of the maps that the daemon and the BPF programs share: the layouts of `bpf/abi.h`, field by field.

pub(crate) mod prefix_slot;
pub(crate) mod sequence;

use crate::bpf::layout::{Reader, layout};
use crate::nft::Hooks;
use roam6_proto::LinkId;
use roam6_proto::contract::item::{Encap, Tunnel, TunnelFlow, TunnelId, TunnelPath};
use roam6_wire::{Bid, Ipv4Endpoint, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// The version of the layouts below. Maps of another version are never read: they are pinned in a directory of another
/// name.
pub(crate) const LAYOUT: u32 = 19;
/// Paths of one tunnel.
pub(crate) const PATHS: usize = 8;
/// Flow rules of one tunnel.
pub(crate) const RULES: usize = 16;
/// Different prefix lengths in use on one side.
pub(crate) const LENGTHS: usize = roam6_proto::contract::item::MAX_PREFIX_LENGTHS;
/// Entries of the next hop cache and of the flow cache of each processor; a power of two.
pub(crate) const HOPS: u32 = 1024;
/// The counters of the programs, in the order of `enum counter`.
pub(crate) const COUNTERS: [&str; 28] = [
    "encapsulated",
    "encapsulated_slow",
    "decapsulated",
    "hairpinned",
    "dropped_source",
    "dropped_scope",
    "dropped_ecn",
    "dropped_form",
    "dropped_no_tunnel",
    "dropped_no_path",
    "dropped_no_route",
    "dropped_too_big",
    "dropped_room",
    "handed_over",
    "fragmented",
    "carried",
    "encapsulated_xdp",
    "decapsulated_xdp",
    "hairpinned_xdp",
    "segmented",
    "dropped_nested",
    "replicated",
    "unreplicated",
    "eliminated",
    "dropped_rogue",
    "recovery_resets",
    "relayed",
    "held_syn",
];

/// Local tunnel endpoints that a prefix entry can refer to.
pub(crate) const LOCAL_ENDPOINTS: u32 = 256;
/// In the index of an endpoint over IPv4: packets to it with an outer IPv6 header arrive by the tunnel device only.
pub(crate) const OVER_IP4: u32 = 1 << 16;

/// Paths whose traffic is counted, from 1 on.
pub(crate) const PATH_STATS: u16 = 256;
/// Interfaces with the XDP program.
const XDP_INTERFACES: u32 = 256;
const INLINE_PREFIXES: usize = 6;
const PATHS_AT: usize = 24;
/// Octets of a path and of its resolved route.
const PATH_SLOT_SIZE: usize = PATH_SIZE + 32;
const PATH_SIZE: usize = 56;
const PATH_KIND_AT: usize = 44;
const INLINE_PREFIXES_AT: usize = PATHS_AT + PATHS * PATH_SLOT_SIZE;
const INLINE_PREFIX_SIZE: usize = 32;
const PREFIX_LENGTH_SIZE: usize = 52;
const NO_LENGTH: u32 = 255;
const ANY: u16 = 0xffff;
// How packets leave by a path: with an outer IPv6 header, as they are, with an outer IPv4 header, in UDP over IPv4 or over
// IPv6, into a device that encrypts them.
const PATH_ENCAPSULATED: u8 = 0;
const PATH_DIRECT: u8 = 1;
const PATH_IP4: u8 = 2;
const PATH_UDP4: u8 = 3;
const PATH_UDP6: u8 = 4;
const PATH_ENCRYPTED: u8 = 5;
/// Distinguishes a DSCP of 0 from none.
const HAS_DSCP: u8 = 1;
const ALL_ADDRESSES: u8 = 1;
const MORE_PREFIXES: u8 = 4;

pub(crate) type SettingsValue = [u8; 36];
pub(crate) type LengthsValue = [u8; LENGTHS * PREFIX_LENGTH_SIZE];
pub(crate) type PrefixKey = [u8; 20];
pub(crate) type PrefixEntryValue = [u8; 48];
pub(crate) type TunnelValue = [u8; INLINE_PREFIXES_AT + INLINE_PREFIXES * INLINE_PREFIX_SIZE];
pub(crate) type RulesKey = [u8; 8];
pub(crate) type RulesValue = [u8; RULES * 84];
pub(crate) type EndpointKey = [u8; 16];
pub(crate) type XdpInterfaceValue = [u8; 12];
pub(crate) type PathStamp = [u8; 24];
pub(crate) type PathCount = [u8; 48];

/// A side of a tunnel, as the programs number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// The remote endpoint's.
    Far = 0,
    /// The local endpoint's.
    Near = 1,
    /// No side of a tunnel: destinations that bypass all tunnels by the host's routes.
    Bypass = 2,
}

impl Side {
    /// All, in the order of their numbers.
    pub(crate) const ALL: [Side; 3] = [Side::Far, Side::Near, Side::Bypass];
    /// The two that a tunnel has.
    pub(crate) const BOTH: [Side; 2] = [Side::Far, Side::Near];

    /// The prefixes a tunnel has on this side.
    pub(crate) fn of(self, tunnel: &Tunnel) -> &[Prefix] {
        match self {
            Side::Far => &tunnel.remote_prefixes,
            Side::Near => &tunnel.local_prefixes,
            Side::Bypass => &[],
        }
    }
}

/// Distinguishes one state of a tunnel from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(pub(crate) u32);

/// The settings that apply to all packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Interface index of the tunnel device.
    pub(crate) device: u32,
    /// Cached next hops of another generation are void.
    pub(crate) generation: u32,
    /// Which of the two sets of prefix length tables is valid.
    pub(crate) length_set: u32,
    /// Cached decisions of another epoch of the tunnels are void; never 0 or the highest number.
    pub(crate) epoch: u32,
    /// Some destinations bypass the tunnels.
    pub(crate) has_bypass: bool,
    /// A cached next hop is valid for two to this power ticks of the kernel's clock.
    pub(crate) lifetime_shift: u32,
    /// Number of prefix slots, a power of two, less one.
    pub(crate) slot_mask: u32,
    /// Families whose inner packets a firewall filters.
    pub(crate) hooks: Hooks,
    /// There is a firewall that tunnelled packets are to bypass.
    pub(crate) firewall_bypassed: bool,
    /// TCP connections may be relayed.
    pub(crate) bonding: bool,
}

impl Settings {
    pub(crate) fn encode(self) -> SettingsValue {
        let families = u32::from(self.hooks.ipv6) | u32::from(self.hooks.ipv4) << 1;
        let hooks = families | u32::from(self.firewall_bypassed) << 2 | u32::from(self.bonding) << 3;
        let Settings { device, generation, length_set, epoch, lifetime_shift, slot_mask, .. } = self;
        let has_bypass = self.has_bypass.into();
        let words = [device, generation, length_set, HOPS - 1, epoch, has_bypass, lifetime_shift, slot_mask, hooks];
        layout(|out| out.extend(words.into_iter().flat_map(u32::to_ne_bytes)))
    }

    pub(crate) fn decode(value: &SettingsValue) -> Settings {
        let mut reader = Reader(value);
        let [device, generation, length_set, _hops, epoch, has_bypass, lifetime_shift, slot_mask, hooks] =
            std::array::from_fn(|_| reader.u32().unwrap_or_default());
        let (has_bypass, firewall_bypassed, bonding) = (has_bypass != 0, hooks & 4 != 0, hooks & 8 != 0);
        let hooks = Hooks { ipv6: hooks & 1 != 0, ipv4: hooks & 2 != 0 };
        Settings {
            device,
            generation,
            length_set,
            epoch,
            has_bypass,
            lifetime_shift,
            slot_mask,
            hooks,
            firewall_bypassed,
            bonding,
        }
    }
}

/// A prefix length in use, and the network that covers all prefixes of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixLength {
    pub(crate) bits: u8,
    pub(crate) cover: Prefix,
}

/// Encodes the prefix lengths in use on one side, longest first.
pub(crate) fn encode_lengths(longest_first: &[PrefixLength]) -> LengthsValue {
    layout(|out| {
        for length in longest_first {
            out.extend(mask(length.bits));
            put_prefix(out, length.cover);
            out.extend(u32::from(length.bits).to_ne_bytes());
        }
        while out.len() < LENGTHS * PREFIX_LENGTH_SIZE {
            out.extend([0; PREFIX_LENGTH_SIZE - 4]);
            out.extend(NO_LENGTH.to_ne_bytes());
        }
    })
}

/// Decodes what [`encode_lengths`] encoded.
pub(crate) fn decode_lengths(value: &LengthsValue) -> Vec<PrefixLength> {
    let read = |entry: &[u8]| {
        let mut reader = Reader(entry);
        let (_mask, cover) = (reader.address()?, take_prefix(&mut reader)?);
        let bits = u8::try_from(reader.u32()?).ok().filter(|&bits| u32::from(bits) != NO_LENGTH)?;
        Some(PrefixLength { bits, cover })
    };
    value.chunks_exact(PREFIX_LENGTH_SIZE).map_while(read).collect()
}

/// The key of a prefix.
pub(crate) fn prefix_key(side: Side, prefix: Prefix) -> PrefixKey {
    layout(|out| {
        out.extend(prefix.address().octets());
        out.extend([prefix.length(), side as u8]);
    })
}

/// The side and the prefix of a key.
pub(crate) fn decode_prefix_key(key: &PrefixKey) -> Option<(Side, Prefix)> {
    let (address, rest) = key.split_first_chunk::<16>()?;
    let (&length, &side) = (rest.first()?, rest.get(1)?);
    let side = Side::ALL.into_iter().find(|known| *known as u8 == side)?;
    Some((side, Prefix::new(Ipv6Addr::from(*address), length)?))
}

/// The key of the flow rules of a tunnel.
pub(crate) fn rules_key(id: TunnelId, version: Version) -> RulesKey {
    layout(|out| {
        out.extend(id.0.to_ne_bytes());
        out.extend(version.0.to_ne_bytes());
    })
}

/// The entry of a tunnel's prefixes; `place` is the index of the local endpoint of its only path, if it has one. The
/// entry has the inline path of a tunnel with one path, no flow rules, and all near addresses.
pub(crate) fn prefix_entry(tunnel: &Tunnel, place: Option<u8>) -> PrefixEntryValue {
    let whole = match tunnel.paths.as_slice() {
        [path] if tunnel.local_prefixes.contains(&Prefix::ALL) && tunnel.flows.is_empty() => {
            let mtu = u16::try_from(path.mtu).ok();
            let kind = path_kind(path);
            let has_room = [PATH_ENCAPSULATED, PATH_IP4, PATH_UDP4].contains(&kind);
            let plain = path.weight > 0 && has_room && path.link.is_none() && path.dscp.is_none();
            mtu.zip(place).filter(|_| plain).map(|parameters| (parameters, kind, path.remote))
        }
        _ => None,
    };
    layout(|out| {
        out.extend(tunnel.id.0.to_ne_bytes());
        out.extend(0_u32.to_ne_bytes());
        if let Some(((mtu, place), kind, remote)) = whole {
            out.extend(mtu.to_ne_bytes());
            out.extend([1 + kind, place]);
            out.extend(0_u32.to_ne_bytes());
            out.extend(remote.octets());
        }
    })
}

/// The entry of a prefix that bypasses all tunnels: its tunnel does not exist.
pub(crate) fn bypass_entry() -> PrefixEntryValue {
    layout(|out| out.extend(u32::MAX.to_ne_bytes()))
}

/// The tunnel of a prefix entry.
pub(crate) fn decode_prefix_entry(value: &PrefixEntryValue) -> TunnelId {
    TunnelId(Reader(value).u32().unwrap_or_default())
}

/// Encodes a tunnel without its flow rules; `stat` is the number of a path, under which its traffic is counted, `device` the link of
/// an encrypted one: without it nothing is sent. The caller has checked the limits.
pub(crate) fn encode_tunnel(
    tunnel: &Tunnel,
    version: Version,
    stat: impl Fn(Bid) -> u16,
    device: impl Fn(&TunnelPath) -> Option<LinkId>,
) -> TunnelValue {
    let (mut flags, mut near, mut fences) = (0, 0_u8, Vec::new());
    for side in Side::BOTH {
        let prefixes = side.of(tunnel);
        if prefixes.contains(&Prefix::ALL) {
            flags |= ALL_ADDRESSES << side as u8;
        } else if fences.len() + prefixes.len() > INLINE_PREFIXES {
            flags |= MORE_PREFIXES << side as u8;
        } else {
            for &prefix in prefixes {
                near |= (side as u8) << fences.len();
                fences.push(prefix);
            }
        }
    }
    let weight: u32 = tunnel.paths.iter().map(|path| u32::from(path.weight)).sum();
    layout(|out| {
        out.extend(tunnel.id.0.to_ne_bytes());
        out.extend(version.0.to_ne_bytes());
        out.extend([flags, tunnel.paths.len() as u8, fences.len() as u8, near]);
        out.extend((tunnel.flows.len() as u32).to_ne_bytes());
        out.extend(weight.to_ne_bytes());
        out.resize(PATHS_AT, 0);
        for path in &tunnel.paths {
            let link = if path.encap.is_encrypted() { device(path) } else { path.link };
            put_path(out, path, link, stat(path.bid));
        }
        out.resize(INLINE_PREFIXES_AT, 0);
        for &prefix in &fences {
            put_prefix(out, prefix);
        }
    })
}

/// Decodes a tunnel, as far as the value goes: without flow rules, and without the prefixes of a side that has too
/// many.
pub(crate) fn decode_tunnel(value: &TunnelValue) -> Option<Tunnel> {
    let mut head = Reader(value);
    let (id, _version) = (TunnelId(head.u32()?), head.u32()?);
    let [flags, paths, fences, near] = head.take()?;
    let prefixes = |side: Side| {
        let all = (flags & ALL_ADDRESSES << side as u8 != 0).then_some(Prefix::ALL);
        let fences = value.get(INLINE_PREFIXES_AT..)?.chunks_exact(INLINE_PREFIX_SIZE).take(fences.into()).enumerate();
        let own = fences.filter(|(at, _)| near >> at & 1 == side as u8);
        let own = own.map(|(_, fence)| take_prefix(&mut Reader(fence))).collect::<Option<Vec<_>>>()?;
        Some(all.into_iter().chain(own).collect())
    };
    let lanes = value.get(PATHS_AT..INLINE_PREFIXES_AT)?.chunks_exact(PATH_SLOT_SIZE).take(paths.into());
    let paths = lanes.map(take_path).collect::<Option<_>>()?;
    Some(Tunnel {
        id,
        local_prefixes: prefixes(Side::Near)?,
        remote_prefixes: prefixes(Side::Far)?,
        paths,
        flows: Vec::new(),
    })
}

/// Whether packets of a tunnel may leave by a path with an outer header, unencrypted.
pub(crate) fn has_plain_path(value: &TunnelValue) -> bool {
    let paths = value.get(9).copied().unwrap_or_default();
    let mut slots = value.get(PATHS_AT..INLINE_PREFIXES_AT).unwrap_or_default().chunks_exact(PATH_SLOT_SIZE);
    slots
        .by_ref()
        .take(paths.into())
        .any(|slot| slot.get(PATH_KIND_AT).is_some_and(|kind| ![PATH_DIRECT, PATH_ENCRYPTED].contains(kind)))
}

/// Encodes the flow rules of a tunnel. The caller has checked the limit.
pub(crate) fn encode_rules(flows: &[TunnelFlow]) -> RulesValue {
    layout(|out| {
        for flow in flows {
            let selector = &flow.selector;
            put_prefix(out, selector.source.unwrap_or(Prefix::ALL));
            put_prefix(out, selector.destination.unwrap_or(Prefix::ALL));
            let (source_first, source_last) = selector.source_ports.unwrap_or((0, u16::MAX));
            let (destination_first, destination_last) = selector.destination_ports.unwrap_or((0, u16::MAX));
            let [protocol, dscp] = [selector.protocol, selector.dscp].map(|value| value.map_or(ANY, u16::from));
            let [bid, replica] = [flow.bid.0, flow.replica.map_or(0, |bid| bid.0)];
            let words = [protocol, source_first, source_last, destination_first, destination_last, bid, dscp, replica];
            out.extend(words.into_iter().flat_map(u16::to_ne_bytes));
            out.extend(flow.ingress.map_or(0, |link| link.0).to_ne_bytes());
        }
    })
}

/// The index of an interface with the XDP program.
pub(crate) fn xdp_interface_index(link: LinkId) -> u32 {
    link.0 % XDP_INTERFACES
}

/// Encodes an interface with the XDP program; `sends`: frames redirected from other interfaces can be sent by it.
pub(crate) fn encode_xdp_interface(link: LinkId, address: LinkAddress, sends: bool) -> XdpInterfaceValue {
    layout(|out| {
        out.extend(link.0.to_ne_bytes());
        out.extend(address.0);
        out.push(sends.into());
    })
}

/// The interface of an entry; 0 if it is empty.
pub(crate) fn decode_xdp_interface(value: &XdpInterfaceValue) -> LinkId {
    LinkId(Reader(value).u32().unwrap_or_default())
}

/// How packets leave by a path.
fn path_kind(path: &TunnelPath) -> u8 {
    match Ipv4Endpoint::from_ipv6(path.local) {
        _ if path.direct => PATH_DIRECT,
        _ if path.encap.is_encrypted() => PATH_ENCRYPTED,
        Some(Ipv4Endpoint { port: 0, .. }) => PATH_IP4,
        Some(_) => PATH_UDP4,
        None if path.encap.is_native() => PATH_ENCAPSULATED,
        None => PATH_UDP6,
    }
}

fn put_path(out: &mut Vec<u8>, path: &TunnelPath, link: Option<LinkId>, stat: u16) {
    out.extend(path.local.octets());
    out.extend(path.remote.octets());
    out.extend(link.map_or(0, |link| link.0).to_ne_bytes());
    out.extend(path.mtu.to_ne_bytes());
    out.extend(path.bid.0.to_ne_bytes());
    out.extend(path.weight.to_ne_bytes());
    out.extend([path_kind(path), path.dscp.map_or(0, |dscp| dscp << 2 | HAS_DSCP)]);
    out.extend(stat.to_ne_bytes());
    let (local, remote) = match path.encap {
        Encap::Native | Encap::Wireguard(_) | Encap::Esp(_) => (0, 0),
        Encap::Udp { local, remote } => (local, remote),
    };
    out.extend([local.to_be_bytes(), remote.to_be_bytes()].concat());
    out.extend([0; PATH_SLOT_SIZE - PATH_SIZE + 4]);
}

fn take_path(lane: &[u8]) -> Option<TunnelPath> {
    let mut reader = Reader(lane);
    let (local, remote) = (reader.address()?, reader.address()?);
    let link = Some(reader.u32()?).filter(|&link| link != 0).map(LinkId);
    let mtu = reader.u32()?;
    let (bid, weight) = (Bid(reader.u16()?), reader.u16()?);
    let [kind, service, _, _] = reader.take()?;
    if kind == PATH_ENCRYPTED {
        // The keys of its peer are the kernel's.
        return None;
    }
    let dscp = (service != 0).then_some(service >> 2);
    let ports = [reader.take()?, reader.take()?].map(u16::from_be_bytes);
    let [local_port, remote_port] = ports;
    let encap = if kind == PATH_UDP6 { Encap::Udp { local: local_port, remote: remote_port } } else { Encap::Native };
    Some(TunnelPath { bid, local, remote, link, mtu, weight, direct: kind == PATH_DIRECT, encap, dscp })
}

/// The times of the last packet sent, the last received, and the first sent since.
pub(crate) fn decode_path_stamp(value: &PathStamp) -> [u64; 3] {
    let mut reader = Reader(value);
    std::array::from_fn(|_| reader.u64().unwrap_or_default())
}

/// Packets and octets sent, and packets and octets received.
pub(crate) fn decode_path_count(value: &PathCount) -> [u64; 4] {
    let mut reader = Reader(value);
    std::array::from_fn(|_| reader.u64().unwrap_or_default())
}

fn take_prefix(reader: &mut Reader<'_>) -> Option<Prefix> {
    let (address, mask) = (reader.address()?, reader.address()?);
    Prefix::new(address, u8::try_from(mask.to_bits().leading_ones()).ok()?)
}

fn put_prefix(out: &mut Vec<u8>, prefix: Prefix) {
    out.extend(prefix.address().octets());
    out.extend(mask(prefix.length()));
}

fn mask(length: u8) -> [u8; 16] {
    let ones = Ipv6Addr::from_bits(u128::MAX);
    Prefix::new(ones, length).map_or([0xff; 16], |prefix| prefix.address().octets())
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::contract::config::encryption::DeviceNumber;
    use roam6_proto::contract::item::WireguardPeer;
    use roam6_proto::crypto::wireguard::{PresharedKey, PublicKey};

    #[test]
    fn prefix_lengths_round_trip() {
        let length = |bits, cover: &str| PrefixLength { bits, cover: cover.parse().unwrap() };
        let used = [length(128, "2001:db8:1::/64"), length(64, "2001:db8::/30"), length(0, "::/0")];
        assert_eq!(decode_lengths(&encode_lengths(&used)), used);
        assert!(decode_lengths(&encode_lengths(&[])).is_empty());
    }

    #[test]
    fn tunnel_value_round_trips_without_rules_and_surplus_prefixes() {
        let prefix = |number: u128| Prefix::new(Ipv6Addr::from_bits(number << 64), 64).unwrap();
        let path = |bid, link: Option<u32>| TunnelPath {
            bid: Bid(bid),
            local: "2001:db8::1".parse().unwrap(),
            remote: "2001:db8:2::2".parse().unwrap(),
            link: link.map(LinkId),
            mtu: 1460,
            weight: bid,
            direct: link.is_some(),
            encap: Encap::Native,
            dscp: None,
        };
        let mut whole = Tunnel {
            id: TunnelId(7),
            local_prefixes: vec![Prefix::ALL],
            remote_prefixes: vec![prefix(1), prefix(2)],
            paths: vec![path(1, None), path(2, Some(4))],
            flows: Vec::new(),
        };
        assert_eq!(decode_tunnel(&encode_tunnel(&whole, Version(1), |_| 7, |_| None)), Some(whole.clone()));
        let before = whole.paths[0].local;
        whole.paths[0].local = "::105f:ffff:c000:201".parse().unwrap();
        assert_eq!(decode_tunnel(&encode_tunnel(&whole, Version(1), |_| 7, |_| None)), Some(whole.clone()));
        whole.paths[0].local = before;
        whole.paths[0].encap = Encap::Udp { local: 4191, remote: 50_123 };
        whole.paths[0].dscp = Some(0);
        whole.paths[1].dscp = Some(46);
        assert_eq!(decode_tunnel(&encode_tunnel(&whole, Version(1), |_| 7, |_| None)), Some(whole.clone()));
        whole.local_prefixes = vec![prefix(3), prefix(4), prefix(5)];
        assert_eq!(decode_tunnel(&encode_tunnel(&whole, Version(1), |_| 7, |_| None)), Some(whole.clone()));
        whole.local_prefixes = (0..10).map(prefix).collect();
        assert_eq!(
            decode_tunnel(&encode_tunnel(&whole, Version(1), |_| 7, |_| None)),
            Some(Tunnel { local_prefixes: Vec::new(), ..whole })
        );
    }

    #[test]
    fn encrypted_path_without_its_device_leads_nowhere() {
        let device = DeviceNumber(17);
        let keys = (PublicKey([1; 32]), PresharedKey([2; 32]));
        let peer = WireguardPeer { device, public_key: keys.0, preshared_key: keys.1, port: 4209, initiates: true };
        let path = TunnelPath {
            bid: Bid(1),
            local: "2001:db8::1".parse().unwrap(),
            remote: "2001:db8:2::2".parse().unwrap(),
            link: Some(LinkId(2)),
            mtu: 1420,
            weight: 1,
            direct: false,
            encap: Encap::Wireguard(peer),
            dscp: None,
        };
        let all = vec![Prefix::ALL];
        let tunnel = Tunnel {
            id: TunnelId(7),
            local_prefixes: all.clone(),
            remote_prefixes: all,
            paths: vec![path],
            flows: Vec::new(),
        };
        let link = |known: Option<LinkId>| {
            let value = encode_tunnel(
                &tunnel,
                Version(1),
                |_| 7,
                |of| known.filter(|_| of.encap.wireguard().is_some_and(|peer| peer.device == device)),
            );
            u32::from_ne_bytes(value[PATHS_AT + 32..PATHS_AT + 36].try_into().unwrap())
        };
        assert_eq!(link(Some(LinkId(9))), 9);
        assert_eq!(link(None), 0, "by no means the uplink: packets would leave it in the clear");
    }

    #[test]
    fn prefix_entry_has_the_inline_path_of_plain_tunnels_only() {
        let path = TunnelPath {
            bid: Bid(0),
            local: "2001:db8::1".parse().unwrap(),
            remote: "2001:db8:2::2".parse().unwrap(),
            link: None,
            mtu: 1460,
            weight: 1,
            direct: false,
            encap: Encap::Native,
            dscp: None,
        };
        let plain = Tunnel {
            id: TunnelId(7),
            local_prefixes: vec![Prefix::ALL],
            remote_prefixes: vec!["2001:db8:f0::/48".parse().unwrap()],
            paths: vec![path.clone()],
            flows: Vec::new(),
        };
        let value = prefix_entry(&plain, Some(3));
        assert_eq!(decode_prefix_entry(&value), plain.id);
        assert_eq!((&value[8..12], &value[16..32]), (&[0xb4, 5, 1, 3][..], &path.remote.octets()[..]));
        let changed = |change: fn(&mut Tunnel)| {
            let mut tunnel = plain.clone();
            change(&mut tunnel);
            tunnel
        };
        let over_ipv4 = changed(|tunnel| tunnel.paths[0].local = "::105f:ffff:c000:201".parse().unwrap());
        assert_eq!(prefix_entry(&over_ipv4, Some(3))[10], 1 + PATH_UDP4);
        for other in [
            changed(|tunnel| tunnel.local_prefixes = vec!["2001:db8:5::/64".parse().unwrap()]),
            changed(|tunnel| tunnel.paths.push(tunnel.paths[0].clone())),
            changed(|tunnel| tunnel.paths.clear()),
            changed(|tunnel| tunnel.paths[0].weight = 0),
            changed(|tunnel| tunnel.paths[0].direct = true),
            changed(|tunnel| tunnel.paths[0].link = Some(LinkId(2))),
            changed(|tunnel| tunnel.paths[0].mtu = 1 << 16),
            changed(|tunnel| tunnel.paths[0].encap = Encap::Udp { local: 4191, remote: 4191 }),
            changed(|tunnel| tunnel.paths[0].dscp = Some(0)),
        ] {
            let value = prefix_entry(&other, Some(3));
            assert_eq!((decode_prefix_entry(&value), &value[4..]), (plain.id, &[0; 44][..]), "{other:?}");
        }
        assert_eq!(prefix_entry(&plain, None)[4..], [0; 44], "an end that has no place");
    }

    #[test]
    fn settings_and_prefix_keys_round_trip() {
        for (has_bypass, ipv6, ipv4) in [(false, false, true), (true, true, false), (true, true, true)] {
            let settings = Settings {
                device: 7,
                generation: 9,
                length_set: 1,
                epoch: 5,
                has_bypass,
                lifetime_shift: 6,
                slot_mask: 63,
                hooks: Hooks { ipv6, ipv4 },
                firewall_bypassed: !ipv6,
                bonding: ipv4,
            };
            assert_eq!(Settings::decode(&settings.encode()), settings);
        }
        let prefix: Prefix = "2001:db8:f00::/56".parse().unwrap();
        for side in Side::ALL {
            assert_eq!(decode_prefix_key(&prefix_key(side, prefix)), Some((side, prefix)));
        }
    }
}
