//! Several care-of addresses and flows bound to them.

use super::bench::*;
use crate::contract::command::LifecycleCommand;
use crate::contract::config::nemo::HomeAgentConfig;
use crate::contract::report::NemoReport;
use crate::{Clock, Command, Input, Output, Report};
use core::time::Duration;
use roam6_wire::mobility::{
    BindingIdentifier, Capabilities, CareOfField, FieldRange, FlowIdentification, MobilityOption, Selector, Status,
    TrafficSelector, UpdateFlags,
};
use roam6_wire::{Bid, Fid};

fn bid(bid: u16, priority: u8, care_of: &str) -> MobilityOption {
    let care_of = address(care_of);
    let care_of = if care_of.is_unspecified() { CareOfField::None } else { CareOfField::V6(care_of) };
    let simultaneous_home = false;
    MobilityOption::BindingIdentifier(BindingIdentifier {
        bid: Bid(bid),
        status: Status::ACCEPTED,
        simultaneous_home,
        priority,
        care_of,
    })
}

fn flow(fid: u16, to: &[u16]) -> FlowIdentification {
    let port = Some(FieldRange { first: 443, last: 443 });
    let selector = Selector {
        source: None,
        destination: None,
        spi: None,
        flow_label: None,
        source_port: port,
        destination_port: None,
        traffic_class: None,
        protocol: Some(FieldRange { first: 6, last: 6 }),
    };
    FlowIdentification {
        fid: Fid(fid),
        priority: fid,
        status: 0,
        bids: to.iter().map(|bid| Bid(*bid)).collect(),
        selector: Some(TrafficSelector::V6(selector)),
    }
}

fn both(sequence: u16, overwrite: bool) -> Update {
    let update =
        Update::new(sequence, "2001:db8:1::100").with(bid(1, 2, "2001:db8:1::100")).with(bid(2, 1, "2001:db8:2::100"));
    let flags = if overwrite { update.flags | UpdateFlags::OVERWRITE } else { update.flags };
    Update { flags, ..update }
}

fn paths(bench: &TestBed) -> Vec<(u16, u16)> {
    bench.tunnel().unwrap().paths.iter().map(|path| (path.bid.0, path.weight)).collect()
}

fn bid_statuses(outputs: &[Output]) -> Vec<(u16, u8)> {
    let options = acknowledgement(outputs).options;
    options
        .iter()
        .filter_map(|option| match option {
            MobilityOption::BindingIdentifier(option) => Some((option.bid.0, option.status.0)),
            _ => None,
        })
        .collect()
}

fn flow_statuses(outputs: &[Output]) -> Vec<(u16, u8)> {
    let options = acknowledgement(outputs).options;
    options
        .iter()
        .filter_map(|option| match option {
            MobilityOption::FlowIdentification(option) => Some((option.fid.0, option.status)),
            _ => None,
        })
        .collect()
}

#[test]
fn bulk_registration_uses_bid_priority() {
    let mut bench = TestBed::new(config());
    let outputs = bench.send(&both(1, true));
    assert_eq!((status(&outputs), bid_statuses(&outputs)), (0, vec![(1, 0), (2, 0)]));
    assert_eq!(paths(&bench), [(2, 1), (1, 0)]);
    let equal = Update::new(2, "2001:db8:1::100").with(bid(1, 1, "::"));
    assert_eq!(status(&bench.send(&equal)), 0);
    assert_eq!(paths(&bench), [(1, 1), (2, 1)], "equal priorities share");
}

#[test]
fn care_of_address_is_deregistered_by_bid() {
    let mut bench = TestBed::new(config());
    bench.send(&both(1, true));
    let outputs = bench.send(&Update::new(2, "2001:db8:1::100").with(bid(2, 1, "::")).lifetime(0));
    assert_eq!((status(&outputs), acknowledgement(&outputs).lifetime_units), (0, 0));
    assert_eq!(paths(&bench), [(1, 1), (2, 0)], "packets in transit are accepted");
    bench.advance(Duration::from_secs(5));
    assert_eq!(paths(&bench), [(1, 1)]);
    assert_eq!(status(&bench.send(&Update::new(3, "2001:db8:1::100").with(bid(2, 1, "::")).lifetime(0))), 133);
    let last = bench.send(&Update::new(4, "2001:db8:1::100").with(bid(1, 1, "::")).lifetime(0));
    assert!(reports(&last).iter().any(|report| matches!(report, Report::Nemo(NemoReport::Deregistered { .. }))));
}

#[test]
fn bids_have_separate_lifetimes() {
    let mut bench = TestBed::new(config());
    bench.send(&both(1, true));
    bench.advance(Duration::from_secs(30));
    bench.send(&Update::new(2, "2001:db8:1::100").with(bid(1, 2, "::")));
    bench.advance(Duration::from_secs(30));
    assert_eq!(paths(&bench), [(1, 1)]);
    bench.advance(Duration::from_secs(30));
    assert!(bench.installed().is_empty());
}

#[test]
fn bid_lifetimes_survive_a_crash() {
    let mut before = TestBed::new(config());
    before.send(&both(1, true));
    before.advance(Duration::from_secs(30));
    before.send(&Update::new(2, "2001:db8:1::100").with(bid(1, 2, "::")));
    let records = journal(&before);
    let restart = |seconds: u64| {
        let mut after = TestBed::new(config());
        after.now = before.now + Duration::from_secs(seconds);
        let unix_micros = 1_767_225_600_000_000 + after.now.as_micros();
        after.feed(Input::Clock(Clock { unix_micros }));
        after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records.clone()))));
        after
    };
    let mut after = restart(20);
    assert_eq!(paths(&after), [(2, 1), (1, 0)]);
    after.advance(Duration::from_secs(10));
    assert_eq!(paths(&after), [(1, 1)], "one ends when it would have");
    assert_eq!(paths(&restart(40)), [(1, 1)], "one has ended in between");
    assert!(restart(60).installed().is_empty());
}

#[test]
fn mcoa_statuses_of_update_and_of_one_bid() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    assert_eq!(status(&bench.send(&both(2, false))), 165);
    assert_eq!(status(&bench.send(&both(3, true))), 0);
    let mixed = bench.send(&Update::new(4, "2001:db8:1::100").with(bid(1, 1, "::")).with(bid(9, 1, "::")));
    assert_eq!((status(&mixed), bid_statuses(&mixed)), (4, vec![(1, 0), (9, 167)]));
    let unknown = bench.send(&Update::new(5, "2001:db8:1::100").with(bid(9, 1, "::")));
    assert_eq!((status(&unknown), bid_statuses(&unknown)), (167, vec![(9, 0)]));
    let misshapen = MobilityOption::Invalid { kind: 35, body: vec![0, 3, 0, 0, 1, 2] };
    assert_eq!(status(&bench.send(&Update::new(6, "2001:db8:1::100").with(misshapen))), 164);
    let home = MobilityOption::BindingIdentifier(BindingIdentifier {
        bid: Bid(3),
        status: Status::ACCEPTED,
        simultaneous_home: true,
        priority: 1,
        care_of: CareOfField::V6(address("2001:db8::100")),
    });
    assert_eq!(status(&bench.send(&Update::new(7, "2001:db8:1::100").with(home))), 169);
    assert_eq!(paths(&bench).len(), 2, "rejected updates change no binding");
    let plain = bench.send(&Update::new(8, "2001:db8:3::100"));
    assert_eq!((status(&plain), paths(&bench)[0]), (0, (0, 1)));

    let mut single = TestBed::new(HomeAgentConfig { multiple_care_of: false, ..config() });
    assert_eq!(status(&single.send(&both(1, true))), 166);
}

#[test]
fn flow_bindings_are_added_kept_and_removed() {
    let mut bench = TestBed::new(config());
    let with = |sequence, flow| both(sequence, false).with(MobilityOption::FlowIdentification(flow));
    let outputs = bench.send(&with(1, flow(5, &[1])));
    assert_eq!(flow_statuses(&outputs), [(5, 0)]);
    let rule = &bench.tunnel().unwrap().flows[0];
    assert_eq!((rule.bid, rule.selector.protocol, rule.selector.source_ports), (Bid(1), Some(6), Some((443, 443))));

    let kept = bench.send(&both(2, false).with(MobilityOption::FlowSummary(vec![Fid(5), Fid(6)])));
    assert_eq!(flow_statuses(&kept), [(6, 132)]);
    assert_eq!(bench.tunnel().unwrap().flows.len(), 1);
    let moved = FlowIdentification { selector: None, ..flow(5, &[2]) };
    assert_eq!(flow_statuses(&bench.send(&with(3, moved))), [(5, 0)]);
    assert_eq!(bench.tunnel().unwrap().flows[0].bid, Bid(2));
    bench.send(&both(4, false));
    assert!(bench.tunnel().unwrap().flows.is_empty(), "no update lists them");
}

#[test]
fn flow_identification_statuses() {
    let mut bench = TestBed::new(config());
    let mut sequence = 0;
    let mut ask = |flow: FlowIdentification| {
        sequence += 1;
        let outputs = bench.send(&both(sequence, true).with(MobilityOption::FlowIdentification(flow)));
        assert_eq!(status(&outputs), 0, "flows do not touch the binding");
        flow_statuses(&outputs)[0].1
    };
    assert_eq!(ask(flow(1, &[7])), FlowIdentification::BID_NOT_FOUND);
    assert_eq!(ask(flow(1, &[])), FlowIdentification::MALFORMED);
    assert_eq!(ask(flow(0, &[1])), FlowIdentification::MALFORMED);
    assert_eq!(ask(flow(1, &[1, 2])), FlowIdentification::REJECTED);
    assert_eq!(ask(FlowIdentification { selector: None, ..flow(1, &[1]) }), FlowIdentification::MALFORMED);
    let unknown = TrafficSelector::Unknown { format: 9, body: vec![] };
    assert_eq!(
        ask(FlowIdentification { selector: Some(unknown), ..flow(1, &[1]) }),
        FlowIdentification::SELECTOR_NOT_SUPPORTED
    );
    let twice = both(100, true)
        .with(MobilityOption::FlowIdentification(flow(1, &[1])))
        .with(MobilityOption::FlowIdentification(flow(1, &[2])))
        .with(MobilityOption::FlowIdentification(flow(2, &[2])));
    let outputs = bench.send(&twice);
    assert_eq!(flow_statuses(&outputs), [(1, 129), (1, 129), (2, 129)], "all of them (RFC 6089 §5.3.2)");
    assert!(bench.tunnel().unwrap().flows.is_empty());
}

#[test]
fn flow_with_two_bindings_is_replicated_if_both_ends_eliminate_copies() {
    let ask = |replication, flags: Option<u8>, bids: &[u16]| {
        let mut bench = TestBed::new(HomeAgentConfig { replication, ..config() });
        let capabilities = flags.map(|flags| Capabilities { flags, encapsulations: Vec::new() });
        let update = both(1, true).with(MobilityOption::FlowIdentification(flow(1, bids)));
        let update =
            capabilities.into_iter().fold(update, |update, own| update.with(MobilityOption::Capabilities(own)));
        let outputs = bench.send(&update);
        let named = acknowledgement(&outputs).options.iter().find_map(|option| match option {
            MobilityOption::Capabilities(own) => Some(own.flags & Capabilities::ELIMINATION),
            _ => None,
        });
        let paths = bench.tunnel().unwrap().flows.first().map(|flow| (flow.bid.0, flow.replica.map(|bid| bid.0)));
        (flow_statuses(&outputs)[0].1, named, paths)
    };
    let able = Some(Capabilities::ELIMINATION);
    assert_eq!(ask(true, able, &[1, 2]), (0, Some(Capabilities::ELIMINATION), Some((1, Some(2)))));
    assert_eq!(ask(true, able, &[2]), (0, Some(Capabilities::ELIMINATION), Some((2, None))));
    let refused = FlowIdentification::REJECTED;
    assert_eq!(ask(false, able, &[1, 2]), (refused, Some(0), None), "this host cannot");
    assert_eq!(ask(true, None, &[1, 2]), (refused, None, None), "the mobile router does not say that it eliminates");
    assert_eq!(ask(true, Some(Capabilities::UDP_OVER_IPV6), &[1, 2]).0, refused);
    assert_eq!(ask(true, able, &[1, 1]).0, refused);
    assert_eq!(ask(true, able, &[1, 2, 1]).0, refused);
    assert_eq!(ask(true, able, &[1, 7]).0, FlowIdentification::BID_NOT_FOUND);
}

#[test]
fn ipv4_traffic_selectors_select_ipv4_packets() {
    let mut bench = TestBed::new(config());
    let of = |fid, source, source_port| {
        let selector = TrafficSelector::V4(Selector { source, source_port, ..Selector::default() });
        MobilityOption::FlowIdentification(FlowIdentification { selector: Some(selector), ..flow(fid, &[1]) })
    };
    let network = FieldRange { first: [192, 0, 2, 0].into(), last: [192, 0, 2, 255].into() };
    let range = FieldRange { last: [192, 0, 2, 254].into(), ..network };
    let update = both(1, true).with(of(1, Some(network), None)).with(of(2, None, Some(FieldRange::single(443))));
    let outputs = bench.send(&update.with(of(3, Some(range), None)));
    assert_eq!(flow_statuses(&outputs), [(1, 0), (2, 0), (3, 129)], "RFC 6088 §3.1");
    let sources: Vec<_> = bench.tunnel().unwrap().flows.iter().map(|flow| flow.selector.source).collect();
    assert_eq!(sources, [Some(prefix("192.0.2.0/24")), Some(prefix("0.0.0.0/0"))]);
}

#[test]
fn traffic_classes_of_one_dscp_are_accepted() {
    let mut bench = TestBed::new(config());
    let of = |fid, (first, last)| {
        let selector = Selector { traffic_class: Some(FieldRange { first, last }), ..Selector::default() };
        let selector = Some(TrafficSelector::V6(selector));
        MobilityOption::FlowIdentification(FlowIdentification { selector, ..flow(fid, &[1]) })
    };
    let ranges = [(0xb8, 0xbb), (0xb8, 0xb8), (3, 0), (0xb8, 0xbc), (0, 255)];
    let update = (1..).zip(ranges).fold(both(1, true), |update, (fid, range)| update.with(of(fid, range)));
    let outputs = bench.send(&update);
    assert_eq!(flow_statuses(&outputs), [(1, 0), (2, 0), (3, 0), (4, 129), (5, 129)], "the ECN field does not count");
    let dscps: Vec<_> = bench.tunnel().unwrap().flows.iter().map(|flow| flow.selector.dscp).collect();
    assert_eq!(dscps, [Some(46), Some(46), Some(0)]);
}

#[test]
fn inactive_flow_binding_can_be_changed() {
    let mut bench = TestBed::new(config());
    bench.send(&both(1, true).with(MobilityOption::FlowIdentification(flow(5, &[2]))));
    let update =
        Update::new(2, "2001:db8:1::100").with(bid(2, 1, "::")).with(MobilityOption::FlowSummary(vec![Fid(5)]));
    bench.send(&update.lifetime(0));
    let change = FlowIdentification { priority: 9, bids: Vec::new(), ..flow(5, &[]) };
    let update = Update::new(3, "2001:db8:1::100").with(bid(1, 2, "::"));
    let outputs = bench.send(&update.with(MobilityOption::FlowIdentification(change)));
    assert_eq!(flow_statuses(&outputs), [(5, 0)], "its bindings are maintained (RFC 6089 §5.3.2.2)");
    assert_eq!(bench.tunnel().unwrap().flows[0].bid, Bid(2));
}

#[test]
fn ipv4_options_precede_bid_options_in_acknowledgement() {
    let mut bench = TestBed::new(config());
    let option =
        MobilityOption::Ipv4HomeAddress { prefix_length: 32, prefix_wanted: false, address: [10, 0, 0, 1].into() };
    let options = acknowledgement(&bench.send(&both(1, true).with(option))).options;
    let ipv4 = |option: &MobilityOption| matches!(option, MobilityOption::Ipv4AddressAcknowledgement { .. });
    let bid = |option: &MobilityOption| matches!(option, MobilityOption::BindingIdentifier(_));
    assert!(options.iter().position(ipv4).unwrap() < options.iter().position(bid).unwrap(), "RFC 5648 §8.2");
}
