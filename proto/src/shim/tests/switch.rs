//! Switch to the operator's locator pair, and failback to the ULIDs.

use super::*;
use crate::contract::command::ShimCommand;
use crate::contract::config::shim::{Identity, ShimConfig, UplinkPreference};
use crate::contract::input::{Activity, TrafficCount};
use crate::contract::item::ShimContext;
use crate::contract::report::{HostReport, ShimReport};
use roam6_wire::shim6::LocatorPreference;

/// An established context with a peer of two addresses, on the first.
struct EstablishedPeer {
    bench: Bench,
    peer_addresses: Vec<Ipv6Addr>,
    installed: ShimContext,
    proof: Vec<ShimOption>,
}

impl EstablishedPeer {
    fn new(config: ShimConfig) -> EstablishedPeer {
        let day = Duration::from_secs(86_400);
        let mut bench = Bench::new(ShimConfig { idle_timeout: day, ..config });
        let (theirs, proof) = set(0xb, 1);
        let held = context(&bench.handshake(theirs[0], TAG, Vec::new(), proof.clone())).unwrap();
        EstablishedPeer { bench, peer_addresses: theirs, installed: held, proof }
    }

    fn pair(&self, peer: usize) -> AddressPair {
        AddressPair { local: ip(HERE), peer: self.peer_addresses[peer] }
    }

    /// Feeds a sample: a packet was sent a minute ago, and none received since.
    fn report_unanswered_activity(&mut self) -> Vec<Output> {
        self.bench.wait(60_000);
        let sent = Some(self.bench.now - Duration::from_secs(59));
        let (context, none) = (self.installed.id, TrafficCount::default());
        let activity = Activity {
            context,
            last_sent: sent,
            last_received: None,
            unanswered_since: sent,
            unreturned_since: None,
            tx: none,
            rx: none,
        };
        self.bench.feed(&Input::Activity(activity))
    }

    /// Receives a probe in state Operational that reports these probes.
    fn receive_operational_probe(&mut self, received: Vec<ProbeRecord>) -> Vec<Output> {
        let source = self.peer_addresses[0];
        let sent = vec![ProbeRecord { source, destination: ip(HERE), nonce: Nonce(1), data: 0 }];
        let tag = self.installed.tag_in;
        let probe = Probe { tag, state: ProbeState::Operational, sent, received, options: Vec::new() };
        self.bench.receive(source, &Message::Probe(probe))
    }

    fn use_path(&mut self, path: AddressPair) -> Vec<Output> {
        self.bench.feed(&Input::Command(Command::Shim(ShimCommand::SwitchPath { ulids: None, fork: Fork::NONE, path })))
    }

    /// Loses the current pair, and recovers on the other.
    fn fail_over(&mut self) {
        let mut probes = probes(&self.report_unanswered_activity());
        probes.extend(self::probes(&self.bench.wait(1000)));
        let other = self.pair(1);
        let record = probes.iter().find(|(pair, _)| *pair == other).unwrap().1.sent[0];
        assert_eq!(installed_path(&self.receive_operational_probe(vec![record])), Some(other));
    }
}

/// The probes among the outputs.
fn probes(outputs: &[Output]) -> Vec<(AddressPair, Probe)> {
    let all = outputs.iter().filter_map(|output| match output {
        Output::Transmit(transmit) => Datagram::parse(&transmit.bytes).ok(),
        _ => None,
    });
    all.filter_map(|datagram| {
        let pair = AddressPair { local: datagram.source, peer: datagram.destination };
        match Message::parse(datagram.payload) {
            Ok(Message::Probe(probe)) => Some((pair, probe)),
            _ => None,
        }
    })
    .collect()
}

fn installed_path(outputs: &[Output]) -> Option<AddressPair> {
    outputs.iter().find_map(|output| match output {
        Output::Report(Report::Shim(ShimReport::PathChanged { path, .. })) => Some(*path),
        _ => None,
    })
}

#[test]
fn use_path_switches_when_the_peer_reports_the_probe() {
    let mut two = EstablishedPeer::new(ShimConfig::default());
    let wanted = two.pair(1);
    let messages = probes(&two.use_path(wanted));
    let [(pair, probe)] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((*pair, probe.state), (wanted, ProbeState::InboundOk), "packets of the peer arrive");
    let made_up = ProbeRecord { nonce: Nonce(probe.sent[0].nonce.0 ^ 1), ..probe.sent[0] };
    assert_eq!(installed_path(&two.receive_operational_probe(vec![made_up])), None);
    assert_eq!(installed_path(&two.receive_operational_probe(probe.sent.clone())), Some(wanted));
    assert!(
        probes(&two.bench.wait(3_600_000)).iter().all(|(pair, _)| *pair == wanted),
        "the context stays on the pair"
    );
}

#[test]
fn use_path_without_probe_report_is_abandoned_with_a_notice() {
    let mut two = EstablishedPeer::new(ShimConfig::default());
    let wanted = two.pair(1);
    let mut outputs = two.use_path(wanted);
    outputs.extend(two.bench.wait(5000));
    assert_eq!(probes(&outputs).len(), 4);
    let has_notice =
        outputs.iter().any(|output| matches!(output, Output::Report(Report::Host(HostReport::Notice { .. }))));
    assert!(has_notice && installed_path(&outputs).is_none());
}

#[test]
fn use_path_outlives_an_exploration_that_selects_another_pair() {
    let mut two = EstablishedPeer::new(ShimConfig::default());
    let (present, wanted) = (two.pair(0), two.pair(1));
    let mut searched = probes(&two.report_unanswered_activity());
    searched.extend(probes(&two.bench.wait(1000)));
    let record = searched.iter().find(|(pair, _)| *pair == present).unwrap().1.sent[0];
    let hurried = probes(&two.use_path(wanted));
    assert!(hurried.iter().all(|(pair, _)| *pair == wanted), "the exploration probes it first");
    // A late report of an earlier probe ends the exploration.
    let outputs = two.receive_operational_probe(vec![record]);
    assert_eq!(installed_path(&outputs), None);
    let messages = probes(&outputs);
    let (pair, probe) = messages.last().unwrap();
    assert_eq!((*pair, probe.state), (wanted, ProbeState::InboundOk), "the switch attempt continues");
    assert_eq!(installed_path(&two.receive_operational_probe(probe.sent.clone())), Some(wanted));
}

#[test]
fn a_forked_context_uses_its_own_path() {
    let mut two = EstablishedPeer::new(ShimConfig::default());
    let (path, fork, theirs) = (two.pair(1), Fork(7), Tag::from_low_bits(99));
    let order =
        Input::Command(Command::Shim(ShimCommand::SwitchPath { ulids: Some(two.installed.id.ulids), fork, path }));
    let messages = sent(&two.bench.feed(&order));
    let [Message::I1 { tag, nonce, options }] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(options[..], [ShimOption::Fork(fork)]);
    let r2 = Message::R2 { tag: theirs, nonce: *nonce, options: two.proof.clone() };
    let outputs = two.bench.receive(two.peer_addresses[0], &r2);
    let held = context(&outputs).unwrap();
    assert_eq!((held.id.fork, held.tag_in, held.tag_out, held.locators), (fork, *tag, theirs, two.pair(0)));
    let messages = probes(&outputs);
    let [(pair, probe)] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((*pair, probe.tag), (path, theirs));
    two.installed.tag_in = held.tag_in;
    assert_eq!(installed_path(&two.receive_operational_probe(probe.sent.clone())), Some(path));
    let (slots, paths): (Vec<ContextIndex>, Vec<AddressPair>) =
        two.bench.shim.contexts.iter().map(|(slot, context)| (slot, context.path)).unzip();
    assert_eq!((slots.len(), paths), (2, vec![two.installed.id.ulids, path]), "the parent keeps its pair");
    assert!(sent(&two.bench.feed(&order)).is_empty(), "the pair is in use already");
}

/// Update Requests wait for the update delay: at the start, and after a later change.
#[test]
fn a_forked_context_does_not_wait_for_the_update_delay() {
    let (ours, _) = set(0xa, 2);
    let identity = Identity { parameters: parameters(0xa, 2), private_key: Vec::new() };
    let config = ShimConfig { identities: vec![identity], ..ShimConfig::default() };
    let mut bench = Bench::started(config, &ours[..1]);
    let (theirs, proof) = set(0xb, 1);
    let outputs = bench.handshake(theirs[0], TAG, Vec::new(), proof.clone());
    let answers = sent(&outputs);
    let Some(Message::R2 { options, .. }) = answers.last() else { panic!("{answers:?}") };
    assert!(matches!(options.first(), Some(ShimOption::Locators(list)) if list.locators.len() == 1), "{options:?}");
    bench.feed(&Input::Address(AddressEvent { link: LINK, address: ours[1], state: AddressState::Preferred }));
    let (fork, path) = (Fork(7), AddressPair { local: ours[1], peer: theirs[1] });
    let ulids = Some(context(&outputs).unwrap().id.ulids);
    let messages = sent(&bench.feed(&Input::Command(Command::Shim(ShimCommand::SwitchPath { ulids, fork, path }))));
    let [Message::I1 { nonce, .. }] = &messages[..] else { panic!("{messages:?}") };
    let r2 = Message::R2 { tag: Tag::from_low_bits(99), nonce: *nonce, options: proof };
    let messages = probes(&bench.receive(theirs[0], &r2));
    assert!(matches!(&messages[..], [(pair, _)] if *pair == path), "{messages:?}");
}

#[test]
fn use_path_with_unknown_locators_is_reported() {
    let mut two = EstablishedPeer::new(ShimConfig::default());
    let path = AddressPair { local: ip(STRANGER), peer: two.peer_addresses[0] };
    let outputs = two.use_path(path);
    assert!(matches!(&outputs[..], [Output::Report(Report::Host(HostReport::Notice { .. }))]), "{outputs:?}");
}

/// Both ends may attempt a switch at once: answers must not cause probes, or the exchange would never end.
#[test]
fn an_inbound_ok_probe_is_answered_without_starting_exploration() {
    let mut two = EstablishedPeer::new(ShimConfig::default());
    let wanted = two.pair(1);
    assert_eq!(probes(&two.use_path(wanted)).len(), 1);
    let (tag, source) = (two.installed.tag_in, two.peer_addresses[1]);
    for number in 0..20 {
        let record = ProbeRecord { source, destination: ip(HERE), nonce: Nonce(number), data: 0 };
        let (state, sent) = (ProbeState::InboundOk, vec![record]);
        let probe = Probe { tag, state, sent, received: Vec::new(), options: Vec::new() };
        let answers = probes(&two.bench.receive(source, &Message::Probe(probe)));
        let [(pair, answer)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(
            (*pair, answer.state),
            (two.installed.id.ulids, ProbeState::Operational),
            "the answer has state Operational"
        );
        assert_eq!(answer.received, [record]);
    }
    assert_eq!(probes(&two.bench.wait(499)).len(), 0);
    assert_eq!(probes(&two.bench.wait(1)).len(), 1, "its own probe is repeated at its own interval");
}

#[test]
fn failback_to_the_ulids_when_they_work_again() {
    let mut two = EstablishedPeer::new(ShimConfig::default());
    two.fail_over();
    let ulids = two.installed.id.ulids;
    assert_eq!(probes(&two.bench.wait(59_000)).len(), 0);
    let messages = probes(&two.bench.wait(4_000));
    assert_eq!(messages.len(), 4, "{messages:?}");
    assert!(messages.iter().all(|(pair, probe)| (*pair, probe.state) == (ulids, ProbeState::InboundOk)));
    assert_eq!(installed_path(&two.receive_operational_probe(vec![messages[0].1.sent[0]])), None, "too late");
    let mut back = None;
    for _ in 0..1300 {
        let messages = probes(&two.bench.wait(50));
        for (_, probe) in messages {
            back = back.or(installed_path(&two.receive_operational_probe(probe.sent)));
        }
    }
    assert_eq!(back, Some(ulids));
}

#[test]
fn an_unanswered_context_check_starts_exploration() {
    let mut two = EstablishedPeer::new(ShimConfig { return_after: None, ..ShimConfig::default() });
    two.fail_over();
    let (present, other) = (two.pair(1), two.pair(0));
    let messages = probes(&two.bench.wait(60_000));
    assert!(messages.iter().all(|(pair, _)| *pair == present), "it stays on the pair, but probes");
    // Packets with the ULIDs keep arriving.
    let (context, none, now) = (two.installed.id, TrafficCount::default(), Some(two.bench.now));
    let activity = Activity {
        context,
        last_sent: now,
        last_received: now,
        unanswered_since: None,
        unreturned_since: None,
        tx: none,
        rx: none,
    };
    two.bench.feed(&Input::Activity(activity));
    let outputs = two.bench.wait(6_000);
    assert!(outputs.iter().any(|output| matches!(output, Output::Report(Report::Shim(ShimReport::PathLost { .. })))));
    assert!(probes(&outputs).iter().any(|(pair, _)| *pair == other), "the other pair is probed too");
}

#[test]
fn failback_backs_off_when_the_ulids_fail_again() {
    let mut two = EstablishedPeer::new(ShimConfig::default());
    let mut pauses = Vec::new();
    for _ in 0..4 {
        two.fail_over();
        let left = two.bench.now;
        while two.bench.shim.contexts.iter().any(|(_, context)| context.path != context.id.ulids) {
            for (_, probe) in probes(&two.bench.wait(100)) {
                two.receive_operational_probe(probe.sent);
            }
        }
        pauses.push(two.bench.now.since(left).as_secs());
    }
    assert_eq!(pauses, [61, 121, 241, 481]);
    let two = EstablishedPeer::new(ShimConfig { return_after: None, ..ShimConfig::default() });
    assert_eq!(two.bench.shim.timers.iter().filter(|(_, timer)| matches!(timer, Timer::Failback(_))).count(), 0);
}

#[test]
fn locator_preferences_are_sent_and_honoured() {
    let worse = UplinkPreference { priority: 20, weight: 3, transient: true };
    let mut two =
        EstablishedPeer::new(ShimConfig { preferences: [("if0".to_owned(), worse)].into(), ..ShimConfig::default() });
    let Some(ShimOption::Locators(list)) = two.proof.first() else { panic!() };
    let elements =
        vec![LocatorPreference { priority: 9, ..LocatorPreference::default() }, LocatorPreference::default()];
    let preferences = ShimOption::Preferences { generation: list.generation, elements };
    let tag = two.installed.tag_in;
    let source = two.peer_addresses[0];
    two.bench.receive(source, &Message::UpdateRequest { tag, nonce: Nonce(9), options: vec![preferences] });
    let slot = two.bench.shim.contexts.find(&two.installed.id).unwrap();
    let ranks: Vec<u16> = two.bench.shim.candidate_pairs(slot).values().map(|rank| rank.cost).collect();
    let mut dislikes = [512 + 20 + 9, 512 + 20];
    if two.peer_addresses[0] > two.peer_addresses[1] {
        dislikes.reverse();
    }
    assert_eq!(ranks, dislikes);
}
