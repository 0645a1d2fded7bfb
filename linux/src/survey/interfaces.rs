//! The interfaces of this host, and what they are.

use super::radio::nl80211_modes;
use crate::error::Error;
use crate::netlink::link::{self, Link};
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::socket::Netlink;
use nix::libc;
use roam6_proto::base::vec_map::VecMap;
use roam6_wire::LinkAddress;

/// `ARPHRD_RAWIP` of linux/if_arp.h: modems whose packets have no link layer.
const ARPHRD_RAWIP: u16 = 519;
/// Kinds of interfaces whose packets travel in other packets.
const TUNNELS: [&str; 14] = [
    "ip6tnl",
    "ip6gre",
    "ip6gretap",
    "ipip",
    "gre",
    "gretap",
    "sit",
    "vti",
    "vti6",
    "vxlan",
    "geneve",
    "wireguard",
    "tun",
    "xfrm",
];

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: InterfaceKind,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has a carrier: a cable is plugged in, a network is joined.
    pub carrier: bool,
    /// Its MTU, octets.
    pub mtu: u32,
    /// Index of the bridge or bond that it belongs to.
    pub master: Option<u32>,
    /// Its Ethernet address.
    pub link_address: Option<LinkAddress>,
}

/// What an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceKind {
    /// The loopback interface.
    Loopback,
    /// An Ethernet port.
    Ethernet,
    /// Wi-Fi.
    Wifi(WifiMode),
    /// A cellular modem, or a dial-up connection.
    Modem,
    /// A bridge.
    Bridge,
    /// A tunnel.
    Tunnel,
    /// One end of a virtual cable.
    Veth,
    /// Something else.
    Other,
}

/// The mode of a Wi-Fi interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WifiMode {
    /// It joins networks of others.
    Client,
    /// It offers a network.
    AccessPoint,
    /// Something else, as monitoring.
    Other,
}

/// All interfaces, in the order of their indexes.
///
/// # Errors
/// The kernel's, if it refuses the dump.
pub fn interfaces() -> Result<Vec<Interface>, Error> {
    let dump = Netlink::open()?.dump(link::dump())?;
    let modes = nl80211_modes();
    let mode = |index: u32| modes.iter().find(|(of, _)| *of == index).map(|(_, mode)| *mode);
    let read = |message| match message {
        RtnlMessage::NewLink(link) if !link.name.is_empty() => Some(describe(&link, mode(link.index))),
        _ => None,
    };
    let mut found: Vec<Interface> = dump.into_iter().filter_map(read).collect();
    found.sort_by_key(|interface| interface.index);
    Ok(found)
}

/// Octets received and sent by each interface since it was created, by its name.
///
/// # Errors
/// The kernel's, if it refuses the dump.
pub fn interface_octets() -> Result<VecMap<String, (u64, u64)>, Error> {
    let read = |message| match message {
        RtnlMessage::NewLink(Link { name, traffic: (received, sent), .. }) => {
            Some((name, (received.octets, sent.octets)))
        }
        _ => None,
    };
    Ok(Netlink::open()?.dump(link::dump())?.into_iter().filter_map(read).collect())
}

fn describe(link: &Link, wifi: Option<WifiMode>) -> Interface {
    let is = |flag: libc::c_int| link.flags & flag.cast_unsigned() != 0;
    Interface {
        index: link.index,
        name: link.name.clone(),
        kind: kind(link, wifi),
        up: is(libc::IFF_UP),
        carrier: is(libc::IFF_UP) && is(libc::IFF_LOWER_UP),
        mtu: link.mtu,
        master: Some(link.master).filter(|index| *index != 0),
        link_address: link.address,
    }
}

fn kind(link: &Link, wifi: Option<WifiMode>) -> InterfaceKind {
    let named = |beginnings: &[&str]| beginnings.iter().any(|beginning| link.name.starts_with(beginning));
    match (link.hardware, &*link.kind) {
        (libc::ARPHRD_LOOPBACK, _) => InterfaceKind::Loopback,
        (_, "bridge") => InterfaceKind::Bridge,
        (_, "veth") => InterfaceKind::Veth,
        (_, "wwan") | (libc::ARPHRD_PPP | ARPHRD_RAWIP, _) => InterfaceKind::Modem,
        (_, kind) if TUNNELS.contains(&kind) => InterfaceKind::Tunnel,
        _ if wifi.is_some() => InterfaceKind::Wifi(wifi.unwrap_or(WifiMode::Other)),
        // Drivers of USB modems that look like Ethernet ports (qmi_wwan, cdc_mbim, rmnet).
        _ if named(&["wwan", "wwp", "rmnet"]) => InterfaceKind::Modem,
        // Drivers that nl80211 does not know.
        _ if named(&["wlan", "wlp", "wlx"]) => InterfaceKind::Wifi(WifiMode::Other),
        (libc::ARPHRD_ETHER, "" | "dsa" | "vlan" | "bond" | "team") => InterfaceKind::Ethernet,
        _ => InterfaceKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_told_apart_by_hardware_kind_mode_and_name() {
        use InterfaceKind::*;
        let ethernet = libc::ARPHRD_ETHER;
        for (name, hardware, kind_name, mode, expected) in [
            ("lo", libc::ARPHRD_LOOPBACK, "", None, Loopback),
            ("eth0", ethernet, "", None, Ethernet),
            ("eth0.7", ethernet, "vlan", None, Ethernet),
            ("lan1", ethernet, "dsa", None, Ethernet),
            ("br-lan", ethernet, "bridge", None, Bridge),
            ("wlan0", ethernet, "", Some(WifiMode::AccessPoint), Wifi(WifiMode::AccessPoint)),
            ("phy0-sta0", ethernet, "", Some(WifiMode::Client), Wifi(WifiMode::Client)),
            ("wlp3s0", ethernet, "", None, Wifi(WifiMode::Other)),
            ("wwan0", ethernet, "", None, Modem),
            ("wwan0", ARPHRD_RAWIP, "", None, Modem),
            ("ppp0", libc::ARPHRD_PPP, "ppp", None, Modem),
            ("veth1", ethernet, "veth", None, Veth),
            ("nemo0", 65_534, "tun", None, Tunnel),
            ("dummy0", ethernet, "dummy", None, Other),
        ] {
            let link = Link { name: name.to_owned(), hardware, kind: kind_name.to_owned(), ..Link::default() };
            assert_eq!(kind(&link, mode), expected, "{name}");
        }
    }
}
