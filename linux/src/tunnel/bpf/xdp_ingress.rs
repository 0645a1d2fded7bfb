//! The XDP program, which runs in the driver before the kernel allocates socket buffers (native XDP). It shares the
//! maps of the TC programs, which get all packets that it passes.

use super::attach::Interface;
use super::pin::Pins;
use crate::bpf::load;
use crate::error::{Context, Error};
use crate::netlink::attribute::{attribute, find};
use crate::netlink::generic::Family;
use aya::programs::Xdp;
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::xdp::{XdpLink, XdpMode};
use aya::{Ebpf, EbpfLoader};
use netlink_packet_core::NLM_F_ACK;
use roam6_proto::LinkId;
use std::fs;
use std::path::PathBuf;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/xdp.bpf.o"));
const NAME: &str = "front";

/// The kernel's netdev family, since Linux 6.3 (linux/netdev.h).
const NETDEV: &[u8] = b"netdev\0";
const DEV_GET: u8 = 1;
const DEV_IFINDEX: u16 = 1;
const DEV_XDP_FEATURES: u16 = 3;
/// The device transmits frames redirected from another.
const NDO_XMIT: u64 = 4;

/// The loaded program.
pub(crate) struct XdpIngress {
    ebpf: Ebpf,
    pins: Pins,
}

impl XdpIngress {
    /// Loads the program with the maps that are pinned already.
    ///
    /// # Errors
    /// The kernel's, if it refuses the object.
    pub(crate) fn load(pins: Pins) -> Result<XdpIngress, Error> {
        let ebpf = EbpfLoader::new()
            .btf(None)
            .default_map_pin_directory(pins.maps())
            .load(OBJECT)
            .context("load the XDP object")?;
        let mut ingress = XdpIngress { ebpf, pins };
        let program = ingress.program()?;
        load::load_with_retry(|| program.load()).context("load the XDP program")?;
        crate::sys::trim_heap();
        Ok(ingress)
    }

    /// Attaches the program to an interface, in place of what an earlier daemon attached.
    ///
    /// # Errors
    /// The driver supports no XDP programs.
    pub(crate) fn attach(&mut self, interface: Interface<'_>) -> Result<(), Error> {
        let pin = pin(&self.pins, interface.link);
        let program = self.program()?;
        if let Ok(old) = PinnedLink::from_pin(&pin) {
            let kept = XdpLink::try_from(FdLink::from(old)).ok();
            if let Some(id) = kept.and_then(|link| program.attach_to_link(link).ok()) {
                return program.take_link(id).map(drop).context(UNAVAILABLE);
            }
            let _ = fs::remove_file(&pin);
        }
        let id = program.attach(interface.name, XdpMode::Driver).context(UNAVAILABLE)?;
        let link = program.take_link(id).context(UNAVAILABLE)?;
        FdLink::try_from(link).context(UNAVAILABLE)?.pin(&pin).map(drop).context(UNAVAILABLE)
    }

    /// The program, loaded when it is first needed; also for test runs.
    ///
    /// # Errors
    /// The kernel's, with the verifier's message.
    pub(crate) fn program(&mut self) -> Result<&mut Xdp, Error> {
        load::program_named(&mut self.ebpf, NAME)
    }
}

/// Detaches the program from an interface, which may have been removed, whichever daemon has attached it.
pub(crate) fn detach(pins: &Pins, link: LinkId) {
    let _ = fs::remove_file(pin(pins, link));
}

fn pin(pins: &Pins, link: LinkId) -> PathBuf {
    pins.links().join(format!("{}-front", link.0))
}

const UNAVAILABLE: &str = "the driver supports no XDP program (accel = \"xdp\"); TC forwards its packets";

/// Whether frames redirected from another interface can be sent by this one. A kernel that does not say so is taken to
/// do it.
///
/// # Errors
/// The kernel's, if the interface was removed.
pub(crate) fn can_transmit(link: LinkId) -> Result<bool, Error> {
    let Some((mut netdev, _)) = Family::open(NETDEV)? else { return Ok(true) };
    let request = attribute(DEV_IFINDEX, &link.0.to_ne_bytes());
    let replies =
        netdev.request(DEV_GET, NLM_F_ACK, &request).map_err(|(_, why)| Error::new("features of XDP", why))?;
    let features = replies.iter().find_map(|reply| find(reply, DEV_XDP_FEATURES)?.first_chunk());
    Ok(features.is_none_or(|features| u64::from_ne_bytes(*features) & NDO_XMIT != 0))
}
