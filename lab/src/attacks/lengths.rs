//! An insider registers prefixes of many lengths, all inside its own network, before other routers register.

use super::{Outsider, attacker_address, insider};
use crate::load::forge::UpdateRequest;
use crate::topology::nemo::{NO_DAD, NemoNetwork, mobile_network};
use anyhow::Result;
use roam6_wire::mobility::MobilityOption;
use roam6_wire::{Prefix, Sequence};
use serde_json::{Value, json};
use std::time::Duration;

/// Mobile routers that register after the insider.
const OTHER_ROUTERS: u8 = 2;
/// Prefix lengths that the insider registers.
const PREFIX_LENGTHS: std::ops::RangeInclusive<u8> = 65..=79;

/// The number of mobile routers that are refused afterwards, and a result row.
pub(crate) fn locked_out() -> Result<(usize, Value)> {
    let network = NemoNetwork::build(Duration::ZERO, OTHER_ROUTERS + 1, NO_DAD)?;
    let mut outsider = Outsider::connect(&network)?;
    let first = mobile_network(OTHER_ROUTERS);
    let options =
        PREFIX_LENGTHS.filter_map(|length| Prefix::new(first, length)).map(MobilityOption::MobileNetworkPrefix);
    let greedy = UpdateRequest { options: options.collect(), ..UpdateRequest::new(Sequence(0)) };
    let greedy = outsider.request_status(&insider(OTHER_ROUTERS, attacker_address(20)), &greedy)?;
    let mut statuses = Vec::new();
    for number in 0..OTHER_ROUTERS {
        let care_of = attacker_address(30 + u16::from(number));
        statuses.push(outsider.request_status(&insider(number, care_of), &UpdateRequest::new(Sequence(0)))?);
    }
    let locked_out = statuses.iter().filter(|status| status.is_none_or(|status| status >= 128)).count();
    Ok((locked_out, json!({ "attack": "many prefix lengths", "insider": greedy, "others": statuses })))
}
