//! Two home agents over paths that let nothing but UDP through: one that is dead is replaced although no echo request
//! to the other passes.

use super::pair::{AGENT_IPV4, BEHIND_NAT, Pair, START_UNIX_MICROS, UPLINK, agent, agent_config, ip, router_config};
use crate::contract::config::nemo::{DsmipService, HomeAgentConfig, MobileRouterConfig, Transport};
use crate::contract::item::Encap;
use crate::nemo::home_agent::HomeAgent;
use crate::{Clock, Entropy, Input, Plan};
use core::time::Duration;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::protocol;
use std::net::{Ipv4Addr, Ipv6Addr};

const OTHER_IPV4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const IN_UDP: Encap = Encap::Udp { local: DSMIP_PORT, remote: DSMIP_PORT };

fn other() -> Ipv6Addr {
    ip("2001:db8::5")
}

fn router() -> MobileRouterConfig {
    let mut config = router_config();
    config.home_agents = vec![agent(), other()];
    config.home_agents_ipv4 = vec![AGENT_IPV4, OTHER_IPV4];
    config.uplinks[0].transport = Transport::Auto;
    config
}

fn first() -> HomeAgentConfig {
    HomeAgentConfig { udp6: true, ..agent_config() }
}

fn second() -> HomeAgentConfig {
    let service = DsmipService { address: OTHER_IPV4, keepalive: Duration::from_secs(110), force_udp: false };
    HomeAgentConfig { address: other(), ipv4: Some(service), ..first() }
}

/// The first home agent is dead, and the second one is there.
fn replace(pair: &mut Pair) {
    pair.agent = HomeAgent::new(second(), Entropy::seed_from_u64(7));
    pair.agent_plan = Plan::new();
    pair.feed_agent(Input::Clock(Clock { unix_micros: START_UNIX_MICROS + pair.now.as_micros() }));
}

/// Lets time pass until the mobile router's packets go to the second home agent, and back; how long it took.
fn until_replaced(pair: &mut Pair) -> Duration {
    let begin = pair.now;
    while !pair.is_connected() || pair.view().bindings.is_empty() {
        pair.millis(10);
        assert!(pair.now.since(begin) < Duration::from_secs(60), "{:?}", pair.reports);
    }
    pair.now.since(begin)
}

/// In any phase of the probes.
#[test]
fn dead_home_agent_is_replaced_in_udp_over_ipv6() {
    for phase in (0..400).step_by(10) {
        let mut pair = Pair::new(router(), first());
        pair.filters.insert(UPLINK, vec![protocol::MOBILITY, protocol::IPV6, protocol::ICMPV6]);
        pair.delays.insert(UPLINK, Duration::from_millis(50));
        pair.link(true);
        pair.advertise("2001:db8:2::/64", 1800);
        pair.advance(Duration::from_millis(10_000 + phase));
        assert_eq!(pair.active_paths().map(|path| path.map(|path| path.encap)), [Some(IN_UDP); 2]);
        replace(&mut pair);
        let took = until_replaced(&mut pair);
        assert!(took <= Duration::from_millis(1500), "{phase} ms: {took:?}");
        pair.advance(Duration::from_secs(20));
        let [_, router_path] = pair.active_paths().map(Option::unwrap);
        assert_eq!((router_path.remote, router_path.encap, pair.is_connected()), (other(), IN_UDP, true), "it stays");
    }
}

#[test]
fn dead_home_agent_is_replaced_behind_a_nat() {
    for phase in (0..400).step_by(10) {
        let mut pair = Pair::new(router(), first());
        pair.ipv6 = false;
        pair.link(true);
        pair.address4(BEHIND_NAT, true);
        pair.advance(Duration::from_millis(10_000 + phase));
        assert!(pair.is_connected());
        replace(&mut pair);
        let took = until_replaced(&mut pair);
        assert!(took <= Duration::from_millis(1500), "{phase} ms: {took:?}");
    }
}

/// Before the first binding no path over IPv4 is probed.
#[test]
fn home_agent_dead_at_start_is_skipped_behind_a_nat() {
    let mut pair = Pair::new(router(), second());
    pair.ipv6 = false;
    pair.link(true);
    pair.address4(BEHIND_NAT, true);
    let took = until_replaced(&mut pair);
    assert!(took <= Duration::from_millis(3500), "{took:?}");
}

/// No home agent answers: the network is at fault, and updates are sent no more often than with one home agent.
#[test]
fn nothing_is_sent_more_often_where_no_home_agent_answers() {
    let mut pair = Pair::new(router(), second());
    pair.ipv6 = false;
    pair.black_holes.insert(UPLINK);
    pair.link(true);
    pair.address4(BEHIND_NAT, true);
    pair.advance(Duration::from_secs(40));
    // At 0, 1.5, 4.5, 10.5, 22.5 s, each but the first with a question to the other one.
    assert!(pair.updates() <= 9, "{}", pair.updates());
}
