//! One Binding Update: the checks in their order, and what follows from them.
//! RFC 6275 §9.5.1 and §10.3, RFC 3963 §6.2 and §6.7, RFC 4285 §5.1 and §6, RFC 3776 §4, RFC 5648 §6.2.

use super::answer::Answer;
use super::binding::{Binding, CareOf, INVALID_ENTRY, Registration};
use super::forwarding::Ground;
use super::multiple::{self, Merged};
use super::request::Request;
use super::{HomeAgent, flows};
use crate::crypto::authenticator::{Timestamp, verify};
use crate::engine::Outbox;
use crate::nemo::config::{Authentication, PrefixTableRow, SharedKey};
use crate::plan::{Key, OLD_PATH_LINGER};
use crate::report::{DropReason, Report};
use crate::time::Time;
use core::time::Duration;
use roam6_wire::mobility::{LIFETIME_UNIT_SECONDS, Status};
use roam6_wire::{Bid, Ipv4End, Prefix};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// Why an update is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Dropped without an answer.
    Silence(DropReason, &'static str),
    /// Answered with this status.
    Answer(Status),
    /// Answered with this status; counted as a packet dropped for this reason.
    Unproven(Status, DropReason),
}

/// What an accepted update asks for.
#[derive(Debug)]
enum Verdict {
    /// To be bound like this.
    Register(Registration),
    /// To be bound no longer.
    Deregister,
}

impl HomeAgent {
    /// Takes one Binding Update addressed to this home agent.
    pub(super) fn update(&mut self, now: Time, request: Request, out: &mut Outbox) {
        let mut answer = request.answer();
        answer.carriage = request.observed.and_then(|observed| self.carriage(&observed, request.force_udp));
        match self.judge(now, &request, &mut answer) {
            Ok(verdict) => {
                self.remember(&request);
                self.clear_fault(now, &request, out);
                match verdict {
                    Verdict::Register(registration) => {
                        self.hear_path_mtus(now, &request, &registration, out);
                        self.accept(now, request.home, registration, answer, out)
                    }
                    Verdict::Deregister => self.deregister(now, &request, &answer, out),
                }
            }
            Err(Refusal::Silence(reason, why)) => {
                let from = Some(request.source);
                if matches!(reason, DropReason::NoAssociation | DropReason::NotAuthenticated) {
                    self.note_fault(now, &request, why.to_owned(), out);
                }
                out.report(Report::Dropped { reason, from, detail: format!("Binding Update: {why}") });
            }
            Err(Refusal::Answer(status)) => {
                if status == Status::NOT_HOME_AGENT && request.offers.is_empty() {
                    self.remember_farewell(now, &request);
                }
                if status == Status::INSUFFICIENT_RESOURCES {
                    out.report(Report::TableFull { table: "bindings".into(), limit: self.config.max_bindings });
                }
                self.note_refused(now, &request, status, out);
                self.refuse(&answer, status, out);
            }
            Err(Refusal::Unproven(status, reason)) => {
                let detail = format!("Binding Update of {}: answered with status {status}", request.home);
                self.note_refused(now, &request, status, out);
                self.prepare(now, &request, &mut answer, status);
                self.reply(&answer, status, out);
                out.report(Report::Dropped { reason, from: Some(request.source), detail });
            }
        }
    }

    /// Notes an update that is refused. Some statuses only make the mobile router send another update at once.
    fn note_refused(&mut self, now: Time, request: &Request, status: Status, out: &mut Outbox) {
        let prefixes = || request.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let why = match status {
            Status::SEQUENCE_OUT_OF_WINDOW | Status::MESSAGE_ID_MISMATCH | Status::NOT_HOME_AGENT => return,
            Status::AUTHENTICATION_FAILED => format!("{status}: its key is not that of its row in the prefix table"),
            Status::INVALID_PREFIX | Status::NOT_AUTHORISED_FOR_PREFIX => {
                format!("{status}: it asks for {}, which its row in the prefix table does not allow", prefixes())
            }
            Status::NOT_HOME_SUBNET => format!("{status}: it is in none of home_prefixes"),
            status => status.to_string(),
        };
        self.note_fault(now, request, why, out);
    }

    fn note_fault(&mut self, now: Time, request: &Request, why: String, out: &mut Outbox) {
        let (home_address, peer) =
            (request.home, request.observed.map_or(request.source, |seen| seen.source.to_ipv6()));
        if self.faults.put(now, home_address, why.clone()) {
            out.report(Report::Fault { home_address, peer, bid: None, why });
        }
    }

    fn clear_fault(&mut self, now: Time, request: &Request, out: &mut Outbox) {
        if let Some(after) = self.faults.clear(now, request.home) {
            out.report(Report::FaultCleared { home_address: request.home, peer: request.source, bid: None, after });
        }
    }

    /// Every check of an update, in the order the standards give them.
    fn judge(&self, now: Time, request: &Request, answer: &mut Answer) -> Result<Verdict, Refusal> {
        let binding = self.bindings.get(&request.home).map(Box::as_ref);
        if !is_unicast(request.home.0) || !is_unicast(request.source) {
            return Err(Refusal::Silence(DropReason::Malformed, "an address is not a unicast address"));
        }
        let row = self.row(request.home);
        let Some(row) = row else {
            return Err(Refusal::Silence(DropReason::NoAssociation, "the home address is not in the prefix table"));
        };
        answer.authentication = authentication_of(request, row);
        check_protection(request, row)?;
        if self.last_sequence(request.home).is_some_and(|last| !request.sequence.is_newer_than(last)) {
            return Err(Refusal::Unproven(Status::SEQUENCE_OUT_OF_WINDOW, DropReason::StaleSequence));
        }
        self.authenticate(now, request, &answer.authentication, binding)?;
        if !request.home_registration && !request.router {
            return Err(match binding.filter(|binding| binding.current.is_some()) {
                Some(_) => Refusal::Answer(Status::REGISTRATION_TYPE_CHANGE),
                None => Refusal::Silence(DropReason::NotForUs, "not a home registration"),
            });
        }
        if request.home_registration && request.nonces {
            return Err(Refusal::Silence(DropReason::Malformed, "a home registration with nonces"));
        }
        self.authorise(now, request, row, binding, answer)
    }

    /// RFC 4285 §5.1, then §6; of the others, [`check_protection`] has said what there is to say.
    fn authenticate(
        &self,
        now: Time,
        request: &Request,
        authentication: &Authentication,
        binding: Option<&Binding>,
    ) -> Result<(), Refusal> {
        let Authentication::SharedKey(key) = authentication else { return Ok(()) };
        let Some(proof) = &request.proof else {
            return Err(Refusal::Silence(DropReason::NotAuthenticated, "the authentication option is missing"));
        };
        if proof.spi != key.spi {
            return Err(Refusal::Silence(DropReason::NoAssociation, "no association has this SPI"));
        }
        if !verify(&key.secret, request.care_of, request.home, &proof.part, &proof.authenticator) {
            return Err(Refusal::Unproven(Status::AUTHENTICATION_FAILED, DropReason::BadAuthenticator));
        }
        let Some(timestamp) = request.timestamp else {
            return Err(Refusal::Unproven(Status::MESSAGE_ID_REQUIRED, DropReason::NotAuthenticated));
        };
        let close = self.clock.timestamp(now).is_none_or(|clock| timestamp.is_close_to(clock));
        let fresh =
            binding.is_none_or(|binding| binding.timestamp == Timestamp(0) || timestamp.is_after(binding.timestamp));
        if close && fresh { Ok(()) } else { Err(Refusal::Unproven(Status::MESSAGE_ID_MISMATCH, DropReason::Replayed)) }
    }

    /// Whether its sender, who is who it claims to be, may register this.
    fn authorise(
        &self,
        now: Time,
        request: &Request,
        row: &PrefixTableRow,
        binding: Option<&Binding>,
        answer: &mut Answer,
    ) -> Result<Verdict, Refusal> {
        if self.config.home_prefixes.is_empty() {
            return Err(Refusal::Answer(Status::HOME_REGISTRATION_NOT_SUPPORTED));
        }
        if !self.config.home_prefixes.iter().any(|prefix| prefix.contains(request.home.0)) {
            return Err(Refusal::Answer(Status::NOT_HOME_SUBNET));
        }
        if request.router && !request.home_registration {
            return Err(Refusal::Answer(Status::MOBILE_ROUTER_NOT_PERMITTED));
        }
        let latest = binding.and_then(Binding::latest);
        let carried = answer.carriage.map(|carriage| carriage.care_of);
        let from_home = carried.is_none() && request.care_of.0 == request.home.0;
        let ends = request.lifetime.is_zero() || (from_home && request.offers.is_empty());
        if !ends && latest.is_some_and(|latest| latest.router != request.router) {
            return Err(Refusal::Answer(Status::REGISTRATION_TYPE_CHANGE));
        }
        if ends && latest.is_none() {
            return Err(Refusal::Answer(Status::NOT_HOME_AGENT));
        }
        if ends && request.offers.is_empty() {
            return Ok(Verdict::Deregister);
        }
        if !ends && binding.is_none() && self.bindings.len() >= self.config.max_bindings {
            return Err(Refusal::Answer(Status::INSUFFICIENT_RESOURCES));
        }
        if !ends && carried.is_none() && !request.routed && !request.offers.iter().any(|offer| offer.at_home) {
            return Err(Refusal::Silence(DropReason::Malformed, "the Home Address option is missing"));
        }
        if !ends && carried.is_none() && request.force_udp {
            // Not over IPv6 (RFC 5555 §4.5); not to say so would have it sent.
            return Err(Refusal::Answer(Status::UDP_ENCAPSULATION_REFUSED));
        }
        let prefixes = match latest {
            Some(latest) if ends => latest.prefixes.clone(),
            _ => {
                let ipv4 = self.grant_ipv4(request, row, latest);
                answer.ipv4 = ipv4.options;
                self.grant_prefixes(request, row, ipv4.prefixes)?
            }
        };
        let lifetime = if ends { Duration::ZERO } else { self.grant_lifetime(request.lifetime) };
        let merged = self.merge((now + lifetime, carried), request, latest, &prefixes)?;
        answer.bids = merged.echoes;
        answer.lifetime = lifetime;
        if merged.care_of.is_empty() {
            return Ok(Verdict::Deregister);
        }
        let at_home = merged.care_of.iter().any(|care_of| care_of.at_home);
        let known_at = latest.and_then(|latest| latest.at_home);
        let bids: Vec<Bid> = merged.care_of.iter().map(|care_of| care_of.bid).collect();
        let known = latest.map(|latest| latest.flows.as_slice()).unwrap_or_default();
        let (rules, echoes) = flows::merge(known, &request.flows, &request.summary, &bids);
        answer.flows = echoes;
        let mut next = Registration {
            care_of: merged.care_of,
            prefixes,
            explicit: request.explicit(),
            flows: rules,
            at_home: request.link_address.filter(|_| !ends).or(known_at).filter(|_| at_home),
            router: latest.filter(|_| ends).map_or(request.router, |latest| latest.router),
            link_local: match latest {
                Some(latest) if ends => latest.link_local,
                // Who is on the home link itself has its own there.
                _ if request.link_local && !at_home => self.free_link_local(request.home).map_err(Refusal::Answer)?,
                _ => None,
            },
            lifetime: if ends { latest.map(|latest| latest.lifetime).unwrap_or_default() } else { lifetime },
        };
        next.sort();
        answer.router = next.router;
        Ok(Verdict::Register(next))
    }

    /// The prefixes of explicit mode if they may be registered, of implicit mode if there are any (RFC 3963 §6.2); and
    /// those of IPv4 that are granted already.
    fn grant_prefixes(
        &self,
        request: &Request,
        row: &PrefixTableRow,
        ipv4: Vec<Prefix>,
    ) -> Result<Arc<[Prefix]>, Refusal> {
        if !request.router {
            return Ok(self.share(request.home, ipv4));
        }
        let explicit = request.explicit();
        let own = || row.prefixes.iter().copied().filter(|prefix| !prefix.is_ipv4());
        let asked: Vec<Prefix> = if explicit { request.prefixes.clone() } else { own().collect() };
        if asked.is_empty() && !request.misshapen_prefix {
            return Err(Refusal::Answer(Status::FORWARDING_SETUP_FAILED));
        }
        if request.misshapen_prefix || explicit && asked.iter().any(|prefix| !self.is_installable(*prefix)) {
            return Err(Refusal::Answer(Status::INVALID_PREFIX));
        }
        if asked.iter().any(|prefix| !row.prefixes.iter().any(|own| own.covers(*prefix))) {
            return Err(Refusal::Answer(Status::NOT_AUTHORISED_FOR_PREFIX));
        }
        let own = self.bindings.get(&request.home).map(|binding| binding.tunnel);
        let taken = |prefix: &Prefix| self.prefixes.get(prefix).is_some_and(|owner| Some(*owner) != own);
        if asked.iter().any(taken) {
            let status = if explicit { Status::INVALID_PREFIX } else { Status::FORWARDING_SETUP_FAILED };
            return Err(Refusal::Answer(status));
        }
        Ok(self.share(request.home, [asked, ipv4].concat()))
    }

    /// A route to it can be made, and takes nothing away from this home agent.
    fn is_installable(&self, prefix: Prefix) -> bool {
        let home = self.config.home_prefixes.iter().any(|home| prefix.covers(*home));
        prefix.length() > 0 && is_unicast(prefix.address()) && !prefix.contains(self.config.address) && !home
    }

    fn grant_lifetime(&self, asked: Duration) -> Duration {
        let unit = Duration::from_secs(LIFETIME_UNIT_SECONDS.into());
        let granted = asked.min(self.config.max_lifetime).as_secs() / unit.as_secs();
        unit * u32::try_from(granted.max(1)).unwrap_or(u32::MAX)
    }

    /// The care-of addresses once this update is in force.
    fn merge(
        &self,
        (expires, carried): (Time, Option<Ipv4End>),
        request: &Request,
        latest: Option<&Registration>,
        prefixes: &[Prefix],
    ) -> Result<Merged, Refusal> {
        let usable4 = |end: &Ipv4End| !prefixes.iter().any(|prefix| prefix.contains(end.address.to_ipv6_mapped()));
        if !carried.as_ref().is_none_or(usable4) {
            return Err(Refusal::Answer(Status::INVALID_CARE_OF));
        }
        let usable = |address: Ipv6Addr| {
            address != self.config.address
                && !self.home.is_own(address)
                && address != request.home.0
                && !prefixes.iter().any(|prefix| prefix.contains(address))
        };
        if !request.offers.is_empty() {
            let refused = |status| Err(Refusal::Answer(status));
            if !self.config.multiple_care_of {
                return refused(Status::MCOA_PROHIBITED);
            }
            if request.misshapen_bid {
                return refused(Status::MCOA_MALFORMED);
            }
            let known = latest.map(|latest| latest.care_of.as_slice()).unwrap_or_default();
            let told = request.link_address.or(latest.and_then(|latest| latest.at_home));
            let reachable = self.config.home_and_away && self.home.is_up() && told.is_some();
            let home = Some(request.home.0).filter(|_| reachable);
            let (ends, overwrite) = (request.lifetime.is_zero(), request.overwrite);
            let order = multiple::Order { ends, overwrite, expires, home, carried };
            return multiple::merge(known, &request.offers, &order, usable).map_err(Refusal::Answer);
        }
        let address = match carried {
            Some(end) => end.to_ipv6(),
            None if is_unicast(request.care_of.0) && usable(request.care_of.0) => request.care_of.0,
            None => return Err(Refusal::Answer(Status::INVALID_CARE_OF)),
        };
        let care_of = CareOf { bid: Bid(0), address, priority: 0, at_home: false, expires };
        Ok(Merged { care_of: vec![care_of], echoes: Vec::new() })
    }

    /// From here on, older updates are stale.
    fn remember(&mut self, request: &Request) {
        let tunnel = self.name_tunnel(request.home);
        let binding = self.bindings.entry(request.home).or_insert_with(|| Box::new(Binding::new(tunnel)));
        self.tunnels.insert(binding.tunnel, request.home);
        binding.sequence = request.sequence;
        binding.timestamp = request.timestamp.unwrap_or(Timestamp(0));
    }

    /// A farewell that found nothing to end may have overtaken an update that is still on its way.
    fn remember_farewell(&mut self, now: Time, request: &Request) {
        if self.bindings.contains_key(&request.home) || self.bindings.len() < self.config.max_bindings {
            self.remember(request);
        }
        if let Some(binding) = self.bindings.get_mut(&request.home) {
            binding.forget = Some(now + INVALID_ENTRY);
            self.schedule(request.home);
        }
    }

    /// What an answer says besides its status when the update proved nothing (RFC 6275 §9.5.1, RFC 4285 §6).
    fn prepare(&self, now: Time, request: &Request, answer: &mut Answer, status: Status) {
        if let Some(last) = self.last_sequence(request.home).filter(|_| status == Status::SEQUENCE_OUT_OF_WINDOW) {
            answer.sequence = last;
        }
        if status == Status::MESSAGE_ID_MISMATCH {
            let clock = self.clock.timestamp(now);
            answer.timestamp = answer.timestamp.zip(clock).map(|(theirs, ours)| theirs.resynchronised_to(ours));
        }
    }

    /// RFC 3963 §6.7 and RFC 6275 §10.3.2: what leads away from home ends at once; what is still on its way is let in.
    fn deregister(&mut self, now: Time, request: &Request, answer: &Answer, out: &mut Outbox) {
        let home = request.home;
        let old = self.stop(home, out);
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        binding.forget = Some(now + INVALID_ENTRY);
        binding.left.clear();
        if let Some(old) = old.filter(|old| old.away().next().is_some()) {
            let until = now + OLD_PATH_LINGER;
            binding.left = old.away().map(|care_of| (*care_of, until)).collect();
            let ground = Ground { own: self.config.own(), home: &self.home, mtu: &self.mtu };
            let tunnel = ground.closing_tunnel(binding.tunnel, home, &old);
            self.put(home, tunnel, out);
        } else {
            out.drop(Key::Tunnel(binding.tunnel));
        }
        self.reply(answer, Status::ACCEPTED, out);
        out.report(Report::Deregistered { home_address: home, why: "de-registered".into() });
        self.schedule(home);
    }
}

/// What authenticates the answer: of a row with two keys the one that proves the update, else one with its SPI.
fn authentication_of(request: &Request, row: &PrefixTableRow) -> Authentication {
    let Some(proof) = &request.proof else { return row.authentication.clone() };
    let named = || row.shared_keys().filter(|key| key.spi == proof.spi);
    let proves =
        |key: &&SharedKey| verify(&key.secret, request.care_of, request.home, &proof.part, &proof.authenticator);
    let key = named().find(proves).or_else(|| named().next());
    key.map_or_else(|| row.authentication.clone(), |key| Authentication::SharedKey(key.clone()))
}

/// With ESP only what ESP covers counts: neither a message in the clear, nor the source address, which is a care-of
/// address only if the message says so too; what ends a binding needs none (RFC 3776 §4.1 and §4.2).
fn check_protection(request: &Request, row: &PrefixTableRow) -> Result<(), Refusal> {
    if !matches!(row.authentication, Authentication::Ipsec(_)) {
        return Ok(());
    }
    if !request.protected {
        return Err(Refusal::Silence(DropReason::NotAuthenticated, "not protected by ESP"));
    }
    if request.routed && !request.lifetime.is_zero() && request.offers.is_empty() && !request.alternate {
        return Err(Refusal::Silence(DropReason::Malformed, "the Alternate Care-of Address option is missing"));
    }
    Ok(())
}

/// A global or unique local unicast address: it can be routed to (RFC 6275 §9.5.1).
pub(super) fn is_unicast(address: Ipv6Addr) -> bool {
    let special = address.is_multicast() || address.is_unspecified() || address.is_loopback();
    !(special || address.is_unicast_link_local() || Ipv4End::of(address).is_some())
}
