//! The TC programs and their attachment to interfaces: by TCX links from Linux 6.6 on, by clsact filters before. Both
//! stay when the daemon ends; after a restart the program is replaced in one step.

use super::abi;
use super::pin::Pins;
use crate::bpf::load::classifier;
use crate::error::{Context, Error};
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};
use aya::{Ebpf, EbpfLoader};
use roam6_proto::base::ids::LinkId;
use std::fs;
use std::path::PathBuf;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tc.bpf.o"));

/// Priority and handle of the filters of roam6.
const PRIORITY: u16 = 106;
const HANDLE: TcHandle = TcHandle::new(0, 1);

/// Prefixes that bypass the tunnels, for which there is room in any case.
const MAX_BYPASSES: u32 = roam6_proto::geo::mnpp::neighbours::MAX_NETWORKS as u32;

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// On the ingress of an interface with Ethernet headers.
    Ethernet,
    /// On the ingress of an interface without link-layer headers.
    Bare,
    /// On the egress of the tunnel device: encapsulates.
    Device,
    /// On the ingress of the tunnel device, for reassembled packets: [`Program::Bare`] in another place.
    Reassembled,
    /// On the ingress of a device of encrypted paths.
    Decrypted,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Ethernet => "ethernet",
            Program::Bare | Program::Reassembled => "bare",
            Program::Device => "device",
            Program::Decrypted => "decrypted",
        }
    }

    fn direction(self) -> TcAttachType {
        if self == Program::Device { TcAttachType::Egress } else { TcAttachType::Ingress }
    }
}

/// An interface.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interface<'a> {
    /// Interface index.
    pub(crate) link: LinkId,
    /// Name.
    pub(crate) name: &'a str,
}

/// The loaded programs.
pub(crate) struct Programs {
    ebpf: Ebpf,
    pins: Pins,
}

impl Programs {
    /// Opens the maps that an earlier daemon has pinned, or creates them for so many tunnels.
    ///
    /// # Errors
    /// The kernel's, with the verifier's message.
    pub(crate) fn load(pins: Pins, tunnels: u32) -> Result<Programs, Error> {
        let ebpf = EbpfLoader::new()
            // The programs use no types of the kernel, which are megabytes.
            .btf(None)
            .default_map_pin_directory(pins.maps())
            .map_max_entries("tunnels", tunnels)
            .map_max_entries("rules", tunnels)
            .map_max_entries("sequences", tunnels)
            .map_max_entries("prefixes", tunnels.saturating_mul(4).saturating_add(MAX_BYPASSES))
            .map_max_entries("slots", abi::prefix_slot::slot_count(tunnels))
            .map_max_entries("ends", tunnels)
            .map_max_entries("hops", abi::HOPS)
            .map_max_entries("passages", abi::HOPS)
            .load(OBJECT)
            .context("load the TC object")?;
        crate::sys::trim_heap();
        Ok(Programs { ebpf, pins })
    }

    /// The object, for its maps and for test runs of programs.
    pub(crate) fn ebpf(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// Attaches a program to an interface, in place of what an earlier daemon attached.
    ///
    /// # Errors
    /// The kernel's, if it refuses the program or the interface was removed.
    pub(crate) fn attach(&mut self, which: Program, interface: Interface<'_>) -> Result<(), Error> {
        let pin = self.pin(which, interface.link);
        let program = self.program(which)?;
        let what = format_args!("attach BPF program {} to {}", which.name(), interface.name);
        if let Ok(old) = PinnedLink::from_pin(&pin) {
            let kept = SchedClassifierLink::try_from(FdLink::from(old)).ok();
            if let Some(id) = kept.and_then(|link| program.attach_to_link(link).ok()) {
                return program.take_link(id).map(drop).context(what);
            }
            // The interface it was attached to was removed.
            let _ = fs::remove_file(&pin);
        }
        let tcx = TcAttachOptions::TcxOrder(LinkOrder::default());
        let Ok(id) = program.attach_with_options(interface.name, which.direction(), tcx) else {
            return attach_filter(program, which, interface).context(what);
        };
        let link = program.take_link(id).context(what)?;
        let link = FdLink::try_from(link).context(what)?;
        link.pin(&pin).map(drop).context(what)
    }

    /// Detaches the program from an interface, which may have been removed.
    pub(crate) fn detach(&mut self, which: Program, interface: Interface<'_>) {
        let _ = fs::remove_file(self.pin(which, interface.link));
        let _ = tc::qdisc_detach_program(interface.name, which.direction(), which.name());
    }

    /// Loads a program when it is first needed.
    pub(crate) fn program(&mut self, which: Program) -> Result<&mut SchedClassifier, Error> {
        classifier(&mut self.ebpf, which.name())
    }

    fn pin(&self, which: Program, link: LinkId) -> PathBuf {
        let second = if which == Program::Reassembled { "-joined" } else { "" };
        self.pins.links().join(format!("{}{second}", link.0))
    }
}

/// Attaches by a clsact filter, which has no pin: it stays until it is removed.
fn attach_filter(program: &mut SchedClassifier, which: Program, interface: Interface<'_>) -> Result<(), ProgramError> {
    // Fails if the qdisc exists already, which is no error.
    let _ = tc::qdisc_add_clsact(interface.name);
    let options = || TcAttachOptions::Netlink(NlOptions { priority: PRIORITY, handle: HANDLE, ..NlOptions::default() });
    let id = match SchedClassifierLink::attached(interface.name, which.direction(), PRIORITY, HANDLE, None)
        .ok()
        .and_then(|old| program.attach_to_link(old).ok())
    {
        Some(id) => id,
        None => program.attach_with_options(interface.name, which.direction(), options())?,
    };
    // Dropping the link would remove the filter.
    core::mem::forget(program.take_link(id)?);
    Ok(())
}
