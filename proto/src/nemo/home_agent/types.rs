//! Values that several parts of the home agent share: care-of addresses, options of updates, acknowledgements, timers.

use crate::contract::config::encryption::DeviceNumber;
use crate::contract::config::nemo::{Authentication, DsmipService};
use crate::contract::item::{EspPair, WireguardPeer};
use crate::crypto::authenticator::Timestamp;
use crate::crypto::path_esp::EspEnd;
use crate::crypto::wireguard::PublicKey;
use crate::{Time, Via};
use core::time::Duration;
use derive_more::Display;
use roam6_wire::mobility::{CareOfField, EspKey, FlowIdentification, KeyExchange, MobilityOption, Status};
use roam6_wire::{Bid, CareOfAddress, HomeAddress, Ipv4Endpoint, Ipv6Endpoint, Sequence};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A registered care-of address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CareOf {
    /// Its BID; 0 if registered without one.
    pub bid: Bid,
    /// The address.
    pub address: Ipv6Addr,
    /// BID-PRI, lower is preferred; 0 if none was given.
    pub priority: u8,
    /// It is the home address: the mobile router is on the home link as well (RFC 5648 §5.6.3).
    pub simultaneous_home: bool,
    /// The UDP port of a path in UDP over IPv6; that of a path over IPv4 is in the address.
    pub udp: Option<u16>,
    /// The mobile router's WireGuard device, if the path is encrypted. Apart, as are the associations: most paths have neither.
    pub wireguard: Option<Box<WireguardPeer>>,
    /// Its associations, if the path is encrypted by ESP.
    pub esp: Option<Box<AgreedEsp>>,
    /// End of its lifetime.
    pub expires: Time,
    /// When its path was registered first ([`super::cache::Registration::date`]); after a restart, when it was restored.
    pub since: Time,
}

impl CareOf {
    /// The order of preference, lowest first; without a priority it is the last.
    pub(super) fn rank(&self) -> u8 {
        if self.priority == 0 { u8::MAX } else { self.priority }
    }

    pub(super) fn is_same_path(&self, other: &CareOf) -> bool {
        let end = |one: &CareOf| (one.bid, one.address, one.priority, one.simultaneous_home, one.udp);
        end(self) == end(other) && (&self.wireguard, &self.esp) == (&other.wireguard, &other.esp)
    }

    /// Whether packets from `former` are accepted as those of this one: a path in UDP accepts them without it too.
    pub(super) fn covers(&self, former: &CareOf) -> bool {
        self.address == former.address
            && (former.udp.is_none() || former.udp == self.udp)
            && self.wireguard.is_some() == former.wireguard.is_some()
            && self.esp.is_some() == former.esp.is_some()
    }

    /// The journal's entry of its path, if that is encrypted.
    pub(super) fn wireguard_record(&self) -> Option<(DeviceNumber, PublicKey, u16)> {
        let peer = self.wireguard.as_deref()?;
        Some((peer.device, peer.public_key, peer.port))
    }

    /// The journal's entry of its path, if that is encrypted by ESP.
    pub(super) fn esp_record(&self) -> Option<(Bid, EspEnd, EspEnd)> {
        let agreed = self.esp.as_deref()?;
        Some((self.bid, agreed.router, agreed.agent))
    }

    /// The end of its path in UDP over IPv6, if it has one.
    pub(super) fn udp_end(&self) -> Option<Ipv6Endpoint> {
        Some(Ipv6Endpoint { address: self.address, port: self.udp? })
    }
}

/// What was agreed for a path that is encrypted by ESP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AgreedEsp {
    /// The associations.
    pub pair: EspPair,
    /// The offer of the mobile router.
    pub router: EspEnd,
    /// The answer.
    pub agent: EspEnd,
}

/// A Binding Identifier option of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BidOption {
    /// Identifier.
    pub bid: Bid,
    /// Priority, 0 for none.
    pub priority: u8,
    /// The H flag: simultaneous home and foreign binding.
    pub simultaneous_home: bool,
    /// Care-of address, if the option has one.
    pub care_of: CareOfField,
    /// Its path is in UDP over IPv6.
    pub udp: bool,
}

/// The result for one option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BidStatus {
    /// Identifier.
    pub bid: Bid,
    /// Priority of the option.
    pub priority: u8,
    /// The H flag of the option.
    pub simultaneous_home: bool,
    /// The status; [`Status::ACCEPTED`] also where that of the acknowledgement covers it.
    pub status: Status,
}

/// An IPv4 Home Address option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ipv4HomeRequest {
    /// Prefix-len: 32 for an address.
    pub prefix_length: u8,
    /// P: a prefix is requested.
    pub prefix_wanted: bool,
    /// `0.0.0.0`: any.
    pub address: Ipv4Addr,
}

/// The source of an update over IPv4 (RFC 5555 §4.2).
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedSource {
    /// Source of the IPv4 and UDP headers, as translated by a NAT.
    pub source: Ipv4Endpoint,
    /// The IPv4 care-of address in its options.
    pub reported: Option<Ipv4Addr>,
}

impl ObservedSource {
    /// Whether a NAT has translated it.
    pub(super) fn is_translated(&self) -> bool {
        self.reported != Some(self.source.address)
    }
}

/// How packets to a mobile router are encapsulated in IPv4.
#[derive(Debug, Clone, Copy)]
pub(super) struct DsmipEncapsulation {
    /// The remote end of its tunnel.
    pub care_of: Ipv4Endpoint,
    /// The source of its update, and the destination of the acknowledgement.
    pub observed: ObservedSource,
    /// The service of this home agent.
    pub service: DsmipService,
}

/// What the key of an update is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyRole {
    /// The key of the row.
    Row,
    /// The second key of the row.
    RowNext,
    /// The key of the row's invitation.
    Invitation,
    /// What one of these was exchanged for.
    Current,
    /// A key that was offered; its use ends all before.
    Offered,
}

/// The destination of an acknowledgement, and its content so far.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// The source address of the update.
    pub to: Ipv6Addr,
    /// The interface or route to it.
    pub via: Via,
    /// The home address.
    pub home: HomeAddress,
    /// The update had a Home Address option, so the acknowledgement has a type 2 routing header.
    pub has_home_address_option: bool,
    /// The care-of address that authenticators cover.
    pub care_of: CareOfAddress,
    /// The sequence number of the update, or the last accepted one.
    pub sequence: Sequence,
    /// The granted lifetime.
    pub lifetime: Duration,
    /// The R flag.
    pub router: bool,
    /// The timestamp of the update, or the corrected one.
    pub timestamp: Option<Timestamp>,
    /// How the acknowledgement is authenticated.
    pub authentication: Authentication,
    /// Its Binding Identifier options.
    pub bid_statuses: Vec<BidStatus>,
    /// Its Flow Identification options.
    pub flows: Vec<FlowIdentification>,
    /// Its IPv4 Address Acknowledgement options.
    pub ipv4: Vec<MobilityOption>,
    /// The encapsulation, if the update arrived over IPv4.
    pub dsmip: Option<DsmipEncapsulation>,
    /// The source of the update, if it arrived in UDP over IPv6.
    pub udp6: Option<Ipv6Endpoint>,
    /// The update has the capabilities option.
    pub has_capabilities: bool,
    /// What the key of the update is.
    pub key_role: Option<KeyRole>,
    /// The answer to its request for a new key.
    pub key_answer: Option<KeyExchange>,
    /// The devices of the paths of the update that are encrypted.
    pub encrypted: Vec<DeviceNumber>,
    /// The answers for the paths of the update that are encrypted by ESP.
    pub esp: Vec<EspKey>,
}

/// A timer of the home agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display)]
pub(super) enum HomeAgentTimer {
    /// The timer of a binding; its deadline says when.
    #[display("binding of {_0}")]
    Binding(HomeAddress),
    /// The host rejected an item of a binding in force: it is put again.
    #[display("rejected item of {_0}")]
    Reinstall(HomeAddress),
    /// The host rejected an item of no binding, an anycast address or a route: it is put again.
    #[display("rejected item of the home link")]
    ReinstallHomeLink,
    /// Neighbour Advertisements for a home address, and how many remain.
    #[display("announcement of {_0}")]
    Announce(HomeAddress, u8),
    /// A path MTU expires.
    #[display("path MTU to {_0}")]
    PathMtu(Ipv6Addr),
    /// The next step of this member of a fleet.
    #[cfg(feature = "fleet")]
    #[display("fleet")]
    Fleet,
    /// A Router Advertisement on the home link.
    #[display("advertisement")]
    Advertise,
    /// An entry of the home agents list expires.
    #[display("other home agent")]
    HomeAgents,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A home agent has one for each of a million bindings.
    #[test]
    fn care_of_addresses_are_small_without_encryption() {
        assert!(size_of::<CareOf>() <= 72, "{}", size_of::<CareOf>());
    }
}
