//! Routes to mobile networks while their routers are at home, and while they are at home and away at once.

use super::bench::*;
use crate::contract::command::{HomeAgentCommand, LifecycleCommand};
use crate::contract::config::nemo::{HomeAgentConfig, PrefixTable};
use crate::contract::item::{Encap, JournalRecord, NextHop, RouteTable, TunnelPath};
use crate::{Clock, Command, Input, Item, Key, LinkEvent, Output, Via};
use core::time::Duration;
use roam6_wire::mobility::{BindingIdentifier, CareOfField, MobilityOption, Status, UpdateFlags};
use roam6_wire::{Bid, LinkAddress, Prefix};

/// Where the host sends packets to `prefix`: the target of the route with the best metric.
fn next_hop(bench: &TestBed, prefix: Prefix) -> Option<NextHop> {
    let routes = bench.plan.iter().filter_map(|(_, item)| match item {
        Item::Route(route) if route.table == RouteTable::MAIN && route.destination == prefix => Some(route),
        _ => None,
    });
    routes.min_by_key(|route| route.metric).map(|route| route.target)
}

#[test]
fn tunnel_route_is_preferred_to_home_route() {
    let mut bench = TestBed::at_home_link(config());
    let network = prefix("2001:db8:e00::/56");
    let by_home_link = Some(NextHop::Gateway { link: HOME_LINK, router: address("2001:db8::200") });
    assert_eq!(next_hop(&bench, network), by_home_link);
    bench.send(&Update::unauthenticated(1, "2001:db8:1::200"));
    bench.advance(super::super::home_link::RETRANS_TIMER * 2);
    assert!(matches!(next_hop(&bench, network), Some(NextHop::Tunnel(_))));
    bench.send(&Update::unauthenticated(2, "2001:db8:1::200").lifetime(0));
    assert_eq!(next_hop(&bench, network), by_home_link);
}

#[test]
fn reloaded_prefix_table_changes_only_differing_home_routes() {
    let mut bench = TestBed::at_home_link(config());
    let rows = config().prefix_table.rows.iter().filter(|row| row.home_address == home()).cloned().collect();
    let outputs = bench
        .feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(PrefixTable { rows }.into()))));
    assert_eq!(next_hop(&bench, prefix("2001:db8:e00::/56")), None);
    assert!(next_hop(&bench, prefix("2001:db8:f00::/56")).is_some());
    assert_eq!(outputs.len(), 3, "two other prefixes of the table go: {outputs:?}");
}

#[test]
fn virtual_home_network_has_no_home_routes() {
    let bench = TestBed::new(config());
    assert_eq!(next_hop(&bench, prefix("2001:db8:f00::/56")), None);
}

const AWAY: &str = "2001:db8:1::100";
const HERE: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 7]);

fn identifier(bid: u16, priority: u8, simultaneous_home: bool) -> MobilityOption {
    let care_of = CareOfField::V6(if simultaneous_home { home().0 } else { address(AWAY) });
    let status = Status::ACCEPTED;
    MobilityOption::BindingIdentifier(BindingIdentifier { bid: Bid(bid), status, simultaneous_home, priority, care_of })
}

/// Away by uplink 1 and at home by uplink 2, the update sent from away.
fn both(sequence: u16, priorities: [u8; 2]) -> Update {
    let update = Update::new(sequence, AWAY).with(identifier(1, priorities[0], false));
    let update = Update { flags: update.flags | UpdateFlags::OVERWRITE, ..update };
    let link_address = MobilityOption::LinkLayerAddress { code: 2, address: HERE.0.to_vec() };
    update.with(identifier(2, priorities[1], true)).with(link_address)
}

fn away_only(sequence: u16) -> Update {
    Update::new(sequence, AWAY).with(identifier(1, 1, false))
}

/// Identifier, weight and whether it is direct, of each path.
fn paths(bench: &TestBed) -> Vec<(u16, u16, bool)> {
    let paths = bench.tunnel().map(|tunnel| tunnel.paths.as_slice()).unwrap_or_default();
    paths.iter().map(|path| (path.bid.0, path.weight, path.direct)).collect()
}

fn knows_neighbour(bench: &TestBed) -> bool {
    bench.plan.find(&Key::Neighbour(HOME_LINK, HERE.link_local())).is_some()
}

fn home_link(bench: &mut TestBed, up: bool) -> Vec<Output> {
    let address = Some(LinkAddress([2, 0, 0, 0, 0, 1]));
    bench.feed(Input::Link(LinkEvent { link: HOME_LINK, name: "home0".into(), address, up, mtu: 1500 }))
}

#[test]
fn home_and_away_binding_uses_best_path_and_keeps_proxy() {
    let mut bench = TestBed::at_home_link(config());
    let outputs = bench.send(&both(1, [2, 1]));
    let announced = |output: &Output| matches!(output, Output::Transmit(sent) if sent.via == Via::Link(HOME_LINK));
    let answer = acknowledgement(&outputs.into_iter().filter(|output| !announced(output)).collect::<Vec<_>>());
    assert_eq!(answer.status, Status::MCOA_RETURN_HOME_WITHOUT_NDP, "no second of duplicate detection");
    let echoed: Vec<_> =
        answer.options.iter().filter(|option| matches!(option, MobilityOption::BindingIdentifier(_))).collect();
    let flags = |option: &MobilityOption| match option {
        MobilityOption::BindingIdentifier(option) => (option.bid.0, option.status.0, option.simultaneous_home),
        _ => panic!(),
    };
    assert_eq!(echoed.into_iter().map(flags).collect::<Vec<_>>(), [(1, 0, false), (2, 0, true)]);
    assert_eq!(paths(&bench), [(2, 1, true), (1, 0, false)]);
    let tunnel = bench.tunnel().unwrap();
    let direct = TunnelPath {
        bid: Bid(2),
        local: agent(),
        remote: HERE.link_local(),
        link: Some(HOME_LINK),
        mtu: 1500,
        weight: 1,
        direct: true,
        encap: Encap::Native,
        dscp: None,
    };
    assert_eq!(tunnel.paths[0], direct);
    assert!(knows_neighbour(&bench));
    assert!(bench.plan.find(&Key::ProxyNeighbour(HOME_LINK, home().0)).is_some(), "the home agent defends it");

    bench.send(&both(2, [1, 2]));
    assert_eq!(paths(&bench), [(1, 1, false), (2, 0, true)], "home as the backup");
    bench.send(&both(3, [1, 1]));
    assert_eq!(paths(&bench), [(1, 1, false), (2, 1, true)], "both");
}

#[test]
fn home_and_away_survives_loss_of_either_link() {
    let mut bench = TestBed::at_home_link(config());
    bench.send(&both(1, [2, 1]));
    assert_eq!(status(&bench.send(&away_only(2))), 0, "without H the home link is left (RFC 5648 §5.6.5)");
    assert_eq!((paths(&bench), knows_neighbour(&bench)), (vec![(1, 1, false)], false));
    bench.send(&both(3, [2, 1]));
    assert_eq!(status(&bench.send(&Update::new(4, AWAY).with(identifier(1, 2, false)).lifetime(0))), 0);
    assert_eq!(paths(&bench), [(2, 1, true), (1, 0, false)], "packets in transit are accepted");
    bench.advance(Duration::from_secs(6));
    assert_eq!(paths(&bench), [(2, 1, true)]);
    let outputs = bench.advance(Duration::from_secs(49));
    let [request] = sent(&outputs)[..] else { panic!("{outputs:?}") };
    assert_eq!(
        request.via,
        Via::Neighbour { link: HOME_LINK, address: HERE },
        "the refresh request is sent over the home link"
    );
    let at_home = Update { source: home().0, care_of: home().0, ..Update::new(5, AWAY).lifetime(0) };
    assert_eq!(status(&bench.send(&at_home)), 0);
    assert!(!knows_neighbour(&bench));
    bench.advance(Duration::from_secs(20));
    assert_eq!(bench.installed(), []);
}

#[test]
fn home_and_away_bindings_expire_separately() {
    let mut bench = TestBed::at_home_link(config());
    bench.send(&both(1, [2, 1]));
    bench.advance(Duration::from_secs(30));
    // The refresh of the other uplink does not de-register the home binding.
    bench.send(&Update::new(2, AWAY).with(identifier(1, 2, false)).with(identifier(3, 3, true)));
    assert_eq!(paths(&bench).len(), 2, "one home binding at a time");
    bench.advance(Duration::from_secs(31));
    assert_eq!((paths(&bench), knows_neighbour(&bench)), (vec![(1, 1, false)], false));
}

#[test]
fn home_link_down_leaves_the_tunnel_path() {
    let mut bench = TestBed::at_home_link(config());
    bench.send(&both(1, [2, 1]));
    home_link(&mut bench, false);
    assert_eq!(paths(&bench), [(1, 1, false)]);
    home_link(&mut bench, true);
    assert_eq!((paths(&bench), knows_neighbour(&bench)), (vec![(2, 1, true), (1, 0, false)], true));
}

#[test]
fn simultaneous_home_is_rejected_with_status_if_not_possible() {
    let forbidden = HomeAgentConfig { home_and_away: false, ..config() };
    assert_eq!(status(&TestBed::at_home_link(forbidden).send(&both(1, [2, 1]))), 169);
    assert_eq!(status(&TestBed::new(config()).send(&both(1, [2, 1]))), 169, "a virtual home network");
    let unknown = Update { options: both(1, [2, 1]).options[..2].to_vec(), ..both(1, [2, 1]) };
    assert_eq!(status(&TestBed::at_home_link(config()).send(&unknown)), 169, "no link-layer address");
    let group = MobilityOption::LinkLayerAddress { code: 2, address: vec![1, 0, 0x5e, 0, 0, 1] };
    assert_eq!(status(&TestBed::at_home_link(config()).send(&unknown.clone().with(group))), 169);
    let stranger = CareOfField::V6(address("2001:db8::77"));
    let elsewhere = match identifier(2, 1, true) {
        MobilityOption::BindingIdentifier(option) => BindingIdentifier { care_of: stranger, ..option },
        _ => panic!(),
    };
    let mut wrong = both(1, [2, 1]);
    wrong.options[1] = MobilityOption::BindingIdentifier(elsewhere);
    let mut bench = TestBed::at_home_link(config());
    bench.send(&away_only(1));
    bench.advance(Duration::from_secs(9));
    assert_eq!(status(&bench.send(&Update { sequence: 2, ..wrong })), 4, "H means the home address");
    assert_eq!(paths(&bench), [(1, 1, false)]);
}

#[test]
fn rejected_item_rolls_back_simultaneous_home() {
    let mut bench = TestBed::at_home_link(config());
    bench.send(&away_only(1));
    bench.advance(Duration::from_secs(2));
    bench.rejected.push(Key::Neighbour(HOME_LINK, HERE.link_local()));
    assert_eq!(status(&bench.send(&both(2, [2, 1]))), 130);
    assert_eq!(paths(&bench), [(1, 1, false)]);
}

#[test]
fn restart_restores_simultaneous_home_binding() {
    let mut bench = TestBed::at_home_link(config());
    bench.send(&both(1, [2, 1]));
    let records = journal(&bench);
    let Some(JournalRecord::Binding(record)) = records.first() else { panic!() };
    let unix_micros = record.expires_unix_micros - 10_000_000;
    let mut next = TestBed::new(HomeAgentConfig { home_link: Some("home0".into()), ..config() });
    next.feed(Input::Clock(Clock { unix_micros }));
    next.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records.clone()))));
    assert_eq!(paths(&next), [(1, 1, false)], "its link is not known yet");
    home_link(&mut next, true);
    assert_eq!((paths(&next), knows_neighbour(&next)), (vec![(2, 1, true), (1, 0, false)], true));
}

#[test]
fn deregistration_without_binding_still_outdates_older_updates() {
    let mut bench = TestBed::at_home_link(config());
    let deregistration = Update { source: home().0, care_of: home().0, ..Update::new(2, AWAY).lifetime(0) };
    assert_eq!(status(&bench.send(&deregistration)), 133);
    assert_eq!(status(&bench.send(&away_only(1))), 135, "the update it has overtaken");
    bench.advance(Duration::from_secs(11));
    assert_eq!(bench.installed(), []);
}
