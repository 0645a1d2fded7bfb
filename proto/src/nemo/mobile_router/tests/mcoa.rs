//! Several uplinks: planned handovers, registration of all care-of addresses, silent paths.

use super::*;
use crate::contract::command::MobileRouterCommand;
use crate::contract::config::flow::{FlowRule, FlowSelector};
use crate::contract::config::nemo::ProbeConfig;
use crate::contract::report::{HostReport, LossReason, NemoReport};
use roam6_wire::icmp6::Echo;
use roam6_wire::mobility::FlowIdentification;

pub(super) const ON_WIFI: &str = "2001:db8:1::ff:fe00:2";
pub(super) const ON_CELL: &str = "2001:db8:2::ff:fe00:3";

pub(super) fn sharing(sharing: LoadSharing) -> MobileRouterConfig {
    MobileRouterConfig { load_sharing: sharing, ..config() }
}

/// Registered over both uplinks.
pub(super) fn both(config: MobileRouterConfig) -> TestBed {
    let mut bench = TestBed::new(config);
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(2000);
    bench.link(CELL, true);
    let outputs = bench.advertise(CELL, "2001:db8:2::/64");
    for update in updates(&outputs) {
        bench.acknowledge(&update, Status::ACCEPTED);
    }
    bench
}

#[test]
fn soft_handover_keeps_the_old_path() {
    let mut bench = TestBed::new(config());
    bench.attach(CELL, "2001:db8:2::/64");
    bench.now = at(2000);
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let update = update(&outputs);
    assert_eq!((update.via, update.care_of()), (Via::Link(WIFI), vec![ip(ON_WIFI)]));
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1), (ip(ON_WIFI), 0)]);
    let outputs = bench.acknowledge(&update, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(ip(ON_WIFI), 1), (ip(ON_CELL), 0)]);
    assert!(report_kinds(&outputs).iter().all(|kind| !kind.starts_with("drop")));
    bench.wait(7001);
    assert_eq!(bench.paths(), [(ip(ON_WIFI), 1)]);
    assert!(bench.plan.find(&Key::Address(CELL, ip(ON_CELL))).is_some(), "kept for the next handover");
}

#[test]
fn loss_of_active_uplink_sends_one_update() {
    let mut bench = both(config());
    bench.now = at(10_000);
    let outputs = bench.link(WIFI, false);
    assert_eq!(update(&outputs).via, Via::Link(CELL));
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1)]);
}

#[test]
fn bulk_update_lists_all_uplinks_with_priorities() {
    let mut bench = TestBed::new(sharing(LoadSharing::Standby));
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(2000);
    bench.link(CELL, true);
    let outputs = bench.advertise(CELL, "2001:db8:2::/64");
    let update = update(&outputs);
    assert!(update.message.flags.overwrite());
    let bids: Vec<_> = update.bid_options().iter().map(|identifier| (identifier.bid, identifier.priority)).collect();
    assert_eq!(bids, [(Bid(1), 1), (Bid(2), 2)]);
    assert_eq!(update.care_of(), [ip(ON_WIFI), ip(ON_CELL)]);
    bench.acknowledge(&update, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(ip(ON_WIFI), 1), (ip(ON_CELL), 0)]);

    bench.now = at(4000);
    let outputs = bench.link(WIFI, false);
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1)], "at once, without NUD");
    assert_eq!(super::update(&outputs).care_of(), [ip(ON_CELL)]);
}

#[test]
fn home_agent_without_mcoa_gets_single_care_of_address() {
    let mut bench = TestBed::new(sharing(LoadSharing::Standby));
    bench.link(WIFI, true);
    let first = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    let sequence = first.message.sequence;
    let outputs = bench.acknowledge_with(&first, Status::ACCEPTED, AckFlags::ROUTER, sequence, Vec::new());
    assert_eq!(bench.paths(), [(ip(ON_WIFI), 1)]);
    let again = update(&outputs);
    assert_eq!((again.bid_options().len(), again.care_of()), (0, vec![ip(ON_WIFI)]));
    bench.acknowledge(&again, Status::ACCEPTED);
    bench.now = at(5000);
    bench.link(CELL, true);
    assert!(updates(&bench.advertise(CELL, "2001:db8:2::/64")).is_empty(), "the worse one is not registered");
}

/// The flow options of an update, as an acknowledgement would contain them.
fn flows(update: &Update) -> Vec<FlowIdentification> {
    let flow = |option: &MobilityOption| match option {
        MobilityOption::FlowIdentification(flow) => Some(FlowIdentification { selector: None, ..flow.clone() }),
        _ => None,
    };
    update.message.options.iter().filter_map(flow).collect()
}

fn answer_flows(bench: &mut TestBed, update: &Update, flows: Vec<FlowIdentification>) -> Vec<String> {
    let identifiers = update.bid_options().into_iter().map(MobilityOption::BindingIdentifier);
    let options = identifiers.chain(flows.into_iter().map(MobilityOption::FlowIdentification)).collect();
    let outputs = bench.acknowledge_with(update, Status::ACCEPTED, AckFlags::ROUTER, update.message.sequence, options);
    let notice = |report: &&Report| match report {
        Report::Host(HostReport::Notice { text }) => Some(text.clone()),
        _ => None,
    };
    reports(&outputs).iter().filter_map(notice).collect()
}

#[test]
fn flow_bindings_are_requested_for_registered_uplinks() {
    let mut config = sharing(LoadSharing::Standby);
    let flow = |id, bid| FlowRule {
        id,
        priority: id,
        selector: FlowSelector::default(),
        ingress: None,
        bid: Bid(bid),
        replication: None,
    };
    config.flows = vec![flow(1, 1), flow(2, 2)];
    let mut bench = TestBed::new(config.clone());
    bench.link(WIFI, true);
    let alone = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    assert_eq!(flows(&alone).iter().map(|flow| flow.fid.0).collect::<Vec<_>>(), [1], "RFC 6089 §5.2.2.1");
    assert!(answer_flows(&mut bench, &alone, flows(&alone)).is_empty());
    bench.now = at(2000);
    bench.link(CELL, true);
    let both = update(&bench.advertise(CELL, "2001:db8:2::/64"));
    let mut answered_flows = flows(&both);
    assert_eq!(answered_flows.len(), 2);
    answered_flows[1].status = FlowIdentification::PROHIBITED;
    let notices = answer_flows(&mut bench, &both, answered_flows);
    assert_eq!(notices, ["the home agent rejects flow 2: status 128 (administratively prohibited)"], "RFC 6089 §5.2.6");
    for (answered, notices) in [
        (1, &["the home agent rejects flow 2: status 129 (rejected)"][..]),
        (0, &["the home agent 2001:db8::1 does not support flow bindings (RFC 6089)"]),
        (0, &[]),
    ] {
        bench.now = bench.now + Duration::from_secs(5);
        let update = update(
            &bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::ReloadFlows(config.flows.clone())))),
        );
        let in_acknowledgement = flows(&update).into_iter().take(answered).collect();
        assert_eq!(answer_flows(&mut bench, &update, in_acknowledgement), notices, "{answered} answered");
    }
    for flows in [Vec::new(), config.flows] {
        bench.now = bench.now + Duration::from_secs(5);
        let update =
            update(&bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::ReloadFlows(flows)))));
        assert!(answer_flows(&mut bench, &update, Vec::new()).is_empty(), "reported before");
    }
}

#[test]
fn load_sharing_uses_weights_and_flow_bindings_their_bid() {
    let mut config = sharing(LoadSharing::Weighted);
    config.uplinks[0].weight = 3;
    config.uplinks[1].priority = 1;
    let selector =
        FlowSelector { source: Some(net("2001:db8:c::/48")), source_ports: Some((80, 80)), ..Default::default() };
    config.flows = vec![FlowRule { id: 7, priority: 1, selector, ingress: None, bid: Bid(2), replication: None }];
    let mut bench = both(config.clone());
    assert_eq!(bench.paths(), [(ip(ON_WIFI), 3), (ip(ON_CELL), 1)]);
    let flow = &bench.tunnel().unwrap().flows[0];
    assert_eq!((flow.bid, flow.selector.destination), (Bid(2), Some(net("2001:db8:c::/48"))));
    assert_eq!((flow.selector.destination_ports, flow.selector.source_ports), (Some((80, 80)), None));

    bench.now = at(9000);
    config.flows[0].bid = Bid(1);
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::ReloadFlows(config.flows))));
    let options = update(&outputs).message.options;
    let flow = options.iter().find_map(|option| match option {
        MobilityOption::FlowIdentification(FlowIdentification { fid, bids, .. }) => Some((fid.0, bids.clone())),
        _ => None,
    });
    assert_eq!(flow, Some((7, vec![Bid(1)])));
}

/// The probes among `outputs`: identifier, sequence, whether through the tunnel.
pub(super) fn probes(outputs: &[Output]) -> Vec<(Echo, bool)> {
    let mut found = Vec::new();
    for transmit in transmits(outputs) {
        let outer = Datagram::parse(&transmit.bytes).unwrap();
        let tunnelled = outer.protocol == protocol::IPV6;
        let inner = if tunnelled { Datagram::parse(outer.payload).unwrap() } else { outer };
        // Probes of size are another matter.
        if let Ok(icmp6::Message::EchoRequest(echo)) = icmp6::Message::parse(&inner)
            && echo.data.len() == 8
        {
            found.push((echo, tunnelled));
        }
    }
    found
}

impl TestBed {
    /// Advances the time to `millis`; the home agent answers the probes of the uplinks in `alive`.
    pub(super) fn probe(&mut self, millis: u64, alive: &[u16]) -> Vec<Output> {
        self.probe_if(millis, |echo, _| alive.contains(&echo.identifier), |_| true)
    }

    /// The same; the home agent answers the echo requests, tunnelled or not, and the updates that are selected.
    pub(super) fn probe_if(
        &mut self,
        millis: u64,
        answered: impl Fn(&Echo, bool) -> bool,
        accepted: impl Fn(&Update) -> bool,
    ) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some(next) = self.router.deadline().filter(|next| *next <= at(millis)) {
            self.now = self.now.max(next);
            let mut round = self.feed(Input::Tick);
            for (echo, _) in probes(&round).into_iter().filter(|(echo, tunnelled)| answered(echo, *tunnelled)) {
                let (home_agent, home) = (ip("2001:db8::1"), ip("2001:db8::100"));
                let reply = icmp6::Message::EchoReply(echo).emit(home_agent, home);
                let bytes = ip6::emit(&Header::new(home_agent, home), protocol::ICMPV6, &reply);
                round.extend(self.feed(Input::Packet(Packet { link: LAN, sender: None, bytes })));
            }
            for update in updates(&round).into_iter().filter(&accepted) {
                outputs.extend(self.acknowledge(&update, Status::ACCEPTED));
            }
            outputs.extend(round);
        }
        self.now = at(millis);
        outputs
    }
}

/// A home agent that sends all packets of a tunnel by the preferred path answers no probe at all when that path fails.
#[test]
fn uplink_that_reaches_the_home_agent_outside_the_tunnel_takes_over() {
    let mut config = sharing(LoadSharing::Standby);
    config.probe = Some(ProbeConfig::default());
    let mut bench = both(config);
    bench.probe(4000, &[1, 2]);
    let reaches = |echo: &Echo, tunnelled: bool| echo.identifier == 2 && !tunnelled;
    let outputs = bench.probe_if(5500, reaches, |update| update.via == Via::Link(CELL));
    assert_eq!(updates(&outputs).last().unwrap().care_of(), [ip(ON_CELL)]);
    assert_eq!(bench.paths()[0], (ip(ON_CELL), 1));
    assert!(updates(&outputs).len() <= 4, "{:#?}", updates(&outputs));
    // The preferred path works again.
    bench.probe(8000, &[1, 2]);
    assert_eq!(bench.paths()[0], (ip(ON_WIFI), 1));
}

#[test]
fn black_hole_is_left_within_a_second_and_reused() {
    for mode in [LoadSharing::Single, LoadSharing::Standby] {
        let mut config = sharing(mode);
        config.probe = Some(ProbeConfig::default());
        let mut bench = both(config);
        let outputs = bench.probe(4000, &[1, 2]);
        assert!(probes(&outputs).iter().any(|(echo, tunnelled)| echo.identifier == 1 && *tunnelled));
        assert_eq!(probes(&outputs).iter().any(|(_, tunnelled)| !*tunnelled), mode == LoadSharing::Single);
        assert_eq!(bench.paths()[0], (ip(ON_WIFI), 1));

        let outputs = bench.probe(4900, &[2]);
        assert_eq!(updates(&outputs).len(), 1);
        assert_eq!(bench.paths()[0], (ip(ON_CELL), 1));
        let down =
            Report::Nemo(NemoReport::PathDown { bid: Bid(1), care_of: ip(ON_WIFI), why: LossReason::ProbesLost });
        assert!(reports(&outputs).contains(&&down));

        bench.probe(10_000, &[2]);
        assert_eq!(bench.paths(), [(ip(ON_CELL), 1)]);
        let outputs = bench.probe(12_000, &[1, 2]);
        assert!(reports(&outputs).contains(&&Report::Nemo(NemoReport::PathUp { bid: Bid(1), care_of: ip(ON_WIFI) })));
        assert_eq!(bench.paths()[0], (ip(ON_WIFI), 1), "{mode:?}");
    }
}

#[test]
fn all_paths_silent_keeps_the_paths() {
    let mut config = sharing(LoadSharing::Standby);
    config.probe = Some(ProbeConfig::default());
    let mut bench = both(config);
    bench.probe(4000, &[1, 2]);
    let outputs = bench.probe(8000, &[]);
    assert_eq!(bench.paths()[0], (ip(ON_WIFI), 1));
    assert!(updates(&outputs).len() <= 2, "{:#?}", updates(&outputs));
}

#[test]
fn echo_reply_without_cookie_is_ignored() {
    let mut config = config();
    config.probe = Some(ProbeConfig::default());
    let mut bench = TestBed::new(config);
    bench.attach(WIFI, "2001:db8:1::/64");
    let outputs = bench.wait(2000);
    assert!(reports(&outputs).iter().any(|report| report.name() == "path_down"));
    for sequence in 0..64 {
        let echo = Echo { identifier: 1, sequence, data: vec![0; 8] };
        let (home_agent, home) = (ip("2001:db8::1"), ip("2001:db8::100"));
        let reply = icmp6::Message::EchoReply(echo).emit(home_agent, home);
        let bytes = ip6::emit(&Header::new(home_agent, home), protocol::ICMPV6, &reply);
        let outputs = bench.feed(Input::Packet(Packet { link: LAN, sender: None, bytes }));
        assert!(reports(&outputs).is_empty());
    }
}

#[test]
fn first_probe_leaves_after_its_address_is_put() {
    for detection in [DadMode::Wait, DadMode::Optimistic] {
        let probe = Some(ProbeConfig::default());
        let mut bench = TestBed::new(MobileRouterConfig { duplicate_detection: detection, probe, ..config() });
        bench.link(WIFI, true);
        let mut outputs = bench.advertise(WIFI, "2001:db8:1::/64");
        outputs.extend(bench.wait(1100));
        let first = position(&outputs, "send 58 2001:db8::1");
        assert!(position(&outputs, "put Address(LinkId(2)") < first);
        assert!(position(&outputs, "send 135") < first, "nor before the update");
    }
}
