//! Replicated flows: what the home agent is asked for, and what the tunnel gets (RFC 8655 §3.2.2.2, RFC 6089 §4.2).

use super::mcoa::{ON_CELL, ON_WIFI, both, sharing};
use super::*;
use crate::contract::command::MobileRouterCommand;
use crate::contract::config::flow::{FlowRule, FlowSelector, Replication};
use crate::contract::report::HostReport;
use roam6_wire::mobility::{Capabilities, FlowIdentification};
use std::collections::BTreeSet;

fn rule(bid: u16, second: Option<u16>) -> FlowRule {
    let replication = Some(Replication { second: second.map(Bid) });
    FlowRule { id: 1, priority: 1, selector: FlowSelector::default(), ingress: None, bid: Bid(bid), replication }
}

/// The binding identifiers of the first flow of an update, and its flags of capabilities.
fn asked(update: &Update) -> (Vec<u16>, u8) {
    let options = &update.message.options;
    let bids = options.iter().find_map(|option| match option {
        MobilityOption::FlowIdentification(FlowIdentification { bids, .. }) => {
            Some(bids.iter().map(|bid| bid.0).collect())
        }
        _ => None,
    });
    let flags = options.iter().find_map(|option| match option {
        MobilityOption::Capabilities(own) => Some(own.flags),
        _ => None,
    });
    (bids.unwrap_or_default(), flags.unwrap_or_default())
}

/// Acknowledges an update, with these capabilities of the home agent; what follows.
fn answer(bench: &mut TestBed, update: &Update, flags: Option<u8>) -> Vec<Output> {
    let mut options: Vec<_> = update.bid_options().into_iter().map(MobilityOption::BindingIdentifier).collect();
    options.extend(
        update.message.options.iter().filter(|option| matches!(option, MobilityOption::FlowIdentification(_))).cloned(),
    );
    options.extend(flags.map(|flags| MobilityOption::Capabilities(Capabilities { flags, encapsulations: Vec::new() })));
    bench.acknowledge_with(update, Status::ACCEPTED, AckFlags::ROUTER, update.message.sequence, options)
}

/// Registered over both uplinks; the update after the flows were set to these.
fn begin(load_sharing: LoadSharing, flows: Vec<FlowRule>) -> (TestBed, Update) {
    let mut bench = both(sharing(load_sharing));
    bench.now = at(9000);
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::ReloadFlows(flows))));
    (bench, update(&outputs))
}

fn tunnel_flows(bench: &TestBed) -> Vec<(u16, Option<u16>)> {
    bench.tunnel().unwrap().flows.iter().map(|flow| (flow.bid.0, flow.replica.map(|bid| bid.0))).collect()
}

#[test]
fn copies_begin_once_the_home_agent_says_that_it_eliminates_them() {
    for (load_sharing, rule, before, after) in [
        (LoadSharing::Standby, rule(2, Some(1)), vec![2], (2, Some(1))),
        (LoadSharing::Standby, rule(2, None), vec![2], (2, Some(1))),
        (LoadSharing::Standby, rule(0, None), vec![1], (1, None)),
    ] {
        let (mut bench, first) = begin(load_sharing, vec![rule]);
        assert_eq!(asked(&first), (before.clone(), Capabilities::ELIMINATION));
        assert_eq!(tunnel_flows(&bench), [(before[0], None)], "not before the home agent has answered");
        bench.now = at(9100);
        let second = update(&answer(&mut bench, &first, Some(Capabilities::ELIMINATION)));
        let wanted: Vec<u16> = [Some(after.0), after.1].into_iter().flatten().collect();
        assert_eq!(asked(&second), (wanted, Capabilities::ELIMINATION));
        assert_eq!(tunnel_flows(&bench), [after]);
        bench.now = at(9200);
        answer(&mut bench, &second, Some(Capabilities::ELIMINATION));
        assert_eq!(tunnel_flows(&bench), [after]);
    }
}

#[test]
fn best_uplinks_are_those_that_share_the_flows() {
    let mut config = sharing(LoadSharing::Weighted);
    config.uplinks[1].priority = config.uplinks[0].priority;
    config.flows = vec![rule(0, None)];
    for (weight, expected) in [(1, vec![(1, Some(2))]), (0, vec![(1, None)])] {
        config.uplinks[1].weight = weight;
        let mut bench = both(config.clone());
        bench.now = at(9000);
        let flows = config.flows.clone();
        let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::ReloadFlows(flows))));
        answer(&mut bench, &update(&outputs), Some(Capabilities::ELIMINATION));
        assert_eq!(tunnel_flows(&bench), expected, "weight {weight}");
    }
}

#[test]
fn home_agent_that_eliminates_no_copies_gets_none() {
    for flags in [None, Some(Capabilities::UDP_OVER_IPV6)] {
        let (mut bench, first) = begin(LoadSharing::Standby, vec![rule(1, Some(2))]);
        bench.now = at(9100);
        let outputs = answer(&mut bench, &first, flags);
        let notices = reports(&outputs);
        let says = |report: &&Report| matches!(report, Report::Host(HostReport::Notice { text }) if text.contains("does not eliminate copies"));
        assert_eq!(notices.iter().filter(|report| says(report)).count(), 1);
        assert_eq!(tunnel_flows(&bench), [(1, None)]);
        // One that was upgraded, and one that was downgraded again.
        for (flags, expected) in [(Capabilities::ELIMINATION, (1, Some(2))), (0, (1, None))] {
            bench.now = bench.now + Duration::from_secs(5);
            let flows = vec![rule(1, Some(2))];
            let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::ReloadFlows(flows))));
            answer(&mut bench, &update(&outputs), Some(flags));
            assert_eq!(tunnel_flows(&bench), [expected]);
        }
    }
}

#[test]
fn copies_end_with_one_of_the_uplinks() {
    let (mut bench, first) = begin(LoadSharing::Standby, vec![rule(1, Some(2))]);
    bench.now = at(9100);
    let second = update(&answer(&mut bench, &first, Some(Capabilities::ELIMINATION)));
    bench.now = at(9200);
    answer(&mut bench, &second, Some(Capabilities::ELIMINATION));
    bench.now = at(12_000);
    let outputs = bench.link(CELL, false);
    assert_eq!(asked(&update(&outputs)).0, [1]);
}

#[test]
fn path_that_probes_found_silent_still_carries_second_copies() {
    let mut config = sharing(LoadSharing::Weighted);
    config.probe = Some(config::ProbeConfig::default());
    config.uplinks[1].priority = config.uplinks[0].priority;
    config.flows = vec![rule(0, None)];
    let mut bench = both(config.clone());
    bench.now = at(9000);
    let flows = config.flows.clone();
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::ReloadFlows(flows))));
    answer(&mut bench, &update(&outputs), Some(Capabilities::ELIMINATION));
    let mut now = 9000;
    for answering in [&[1, 2][..], &[2], &[1, 2], &[1], &[1, 2], &[2], &[1, 2], &[1]].repeat(4) {
        let end = now + 1000;
        while now < end {
            now += 200;
            let outputs = bench.probe_if(now, |echo, _| answering.contains(&echo.identifier), |_| false);
            for update in updates(&outputs) {
                answer(&mut bench, &update, Some(Capabilities::ELIMINATION));
            }
            let copies = tunnel_flows(&bench).into_iter().flat_map(|(first, second)| [Some(first), second]);
            let copies: BTreeSet<u16> = copies.flatten().collect();
            assert_eq!(copies, BTreeSet::from([1, 2]), "{now} ms, {answering:?}");
        }
        let carries = |local: &str| bench.paths().contains(&(ip(local), 1));
        assert!(answering.contains(&1) || !carries(ON_WIFI), "{now} ms: packets of other flows go by a silent path");
        assert!(answering.contains(&2) || !carries(ON_CELL), "{now} ms: packets of other flows go by a silent path");
    }
}
