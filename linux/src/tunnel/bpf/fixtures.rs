//! What tests see of the back end: its programs, and the prefix table after a crash between two writes.

use super::Bpf;
use super::abi::prefix_slot::{SlotPrefix, SlotValue};
use super::abi::sequence::SequenceValue;
use super::abi::{self, PrefixEntryValue, PrefixKey, Version};
use super::attach::Program;
use super::prefix_table::PrefixTable;
use crate::bpf::entries::Entries;
use roam6_proto::LinkId;
use roam6_proto::contract::item::{Tunnel, TunnelId};

impl Bpf {
    /// A program, for test runs.
    pub(crate) fn program(&mut self, which: Program) -> &aya::programs::SchedClassifier {
        self.programs.program(which).expect("a program that loads")
    }

    /// The prefix table.
    pub(crate) fn prefix_table(&mut self) -> &mut PrefixTable {
        &mut self.maps.prefixes
    }

    /// Encrypts the paths of a tunnel that was put, by this device.
    pub(crate) fn set_encrypted(&mut self, tunnel: &Tunnel, device: LinkId) {
        let value = abi::encode_tunnel(tunnel, Version(self.last_version), |_| 0, |_| Some(device));
        self.maps.tunnels.put(&tunnel.id.0, &value).expect("a tunnel that was put");
    }

    /// The present epoch of the tunnels.
    pub(crate) fn epoch(&self) -> u32 {
        self.settings.epoch
    }

    /// The sequence numbers of a tunnel, if it has any.
    pub(crate) fn sequences(&self, id: TunnelId) -> Option<SequenceValue> {
        self.maps.sequences.find(&id.0)
    }

    /// Writes them.
    pub(crate) fn set_sequences(&mut self, id: TunnelId, value: &SequenceValue) {
        self.maps.sequences.put(&id.0, value).expect("a tunnel");
    }

    /// The XDP program, for test runs, enabled on this interface with a link-layer address of zeros.
    pub(crate) fn xdp_program_on(&mut self, link: LinkId) -> &aya::programs::Xdp {
        let value = abi::encode_xdp_interface(link, roam6_wire::LinkAddress([0; 6]), true);
        self.maps.set_xdp_interface(link, &value).expect("a free place");
        self.xdp_ingress.as_mut().expect("one that was asked for").program().expect("a program that loads")
    }
}

impl PrefixTable {
    /// The hash table alone, for tests of a crash between two writes.
    pub(crate) fn table(&mut self) -> &mut Entries<PrefixKey, PrefixEntryValue> {
        &mut self.table
    }

    /// What is in the slot of a prefix.
    pub(crate) fn slot(&self, prefix: SlotPrefix) -> SlotValue {
        self.slots.get(&prefix.index(self.slot_mask()), 0).expect("a slot")
    }

    /// Writes the slot of a prefix.
    pub(crate) fn set_slot(&mut self, prefix: SlotPrefix, slot: SlotValue) {
        self.write_slot(prefix, slot).expect("a slot");
    }
}
