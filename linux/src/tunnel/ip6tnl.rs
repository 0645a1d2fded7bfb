//! Tunnels carried by the kernel's own tunnel devices, for kernels without BPF. One device a tunnel and one path a device,
//! the best; if the best is direct, routes pass the device by. Flow rules and further paths need BPF (RFC 2473; sources are checked by routing rules, RFC 3963 §6.5 and §9).

use crate::Error;
use crate::netlink::AUXILIARY_PROTOCOL;
use crate::netlink::attribute::{attribute, find_attribute};
use crate::netlink::family;
use crate::netlink::link::{Link, LinkChange};
use crate::netlink::message::Message;
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::socket::{Netlink, Request};
use crate::tunnel::{Tunnels, device, is_indexed_by};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleHeader, RuleMessage};
use roam6_proto::base::ids::LinkId;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::{Tunnel, TunnelId, TunnelPath};
use roam6_wire::ip6::{MINIMUM_MTU, protocol};
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// The kernel's name of the device kind.
const KIND: &str = "ip6tnl";
/// Priorities of the source address rules: allowed sources jump over the one that drops.
const ALLOW: u32 = 50;
const DENY: u32 = 51;
const ALLOWED: u32 = 52;
/// The inner protocol that stands for IPv6 and IPv4 (`IFLA_IPTUN_PROTO`).
const ANYTHING: u8 = 0;
/// Hop limit of outer headers.
const HOP_LIMIT: u8 = 64;

/// The back end.
pub struct Ip6Tnl {
    prefix: String,
    netlink: Netlink,
    devices: BTreeMap<TunnelId, TunnelDevice>,
}

struct TunnelDevice {
    tunnel: Tunnel,
    /// For routes: the device, or the link of a direct path.
    device: Option<LinkId>,
    gateway: Option<Ipv6Addr>,
    mtu: u32,
}

impl Ip6Tnl {
    /// Opens the back end. Devices are named `prefix`, of at most 7 characters, and the tunnel's number in hexadecimal:
    /// a name has 15.
    ///
    /// # Errors
    /// The kernel has no such devices.
    pub fn open(prefix: &str) -> Result<Ip6Tnl, Error> {
        let mut back_end = Ip6Tnl { prefix: prefix.to_owned(), netlink: Netlink::open()?, devices: BTreeMap::new() };
        let probe = back_end.name(TunnelId(0));
        back_end
            .ask(&probe, Request::add(Message::new(libc::RTM_NEWLINK, &LinkChange::named(&probe).kind(KIND, &[]))))?;
        device::remove(&probe)?;
        for family in family::BOTH {
            let mut goto_target = rule(family, ALLOWED, RuleAction::Nop);
            goto_target.attributes.push(RuleAttribute::Protocol(RouteProtocol::Other(AUXILIARY_PROTOCOL)));
            back_end.ask("rule", Request::add(Message::new(libc::RTM_NEWRULE, &goto_target)))?;
        }
        Ok(back_end)
    }

    fn name(&self, id: TunnelId) -> String {
        format!("{}{:x}", self.prefix, id.0)
    }

    fn id(&self, name: &str) -> Option<TunnelId> {
        u32::from_str_radix(name.strip_prefix(&self.prefix)?, 16).ok().map(TunnelId)
    }

    fn ask(&mut self, name: &str, request: Request) -> Result<(), Error> {
        device::change_link(&mut self.netlink, name, request)
    }

    /// Creates the device or changes its endpoints in place.
    fn put_device(&mut self, name: &str, path: &TunnelPath, inner: u8) -> Result<LinkId, Error> {
        let found = device::find(&mut self.netlink, name)?;
        // Giving the name again would rename it, which is refused while the device is up.
        let change = found.as_ref().map_or_else(|| LinkChange::named(name), |found| LinkChange::of(found.index));
        let message = Message::new(libc::RTM_NEWLINK, &change.kind(KIND, &parameters(path, inner)));
        self.ask(name, if found.is_some() { Request::change(message) } else { Request::add(message) })?;
        device::set_up(&mut self.netlink, name, path.mtu.max(MINIMUM_MTU))
    }

    /// Drops decapsulated packets with a source that is not in `far`.
    fn put_source_rules(&mut self, name: &str, tunnel: &Tunnel) -> Result<(), Error> {
        let former = self.source_rules(|device| device == name)?;
        if is_indexed_by(&tunnel.remote_prefixes) {
            for &prefix in &tunnel.remote_prefixes {
                let (family, address, length) = family::to_kernel(prefix);
                let mut allow = rule(family, ALLOW, RuleAction::Goto);
                allow.header.src_len = length;
                allow.attributes.push(RuleAttribute::Source(address));
                allow.attributes.push(RuleAttribute::Goto(ALLOWED));
                self.put_source_rule(name, allow)?;
            }
            for family in family::BOTH {
                self.put_source_rule(name, rule(family, DENY, RuleAction::Blackhole))?;
            }
        }
        let kept =
            |message: &RuleMessage| source(message).is_none_or(|prefix| tunnel.remote_prefixes.contains(&prefix));
        for message in former.into_iter().filter(|message| !(is_indexed_by(&tunnel.remote_prefixes) && kept(message))) {
            self.ask("rule", Request::remove(Message::new(libc::RTM_DELRULE, &message)))?;
        }
        Ok(())
    }

    fn put_source_rule(&mut self, name: &str, mut message: RuleMessage) -> Result<(), Error> {
        message.attributes.push(RuleAttribute::Iifname(name.to_owned()));
        message.attributes.push(RuleAttribute::Protocol(RouteProtocol::Other(AUXILIARY_PROTOCOL)));
        self.ask("rule", Request::add(Message::new(libc::RTM_NEWRULE, &message)))
    }

    /// The rules of roam6 for packets from certain devices.
    fn source_rules(&mut self, of: impl Fn(&str) -> bool) -> Result<Vec<RuleMessage>, Error> {
        let ours = |message: &RuleMessage| {
            message.attributes.contains(&RuleAttribute::Protocol(RouteProtocol::Other(AUXILIARY_PROTOCOL)))
                && find_attribute!(message, RuleAttribute::Iifname(name) => of(name)) == Some(true)
        };
        let mut rules = Vec::new();
        for family in family::BOTH {
            rules.extend(self.netlink.dump(crate::netlink::rule::dump(family))?);
        }
        let rules = rules
            .into_iter()
            .filter_map(|message| if let RtnlMessage::NewRule(rule) = message { Some(rule) } else { None });
        Ok(rules.filter(ours).collect())
    }

    fn remove(&mut self, id: TunnelId) -> Result<(), Error> {
        let name = self.name(id);
        device::remove(&name)?;
        for message in self.source_rules(|device| device == name)? {
            self.ask("rule", Request::remove(Message::new(libc::RTM_DELRULE, &message)))?;
        }
        Ok(())
    }

    fn dump_devices(&mut self) -> Result<Vec<(TunnelId, Link)>, Error> {
        let links = device::all(&mut self.netlink)?;
        Ok(links
            .into_iter()
            .filter(|link| link.kind == KIND)
            .filter_map(|link| Some((self.id(&link.name)?, link)))
            .collect())
    }
}

impl Tunnels for Ip6Tnl {
    fn put(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        if tunnel.paths.iter().any(|path| Ipv4Endpoint::from_ipv6(path.local).is_some()) {
            let what = format_args!("tunnel {} over IPv4", tunnel.id.0);
            return Err(Error::new(what, "ip6tnl supports IPv6 only; set data_plane = \"bpf\""));
        }
        if tunnel.paths.iter().any(|path| !path.encap.is_native()) {
            let what = format_args!("tunnel {} in UDP", tunnel.id.0);
            return Err(Error::new(what, "ip6tnl has no UDP; set data_plane = \"bpf\""));
        }
        let first = best(tunnel.paths.iter());
        // With a direct path the device stays for what still arrives by the others.
        let device = match best(tunnel.paths.iter().filter(|path| !path.direct)) {
            Some(path) => {
                let name = self.name(tunnel.id);
                self.put_source_rules(&name, tunnel)?;
                let ipv4 = tunnel.local_prefixes.iter().chain(&tunnel.remote_prefixes).any(|prefix| prefix.is_ipv4());
                Some(self.put_device(&name, path, if ipv4 { ANYTHING } else { protocol::IPV6 })?)
            }
            None => {
                self.remove(tunnel.id)?;
                None
            }
        };
        let direct = first.filter(|path| path.direct);
        let held = TunnelDevice {
            tunnel: tunnel.clone(),
            device: direct.map_or(device, |path| path.link),
            gateway: direct.map(|path| path.remote),
            mtu: first.map_or(MINIMUM_MTU, |path| path.mtu.max(MINIMUM_MTU)),
        };
        self.devices.insert(tunnel.id, held);
        Ok(())
    }

    fn drop(&mut self, id: TunnelId) -> Result<(), Error> {
        self.devices.remove(&id);
        self.remove(id)
    }

    fn find(&self, id: TunnelId) -> Option<Tunnel> {
        self.devices.get(&id).map(|held| held.tunnel.clone())
    }

    fn device(&self, id: TunnelId) -> Option<LinkId> {
        self.devices.get(&id)?.device
    }

    fn gateway(&self, id: TunnelId) -> Option<Ipv6Addr> {
        self.devices.get(&id)?.gateway
    }

    fn mtu(&self, id: TunnelId) -> Option<u32> {
        self.devices.get(&id).filter(|held| held.device.is_some()).map(|held| held.mtu)
    }

    fn remove_stale(&mut self) -> Result<(), Error> {
        for (id, _) in self.dump_devices()? {
            if !self.devices.contains_key(&id) {
                self.remove(id)?;
            }
        }
        Ok(())
    }

    fn counters(&mut self) -> VecMap<String, u64> {
        let (mut entered, mut left) = (0, 0);
        for (_, link) in self.dump_devices().unwrap_or_default() {
            let (received, sent) = link.traffic;
            entered += sent.packets;
            left += received.packets;
        }
        VecMap::from([("encapsulated".to_owned(), entered), ("decapsulated".to_owned(), left)])
    }

    fn inventory(&mut self) -> Result<Vec<TunnelId>, Error> {
        let mut ids: Vec<TunnelId> = self.dump_devices()?.into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn clean(&mut self) -> Result<(), Error> {
        for (id, _) in self.dump_devices()? {
            self.remove(id)?;
        }
        family::BOTH.into_iter().try_for_each(|family| {
            let goto_target = rule(family, ALLOWED, RuleAction::Nop);
            self.ask("rule", Request::remove(Message::new(libc::RTM_DELRULE, &goto_target)))
        })
    }
}

/// The best path in use, else the first.
fn best<'a>(paths: impl Iterator<Item = &'a TunnelPath> + Clone) -> Option<&'a TunnelPath> {
    paths.clone().find(|path| path.weight > 0).or_else(|| paths.clone().next())
}

fn rule(family: AddressFamily, priority: u32, action: RuleAction) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header = RuleHeader { family, action, ..RuleHeader::default() };
    message.attributes.push(RuleAttribute::Priority(priority));
    message
}

fn source(message: &RuleMessage) -> Option<Prefix> {
    let address = find_attribute!(message, RuleAttribute::Source(address) => *address)?;
    family::prefix(address, message.header.src_len)
}

/// The device's parameters (`IFLA_IPTUN_*`): no encapsulation limit option, traffic class and flow label copied.
fn parameters(path: &TunnelPath, inner: u8) -> Vec<u8> {
    const IGNORE_ENCAPSULATION_LIMIT: u32 = 0x1;
    const COPY_TRAFFIC_CLASS: u32 = 0x2;
    const COPY_FLOW_LABEL: u32 = 0x4;
    let flags = IGNORE_ENCAPSULATION_LIMIT | COPY_TRAFFIC_CLASS | COPY_FLOW_LABEL;
    let attributes = [
        attribute(1, &path.link.map_or(0, |link| link.0).to_ne_bytes()),
        attribute(2, &path.local.octets()),
        attribute(3, &path.remote.octets()),
        attribute(4, &[HOP_LIMIT]),
        attribute(6, &[0]),
        attribute(8, &flags.to_ne_bytes()),
        attribute(9, &[inner]),
    ];
    attributes.concat()
}
