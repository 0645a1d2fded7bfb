//! Mobile routers whose home address another one registers with the same key: their updates supersede each other (RFC 6275
//! §9.5.1 has no means against it). No accepted update ends this fault, because each of them sends some.

use super::types::CareOf;
use crate::Time;
use crate::nemo::fault::RivalSigns;
use core::time::Duration;
use roam6_wire::{HomeAddress, Ipv4Endpoint};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Signs that suffice.
const REQUIRED: u8 = 3;
/// Maximum home addresses with signs; the one whose last sign is the oldest is forgotten.
const MAX_RIVALS: usize = 64;

/// Signs by home address. Only holders of a key can add any, each for its own home address.
#[derive(Debug, Default)]
pub(super) struct Rivals(BTreeMap<HomeAddress, Rival>);

#[derive(Debug)]
struct Rival {
    signs: RivalSigns,
    care_of: Ipv6Addr,
}

impl Rivals {
    /// Records an authentic and fresh update with an old sequence number from `care_of`, outside of the binding; returns
    /// whether another mobile router is known from now on.
    pub(super) fn record(&mut self, now: Time, home: HomeAddress, care_of: Ipv6Addr) -> bool {
        if !self.0.contains_key(&home) && self.0.len() >= MAX_RIVALS {
            let oldest = self.0.iter().min_by_key(|(_, rival)| rival.signs.last()).map(|(home, _)| *home);
            oldest.and_then(|oldest| self.0.remove(&oldest));
        }
        let rival = self.0.entry(home).or_insert_with(|| Rival { signs: RivalSigns::default(), care_of });
        rival.care_of = care_of;
        rival.signs.record(now, REQUIRED)
    }

    /// What is known of another mobile router with this home address, and for how long.
    pub(super) fn show(&self, now: Time, home: HomeAddress, care_of: &CareOf) -> Option<(String, Duration)> {
        let rival = self.0.get(&home)?;
        let since = rival.signs.since(now)?;
        let [one, other] = [care_of.address, rival.care_of].map(shown);
        let text =
            if one == other { format!("the last one from {one}") } else { format!("from {one} and from {other}") };
        Some((format!("two mobile routers register {home} with one key: {text}"), now.since(since)))
    }
}

/// A care-of address as people write it: one over IPv4 without its port.
pub(super) fn shown(care_of: Ipv6Addr) -> IpAddr {
    Ipv4Endpoint::from_ipv6(care_of).map_or(care_of, |end| end.address.to_ipv6_mapped()).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut rivals = Rivals::default();
        for number in 0..1000_u16 {
            let home = HomeAddress(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number));
            rivals.record(Time::from_micros(u64::from(number)), home, Ipv6Addr::LOCALHOST);
        }
        assert_eq!(rivals.0.len(), MAX_RIVALS);
    }
}
