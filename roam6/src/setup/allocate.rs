//! Which prefix and home address the next mobile router gets.

use roam6_wire::Prefix;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Identifier of the first home address; those before it are left to routers of the home link.
const FIRST_HOME_ADDRESS: u128 = 0x10;

/// The first prefix of this length in the pool that overlaps none of `taken`; `None` if there is no room.
pub(crate) fn next_free(pool: Prefix, length: u8, taken: &[Prefix]) -> Option<Prefix> {
    if length < pool.length() || length > 128 {
        return None;
    }
    let mut taken: Vec<(u128, u128)> = taken.iter().map(|prefix| bounds(*prefix)).collect();
    taken.sort_unstable();
    let (mut first, end) = bounds(pool);
    for (low, high) in taken {
        let (_, last) = bounds(Prefix::new(Ipv6Addr::from_bits(first), length)?);
        if low > last {
            break;
        }
        if high >= first {
            // The first prefix of this length behind it.
            let (_, whole) = bounds(Prefix::new(Ipv6Addr::from_bits(high), length)?);
            first = whole.checked_add(1).filter(|first| *first <= end)?;
        }
    }
    Prefix::new(Ipv6Addr::from_bits(first), length)
}

/// The first home address of the prefix that is not taken.
pub(crate) fn next_home_address(home: Prefix, taken: &BTreeSet<Ipv6Addr>) -> Option<Ipv6Addr> {
    let address = |number| Some(Ipv6Addr::from_bits(home.address().to_bits().checked_add(number)?));
    let mut numbers = FIRST_HOME_ADDRESS..;
    numbers.find_map(|number| match address(number) {
        Some(address) if home.contains(address) => (!taken.contains(&address)).then_some(Some(address)),
        _ => Some(None),
    })?
}

/// First and last address, as numbers.
fn bounds(prefix: Prefix) -> (u128, u128) {
    let first = prefix.address().to_bits();
    (first, first | u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn next(length: u8, taken: &[&str]) -> Option<String> {
        let taken: Vec<Prefix> = taken.iter().map(|text| prefix(text)).collect();
        next_free(prefix("2001:db8:100::/56"), length, &taken).map(|prefix| prefix.to_string())
    }

    #[test]
    fn the_first_gap_is_taken() {
        let is = |text: &str| Some(text.to_owned());
        assert_eq!(next(64, &[]), is("2001:db8:100::/64"));
        assert_eq!(next(60, &["2001:db8:100::/64"]), is("2001:db8:100:10::/60"), "behind the home network");
        assert_eq!(next(64, &["2001:db8:100::/64", "2001:db8:100:2::/64"]), is("2001:db8:100:1::/64"));
        assert_eq!(next(63, &["2001:db8:100:1::/64", "2001:db8:100:2::/64"]), is("2001:db8:100:4::/63"));
        assert_eq!(next(60, &["2001:db8:100::/57"]), is("2001:db8:100:80::/60"));
        assert_eq!(next(60, &["2001:db8:0:ff::/64", "10.0.0.0/8", "2001:db8:101::/48"]), is("2001:db8:100::/60"));
        assert_eq!(next(60, &["2001:db8::/32"]), None);
        assert_eq!(next(56, &["2001:db8:100:ff::/64"]), None);
        assert_eq!(next(48, &[]), None);
        assert_eq!(next_free(prefix("ffff::/16"), 16, &[prefix("ffff::/16")]), None, "nothing behind the last address");
    }

    #[test]
    fn all_of_a_pool_is_given_out_without_overlap() {
        let mut taken = vec![prefix("2001:db8:100::/64")];
        while let Some(next) = next_free(prefix("2001:db8:100::/56"), 60, &taken) {
            assert!(!taken.iter().any(|one| one.covers(next) || next.covers(*one)), "{next}");
            taken.push(next);
        }
        assert_eq!(taken.len(), 16);
    }

    #[test]
    fn home_addresses_are_counted_up() {
        let home = prefix("2001:db8::/64");
        let mut taken = BTreeSet::new();
        assert_eq!(next_home_address(home, &taken), "2001:db8::10".parse().ok());
        taken.extend(["2001:db8::10", "2001:db8::12"].map(|text| text.parse::<Ipv6Addr>().unwrap()));
        assert_eq!(next_home_address(home, &taken), "2001:db8::11".parse().ok());
        assert_eq!(next_home_address(prefix("2001:db8::/124"), &taken), None);
    }
}
