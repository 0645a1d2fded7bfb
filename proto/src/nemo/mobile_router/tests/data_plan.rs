//! Data plans: counting over restarts and periods, and uplinks whose plan is used up.

use super::mcoa::{ON_CELL, ON_WIFI, both, sharing};
use super::*;
use crate::contract::command::MobileRouterCommand;
use crate::contract::config::flow::{FlowRule, FlowSelector};
use crate::contract::config::nemo::{BeyondCap, DataPlan, PlanPeriod, ProbeConfig};
use crate::contract::input::{LinkTraffic, TrafficCount};
use crate::contract::item::{JournalKey, PolicyRule, UsageRecord};
use crate::contract::view::{LinkState, UsageView};

/// 2026-09-21T14:13:20Z, the clock of the bench at its begin.
const BEGIN_UNIX: u64 = 1_790_000_000;
/// 2026-09-01 and 2026-10-01, 00:00Z.
const SEPTEMBER: u64 = 1_788_220_800;
const OCTOBER: u64 = 1_790_812_800;

/// With this plan on the first uplink.
fn planned(mut config: MobileRouterConfig, cap: Option<u64>, beyond: BeyondCap) -> MobileRouterConfig {
    config.uplinks[0].plan = Some(DataPlan { cap, beyond, period: PlanPeriod::Month, starts: 1 });
    config
}

fn queries(outputs: &[Output]) -> Vec<LinkId> {
    let queried = |output: &Output| if let Output::LinkTrafficQuery(link) = output { Some(*link) } else { None };
    outputs.iter().filter_map(queried).collect()
}

impl TestBed {
    /// The host's answer to a query: octets sent and received since the interface was created.
    fn traffic(&mut self, link: LinkId, tx: u64, rx: u64) -> Vec<Output> {
        let count = |octets| TrafficCount { packets: 0, octets };
        self.feed(Input::LinkTraffic(LinkTraffic { link, tx: count(tx), rx: count(rx) }))
    }

    fn usage(&self) -> UsageView {
        self.link_view().usage.unwrap()
    }

    fn link_view(&self) -> crate::contract::view::LinkView {
        let mut view = View::default();
        self.router.view(self.now, &mut view);
        view.links.into_iter().find(|row| row.name == "wifi").unwrap()
    }

    fn usage_record(&self) -> Option<UsageRecord> {
        match self.plan.find(&Key::JournalRecord(JournalKey::Usage(Bid(1))))? {
            Item::JournalRecord(JournalRecord::Usage(record)) => Some(record.clone()),
            _ => None,
        }
    }

    fn restore(&mut self, record: UsageRecord) {
        let records = vec![JournalRecord::Usage(record)];
        self.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
    }

    fn set_clock(&mut self, unix: u64) -> Vec<Output> {
        self.feed(Input::Clock(Clock { unix_micros: unix * 1_000_000 }))
    }

    /// The table of packets from the care-of address of the first uplink.
    fn way_out(&self) -> Option<RouteTable> {
        self.plan.iter().find_map(|(_, item)| match item {
            Item::Rule(PolicyRule { priority: 1200, source, table, .. }) if *source == Prefix::host(ip(ON_WIFI)) => {
                Some(*table)
            }
            _ => None,
        })
    }
}

const UPLINK_TABLE: RouteTable = RouteTable(6_275_001);
const UNREACHABLE: RouteTable = RouteTable(6_274_999);

pub(super) fn names(outputs: &[Output]) -> Vec<&'static str> {
    reports(outputs).iter().map(|report| report.name()).collect()
}

#[test]
fn an_uplink_without_a_plan_is_not_counted() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    assert_eq!(queries(&bench.wait(60_000)), []);
    assert_eq!(bench.link_view().usage, None);
}

#[test]
fn traffic_is_counted_from_the_first_answer_and_read_more_often_near_the_cap() {
    let mut bench = TestBed::new(planned(config(), Some(100_000_000), BeyondCap::Backup));
    assert_eq!(queries(&bench.link(WIFI, true)), [WIFI]);
    bench.traffic(WIFI, 7000, 9000);
    let usage = bench.usage();
    assert_eq!((usage.tx, usage.rx, usage.since_unix, usage.cap), (0, 0, SEPTEMBER, Some(100_000_000)));
    assert_eq!(queries(&bench.wait(9_000)).len(), 1, "100 Mbit/s use the rest up in 8 s");
    bench.traffic(WIFI, 1_007_000, 9_009_000);
    assert_eq!((bench.usage().tx, bench.usage().rx), (1_000_000, 9_000_000));
    bench.wait(10_000);
    bench.traffic(WIFI, 1_007_000, 88_009_000);
    assert_eq!(queries(&bench.wait(15_500)).len(), 5, "each second");
    assert_eq!(bench.usage().total_rx, 88_000_000);
}

#[test]
fn the_count_outlives_restarts_of_the_daemon_and_of_the_machine() {
    let limited = || planned(config(), None, BeyondCap::Backup);
    let mut bench = TestBed::new(limited());
    bench.link(WIFI, true);
    bench.traffic(WIFI, 1000, 1000);
    bench.wait(10_000);
    bench.traffic(WIFI, 5_001_000, 2000);
    bench.wait(59_000);
    assert_eq!(bench.usage_record(), None, "the disk is written at most once a minute");
    bench.wait(61_000);
    assert_eq!(bench.usage_record().unwrap().tx, 5_000_000);
    bench.traffic(WIFI, 5_001_500, 2000);
    bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop)));
    let record = bench.usage_record().unwrap();
    assert_eq!((record.tx, record.rx, record.period_start_unix), (5_000_500, 1000, SEPTEMBER));

    // Packets travel on while no daemon runs.
    let mut bench = TestBed::new(limited());
    bench.restore(record.clone());
    assert_eq!(bench.usage().tx, 5_000_500);
    assert_eq!(queries(&bench.link(WIFI, true)), [WIFI]);
    bench.traffic(WIFI, 6_001_500, 2000);
    assert_eq!((bench.usage().tx, bench.usage().total_rx), (6_000_500, 1000));

    // After a restart of the machine the counters begin at 0.
    let mut bench = TestBed::new(limited());
    bench.restore(record);
    bench.link(WIFI, true);
    bench.traffic(WIFI, 700, 900);
    assert_eq!((bench.usage().tx, bench.usage().rx), (5_001_200, 1900));
}

#[test]
fn only_a_later_period_by_a_clock_that_was_set_begins_a_new_count() {
    let mut bench = TestBed::new(planned(config(), None, BeyondCap::Backup));
    bench.link(WIFI, true);
    bench.traffic(WIFI, 0, 0);
    bench.traffic(WIFI, 500, 0);
    bench.set_clock(60);
    assert_eq!((bench.usage().tx, bench.usage().since_unix), (500, SEPTEMBER), "1970: not set yet");
    bench.set_clock(OCTOBER - 20);
    assert_eq!(bench.usage().tx, 500);
    bench.wait(19_000);
    assert_eq!(bench.usage().tx, 500);
    bench.wait(30_500);
    assert_eq!((bench.usage().tx, bench.usage().since_unix, bench.usage().total_tx), (0, OCTOBER, 500));
    bench.traffic(WIFI, 800, 0);
    bench.set_clock(BEGIN_UNIX);
    bench.wait(1_000_000);
    assert_eq!((bench.usage().tx, bench.usage().since_unix), (300, OCTOBER), "set back: the count stays");
    bench.wait(3_700_000);
    assert_eq!((bench.usage().tx, bench.usage().since_unix), (300, SEPTEMBER), "and the clock is believed in time");
    bench.set_clock(OCTOBER);
    assert_eq!((bench.usage().tx, bench.usage().since_unix), (0, OCTOBER));
}

#[test]
fn never_ends_the_use_of_an_uplink_until_the_next_period() {
    let mut config = planned(sharing(LoadSharing::Standby), Some(1_000_000), BeyondCap::Never);
    config.probe = Some(ProbeConfig::default());
    let mut bench = both(config);
    assert_eq!(bench.way_out(), Some(UPLINK_TABLE));
    bench.traffic(WIFI, 0, 0);
    let outputs = bench.traffic(WIFI, 500_000, 500_000);
    assert!(names(&outputs).contains(&"plan_exhausted"), "{outputs:#?}");
    let update = update(&outputs);
    assert_eq!((update.via, update.care_of()), (Via::Link(CELL), vec![ip(ON_CELL)]));
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1), (ip(ON_WIFI), 0)], "at once, and the former path still receives");
    assert_eq!(bench.way_out(), Some(UPLINK_TABLE), "until the tunnel has left it");
    assert_eq!(bench.link_view().state, LinkState::Exhausted);
    assert!(bench.usage().exhausted && bench.usage_record().is_some_and(|record| record.tx == 500_000));
    bench.acknowledge(&update, Status::ACCEPTED);
    let outputs = bench.wait(25_000);
    assert_eq!((bench.paths(), bench.way_out()), (vec![(ip(ON_CELL), 1)], Some(UNREACHABLE)));
    let global = |transmit: &&Transmit| transmit.via == Via::Link(WIFI) && !is_nd(transmit);
    assert_eq!(transmits(&outputs).into_iter().filter(global).count(), 0, "not even a probe");

    let outputs = bench.set_clock(OCTOBER);
    assert!(names(&outputs).contains(&"plan_renewed"), "{outputs:#?}");
    assert_eq!(super::update(&outputs).care_of().first(), Some(&ip(ON_WIFI)));
    assert_eq!(bench.way_out(), Some(UPLINK_TABLE));
}

/// Whether it is neighbour discovery.
fn is_nd(transmit: &Transmit) -> bool {
    let datagram = Datagram::parse(&transmit.bytes).unwrap();
    let on_link = datagram.source.is_unicast_link_local() || datagram.source.is_unspecified();
    datagram.protocol == protocol::ICMPV6 && on_link
}

#[test]
fn never_on_the_last_uplink_deregisters_and_stays_silent() {
    let mut bench = TestBed::new(planned(config(), Some(1_000_000), BeyondCap::Never));
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.traffic(WIFI, 0, 0);
    bench.now = at(1000);
    let outputs = bench.traffic(WIFI, 400_000, 700_000);
    let first = update(&outputs);
    assert_eq!((first.message.lifetime_units, first.source, first.via), (0, ip(ON_WIFI), Via::Link(WIFI)));
    assert!(names(&outputs).contains(&"unbound"));
    assert_eq!(bench.paths(), [], "no packet enters the tunnel");
    assert_eq!(bench.way_out(), Some(UPLINK_TABLE), "for the repetitions");
    let repeated = updates(&bench.wait(4000));
    assert_eq!(repeated.len(), 2);
    assert!(repeated.iter().all(|update| update.message.lifetime_units == 0));
    assert_eq!(bench.way_out(), Some(UNREACHABLE));
    bench.advertise(WIFI, "2001:db8:1::/64");
    let outputs = bench.wait(1_000_000);
    assert!(transmits(&outputs).into_iter().all(is_nd), "{:#?}", report_kinds(&outputs));

    let mut raised = bench.router.config.clone();
    raised.uplinks[0].plan = raised.uplinks[0].plan.map(|plan| DataPlan { cap: Some(9_000_000), ..plan });
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(raised)))));
    assert!(names(&outputs).contains(&"plan_renewed"), "{outputs:#?}");
    assert_eq!(update(&outputs).care_of(), [ip(ON_WIFI)]);
    assert_eq!(bench.way_out(), Some(UPLINK_TABLE));
}

#[test]
fn a_plan_that_was_used_up_while_no_daemon_ran_ends_the_former_binding() {
    let mut bench = TestBed::new(planned(config(), Some(1_000_000), BeyondCap::Never));
    let record = UsageRecord {
        bid: Bid(1),
        interface: "wifi".to_owned(),
        period_start_unix: SEPTEMBER,
        tx: 900_000,
        rx: 0,
        total_tx: 900_000,
        total_rx: 0,
        link: WIFI,
        link_tx: 900_000,
        link_rx: 0,
    };
    bench.restore(UsageRecord { tx: 1_000_000, ..record });
    bench.link(WIFI, true);
    let first = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    assert_eq!((first.message.lifetime_units, first.source), (0, ip(ON_WIFI)));
    assert!(bench.router.takeover_complete() && bench.paths().is_empty());
}

#[test]
fn a_hostile_counter_does_not_overflow() {
    let mut bench = TestBed::new(planned(config(), Some(u64::MAX), BeyondCap::Never));
    bench.attach(WIFI, "2001:db8:1::/64");
    for octets in [0, u64::MAX, 1, u64::MAX, 0, u64::MAX] {
        bench.traffic(WIFI, octets, octets);
        bench.wait(bench.now.as_micros() / 1000 + 11_000);
    }
    assert!(bench.usage().exhausted);
    assert!(matches!(bench.usage(), UsageView { tx: u64::MAX, rx: u64::MAX, .. }));
}

#[test]
fn backup_leaves_an_uplink_to_others_and_uses_it_if_there_is_none() {
    let mut config = planned(sharing(LoadSharing::Standby), Some(1_000_000), BeyondCap::Backup);
    config.flows = vec![FlowRule {
        id: 1,
        priority: 1,
        selector: FlowSelector::default(),
        ingress: None,
        bid: Bid(1),
        replication: None,
    }];
    let mut bench = both(config);
    assert_eq!(bench.tunnel().unwrap().flows.len(), 1);
    bench.traffic(WIFI, 0, 0);
    let outputs = bench.traffic(WIFI, 0, 1_000_000);
    assert!(names(&outputs).contains(&"plan_exhausted"), "{outputs:#?}");
    let moved = update(&outputs);
    let priorities: Vec<_> = moved.bid_options().iter().map(|option| (option.bid, option.priority)).collect();
    assert_eq!(priorities, [(Bid(2), 2), (Bid(1), 127)]);
    assert_eq!(flow_options(&moved), 0);
    bench.acknowledge(&moved, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1), (ip(ON_WIFI), 0)]);
    assert_eq!(bench.tunnel().unwrap().flows, []);
    assert_eq!(bench.way_out(), Some(UPLINK_TABLE));

    bench.now = at(5000);
    let outputs = bench.link(CELL, false);
    assert_eq!(update(&outputs).care_of(), [ip(ON_WIFI)]);
    assert_eq!((bench.paths(), flow_options(&update(&outputs))), (vec![(ip(ON_WIFI), 1)], 1));
}

fn flow_options(update: &Update) -> usize {
    update.message.options.iter().filter(|option| matches!(option, MobilityOption::FlowIdentification(_))).count()
}

/// The uplinks that are probed.
fn probed(outputs: &[Output]) -> Vec<LinkId> {
    let outer = |transmit: &&Transmit| Datagram::parse(&transmit.bytes).unwrap().protocol == protocol::IPV6;
    let link = |transmit: &Transmit| if let Via::Link(link) = transmit.via { Some(link) } else { None };
    transmits(outputs).into_iter().filter(outer).filter_map(link).collect()
}

#[test]
fn a_metered_standby_uplink_is_probed_only_when_it_may_be_needed() {
    let mut config = sharing(LoadSharing::Standby);
    config.probe = Some(ProbeConfig::default());
    config.uplinks[1].metered = true;
    let mut bench = both(config);
    // The path in use answers each probe.
    for tenth in 0..100 {
        let outputs = bench.wait(2000 + tenth * 100);
        let answers = echo_replies(&outputs);
        assert!(tenth < 3 || !probed(&outputs).contains(&CELL), "{tenth}");
        answers.into_iter().for_each(|answer| drop(bench.feed(answer)));
    }
    assert!(bench.router.is_up_by_probes(0) && bench.router.is_up_by_probes(1));
    // Now it does not.
    let since = bench.now.as_micros() / 1000;
    let outputs = bench.wait(since + 590);
    assert!(probed(&outputs).contains(&CELL), "asked before it is needed");
    assert!(bench.router.is_up_by_probes(0), "the other path is not given up yet");
}

impl MobileRouter {
    fn is_up_by_probes(&self, index: usize) -> bool {
        !self.uplinks[index].prober.is_silent()
    }
}

/// The home agent's answers to the probes among `outputs`.
fn echo_replies(outputs: &[Output]) -> Vec<Input> {
    let mut answers = Vec::new();
    for transmit in transmits(outputs) {
        let datagram = Datagram::parse(&transmit.bytes).unwrap();
        let inner = match datagram.protocol {
            protocol::IPV6 => Datagram::parse(datagram.payload).unwrap(),
            _ => datagram,
        };
        if let Ok(icmp6::Message::EchoRequest(echo)) = icmp6::Message::parse(&inner) {
            let (source, destination) = (inner.destination, inner.source);
            let message = icmp6::Message::EchoReply(echo).emit(source, destination);
            let bytes = ip6::emit(&Header::new(source, destination), protocol::ICMPV6, &message);
            answers.push(Input::Packet(Packet { link: WIFI, sender: Some(ROUTER_MAC), bytes }));
        }
    }
    answers
}
