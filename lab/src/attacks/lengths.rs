//! An insider registers prefixes of many lengths, all inside its own network, before other routers register.

use super::{Outsider, insider, own_address};
use crate::topology::{World, network};
use crate::traffic::forge::Request;
use anyhow::Result;
use roam6_wire::mobility::MobilityOption;
use roam6_wire::{Prefix, Sequence};
use serde_json::{Value, json};
use std::time::Duration;

/// Mobile routers that register after the insider.
const OTHERS: u8 = 2;
/// Prefix lengths that the insider registers.
const LENGTHS: std::ops::RangeInclusive<u8> = 65..=79;

/// The number of mobile routers that are refused afterwards, and a result row.
pub(crate) fn locked_out() -> Result<(usize, Value)> {
    let world = World::build(Duration::ZERO, OTHERS + 1, "duplicate_detection = false")?;
    let mut outsider = Outsider::connect(&world)?;
    let first = network(OTHERS);
    let options = LENGTHS.filter_map(|length| Prefix::new(first, length)).map(MobilityOption::MobileNetworkPrefix);
    let greedy = Request { options: options.collect(), ..Request::new(Sequence(0)) };
    let greedy = outsider.ask(&insider(OTHERS, own_address(20)), &greedy)?;
    let mut statuses = Vec::new();
    for number in 0..OTHERS {
        let care_of = own_address(30 + u16::from(number));
        statuses.push(outsider.ask(&insider(number, care_of), &Request::new(Sequence(0)))?);
    }
    let locked_out = statuses.iter().filter(|status| status.is_none_or(|status| status >= 128)).count();
    Ok((locked_out, json!({ "attack": "many prefix lengths", "insider": greedy, "others": statuses })))
}
