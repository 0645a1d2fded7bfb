//! Guards: packets from inside whose source does not belong there are answered and go nowhere (RFC 3963 §9, RFC 7084
//! §4.3), whatever the routes say, which look at a source but not at the interface a packet came in by.

use crate::error::Error;
use crate::netfilter::expression::{answer_unreachable, from_link, from_source, pass};
use crate::netfilter::{Hook, Netfilter};
use roam6_proto::LinkId;
use roam6_proto::plan::Guard;
use roam6_wire::Prefix;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Name of the nftables table.
const TABLE: &str = "roam6-guard";
/// Source address failed ingress/egress policy (RFC 4443 §3.1).
const FAILED_POLICY: u8 = 5;

/// All guards; the table holds all their rules, and is written whole.
#[derive(Default)]
pub(super) struct Guards {
    held: BTreeMap<LinkId, Guard>,
    filter: Option<Netfilter>,
}

impl Guards {
    /// Puts up `guard` in place of any of the same interface.
    pub(super) fn put(&mut self, guard: &Guard) -> Result<(), Error> {
        let former = self.held.insert(guard.link, guard.clone());
        self.write().inspect_err(|_| match former {
            Some(former) => drop(self.held.insert(guard.link, former)),
            None => drop(self.held.remove(&guard.link)),
        })
    }

    /// Takes down the guard of an interface.
    pub(super) fn drop(&mut self, link: LinkId) -> Result<(), Error> {
        if self.held.remove(&link).is_none() {
            return Ok(());
        }
        self.write()
    }

    /// Makes the kernel hold these guards and none of an earlier life.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        match self.write() {
            // Without nftables an earlier life has left nothing either.
            Err(_) if self.held.is_empty() => Ok(()),
            written => written,
        }
    }

    fn write(&mut self) -> Result<(), Error> {
        let filter = match self.filter.take() {
            Some(filter) => filter,
            None => Netfilter::open()?,
        };
        let rules: Vec<_> = self.held.values().flat_map(rules).collect();
        let written = if rules.is_empty() { filter.drop(TABLE) } else { filter.put(TABLE, Hook::Entry, &rules) };
        self.filter = Some(filter);
        written
    }
}

/// The rules of one guard, the first that matches decides.
fn rules(guard: &Guard) -> Vec<Vec<Vec<u8>>> {
    let rule = |prefix: Option<Prefix>, verdict: Vec<u8>| {
        let source = prefix.map(from_source).into_iter().flatten();
        from_link(guard.link).into_iter().chain(source).chain([verdict]).collect()
    };
    let never = guard.never.iter().map(|address| rule(Some(Prefix::host(*address)), answer_unreachable(FAILED_POLICY)));
    // What stays on the link, and what has no address yet.
    let link_local = Prefix::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10);
    let near = [link_local, Some(Prefix::host(Ipv6Addr::UNSPECIFIED))].into_iter().flatten();
    let sources = near.chain(guard.sources.iter().copied()).map(|prefix| rule(Some(prefix), pass()));
    never.chain(sources).chain([rule(None, answer_unreachable(FAILED_POLICY))]).collect()
}
