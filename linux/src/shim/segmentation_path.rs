//! The devices on which the kernel segments GSO packets before they get the payload extension header, because it can
//! segment none that has it: a macvlan without GSO, over one end of a veth pair. What leaves by it meets the program
//! `cut` and continues to the uplink.

use crate::error::{Context, Error};
use crate::netlink::attribute::attribute;
use crate::netlink::link::LinkChange;
use crate::netlink::message::Message;
use crate::netlink::socket::{Netlink, Request};
use std::fs;

/// The macvlan, the end of the pair below it, and the other end.
const NAMES: [&str; 3] = ["shim6", "shim6-low", "shim6-end"];
/// Larger than any uplink's: segments have the uplink's size already.
const MTU: u32 = 9216;

/// Attributes of the two kinds (linux/if_link.h).
const VETH_INFO_PEER: u16 = 1;
const IFLA_MACVLAN_MODE: u16 = 1;
const MACVLAN_MODE_PRIVATE: u32 = 1;

/// The devices; removed with this value.
pub(super) struct SegmentationPath {
    /// Interface index of the macvlan.
    pub(super) index: u32,
}

impl SegmentationPath {
    /// Creates the devices, after removing stale ones.
    ///
    /// # Errors
    /// The kernel's, as where it has no macvlan or veth.
    pub(super) fn create() -> Result<SegmentationPath, Error> {
        remove();
        let mut netlink = Netlink::open()?;
        let [upper, lower, end] = NAMES;
        let peer = attribute(VETH_INFO_PEER, &LinkChange::named(end).mtu(MTU).octets());
        add(&mut netlink, lower, &LinkChange::named(lower).mtu(MTU).kind("veth", &peer))?;
        let mode = attribute(IFLA_MACVLAN_MODE, &MACVLAN_MODE_PRIVATE.to_ne_bytes());
        let below = LinkChange::named(upper).with(libc::IFLA_LINK, &index_of(lower)?.to_ne_bytes());
        add(&mut netlink, upper, &below.mtu(MTU).kind("macvlan", &mode))?;
        for name in NAMES {
            fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").context(name)?;
            let mut up = LinkChange::of(index_of(name)?).up();
            if name == upper {
                up = up.with(libc::IFLA_GSO_MAX_SEGS, &1u32.to_ne_bytes());
            }
            ask(&mut netlink, name, Request::change(Message::new(libc::RTM_SETLINK, &up)))?;
        }
        Ok(SegmentationPath { index: index_of(upper)? })
    }

    /// The lower device, on the egress of which segments appear.
    pub(super) fn lower() -> &'static str {
        let [_, lower, _] = NAMES;
        lower
    }
}

impl Drop for SegmentationPath {
    fn drop(&mut self) {
        remove();
    }
}

/// Removes the pair, and with it the macvlan.
fn remove() {
    if let (Ok(index), Ok(mut netlink)) = (index_of(SegmentationPath::lower()), Netlink::open()) {
        netlink.execute(&[Request::remove(Message::new(libc::RTM_DELLINK, &LinkChange::of(index)))]);
    }
}

fn add(netlink: &mut Netlink, name: &str, change: &LinkChange) -> Result<(), Error> {
    ask(netlink, name, Request::add(Message::new(libc::RTM_NEWLINK, change)))
}

fn index_of(name: &str) -> Result<u32, Error> {
    nix::net::if_::if_nametoindex(name).context(name)
}

fn ask(netlink: &mut Netlink, name: &str, request: Request) -> Result<(), Error> {
    let result = netlink.execute(&[request]).pop().unwrap_or(Ok(()));
    result.map_err(|why| Error::new(format_args!("device {name}"), why))
}
