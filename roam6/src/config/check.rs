//! Checks that several tables share.

use super::spanned::Spanned;
use crate::config::duration::{HumanDuration, format_duration};
use crate::config::source::Diagnostics;
use core::time::Duration;
use roam6_proto::base::vec_set::VecSet;
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::{Range, RangeInclusive};

/// Most interfaces of one role.
const MAX_INTERFACES: usize = 64;
/// Lifetimes of bindings: they count units of four seconds in 16 bits (RFC 6275 §6.1.7).
pub(crate) const LIFETIME_RANGE: RangeInclusive<Duration> = Duration::from_secs(4)..=Duration::from_secs(4 * 65_535);
/// Bounds of the longest interval between advertisements (RFC 6275 §7.5, RFC 4861 §6.2.1).
pub(crate) const ADVERTISE_RANGE: RangeInclusive<Duration> = Duration::from_millis(70)..=Duration::from_secs(1800);

/// The name of a network interface.
pub(crate) fn interface_name(name: &Spanned<String>, diagnostics: &mut Diagnostics<'_>) {
    let text = name.as_str();
    if text.is_empty() || text.len() > 15 || text.contains(['/', ' ', ':']) || text.starts_with('.') {
        let what = format!("\"{text}\" is not the name of an interface");
        diagnostics.report(name.span(), what, "`ip link` lists the names; they have 1 to 15 letters");
    }
}

/// Names of interfaces, one at least.
pub(crate) fn interface_names(
    written: &Spanned<Vec<Spanned<String>>>,
    diagnostics: &mut Diagnostics<'_>,
) -> VecSet<String> {
    let mut names = VecSet::new();
    for name in written.iter() {
        interface_name(name, diagnostics);
        if !names.insert(String::clone(name)) {
            diagnostics.report(name.span(), format!("interface {} is written twice", **name), "remove one");
        }
    }
    if names.is_empty() {
        let hint = "write the interfaces whose addresses are used, as interfaces = [\"eth0\", \"wlan0\"]";
        diagnostics.report(written.span(), "no interfaces", hint);
    }
    diagnostics.limit(written, MAX_INTERFACES, "interfaces", "list fewer");
    names
}

/// An address of one host, of global scope.
pub(crate) fn global_unicast(address: &Spanned<Ipv6Addr>, name: &str, diagnostics: &mut Diagnostics<'_>) {
    let value = **address;
    if value.is_multicast() || value.is_unspecified() || value.is_loopback() || value.is_unicast_link_local() {
        let what = format!("{name} {value} is not reachable by other hosts");
        diagnostics.report(address.span(), what, "write a global unicast address");
    }
}

/// An IPv4 address of one host.
pub(crate) fn global_unicast4(address: &Spanned<Ipv4Addr>, name: &str, diagnostics: &mut Diagnostics<'_>) {
    let value = **address;
    if !Ipv4Endpoint::dsmip(value).is_unicast() {
        let what = format!("{name} {value} is not reachable by other hosts");
        diagnostics.report(address.span(), what, "write a unicast address");
    }
}

/// Prefixes of IPv6.
pub(crate) fn ipv6_prefixes<'a>(
    prefixes: impl IntoIterator<Item = &'a Prefix>,
    span: Range<usize>,
    diagnostics: &mut Diagnostics<'_>,
) {
    for prefix in prefixes.into_iter().filter(|prefix| prefix.is_ipv4()) {
        let hint = "write an IPv6 prefix, as \"2001:db8:1::/64\"";
        diagnostics.report(span.clone(), format!("prefix {prefix} is one of IPv4"), hint);
    }
}

/// Prefixes of a mobile network: of IPv6, and of IPv4 too.
pub(crate) fn mobile_network_prefixes<'a>(
    prefixes: impl Iterator<Item = (&'a Prefix, Range<usize>)>,
    all: Range<usize>,
    diagnostics: &mut Diagnostics<'_>,
) {
    let mut native = false;
    for (prefix, span) in prefixes {
        native |= !prefix.is_ipv4();
        if prefix.ipv4().is_some_and(|(address, _)| !Ipv4Endpoint::dsmip(address).is_unicast()) {
            let hint = "write what its hosts can be numbered from, as \"10.77.1.0/24\"";
            diagnostics.report(span, format!("prefix {prefix} is no network's"), hint);
        }
    }
    if !native {
        let hint = "write the prefixes of the mobile network, as prefixes = [\"2001:db8:100::/56\"]";
        diagnostics.report(all, "no IPv6 prefixes", hint);
    }
}

impl Diagnostics<'_> {
    /// A duration, which has to be between two bounds.
    pub(crate) fn duration(
        &mut self,
        written: &Option<Spanned<HumanDuration>>,
        name: &str,
        bounds: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let written = written.as_ref()?;
        if !bounds.contains(&written.0) {
            let [found, least, most] = [written.0, *bounds.start(), *bounds.end()].map(format_duration);
            let what = format!("{name} = {found} is out of bounds");
            self.report(written.span(), what, &format!("write {least} to {most}"));
        }
        Some(written.0)
    }

    /// A number, which has to be between two bounds.
    pub(crate) fn number<'a, T: PartialOrd + Display + Copy + 'a>(
        &mut self,
        written: impl Into<Option<&'a Spanned<T>>>,
        name: &str,
        bounds: RangeInclusive<T>,
    ) -> Option<T> {
        let written = written.into()?;
        if !bounds.contains(&**written) {
            let what = format!("{name} = {} is out of bounds", **written);
            self.report(written.span(), what, &format!("write {} to {}", bounds.start(), bounds.end()));
        }
        Some(**written)
    }

    /// Refuses a list of more than `most` entries, which are called `what`.
    pub(crate) fn limit<T>(&mut self, list: &[Spanned<T>], most: usize, what: &str, hint: &str) {
        if let Some(first) = list.get(most) {
            self.report(first.span(), format!("more than {most} {what}"), hint);
        }
    }
}
