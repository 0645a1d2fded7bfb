//! Lists and care-of addresses as text.

use core::fmt;
use core::time::Duration;
use roam6_wire::{Bid, HomeAddress, Ipv4Endpoint};
use std::net::Ipv6Addr;

/// Care-of addresses on one line.
pub(super) fn care_of_list(addresses: &[Ipv6Addr]) -> String {
    let each: Vec<String> = addresses.iter().map(|address| CareOfText(address).to_string()).collect();
    ListText(&each).to_string()
}

/// What a Binding Update registers.
pub(super) fn registration_text(care_of: &[Ipv6Addr], lifetime: Duration) -> String {
    match lifetime {
        Duration::ZERO => "de-registration".to_owned(),
        lifetime => format!("{} for {}s", care_of_list(care_of), lifetime.as_secs()),
    }
}

/// A network that intercepts connections, and the URL to which it redirects, if to any.
pub(crate) fn captive_portal(url: Option<&str>) -> String {
    match url {
        Some(url) => format!("the network has a captive portal: {url}"),
        None => "the network intercepts connections, as a captive portal does: open any web page by it".to_owned(),
    }
}

/// Where a fault of the signalling or of a path is.
pub(super) fn fault_place(home_address: &HomeAddress, peer: &Ipv6Addr, bid: Option<Bid>) -> String {
    match bid {
        None => format!("{home_address}, {}", CareOfText(peer)),
        Some(bid) => format!("path {bid} to {}", CareOfText(peer)),
    }
}

/// A care-of address; one of IPv4 as such.
pub(super) struct CareOfText<'a>(pub &'a Ipv6Addr);

impl fmt::Display for CareOfText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Ipv4Endpoint::from_ipv6(*self.0) {
            Some(end) => end.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

/// Addresses or prefixes on one line.
pub(super) struct ListText<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Display for ListText<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, address) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{address}")?;
        }
        Ok(())
    }
}
