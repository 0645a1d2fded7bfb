//! The in-kernel MPTCP path manager by generic netlink, family `mptcp_pm`: what iproute2 shows as `ip mptcp`.

use crate::error::Error;
use crate::netlink::attribute::{NESTED, attribute, find, parse_attributes, u32_of};
use crate::netlink::generic::{FAMILY_GROUPS, Family};
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use roam6_proto::LinkId;
use roam6_proto::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Commands (linux/mptcp_pm.h).
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;
const EVENTS: &[u8] = b"mptcp_pm_events\0";
const ADD_ADDRESS: u8 = 1;
const DELETE_ADDRESS: u8 = 2;
const GET_ADDRESS: u8 = 3;
const SET_LIMITS: u8 = 5;
const GET_LIMITS: u8 = 6;
const SET_FLAGS: u8 = 7;
/// Attributes of a message.
const ADDRESS: u16 = 1;
const ACCEPTED: u16 = 2;
const SUBFLOWS: u16 = 3;
/// Attributes of an address.
const ADDRESS_FAMILY: u16 = 1;
const ADDRESS_ID: u16 = 2;
const ADDRESS_4: u16 = 3;
const ADDRESS_6: u16 = 4;
const ADDRESS_PORT: u16 = 5;
const ADDRESS_FLAGS: u16 = 6;
const ADDRESS_LINK: u16 = 7;
/// Flags of an address.
const SIGNAL: u32 = 1;
const SUBFLOW: u32 = 2;
const BACKUP: u32 = 4;
const IMPLICIT: u32 = 16;

/// An endpoint as the kernel dumps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelEndpoint {
    pub(super) id: u8,
    pub(super) endpoint: MptcpEndpoint,
    /// Flags that roam6 never sets: fullmesh, and those of later kernels.
    pub(super) more_flags: bool,
}

/// The path manager.
pub(super) struct PathManager {
    family: Family,
    /// The multicast group of announcements.
    events_group: Option<u32>,
}

impl PathManager {
    /// Opens the family.
    ///
    /// # Errors
    /// The kernel has no MPTCP.
    pub(super) fn open() -> Result<PathManager, Error> {
        let (family, about) = Family::open(b"mptcp_pm\0")?.ok_or_else(|| Error::new("MPTCP", "the kernel has none"))?;
        let groups = about.iter().find_map(|reply| find(reply, FAMILY_GROUPS));
        Ok(PathManager { family, events_group: groups.and_then(|groups| group(groups, EVENTS)) })
    }

    /// The multicast group of announcements.
    ///
    /// # Errors
    /// The kernel is older than 5.13.
    pub(super) fn events_group(&self) -> Result<u32, Error> {
        self.events_group.ok_or_else(|| Error::new("MPTCP events", "not announced by kernels before 5.13"))
    }

    /// All endpoints without a port, also those of other programs, but not implicit ones.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn endpoints(&mut self) -> Result<Vec<KernelEndpoint>, Error> {
        let replies =
            self.family.request(GET_ADDRESS, NLM_F_DUMP, &[]).map_err(|(_, why)| Error::new("MPTCP endpoints", why))?;
        Ok(replies.iter().filter_map(|reply| read(reply)).collect())
    }

    pub(super) fn add(&mut self, endpoint: &MptcpEndpoint) -> Result<(), Error> {
        let link = endpoint.link.0.to_ne_bytes();
        let mut inside = address(endpoint.address);
        inside.extend(attribute(ADDRESS_FLAGS, &flags(endpoint.flags).to_ne_bytes()));
        inside.extend(attribute(ADDRESS_LINK, &link));
        self.change(ADD_ADDRESS, &attribute(ADDRESS | NESTED, &inside), endpoint.address)
    }

    /// Sets or clears the backup flag; subflows follow at once (MP_PRIO, RFC 8684 §3.3.8).
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn set_flags(&mut self, shown: &KernelEndpoint, flags_wanted: MptcpEndpointFlags) -> Result<(), Error> {
        let mut inside = address(shown.endpoint.address);
        inside.extend(attribute(ADDRESS_ID, &[shown.id]));
        inside.extend(attribute(ADDRESS_FLAGS, &flags(flags_wanted).to_ne_bytes()));
        self.change(SET_FLAGS, &attribute(ADDRESS | NESTED, &inside), shown.endpoint.address)
    }

    pub(super) fn delete(&mut self, shown: &KernelEndpoint) -> Result<(), Error> {
        let mut inside = address(shown.endpoint.address);
        inside.extend(attribute(ADDRESS_ID, &[shown.id]));
        self.change(DELETE_ADDRESS, &attribute(ADDRESS | NESTED, &inside), shown.endpoint.address)
    }

    pub(super) fn limits(&mut self) -> Result<MptcpLimits, Error> {
        let what = "MPTCP limits";
        let replies = self.family.request(GET_LIMITS, NLM_F_ACK, &[]).map_err(|(_, why)| Error::new(what, why))?;
        let value = |kind| replies.iter().find_map(|reply| u32_of(find(reply, kind)?));
        match (value(SUBFLOWS), value(ACCEPTED)) {
            (Some(subflows), Some(accepted)) => Ok(MptcpLimits { subflows, add_addr_accepted: accepted }),
            _ => Err(Error::new(what, "the kernel does not report them")),
        }
    }

    pub(super) fn set_limits(&mut self, limits: MptcpLimits) -> Result<(), Error> {
        let mut attributes = attribute(ACCEPTED, &limits.add_addr_accepted.to_ne_bytes());
        attributes.extend(attribute(SUBFLOWS, &limits.subflows.to_ne_bytes()));
        self.family.request(SET_LIMITS, NLM_F_ACK, &attributes).map_err(|(_, why)| Error::new("MPTCP limits", why))?;
        Ok(())
    }

    fn change(&mut self, command: u8, attributes: &[u8], address: Ipv6Addr) -> Result<(), Error> {
        let answered = self.family.request(command, NLM_F_ACK, attributes);
        answered.map(drop).map_err(|(_, why)| Error::new(format!("MPTCP endpoint {address}"), why))
    }
}

/// IPv4 addresses are IPv4-mapped ones.
fn address(address: Ipv6Addr) -> Vec<u8> {
    let ipv4 = address.to_ipv4_mapped();
    let family = u16::try_from(if ipv4.is_some() { libc::AF_INET } else { libc::AF_INET6 }).unwrap_or_default();
    let mut attributes = attribute(ADDRESS_FAMILY, &family.to_ne_bytes());
    attributes.extend(match ipv4 {
        Some(address) => attribute(ADDRESS_4, &address.octets()),
        None => attribute(ADDRESS_6, &address.octets()),
    });
    attributes
}

fn read_address(inside: &[u8]) -> Option<Ipv6Addr> {
    match find(inside, ADDRESS_6) {
        Some(octets) => Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?)),
        None => Some(Ipv4Addr::from(<[u8; 4]>::try_from(find(inside, ADDRESS_4)?).ok()?).to_ipv6_mapped()),
    }
}

fn flags(flags: MptcpEndpointFlags) -> u32 {
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    bit(flags.signal, SIGNAL) | bit(flags.subflow, SUBFLOW) | bit(flags.backup, BACKUP)
}

fn read(reply: &[u8]) -> Option<KernelEndpoint> {
    let inside = find(reply, ADDRESS)?;
    let address = read_address(inside)?;
    let flags = find(inside, ADDRESS_FLAGS).and_then(u32_of).unwrap_or_default();
    if flags & IMPLICIT != 0 || find(inside, ADDRESS_PORT).is_some_and(|port| port != [0, 0]) {
        return None;
    }
    let link = find(inside, ADDRESS_LINK).and_then(u32_of).unwrap_or_default();
    let shown = |bit| flags & bit != 0;
    let known = MptcpEndpointFlags { signal: shown(SIGNAL), subflow: shown(SUBFLOW), backup: shown(BACKUP) };
    Some(KernelEndpoint {
        id: *find(inside, ADDRESS_ID)?.first()?,
        endpoint: MptcpEndpoint { address, link: LinkId(link), flags: known },
        more_flags: flags & !(SIGNAL | SUBFLOW | BACKUP) != 0,
    })
}

/// The number of the group of a name.
fn group(groups: &[u8], name: &[u8]) -> Option<u32> {
    let groups = parse_attributes(groups).map(|(_, group)| group);
    let mut named = groups.filter(|group| find(group, GROUP_NAME) == Some(name));
    find(named.next()?, GROUP_ID).and_then(u32_of)
}
