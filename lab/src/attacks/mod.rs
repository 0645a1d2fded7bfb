//! Attacks on home agents and mobile routers by outsiders, who have no key, and insiders, who have the key of one
//! router.
//!
//! Each attack returns one figure that is 0, or small, if the attack fails. The daemons are real; this program emulates
//! the attackers: off the path behind the core router, or on a visited link.

pub(crate) mod acknowledgements;
pub(crate) mod lengths;
pub(crate) mod loops;
pub(crate) mod restarts;
pub(crate) mod sources;

use crate::bed::tap::Tap;
use crate::clock;
use crate::load::forge::{SyntheticRouter, UpdateRequest, parse_acknowledgement};
use crate::topology::nemo::{self, HOME_AGENT, NemoNetwork};
use anyhow::Result;
use roam6_wire::{CareOfAddress, HomeAddress, Sequence};
use std::net::Ipv6Addr;
use std::time::Duration;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An address in the attacker's network, behind the core router.
pub(crate) const fn attacker_address(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, number)
}

/// An off-path attacker: it may send packets with any source address, and receives those for its own network.
pub(crate) struct Outsider {
    tap: Tap,
    sequence: Sequence,
}

impl Outsider {
    /// Attaches the attacker to the core router.
    pub(crate) fn connect(network: &NemoNetwork) -> Result<Outsider> {
        let tap = Tap::open(&network.core, "evil0")?;
        network.core.ip(&["route add 2001:db8:bad::/48 via fe80::1 dev evil0"])?;
        Ok(Outsider { tap, sequence: Sequence(0) })
    }

    /// Sends a packet.
    pub(crate) fn send(&mut self, packet: &[u8]) -> Result<()> {
        Ok(self.tap.send(packet)?)
    }

    /// The result of `read` for the next packet for which it is not `None`, within `timeout`.
    pub(crate) fn receive<T>(&mut self, timeout: Duration, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        self.tap.receive_within(timeout, read)
    }

    /// Sends a request from the attacker's network; the status of the acknowledgement, `None` without one. The sequence
    /// number is set here, and set again if the home agent reports the last one (status 135).
    pub(crate) fn request_status(&mut self, router: &SyntheticRouter, request: &UpdateRequest) -> Result<Option<u8>> {
        for _ in 0..3 {
            self.sequence = self.sequence.next();
            let request =
                UpdateRequest { sequence: self.sequence, unix_micros: clock::unix_micros(), ..request.clone() };
            self.send(&router.signed_update_from(attacker_address(1), &request))?;
            let answer = self.receive(TIMEOUT, parse_acknowledgement);
            match answer {
                Some((_, OUT_OF_WINDOW, last)) => self.sequence = last,
                Some((_, status, _)) => return Ok(Some(status)),
                None => {}
            }
        }
        Ok(None)
    }
}

/// Status 135: sequence number out of window (RFC 6275 §6.1.8).
pub(crate) const OUT_OF_WINDOW: u8 = 135;

/// Vehicle `number` with its key and this care-of address.
pub(crate) fn insider(number: u8, care_of: Ipv6Addr) -> SyntheticRouter {
    SyntheticRouter {
        home_agent: HOME_AGENT,
        home_address: HomeAddress(nemo::home_address(number)),
        care_of: CareOfAddress(care_of),
        spi: nemo::FIRST_SPI + u32::from(number),
        key: nemo::key(),
    }
}
