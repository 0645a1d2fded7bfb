//! Encrypted paths: the data of a care-of address travels between WireGuard devices, whose public keys are in the update and in
//! its acknowledgement, under their authenticators (RFC 4285 §5.1, RFC 3776 §4). Sessions are the kernel's.

use super::HomeAgent;
use super::request::UpdateRequest;
use super::types::{CareOf, Reply};
use crate::contract::config::encryption::DeviceNumber;
use crate::contract::config::nemo::{Authentication, Encryption};
use crate::contract::item::tunnel::wireguard_mtu;
use crate::contract::item::{BindingRecord, Encap, TunnelPath, WireguardPeer};
use crate::crypto::wireguard::{PresharedKey, PublicKey};
use crate::nemo::path_secret;
use roam6_wire::mobility::{MobilityOption, Status, WireguardKey};
use roam6_wire::{Bid, HomeAddress, Ipv4Endpoint};
use std::net::Ipv6Addr;

/// The cause and the cure of a refusal because data has to be encrypted.
const UNENCRYPTED: &str = "encrypt = \"required\" is set here, and its update has no key of WireGuard for a path: \
     write encrypt = true in its [mobile_router]";
/// The same where that is by ESP.
const WITHOUT_ESP: &str = "encrypt = \"esp\" is set here, and its update offers no key of ESP for a path over IPv6: \
     write encrypt = \"esp\" in its [mobile_router]";

impl HomeAgent {
    /// Sets how the paths named by an update are encrypted. Those that it does not name stay as they are.
    ///
    /// # Errors
    /// The status that rejects the update: a path is not encrypted, but has to be.
    pub(super) fn encrypt_paths(
        &self,
        request: &UpdateRequest,
        answer: &mut Reply,
        care_of: &mut [CareOf],
    ) -> Result<(), Status> {
        let is_named = |bid| bid == Bid(0) || request.bid_options.iter().any(|option| option.bid == bid);
        if self.requires_esp() {
            // Keys are agreed once the update is known to be valid.
            let mut away = care_of.iter().filter(|care_of| !care_of.simultaneous_home);
            let is_served = |care_of: &CareOf| match is_named(care_of.bid) {
                true => HomeAgent::has_esp_offer(request, care_of),
                false => care_of.esp.is_some(),
            };
            let is_possible = path_secret(&answer.authentication).is_some() && away.all(is_served);
            return if is_possible { Ok(()) } else { Err(Status::ADMINISTRATIVELY_PROHIBITED) };
        }
        for care_of in care_of.iter_mut().filter(|care_of| is_named(care_of.bid)) {
            let key = request.wireguard.iter().find(|key| key.bid == care_of.bid && !care_of.simultaneous_home);
            let port = key.map_or(0, |key| if is_mapped(care_of) { 0 } else { key.port });
            care_of.wireguard = key.and_then(|key| {
                let device = self.device_of(key)?;
                self.wireguard_peer(&answer.authentication, device, PublicKey(key.public_key), port).map(Box::new)
            });
            answer.encrypted.extend(care_of.wireguard.as_ref().map(|peer| peer.device));
        }
        match care_of.iter().all(|care_of| self.permits(care_of)) {
            true => Ok(()),
            false => Err(Status::ADMINISTRATIVELY_PROHIBITED),
        }
    }

    /// Whether data may be sent to this care-of address as it is registered. The home link is no visited network.
    pub(super) fn permits(&self, care_of: &CareOf) -> bool {
        let required = self.config.encryption.as_ref().is_some_and(|encryption| encryption.required);
        let is_encrypted = if self.requires_esp() { care_of.esp.is_some() } else { care_of.wireguard.is_some() };
        !required || care_of.simultaneous_home || is_encrypted
    }

    /// Why an update is refused because a path of it is not encrypted.
    pub(super) fn unencrypted(&self) -> &'static str {
        if self.requires_esp() { WITHOUT_ESP } else { UNENCRYPTED }
    }

    /// The device for a key: another one if the mobile router has renewed its keys, or this home agent, so that former sessions
    /// go on until there are new ones.
    fn device_of(&self, key: &WireguardKey) -> Option<DeviceNumber> {
        let is_router_odd = DeviceNumber::of_port(key.port, key.bid).is_some_and(DeviceNumber::is_router_odd);
        DeviceNumber::new(key.bid, is_router_odd, self.config.encryption.as_ref()?.is_odd())
    }

    fn wireguard_peer(
        &self,
        authentication: &Authentication,
        device: DeviceNumber,
        public_key: PublicKey,
        port: u16,
    ) -> Option<WireguardPeer> {
        let own = self.config.encryption.as_ref()?.agent_key(device)?;
        let preshared_key = PresharedKey::derive(&path_secret(authentication)?, device.bid(), &public_key, own)?;
        Some(WireguardPeer { device, public_key, preshared_key, port, initiates: false })
    }

    /// Other keys of this host. The paths of bindings keep theirs until the next update of their mobile routers.
    pub(super) fn reload_keys(&mut self, encryption: &Encryption) {
        if let Some(own) = &mut self.config.encryption {
            let required = own.required;
            **own = Encryption { required, ..encryption.clone() };
        }
    }

    /// The keys of this host for the paths of an update that are encrypted.
    pub(super) fn wireguard_options(&self, answer: &Reply) -> impl Iterator<Item = MobilityOption> {
        let own = self.config.encryption.iter();
        own.flat_map(|own| {
            answer.encrypted.iter().filter_map(|device| Some(Encryption::option(*device, own.agent_key(*device)?)))
        })
    }

    /// The device of a restored path, with a preshared key of the key that is in force.
    pub(super) fn restored_peer(&self, record: &BindingRecord, bid: Bid, is_mapped: bool) -> Option<WireguardPeer> {
        let (device, public_key, port) = record.wireguard.iter().find(|(device, ..)| device.bid() == bid)?;
        let device = DeviceNumber::of_port(device.port(), bid)?;
        let authentication = self.authentication_in_force(record.home_address)?;
        self.wireguard_peer(&authentication, device, *public_key, if is_mapped { 0 } else { *port })
    }

    fn authentication_in_force(&self, home: HomeAddress) -> Option<Authentication> {
        let row = self.prefix_table_row(home)?;
        let exchanged = self.exchanged_key(row).cloned();
        Some(exchanged.map_or_else(|| row.authentication.clone(), Authentication::SharedKey))
    }

    /// An encrypted path.
    pub(super) fn encrypted_path(
        &self,
        care_of: &CareOf,
        (local, peer): (Ipv6Addr, WireguardPeer),
        weight: u16,
    ) -> TunnelPath {
        let mtu =
            wireguard_mtu(self.path_mtu.mtu_to(care_of.address), Ipv4Endpoint::from_ipv6(care_of.address).is_some());
        TunnelPath {
            bid: care_of.bid,
            local: without_port(local),
            remote: without_port(care_of.address),
            link: None,
            mtu,
            weight,
            direct: false,
            encap: Encap::Wireguard(peer),
            dscp: None,
        }
    }
}

/// Whether a NAT may have mapped the ports of a care-of address: only its packets tell the one of its device.
fn is_mapped(care_of: &CareOf) -> bool {
    care_of.udp.is_some() || is_translated(care_of.address)
}

/// Whether signalling over IPv4 with this care-of address is in UDP.
pub(super) fn is_translated(address: Ipv6Addr) -> bool {
    Ipv4Endpoint::from_ipv6(address).is_some_and(|end| end.port != 0)
}

/// The endpoint of a device: its port is that of the peer.
fn without_port(address: Ipv6Addr) -> Ipv6Addr {
    Ipv4Endpoint::from_ipv6(address).map_or(address, |end| Ipv4Endpoint { port: 0, ..end }.to_ipv6())
}
