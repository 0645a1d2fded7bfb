//! The device that tunnel routes name: a TUN without a process behind it, so that it needs no daemon to be alive. Nothing
//! is ever queued on it, because the program at its egress takes every packet.

use crate::error::{Context, Error};
use crate::netlink::link;
use crate::netlink::socket::{Netlink, Request};
use crate::sys;
use crate::tunnel::OVERHEAD;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage};
use roam6_proto::input::LinkId;
use std::fs;

/// Tunnels in one another that the MTU is followed through.
pub(crate) const NESTED: u8 = 4;

/// What an Ethernet leaves inside a tunnel, for routes that say nothing.
const MTU: u32 = 1500 - OVERHEAD;

/// Settings of the device: no addresses of its own, forwarding for what comes out of tunnels, and its routes hold though
/// nobody has opened it, which the kernel takes for a cable that is out.
const SETTINGS: [(&str, &str); 4] =
    [("addr_gen_mode", "1"), ("forwarding", "1"), ("accept_ra", "0"), ("ignore_routes_with_linkdown", "0")];

/// Makes the device, or takes over that of an earlier life.
pub(crate) fn make(name: &str) -> Result<LinkId, Error> {
    let mut netlink = Netlink::open()?;
    let found = find(&mut netlink, name)?;
    if found.as_ref().is_some_and(|message| !is_tun(message)) {
        return Err(Error::new(format_args!("make device {name}"), "there is one of another kind"));
    }
    if found.is_none() {
        sys::make_tun(name).context(format_args!("make TUN device {name}"))?;
    }
    for (setting, value) in SETTINGS {
        let file = format!("/proc/sys/net/ipv6/conf/{name}/{setting}");
        fs::write(&file, value).context(format_args!("write {value} to {file}"))?;
    }
    let message = match found {
        Some(message) => message,
        None => find(&mut netlink, name)?.ok_or_else(|| Error::new(name, "no such device"))?,
    };
    let mut up = LinkMessage::default();
    up.header.index = message.header.index;
    up.header.flags = LinkFlags::Up;
    up.header.change_mask = LinkFlags::Up;
    up.attributes.push(LinkAttribute::Mtu(MTU));
    ask(&mut netlink, name, Request::replace(RouteNetlinkMessage::SetLink(up)))?;
    Ok(LinkId(message.header.index))
}

/// Removes the device, if there is one.
pub(crate) fn remove(name: &str) -> Result<(), Error> {
    let mut netlink = Netlink::open()?;
    let Some(found) = find(&mut netlink, name)? else { return Ok(()) };
    let mut message = LinkMessage::default();
    message.header.index = found.header.index;
    ask(&mut netlink, name, Request::remove(RouteNetlinkMessage::DelLink(message)))
}

/// Whether packets of this interface have an Ethernet header.
pub(crate) fn has_ethernet(name: &str) -> Result<bool, Error> {
    let found = find(&mut Netlink::open()?, name)?.ok_or_else(|| Error::new(name, "no such interface"))?;
    Ok(found.header.link_layer_type == LinkLayerType::Ether)
}

fn find(netlink: &mut Netlink, name: &str) -> Result<Option<LinkMessage>, Error> {
    let named = |message: &LinkMessage| {
        message.attributes.iter().any(|attribute| matches!(attribute, LinkAttribute::IfName(found) if found == name))
    };
    let links = netlink.dump(link::dump())?.into_iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewLink(message) => Some(message),
        _ => None,
    });
    Ok(links.into_iter().find(named))
}

fn is_tun(message: &LinkMessage) -> bool {
    message.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.contains(&LinkInfo::Kind(InfoKind::Tun)),
        _ => false,
    })
}

fn ask(netlink: &mut Netlink, name: &str, request: Request) -> Result<(), Error> {
    let answers = netlink.carry_out(&[request]);
    answers.into_iter().collect::<Result<(), String>>().map_err(|why| Error::new(format_args!("set up {name}"), why))
}
