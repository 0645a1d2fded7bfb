//! ESP of the kernel (RFC 4303): devices of the kind "xfrm", and the security associations and policies of the paths that lead
//! through them. Keys are agreed by the engines with each Binding Update.

mod message;
mod pairs;
mod paths;
mod sessions;

pub(crate) use paths::{EspPaths, remove_everything};
pub use sessions::{Association, associations};

use crate::error::Error;
use crate::netlink::message::Message;
use crate::netlink::socket::{Netlink, Request};
use crate::tunnel::device;
use message::{AssociationId, Xfrm};
use roam6_proto::crypto::path_esp::{AssociationKey, KEY_LENGTH};
use std::net::Ipv6Addr;

/// The device of an encrypted path has this name, with its interface identifier behind it.
pub const DEVICE_PREFIX: &str = "roam6-esp";
/// The kind of these devices.
const KIND: &str = "xfrm";
/// What shows whether the kernel has all that is needed, for a moment.
const SCRATCH: &str = "roam6-esp-try";
const SCRATCH_ID: u32 = 0x00ff_ffff;
const SCRATCH_SPI: u32 = 0xffff_fffe;

/// Whether this kernel has ESP for IPv6, AES-GCM, and devices of the kind "xfrm".
///
/// # Errors
/// It has not, and what to load.
pub fn check() -> Result<(), Error> {
    let missing = |error: Error| {
        let cure = "encrypt = \"esp\" needs ESP for IPv6, AES-GCM and xfrm devices in this kernel: load the modules esp6 and \
                    xfrm_interface (modprobe esp6 xfrm_interface; on OpenWrt the packages kmod-ipsec6, kmod-xfrm-interface and \
                    kmod-crypto-gcm; CONFIG_INET6_ESP, CONFIG_XFRM_INTERFACE, CONFIG_XFRM_USER, CONFIG_CRYPTO_GCM, \
                    CONFIG_CRYPTO_SEQIV), or write encrypt = true at both ends to encrypt by WireGuard";
        Error::new("encryption", format!("{cure} ({error})"))
    };
    try_device().and_then(|()| try_association()).map_err(missing)
}

fn try_device() -> Result<(), Error> {
    device::remove(SCRATCH)?;
    let new = Message::new(libc::RTM_NEWLINK, &paths::xfrm_device(SCRATCH, SCRATCH_ID, None));
    device::change_link(&mut Netlink::open()?, SCRATCH, Request::add(new))?;
    device::remove(SCRATCH)
}

fn try_association() -> Result<(), Error> {
    let mut xfrm = Xfrm::open()?;
    let id = AssociationId { destination: Ipv6Addr::LOCALHOST, spi: SCRATCH_SPI };
    xfrm.remove(id)?;
    xfrm.add(id, Ipv6Addr::LOCALHOST, SCRATCH_ID, &AssociationKey([0; KEY_LENGTH]))?;
    xfrm.remove(id)
}
