//! Insiders register care-of addresses that lead back into tunnels of the same home agent.

use super::{Outsider, attacker_address, insider};
use crate::bed::Daemon;
use crate::load::forge::{UpdateRequest, bid_option};
use crate::topology::nemo::{NO_DAD, NemoNetwork, home_address, mobile_network};
use anyhow::Result;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::MobilityOption;
use roam6_wire::{Prefix, Sequence};
use serde_json::{Value, json};
use std::net::Ipv6Addr;
use std::thread::sleep;
use std::time::Duration;

/// Long enough to count a looping packet many times.
const OBSERVATION_TIME: Duration = Duration::from_secs(2);
/// Octets of the packet: with a tunnel header it has to be fragmented repeatedly.
const OCTETS: usize = 1200;

/// Registers care-of addresses that form a loop; the statuses of the acknowledgements.
type Register = fn(&mut Outsider) -> Result<Vec<Option<u8>>>;

/// The kinds of loops; the test packet is sent into each.
const VARIANTS: [(&str, Register); 3] =
    [("bid", by_bids), ("mutual", by_mutual_networks), ("homes", by_home_addresses)];

/// For each variant the statuses, and how often one packet was forwarded.
pub(crate) fn forwarded_per_packet() -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for (name, register) in VARIANTS {
        let network = NemoNetwork::build(Duration::ZERO, 2, NO_DAD)?;
        let mut outsider = Outsider::connect(&network)?;
        let statuses = register(&mut outsider)?;
        let before = forwarded_packets(&network.home_agent)?;
        let header = Header::new(attacker_address(7), address_inside(0, 0, 5));
        outsider.send(&ip6::emit(&header, protocol::NONE, &vec![0; OCTETS - 40]))?;
        sleep(OBSERVATION_TIME);
        let count = forwarded_packets(&network.home_agent)?.saturating_sub(before);
        rows.push(json!({ "attack": format!("loop: {name}"), "statuses": statuses, "forwarded": count }));
    }
    Ok(rows)
}

/// One router whose second registration adds the prefix that contains the care-of address of the first.
fn by_bids(outsider: &mut Outsider) -> Result<Vec<Option<u8>>> {
    let (near, far) = (prefix_option(0, 0), prefix_option(0, 1));
    let looping = insider(0, address_inside(0, 1, 9));
    let first = UpdateRequest { options: vec![bid_option(1, looping.care_of.0), near.clone()], ..request() };
    let elsewhere = insider(0, attacker_address(9));
    let second = UpdateRequest { options: vec![bid_option(2, elsewhere.care_of.0), near, far], ..request() };
    Ok(vec![outsider.request_status(&looping, &first)?, outsider.request_status(&elsewhere, &second)?])
}

/// Two routers, each in the other's network.
fn by_mutual_networks(outsider: &mut Outsider) -> Result<Vec<Option<u8>>> {
    register_both(outsider, [address_inside(1, 0, 9), address_inside(0, 0, 9)])
}

/// Two routers, each at the other's home address.
fn by_home_addresses(outsider: &mut Outsider) -> Result<Vec<Option<u8>>> {
    register_both(outsider, [home_address(1), home_address(0)])
}

/// Registers these care-of addresses of the first and the second router.
fn register_both(outsider: &mut Outsider, care_of: [Ipv6Addr; 2]) -> Result<Vec<Option<u8>>> {
    let routers = (0..).zip(care_of).map(|(number, care_of)| insider(number, care_of));
    routers.map(|router| outsider.request_status(&router, &request())).collect()
}

fn request() -> UpdateRequest {
    UpdateRequest::new(Sequence(0))
}

/// An address in /64 number `subnet` of the mobile network of vehicle `number`.
fn address_inside(number: u8, subnet: u16, host: u16) -> Ipv6Addr {
    let bits = mobile_network(number).to_bits() | u128::from(subnet) << 64 | u128::from(host);
    Ipv6Addr::from_bits(bits)
}

fn prefix_option(number: u8, subnet: u16) -> MobilityOption {
    MobilityOption::MobileNetworkPrefix(Prefix::new(address_inside(number, subnet, 0), 64).unwrap_or(Prefix::ALL))
}

/// Packets encapsulated or fragmented so far, by any part of the data plane.
fn forwarded_packets(daemon: &Daemon) -> Result<u64> {
    let packets = daemon.counters("packets").unwrap_or_default();
    let counts =
        |name: &str| name.starts_with("encapsulated") || name.starts_with("hairpinned") || name == "fragmented";
    Ok(packets.iter().filter(|(name, _)| counts(name)).map(|(_, count)| count).sum())
}
