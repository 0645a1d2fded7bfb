//! The devices of tunnel routes.

use crate::error::{Context, Error};
use crate::netlink::link::{self, Link, LinkChange};
use crate::netlink::message::Message;
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::socket::{Netlink, Request};
use roam6_proto::base::ids::LinkId;
#[cfg(feature = "bpf")]
use roam6_wire::LinkAddress;
use std::fs;

/// Sysctls of a device: no addresses of its own, no router advertisements, and routes that hold although no process has
/// it open, which the kernel takes for a missing carrier. It forwards as the host does: setting `forwarding` of one
/// device would make the kernel remove default routes that were learnt by router advertisements.
const SETTINGS: [(&str, &str); 3] = [("addr_gen_mode", "1"), ("accept_ra", "0"), ("ignore_routes_with_linkdown", "0")];

/// Creates a persistent TUN device, or takes over an earlier daemon's. Nothing is ever queued on it, because the
/// program on its egress handles every packet.
///
/// # Errors
/// The kernel's; or a device of another kind has the name.
#[cfg(feature = "bpf")]
pub(crate) fn make_tun(device: &str, mtu: u32) -> Result<LinkId, Error> {
    let mut netlink = Netlink::open()?;
    match find(&mut netlink, device)? {
        Some(found) if found.kind == "tun" => {}
        Some(_) => {
            return Err(Error::new(format_args!("make device {device}"), "a device of another kind has this name"));
        }
        None => crate::sys::make_tun(device).context(format_args!("make TUN device {device}"))?,
    }
    set_up(&mut netlink, device, mtu)
}

/// Has a device forward IPv4 packets, whatever the host does: the programs look up routes of packets over IPv4 as if these
/// had come in by the device.
///
/// # Errors
/// The kernel's.
#[cfg(feature = "bpf")]
pub(crate) fn forward_ipv4(device: &str) -> Result<(), Error> {
    let file = format!("/proc/sys/net/ipv4/conf/{device}/forwarding");
    fs::write(&file, "1").context(format_args!("write 1 to {file}"))
}

/// Creates a device of a kind without parameters; it may exist.
///
/// # Errors
/// The kernel's.
#[cfg(feature = "bpf")]
pub(crate) fn make(netlink: &mut Netlink, device: &str, kind: &str) -> Result<(), Error> {
    let new = LinkChange::named(device).kind(kind, &[]);
    change_link(netlink, device, Request::add(Message::new(libc::RTM_NEWLINK, &new)))
}

/// Configures a device and sets it up.
///
/// # Errors
/// The kernel's.
pub(crate) fn set_up(netlink: &mut Netlink, device: &str, mtu: u32) -> Result<LinkId, Error> {
    for (setting, value) in SETTINGS {
        let file = format!("/proc/sys/net/ipv6/conf/{device}/{setting}");
        fs::write(&file, value).context(format_args!("write {value} to {file}"))?;
    }
    let found = find(netlink, device)?.ok_or_else(|| Error::new(device, "no such device"))?;
    let up = LinkChange::of(found.index).up().mtu(mtu);
    change_link(netlink, device, Request::change(Message::new(libc::RTM_SETLINK, &up)))?;
    Ok(LinkId(found.index))
}

/// Removes a device, if it exists.
///
/// # Errors
/// The kernel's.
pub(crate) fn remove(device: &str) -> Result<(), Error> {
    let mut netlink = Netlink::open()?;
    let Some(found) = find(&mut netlink, device)? else { return Ok(()) };
    let gone = Message::new(libc::RTM_DELLINK, &LinkChange::of(found.index));
    change_link(&mut netlink, device, Request::remove(gone))
}

/// Whether packets of this interface have an Ethernet header.
///
/// # Errors
/// The kernel's.
#[cfg(feature = "bpf")]
pub(crate) fn has_ethernet(interface: LinkId) -> Result<bool, Error> {
    let found = link_by_index(interface)?;
    let found = found.ok_or_else(|| Error::new(interface, "no such interface"))?;
    Ok(found.is_ethernet())
}

/// The link-layer address of an interface, if it has one of six octets.
#[cfg(feature = "bpf")]
pub(crate) fn address_of(interface: LinkId) -> Result<Option<LinkAddress>, Error> {
    Ok(link_by_index(interface)?.and_then(|found| found.address))
}

/// The interface of this index, alone: there may be thousands.
#[cfg(feature = "bpf")]
fn link_by_index(interface: LinkId) -> Result<Option<Link>, Error> {
    let reply = Netlink::open()?.get(link::get(interface))?;
    Ok(if let Some(RtnlMessage::NewLink(link)) = reply { Some(link) } else { None })
}

/// The interface of this name.
pub(crate) fn find(netlink: &mut Netlink, device: &str) -> Result<Option<Link>, Error> {
    Ok(all(netlink)?.into_iter().find(|link| link.name == device))
}

/// All interfaces.
pub(crate) fn all(netlink: &mut Netlink) -> Result<Vec<Link>, Error> {
    let links = netlink.dump(link::dump())?.into_iter();
    Ok(links.filter_map(|message| if let RtnlMessage::NewLink(link) = message { Some(link) } else { None }).collect())
}

/// Executes a request about a device.
///
/// # Errors
/// The kernel's.
pub(crate) fn change_link(netlink: &mut Netlink, device: &str, request: Request) -> Result<(), Error> {
    let results = netlink.execute(&[request]);
    results.into_iter().collect::<Result<(), String>>().map_err(|why| {
        let unknown = why.contains("Unknown device type");
        let hint = if unknown {
            "; load the kernel module of its kind: modprobe ip6_tunnel, wireguard, or xfrm_interface"
        } else {
            ""
        };
        Error::new(format_args!("set up {device}"), format_args!("{why}{hint}"))
    })
}
