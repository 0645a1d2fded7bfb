//! Devices that cut large packets to size before they get the header: the kernel can segment none that has it. A macvlan
//! that takes no large packets, over one end of a veth pair; what leaves by it meets `cut` and goes on to the uplink.

use crate::error::{Context, Error};
use crate::netlink::socket::{Netlink, Request};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoMacVlan, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, MacVlanMode,
};
use std::fs;

/// The macvlan, the end of the pair below it, and the other end.
const NAMES: [&str; 3] = ["shim6", "shim6-low", "shim6-end"];
/// Larger than any uplink's: what passes is of the uplink's size already.
const MTU: u32 = 9216;

/// The devices; removed with this value.
pub(super) struct Bounce {
    /// Interface number of the macvlan.
    pub(super) index: u32,
}

impl Bounce {
    /// Makes the devices anew.
    pub(super) fn make() -> Result<Bounce, Error> {
        remove();
        let mut netlink = Netlink::open()?;
        let [upper, lower, end] = NAMES;
        let mut peer = LinkMessage::default();
        peer.attributes = vec![LinkAttribute::IfName(end.to_owned()), LinkAttribute::Mtu(MTU)];
        let pair = vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer)))];
        add(&mut netlink, lower, vec![LinkAttribute::Mtu(MTU), LinkAttribute::LinkInfo(pair)])?;
        let mode = InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Private)]);
        let info = vec![LinkInfo::Kind(InfoKind::MacVlan), LinkInfo::Data(mode)];
        let below = LinkAttribute::Link(index_of(lower)?);
        add(&mut netlink, upper, vec![below, LinkAttribute::Mtu(MTU), LinkAttribute::LinkInfo(info)])?;
        for name in NAMES {
            fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").context(name)?;
            let mut up = LinkMessage::default();
            up.header.index = index_of(name)?;
            (up.header.flags, up.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
            if name == upper {
                up.attributes.push(LinkAttribute::GsoMaxSegs(1));
            }
            ask(&mut netlink, name, Request::change(RouteNetlinkMessage::SetLink(up)))?;
        }
        Ok(Bounce { index: index_of(upper)? })
    }

    /// The device below, at whose egress what was cut appears.
    pub(super) fn lower() -> &'static str {
        let [_, lower, _] = NAMES;
        lower
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        remove();
    }
}

/// Takes the pair away, and with it what stands on it.
fn remove() {
    if let (Ok(index), Ok(mut netlink)) = (index_of(Bounce::lower()), Netlink::open()) {
        let mut message = LinkMessage::default();
        message.header.index = index;
        netlink.carry_out(&[Request::remove(RouteNetlinkMessage::DelLink(message))]);
    }
}

fn add(netlink: &mut Netlink, name: &str, attributes: Vec<LinkAttribute>) -> Result<(), Error> {
    let mut message = LinkMessage::default();
    message.attributes = [vec![LinkAttribute::IfName(name.to_owned())], attributes].concat();
    ask(netlink, name, Request::add(RouteNetlinkMessage::NewLink(message)))
}

fn index_of(name: &str) -> Result<u32, Error> {
    nix::net::if_::if_nametoindex(name).context(name)
}

fn ask(netlink: &mut Netlink, name: &str, request: Request) -> Result<(), Error> {
    let answer = netlink.carry_out(&[request]).pop().unwrap_or(Ok(()));
    answer.map_err(|why| Error::new(format_args!("device {name}"), why))
}
