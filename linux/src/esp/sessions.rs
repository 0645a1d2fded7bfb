//! The security associations of encrypted paths, as the kernel shows them.

use super::message::{self, Xfrm};
use super::paths::is_ours;
use crate::error::Error;
use crate::netlink::socket::Netlink;
use crate::survey::clock_state;
use crate::tunnel::device;
use roam6_proto::contract::config::encryption::MAX_WIREGUARD_BID;
use roam6_wire::Bid;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// An association.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Association {
    /// The binding identifier of the path.
    pub bid: Bid,
    /// The device.
    pub device: String,
    /// Its SPI, by which the receiver knows it.
    pub spi: u32,
    /// The sender.
    pub source: Ipv6Addr,
    /// The receiver.
    pub destination: Ipv6Addr,
    /// Seconds since its keys were agreed.
    pub age: u64,
    /// Seconds since it was first used; none if it was not.
    pub used_age: Option<u64>,
    /// Packets.
    pub packets: u64,
    /// Octets, of inner packets.
    pub octets: u64,
    /// Packets refused because they were replayed, or are older than the window.
    pub replayed: u32,
    /// Packets refused because they are not authentic.
    pub forged: u32,
}

/// All associations, by device; the newest first.
///
/// # Errors
/// The kernel's.
pub fn associations() -> Result<Vec<Association>, Error> {
    let devices: Vec<String> =
        device::all(&mut Netlink::open()?)?.into_iter().filter(is_ours).map(|link| link.name).collect();
    if devices.is_empty() {
        return Ok(Vec::new());
    }
    let now = clock_state().unix;
    let mut found: Vec<Association> = Xfrm::open()?.all()?.iter().map(|known| show(known, now)).collect();
    found.retain(|one| devices.contains(&one.device));
    found.sort_by(|one, other| (&one.device, one.age, one.spi).cmp(&(&other.device, other.age, other.spi)));
    Ok(found)
}

fn show(known: &message::Association, now: u64) -> Association {
    Association {
        bid: Bid(known.interface_id as u16 % MAX_WIREGUARD_BID),
        device: format!("{}{:x}", super::DEVICE_PREFIX, known.interface_id),
        spi: known.id.spi,
        source: known.source,
        destination: known.id.destination,
        age: now.saturating_sub(known.added),
        used_age: (known.used != 0).then(|| now.saturating_sub(known.used)),
        packets: known.packets,
        octets: known.octets,
        replayed: known.replayed,
        forged: known.forged,
    }
}
