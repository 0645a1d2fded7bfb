//! The maps of the tunnel programs, typed.

use super::abi::sequence::SequenceValue;
use super::abi::{
    COUNTERS, EndpointKey, LengthsValue, PrefixLength, RulesKey, RulesValue, Settings, SettingsValue, Side,
    TunnelValue, XdpInterfaceValue, decode_lengths, decode_xdp_interface, encode_lengths, xdp_interface_index,
};
use super::prefix_table::PrefixTable;
use crate::bpf::entries::Entries;
use crate::{Error, error::Context};
use aya::Ebpf;
use aya::maps::{Array, MapData, PerCpuArray};
use roam6_proto::LinkId;
use roam6_proto::base::vec_map::VecMap;

/// All maps.
pub(crate) struct Maps {
    /// Prefix entries, by prefix.
    pub(crate) prefixes: PrefixTable,
    /// Tunnels without their flow rules, by number.
    pub(crate) tunnels: Entries<u32, TunnelValue>,
    /// Flow rules, by tunnel and version.
    pub(crate) rules: Entries<RulesKey, RulesValue>,
    /// Sequence numbers of tunnels with replicated flows, by tunnel.
    pub(crate) sequences: Entries<u32, SequenceValue>,
    /// Local endpoints, with their indices.
    pub(crate) endpoints: Entries<EndpointKey, u32>,
    /// Local addresses of mobility signalling over IPv4.
    pub(crate) signalling: Entries<EndpointKey, u8>,
    /// Local endpoints, by index.
    local_endpoints: Array<MapData, EndpointKey>,
    settings: Array<MapData, SettingsValue>,
    lengths: Array<MapData, LengthsValue>,
    xdp_interfaces: Array<MapData, XdpInterfaceValue>,
    counters: PerCpuArray<MapData, u64>,
}

impl Maps {
    /// Takes the maps out of a loaded object.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Maps, Error> {
        let mut take = |name| ebpf.take_map(name).ok_or_else(|| Error::new(name, "no such map in the BPF object"));
        Ok(Maps {
            prefixes: PrefixTable::new(Entries::new("prefixes", take("prefixes")?)?, take("slots")?)?,
            tunnels: Entries::new("tunnels", take("tunnels")?)?,
            rules: Entries::new("rules", take("rules")?)?,
            sequences: Entries::new("sequences", take("sequences")?)?,
            endpoints: Entries::new("ends", take("ends")?)?,
            signalling: Entries::new("signalling", take("signalling")?)?,
            local_endpoints: Array::try_from(take("locals")?).context("map locals")?,
            settings: Array::try_from(take("settings")?).context("map settings")?,
            lengths: Array::try_from(take("lengths")?).context("map lengths")?,
            xdp_interfaces: Array::try_from(take("fronts")?).context("map fronts")?,
            counters: PerCpuArray::try_from(take("counters")?).context("map counters")?,
        })
    }

    /// The settings that apply to all packets.
    ///
    /// # Errors
    /// The kernel's, as for all maps.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        self.settings.get(&0, 0).map(|value| Settings::decode(&value)).context("map settings")
    }

    /// Sets them, from the next packet on.
    pub(crate) fn set_settings(&mut self, settings: Settings) -> Result<(), Error> {
        self.settings.set(0, settings.encode(), 0).context("map settings")
    }

    /// The prefix lengths in use on one side, in one of the two sets of tables.
    pub(crate) fn lengths(&self, which: u32, side: Side) -> Result<Vec<PrefixLength>, Error> {
        let value = self.lengths.get(&lengths_index(which, side), 0);
        value.map(|value| decode_lengths(&value)).context("map lengths")
    }

    /// Writes a table of the set that is not in use.
    pub(crate) fn set_lengths(&mut self, which: u32, side: Side, longest_first: &[PrefixLength]) -> Result<(), Error> {
        self.lengths.set(lengths_index(which, side), encode_lengths(longest_first), 0).context("map lengths")
    }

    /// Sets a local endpoint.
    pub(crate) fn set_local_endpoint(&mut self, place: u8, end: &EndpointKey) -> Result<(), Error> {
        self.local_endpoints.set(place.into(), end, 0).context("map locals")
    }

    /// Enables the XDP program for an interface, unless another has its index.
    ///
    /// # Errors
    /// Another interface has the same index.
    pub(crate) fn set_xdp_interface(&mut self, link: LinkId, entry: &XdpInterfaceValue) -> Result<(), Error> {
        let holder = self.xdp_interface_at(link)?;
        if holder != link && holder != LinkId(0) {
            let why = format_args!("interface indices {} and {} share an entry", link.0, holder.0);
            return Err(Error::new("map fronts", why));
        }
        self.xdp_interfaces.set(xdp_interface_index(link), entry, 0).context("map fronts")
    }

    /// Disables the XDP program for an interface.
    pub(crate) fn clear_xdp_interface(&mut self, link: LinkId) -> Result<(), Error> {
        if self.xdp_interface_at(link)? == link {
            self.xdp_interfaces
                .set(xdp_interface_index(link), XdpInterfaceValue::default(), 0)
                .context("map fronts")?;
        }
        Ok(())
    }

    fn xdp_interface_at(&self, link: LinkId) -> Result<LinkId, Error> {
        self.xdp_interfaces
            .get(&xdp_interface_index(link), 0)
            .map(|value| decode_xdp_interface(&value))
            .context("map fronts")
    }

    /// The packet counters, summed over all processors.
    pub(crate) fn counters(&self) -> VecMap<String, u64> {
        let sum = |index: usize| {
            let values = self.counters.get(&u32::try_from(index).ok()?, 0).ok()?;
            Some(values.iter().sum())
        };
        let named = |(index, name): (usize, &&str)| Some(((*name).to_owned(), sum(index)?));
        COUNTERS.iter().enumerate().filter_map(named).collect()
    }
}

/// The index of the table of a side.
fn lengths_index(which: u32, side: Side) -> u32 {
    Side::ALL.len() as u32 * which + side as u32
}
