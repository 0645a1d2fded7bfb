//! Options of neighbour discovery messages.
//! RFC 4861 §4.6, RFC 6275 §7.2 to §7.4, RFC 3963 §7.3, RFC 4191 §2.3, RFC 3971 §5.3.2, RFC 8106 §5,
//! RFC 8910 §2.3.
//!
//! See <https://www.rfc-editor.org/rfc/rfc4861#section-4.6>.

use crate::address::{LinkAddress, Prefix};
use crate::codepoint::set_bits;
use crate::domain::DomainName;
use crate::malformed::{Malformed, Why};
use crate::portal::PortalUri;
use crate::reader::Reader;
use crate::writer::{Alignment, Writer, low};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Options read in one message.
pub const MAX_OPTIONS: usize = 64;

const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
const PREFIX_INFORMATION: u8 = 3;
const MTU: u8 = 5;
const ADVERTISEMENT_INTERVAL: u8 = 7;
const HOME_AGENT_INFORMATION: u8 = 8;
const NONCE: u8 = 14;
const ROUTE_INFORMATION: u8 = 24;
const RECURSIVE_DNS: u8 = 25;
const DNS_SEARCH_LIST: u8 = 31;
const CAPTIVE_PORTAL: u8 = 37;

const PREFIX_ON_LINK: u8 = 0x80;
const PREFIX_AUTONOMOUS: u8 = 0x40;
const PREFIX_ROUTER: u8 = 0x20;
const HOME_AGENT_ROUTER: u16 = 0x8000;

/// How much a router wants to be used (RFC 4191 §2.1).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouterPreference {
    /// Low.
    Low,
    /// Medium, the default.
    #[default]
    Medium,
    /// High.
    High,
}

impl RouterPreference {
    pub(super) fn from_flags(flags: u8) -> Option<RouterPreference> {
        match flags >> 3 & 0b11 {
            0b00 => Some(RouterPreference::Medium),
            0b01 => Some(RouterPreference::High),
            0b11 => Some(RouterPreference::Low),
            _reserved => None,
        }
    }

    pub(super) fn to_flags(self) -> u8 {
        match self {
            RouterPreference::Medium => 0b00 << 3,
            RouterPreference::High => 0b01 << 3,
            RouterPreference::Low => 0b11 << 3,
        }
    }
}

/// An option. A known type in an unknown format is kept as `Unknown`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeighbourOption {
    /// Link-layer address of the sender.
    SourceLinkAddress(LinkAddress),
    /// Link-layer address of the target.
    TargetLinkAddress(LinkAddress),
    /// Prefix Information.
    PrefixInformation {
        /// The prefix itself.
        prefix: Prefix,
        /// The whole prefix field: with `router_address` a global address of the router, otherwise the prefix.
        address: Ipv6Addr,
        /// L: on-link.
        on_link: bool,
        /// A: for stateless address autoconfiguration.
        autonomous: bool,
        /// R: `address` is the router's own (RFC 6275 §7.2).
        router_address: bool,
        /// Valid lifetime, seconds; all ones is infinity.
        valid: u32,
        /// Preferred lifetime, seconds; all ones is infinity.
        preferred: u32,
    },
    /// MTU of the link, octets.
    Mtu(u32),
    /// A more specific route (RFC 4191 §2.3).
    RouteInformation {
        /// Destination prefix.
        prefix: Prefix,
        /// Preference among routers with the same route.
        preference: RouterPreference,
        /// Seconds; all ones is for ever.
        lifetime: u32,
    },
    /// The longest time between unsolicited advertisements (RFC 6275 §7.3).
    AdvertisementInterval {
        /// Milliseconds.
        milliseconds: u32,
    },
    /// What the sender is worth as home agent (RFC 6275 §7.4).
    HomeAgentInformation {
        /// R: serves mobile routers (RFC 3963 §7.3).
        router: bool,
        /// Preference: higher is better, 0 is the default.
        preference: u16,
        /// Seconds; 0 must not be sent.
        lifetime: u16,
    },
    /// Recursive DNS servers (RFC 8106 §5.1).
    RecursiveDns {
        /// Seconds; all ones is for ever.
        lifetime: u32,
        /// The servers; at most 127.
        servers: Vec<Ipv6Addr>,
    },
    /// Domains that short names are searched in (RFC 8106 §5.2).
    DnsSearchList {
        /// Seconds; all ones is for ever.
        lifetime: u32,
        /// The domains, the first one first.
        domains: Vec<DomainName>,
    },
    /// The API of a captive portal (RFC 8910 §2.3).
    CaptivePortal(PortalUri),
    /// Nonce, usually six octets: distinguishes a looped-back solicitation from another node's (RFC 3971 §5.3.2, RFC 7527).
    Nonce(Vec<u8>),
    /// Any other option.
    Unknown {
        /// Type.
        kind: u8,
        /// Contents after the length field; two octets less than a multiple of eight.
        body: Vec<u8>,
    },
}

pub(crate) fn read_all(reader: &mut Reader<'_>) -> Result<Vec<NeighbourOption>, Malformed> {
    reader.list(MAX_OPTIONS, |reader| {
        let at = reader.position();
        let kind = reader.u8()?;
        let units = reader.u8()?;
        if units == 0 {
            // Would never end: RFC 4861 §4.6 has the whole packet discarded.
            return Err(Malformed { what: "option", at, why: Why::Length { has: 0, needs: 1 } });
        }
        let body = reader.bytes(usize::from(units) * 8 - 2)?;
        let known = read_known(kind, Reader::new("option", body)).ok().flatten();
        Ok(known.unwrap_or_else(|| NeighbourOption::Unknown { kind, body: body.to_vec() }))
    })
}

pub(crate) fn write_all<'w>(options: &[NeighbourOption], writer: &'w mut Writer) -> &'w mut Writer {
    for option in options {
        let mut body = Writer::new();
        option.write_body(&mut body);
        let body = body.finish();
        // The length counts eight octets, type and length among them; a longer option is left out.
        let padding = Alignment::new(8, 0).padding(body.len() + 2);
        let units = (body.len() + 2 + padding) / 8;
        if units <= usize::from(u8::MAX) {
            writer.u8(option.kind()).u8(low(units)).bytes(&body).zeros(padding);
        }
    }
    writer
}

fn read_known(kind: u8, mut body: Reader<'_>) -> Result<Option<NeighbourOption>, Malformed> {
    let option = match kind {
        SOURCE_LINK_ADDRESS => NeighbourOption::SourceLinkAddress(LinkAddress(body.array()?)),
        TARGET_LINK_ADDRESS => NeighbourOption::TargetLinkAddress(LinkAddress(body.array()?)),
        PREFIX_INFORMATION => read_prefix_information(&mut body)?,
        MTU => NeighbourOption::Mtu(u32_after_reserved(&mut body)?),
        ADVERTISEMENT_INTERVAL => {
            NeighbourOption::AdvertisementInterval { milliseconds: u32_after_reserved(&mut body)? }
        }
        HOME_AGENT_INFORMATION => NeighbourOption::HomeAgentInformation {
            router: body.u16()? & HOME_AGENT_ROUTER != 0,
            preference: body.u16()?,
            lifetime: body.u16()?,
        },
        NONCE => NeighbourOption::Nonce(body.rest().to_vec()),
        ROUTE_INFORMATION => return read_route_information(&mut body),
        RECURSIVE_DNS => {
            let lifetime = u32_after_reserved(&mut body)?;
            NeighbourOption::RecursiveDns { lifetime, servers: body.list(usize::MAX, Reader::address)? }
        }
        DNS_SEARCH_LIST => {
            let lifetime = u32_after_reserved(&mut body)?;
            let domains = DomainName::read_list(&mut body)?;
            return Ok(domains.map(|domains| NeighbourOption::DnsSearchList { lifetime, domains }));
        }
        CAPTIVE_PORTAL => return Ok(read_captive_portal(body.rest())),
        _ => return Ok(None),
    };
    body.end()?;
    Ok(Some(option))
}

/// The next 32-bit field, which follows two reserved octets.
fn u32_after_reserved(body: &mut Reader<'_>) -> Result<u32, Malformed> {
    body.skip(2)?;
    body.u32()
}

fn read_prefix_information(body: &mut Reader<'_>) -> Result<NeighbourOption, Malformed> {
    let length = body.u8()?;
    let flags = body.u8()?;
    let valid = body.u32()?;
    let preferred = body.u32()?;
    body.skip(4)?;
    let address = body.address()?;
    Ok(NeighbourOption::PrefixInformation {
        prefix: Prefix::new(address, length).ok_or_else(|| body.malformed(Why::Value(length.into())))?,
        address,
        on_link: flags & PREFIX_ON_LINK != 0,
        autonomous: flags & PREFIX_AUTONOMOUS != 0,
        router_address: flags & PREFIX_ROUTER != 0,
        valid,
        preferred,
    })
}

/// `None` if the option is to be ignored: reserved preference (RFC 4191 §2.3), or a prefix longer than its field.
fn read_route_information(body: &mut Reader<'_>) -> Result<Option<NeighbourOption>, Malformed> {
    let length = body.u8()?;
    let preference = RouterPreference::from_flags(body.u8()?);
    let lifetime = body.u32()?;
    let field = body.rest();
    let mut octets = [0; 16];
    for (to, from) in octets.iter_mut().zip(field) {
        *to = *from;
    }
    if usize::from(length) > field.len() * 8 || field.len() > octets.len() {
        return Ok(None);
    }
    let (Some(prefix), Some(preference)) = (Prefix::new(octets.into(), length), preference) else { return Ok(None) };
    Ok(Some(NeighbourOption::RouteInformation { prefix, preference, lifetime }))
}

/// The URI, which zero octets pad to a multiple of eight.
fn read_captive_portal(field: &[u8]) -> Option<NeighbourOption> {
    let end = field.iter().rposition(|octet| *octet != 0)?;
    let (uri, padding) = field.split_at_checked(end + 1)?;
    PortalUri::read(uri).filter(|_| padding.len() < 8).map(NeighbourOption::CaptivePortal)
}

impl NeighbourOption {
    /// Type.
    fn kind(&self) -> u8 {
        match self {
            NeighbourOption::SourceLinkAddress(_) => SOURCE_LINK_ADDRESS,
            NeighbourOption::TargetLinkAddress(_) => TARGET_LINK_ADDRESS,
            NeighbourOption::PrefixInformation { .. } => PREFIX_INFORMATION,
            NeighbourOption::Mtu(_) => MTU,
            NeighbourOption::RouteInformation { .. } => ROUTE_INFORMATION,
            NeighbourOption::AdvertisementInterval { .. } => ADVERTISEMENT_INTERVAL,
            NeighbourOption::HomeAgentInformation { .. } => HOME_AGENT_INFORMATION,
            NeighbourOption::RecursiveDns { .. } => RECURSIVE_DNS,
            NeighbourOption::DnsSearchList { .. } => DNS_SEARCH_LIST,
            NeighbourOption::CaptivePortal(_) => CAPTIVE_PORTAL,
            NeighbourOption::Nonce(_) => NONCE,
            NeighbourOption::Unknown { kind, .. } => *kind,
        }
    }

    /// Writes the contents after the length field.
    fn write_body<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        match *self {
            NeighbourOption::SourceLinkAddress(address) | NeighbourOption::TargetLinkAddress(address) => {
                body.bytes(&address.0)
            }
            NeighbourOption::PrefixInformation {
                prefix,
                address,
                on_link,
                autonomous,
                router_address,
                valid,
                preferred,
            } => {
                let flags =
                    [(on_link, PREFIX_ON_LINK), (autonomous, PREFIX_AUTONOMOUS), (router_address, PREFIX_ROUTER)];
                let field = if prefix.contains(address) { address } else { prefix.address() };
                body.u8(prefix.length()).u8(set_bits(flags)).u32(valid).u32(preferred).u32(0).address(field)
            }
            NeighbourOption::Mtu(mtu) => body.u16(0).u32(mtu),
            NeighbourOption::RouteInformation { prefix, preference, lifetime } => {
                let octets = prefix.address().octets();
                let field = match prefix.length() {
                    0 => &[],
                    1..=64 => octets.first_chunk::<8>().map_or(&[][..], |half| half),
                    _ => &octets[..],
                };
                body.u8(prefix.length()).u8(preference.to_flags()).u32(lifetime).bytes(field)
            }
            NeighbourOption::AdvertisementInterval { milliseconds } => body.u16(0).u32(milliseconds),
            NeighbourOption::HomeAgentInformation { router, preference, lifetime } => {
                body.u16(set_bits([(router, HOME_AGENT_ROUTER)])).u16(preference).u16(lifetime)
            }
            NeighbourOption::RecursiveDns { lifetime, ref servers } => {
                body.u16(0).u32(lifetime).list(servers, |body, server| body.address(*server))
            }
            NeighbourOption::DnsSearchList { lifetime, ref domains } => {
                body.u16(0).u32(lifetime).list(domains, |body, domain| domain.write(body))
            }
            NeighbourOption::CaptivePortal(ref uri) => body.bytes(uri.octets()),
            NeighbourOption::Nonce(ref octets) | NeighbourOption::Unknown { body: ref octets, .. } => {
                body.bytes(octets)
            }
        }
    }
}
