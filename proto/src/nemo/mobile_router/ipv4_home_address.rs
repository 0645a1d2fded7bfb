//! IPv4 home addresses and prefixes: requested from the home agent, configured or dynamic (RFC 5555 §3.1.1, §4.4.2).
//! Not available at home (§4.4.4).

use super::MobileRouter;
use super::forwarding::{DEFAULT_METRIC, TUNNEL, TUNNEL_TABLE, address_item};
use crate::contract::item::{NextHop, Sysctl, SysctlSetting};
use crate::{Item, Outbox, Plan, VecMap};
use roam6_wire::Prefix;
use roam6_wire::mobility::{BindingAcknowledgement, Ipv4Status, MobilityOption};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bits of an IPv4 address.
const IPV4_BITS: u8 = 32;

/// The status of the IPv4 prefixes.
#[derive(Debug, Default, Clone)]
pub(super) struct Ipv4Home {
    /// The dynamic prefix.
    dynamic: Option<Prefix>,
    /// Rejected prefixes, so that each is reported once; the dynamic one is [`Prefix::ALL_IPV4`].
    rejected: VecMap<Prefix, Ipv4Status>,
    /// The home agent without support, which is not asked again (RFC 5555 §2.3.1).
    unsupporting: Option<Ipv6Addr>,
}

/// The status of one prefix in an acknowledgement.
struct Ipv4Acknowledgement {
    status: Ipv4Status,
    /// Of length 0 with a rejection.
    prefix: Prefix,
    address: Ipv4Addr,
}

impl MobileRouter {
    /// All prefixes of the mobile network.
    pub(super) fn networks(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.config.prefixes.iter().copied().chain(self.ipv4_home.dynamic)
    }

    /// The configured IPv4 prefixes.
    fn configured_ipv4(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> + '_ {
        self.config.prefixes.iter().filter_map(|prefix| prefix.ipv4())
    }

    /// The IPv4 Home Address options of an update.
    pub(super) fn ipv4_home_options(&self, home_agent: Ipv6Addr) -> Vec<MobilityOption> {
        if self.ipv4_home.unsupporting == Some(home_agent) {
            return Vec::new();
        }
        let any = self.config.dynamic_ipv4.map(|length| (Ipv4Addr::UNSPECIFIED, length));
        let dynamic = any.map(|any| self.ipv4_home.dynamic.and_then(Prefix::ipv4).unwrap_or(any));
        let to_option = |(address, prefix_length)| MobilityOption::Ipv4HomeAddress {
            prefix_length,
            prefix_wanted: prefix_length < IPV4_BITS,
            address,
        };
        self.configured_ipv4().chain(dynamic).map(to_option).collect()
    }

    /// Removes state that the configuration no longer requests.
    pub(super) fn reload_ipv4_home(&mut self) {
        let chosen = self.ipv4_home.dynamic.filter(|_| self.config.dynamic_ipv4.is_some());
        self.ipv4_home = Ipv4Home { dynamic: chosen, ..Ipv4Home::default() };
    }

    /// Evaluates the IPv4 Address Acknowledgement options.
    pub(super) fn receive_ipv4_home(
        &mut self,
        message: &BindingAcknowledgement,
        home_agent: Ipv6Addr,
        out: &mut Outbox,
    ) {
        let dynamic = self.config.dynamic_ipv4.is_some();
        let own: Vec<Prefix> = self.config.prefixes.iter().copied().filter(|prefix| prefix.is_ipv4()).collect();
        if own.is_empty() && !dynamic || self.ipv4_home.unsupporting == Some(home_agent) {
            return;
        }
        let mut answers: Vec<Ipv4Acknowledgement> = message.options.iter().filter_map(ipv4_acknowledgement).collect();
        if answers.is_empty() {
            self.ipv4_home.unsupporting = Some(home_agent);
            let text = format!("the home agent {home_agent} does not support IPv4 home addresses (RFC 5555)");
            return out.notice(text);
        }
        for prefix in own {
            let same = |answer: &Ipv4Acknowledgement| match answer.status.is_accepted() {
                true => answer.prefix == prefix,
                false => prefix.ipv4().is_some_and(|(address, _)| address == answer.address),
            };
            let found = answers.iter().position(same).map(|at| answers.remove(at).status);
            self.note_ipv4_status(prefix, found.unwrap_or(Ipv4Status::UNSPECIFIED), out);
        }
        if dynamic {
            self.receive_dynamic_ipv4(answers.pop(), out);
        }
    }

    /// Evaluates the dynamic prefix; a rejected one is replaced by a request for any prefix.
    fn receive_dynamic_ipv4(&mut self, answer: Option<Ipv4Acknowledgement>, out: &mut Outbox) {
        let status = answer.as_ref().map_or(Ipv4Status::UNSPECIFIED, |answer| answer.status);
        let chosen = answer.filter(|answer| answer.status.is_accepted()).map(|answer| answer.prefix);
        let before = core::mem::replace(&mut self.ipv4_home.dynamic, chosen);
        if let Some(prefix) = chosen.filter(|_| before != chosen) {
            out.notice(format!("the home agent has assigned {prefix} to the mobile network"));
        }
        if chosen.is_none() && before.is_some() {
            return self.registration.request_refresh();
        }
        self.note_ipv4_status(Prefix::ALL_IPV4, status, out);
    }

    /// Reports a rejection, unless it is the same as before.
    fn note_ipv4_status(&mut self, prefix: Prefix, status: Ipv4Status, out: &mut Outbox) {
        if status.is_accepted() {
            self.ipv4_home.rejected.remove(&prefix);
        } else if self.ipv4_home.rejected.insert(prefix, status) != Some(status) {
            let what = if prefix == Prefix::ALL_IPV4 { "an IPv4 prefix".to_owned() } else { prefix.to_string() };
            out.notice(format!("the home agent rejects {what}: status {status}"));
        }
    }

    /// Routes IPv4 packets into the tunnel, and configures addresses on ingress interfaces.
    pub(super) fn put_ipv4_home(&self, plan: &mut Plan) {
        if !self.networks().any(Prefix::is_ipv4) {
            return;
        }
        plan.put(Item::Sysctl(SysctlSetting { link: None, sysctl: Sysctl::Ipv4Forwarding, value: 1 }));
        let interfaces = || self.ingress.iter().filter_map(|ingress| ingress.interface.as_ref());
        let inside = interfaces().find(|interface| interface.up).or_else(|| interfaces().next());
        for prefix in self.networks() {
            let dynamic = self.ipv4_home.dynamic == Some(prefix);
            if let Some((interface, address)) = inside.zip(own_address(prefix, dynamic)) {
                plan.put(address_item(interface.link, address, prefix.length(), true));
            }
        }
        if self.manages_tunnel {
            plan.put(Item::route(TUNNEL_TABLE, Prefix::ALL_IPV4, DEFAULT_METRIC, NextHop::Tunnel(TUNNEL)));
        }
    }
}

/// The router's address in an IPv4 prefix: the home address itself, or the first of a dynamic prefix. Other networks
/// are numbered by the operator.
fn own_address(prefix: Prefix, dynamic: bool) -> Option<Ipv6Addr> {
    let (first, length) = prefix.ipv4()?;
    match length {
        IPV4_BITS => Some(first.to_ipv6_mapped()),
        31 if dynamic => Some(first.to_ipv6_mapped()),
        _ if dynamic => Some(Ipv4Addr::from_bits(first.to_bits() | 1).to_ipv6_mapped()),
        _ => None,
    }
}

fn ipv4_acknowledgement(option: &MobilityOption) -> Option<Ipv4Acknowledgement> {
    let MobilityOption::Ipv4AddressAcknowledgement { status, prefix_length, address } = *option else { return None };
    // Length 0 grants nothing (RFC 5555 §3.1.1).
    let prefix = Prefix::from_ipv4(address, prefix_length).filter(|_| prefix_length > 0 || !status.is_accepted())?;
    Some(Ipv4Acknowledgement { status, prefix, address })
}
