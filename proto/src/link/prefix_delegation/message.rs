//! Messages of the client as packets, and the parser of server messages: RFC 8415 §16.3, §16.10, §17.2, §18.2; RFC
//! 3646.

use super::DhcpInterface;
use crate::{Transmit, Via};
use roam6_wire::dhcp6::option::kind;
use roam6_wire::dhcp6::{
    self, ALL_RELAYS_AND_SERVERS, CLIENT_PORT, ClientServerMessage, DhcpOption, Duid, Iaid, IdentityAssociation,
    Message, MessageType, SERVER_PORT, StatusCode, Timers, TransactionId,
};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::udp::Udp;
use roam6_wire::{DomainName, Malformed, PortalUri, Prefix};
use std::net::Ipv6Addr;

/// The type of identity association that a client requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IaType {
    /// Prefixes (IA_PD, RFC 8415 §21.21).
    IaPd,
    /// An address (IA_NA, RFC 8415 §21.4), which is leased as a prefix of 128 bits.
    IaNa,
}

/// The configuration of a DHCPv6 client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpClientConfig {
    /// The client identifier; the same on all uplinks and after every start.
    pub duid: Duid,
    /// The identity association of the uplink; the same after every start.
    pub iaid: Iaid,
    /// The type of the association.
    pub ia_type: IaType,
    /// Length of the requested prefix, bits; 0 leaves it to the server.
    pub prefix_length_hint: u8,
    /// Prefixes that are never accepted from a server: the home network's and the mobile network's own.
    pub excluded: Vec<Prefix>,
}

impl DhcpClientConfig {
    /// The prefix-length hint, as an IA Prefix option has it (RFC 8415 §18.2.4).
    pub(super) fn prefix_hint(&self) -> Option<Prefix> {
        let length = if self.ia_type == IaType::IaPd { self.prefix_length_hint } else { 0 };
        Prefix::new(Ipv6Addr::UNSPECIFIED, length).filter(|hint| hint.length() > 0)
    }
}

/// The relevant content of an Advertise or a Reply.
#[derive(Debug)]
pub(super) struct ServerMessage {
    pub(super) kind: MessageType,
    pub(super) transaction: TransactionId,
    pub(super) server: Duid,
    pub(super) preference: u8,
    pub(super) rapid_commit: bool,
    pub(super) solicit_max: Option<u32>,
    pub(super) timers: Timers,
    pub(super) prefixes: Vec<dhcp6::Prefix>,
    /// Recursive DNS servers and search domains of the network.
    pub(super) dns: DnsInfo,
    status: Option<StatusCode>,
    /// Status of the association.
    association_status: Option<StatusCode>,
}

/// The DNS configuration of a network, and its captive portal.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DnsInfo {
    /// Recursive DNS servers, in order of preference.
    pub servers: Vec<Ipv6Addr>,
    /// Search domains.
    pub search_domains: Vec<DomainName>,
    /// The API of its captive portal (RFC 8910 §2.2).
    pub captive_portal: Option<PortalUri>,
}

impl ServerMessage {
    /// The error status, if any; the association's precedes the message's.
    pub(super) fn error_status(&self) -> Option<StatusCode> {
        let refused = |status: &StatusCode| *status != StatusCode::SUCCESS;
        self.association_status.filter(refused).or(self.status.filter(refused))
    }
}

/// The options of a client message. The server sets lifetimes, so they are 0 here (RFC 8415 §21.22).
pub(super) fn options(
    client: &DhcpClientConfig,
    kind: MessageType,
    server: Option<&Duid>,
    elapsed: u16,
    wanted: &[Prefix],
) -> Vec<DhcpOption> {
    let (preferred, valid) = (0, 0);
    let lease = |prefix: &Prefix| match client.ia_type {
        IaType::IaPd => DhcpOption::Prefix(dhcp6::Prefix { prefix: *prefix, preferred, valid, options: Vec::new() }),
        IaType::IaNa => {
            DhcpOption::Address(dhcp6::Address { address: prefix.address(), preferred, valid, options: Vec::new() })
        }
    };
    let leases = wanted.iter().map(lease).collect();
    let mut options = vec![DhcpOption::ClientId(client.duid.clone())];
    options.extend(server.cloned().map(DhcpOption::ServerId));
    options.push(DhcpOption::ElapsedTime(elapsed));
    if kind != MessageType::Release {
        options.push(DhcpOption::OptionRequest(vec![
            kind::DNS_SERVERS,
            kind::DOMAIN_LIST,
            kind::SOLICIT_MAX_RT,
            kind::CAPTIVE_PORTAL,
        ]));
    }
    if kind == MessageType::Solicit {
        options.push(DhcpOption::RapidCommit);
    }
    let association = IdentityAssociation { id: client.iaid, timers: Timers::default(), options: leases };
    options.push(match client.ia_type {
        IaType::IaPd => DhcpOption::Prefixes(association),
        IaType::IaNa => DhcpOption::Addresses(association),
    });
    options
}

/// A message to all servers and relays of a link.
pub(super) fn emit(interface: DhcpInterface, exchange: ClientServerMessage) -> Transmit {
    let header = Header::new(interface.source, ALL_RELAYS_AND_SERVERS);
    let payload = Message::Exchange(exchange).emit();
    let udp = Udp { source: CLIENT_PORT, destination: SERVER_PORT, payload: &payload };
    let bytes = ip6::emit(&header, protocol::UDP, &udp.emit(header.source, header.destination));
    Transmit { via: Via::Link(interface.link), bytes }
}

/// Parses a packet; `None` if it is not a server message for this client.
pub(super) fn parse(datagram: &Datagram<'_>, client: &DhcpClientConfig) -> Result<Option<ServerMessage>, Malformed> {
    if datagram.protocol != protocol::UDP {
        return Ok(None);
    }
    let udp = Udp::parse(datagram.payload, datagram.real_source(), datagram.real_destination())?;
    if udp.destination != CLIENT_PORT {
        return Ok(None);
    }
    Ok(match Message::parse(udp.payload)? {
        Message::Exchange(exchange) => server_message(exchange, client),
        _ => None,
    })
}

/// RFC 8415 §16.3 and §16.10: a valid message names its server and this client.
fn server_message(exchange: ClientServerMessage, client: &DhcpClientConfig) -> Option<ServerMessage> {
    if !matches!(exchange.kind, MessageType::Advertise | MessageType::Reply) {
        return None;
    }
    let (mut to, mut server, mut association) = (None, None, None);
    let (mut preference, mut rapid_commit, mut solicit_max, mut status) = (0, false, None, None);
    let mut names = DnsInfo::default();
    for option in exchange.options {
        match option {
            DhcpOption::ClientId(duid) => to = Some(duid),
            DhcpOption::ServerId(duid) => server = Some(duid),
            DhcpOption::Preference(value) => preference = value,
            DhcpOption::RapidCommit => rapid_commit = true,
            DhcpOption::SolicitMaxRt(seconds) => solicit_max = Some(seconds),
            DhcpOption::Status(found) => status = Some(found.code),
            DhcpOption::DnsServers(servers) => names.servers = servers,
            DhcpOption::DomainList(domains) => names.search_domains = domains,
            DhcpOption::CaptivePortal(uri) => names.captive_portal = Some(uri),
            other => {
                let found = find_association(other, client);
                association = association.or(found);
            }
        }
    }
    let server = server.filter(|_| to.as_ref() == Some(&client.duid))?;
    // RFC 8415 §21.21: an association with T1 > T2 is ignored.
    let association = association.filter(|found| found.timers.rebind == 0 || found.timers.renew <= found.timers.rebind);
    let timers = association.as_ref().map_or(Timers::default(), |found| found.timers);
    let inside = association.map_or(Vec::new(), |found| found.options);
    let association_status = status_of(&inside);
    let prefixes = inside.into_iter().filter_map(|option| match option {
        DhcpOption::Prefix(lease) => Some(lease),
        DhcpOption::Address(dhcp6::Address { address, preferred, valid, options }) => {
            Some(dhcp6::Prefix { prefix: Prefix::host(address), preferred, valid, options })
        }
        _ => None,
    });
    let granted = |lease: &dhcp6::Prefix| status_of(&lease.options).is_none_or(|code| code == StatusCode::SUCCESS);
    let prefixes = prefixes.filter(granted).collect();
    let (kind, transaction) = (exchange.kind, exchange.transaction);
    Some(ServerMessage {
        kind,
        transaction,
        server,
        preference,
        rapid_commit,
        solicit_max,
        timers,
        prefixes,
        dns: names,
        status,
        association_status,
    })
}

/// The association of the requested type and identifier.
fn find_association(option: DhcpOption, client: &DhcpClientConfig) -> Option<IdentityAssociation> {
    let found = match (client.ia_type, option) {
        (IaType::IaPd, DhcpOption::Prefixes(found)) | (IaType::IaNa, DhcpOption::Addresses(found)) => found,
        _ => return None,
    };
    (found.id == client.iaid).then_some(found)
}

fn status_of(options: &[DhcpOption]) -> Option<StatusCode> {
    options.iter().find_map(|option| match option {
        DhcpOption::Status(status) => Some(status.code),
        _ => None,
    })
}
