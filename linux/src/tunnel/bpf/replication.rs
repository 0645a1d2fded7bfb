//! The sequence numbers of tunnels with replicated flows, which the programs count. They stay as long as the tunnel: packets
//! with numbers arrive for a while after the last such flow has ended.

use super::Bpf;
use super::abi::sequence;
use crate::error::{Context as _, Error};
use roam6_proto::contract::item::Tunnel;
use std::fs::File;
use std::io::Read as _;

impl Bpf {
    /// Begins the numbers of a tunnel with its first replicated flow.
    pub(super) fn begin_sequence(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        let replicates = tunnel.flows.iter().any(|flow| flow.replica.is_some());
        if !replicates || self.maps.sequences.find(&tunnel.id.0).is_some() {
            return Ok(());
        }
        let mut first = [0; 4];
        File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut first)).context("/dev/urandom")?;
        self.maps.sequences.put(&tunnel.id.0, &sequence::initial(u32::from_ne_bytes(first)))
    }
}
