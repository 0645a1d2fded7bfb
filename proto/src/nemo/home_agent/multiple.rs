//! Several care-of addresses of one home address: what the Binding Identifier options of an update do to those registered.
//! RFC 5648 §5.6, §6.2 and §6.3, priorities of RFC 6089 §4.1.

use super::binding::CareOf;
use super::care_of::is_unicast;
use crate::base::time::Time;
use roam6_wire::mobility::{CareOfField, Status};
use roam6_wire::{Bid, Ipv4Endpoint};
use std::net::Ipv6Addr;

/// Most care-of addresses of one home address.
pub(super) const MAX_CARE_OF: usize = 6;

/// One Binding Identifier option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    /// Identifier.
    pub bid: Bid,
    /// Priority, 0 for none.
    pub priority: u8,
    /// The H flag: at home and away at once.
    pub at_home: bool,
    /// Care-of address, if the option has one.
    pub care_of: CareOfField,
}

/// What was decided about one option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Echo {
    /// Identifier.
    pub bid: Bid,
    /// Priority, as it came.
    pub priority: u8,
    /// The H flag, as it came.
    pub at_home: bool,
    /// [`Status::ACCEPTED`] also where the status of the acknowledgement says it all.
    pub status: Status,
}

/// What an update asks of all its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    /// Lifetime 0: they are to be deleted.
    pub ends: bool,
    /// The O flag: what was registered before goes.
    pub overwrite: bool,
    /// End of the lifetime granted.
    pub expires: Time,
    /// The home address, if its owner may be on the home link at the same time.
    pub home: Option<Ipv6Addr>,
    /// Where the update came from, if it was carried by IPv4: that is the IPv4 care-of address, whatever a NAT has hidden
    /// from the option (RFC 5555 §4.2).
    pub carried: Option<Ipv4Endpoint>,
}

/// The care-of addresses from now on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Merged {
    /// All of them.
    pub care_of: Vec<CareOf>,
    /// One for each option.
    pub echoes: Vec<Echo>,
}

/// Merges `offers` into the `known` care-of addresses. An error is the status of an update refused as a whole.
pub(super) fn merge(
    known: &[CareOf],
    offers: &[Offer],
    order: &Order,
    usable: impl Fn(Ipv6Addr) -> bool,
) -> Result<Merged, Status> {
    let at_home = offers.iter().any(|offer| offer.at_home);
    if at_home && !order.ends && order.home.is_none() {
        return Err(Status::MCOA_SIMULTANEOUS_PROHIBITED);
    }
    let plain = known.iter().any(|care_of| care_of.bid == Bid(0));
    if plain && !order.overwrite && !order.ends {
        return Err(Status::MCOA_NON_MCOA_BINDING_EXISTS);
    }
    let keep = if order.overwrite && !order.ends { &[] } else { known };
    let mut merged = Merged { care_of: keep.to_vec(), echoes: Vec::new() };
    if !order.ends && !at_home {
        // RFC 5648 §5.6.5: a registration that does not say so any more says that the home link was left.
        merged.care_of.retain(|care_of| !care_of.at_home);
    }
    for offer in offers {
        let repeated = merged.echoes.iter().any(|echo| echo.bid == offer.bid);
        let result = match repeated || offer.bid == Bid(0) {
            true => Err(Status::MCOA_MALFORMED),
            false if order.ends => delete(&mut merged.care_of, offer),
            false => register(&mut merged.care_of, known, offer, order, &usable),
        };
        // We go on answering for the home address, so its owner must not (RFC 5648 §6.3).
        let accepted =
            if offer.at_home && !order.ends { Status::MCOA_RETURN_HOME_WITHOUT_NDP } else { Status::ACCEPTED };
        let status = result.err().unwrap_or(accepted);
        merged.echoes.push(Echo { bid: offer.bid, priority: offer.priority, at_home: offer.at_home, status });
    }
    let failed = merged.echoes.iter().find(|echo| !echo.status.is_accepted()).map(|echo| echo.status);
    match failed {
        Some(status) if merged.echoes.iter().all(|echo| !echo.status.is_accepted()) => Err(status),
        _ => Ok(merged),
    }
}

fn delete(care_of: &mut Vec<CareOf>, offer: &Offer) -> Result<(), Status> {
    let before = care_of.len();
    care_of.retain(|known| known.bid != offer.bid);
    if care_of.len() < before { Ok(()) } else { Err(Status::NOT_HOME_AGENT) }
}

fn register(
    care_of: &mut Vec<CareOf>,
    known: &[CareOf],
    offer: &Offer,
    order: &Order,
    usable: &impl Fn(Ipv6Addr) -> bool,
) -> Result<(), Status> {
    let remembered = known.iter().find(|one| one.bid == offer.bid).map(|one| one.address);
    let address = match offer.care_of {
        CareOfField::V6(address) => address,
        CareOfField::V4(_) => order.carried.ok_or(Status::INVALID_CARE_OF)?.to_ipv6(),
        CareOfField::None => remembered.ok_or(Status::MCOA_UNKNOWN_CARE_OF)?,
    };
    let carried = order.carried.is_some_and(|end| end.to_ipv6() == address);
    if !is_unicast(address) && !carried {
        return Err(Status::MCOA_MALFORMED);
    }
    let home = order.home.filter(|_| offer.at_home);
    let usable = home.map_or_else(|| usable(address), |home| home == address);
    if !usable || care_of.iter().any(|other| other.address == address && other.bid != offer.bid) {
        return Err(Status::INVALID_CARE_OF);
    }
    care_of.retain(|one| one.bid != offer.bid);
    if care_of.len() >= MAX_CARE_OF {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    let (bid, priority, expires) = (offer.bid, offer.priority, order.expires);
    care_of.push(CareOf { bid, address, priority, at_home: offer.at_home, expires });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Time = Time::from_micros(60_000_000);

    fn care_of(bid: u16, address: &str) -> CareOf {
        CareOf { bid: Bid(bid), address: address.parse().unwrap(), priority: 0, at_home: false, expires: Time::ZERO }
    }

    fn offer(bid: u16, address: &str) -> Offer {
        Offer { bid: Bid(bid), priority: 0, at_home: false, care_of: CareOfField::V6(address.parse().unwrap()) }
    }

    fn order(ends: bool, overwrite: bool) -> Order {
        Order { ends, overwrite, expires: SOON, home: None, carried: None }
    }

    fn statuses(merged: &Merged) -> Vec<Status> {
        merged.echoes.iter().map(|echo| echo.status).collect()
    }

    #[test]
    fn bulk_registers_moves_and_keeps() {
        let known = [care_of(1, "2001:db8:1::1"), care_of(2, "2001:db8:2::1")];
        let offers = [offer(2, "2001:db8:9::1"), offer(3, "2001:db8:3::1")];
        let merged = merge(&known, &offers, &order(false, false), |_| true).unwrap();
        let kept: Vec<String> = merged.care_of.iter().map(|one| format!("{} {}", one.bid, one.address)).collect();
        assert_eq!(kept, ["1 2001:db8:1::1", "2 2001:db8:9::1", "3 2001:db8:3::1"]);
        let merged = merge(&known, &offers, &order(false, true), |_| true).unwrap();
        assert_eq!(merged.care_of.len(), 2, "overwritten");
    }

    #[test]
    fn an_identifier_without_address_must_be_known() {
        let known = [care_of(1, "2001:db8:1::1")];
        let bare = |bid| Offer { care_of: CareOfField::None, ..offer(bid, "::") };
        let merged = merge(&known, &[bare(1)], &order(false, false), |_| true).unwrap();
        assert_eq!((merged.care_of[0].address, merged.care_of[0].expires), (known[0].address, SOON));
        assert_eq!(merge(&known, &[bare(7)], &order(false, false), |_| true), Err(Status::MCOA_UNKNOWN_CARE_OF));
        let merged = merge(&known, &[bare(1), bare(7)], &order(false, false), |_| true).unwrap();
        assert_eq!(statuses(&merged), [Status::ACCEPTED, Status::MCOA_UNKNOWN_CARE_OF]);
    }

    #[test]
    fn each_reason_has_its_status() {
        let plain = [care_of(0, "2001:db8:1::1")];
        let one = [offer(1, "2001:db8:2::1")];
        let merge_all = |offers: &[Offer]| merge(&[], offers, &order(false, false), |_| true);
        assert_eq!(merge(&plain, &one, &order(false, false), |_| true), Err(Status::MCOA_NON_MCOA_BINDING_EXISTS));
        assert!(merge(&plain, &one, &order(false, true), |_| true).is_ok());
        assert_eq!(merge_all(&[offer(0, "2001:db8:2::1")]), Err(Status::MCOA_MALFORMED));
        assert_eq!(merge_all(&[offer(1, "ff02::1")]), Err(Status::MCOA_MALFORMED));
        let home = Offer { at_home: true, ..one[0] };
        assert_eq!(merge_all(&[home]), Err(Status::MCOA_SIMULTANEOUS_PROHIBITED));
        assert_eq!(merge(&[], &one, &order(false, false), |_| false), Err(Status::INVALID_CARE_OF));
        assert_eq!(merge(&[], &one, &order(true, false), |_| true), Err(Status::NOT_HOME_AGENT));
        let twice = merge_all(&[one[0], one[0]]).unwrap();
        assert_eq!(statuses(&twice), [Status::ACCEPTED, Status::MCOA_MALFORMED]);
        let many: Vec<Offer> = (1..=7).map(|bid| offer(bid, &format!("2001:db8:{bid}::1"))).collect();
        assert_eq!(statuses(&merge_all(&many).unwrap())[6], Status::INSUFFICIENT_RESOURCES);
    }

    #[test]
    fn deleting_leaves_the_others() {
        let known = [care_of(1, "2001:db8:1::1"), care_of(2, "2001:db8:2::1")];
        let merged = merge(&known, &[offer(1, "::")], &order(true, true), |_| true).unwrap();
        assert_eq!(merged.care_of, [known[1]]);
    }
}
