//! Validation of a Binding Update, in the order of the standards, and the resulting action. RFC 6275 §9.5.1 and §10.3,
//! RFC 3963 §6.2 and §6.7, RFC 4285 §5.1 and §6, RFC 3776 §4, RFC 5648 §6.2.

use super::cache::{Binding, Registration};
use super::care_of::is_routable_unicast;
use super::mcoa::{self, MergedCareOf};
use super::nesting::TunnelDestinations;
use super::request::UpdateRequest;
use super::rivals::shown;
use super::types::{CareOf, Reply};
use super::{HomeAgent, flows};
use crate::contract::config::nemo::{Authentication, PrefixTableRow};
use crate::contract::report::NemoReport;
use crate::contract::view::FaultKind;
use crate::crypto::authenticator::{Timestamp, verify};
use crate::nemo::fault::Cause;
use crate::{DropReason, Outbox, Time};
use core::time::Duration;
use roam6_wire::mobility::{LIFETIME_UNIT_SECONDS, Status};
use roam6_wire::{Bid, Ipv4Endpoint, Prefix};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// The updates of this time pass at once: a mobile router with eight uplinks that all move sends 20 or so.
const UPDATE_BURST_TIME: Duration = Duration::from_secs(5);

/// Why an update is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// Dropped silently.
    Drop(DropReason, &'static str),
    /// Answered with this status.
    Reply(Status),
    /// Answered with this status within the rate limit; counted as a packet dropped for this reason.
    RateLimitedReply(Status, DropReason),
    /// Answered like one that is not authentic: its key is not accepted any more, and why.
    FormerKey(String),
}

/// What a valid update requests.
#[derive(Debug)]
enum Decision {
    /// This registration.
    Register(Registration),
    /// De-registration.
    Deregister,
}

impl HomeAgent {
    /// Processes a Binding Update to this home agent.
    pub(super) fn receive_update(&mut self, now: Time, request: UpdateRequest, out: &mut Outbox) {
        #[cfg(feature = "fleet")]
        if self.stays_silent(&request, out) {
            return;
        }
        let mut answer = request.reply();
        answer.dsmip = request.ipv4_source.and_then(|observed| self.dsmip_encapsulation(&observed, request.force_udp));
        match self.validate(now, &request, &mut answer) {
            Ok(_) if self.exceeds_update_rate(now, &request) => {
                let detail = format!("Binding Update: {} exceeds max_update_rate", request.home);
                out.report_drop(DropReason::RateLimited, request.source, detail);
            }
            Ok(verdict) => {
                self.remember_sequence(&request);
                self.clear_fault(now, &request, out);
                let registers = matches!(verdict, Decision::Register(_));
                self.advance_keys(now, &request, &mut answer, registers, out);
                match verdict {
                    Decision::Register(mut registration) => {
                        if !self.agree_on_esp(&request, &mut registration, &mut answer) {
                            let status = Status::ADMINISTRATIVELY_PROHIBITED;
                            return self.refuse_authentic(now, &request, &answer, status, out);
                        }
                        self.receive_path_mtus(now, &request.path_mtus, &registration, out);
                        self.start_registration(now, request.home, registration, answer, out)
                    }
                    Decision::Deregister => self.deregister(now, &request, answer, out),
                }
                #[cfg(feature = "fleet")]
                self.keep_request(request);
            }
            Err(Rejection::Drop(reason, why)) => {
                let from = Some(request.source);
                let kind = match reason {
                    DropReason::NoAssociation => Some(FaultKind::NotInTable),
                    DropReason::NotAuthenticated => Some(FaultKind::NotVerified),
                    _ => None,
                };
                if let Some(kind) = kind {
                    self.note_fault(now, &request, Cause::new(kind, why), out);
                }
                out.report_drop(reason, from, format!("Binding Update: {why}"));
            }
            Err(Rejection::Reply(status)) => {
                if status == Status::NOT_HOME_AGENT && request.bid_options.is_empty() {
                    self.remember_deregistration(now, &request);
                }
                if status == Status::INSUFFICIENT_RESOURCES {
                    out.report_full_table("bindings", self.config.max_bindings);
                }
                self.note_rejected(now, &request, status, out);
                self.refuse_authentic(now, &request, &answer, status, out);
            }
            Err(Rejection::RateLimitedReply(status, reason)) => {
                self.note_rejected(now, &request, status, out);
                self.reject_rate_limited(now, &request, answer, (status, reason), out);
            }
            Err(Rejection::FormerKey(why)) => {
                self.note_fault(now, &request, Cause::new(FaultKind::FormerKey, why), out);
                let refusal = (Status::AUTHENTICATION_FAILED, DropReason::FormerKey);
                self.reject_rate_limited(now, &request, answer, refusal, out);
            }
        }
    }

    /// Whether a mobile router sends more valid updates than the configuration allows. Each costs a journal record and its
    /// sync, for which the updates of others wait. A dropped one leaves no trace: the next one is accepted in its turn.
    fn exceeds_update_rate(&mut self, now: Time, request: &UpdateRequest) -> bool {
        let binding = self.bindings.get_mut(&request.home).zip(self.config.max_update_rate);
        binding.is_some_and(|(binding, rate)| {
            let cost = Duration::from_secs(1) / rate.max(1);
            !binding.updates.take(now, cost, UPDATE_BURST_TIME)
        })
    }

    /// Records a rejected update as a fault. Some statuses only make the mobile router send another update at once.
    fn note_rejected(&mut self, now: Time, request: &UpdateRequest, status: Status, out: &mut Outbox) {
        let prefixes = || request.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let why = match status {
            Status::SEQUENCE_OUT_OF_WINDOW | Status::MESSAGE_ID_MISMATCH | Status::NOT_HOME_AGENT => return,
            Status::AUTHENTICATION_FAILED => format!("{status}: its key is not that of its row in the prefix table"),
            Status::INVALID_PREFIX | Status::NOT_AUTHORISED_FOR_PREFIX => {
                format!("{status}: its row in the prefix table does not allow {}", prefixes())
            }
            Status::NOT_HOME_SUBNET => format!("{status}: it is in none of home_prefixes"),
            Status::ADMINISTRATIVELY_PROHIBITED => {
                let why = format!("{status}: {}", self.unencrypted());
                let cause = Cause::refused(status, why).of_kind(FaultKind::NotEncrypted);
                return self.note_fault(now, request, cause, out);
            }
            status => status.to_string(),
        };
        self.note_fault(now, request, Cause::refused(status, why), out);
    }

    fn note_fault(&mut self, now: Time, request: &UpdateRequest, cause: Cause, out: &mut Outbox) {
        let (home_address, peer) = (request.home, request.peer());
        let why = cause.text().to_owned();
        if self.faults.record(now, home_address, cause) {
            out.report(NemoReport::Fault { home_address, peer, bid: None, why });
        }
    }

    fn clear_fault(&mut self, now: Time, request: &UpdateRequest, out: &mut Outbox) {
        if let Some(after) = self.faults.clear(now, request.home) {
            out.report(NemoReport::FaultCleared { home_address: request.home, peer: request.source, bid: None, after });
        }
    }

    /// All checks of an update, in the order of the standards.
    fn validate(&self, now: Time, request: &UpdateRequest, answer: &mut Reply) -> Result<Decision, Rejection> {
        let binding = self.bindings.get(&request.home).map(Box::as_ref);
        if !is_routable_unicast(request.home.0) || !is_routable_unicast(request.source) {
            return Err(Rejection::Drop(DropReason::Malformed, "an address is not a unicast address"));
        }
        let row = self.prefix_table_row(request.home);
        let Some(row) = row else {
            return Err(Rejection::Drop(DropReason::NoAssociation, "the home address is not in the prefix table"));
        };
        (answer.authentication, answer.key_role) = self.reply_authentication(request, row);
        if request.is_from_home_address() && !request.on_home_link {
            return Err(Rejection::Drop(DropReason::NotOnLink, "from the home address, but not on the home link"));
        }
        check_protection(request, row)?;
        verify_authenticator(request, &answer.authentication)?;
        self.check_key(now, request, row, answer.key_role)?;
        if self.last_sequence(request.home).is_some_and(|last| !request.sequence.is_newer_than(last)) {
            return Err(Rejection::RateLimitedReply(Status::SEQUENCE_OUT_OF_WINDOW, DropReason::StaleSequence));
        }
        if matches!(answer.authentication, Authentication::SharedKey(_)) {
            self.check_timestamp(now, request, binding)?;
        }
        if !request.home_registration && !request.router {
            return Err(match binding.filter(|binding| binding.current.is_some()) {
                Some(_) => Rejection::Reply(Status::REGISTRATION_TYPE_CHANGE),
                None => Rejection::Drop(DropReason::NotForUs, "not a home registration"),
            });
        }
        if request.home_registration && request.has_nonce_indices {
            return Err(Rejection::Drop(DropReason::Malformed, "a home registration with nonces"));
        }
        self.authorise(now, request, row, binding, answer)
    }

    /// Replay protection of an authentic update (RFC 4285 §6).
    fn check_timestamp(&self, now: Time, request: &UpdateRequest, binding: Option<&Binding>) -> Result<(), Rejection> {
        if request.timestamp.is_none() {
            return Err(Rejection::RateLimitedReply(Status::MESSAGE_ID_REQUIRED, DropReason::NotAuthenticated));
        }
        if self.is_fresh(now, request, binding) {
            return Ok(());
        }
        Err(Rejection::RateLimitedReply(Status::MESSAGE_ID_MISMATCH, DropReason::Replayed))
    }

    /// Whether its timestamp is close to the clock and newer than the last one.
    fn is_fresh(&self, now: Time, request: &UpdateRequest, binding: Option<&Binding>) -> bool {
        let Some(timestamp) = request.timestamp else { return false };
        let close = self.clock.timestamp(now).is_none_or(|clock| timestamp.is_close_to(clock));
        close
            && binding.is_none_or(|binding| binding.timestamp == Timestamp(0) || timestamp.is_after(binding.timestamp))
    }

    /// Whether the authenticated sender may register this.
    fn authorise(
        &self,
        now: Time,
        request: &UpdateRequest,
        row: &PrefixTableRow,
        binding: Option<&Binding>,
        answer: &mut Reply,
    ) -> Result<Decision, Rejection> {
        if self.config.home_prefixes.is_empty() {
            return Err(Rejection::Reply(Status::HOME_REGISTRATION_NOT_SUPPORTED));
        }
        if !self.config.home_prefixes.iter().any(|prefix| prefix.contains(request.home.0)) {
            return Err(Rejection::Reply(Status::NOT_HOME_SUBNET));
        }
        if request.router && !request.home_registration {
            return Err(Rejection::Reply(Status::MOBILE_ROUTER_NOT_PERMITTED));
        }
        let latest = binding.and_then(Binding::latest);
        let ipv4_care_of = answer.dsmip.map(|dsmip| dsmip.care_of);
        let from_home = !request.is_encapsulated() && request.care_of.0 == request.home.0;
        let ends = request.lifetime.is_zero() || (from_home && request.bid_options.is_empty());
        if !ends && latest.is_some_and(|latest| latest.router != request.router) {
            return Err(Rejection::Reply(Status::REGISTRATION_TYPE_CHANGE));
        }
        let leaving = self.is_deregistering(request.home);
        // In a fleet another member may have the binding: the store knows.
        #[cfg(feature = "fleet")]
        let leaving = leaving || self.fleet.is_some();
        if ends && latest.is_none() && !leaving {
            return Err(Rejection::Reply(Status::NOT_HOME_AGENT));
        }
        if ends && (request.bid_options.is_empty() || leaving) {
            return Ok(Decision::Deregister);
        }
        if !ends && binding.is_none() && self.bindings.len() >= self.config.max_bindings {
            return Err(Rejection::Reply(Status::INSUFFICIENT_RESOURCES));
        }
        if !ends
            && !request.is_encapsulated()
            && !request.has_home_address_option
            && !request.bid_options.iter().any(|option| option.simultaneous_home)
        {
            return Err(Rejection::Drop(DropReason::Malformed, "the Home Address option is missing"));
        }
        if !ends && ipv4_care_of.is_none() && request.force_udp {
            // UDP encapsulation is not available over IPv6 (RFC 5555 §4.5); acceptance would make the mobile router
            // use it.
            return Err(Rejection::Reply(Status::UDP_ENCAPSULATION_REFUSED));
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
        let mut merged = self.grant_care_of((now + lifetime, ipv4_care_of), request, latest, &prefixes)?;
        if !ends {
            self.encrypt_paths(request, answer, &mut merged.care_of).map_err(Rejection::Reply)?;
        }
        answer.bid_statuses = merged.bid_statuses;
        answer.lifetime = lifetime;
        if merged.care_of.is_empty() {
            return Ok(Decision::Deregister);
        }
        let at_home = merged.care_of.iter().any(|care_of| care_of.simultaneous_home);
        let known_at = latest.and_then(|latest| latest.home_link_address);
        let bids: Vec<Bid> = merged.care_of.iter().map(|care_of| care_of.bid).collect();
        let known = latest.map(|latest| latest.flows.as_slice()).unwrap_or_default();
        let paths = (bids.as_slice(), self.config.replication && request.eliminates());
        let (rules, flow_statuses) = flows::merge_flows(known, &request.flows, &request.flow_summary, paths);
        answer.flows = flow_statuses;
        let mut next = Registration {
            care_of: merged.care_of,
            prefixes,
            explicit: request.is_explicit(),
            flows: rules,
            home_link_address: request.link_address.filter(|_| !ends).or(known_at).filter(|_| at_home),
            router: latest.filter(|_| ends).map_or(request.router, |latest| latest.router),
            link_local: match latest {
                Some(latest) if ends => latest.link_local,
                // A router on the home link has its own link-local address there.
                _ if request.link_local && !at_home => self.free_link_local(request.home).map_err(Rejection::Reply)?,
                _ => None,
            },
            lifetime: if ends { latest.map(|latest| latest.lifetime).unwrap_or_default() } else { lifetime },
        };
        next.sort_by_preference();
        answer.router = next.router;
        Ok(Decision::Register(next))
    }

    /// The prefixes of explicit mode if they are authorised, those of implicit mode if there are any (RFC 3963 §6.2),
    /// and the IPv4 prefixes granted before.
    fn grant_prefixes(
        &self,
        request: &UpdateRequest,
        row: &PrefixTableRow,
        ipv4: Vec<Prefix>,
    ) -> Result<Arc<[Prefix]>, Rejection> {
        if !request.router {
            return Ok(self.share_prefixes(request.home, ipv4));
        }
        let explicit = request.is_explicit();
        // Prefixes of the prefix table are granted as far as they are routable.
        let own = || row.prefixes.iter().copied().filter(|prefix| !prefix.is_ipv4() && self.is_installable(*prefix));
        let requested: Vec<Prefix> = if explicit { request.prefixes.clone() } else { own().collect() };
        if requested.is_empty() && !request.malformed_prefix {
            return Err(Rejection::Reply(Status::FORWARDING_SETUP_FAILED));
        }
        if request.malformed_prefix || explicit && requested.iter().any(|prefix| !self.is_installable(*prefix)) {
            return Err(Rejection::Reply(Status::INVALID_PREFIX));
        }
        if requested.iter().any(|prefix| !row.prefixes.iter().any(|own| own.covers(*prefix))) {
            return Err(Rejection::Reply(Status::NOT_AUTHORISED_FOR_PREFIX));
        }
        if explicit && !self.prefixes.has_room_for(&requested) {
            return Err(Rejection::Reply(Status::INVALID_PREFIX));
        }
        let own = self.bindings.get(&request.home).map(|binding| binding.tunnel);
        let taken = |prefix: &Prefix| self.prefixes.owner(*prefix).is_some_and(|owner| Some(owner) != own);
        if requested.iter().any(taken) {
            let status = if explicit { Status::INVALID_PREFIX } else { Status::FORWARDING_SETUP_FAILED };
            return Err(Rejection::Reply(status));
        }
        Ok(self.share_prefixes(request.home, [requested, ipv4].concat()))
    }

    /// Whether a route to it is possible, and covers neither this home agent nor its home networks.
    fn is_installable(&self, prefix: Prefix) -> bool {
        let home = self.config.home_prefixes.iter().any(|home| prefix.covers(*home) || home.covers(prefix));
        let own = prefix.contains(self.config.address) && !self.is_shared_prefix(prefix);
        prefix.length() > 0 && is_routable_unicast(prefix.address()) && !own && !home
    }

    fn grant_lifetime(&self, requested: Duration) -> Duration {
        let unit = Duration::from_secs(LIFETIME_UNIT_SECONDS.into());
        let granted = requested.min(self.config.max_lifetime).as_secs() / unit.as_secs();
        unit * u32::try_from(granted.max(1)).unwrap_or(u32::MAX)
    }

    /// The care-of addresses once this update is in force.
    fn grant_care_of(
        &self,
        (expires, ipv4_care_of): (Time, Option<Ipv4Endpoint>),
        request: &UpdateRequest,
        latest: Option<&Registration>,
        prefixes: &[Prefix],
    ) -> Result<MergedCareOf, Rejection> {
        let reach = TunnelDestinations { home: request.home, prefixes };
        let udp6_care_of = request.udp6_source;
        let usable = |address: Ipv6Addr| match Ipv4Endpoint::from_ipv6(address) {
            Some(end) => self.is_valid_ipv4_care_of(end) && self.may_nest(reach, &[address]),
            None => self.is_valid_care_of(address) && self.may_nest(reach, &[address]),
        };
        let observed = ipv4_care_of.map(|end| end.to_ipv6()).or(udp6_care_of.map(|end| end.address));
        if observed.is_some_and(|address| !usable(address)) {
            return Err(Rejection::Reply(Status::INVALID_CARE_OF));
        }
        if !request.bid_options.is_empty() {
            let refused = |status| Err(Rejection::Reply(status));
            if !self.config.multiple_care_of {
                return refused(Status::MCOA_PROHIBITED);
            }
            if request.malformed_bid {
                return refused(Status::MCOA_MALFORMED);
            }
            let known = latest.map(|latest| latest.care_of.as_slice()).unwrap_or_default();
            let link_address = request.link_address.or(latest.and_then(|latest| latest.home_link_address));
            let reachable = self.config.home_and_away && self.home_link.is_up() && link_address.is_some();
            let home = Some(request.home.0).filter(|_| reachable);
            let (ends, overwrite) = (request.lifetime.is_zero(), request.overwrite);
            let update = mcoa::BidUpdate {
                deregister: ends,
                overwrite,
                expires,
                home_address: home,
                ipv4_source: ipv4_care_of,
                udp6_source: udp6_care_of,
            };
            let merged = mcoa::merge_care_of(known, &request.bid_options, &update, usable).map_err(Rejection::Reply)?;
            let away = merged.care_of.iter().filter(|care_of| !care_of.simultaneous_home);
            let away: Vec<Ipv6Addr> = away.map(|care_of| care_of.address).collect();
            // Kept care-of addresses were checked against other prefixes.
            return if ends || self.may_nest(reach, &away) { Ok(merged) } else { refused(Status::INVALID_CARE_OF) };
        }
        let address = match observed {
            Some(address) => address,
            None if !is_routable_unicast(request.care_of.0) => {
                let why = "the care-of address is not a unicast address";
                return Err(Rejection::Drop(DropReason::Malformed, why));
            }
            None if usable(request.care_of.0) => request.care_of.0,
            None => return Err(Rejection::Reply(Status::INVALID_CARE_OF)),
        };
        let udp = udp6_care_of.map(|end| end.port);
        let since = Time::ZERO;
        let (bid, simultaneous_home, wireguard, esp) = (Bid(0), false, None, None);
        let care_of = CareOf { bid, address, priority: 0, simultaneous_home, udp, wireguard, esp, expires, since };
        Ok(MergedCareOf { care_of: vec![care_of], bid_statuses: Vec::new() })
    }

    /// Records sequence number and timestamp: older updates are stale from now on.
    fn remember_sequence(&mut self, request: &UpdateRequest) {
        let tunnel = self.tunnel_id(request.home);
        let binding =
            self.bindings.entry(request.home).or_insert_with(|| Box::new(Binding { tunnel, ..Default::default() }));
        self.tunnels.insert(binding.tunnel, request.home);
        binding.sequence = request.sequence;
        binding.timestamp = request.timestamp.unwrap_or(Timestamp(0));
    }

    /// A de-registration without a binding may have overtaken an update that is still in transit.
    fn remember_deregistration(&mut self, now: Time, request: &UpdateRequest) {
        if self.bindings.contains_key(&request.home) || self.bindings.len() < self.config.max_bindings {
            self.remember_sequence(request);
        }
        let memory = self.tombstone_lifetime(request.home);
        if let Some(binding) = self.bindings.get_mut(&request.home) {
            binding.forget_at = Some(now + memory);
            self.schedule(request.home);
        }
    }

    /// Answers an update that is authentic and fresh, yet refused, unless the token bucket of its home address is empty:
    /// nothing is remembered of it, so that a captured one stays fresh for as long as its timestamp is close to the clock.
    fn refuse_authentic(
        &mut self,
        now: Time,
        request: &UpdateRequest,
        answer: &Reply,
        status: Status,
        out: &mut Outbox,
    ) {
        if self.reply_limiter.allow_authentic(now, request.home, &mut self.entropy) {
            return self.reject(answer, status, out);
        }
        out.report_drop(
            DropReason::RateLimited,
            request.source,
            format!("Binding Update of {}: not answered (rate limit), status {status}", request.home),
        );
    }

    /// Answers an update that changes nothing, within the rate limit.
    fn reject_rate_limited(
        &mut self,
        now: Time,
        request: &UpdateRequest,
        mut answer: Reply,
        (status, reason): (Status, DropReason),
        out: &mut Outbox,
    ) {
        let forged = status == Status::AUTHENTICATION_FAILED;
        let answered = match forged {
            true => self.reply_limiter.allow_forged(now, request.home, &mut self.entropy),
            false => self.reply_limiter.allow_authentic(now, request.home, &mut self.entropy),
        };
        if status == Status::SEQUENCE_OUT_OF_WINDOW {
            self.report_duplicate_router(now, request, out);
        }
        let done = if answered { "answered with status" } else { "not answered (rate limit), status" };
        let detail = format!("Binding Update of {}: {done} {status}", request.home);
        if answered {
            self.complete_reply(now, request, &mut answer, status);
            self.send_acknowledgement(&answer, status, out);
        }
        out.report_drop(reason, request.source, detail);
    }

    /// An authentic and fresh update with an old sequence number, from another care-of address, is of another router
    /// with the same key, or the router has lost its state. The first is reported once for each binding.
    fn report_duplicate_router(&mut self, now: Time, request: &UpdateRequest, out: &mut Outbox) {
        let binding = self.bindings.get(&request.home).map(Box::as_ref);
        let keyed = self
            .prefix_table_row(request.home)
            .is_some_and(|row| matches!(row.authentication, Authentication::SharedKey(_)));
        let fresh = keyed && self.is_fresh(now, request, binding);
        let Some(binding) = self.bindings.get_mut(&request.home).filter(|_| fresh) else { return };
        let Some(bound) = binding.current.as_ref().and_then(|current| current.care_of.first()) else { return };
        // In UDP the source of the inner packet is the home address.
        let other = if request.is_encapsulated() { request.peer() } else { request.care_of.0 };
        let (home, bound) = (request.home, shown(bound.address));
        if binding.has_care_of(other) {
            return;
        }
        let (care_of, other) = (other, shown(other));
        if self.rivals.record(now, home, care_of) {
            let text = format!("{home}: two mobile routers have this home address and key, at {bound} and at {other}");
            return out.notice(text);
        }
        if std::mem::replace(&mut binding.duplicate_reported, true) {
            return;
        }
        let text = format!(
            "{home}: bound at {bound}, and an authentic Binding Update with an old sequence number came from {other}: \
             either the mobile router has lost its state, or two mobile routers have this home address and key"
        );
        out.notice(text);
    }

    /// Completes an answer with the last sequence number or the clock (RFC 6275 §9.5.1, RFC 4285 §6).
    fn complete_reply(&self, now: Time, request: &UpdateRequest, answer: &mut Reply, status: Status) {
        if let Some(last) = self.last_sequence(request.home).filter(|_| status == Status::SEQUENCE_OUT_OF_WINDOW) {
            answer.sequence = last;
        }
        if status == Status::MESSAGE_ID_MISMATCH {
            let clock = self.clock.timestamp(now);
            answer.timestamp = answer.timestamp.zip(clock).map(|(theirs, ours)| theirs.resynchronised_to(ours));
        }
    }
}

/// Verifies the MN-HA authenticator (RFC 4285 §5.1), before anything about the binding is disclosed;
/// [`check_protection`] covers other methods.
fn verify_authenticator(request: &UpdateRequest, authentication: &Authentication) -> Result<(), Rejection> {
    let Authentication::SharedKey(key) = authentication else { return Ok(()) };
    let Some(mn_ha) = &request.mn_ha_option else {
        return Err(Rejection::Drop(DropReason::NotAuthenticated, "the authentication option is missing"));
    };
    if mn_ha.spi != key.spi {
        return Err(Rejection::Drop(DropReason::NoAssociation, "no security association with this SPI"));
    }
    if !verify(&key.secret, request.care_of, request.home, &mn_ha.covered, &mn_ha.authenticator) {
        return Err(Rejection::RateLimitedReply(Status::AUTHENTICATION_FAILED, DropReason::BadAuthenticator));
    }
    Ok(())
}

/// With IPsec only content covered by ESP counts: no unprotected message, and the source address as care-of address
/// only if the message has it too; a de-registration needs none (RFC 3776 §4.1 and §4.2).
fn check_protection(request: &UpdateRequest, row: &PrefixTableRow) -> Result<(), Rejection> {
    if !matches!(row.authentication, Authentication::Ipsec(_)) {
        return Ok(());
    }
    if !request.in_esp {
        return Err(Rejection::Drop(DropReason::NotAuthenticated, "not protected by ESP"));
    }
    if request.has_home_address_option
        && !request.lifetime.is_zero()
        && request.bid_options.is_empty()
        && !request.has_alternate_care_of
    {
        return Err(Rejection::Drop(DropReason::Malformed, "the Alternate Care-of Address option is missing"));
    }
    Ok(())
}
