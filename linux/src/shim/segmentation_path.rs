//! Devices that cut large packets to size before they get the header: the kernel can segment none that has it. A macvlan
//! that takes no large packets, over one end of a veth pair; what leaves by it meets `cut` and goes on to the uplink.

use crate::error::{Context, Error};
use crate::netlink::link::{LinkChange, push};
use crate::netlink::message::Message;
use crate::netlink::socket::{Netlink, Request};
use std::fs;

/// The macvlan, the end of the pair below it, and the other end.
const NAMES: [&str; 3] = ["shim6", "shim6-low", "shim6-end"];
/// Larger than any uplink's: what passes is of the uplink's size already.
const MTU: u32 = 9216;

/// What `linux/if_link.h` says of the two kinds.
const VETH_INFO_PEER: u16 = 1;
const IFLA_MACVLAN_MODE: u16 = 1;
const MACVLAN_MODE_PRIVATE: u32 = 1;

/// The devices; removed with this value.
pub(super) struct SegmentationPath {
    /// Interface number of the macvlan.
    pub(super) index: u32,
}

impl SegmentationPath {
    /// Makes the devices anew.
    pub(super) fn create() -> Result<SegmentationPath, Error> {
        remove();
        let mut netlink = Netlink::open()?;
        let [upper, lower, end] = NAMES;
        let (mut peer, mut mode) = (Vec::new(), Vec::new());
        push(&mut peer, VETH_INFO_PEER, &LinkChange::named(end).mtu(MTU).octets());
        add(&mut netlink, lower, &LinkChange::named(lower).mtu(MTU).kind("veth", &peer))?;
        push(&mut mode, IFLA_MACVLAN_MODE, &MACVLAN_MODE_PRIVATE.to_ne_bytes());
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

    /// The device below, at whose egress what was cut appears.
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

/// Takes the pair away, and with it what stands on it.
fn remove() {
    if let (Ok(index), Ok(mut netlink)) = (index_of(SegmentationPath::lower()), Netlink::open()) {
        netlink.execute(&[Request::remove(Message::new(libc::RTM_DELLINK, &LinkChange::of(index)))]);
    }
}

fn add(netlink: &mut Netlink, name: &str, wish: &LinkChange) -> Result<(), Error> {
    ask(netlink, name, Request::add(Message::new(libc::RTM_NEWLINK, wish)))
}

fn index_of(name: &str) -> Result<u32, Error> {
    nix::net::if_::if_nametoindex(name).context(name)
}

fn ask(netlink: &mut Netlink, name: &str, request: Request) -> Result<(), Error> {
    let answer = netlink.execute(&[request]).pop().unwrap_or(Ok(()));
    answer.map_err(|why| Error::new(format_args!("device {name}"), why))
}
