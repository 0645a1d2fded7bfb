//! DHCPv6 options: a table of their formats. Options inside options are parsed as deep as the standard nests them.
//! RFC 8415 §21, RFC 3646 §3 and §4, RFC 8910 §2.2.
//!
//! See <https://www.rfc-editor.org/rfc/rfc8415#section-21>.

use super::duid::{DUID_LENGTH, Duid};
use crate::address;
use crate::codepoint::code_points;
use crate::domain::DomainName;
use crate::malformed::{Malformed, Why};
use crate::portal::PortalUri;
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Options parsed in one message, or in one option that contains options.
pub const MAX_OPTIONS: usize = 64;
/// Nesting depth of option lists: message, identity association, lease.
pub const MAX_DEPTH: u8 = 3;

/// Values of the option code field.
pub mod kind {
    /// Client Identifier.
    pub const CLIENT_ID: u16 = 1;
    /// Server Identifier.
    pub const SERVER_ID: u16 = 2;
    /// Identity Association for Non-temporary Addresses.
    pub const IA_NA: u16 = 3;
    /// IA Address.
    pub const IA_ADDRESS: u16 = 5;
    /// Option Request.
    pub const OPTION_REQUEST: u16 = 6;
    /// Preference.
    pub const PREFERENCE: u16 = 7;
    /// Elapsed Time.
    pub const ELAPSED_TIME: u16 = 8;
    /// Relay Message.
    pub const RELAY_MESSAGE: u16 = 9;
    /// Status Code.
    pub const STATUS_CODE: u16 = 13;
    /// Rapid Commit.
    pub const RAPID_COMMIT: u16 = 14;
    /// Interface-Id.
    pub const INTERFACE_ID: u16 = 18;
    /// Reconfigure Accept.
    pub const RECONFIGURE_ACCEPT: u16 = 20;
    /// DNS Recursive Name Server (RFC 3646 §3).
    pub const DNS_SERVERS: u16 = 23;
    /// Domain Search List (RFC 3646 §4).
    pub const DOMAIN_LIST: u16 = 24;
    /// Identity Association for Prefix Delegation.
    pub const IA_PD: u16 = 25;
    /// IA Prefix.
    pub const IA_PREFIX: u16 = 26;
    /// SOL_MAX_RT.
    pub const SOLICIT_MAX_RT: u16 = 82;
    /// Captive-Portal (RFC 8910 §2.2).
    pub const CAPTIVE_PORTAL: u16 = 103;
}

/// An option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DhcpOption {
    /// Who the client is (RFC 8415 §21.2).
    ClientId(Duid),
    /// Who the server is (RFC 8415 §21.3).
    ServerId(Duid),
    /// Addresses that are leased together (RFC 8415 §21.4).
    Addresses(IdentityAssociation),
    /// One address (RFC 8415 §21.6).
    Address(Address),
    /// Codes of the options that the client requests (RFC 8415 §21.7).
    OptionRequest(Vec<u16>),
    /// Preference of the server; higher is better (RFC 8415 §21.8).
    Preference(u8),
    /// How long the exchange has lasted, in hundredths of a second; all ones for that and longer (RFC 8415 §21.9).
    ElapsedTime(u16),
    /// A relayed message (RFC 8415 §21.10), for [`super::Message::parse`].
    RelayMessage(Vec<u8>),
    /// Result of the message or option it is in (RFC 8415 §21.13).
    Status(Status),
    /// An exchange of two messages instead of four (RFC 8415 §21.14).
    RapidCommit,
    /// The relay's interface towards the client (RFC 8415 §21.18).
    InterfaceId(Vec<u8>),
    /// The client accepts Reconfigure messages (RFC 8415 §21.20).
    ReconfigureAccept,
    /// Recursive DNS servers, the preferred first (RFC 3646 §3).
    DnsServers(Vec<Ipv6Addr>),
    /// DNS search domains, the first one first (RFC 3646 §4).
    DomainList(Vec<DomainName>),
    /// Prefixes that are leased together (RFC 8415 §21.21).
    Prefixes(IdentityAssociation),
    /// One prefix (RFC 8415 §21.22).
    Prefix(Prefix),
    /// Longest time between two Solicits, seconds (RFC 8415 §21.24).
    SolicitMaxRt(u32),
    /// The API of a captive portal (RFC 8910 §2.2).
    CaptivePortal(PortalUri),
    /// Any other option, to be ignored.
    Unknown {
        /// Option code.
        kind: u16,
        /// What follows the length.
        body: Vec<u8>,
    },
}

/// Identifier of an identity association of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Iaid(pub u32);

/// When to extend the leases of an association, seconds; 0 leaves it to the client (RFC 8415 §14.2).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Timers {
    /// T1, seconds: time to renew with the server that granted the leases.
    pub renew: u32,
    /// T2, seconds: time to rebind with any server.
    pub rebind: u32,
}

/// An identity association: IA_NA for non-temporary addresses, IA_PD for prefix delegation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityAssociation {
    /// IAID.
    pub id: Iaid,
    /// T1 and T2.
    pub timers: Timers,
    /// Addresses or prefixes, and status.
    pub options: Vec<DhcpOption>,
}

/// IA Prefix: a delegated prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix; `::` with a length requests that length.
    pub prefix: address::Prefix,
    /// Preferred lifetime, seconds.
    pub preferred: u32,
    /// Valid lifetime, seconds.
    pub valid: u32,
    /// Status Code and other options.
    pub options: Vec<DhcpOption>,
}

/// IA Address: a leased address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: Ipv6Addr,
    /// Preferred lifetime, seconds.
    pub preferred: u32,
    /// Valid lifetime, seconds.
    pub valid: u32,
    /// Status Code and other options.
    pub options: Vec<DhcpOption>,
}

/// Status Code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: StatusCode,
    /// Message for the operator; UTF-8 if the server conforms to the standard.
    pub message: Vec<u8>,
}

code_points! {
    /// Status codes (RFC 8415 §7.5).
    StatusCode(u16) as "status" {
        SUCCESS = 0, "success";
        UNSPECIFIED = 1, "unspecified failure";
        NO_ADDRESSES = 2, "no addresses available";
        NO_BINDING = 3, "no such lease";
        NOT_ON_LINK = 4, "not for this link";
        USE_MULTICAST = 5, "multicast wanted";
        NO_PREFIXES = 6, "no prefixes available";
    }
}

/// Format of a known option.
struct OptionFormat {
    kind: u16,
    /// Minimum length of the body, octets.
    min_length: usize,
    /// Parses the body at the given nesting depth.
    read: fn(&mut Reader<'_>, u8) -> Result<DhcpOption, Malformed>,
}

const fn row(kind: u16, least: usize, read: fn(&mut Reader<'_>, u8) -> Result<DhcpOption, Malformed>) -> OptionFormat {
    OptionFormat { kind, min_length: least, read }
}

const TABLE: [OptionFormat; 18] = [
    row(kind::CLIENT_ID, *DUID_LENGTH.start(), |body, _| Duid::read(body).map(DhcpOption::ClientId)),
    row(kind::SERVER_ID, *DUID_LENGTH.start(), |body, _| Duid::read(body).map(DhcpOption::ServerId)),
    row(kind::IA_NA, 12, |body, depth| read_association(body, depth).map(DhcpOption::Addresses)),
    row(kind::IA_ADDRESS, 24, |body, depth| {
        let (address, preferred, valid) = (body.address()?, body.u32()?, body.u32()?);
        Ok(DhcpOption::Address(Address { address, preferred, valid, options: read_list(body, depth)? }))
    }),
    row(kind::OPTION_REQUEST, 0, |body, _| Ok(DhcpOption::OptionRequest(body.list(usize::MAX, Reader::u16)?))),
    row(kind::PREFERENCE, 1, |body, _| Ok(DhcpOption::Preference(body.u8()?))),
    row(kind::ELAPSED_TIME, 2, |body, _| Ok(DhcpOption::ElapsedTime(body.u16()?))),
    row(kind::RELAY_MESSAGE, 0, |body, _| Ok(DhcpOption::RelayMessage(body.rest().to_vec()))),
    row(kind::STATUS_CODE, 2, |body, _| {
        let code = StatusCode(body.u16()?);
        Ok(DhcpOption::Status(Status { code, message: body.rest().to_vec() }))
    }),
    row(kind::RAPID_COMMIT, 0, |_, _| Ok(DhcpOption::RapidCommit)),
    row(kind::INTERFACE_ID, 0, |body, _| Ok(DhcpOption::InterfaceId(body.rest().to_vec()))),
    row(kind::RECONFIGURE_ACCEPT, 0, |_, _| Ok(DhcpOption::ReconfigureAccept)),
    row(kind::DNS_SERVERS, 0, |body, _| Ok(DhcpOption::DnsServers(body.list(usize::MAX, Reader::address)?))),
    row(kind::DOMAIN_LIST, 0, |body, _| {
        let octets = body.rest();
        let domains = DomainName::read_list(&mut Reader::new("domain list", octets)).ok().flatten();
        // There is no padding here (RFC 3646 §4).
        let whole = |domains: &Vec<DomainName>| domains.iter().map(DomainName::octets).sum::<usize>() == octets.len();
        let unknown = || DhcpOption::Unknown { kind: kind::DOMAIN_LIST, body: octets.to_vec() };
        Ok(domains.filter(whole).map_or_else(unknown, DhcpOption::DomainList))
    }),
    row(kind::IA_PD, 12, |body, depth| read_association(body, depth).map(DhcpOption::Prefixes)),
    row(kind::IA_PREFIX, 25, read_prefix),
    row(kind::SOLICIT_MAX_RT, 4, |body, _| Ok(DhcpOption::SolicitMaxRt(body.u32()?))),
    row(kind::CAPTIVE_PORTAL, 0, |body, _| {
        let octets = body.rest();
        let unknown = || DhcpOption::Unknown { kind: kind::CAPTIVE_PORTAL, body: octets.to_vec() };
        Ok(PortalUri::read(octets).map_or_else(unknown, DhcpOption::CaptivePortal))
    }),
];

pub(super) fn read_all(reader: &mut Reader<'_>) -> Result<Vec<DhcpOption>, Malformed> {
    read_list(reader, 0)
}

/// Reads a list of options that is nested in `depth` others.
fn read_list(reader: &mut Reader<'_>, depth: u8) -> Result<Vec<DhcpOption>, Malformed> {
    let mut options = Vec::new();
    while !reader.is_empty() {
        let at = reader.position();
        if depth == MAX_DEPTH {
            return Err(Malformed { what: "DHCPv6 options", at, why: Why::TooMany(MAX_DEPTH.into()) });
        }
        if options.len() == MAX_OPTIONS {
            return Err(Malformed { what: "DHCPv6 options", at, why: Why::TooMany(MAX_OPTIONS) });
        }
        let kind = reader.u16()?;
        let length = reader.u16()?;
        let mut body = reader.part("DHCPv6 option", length.into())?;
        options.push(read_one(kind, &mut body, depth)?);
    }
    Ok(options)
}

fn read_one(kind: u16, body: &mut Reader<'_>, depth: u8) -> Result<DhcpOption, Malformed> {
    let Some(row) = const { &TABLE }.iter().find(|row| row.kind == kind) else {
        return Ok(DhcpOption::Unknown { kind, body: body.rest().to_vec() });
    };
    if body.len() < row.min_length {
        return Err(body.malformed(Why::Length { has: body.len(), needs: row.min_length }));
    }
    let option = (row.read)(body, depth + 1)?;
    body.end()?;
    Ok(option)
}

fn read_association(body: &mut Reader<'_>, depth: u8) -> Result<IdentityAssociation, Malformed> {
    let (id, timers) = (Iaid(body.u32()?), Timers { renew: body.u32()?, rebind: body.u32()? });
    Ok(IdentityAssociation { id, timers, options: read_list(body, depth)? })
}

fn read_prefix(body: &mut Reader<'_>, depth: u8) -> Result<DhcpOption, Malformed> {
    let (preferred, valid) = (body.u32()?, body.u32()?);
    let length = body.u8()?;
    let wrong = body.malformed(Why::Value(length.into()));
    let prefix = address::Prefix::new(body.address()?, length).ok_or(wrong)?;
    Ok(DhcpOption::Prefix(Prefix { prefix, preferred, valid, options: read_list(body, depth)? }))
}

pub(super) fn write_all<'w>(options: &[DhcpOption], writer: &'w mut Writer) -> &'w mut Writer {
    for option in options {
        let mut body = Writer::new();
        option.write_body(&mut body);
        let body = body.finish();
        if let Ok(length) = u16::try_from(body.len()) {
            writer.u16(option.kind()).u16(length).bytes(&body);
        }
    }
    writer
}

impl DhcpOption {
    /// Option code.
    fn kind(&self) -> u16 {
        match self {
            DhcpOption::ClientId(_) => kind::CLIENT_ID,
            DhcpOption::ServerId(_) => kind::SERVER_ID,
            DhcpOption::Addresses(_) => kind::IA_NA,
            DhcpOption::Address(_) => kind::IA_ADDRESS,
            DhcpOption::OptionRequest(_) => kind::OPTION_REQUEST,
            DhcpOption::Preference(_) => kind::PREFERENCE,
            DhcpOption::ElapsedTime(_) => kind::ELAPSED_TIME,
            DhcpOption::RelayMessage(_) => kind::RELAY_MESSAGE,
            DhcpOption::Status(_) => kind::STATUS_CODE,
            DhcpOption::RapidCommit => kind::RAPID_COMMIT,
            DhcpOption::InterfaceId(_) => kind::INTERFACE_ID,
            DhcpOption::ReconfigureAccept => kind::RECONFIGURE_ACCEPT,
            DhcpOption::DnsServers(_) => kind::DNS_SERVERS,
            DhcpOption::DomainList(_) => kind::DOMAIN_LIST,
            DhcpOption::Prefixes(_) => kind::IA_PD,
            DhcpOption::Prefix(_) => kind::IA_PREFIX,
            DhcpOption::SolicitMaxRt(_) => kind::SOLICIT_MAX_RT,
            DhcpOption::CaptivePortal(_) => kind::CAPTIVE_PORTAL,
            DhcpOption::Unknown { kind, .. } => *kind,
        }
    }

    /// Writes what follows the length.
    fn write_body<'w>(&self, body: &'w mut Writer) -> &'w mut Writer {
        match self {
            DhcpOption::ClientId(duid) | DhcpOption::ServerId(duid) => body.bytes(duid.octets()),
            DhcpOption::Addresses(association) | DhcpOption::Prefixes(association) => {
                let IdentityAssociation { id, timers, options } = association;
                write_all(options, body.u32(id.0).u32(timers.renew).u32(timers.rebind))
            }
            DhcpOption::Address(Address { address, preferred, valid, options }) => {
                write_all(options, body.address(*address).u32(*preferred).u32(*valid))
            }
            DhcpOption::Prefix(Prefix { prefix, preferred, valid, options }) => {
                body.u32(*preferred).u32(*valid).u8(prefix.length()).address(prefix.address());
                write_all(options, body)
            }
            DhcpOption::OptionRequest(kinds) => body.list(kinds, |body, kind| body.u16(*kind)),
            DhcpOption::Preference(preference) => body.u8(*preference),
            DhcpOption::ElapsedTime(hundredths) => body.u16(*hundredths),
            DhcpOption::Status(status) => body.u16(status.code.0).bytes(&status.message),
            DhcpOption::RapidCommit | DhcpOption::ReconfigureAccept => body,
            DhcpOption::DnsServers(servers) => body.list(servers, |body, server| body.address(*server)),
            DhcpOption::DomainList(domains) => body.list(domains, |body, domain| domain.write(body)),
            DhcpOption::SolicitMaxRt(seconds) => body.u32(*seconds),
            DhcpOption::CaptivePortal(uri) => body.bytes(uri.octets()),
            DhcpOption::RelayMessage(octets)
            | DhcpOption::InterfaceId(octets)
            | DhcpOption::Unknown { body: octets, .. } => body.bytes(octets),
        }
    }
}
