//! An attacker without the key that captures packets and has the home agent sign answers: an unauthentic update gets an
//! acknowledgement with a valid authenticator (RFC 4285 §5.1: 146, RFC 6275 §9.5.1: 135). It neither ends the binding nor
//! stops the updates.

use super::*;
use crate::contract::report::{DropReason, HostReport};

const CARE_OF: &str = "2001:db8:1::ff:fe00:2";
/// The refusals a home agent may be brought to sign, or may have signed at another time.
const REFUSALS: [Status; 6] = [
    Status::INSUFFICIENT_RESOURCES,
    Status::NOT_HOME_AGENT,
    Status::SEQUENCE_OUT_OF_WINDOW,
    Status::MOBILE_ROUTER_NOT_PERMITTED,
    Status::MESSAGE_ID_MISMATCH,
    Status::AUTHENTICATION_FAILED,
];

fn two_home_agents() -> MobileRouterConfig {
    MobileRouterConfig { home_agents: vec![ip("2001:db8::1"), ip("2001:db8::2")], ..config() }
}

/// Bound since time zero.
fn bound(config: MobileRouterConfig) -> (TestBed, Update) {
    let mut bench = TestBed::new(config);
    bench.link(LAN, true);
    bench.link(WIFI, true);
    let first = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    bench.acknowledge(&first, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(ip(CARE_OF), 1)]);
    (bench, first)
}

/// A forged Binding Refresh Request; the update it causes, if any.
fn provoke(bench: &mut TestBed) -> Option<Update> {
    let (home_agent, home) = (ip("2001:db8::1"), ip("2001:db8::100"));
    let request = mobility::Message::BindingRefreshRequest { options: Vec::new() };
    let header = Header::new(home_agent, ip(CARE_OF)).with_routing_home(home);
    let bytes = ip6::emit(&header, protocol::MOBILITY, &request.emit(home_agent, home));
    updates(&bench.feed(Input::Packet(Packet { link: WIFI, sender: None, bytes }))).first().cloned()
}

/// The acknowledgement of `update` with another timestamp than the update had.
fn answer_stamped(bench: &mut TestBed, update: &Update, status: Status, stamp: Option<u64>) -> Vec<Output> {
    let options = stamp.map(MobilityOption::ReplayProtection).into_iter().collect();
    let mut update = update.clone();
    // The bench echoes the timestamp of the update unless `options` have another.
    update.message.options.retain(|option| !matches!(option, MobilityOption::ReplayProtection(_)));
    bench.acknowledge_with(&update, status, AckFlags::ROUTER, update.message.sequence, options)
}

fn dropped(outputs: &[Output]) -> Vec<DropReason> {
    let reason = |report: &&Report| match report {
        Report::Host(HostReport::Dropped { reason, .. }) => Some(*reason),
        _ => None,
    };
    reports(outputs).iter().filter_map(reason).collect()
}

/// The recorded attack from off the path: the last number is requested, a 146 for the next number is signed in advance,
/// a forged request makes the router send, and the answer is shown to it.
#[test]
fn rejection_of_forged_update_changes_nothing() {
    for status in REFUSALS {
        let (mut bench, _) = bound(two_home_agents());
        bench.now = at(5_000);
        let mut pending = provoke(&mut bench).unwrap();
        if status == Status::SEQUENCE_OUT_OF_WINDOW {
            pending.message.sequence = Sequence(pending.message.sequence.0.wrapping_add(9));
        }
        for stamp in [None, Some(pending.timestamp().unwrap() ^ 1), Some(7)] {
            let outputs = answer_stamped(&mut bench, &pending, status, stamp);
            assert!(updates(&outputs).is_empty(), "{status} with {stamp:?}");
            assert_eq!(dropped(&outputs).len(), 1, "{status} with {stamp:?}");
            assert_eq!(bench.paths(), [(ip(CARE_OF), 1)], "{status} with {stamp:?}");
        }
        let pending = update(&bench.wait(6_000));
        bench.acknowledge(&pending, Status::ACCEPTED);
        assert!(updates(&bench.wait(20_000)).is_empty(), "bound again, and at rest");
    }
}

/// The attack kept up for two minutes, with everything the path shows: number, timestamp and care-of address are those of the
/// update itself, so that only the key is missing. The home agent accepts the update too.
#[test]
fn rejection_of_replayed_update_changes_nothing() {
    let (mut bench, _) = bound(config());
    for millis in (5_000..125_000).step_by(100) {
        let mut sent = updates(&bench.wait(millis));
        sent.extend(provoke(&mut bench));
        for pending in sent {
            bench.acknowledge(&pending, Status::AUTHENTICATION_FAILED);
            assert_eq!(bench.paths(), [(ip(CARE_OF), 1)], "at {millis} ms");
            let outputs = bench.acknowledge(&pending, Status::ACCEPTED);
            assert!(reports(&outputs).iter().any(|report| report.name() == "bound"), "at {millis} ms");
        }
    }
}

/// The first registration under the same attack: the router continues to send updates, and is never paused.
#[test]
fn unproven_rejection_does_not_pause_registration() {
    for config in [config(), two_home_agents()] {
        let mut bench = TestBed::new(config);
        bench.link(WIFI, true);
        let mut pending = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
        for millis in [1_500, 4_500, 10_500] {
            let outputs = bench.acknowledge(&pending, Status::AUTHENTICATION_FAILED);
            assert!(updates(&outputs).is_empty(), "the attacker does not set the pace either");
            pending = update(&bench.wait(millis));
            assert_eq!(pending.home_agent, ip("2001:db8::1"));
        }
        bench.acknowledge(&pending, Status::ACCEPTED);
        assert_eq!(bench.paths(), [(ip(CARE_OF), 1)]);
    }
}

#[test]
fn wrong_key_is_reported_once() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let mut pending = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    let mut faults = 0;
    for millis in [1_500, 4_500, 10_500, 22_500, 46_500] {
        let outputs = bench.acknowledge(&pending, Status::AUTHENTICATION_FAILED);
        faults += reports(&outputs).iter().filter(|report| report.name() == "fault").count();
        pending = update(&bench.wait(millis));
    }
    assert_eq!(faults, 1);
}

/// The update that a copy of an update, sent again, is answered with: the number is our own, the timestamp too.
#[test]
fn duplicated_update_keeps_the_first_acknowledgement() {
    let (mut bench, _) = bound(config());
    bench.now = at(5_000);
    let pending = provoke(&mut bench).unwrap();
    let outputs = bench.acknowledge(&pending, Status::SEQUENCE_OUT_OF_WINDOW);
    assert_eq!(updates(&outputs).len(), 1, "a router that lost its numbers may have chosen the last one again");
    let outputs = bench.acknowledge(&pending, Status::ACCEPTED);
    assert!(reports(&outputs).iter().any(|report| report.name() == "bound"));
}

/// A home agent whose disk is full, or that runs out of memory, rejects a refresh and keeps the binding.
#[test]
fn refresh_rejected_with_130_keeps_the_binding() {
    let (mut bench, _) = bound(two_home_agents());
    let mut refused = 0;
    let mut expired = None;
    for millis in (0..70_000).step_by(50) {
        for pending in updates(&bench.wait(millis)) {
            assert_eq!(pending.home_agent, ip("2001:db8::1"));
            refused += 1;
            let outputs = bench.acknowledge(&pending, Status::INSUFFICIENT_RESOURCES);
            if reports(&outputs).iter().any(|report| report.name() == "unbound") {
                expired = expired.or(Some(millis));
            }
        }
        if millis < 59_000 {
            assert_eq!(bench.paths(), [(ip(CARE_OF), 1)], "at {millis} ms");
        } else if expired.is_some() {
            break;
        }
    }
    assert!(refused >= 4, "{refused} updates");
    assert!(expired.is_some_and(|millis| millis < 62_000), "{expired:?}");
    assert_eq!(update(&bench.wait(expired.unwrap_or_default() + 1_500)).home_agent, ip("2001:db8::2"));
}

/// An authentic rejection is confirmed by two more updates before the binding ends.
#[test]
fn rejection_is_believed_after_three_updates() {
    let (mut bench, _) = bound(two_home_agents());
    bench.now = at(5_000);
    let mut pending = provoke(&mut bench).unwrap();
    for millis in [6_000, 8_000] {
        let outputs = bench.acknowledge(&pending, Status::MOBILE_ROUTER_NOT_PERMITTED);
        assert!(!reports(&outputs).iter().any(|report| report.name() == "unbound"));
        let again = bench.acknowledge(&pending, Status::MOBILE_ROUTER_NOT_PERMITTED);
        assert_eq!(dropped(&again), [DropReason::Unsolicited], "one update, one answer");
        assert_eq!(bench.paths(), [(ip(CARE_OF), 1)]);
        pending = update(&bench.wait(millis));
    }
    let outputs = bench.acknowledge(&pending, Status::MOBILE_ROUTER_NOT_PERMITTED);
    assert!(reports(&outputs).iter().any(|report| report.name() == "unbound"));
    assert_eq!(update(&bench.wait(9_500)).home_agent, ip("2001:db8::2"));
}

/// An acceptance shown again after the numbers have come round.
#[test]
fn acknowledgement_must_echo_the_timestamp() {
    let (mut bench, first) = bound(config());
    bench.link(WIFI, false);
    bench.now = at(1_000);
    bench.link(WIFI, true);
    let pending = update(&bench.advertise(WIFI, "2001:db8:2::/64"));
    let outputs = answer_stamped(&mut bench, &pending, Status::ACCEPTED, first.timestamp());
    assert_eq!(dropped(&outputs), [DropReason::Replayed]);
    assert!(!reports(&outputs).iter().any(|report| report.name() == "bound"));
    let outputs = answer_stamped(&mut bench, &pending, Status::ACCEPTED, None);
    assert!(reports(&outputs).iter().any(|report| report.name() == "bound"), "a home agent that does not echo it");
}

/// With ESP there are no timestamps, and all answers are authenticated.
#[test]
fn without_timestamps_the_sequence_number_counts() {
    let mut bench = TestBed::new(MobileRouterConfig { authentication: Authentication::None, ..config() });
    bench.link(WIFI, true);
    let pending = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    assert_eq!(pending.timestamp(), None);
    let home = bench.router.config.home_address;
    let message = mobility::Message::BindingAcknowledgement(BindingAcknowledgement {
        status: Status::ACCEPTED,
        flags: AckFlags::ROUTER,
        sequence: pending.message.sequence,
        lifetime_units: LIFETIME,
        options: Vec::new(),
    });
    let header = Header::new(pending.home_agent, pending.source).with_routing_home(home.0);
    let bytes = ip6::emit(&header, protocol::MOBILITY, &message.emit(pending.home_agent, home.0));
    let outputs = bench.feed(Input::Packet(Packet { link: WIFI, sender: None, bytes }));
    assert!(reports(&outputs).iter().any(|report| report.name() == "bound"));
}
