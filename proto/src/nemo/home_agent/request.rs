//! A parsed Binding Update: source and care-of address determined, options sorted. RFC 6275 §6.1.7 and §9.5.1, RFC
//! 3963 §4.1 and §4.3, RFC 5648 §4.1, RFC 4285 §5, RFC 5555 §3.1.

use super::types::{BidOption, BidStatus, Ipv4HomeRequest, ObservedSource, Reply};
use crate::contract::config::nemo::Authentication;
use crate::crypto::authenticator::Timestamp;
use crate::crypto::key_agreement::Point;
use crate::nemo::LLA_CODE_MOBILE_NODE;
use crate::{Packet, Via};
use core::time::Duration;
use roam6_wire::ip6::Datagram;
use roam6_wire::mobility::option::{AUTHENTICATION_MN_HA, kind};
use roam6_wire::mobility::{
    BindingUpdate, Capabilities, CareOfField, EspKey, FlowIdentification, KeyExchange, MobilityOption,
    PathEncapsulation, Status, WireguardKey, authenticated_part,
};
use roam6_wire::{Bid, CareOfAddress, Fid, HomeAddress, Ipv6Endpoint, LinkAddress, Prefix, Sequence};
use std::net::Ipv6Addr;

/// The content of a Binding Update.
#[derive(Debug)]
pub(super) struct UpdateRequest {
    /// The source address.
    pub source: Ipv6Addr,
    /// The interface or route for the acknowledgement.
    pub via: Via,
    /// Whose home address.
    pub home: HomeAddress,
    /// It has a Home Address option.
    pub has_home_address_option: bool,
    /// The Alternate Care-of Address, else the source; not that of its Binding Identifier options.
    pub care_of: CareOfAddress,
    /// It was received on the home link.
    pub on_home_link: bool,
    /// It has an Alternate Care-of Address option.
    pub has_alternate_care_of: bool,
    /// The sender's link-layer address on the home link, from an option or from the frame.
    pub link_address: Option<LinkAddress>,
    /// The source of the IPv4 encapsulation, if any.
    pub ipv4_source: Option<ObservedSource>,
    /// The source of the UDP encapsulation over IPv6, if any, as translated by a NAT.
    pub udp6_source: Option<Ipv6Endpoint>,
    /// The capabilities of the mobile router, if it names any.
    pub capabilities: Option<Capabilities>,
    /// It was in valid ESP of the home address's security association.
    pub in_esp: bool,
    /// The sequence number.
    pub sequence: Sequence,
    /// The requested lifetime; zero de-registers.
    pub lifetime: Duration,
    /// The H flag.
    pub home_registration: bool,
    /// The L flag: its link-local address has the interface identifier of its home address.
    pub link_local: bool,
    /// The R flag.
    pub router: bool,
    /// The O flag.
    pub overwrite: bool,
    /// The F flag: UDP encapsulation is requested.
    pub force_udp: bool,
    /// It has a Nonce Indices option, as updates to correspondents have.
    pub has_nonce_indices: bool,
    /// Path MTUs found by the mobile router, octets.
    pub path_mtus: Vec<(Bid, u16)>,
    /// Mobile Network Prefix options.
    pub prefixes: Vec<Prefix>,
    /// A Mobile Network Prefix option is malformed.
    pub malformed_prefix: bool,
    /// IPv4 Home Address options.
    pub ipv4_homes: Vec<Ipv4HomeRequest>,
    /// Binding Identifier options.
    pub bid_options: Vec<BidOption>,
    /// A Binding Identifier option is malformed.
    pub malformed_bid: bool,
    /// Flow Identification options.
    pub flows: Vec<FlowIdentification>,
    /// Flows of the Flow Summary option, which are kept as they are.
    pub flow_summary: Vec<Fid>,
    /// Replay protection.
    pub timestamp: Option<Timestamp>,
    /// The public key of a mobile router that asks for a new key.
    pub key_request: Option<Point>,
    /// The keys of its WireGuard devices.
    pub wireguard: Vec<WireguardKey>,
    /// Its offers for paths encrypted by ESP.
    pub esp: Vec<EspKey>,
    /// MN-HA authentication.
    pub mn_ha_option: Option<MnHaOption>,
}

/// An MN-HA authentication option and what it covers.
#[derive(Debug)]
pub(super) struct MnHaOption {
    /// The SPI.
    pub spi: u32,
    /// The octets that the authenticator covers.
    pub covered: Vec<u8>,
    /// The authenticator.
    pub authenticator: Vec<u8>,
}

impl UpdateRequest {
    /// Parses an update; `at_home` if it was received on the home link.
    pub(super) fn parse(
        packet: &Packet,
        datagram: &Datagram<'_>,
        update: &BindingUpdate,
        at_home: bool,
    ) -> UpdateRequest {
        let home = HomeAddress(datagram.real_source());
        let neighbour = packet.sender.filter(|_| at_home && datagram.source == home.0);
        let mut request = UpdateRequest {
            source: datagram.source,
            // Until the acknowledgement, the home address may not be resolvable on the home link (RFC 6275 §11.5.5).
            via: neighbour.map_or(Via::Route, |address| Via::Neighbour { link: packet.link, address }),
            home,
            has_home_address_option: datagram.home_address.is_some(),
            care_of: CareOfAddress(datagram.source),
            on_home_link: at_home,
            has_alternate_care_of: false,
            link_address: neighbour,
            ipv4_source: None,
            udp6_source: None,
            capabilities: None,
            in_esp: false,
            sequence: update.sequence,
            lifetime: Duration::from_secs(update.lifetime_seconds().into()),
            home_registration: update.flags.home_registration(),
            link_local: update.flags.link_local(),
            router: update.flags.router(),
            overwrite: update.flags.overwrite(),
            force_udp: update.flags.force_udp(),
            has_nonce_indices: false,
            path_mtus: Vec::new(),
            prefixes: Vec::new(),
            malformed_prefix: false,
            ipv4_homes: Vec::new(),
            bid_options: Vec::new(),
            malformed_bid: false,
            flows: Vec::new(),
            flow_summary: Vec::new(),
            timestamp: None,
            key_request: None,
            wireguard: Vec::new(),
            esp: Vec::new(),
            mn_ha_option: None,
        };
        for option in &update.options {
            request.read_option(option, datagram.payload);
        }
        for option in &mut request.bid_options {
            let named = request.capabilities.as_ref().map(|named| named.encapsulation_of(option.bid));
            option.udp = named == Some(PathEncapsulation::UDP);
        }
        request
    }

    fn read_option(&mut self, option: &MobilityOption, message: &[u8]) {
        match option {
            MobilityOption::AlternateCareOf(address) => {
                self.care_of = CareOfAddress(*address);
                self.has_alternate_care_of = true;
            }
            MobilityOption::LinkLayerAddress { code: LLA_CODE_MOBILE_NODE, address } => {
                let address = <[u8; 6]>::try_from(address.as_slice()).ok().map(LinkAddress);
                self.link_address = address.filter(|address| address.is_unicast());
            }
            MobilityOption::NonceIndices { .. } => self.has_nonce_indices = true,
            MobilityOption::PathMtu { bid, mtu } => self.path_mtus.push((*bid, *mtu)),
            MobilityOption::MobileNetworkPrefix(prefix) => self.prefixes.push(*prefix),
            MobilityOption::Ipv4HomeAddress { prefix_length, prefix_wanted, address } => {
                let (prefix_length, prefix_wanted, address) = (*prefix_length, *prefix_wanted, *address);
                self.ipv4_homes.push(Ipv4HomeRequest { prefix_length, prefix_wanted, address });
            }
            MobilityOption::BindingIdentifier(option) => self.bid_options.push(BidOption {
                bid: option.bid,
                priority: option.priority,
                simultaneous_home: option.simultaneous_home,
                care_of: option.care_of,
                udp: false,
            }),
            MobilityOption::Capabilities(capabilities) => self.capabilities = Some(capabilities.clone()),
            MobilityOption::KeyExchange(KeyExchange::Request { point }) => self.key_request = Some(Point(*point)),
            MobilityOption::WireguardKey(key) => self.wireguard.push(*key),
            MobilityOption::EspKey(key) => self.esp.push(*key),
            MobilityOption::FlowIdentification(flow) => self.flows.push(flow.clone()),
            MobilityOption::FlowSummary(fids) => self.flow_summary.extend(fids),
            MobilityOption::ReplayProtection(timestamp) => self.timestamp = Some(Timestamp(*timestamp)),
            MobilityOption::Authentication { subtype: AUTHENTICATION_MN_HA, spi, data } => {
                let part = authenticated_part(message).map(|(part, _)| part);
                self.mn_ha_option =
                    part.map(|part| MnHaOption { spi: *spi, covered: part, authenticator: data.clone() });
            }
            MobilityOption::Invalid { kind: kind::MOBILE_NETWORK_PREFIX, .. } => self.malformed_prefix = true,
            MobilityOption::Invalid { kind: kind::BINDING_IDENTIFIER, body } => {
                self.malformed_bid = true;
                let bid = body.first_chunk().map_or(Bid(0), |bid| Bid(u16::from_be_bytes(*bid)));
                let care_of = CareOfField::None;
                self.bid_options.push(BidOption { bid, priority: 0, simultaneous_home: false, care_of, udp: false });
            }
            MobilityOption::Invalid { kind: kind::FLOW_IDENTIFICATION, body } => {
                let fid = body.first_chunk().map_or(Fid(0), |fid| Fid(u16::from_be_bytes(*fid)));
                // Priority 0 is invalid, so this is rejected as malformed.
                self.flows.push(FlowIdentification { fid, priority: 0, status: 0, bids: Vec::new(), selector: None });
            }
            _ => {}
        }
    }

    /// Whether its source is the home address itself (RFC 6275 §11.5.5).
    pub(super) fn is_from_home_address(&self) -> bool {
        !self.has_home_address_option && !self.is_encapsulated()
    }

    /// Whether it arrived over IPv4, or in UDP over IPv6: from an address that only the outer header has.
    pub(super) fn is_encapsulated(&self) -> bool {
        self.ipv4_source.is_some() || self.udp6_source.is_some()
    }

    /// Whether the mobile router eliminates the second copies of replicated packets.
    pub(super) fn eliminates(&self) -> bool {
        self.capabilities.as_ref().is_some_and(|named| named.has(Capabilities::ELIMINATION))
    }

    /// Where it came from, as the network shows it.
    pub(super) fn peer(&self) -> Ipv6Addr {
        let ipv4 = self.ipv4_source.map(|seen| seen.source.to_ipv6());
        ipv4.or(self.udp6_source.map(|end| end.address)).unwrap_or(self.source)
    }

    /// Explicit mode: whether it lists its prefixes (RFC 3963 §5.2).
    pub(super) fn is_explicit(&self) -> bool {
        !self.prefixes.is_empty() || self.malformed_prefix
    }

    /// The parts of the acknowledgement that do not depend on the result.
    pub(super) fn reply(&self) -> Reply {
        let echo = |option: &BidOption| BidStatus {
            bid: option.bid,
            priority: option.priority,
            simultaneous_home: option.simultaneous_home,
            status: Status::ACCEPTED,
        };
        Reply {
            to: self.source,
            via: self.via,
            home: self.home,
            has_home_address_option: self.has_home_address_option,
            care_of: self.care_of,
            sequence: self.sequence,
            lifetime: Duration::ZERO,
            router: self.router,
            timestamp: self.timestamp,
            authentication: Authentication::None,
            bid_statuses: self.bid_options.iter().map(echo).collect(),
            flows: Vec::new(),
            ipv4: Vec::new(),
            dsmip: None,
            udp6: self.udp6_source,
            has_capabilities: self.capabilities.is_some(),
            key_role: None,
            key_answer: None,
            encrypted: Vec::new(),
            esp: Vec::new(),
        }
    }
}
