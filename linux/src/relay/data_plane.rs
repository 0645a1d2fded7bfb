//! The maps of the tunnel programs that the relay shares with the daemon, and the program that finds its socket.

use crate::bpf::entries::Entries;
use crate::bpf::layout::layout;
use crate::bpf::load::{load_with_retry, program_named};
use crate::error::{Context, Error};
use crate::tunnel::bpf::abi::{
    self, LengthsValue, PrefixEntryValue, PrefixKey, RULES, Settings, SettingsValue, Side, TunnelValue, decode_lengths,
    decode_prefix_entry, decode_tunnel, encode_rules,
};
use crate::tunnel::bpf::pin::maps_directory;
use aya::maps::{Array, Map, MapData, RingBuf, SockMap};
use aya::programs::SkLookup;
use aya::{Ebpf, EbpfLoader};
use roam6_proto::contract::item::TunnelFlow;
use roam6_proto::relay::{Tuple, TupleState};
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/relay.bpf.o"));

type RelayKey = [u8; 40];
type BondValue = [u8; 8 + RULES * 84];

/// The maps, and the program.
pub(super) struct DataPlane {
    relayed: Entries<RelayKey, u32>,
    bonds: Entries<PrefixKey, BondValue>,
    syns: RingBuf<MapData>,
    settings: Array<MapData, SettingsValue>,
    lengths: Array<MapData, LengthsValue>,
    prefixes: Entries<PrefixKey, PrefixEntryValue>,
    tunnels: Entries<u32, TunnelValue>,
    _program: Ebpf,
}

impl AsFd for DataPlane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.syns.as_fd()
    }
}

impl DataPlane {
    /// Opens the maps of the daemon, and has new connections found by `listener`.
    ///
    /// # Errors
    /// The kernel's; or the daemon has no maps.
    pub(super) fn open(run_dir: &Path, listener: &OwnedFd) -> Result<DataPlane, Error> {
        let folder = maps_directory(run_dir);
        let pinned = |name: &str| {
            let data = MapData::from_pin(folder.join(name)).context(format_args!("map {name} of the daemon"))?;
            Map::from_map_data(data).context(format_args!("map {name}"))
        };
        let program = attach(&folder, listener)?;
        let mut plane = DataPlane {
            relayed: Entries::new("relayed", pinned("relayed")?)?,
            bonds: Entries::new("bonds", pinned("bonds")?)?,
            syns: RingBuf::try_from(pinned("syns")?).context("map syns")?,
            settings: Array::try_from(pinned("settings")?).context("map settings")?,
            lengths: Array::try_from(pinned("lengths")?).context("map lengths")?,
            prefixes: Entries::new("prefixes", pinned("prefixes")?)?,
            tunnels: Entries::new("tunnels", pinned("tunnels")?)?,
            _program: program,
        };
        plane.clear()?;
        Ok(plane)
    }

    /// Forgets all connections and rules, also those of an earlier process.
    pub(super) fn clear(&mut self) -> Result<(), Error> {
        self.bonds.retain(|_| false)?;
        self.relayed.retain(|_| false)
    }

    pub(super) fn put(&mut self, tuple: &Tuple, state: TupleState) -> Result<(), Error> {
        let state = match state {
            TupleState::Active => 1,
            TupleState::Closed => 2,
            TupleState::LeftAlone => 3,
        };
        self.relayed.put(&key_of(tuple), &state)
    }

    pub(super) fn forget(&mut self, tuple: &Tuple) -> Result<(), Error> {
        self.relayed.drop(&key_of(tuple))
    }

    /// Holds the SYNs that these rules select, from (near) or to (far) these prefixes; a rule of a BID selects none.
    pub(super) fn put_rules(&mut self, side: Side, prefixes: &[Prefix], rules: &[TunnelFlow]) -> Result<(), Error> {
        let rules = rules.get(..RULES).unwrap_or(rules);
        let value: BondValue = layout(|out| {
            out.extend((rules.len() as u32).to_ne_bytes());
            out.extend([0; 4]);
            out.extend(encode_rules(rules));
        });
        prefixes.iter().try_for_each(|prefix| self.bonds.put(&abi::prefix_key(side, *prefix), &value))
    }

    /// Holds none any more.
    pub(super) fn drop_rules(&mut self, side: Side, prefixes: &[Prefix]) -> Result<(), Error> {
        prefixes.iter().try_for_each(|prefix| self.bonds.drop(&abi::prefix_key(side, *prefix)))
    }

    /// The next SYN that is held.
    pub(super) fn next_syn(&mut self) -> Option<Vec<u8>> {
        let record = self.syns.next()?;
        let (head, octets) = record.split_first_chunk::<8>()?;
        let [.., a, b, c, d] = *head;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        octets.get(..length).map(<[u8]>::to_vec)
    }

    /// The remote addresses of the paths of the tunnel that leads to an address.
    pub(super) fn path_addresses(&self, address: Ipv6Addr) -> Vec<Ipv6Addr> {
        let value = self.tunnel_of(address).and_then(|id| self.tunnels.find(&id));
        let paths = value.and_then(|value| decode_tunnel(&value)).map(|tunnel| tunnel.paths).unwrap_or_default();
        let plain = |end: Ipv6Addr| Ipv4Endpoint::from_ipv6(end).map_or(end, |end| end.address.to_ipv6_mapped());
        paths.iter().map(|path| plain(path.remote)).collect()
    }

    /// The tunnel that leads to an address.
    pub(super) fn tunnel_of(&self, address: Ipv6Addr) -> Option<u32> {
        let settings = Settings::decode(&self.settings.get(&0, 0).ok()?);
        let which = Side::ALL.len() as u32 * settings.length_set + Side::Far as u32;
        let lengths = decode_lengths(&self.lengths.get(&which, 0).ok()?);
        lengths.iter().find_map(|length| {
            let prefix = Prefix::new(address, length.bits)?;
            self.prefixes.find(&abi::prefix_key(Side::Far, prefix)).map(|entry| decode_prefix_entry(&entry).0)
        })
    }
}

/// Attaches the program to this network namespace; it ends with the process.
fn attach(folder: &Path, listener: &OwnedFd) -> Result<Ebpf, Error> {
    let what = "BPF program of the relay";
    let mut ebpf = EbpfLoader::new().btf(None).default_map_pin_directory(folder).load(OBJECT).context(what)?;
    let mut sockets =
        SockMap::try_from(ebpf.take_map("listener").ok_or_else(|| Error::new(what, "no map"))?).context(what)?;
    sockets.set(0, listener, 0).context(what)?;
    let program: &mut SkLookup = program_named(&mut ebpf, "relay_listener")?;
    load_with_retry(|| program.load()).context(what)?;
    let namespace = std::fs::File::open("/proc/self/ns/net").context(what)?;
    program.attach(namespace).context(what)?;
    Ok(ebpf)
}

fn key_of(tuple: &Tuple) -> RelayKey {
    layout(|out| {
        out.extend(tuple.source.octets());
        out.extend(tuple.destination.octets());
        out.extend(tuple.source_port.to_ne_bytes());
        out.extend(tuple.destination_port.to_ne_bytes());
    })
}
