//! Subnets of a delegated prefix: a /64 for each ingress interface, the same as long as the interface exists. The rest
//! is unreachable, so that packets do not loop between this router and the provider's (RFC 7084 §4.2, §4.3).

use crate::contract::item::{NextHop, RouteTable};
use crate::{Item, LinkId, VecMap};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Interfaces that may have a subnet.
pub const MAX_SUBNETS: usize = 256;
/// Metric of the unreachable route for the rest: worse than any route to a subnet.
pub const UNASSIGNED_METRIC: u32 = 4_278_198_272;
/// Metric of the route to a subnet.
const SUBNET_METRIC: u32 = 256;
const SUBNET_LENGTH: u8 = 64;

/// The subnet number of each ingress interface.
#[derive(Debug, Clone, Default)]
pub struct Subnets {
    numbers: VecMap<LinkId, u32>,
}

impl Subnets {
    /// Numbers the interfaces by their position; an absent one keeps its number free for its return. At most
    /// [`MAX_SUBNETS`].
    pub fn of(links: impl IntoIterator<Item = Option<LinkId>>) -> Subnets {
        let numbered = links.into_iter().zip(0..).take(MAX_SUBNETS);
        Subnets { numbers: numbered.filter_map(|(link, number)| Some((link?, number))).collect() }
    }

    /// The subnet of a delegated prefix for an interface; `None` if the prefix is too small.
    pub fn find(&self, link: LinkId, delegated: Prefix) -> Option<Prefix> {
        let number = u128::from(*self.numbers.get(&link)?);
        let bits = SUBNET_LENGTH.checked_sub(delegated.length())?;
        if number >= 1u128.checked_shl(bits.into())? {
            return None;
        }
        Prefix::new(Ipv6Addr::from_bits(delegated.address().to_bits() | number << SUBNET_LENGTH), SUBNET_LENGTH)
    }

    /// The routes of a delegated prefix: one to each subnet, and an unreachable route for the rest.
    pub fn routes(&self, delegated: Prefix) -> Vec<Item> {
        let route = |destination, metric, target| Item::route(RouteTable::MAIN, destination, metric, target);
        let assigned = self.numbers.keys().filter_map(|link| Some((*link, self.find(*link, delegated)?)));
        let subnets = assigned.map(|(link, subnet)| route(subnet, SUBNET_METRIC, NextHop::OnLink(link)));
        let rest = route(delegated, UNASSIGNED_METRIC, NextHop::Unreachable);
        std::iter::once(rest).chain(subnets).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::vec_set::VecSet;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn interface_keeps_its_subnet_and_small_prefix_serves_first_only() {
        let (one, two, three) = (LinkId(9), LinkId(4), LinkId(5));
        let subnets = Subnets::of([Some(one), Some(two), Some(three)]);
        let large = prefix("2001:db8:a00::/56");
        assert_eq!(subnets.find(one, large), Some(prefix("2001:db8:a00::/64")));
        assert_eq!(subnets.find(two, large), Some(prefix("2001:db8:a00:1::/64")));
        assert_eq!(subnets.find(two, prefix("2001:db8:a00::/64")), None);
        assert_eq!(subnets.find(three, prefix("2001:db8:a00::/63")), None);
        assert_eq!(subnets.find(one, prefix("2001:db8:a00::/65")), None);
        let without = Subnets::of([None, Some(two), Some(three)]);
        assert_eq!(without.find(three, large), Some(prefix("2001:db8:a00:2::/64")));
        assert_eq!(without.find(one, large), None);
    }

    #[test]
    fn unassigned_subnets_are_unreachable() {
        let subnets = Subnets::of([Some(LinkId(3))]);
        let routes = subnets.routes(prefix("2001:db8:a00::/56"));
        let [Item::Route(rest), Item::Route(subnet)] = &routes[..] else { panic!("{routes:?}") };
        assert_eq!((rest.target, rest.destination), (NextHop::Unreachable, prefix("2001:db8:a00::/56")));
        assert_eq!((subnet.target, subnet.destination), (NextHop::OnLink(LinkId(3)), prefix("2001:db8:a00::/64")));
        let whole = subnets.routes(prefix("2001:db8:a00::/64"));
        let keys: VecSet<_> = whole.iter().map(Item::key).collect();
        assert_eq!(keys.len(), 2, "a prefix that is one subnet has both routes, the better one first");
    }

    #[test]
    fn subnets_are_bounded() {
        let subnets = Subnets::of((0..1000).map(|link| Some(LinkId(link))));
        assert_eq!(subnets.routes(prefix("2001:db8::/32")).len(), MAX_SUBNETS + 1);
    }
}
