//! Invariants of care-of prefixes: no prefix without connectivity is advertised as preferred, and no packet leaves an
//! uplink with a source that does not belong there (RFC 8028 §3, RFC 2827, RFC 7084 §4.3).

use super::dhcp6_server::granted_prefixes;
use crate::failure::ensure;
use crate::nemo::topology::{self, MobileRouterHost, Topology};
use crate::net::access_router::autonomous_prefixes;
use crate::net::datagram::UDP;
use crate::net::{Header, HostId, MediumId, Observation, datagram};
use core::time::Duration;
use roam6_proto::contract::item::NextHop;
use roam6_proto::{LinkId, Time};
use roam6_wire::Prefix;
use roam6_wire::icmp6::Message;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Tolerance: a client counts a lifetime from its reception.
const SLACK: Duration = Duration::from_secs(1);
/// Time in which a restarted mobile router must repair its state.
const STARTUP_TIME: Duration = Duration::from_secs(1);
/// Time in which it must detect that its uplink has moved without loss of carrier.
const MAX_ROAM_DETECTION: Duration = Duration::from_secs(20);

/// The reference model.
#[derive(Debug, Default)]
pub struct CareOfPrefixInvariants {
    /// Granted prefixes: the medium, and the end of validity.
    leases: BTreeMap<(MediumId, Prefix), Time>,
    /// Prefixes last advertised to nodes: end of validity, and of preference.
    advertised: BTreeMap<(HostId, Prefix), AdvertisedPrefix>,
    started: BTreeMap<HostId, Time>,
    roamed: BTreeMap<(HostId, LinkId), Time>,
    /// Prefixes granted, and their advertisements.
    pub granted: u64,
}

#[derive(Debug, Clone, Copy)]
struct AdvertisedPrefix {
    valid_until: Time,
    preferred_until: Time,
}

impl CareOfPrefixInvariants {
    /// Checks the invariants after one event.
    ///
    /// # Errors
    /// The violated invariant.
    pub fn check(&mut self, topology: &mut Topology, observations: &[Observation]) -> Result<(), String> {
        let now = topology.world.now();
        for observation in observations {
            match observation {
                Observation::Started(host) => {
                    self.started.insert(*host, now);
                    // The restarted engine does not know what its previous run advertised.
                    self.advertised
                        .iter_mut()
                        .filter(|((of, _), _)| of == host)
                        .for_each(|(_, entry)| entry.preferred_until = now);
                }
                Observation::Roamed(host, link) => drop(self.roamed.insert((*host, *link), now)),
                Observation::Sent(host, packet) => self.see_packet(now, topology, *host, packet),
                Observation::PacketLeft(port, medium, source) if self.is_running_normally(now, topology, port.0) => {
                    self.check_source(now, topology, *port, (*medium, *source))?;
                }
                _ => {}
            }
        }
        // An event may reach a host in several inputs: the state after the last one counts.
        let handled = |mobile: &&MobileRouterHost| observations.contains(&Observation::Handled(mobile.host));
        let mut handled = topology
            .mobiles
            .iter()
            .filter(handled)
            .filter(|mobile| self.is_running_normally(now, topology, mobile.host));
        handled.try_for_each(|mobile| self.check_advertised(now, topology, mobile))
    }

    /// Whether an engine runs, and has had time to repair its state.
    fn is_running_normally(&self, now: Time, topology: &Topology, host: HostId) -> bool {
        let settled = topology.world.host(host).instance.as_ref().is_some_and(|instance| instance.stale_removed);
        settled && self.started.get(&host).is_none_or(|started| now > *started + STARTUP_TIME)
    }

    fn see_packet(&mut self, now: Time, topology: &mut Topology, host: HostId, packet: &[u8]) {
        let Some(header) = Header::parse(packet) else { return };
        if let Some(index) = topology.servers.iter().position(|server| *server == Some(host)) {
            for (prefix, valid) in granted_prefixes(packet) {
                topology.delegate(index, prefix, header.destination);
                let until = now + Duration::from_secs(valid.into());
                let Some(medium) = topology.visited.get(index).copied() else { continue };
                let known = self.leases.entry((medium, prefix)).or_insert(until);
                *known = until.max(*known);
                self.granted += 1;
            }
        }
        let Some(mobile) = topology.mobiles.iter().find(|mobile| mobile.host == host) else { return };
        let Some(Message::RouterAdvertisement(message)) = datagram::parse_icmp6(packet) else { return };
        for (prefix, (preferred, valid)) in autonomous_prefixes(&message).filter(|(prefix, _)| *prefix != mobile.prefix)
        {
            let until = |seconds: u32| now + Duration::from_secs(seconds.into());
            let known = self.advertised.get(&(host, prefix)).map_or(now, |known| known.valid_until);
            let (valid_until, preferred_until) = (known.max(until(valid)), until(preferred));
            self.advertised.insert((host, prefix), AdvertisedPrefix { valid_until, preferred_until });
        }
    }

    /// A preferred prefix has connectivity through a network to which it belongs.
    fn check_advertised(&self, now: Time, topology: &Topology, mobile: &MobileRouterHost) -> Result<(), String> {
        let host = mobile.host;
        let mine = self.advertised.range((host, Prefix::ALL)..).take_while(|((of, _), _)| *of == host);
        for ((_, prefix), _) in mine.filter(|(_, entry)| entry.preferred_until > now) {
            let source = prefix.with_identifier(0x9999).unwrap_or(Ipv6Addr::UNSPECIFIED);
            let header = Header { source, destination: topology.peer(), next: UDP, hop_limit: 64 };
            let target = topology.world.host(host).kernel.route(&header, Some(topology::INSIDE_INTERFACE), |_| true);
            let name = &topology.world.host(host).name;
            let Some(NextHop::Gateway { link, .. }) = target else {
                return Err(format!("{name} advertises {prefix}, which leads to {target:?}"));
            };
            let medium = topology.world.host(host).interfaces.get(&link).and_then(|interface| interface.medium);
            let there =
                topology.world.is_up(host, link) && medium.is_some_and(|it| self.belongs(now, topology, it, source));
            let is_right = mobile.uplinks.contains(&link) && (there || self.has_roamed(now, (host, link)));
            ensure!(is_right, "{name} advertises {prefix}, which leads out by {link}, where it does not belong");
        }
        Ok(())
    }

    fn check_source(
        &self,
        now: Time,
        topology: &Topology,
        port: (HostId, LinkId),
        (medium, source): (MediumId, Ipv6Addr),
    ) -> Result<(), String> {
        // Only own sources count: a packet for an address released just now is routed back to its sender's network.
        let ours = |mobile: &MobileRouterHost| mobile.prefix.contains(source) || mobile.home_address.0 == source;
        let visited = (0..)
            .zip(&topology.visited)
            .flat_map(|(index, _)| [topology::visited_prefix(index), topology::pool(index)]);
        let inside = topology.mobiles.iter().any(ours) || visited.into_iter().any(|prefix| prefix.contains(source));
        if !inside || self.belongs(now, topology, medium, source) || self.has_roamed(now, port) {
            return Ok(());
        }
        let (name, medium) = (&topology.world.host(port.0).name, &topology.world.medium(medium).name);
        Err(format!("{name} sends from {source} into {medium}, where it does not belong"))
    }

    fn has_roamed(&self, now: Time, port: (HostId, LinkId)) -> bool {
        self.roamed.get(&port).is_some_and(|at| now < *at + MAX_ROAM_DETECTION)
    }

    /// Whether `source` belongs to `medium`.
    fn belongs(&self, now: Time, topology: &Topology, medium: MediumId, source: Ipv6Addr) -> bool {
        let advertised = topology.visited.iter().position(|visited| *visited == medium);
        let advertised = advertised.and_then(|index| u16::try_from(index).ok()).map(topology::visited_prefix);
        let leased = || self.leases.iter().filter(|((on, _), until)| *on == medium && now <= **until + SLACK);
        let inside = topology.mobiles.iter().find(|mobile| mobile.ingress_medium == medium);
        let advertised_by = |host| {
            let mine = self.advertised.range((host, Prefix::ALL)..).take_while(move |((of, _), _)| *of == host);
            mine.filter(|(_, entry)| now <= entry.valid_until + SLACK).map(|((_, prefix), _)| *prefix)
        };
        let home = (medium == topology.home).then(topology::home_prefix);
        let own = topology.mobiles.iter().filter(|_| medium == topology.home).map(|mobile| mobile.prefix);
        advertised.into_iter().chain(home).chain(own).any(|prefix| prefix.contains(source))
            || leased().any(|((_, prefix), _)| prefix.contains(source))
            || inside.is_some_and(|outer| {
                outer.prefix.contains(source) || advertised_by(outer.host).any(|it| it.contains(source))
            })
    }
}
