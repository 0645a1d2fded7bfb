//! What the nodes inside are told of prefixes: each as long as its way out stands, and that it is over for as long as a
//! node may still believe in it (RFC 7084 §4.3, RFC 9096; RFC 4862 §5.5.3, whose two hours short lifetimes go round).

use super::super::MobileRouter;
use super::super::ingress::Inside;
use super::{Grant, Kind};
use crate::access::advertiser::{Advertised, Content, Lifetime, PREFERRED, VALID, router_lifetime};
use crate::base::time::Time;
use crate::contract::config::nemo::PrefixPreference;
use crate::contract::engine::Outbox;
use crate::contract::item::{Item, Key, CareOfPrefixRecord, JournalRecord, JournalKey};
use crate::contract::report::Report;
use crate::contract::view::PrefixView;
use core::time::Duration;
use roam6_wire::{Bid, Prefix};
use std::net::Ipv6Addr;

/// Prefixes of visited networks told of on one interface; of those that are over, the one to be forgotten first makes room.
const MAX_TOLD: usize = 16;
/// The least valid lifetime told, and the longest (RFC 9096): short, so that an address whose prefix is gone goes
/// soon, whatever the node heard; yet longer than it takes to miss a few advertisements.
const LEAST_VALID: Duration = Duration::from_secs(120);
const LONGEST_VALID: Duration = Duration::from_secs(5400);
/// Nodes may be so late to forget an address whose time is over; until then they hear that it leads nowhere.
const LATE: Duration = Duration::from_secs(10);
/// What an earlier life lent may be lent again so long after a start: until then nobody is told anything of it.
const REGAIN: Duration = Duration::from_secs(10);

/// A prefix the nodes of one interface were told of.
#[derive(Debug, Clone)]
pub(in super::super) struct Told {
    /// When no node believes in it any more.
    until: Time,
    bid: Bid,
    /// What it is part of, if it was delegated.
    of: Option<Prefix>,
    on_link: bool,
    /// Its addresses inside, if others are outside.
    nodes: Option<Vec<Ipv6Addr>>,
    over: bool,
    /// It was the interface's own prefix of the mobile network, by a former configuration.
    own: bool,
    /// An earlier life lent it; until then it may be lent again.
    undecided_until: Option<Time>,
}

/// A prefix whose way out stands.
#[derive(Debug, Clone)]
pub(in super::super) struct Live {
    prefix: Prefix,
    on_link: bool,
    grant: Grant,
    preferred: bool,
}

impl MobileRouter {
    /// For each interface inside, the prefixes that may be advertised there now.
    pub(in super::super) fn advertisable(&self, now: Time) -> Vec<Vec<Live>> {
        let grants = self.grants(now);
        let standing: Vec<&Grant> = grants.iter().filter(|grant| self.is_standing(grant)).collect();
        let subnets = self.subnets();
        let on = |link| {
            let live = standing.iter().filter_map(|grant| {
                let (prefix, on_link) = match &grant.kind {
                    Kind::Delegated => (subnets.find(link, grant.prefix)?, true),
                    Kind::Shared { inside, nodes, .. } if *inside == link => (grant.prefix, nodes.is_none()),
                    Kind::Shared { .. } => return None,
                };
                let preferred = self.is_preferred(now, grant);
                Some(Live { prefix, on_link, grant: (*grant).clone(), preferred })
            });
            live.take(MAX_TOLD).collect()
        };
        self.ingress.iter().map(|inside| inside.link().map(on).unwrap_or_default()).collect()
    }

    /// Whether the host is known to hold all that leads from the prefix and to it.
    fn is_standing(&self, grant: &Grant) -> bool {
        let uplink = self.uplink_ways(grant.bid);
        !uplink.is_empty() && uplink.iter().chain(&self.ways(grant)).all(|item| self.held.stands(&item.key()))
    }

    /// Whether nodes are to use it for new connections.
    fn is_preferred(&self, now: Time, grant: &Grant) -> bool {
        let Some(config) = self.config.care_of_prefixes else { return false };
        let silent = |bid: Bid| self.uplinks.iter().any(|uplink| uplink.config.bid == bid && uplink.prober.is_silent());
        let others = self.uplinks.iter().filter(|uplink| uplink.config.bid != grant.bid && uplink.care_of().is_some());
        // A path that is dead while another lives: it is the uplink, and not the home agent.
        let dead = silent(grant.bid) && others.into_iter().any(|uplink| !uplink.prober.is_silent());
        let wanted = config.prefer != PrefixPreference::Home || self.refused;
        wanted && !dead && grant.preferred_until > now
    }

    /// An earlier life has lent this.
    pub(in super::super) fn inherit_lent(&mut self, now: Time, record: &CareOfPrefixRecord) {
        let Some(inside) = self.ingress.iter_mut().find(|inside| inside.config.interface == record.interface) else {
            return;
        };
        let undecided = now + REGAIN;
        let (until, on_link) = (undecided + LONGEST_VALID, record.on_link);
        let told = Told {
            until,
            bid: Bid(0),
            of: None,
            on_link,
            nodes: None,
            over: false,
            own: false,
            undecided_until: Some(undecided),
        };
        if inside.told.len() < MAX_TOLD {
            inside.told.insert(record.prefix, told);
        }
    }

    /// Nodes hear of everything before an orderly end; yet a node that misses it believes in a former prefix of the mobile
    /// network for weeks.
    pub(in super::super) fn forget_lent(&self, out: &mut Outbox) {
        let lent = self.ingress.iter().flat_map(|inside| &inside.told).filter(|(_, told)| !told.own);
        lent.for_each(|(prefix, _)| out.drop(Key::JournalRecord(JournalKey::CareOfPrefix(*prefix))));
    }

    /// The content of the advertisements of the interface `index`, apart from the MTU; remembers what nodes are told.
    pub(in super::super) fn announce(&mut self, now: Time, index: usize, live: Vec<Live>, out: &mut Outbox) -> Content {
        let refused = self.refused;
        let prefer = self.config.care_of_prefixes.map(|config| config.prefer);
        let mobile_network: Vec<Prefix> = if prefer.is_some() { self.config.prefixes.clone() } else { Vec::new() };
        let cut_off = prefer.is_some_and(|prefer| prefer != PrefixPreference::Home) && !self.is_reachable();
        let Some(inside) = self.ingress.get_mut(index) else { return Content::default() };
        let interval = inside.config.advertisement_interval;
        let router = Duration::from_secs(router_lifetime(interval).into());
        let most = (router * 4).clamp(LEAST_VALID, LONGEST_VALID);
        let yields = prefer == Some(PrefixPreference::CareOf) && live.iter().any(|one| one.preferred);
        // Nodes with other prefixes need to know when theirs leads nowhere, and when it does again.
        let preferred = if refused || yields || cut_off { Lifetime::Over } else { Lifetime::Fixed(PREFERRED) };
        let own = Advertised { prefix: inside.config.prefix, on_link: true, valid: Lifetime::Fixed(VALID), preferred };
        let mut prefixes = vec![own];
        let lasting = if refused { Lifetime::Over } else { Lifetime::Fixed(router) };
        let mut routes: Vec<(Prefix, Lifetime)> = mobile_network.iter().map(|prefix| (*prefix, lasting)).collect();
        for one in &live {
            let until = Lifetime::Until(one.grant.preferred_until, most / 2);
            prefixes.push(Advertised {
                prefix: one.prefix,
                on_link: one.on_link,
                valid: Lifetime::Until(one.grant.valid_until, most),
                preferred: if one.preferred { until } else { Lifetime::Over },
            });
            if one.grant.kind == Kind::Delegated {
                routes.push((one.grant.prefix, Lifetime::Until(one.grant.valid_until, router)));
            }
        }
        inside.remember(now, most, &live, out);
        for (prefix, told) in inside.told.iter().filter(|(_, told)| told.over) {
            let (valid, preferred) = (Lifetime::Over, Lifetime::Over);
            prefixes.push(Advertised { prefix: *prefix, on_link: told.on_link, valid, preferred });
            let gone = told.of.filter(|of| routes.iter().all(|(known, _)| known != of));
            routes.extend(gone.map(|of| (of, Lifetime::Over)));
        }
        let link = inside.link();
        let proxy = self.sources.values().any(|source| link.is_some() && source.proxied_inside() == link);
        let brisk = prefer.is_some() || inside.told.values().any(|told| told.over);
        Content { prefixes, routes, interval, proxy, brisk, ..Content::default() }
    }

    /// Every prefix of the nodes inside.
    pub(in super::super) fn show_prefixes(&self, now: Time) -> Vec<PrefixView> {
        let name = |bid: Bid| {
            let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == bid);
            uplink.map(|uplink| uplink.config.interface.clone())
        };
        let live = self.advertisable(now);
        let rows = self.ingress.iter().zip(&live).flat_map(|(inside, live)| {
            let ingress = inside.config.interface.clone();
            let told = |state: bool| if state { "preferred" } else { "deprecated" };
            let prefer = self.config.care_of_prefixes.map(|config| config.prefer);
            let yields = prefer == Some(PrefixPreference::CareOf) && live.iter().any(|one| one.preferred);
            let own = PrefixView {
                prefix: inside.config.prefix,
                ingress: ingress.clone(),
                role: "home".to_owned(),
                uplink: None,
                part_of: None,
                valid: None,
                state: told(!self.refused && !yields).to_owned(),
            };
            let live = live.iter().map(|one| {
                let delegated = one.grant.kind == Kind::Delegated;
                PrefixView {
                    prefix: one.prefix,
                    ingress: inside.config.interface.clone(),
                    role: if delegated { "delegated" } else { "shared" }.to_owned(),
                    uplink: name(one.grant.bid),
                    part_of: Some(one.grant.prefix).filter(|_| delegated),
                    valid: Some(one.grant.valid_until.since(now)),
                    state: told(one.preferred).to_owned(),
                }
            });
            let over = inside.told.iter().filter(|(_, told)| told.over).map(|(prefix, told)| PrefixView {
                prefix: *prefix,
                ingress: inside.config.interface.clone(),
                role: match (told.own, told.of) {
                    (true, _) => "home",
                    (_, Some(_)) => "delegated",
                    (_, None) => "shared",
                }
                .to_owned(),
                uplink: name(told.bid),
                part_of: told.of,
                valid: Some(Duration::ZERO),
                state: "withdrawn".to_owned(),
            });
            std::iter::once(own).chain(live).chain(over).collect::<Vec<_>>()
        });
        rows.collect()
    }
}

impl Inside {
    /// Advertises the interface's former prefix as withdrawn, for as long as nodes may believe in it (RFC 9096 §3.5). A
    /// record keeps it for a later run.
    pub(in super::super) fn withdraw(&mut self, now: Time, prefix: Prefix, out: &mut Outbox) {
        self.make_room_for(prefix, out);
        if self.told.len() < MAX_TOLD {
            let (bid, on_link) = (Bid(0), true);
            let told = Told {
                until: now + VALID,
                bid,
                of: None,
                on_link,
                nodes: None,
                over: true,
                own: true,
                undecided_until: None,
            };
            self.told.insert(prefix, told);
            let interface = self.config.interface.clone();
            out.put(Item::JournalRecord(JournalRecord::CareOfPrefix(CareOfPrefixRecord { prefix, interface, on_link })));
        }
    }

    /// Notes that nodes are told of `live` now for at most `most`, and that all else they were told of is over.
    fn remember(&mut self, now: Time, most: Duration, live: &[Live], out: &mut Outbox) {
        let own = self.config.prefix;
        self.told.retain(|prefix, one| {
            let kept = one.until > now && *prefix != own;
            if !kept {
                out.drop(Key::JournalRecord(JournalKey::CareOfPrefix(*prefix)));
            }
            kept
        });
        for (prefix, one) in &mut self.told {
            let undecided = one.undecided_until.is_some_and(|until| until > now);
            one.over = !undecided && live.iter().all(|live| live.prefix != *prefix);
        }
        for one in live {
            self.make_room_for(one.prefix, out);
            if !self.told.contains_key(&one.prefix) {
                let (prefix, interface, on_link) = (one.prefix, self.config.interface.clone(), one.on_link);
                out.put(Item::JournalRecord(JournalRecord::CareOfPrefix(CareOfPrefixRecord { prefix, interface, on_link })));
            }
            self.told.insert(one.prefix, one.told(now, most));
        }
    }

    fn make_room_for(&mut self, prefix: Prefix, out: &mut Outbox) {
        let full = self.told.len() >= MAX_TOLD && !self.told.contains_key(&prefix);
        let over = self.told.iter().filter(|(_, told)| told.over).min_by_key(|(_, told)| told.until);
        if full && let Some(first) = over.map(|(prefix, _)| *prefix) {
            self.told.remove(&first);
            out.drop(Key::JournalRecord(JournalKey::CareOfPrefix(first)));
            out.report(Report::TableFull { table: "prefixes told inside".to_owned(), limit: MAX_TOLD });
        }
    }
}

impl Live {
    /// What nodes believe who hear of it now.
    fn told(&self, now: Time, most: Duration) -> Told {
        let nodes = match &self.grant.kind {
            Kind::Shared { nodes, .. } => nodes.clone(),
            Kind::Delegated => None,
        };
        Told {
            until: now + self.grant.valid_until.since(now).min(most) + LATE,
            bid: self.grant.bid,
            of: Some(self.grant.prefix).filter(|_| self.grant.kind == Kind::Delegated),
            on_link: self.on_link,
            nodes,
            over: false,
            own: false,
            undecided_until: None,
        }
    }
}

impl Told {
    /// When it is decided on, and when it may be forgotten.
    pub(in super::super) fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.undecided_until.into_iter().chain([self.until])
    }

    /// Whether it leads nowhere any more.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The addresses of it that are, or were, inside; `None` if all of them are.
    pub(super) fn nodes(&self) -> Option<&[Ipv6Addr]> {
        self.nodes.as_deref()
    }
}
