//! Seeded worlds: an uplink with changing IPv6, IPv4, NAT and loss. After the last change mobile router and home agent are
//! connected over the preferred path; and the home agent never sends to an address from which no authentic update came.

use super::pair::{AGENT_IPV4, BEHIND_NAT, Nat, Pair, agent_config, net, router_config};
use crate::contract::config::nemo::{DsmipService, Ipv4Pool, LoadSharing, PrefixTable};
use crate::{Entropy, Item, Plan};
use core::time::Duration;
use roam6_wire::ip4::Encapsulated;
use roam6_wire::{Ipv4Endpoint, Prefix};
use std::collections::BTreeSet;

const WORLDS: u64 = 150;
const EVENTS: u64 = 25;
const WITHIN: &str = "2001:db8:f00::/56";
const NETWORKS: [&str; 2] = ["2001:db8:2::/64", "2001:db8:3::/64"];
/// Long enough for the next attempt with IPv6, and for periodic refreshes.
const CALM: Duration = Duration::from_secs(900);

/// Both engines, whether paths are probed, and whether the mobile network has IPv4.
fn build(rng: &mut Entropy) -> (Pair, bool, bool) {
    let (mut router, mut agent) = (router_config(), agent_config());
    let probes = rng.below(4) != 0;
    router.probe = router.probe.filter(|_| probes);
    router.load_sharing = if rng.below(2) == 0 { LoadSharing::Single } else { LoadSharing::Standby };
    let keepalive = Duration::from_secs(10 + rng.below(100));
    agent.ipv4 = Some(DsmipService { address: AGENT_IPV4, keepalive, force_udp: rng.below(2) == 0 });
    match rng.below(3) {
        0 => {}
        1 => {
            let mut rows = agent.prefix_table.rows.clone();
            rows[0].prefixes = [net(WITHIN), net("10.77.1.0/24")].into();
            agent.prefix_table = PrefixTable { rows }.into();
            router.prefixes.push(net("10.77.1.0/24"));
        }
        _ => {
            agent.ipv4_pool = Some(Ipv4Pool { prefix: net("10.128.0.0/16"), length: 28 });
            router.dynamic_ipv4 = Some(28);
        }
    }
    let wanted = router.dynamic_ipv4.is_some() || router.prefixes.len() > 1;
    let mut pair = Pair::new(router, agent);
    pair.link(true);
    pair.address4(BEHIND_NAT, true);
    (pair, probes, wanted)
}

/// What IPv4 there is inside by the tunnels of a plan.
fn inside(plan: &Plan) -> Vec<Prefix> {
    let sides = plan.iter().filter_map(|(_, item)| match item {
        Item::Tunnel(tunnel) => Some([tunnel.local_prefixes.clone(), tunnel.remote_prefixes.clone()].concat()),
        _ => None,
    });
    sides.flatten().filter(|prefix| prefix.is_ipv4()).collect()
}

fn random_event(pair: &mut Pair, probes: bool, rng: &mut Entropy) {
    match rng.below(9) {
        0 => pair.link(false),
        1 | 2 => pair.link(true),
        3 => pair.advertise(NETWORKS[usize::from(rng.below(2) == 0)], 1800),
        4 => pair.address4(BEHIND_NAT, rng.below(4) != 0),
        5 => pair.nat.iter_mut().for_each(Nat::forget),
        6 => pair.ipv6 = rng.below(2) == 0,
        7 => pair.loss = rng.below(400),
        // Only probes detect a new NAT.
        _ if probes => pair.nat = if pair.nat.is_some() { None } else { Some(Nat::default()) },
        _ => {}
    }
}

/// The source addresses of the updates received.
fn update_sources(pair: &Pair) -> BTreeSet<Ipv4Endpoint> {
    pair.received.iter().map(|packet| Encapsulated::parse(&packet.bytes).unwrap().source).collect()
}

fn run(seed: u64) {
    let mut rng = Entropy::seed_from_u64(seed);
    let (mut pair, probes, wanted) = build(&mut rng);
    for _ in 0..EVENTS {
        random_event(&mut pair, probes, &mut rng);
        pair.millis(rng.below(6_000));
        if let Some(remote) = pair.remote4() {
            let known = update_sources(&pair);
            let plain = remote.port == 0 && known.iter().any(|end| end.address == remote.address);
            assert!(plain || known.contains(&remote), "seed {seed}: {remote}");
        }
    }
    (pair.ipv6, pair.loss) = (true, 0);
    pair.link(false);
    pair.address4(BEHIND_NAT, true);
    pair.link(true);
    let native = rng.below(2) == 0;
    if native {
        pair.advertise(NETWORKS[0], 1800);
    }
    pair.advance(CALM);
    assert!(pair.is_connected(), "seed {seed}: {:?}", pair.active_paths());
    assert_eq!(pair.remote4().is_none(), native, "seed {seed}");
    let [agent, router] = pair.active_paths().map(Option::unwrap);
    assert_eq!(agent.mtu, router.mtu, "seed {seed}");
    let inside = [&pair.agent_plan, &pair.router_plan].map(inside);
    assert_eq!(inside[0], inside[1], "seed {seed}");
    assert_eq!(inside[0].len(), usize::from(wanted), "seed {seed}");
}

#[test]
fn random_dual_stack_paths_converge_on_the_best_path() {
    (0..WORLDS).for_each(run);
}
