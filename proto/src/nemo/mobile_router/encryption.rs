//! Encrypted paths: with `encryption` no data leaves but between WireGuard devices, one for each uplink. Their public keys are in
//! the update and in its acknowledgement, under their authenticators (RFC 4285 §5.1, RFC 3776 §4). A home agent that does not
//! answer with a key gets no data: its acknowledgement counts as a refusal.

use super::MobileRouter;
use super::registration::{CareOf, DesiredRegistration, Location};
use super::uplink::Uplink;
use crate::contract::config::encryption::{DeviceNumber, MAX_WIREGUARD_DEVICES, WIREGUARD_PORT};
use crate::contract::config::nemo::{Authentication, Encryption};
use crate::contract::item::tunnel::wireguard_mtu;
use crate::contract::item::{Encap, TunnelPath, WireguardPeer};
use crate::crypto::wireguard::{PresharedKey, PublicKey};
use crate::nemo::path_secret;
use crate::{LinkId, Time};
use roam6_wire::mobility::option::AUTHENTICATION_MN_HA;
use roam6_wire::mobility::{BindingAcknowledgement, MobilityOption, WireguardKey};
use roam6_wire::{Bid, Ipv4Endpoint};
use std::net::Ipv6Addr;

/// Most devices of home agents that are known: those of former home agents are forgotten first.
const MAX_PEERS: usize = 64;

/// The cause and the cure of a refusal because the home agent does not encrypt.
const UNENCRYPTED: &str = "it does not encrypt, so nothing is sent: write encrypt = true in its [home_agent], or remove \
     encrypt from [mobile_router] here";
/// The same where that is by ESP.
const WITHOUT_ESP: &str = "it does not encrypt by ESP, so nothing is sent: write encrypt = \"esp\" in its [home_agent], or \
     encrypt = true in both files to encrypt by WireGuard";
/// What is wrong if the home agent refuses the keys of this router.
const BY_ANOTHER_METHOD: &str = "it may ask for another method: write the value of encrypt in its [home_agent] in [mobile_router] \
     too (\"esp\", or true for WireGuard), and restart the daemon";

/// The devices of home agents, as they told.
#[derive(Debug, Default, Clone)]
pub(super) struct WireguardPeers(Vec<(Ipv6Addr, Bid, WireguardPeer)>);

impl MobileRouter {
    /// The keys of our devices for the care-of addresses of an update.
    pub(super) fn wireguard_options(&self, wanted: &DesiredRegistration) -> impl Iterator<Item = MobilityOption> {
        let own = self.config.encryption.as_ref();
        let away = wanted.care_of().iter().filter(|care_of| !care_of.on_home_link);
        let own = own.filter(|own| own.method.is_wireguard());
        own.into_iter().flat_map(move |own| {
            away.clone().filter_map(move |care_of| {
                let bid = registered_bid(wanted, care_of);
                let known = self.wireguard_peer(wanted.home_agent, bid);
                let device =
                    DeviceNumber::new(bid, own.is_odd(), known.is_some_and(|peer| peer.device.is_agent_odd()))?;
                Some(Encryption::option(device, own.router_key(device)?))
            })
        })
    }

    /// The device of a home agent for a path.
    fn wireguard_peer(&self, home_agent: Ipv6Addr, bid: Bid) -> Option<&WireguardPeer> {
        let mut known = self.wireguard_peers.0.iter();
        known.find(|(of, known, _)| (*of, *known) == (home_agent, bid)).map(|(.., peer)| peer)
    }

    /// Whether the home agent accepts care-of addresses without encrypting them, although it has to.
    pub(super) fn lacks_encryption(&self, message: &BindingAcknowledgement, wanted: &DesiredRegistration) -> bool {
        let mut away = wanted.care_of().iter().filter(|care_of| !care_of.on_home_link);
        let is_away = away.clone().next().is_some();
        let is_ended = message.lifetime_units == 0;
        let is_refused = |bid| {
            message.options.iter().any(|option| match option {
                MobilityOption::BindingIdentifier(answer) => answer.bid == bid && !answer.status.is_accepted(),
                _ => false,
            })
        };
        let by_esp = self.encrypts_by_esp();
        let is_keyed = |bid| match by_esp {
            true => MobileRouter::has_esp_answer(message, bid),
            false => keys_of(message).any(|key| key.bid == bid),
        };
        self.config.encryption.is_some()
            && is_away
            && !is_ended
            && !away.all(|care_of| {
                let bid = registered_bid(wanted, care_of);
                is_keyed(bid) || is_refused(bid)
            })
    }

    /// Takes the keys of an authentic acknowledgement of `home_agent` that accepts an update.
    pub(super) fn note_path_keys(&mut self, home_agent: Ipv6Addr, message: &BindingAcknowledgement) {
        match self.encrypts_by_esp() {
            true => self.note_esp_keys(home_agent, message),
            false => self.note_wireguard_keys(home_agent, message),
        }
    }

    fn note_wireguard_keys(&mut self, home_agent: Ipv6Addr, message: &BindingAcknowledgement) {
        let Some(secret) = self.secret_of(message) else { return };
        let Some(own) = &self.config.encryption else { return };
        for WireguardKey { bid, port, public_key } in keys_of(message) {
            let (public_key, port, bid) = (PublicKey(*public_key), *port, *bid);
            // The port tells which of our keys the home agent has: an answer may be that to an update before a renewal.
            let told = DeviceNumber::of_port(port, bid).or_else(|| DeviceNumber::new(bid, own.is_odd(), false));
            let Some(device) = told.filter(|_| port != 0) else { continue };
            let Some(ours) = own.router_key(device) else { continue };
            let Some(preshared_key) = PresharedKey::derive(&secret, bid, ours, &public_key) else { continue };
            self.wireguard_peers.0.retain(|(of, known, _)| (*of, *known) != (home_agent, bid));
            if self.wireguard_peers.0.len() >= MAX_PEERS {
                self.wireguard_peers.0.remove(0);
            }
            let peer = WireguardPeer { device, public_key, preshared_key, port, initiates: true };
            self.wireguard_peers.0.push((home_agent, bid, peer));
        }
    }

    /// The secret of the key that an acknowledgement is authenticated with.
    pub(super) fn secret_of(&self, message: &BindingAcknowledgement) -> Option<Vec<u8>> {
        let Authentication::SharedKey(_) = &self.config.authentication else {
            return path_secret(&self.config.authentication);
        };
        let signed_by = message.options.iter().rev().find_map(|option| match option {
            MobilityOption::Authentication { subtype: AUTHENTICATION_MN_HA, spi, .. } => Some(*spi),
            _ => None,
        });
        self.acknowledgement_keys().find(|key| Some(key.spi) == signed_by).map(|key| key.secret.clone())
    }

    /// Why an acknowledgement without keys is no acceptance.
    pub(super) fn unencrypted(&self) -> &'static str {
        if self.encrypts_by_esp() { WITHOUT_ESP } else { UNENCRYPTED }
    }

    /// What is wrong if the home agent refuses a path for want of encryption; `unasked` if this router does not encrypt.
    pub(super) fn encryption_remedy(&self, unasked: &'static str) -> &'static str {
        if self.encrypts() { BY_ANOTHER_METHOD } else { unasked }
    }

    /// Whether data of the tunnel is encrypted.
    pub(super) fn encrypts(&self) -> bool {
        self.config.encryption.is_some()
    }

    /// The protocol and port of a path, for the operator who looks for the firewall that drops its packets.
    pub(super) fn encrypted_tunnel_of(&self, bid: Bid) -> String {
        if self.encrypts_by_esp() {
            return "ESP (protocol 50)".to_owned();
        }
        let used = if self.registers_bids() { bid } else { Bid(0) };
        let home_agent = self.registration.serving_home_agent();
        let known = home_agent.and_then(|home_agent| self.wireguard_peer(home_agent, used));
        let port = known.map_or(WIREGUARD_PORT.saturating_add(used.0), |peer| peer.port);
        let last = WIREGUARD_PORT + MAX_WIREGUARD_DEVICES - 1;
        format!("UDP port {port} of the home agent (of {WIREGUARD_PORT} to {last}, for encryption)")
    }

    /// Whether the binding that is held has several care-of addresses, told apart by BIDs.
    fn registers_bids(&self) -> bool {
        let held = self.registration.binding();
        held.is_some_and(|binding| matches!(binding.registration.location, Location::Away { mcoa: true, .. }))
    }

    /// Has the encrypted paths on `links`, whose care-of addresses were not registered before, wait for their sessions.
    pub(super) fn await_sessions(&mut self, now: Time, links: &[LinkId]) {
        if self.encrypts() {
            let new = self.uplinks.iter_mut().filter(|uplink| uplink.link().is_some_and(|link| links.contains(&link)));
            new.filter(|uplink| !uplink.on_home_link).for_each(|uplink| uplink.prober.await_session(now));
        }
    }

    /// A path of the tunnel, encrypted if it has to be; `None` while the device of the home agent is unknown.
    pub(super) fn encrypted(&self, path: TunnelPath, uplink: &Uplink) -> Option<TunnelPath> {
        if !self.encrypts() || path.direct {
            return Some(path);
        }
        if self.encrypts_by_esp() {
            return self.esp_path(path, uplink);
        }
        let home_agent = self.registration.serving_home_agent()?;
        let peer = self.wireguard_peer(home_agent, path.bid)?;
        let (local, remote) = (without_port(path.local), without_port(path.remote));
        let mtu = wireguard_mtu(uplink.mtu(), Ipv4Endpoint::from_ipv6(local).is_some());
        Some(TunnelPath { local, remote, mtu, encap: Encap::Wireguard(*peer), ..path })
    }
}

/// The BID by which an update registers a care-of address.
pub(super) fn registered_bid(wanted: &DesiredRegistration, care_of: &CareOf) -> Bid {
    match wanted.location {
        Location::Away { mcoa: true, .. } => care_of.bid,
        _ => Bid(0),
    }
}

fn keys_of(message: &BindingAcknowledgement) -> impl Iterator<Item = &WireguardKey> {
    message.options.iter().filter_map(|option| match option {
        MobilityOption::WireguardKey(key) => Some(key),
        _ => None,
    })
}

/// The endpoint of a device: its port is that of the peer.
fn without_port(address: Ipv6Addr) -> Ipv6Addr {
    Ipv4Endpoint::from_ipv6(address).map_or(address, |end| Ipv4Endpoint { port: 0, ..end }.to_ipv6())
}
