//! Flow rules for IPv4, DSCP and ingress interfaces: what the home agent is asked for, and what the tunnel gets.

use super::mcoa::{both, sharing};
use super::*;
use crate::contract::command::MobileRouterCommand;
use crate::contract::config::flow::{FlowRule, FlowSelector};
use roam6_wire::mobility::{FieldRange, FlowIdentification, Selector, TrafficSelector};

fn rule(id: u16, ingress: Option<&str>, selector: FlowSelector) -> FlowRule {
    FlowRule { id, priority: id, selector, ingress: ingress.map(str::to_owned), bid: Bid(2), replication: None }
}

fn with_flows(flows: Vec<FlowRule>) -> MobileRouterConfig {
    MobileRouterConfig { flows, ..sharing(LoadSharing::Standby) }
}

/// Registered over both uplinks with these rules; the traffic selectors that the home agent was asked for.
fn requested(flows: Vec<FlowRule>) -> Vec<TrafficSelector> {
    let mut bench = both(with_flows(Vec::new()));
    bench.now = at(9000);
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::ReloadFlows(flows))));
    let selector = |option| match option {
        MobilityOption::FlowIdentification(FlowIdentification { selector, .. }) => selector,
        _ => None,
    };
    update(&outputs).message.options.into_iter().filter_map(selector).collect()
}

fn span(first: &str, last: &str) -> Option<FieldRange<Ipv6Addr>> {
    Some(FieldRange { first: ip(first), last: ip(last) })
}

#[test]
fn ipv4_and_dscp_selectors_are_requested() {
    let inside4 = Some(net("10.77.1.0/24"));
    let selectors = requested(vec![
        rule(1, None, FlowSelector { destination: inside4, protocol: Some(1), ..Default::default() }),
        rule(2, None, FlowSelector { source: Some(Prefix::ALL_IPV4), dscp: Some(46), ..Default::default() }),
        rule(3, None, FlowSelector { dscp: Some(0), ..Default::default() }),
    ]);
    let network = FieldRange { first: [10, 77, 1, 0].into(), last: [10, 77, 1, 255].into() };
    let all = FieldRange { first: [0; 4].into(), last: [255; 4].into() };
    let class = |first, last| Some(FieldRange { first, last });
    assert_eq!(
        selectors,
        [
            TrafficSelector::V4(Selector {
                destination: Some(network),
                protocol: Some(FieldRange::single(1)),
                ..Selector::default()
            }),
            TrafficSelector::V4(Selector {
                source: Some(all),
                traffic_class: class(0xb8, 0xbb),
                ..Selector::default()
            }),
            TrafficSelector::V6(Selector { traffic_class: class(0, 3), ..Selector::default() }),
        ],
        "RFC 6088 §3.1, §3.2"
    );
}

#[test]
fn prefix_of_the_ingress_interface_stands_for_it_at_the_home_agent() {
    let inside = |prefix: &str| FlowSelector { destination: Some(net(prefix)), ..Default::default() };
    let selectors = requested(vec![
        rule(1, Some("lan"), FlowSelector::default()),
        rule(2, Some("lan"), inside("2001:db8:f00::/56")),
        rule(3, Some("lan"), inside("2001:db8:f00::5/128")),
        rule(4, Some("lan9"), FlowSelector::default()),
    ]);
    let destinations: Vec<_> = selectors
        .into_iter()
        .map(|selector| match selector {
            TrafficSelector::V6(selector) => selector.destination,
            other => panic!("{other:?}"),
        })
        .collect();
    let of_interface = span("2001:db8:f00::", "2001:db8:f00::ffff:ffff:ffff:ffff");
    let host = span("2001:db8:f00::5", "2001:db8:f00::5");
    assert_eq!(destinations, [of_interface, of_interface, host, None]);
}

#[test]
fn ingress_interface_of_a_rule_is_followed_by_its_index() {
    let dscp = FlowSelector { dscp: Some(46), ..Default::default() };
    let flows = vec![rule(1, Some("lan"), FlowSelector::default()), rule(2, None, dscp.clone())];
    let mut bench = both(with_flows(flows));
    let installed = |bench: &TestBed| -> Vec<(Option<LinkId>, FlowSelector)> {
        bench.tunnel().unwrap().flows.iter().map(|flow| (flow.ingress, flow.selector.clone())).collect()
    };
    assert_eq!(installed(&bench), [(None, dscp.clone())], "no such interface yet");
    bench.link(LAN, true);
    assert_eq!(installed(&bench), [(Some(LAN), FlowSelector::default()), (None, dscp.clone())]);
    let event = LinkEvent { link: LinkId(9), name: "lan".to_owned(), address: Some(MAC), up: true, mtu: 1500 };
    bench.feed(Input::Link(event));
    assert_eq!(installed(&bench), [(Some(LinkId(9)), FlowSelector::default()), (None, dscp)]);
}

#[test]
fn dscp_of_an_uplink_marks_its_path() {
    let mut config = with_flows(Vec::new());
    config.uplinks[1].dscp = Some(10);
    let bench = both(config);
    let marks: Vec<_> = bench.tunnel().unwrap().paths.iter().map(|path| (path.bid.0, path.dscp)).collect();
    assert_eq!(marks, [(1, None), (2, Some(10))]);
}
