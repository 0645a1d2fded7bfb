//! Router and Neighbour Solicitations and Advertisements, with their validity checks.
//! RFC 4861 §4.1 to §4.4, §6.1 and §7.1; flags of RFC 6275 §7.1, RFC 4191 §2.2, RFC 4389 §4.1.3.1.
//!
//! See <https://www.rfc-editor.org/rfc/rfc4861#section-4.1>.

use super::option::{self, NeighbourOption, RouterPreference};
use crate::codepoint::set_bits;
use crate::ip6::Datagram;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

const RA_MANAGED: u8 = 0x80;
const RA_OTHER: u8 = 0x40;
const RA_HOME_AGENT: u8 = 0x20;
const RA_PROXY: u8 = 0x04;
const NA_ROUTER: u32 = 0x8000_0000;
const NA_SOLICITED: u32 = 0x4000_0000;
const NA_OVERRIDE: u32 = 0x2000_0000;
/// Offset of the target address in neighbour solicitations and advertisements.
const TARGET_AT: usize = 8;

/// A Router Solicitation.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RouterSolicitation {
    /// Options.
    pub options: Vec<NeighbourOption>,
}

/// A Router Advertisement.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// Cur Hop Limit for hosts; 0 is unspecified.
    pub hop_limit: u8,
    /// M: addresses by DHCPv6.
    pub managed: bool,
    /// O: other configuration by DHCPv6.
    pub other: bool,
    /// H: serves as home agent on this link.
    pub home_agent: bool,
    /// Default router preference.
    pub preference: RouterPreference,
    /// P: relayed by a neighbour discovery proxy.
    pub proxy: bool,
    /// Router Lifetime, seconds; 0: not a default router.
    pub lifetime: u16,
    /// Reachable Time, milliseconds; 0 is unspecified.
    pub reachable_ms: u32,
    /// Retrans Timer, milliseconds; 0 is unspecified.
    pub retransmit_ms: u32,
    /// Options.
    pub options: Vec<NeighbourOption>,
}

/// A Neighbour Solicitation: address resolution, reachability or duplicate address detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourSolicitation {
    /// Target address.
    pub target: Ipv6Addr,
    /// Options.
    pub options: Vec<NeighbourOption>,
}

/// A Neighbour Advertisement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourAdvertisement {
    /// R: the sender is a router.
    pub router: bool,
    /// S: answers a solicitation.
    pub solicited: bool,
    /// O: overrides the cached link-layer address.
    pub overrides: bool,
    /// Target address.
    pub target: Ipv6Addr,
    /// Options.
    pub options: Vec<NeighbourOption>,
}

impl RouterSolicitation {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.skip(4)?;
        Ok(Self { options: option::read_all(reader)? })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        writer.u32(0);
        option::write_all(&self.options, writer)
    }

    pub(super) fn check(&self, datagram: &Datagram<'_>) -> Result<(), Malformed> {
        let anonymous = datagram.source.is_unspecified();
        require(!(anonymous && has_source_link_address(&self.options)), "source link-layer address", TARGET_AT)
    }
}

impl RouterAdvertisement {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let hop_limit = reader.u8()?;
        let flags = reader.u8()?;
        Ok(Self {
            hop_limit,
            managed: flags & RA_MANAGED != 0,
            other: flags & RA_OTHER != 0,
            home_agent: flags & RA_HOME_AGENT != 0,
            // The reserved value counts as medium (RFC 4191 §2.2).
            preference: RouterPreference::from_flags(flags).unwrap_or_default(),
            proxy: flags & RA_PROXY != 0,
            lifetime: reader.u16()?,
            reachable_ms: reader.u32()?,
            retransmit_ms: reader.u32()?,
            options: option::read_all(reader)?,
        })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        let flags = self.preference.to_flags()
            | set_bits([
                (self.managed, RA_MANAGED),
                (self.other, RA_OTHER),
                (self.home_agent, RA_HOME_AGENT),
                (self.proxy, RA_PROXY),
            ]);
        writer.u8(self.hop_limit).u8(flags).u16(self.lifetime).u32(self.reachable_ms).u32(self.retransmit_ms);
        option::write_all(&self.options, writer)
    }

    pub(super) fn check(&self, datagram: &Datagram<'_>) -> Result<(), Malformed> {
        require(datagram.source.is_unicast_link_local(), "source address", 0)
    }
}

impl NeighbourSolicitation {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.skip(4)?;
        Ok(Self { target: reader.address()?, options: option::read_all(reader)? })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        writer.u32(0).address(self.target);
        option::write_all(&self.options, writer)
    }

    pub(super) fn check(&self, datagram: &Datagram<'_>) -> Result<(), Malformed> {
        require(!self.target.is_multicast(), "target address", TARGET_AT)?;
        if datagram.source.is_unspecified() {
            let to_group = datagram.destination == super::solicited_node(datagram.destination);
            require(to_group, "destination address", 0)?;
            require(!has_source_link_address(&self.options), "source link-layer address", TARGET_AT + 16)?;
        }
        Ok(())
    }
}

impl NeighbourAdvertisement {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let flags = reader.u32()?;
        Ok(Self {
            router: flags & NA_ROUTER != 0,
            solicited: flags & NA_SOLICITED != 0,
            overrides: flags & NA_OVERRIDE != 0,
            target: reader.address()?,
            options: option::read_all(reader)?,
        })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        let flags = [(self.router, NA_ROUTER), (self.solicited, NA_SOLICITED), (self.overrides, NA_OVERRIDE)];
        writer.u32(set_bits(flags)).address(self.target);
        option::write_all(&self.options, writer)
    }

    pub(super) fn check(&self, datagram: &Datagram<'_>) -> Result<(), Malformed> {
        require(!self.target.is_multicast(), "target address", TARGET_AT)?;
        require(!(self.solicited && datagram.destination.is_multicast()), "solicited flag", 4)
    }
}

fn has_source_link_address(options: &[NeighbourOption]) -> bool {
    options.iter().any(|option| matches!(option, NeighbourOption::SourceLinkAddress(_)))
}

fn require(holds: bool, what: &'static str, at: usize) -> Result<(), Malformed> {
    if holds { Ok(()) } else { Err(Malformed { what, at, why: Why::Misplaced }) }
}
