//! Multiple care-of addresses: applies the Binding Identifier options of an update. RFC 5648 §5.6, §6.2 and §6.3;
//! priorities of RFC 6089 §4.1.

use super::care_of::is_routable_unicast;
use super::types::{BidOption, BidStatus, CareOf};
use crate::base::time::Time;
use roam6_wire::mobility::{CareOfField, Status};
use roam6_wire::{Bid, Ipv4Endpoint, Ipv6Endpoint};
use std::net::Ipv6Addr;

/// Maximum care-of addresses of one home address.
pub(super) const MAX_CARE_OF: usize = 6;

/// The parts of an update that apply to all its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BidUpdate {
    /// Lifetime 0: the options de-register.
    pub deregister: bool,
    /// The O flag: former registrations are removed.
    pub overwrite: bool,
    /// End of the granted lifetime.
    pub expires: Time,
    /// The home address, if simultaneous home binding is possible.
    pub home_address: Option<Ipv6Addr>,
    /// The source of an update over IPv4. It is the IPv4 care-of address, whatever the option has, because of NAT (RFC
    /// 5555 §4.2).
    pub ipv4_source: Option<Ipv4Endpoint>,
    /// The source of an update in UDP over IPv6: likewise the care-of address of a path in UDP.
    pub udp6_source: Option<Ipv6Endpoint>,
}

/// The care-of address of an option, with its UDP port.
type End = (Ipv6Addr, Option<u16>);

/// The resulting care-of addresses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MergedCareOf {
    /// All care-of addresses.
    pub care_of: Vec<CareOf>,
    /// One result for each option.
    pub bid_statuses: Vec<BidStatus>,
}

/// Merges `options` into the `known` care-of addresses.
///
/// # Errors
///
/// The status that rejects the whole update.
pub(super) fn merge_care_of(
    known: &[CareOf],
    options: &[BidOption],
    update: &BidUpdate,
    usable: impl Fn(Ipv6Addr) -> bool,
) -> Result<MergedCareOf, Status> {
    let at_home = options.iter().any(|option| option.simultaneous_home);
    if at_home && !update.deregister && update.home_address.is_none() {
        return Err(Status::MCOA_SIMULTANEOUS_PROHIBITED);
    }
    let plain = known.iter().any(|care_of| care_of.bid == Bid(0));
    if plain && !update.overwrite && !update.deregister {
        return Err(Status::MCOA_NON_MCOA_BINDING_EXISTS);
    }
    let keep = if update.overwrite && !update.deregister { &[] } else { known };
    let mut merged = MergedCareOf { care_of: keep.to_vec(), bid_statuses: Vec::new() };
    if !update.deregister && !at_home {
        // RFC 5648 §5.6.5: a registration without the H flag means that the home link was left.
        merged.care_of.retain(|care_of| !care_of.simultaneous_home);
    }
    for option in options {
        let repeated = merged.bid_statuses.iter().any(|echo| echo.bid == option.bid);
        if let Some(end) = observed_end(option, update).filter(|_| !update.deregister) {
            // A NAT has given the mapping of another care-of address, which has lost it, to this one.
            let is_present = |care_of: &CareOf| merged.bid_statuses.iter().any(|echo| echo.bid == care_of.bid);
            merged.care_of.retain(|care_of| (care_of.address, care_of.udp) != end || is_present(care_of));
        }
        let result = match repeated || option.bid == Bid(0) {
            true => Err(Status::MCOA_MALFORMED),
            false if update.deregister => delete_bid(&mut merged.care_of, option),
            false => register_bid(&mut merged.care_of, known, option, update, &usable),
        };
        // This home agent continues to defend the home address, so its owner must not (RFC 5648 §6.3).
        let accepted = if option.simultaneous_home && !update.deregister {
            Status::MCOA_RETURN_HOME_WITHOUT_NDP
        } else {
            Status::ACCEPTED
        };
        let status = result.err().unwrap_or(accepted);
        merged.bid_statuses.push(BidStatus {
            bid: option.bid,
            priority: option.priority,
            simultaneous_home: option.simultaneous_home,
            status,
        });
    }
    let failed = merged.bid_statuses.iter().find(|echo| !echo.status.is_accepted()).map(|echo| echo.status);
    match failed {
        Some(status) if merged.bid_statuses.iter().all(|echo| !echo.status.is_accepted()) => Err(status),
        _ => Ok(merged),
    }
}

fn delete_bid(care_of: &mut Vec<CareOf>, option: &BidOption) -> Result<(), Status> {
    let before = care_of.len();
    care_of.retain(|known| known.bid != option.bid);
    if care_of.len() < before { Ok(()) } else { Err(Status::NOT_HOME_AGENT) }
}

fn register_bid(
    care_of: &mut Vec<CareOf>,
    known: &[CareOf],
    option: &BidOption,
    update: &BidUpdate,
    usable: &impl Fn(Ipv6Addr) -> bool,
) -> Result<(), Status> {
    let remembered = known.iter().find(|one| one.bid == option.bid).map(|one| (one.address, one.udp));
    let (address, udp) = match option.care_of {
        CareOfField::V6(address) if !option.udp => (address, None),
        CareOfField::V6(_) | CareOfField::V4(_) => observed_end(option, update).ok_or(Status::INVALID_CARE_OF)?,
        CareOfField::None => remembered.ok_or(Status::MCOA_UNKNOWN_CARE_OF)?,
    };
    // An IPv4 care-of address was the source of this update or of a former one.
    let is_observed = !matches!(option.care_of, CareOfField::V6(_)) && Ipv4Endpoint::from_ipv6(address).is_some();
    if !is_routable_unicast(address) && !is_observed {
        return Err(Status::MCOA_MALFORMED);
    }
    let home = update.home_address.filter(|_| option.simultaneous_home);
    let usable = home.map_or_else(|| usable(address), |home| home == address);
    let same = |other: &CareOf| (other.address, other.udp) == (address, udp) && other.bid != option.bid;
    if !usable || care_of.iter().any(same) {
        return Err(Status::INVALID_CARE_OF);
    }
    care_of.retain(|one| one.bid != option.bid);
    if care_of.len() >= MAX_CARE_OF {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    let (bid, priority, expires, since) = (option.bid, option.priority, update.expires, Time::ZERO);
    let (simultaneous_home, wireguard, esp) = (option.simultaneous_home, None, None);
    care_of.push(CareOf { bid, address, priority, simultaneous_home, udp, wireguard, esp, expires, since });
    Ok(())
}

/// The source of the update, if that is the care-of address of `option`.
fn observed_end(option: &BidOption, update: &BidUpdate) -> Option<End> {
    match option.care_of {
        CareOfField::V4(_) => update.ipv4_source.map(|source| (source.to_ipv6(), None)),
        CareOfField::V6(_) if option.udp => update.udp6_source.map(|source| (source.address, Some(source.port))),
        CareOfField::V6(_) | CareOfField::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Time = Time::from_micros(60_000_000);

    fn care_of(bid: u16, address: &str) -> CareOf {
        CareOf {
            bid: Bid(bid),
            address: address.parse().unwrap(),
            priority: 0,
            simultaneous_home: false,
            udp: None,
            wireguard: None,
            esp: None,
            expires: Time::ZERO,
            since: Time::ZERO,
        }
    }

    fn option(bid: u16, address: &str) -> BidOption {
        BidOption {
            bid: Bid(bid),
            priority: 0,
            simultaneous_home: false,
            care_of: CareOfField::V6(address.parse().unwrap()),
            udp: false,
        }
    }

    fn update(ends: bool, overwrite: bool) -> BidUpdate {
        BidUpdate {
            deregister: ends,
            overwrite,
            expires: SOON,
            home_address: None,
            ipv4_source: None,
            udp6_source: None,
        }
    }

    fn statuses(merged: &MergedCareOf) -> Vec<Status> {
        merged.bid_statuses.iter().map(|echo| echo.status).collect()
    }

    #[test]
    fn bulk_registration_adds_moves_and_keeps_bids() {
        let known = [care_of(1, "2001:db8:1::1"), care_of(2, "2001:db8:2::1")];
        let options = [option(2, "2001:db8:9::1"), option(3, "2001:db8:3::1")];
        let merged = merge_care_of(&known, &options, &update(false, false), |_| true).unwrap();
        let kept: Vec<String> = merged.care_of.iter().map(|one| format!("{} {}", one.bid, one.address)).collect();
        assert_eq!(kept, ["1 2001:db8:1::1", "2 2001:db8:9::1", "3 2001:db8:3::1"]);
        let merged = merge_care_of(&known, &options, &update(false, true), |_| true).unwrap();
        assert_eq!(merged.care_of.len(), 2, "overwritten");
    }

    #[test]
    fn bid_without_care_of_address_must_be_registered() {
        let known = [care_of(1, "2001:db8:1::1")];
        let bare = |bid| BidOption { care_of: CareOfField::None, ..option(bid, "::") };
        let merged = merge_care_of(&known, &[bare(1)], &update(false, false), |_| true).unwrap();
        assert_eq!((merged.care_of[0].address, merged.care_of[0].expires), (known[0].address, SOON));
        assert_eq!(
            merge_care_of(&known, &[bare(7)], &update(false, false), |_| true),
            Err(Status::MCOA_UNKNOWN_CARE_OF)
        );
        let merged = merge_care_of(&known, &[bare(1), bare(7)], &update(false, false), |_| true).unwrap();
        assert_eq!(statuses(&merged), [Status::ACCEPTED, Status::MCOA_UNKNOWN_CARE_OF]);
    }

    fn end(port: u16) -> Ipv4Endpoint {
        Ipv4Endpoint { address: [198, 51, 100, 7].into(), port }
    }

    fn over_ipv4(bid: u16, port: u16) -> CareOf {
        CareOf { address: end(port).to_ipv6(), ..care_of(bid, "::") }
    }

    #[test]
    fn ipv4_care_of_address_is_named_by_its_bid_alone() {
        let known = [care_of(1, "2001:db8:1::1"), over_ipv4(2, 40_001)];
        let bare = BidOption { care_of: CareOfField::None, ..option(2, "::") };
        let merged =
            merge_care_of(&known, &[option(1, "2001:db8:5::1"), bare], &update(false, true), |_| true).unwrap();
        assert_eq!(statuses(&merged), [Status::ACCEPTED; 2]);
        assert_eq!(merged.care_of[1].address, known[1].address, "it stays although the update came over IPv6");
        let named = BidOption { care_of: CareOfField::V6(known[1].address), ..bare };
        let refused = merge_care_of(&known, &[named], &update(false, false), |_| true);
        assert_eq!(refused, Err(Status::MCOA_MALFORMED), "no source of an update");
    }

    #[test]
    fn mapping_that_a_nat_gave_to_another_uplink_moves_to_it() {
        let known = [over_ipv4(1, 40_001), over_ipv4(2, 40_002)];
        let seen = BidUpdate { ipv4_source: Some(end(40_001)), ..update(false, false) };
        let option = |bid| BidOption { care_of: CareOfField::V4([10, 0, 0, 2].into()), ..option(bid, "::") };
        let merged = merge_care_of(&known, &[option(2)], &seen, |_| true).unwrap();
        assert_eq!(merged.care_of, [CareOf { expires: SOON, ..over_ipv4(2, 40_001) }]);
        let merged = merge_care_of(&known, &[option(1), option(2)], &seen, |_| true).unwrap();
        assert_eq!(statuses(&merged), [Status::ACCEPTED, Status::INVALID_CARE_OF], "one mapping is of one uplink");
        assert_eq!(merged.care_of[0], known[1]);
    }

    #[test]
    fn each_mcoa_error_has_its_status() {
        let plain = [care_of(0, "2001:db8:1::1")];
        let one = [option(1, "2001:db8:2::1")];
        let merge_all = |options: &[BidOption]| merge_care_of(&[], options, &update(false, false), |_| true);
        assert_eq!(
            merge_care_of(&plain, &one, &update(false, false), |_| true),
            Err(Status::MCOA_NON_MCOA_BINDING_EXISTS)
        );
        assert!(merge_care_of(&plain, &one, &update(false, true), |_| true).is_ok());
        assert_eq!(merge_all(&[option(0, "2001:db8:2::1")]), Err(Status::MCOA_MALFORMED));
        assert_eq!(merge_all(&[option(1, "ff02::1")]), Err(Status::MCOA_MALFORMED));
        let home = BidOption { simultaneous_home: true, ..one[0] };
        assert_eq!(merge_all(&[home]), Err(Status::MCOA_SIMULTANEOUS_PROHIBITED));
        assert_eq!(merge_care_of(&[], &one, &update(false, false), |_| false), Err(Status::INVALID_CARE_OF));
        assert_eq!(merge_care_of(&[], &one, &update(true, false), |_| true), Err(Status::NOT_HOME_AGENT));
        let twice = merge_all(&[one[0], one[0]]).unwrap();
        assert_eq!(statuses(&twice), [Status::ACCEPTED, Status::MCOA_MALFORMED]);
        let many: Vec<BidOption> = (1..=7).map(|bid| option(bid, &format!("2001:db8:{bid}::1"))).collect();
        assert_eq!(statuses(&merge_all(&many).unwrap())[6], Status::INSUFFICIENT_RESOURCES);
    }

    #[test]
    fn deleting_one_bid_leaves_the_others() {
        let known = [care_of(1, "2001:db8:1::1"), care_of(2, "2001:db8:2::1")];
        let merged = merge_care_of(&known, &[option(1, "::")], &update(true, true), |_| true).unwrap();
        assert_eq!(merged.care_of, known[1..]);
    }
}
