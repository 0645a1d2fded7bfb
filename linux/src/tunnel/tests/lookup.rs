//! Which tunnel, path and next hop a packet takes, as tunnels, bypasses and routes change.

use super::*;

/// The same as [`care_of`], with cached next hops and flows.
pub(super) fn care_of_now(stage: &mut TestHost, address: &str) -> Option<Ipv6Addr> {
    let packet = frame(&Ip::udp(CN, address).0);
    let (_, out) = (0..TRIES).map(|_| stage.run_again(&packet)).find(|(verdict, _)| *verdict == REDIRECT)?;
    let destination: [u8; 16] = out[38..54].try_into().unwrap();
    Some(destination.into())
}

/// The outer destination of a packet to `address`, if it is encapsulated.
pub(super) fn care_of(stage: &mut TestHost, address: &str) -> Option<Ipv6Addr> {
    stage.tunnels.invalidate_next_hops().unwrap();
    care_of_now(stage, address)
}

#[test]
fn longest_prefix_match_follows_tunnel_changes() {
    let mut stage = stage_or_skip!("longest_prefix_match_follows_tunnel_changes");
    let goes = |stage: &mut TestHost, to: &str, care_of_expected: Option<&str>| {
        assert_eq!(care_of(stage, to), care_of_expected.map(|address| address.parse().unwrap()), "{to}");
    };
    let everywhere = [
        ("2001:db8:f0:505::7", Some("2001:db8:2::7")),
        ("2001:db8:f0:505::8", Some("2001:db8:2::6")),
        ("2001:db8:f0:506::8", Some("2001:db8:2::5")),
        ("2001:db8:f0:600::8", Some(COA)),
        ("2001:db8:e000::1", Some("2001:db8:2::8")),
        ("2001:db8:efff:ffff::1", Some("2001:db8:2::8")),
        ("2001:db8:f000::1", None),
        ("2001:db8:dfff::1", None),
    ];
    for (to, expected) in everywhere {
        goes(&mut stage, to, expected);
    }
    stage.tunnels.drop(TunnelId(6)).unwrap();
    goes(&mut stage, "2001:db8:f0:505::8", Some("2001:db8:2::5"));
    goes(&mut stage, "2001:db8:f0:505::7", Some("2001:db8:2::7"));
    stage.tunnels.remove_stale().unwrap();
    for (to, expected) in everywhere.into_iter().filter(|(to, _)| *to != "2001:db8:f0:505::8") {
        goes(&mut stage, to, expected);
    }
    // Another prefix of a length in use, far from the others.
    let mut far = stage.tunnels.find(TunnelId(5)).unwrap();
    far.remote_prefixes.push("2001:db9:1:100::/56".parse().unwrap());
    stage.tunnels.put(&far).unwrap();
    goes(&mut stage, "2001:db9:1:1ff::1", Some("2001:db8:2::5"));
    goes(&mut stage, "2001:db8:f0:506::8", Some("2001:db8:2::5"));
}

#[test]
fn bypassed_destination_is_left_to_the_routing_table() {
    let mut stage = stage_or_skip!("bypassed_destination_is_left_to_the_routing_table");
    let near = "2001:db8:f0:500::/56".parse().unwrap();
    let ways = ["2001:db8:f0:506::8", "2001:db8:f0:505::7", MNN];
    let care_ofs = |stage: &mut TestHost| ways.map(|to| care_of_now(stage, to).map(|address| address.to_string()));
    stage.tunnels.invalidate_next_hops().unwrap();
    let by_tunnels = care_ofs(&mut stage);
    assert_eq!(by_tunnels, ["2001:db8:2::5", "2001:db8:2::7", COA].map(|address| Some(address.to_owned())));
    for _ in 0..2 {
        stage.tunnels.put_bypass(near).unwrap();
        assert_eq!(care_ofs(&mut stage), [None, None, Some(COA.to_owned())]);
        stage.tunnels.remove_stale().unwrap();
        assert_eq!(care_ofs(&mut stage), [None, None, Some(COA.to_owned())]);
        // Packets from there that still arrive by the tunnel are accepted.
        let (verdict, _) = stage.run(&frame(&Ip::udp("2001:db8:f0:506::8", CN).within("2001:db8:2::5", HA).0));
        assert_eq!(verdict, REDIRECT);
        stage.tunnels.drop_bypass(near).unwrap();
        stage.tunnels.drop_bypass(near).unwrap();
        assert_eq!(care_ofs(&mut stage), by_tunnels);
    }
}

#[test]
fn bypass_of_too_many_prefix_lengths_is_refused() {
    let mut stage = stage_or_skip!("bypass_of_too_many_prefix_lengths_is_refused");
    let near = |length| Prefix::new("2001:db9::".parse().unwrap(), length).unwrap();
    let put: Vec<bool> = (33..53).map(|length| stage.tunnels.put_bypass(near(length)).is_ok()).collect();
    assert_eq!(put, (0..20).map(|number| number < 16).collect::<Vec<_>>());
    let mut moved = stage.tunnels.find(TunnelId(5)).unwrap();
    moved.remote_prefixes.push("2001:dba:2::/47".parse().unwrap());
    stage.tunnels.put(&moved).unwrap();
    assert_eq!(care_of(&mut stage, "2001:dba:2::1"), Some("2001:db8:2::5".parse().unwrap()));
    (33..53).for_each(|length| stage.tunnels.drop_bypass(near(length)).unwrap());
    stage.tunnels.put_bypass(near(60)).unwrap();
}

#[test]
fn next_hop_is_resolved_again_after_route_changes() {
    let mut stage = stage_or_skip!("next_hop_is_resolved_again_after_route_changes");
    let packet = frame(&Ip::udp(CN, MNN).0);
    assert_eq!(stage.run(&packet).1[..12], TO_NEXT_HOP);
    stage.host.ip("neighbour replace 2001:db8:1::3 lladdr 02:00:00:00:00:03 dev up0 nud permanent");
    stage.host.ip("route replace default via 2001:db8:1::3");
    stage.tunnels.invalidate_next_hops().unwrap();
    assert_eq!(stage.run_again(&packet).1[..12], [2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 1]);
    // Paths with the same gateway share its next hop.
    assert_eq!(stage.run_again(&frame(&Ip::udp(CN, "2001:db8:f4::4").0)).1[..6], [2, 0, 0, 0, 0, 3]);
}
