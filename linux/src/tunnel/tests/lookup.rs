//! Which tunnel, path and next hop a packet takes, as tunnels, bypasses and routes change.

use super::*;

/// The same as [`care_of`], with cached next hops and flows.
pub(super) fn care_of_now(testbed: &mut TestHost, address: &str) -> Option<Ipv6Addr> {
    let packet = frame(&Ip::udp(CN, address).0);
    let (_, out) = (0..TRIES).map(|_| testbed.run_again(&packet)).find(|(verdict, _)| *verdict == REDIRECT)?;
    let destination: [u8; 16] = out[38..54].try_into().unwrap();
    Some(destination.into())
}

/// The outer destination of a packet to `address`, if it is encapsulated.
pub(super) fn care_of(testbed: &mut TestHost, address: &str) -> Option<Ipv6Addr> {
    testbed.tunnels.invalidate_next_hops().unwrap();
    care_of_now(testbed, address)
}

#[test]
fn longest_prefix_match_follows_tunnel_changes() {
    let mut testbed = testbed_or_skip!("longest_prefix_match_follows_tunnel_changes");
    let goes = |testbed: &mut TestHost, to: &str, care_of_expected: Option<&str>| {
        assert_eq!(care_of(testbed, to), care_of_expected.map(|address| address.parse().unwrap()), "{to}");
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
        goes(&mut testbed, to, expected);
    }
    testbed.tunnels.drop(TunnelId(6)).unwrap();
    goes(&mut testbed, "2001:db8:f0:505::8", Some("2001:db8:2::5"));
    goes(&mut testbed, "2001:db8:f0:505::7", Some("2001:db8:2::7"));
    testbed.tunnels.remove_stale().unwrap();
    for (to, expected) in everywhere.into_iter().filter(|(to, _)| *to != "2001:db8:f0:505::8") {
        goes(&mut testbed, to, expected);
    }
    // Another prefix of a length in use, far from the others.
    let mut far = testbed.tunnels.find(TunnelId(5)).unwrap();
    far.remote_prefixes.push("2001:db9:1:100::/56".parse().unwrap());
    testbed.tunnels.put(&far).unwrap();
    goes(&mut testbed, "2001:db9:1:1ff::1", Some("2001:db8:2::5"));
    goes(&mut testbed, "2001:db8:f0:506::8", Some("2001:db8:2::5"));
}

#[test]
fn bypassed_destination_is_left_to_the_routing_table() {
    let mut testbed = testbed_or_skip!("bypassed_destination_is_left_to_the_routing_table");
    let near = "2001:db8:f0:500::/56".parse().unwrap();
    let ways = ["2001:db8:f0:506::8", "2001:db8:f0:505::7", MNN];
    let care_ofs = |testbed: &mut TestHost| ways.map(|to| care_of_now(testbed, to).map(|address| address.to_string()));
    testbed.tunnels.invalidate_next_hops().unwrap();
    let by_tunnels = care_ofs(&mut testbed);
    assert_eq!(by_tunnels, ["2001:db8:2::5", "2001:db8:2::7", COA].map(|address| Some(address.to_owned())));
    for _ in 0..2 {
        testbed.tunnels.put_bypass(near).unwrap();
        assert_eq!(care_ofs(&mut testbed), [None, None, Some(COA.to_owned())]);
        testbed.tunnels.remove_stale().unwrap();
        assert_eq!(care_ofs(&mut testbed), [None, None, Some(COA.to_owned())]);
        // Packets from there that still arrive by the tunnel are accepted.
        let (verdict, _) = testbed.run(&frame(&Ip::udp("2001:db8:f0:506::8", CN).within("2001:db8:2::5", HA).0));
        assert_eq!(verdict, REDIRECT);
        testbed.tunnels.drop_bypass(near).unwrap();
        testbed.tunnels.drop_bypass(near).unwrap();
        assert_eq!(care_ofs(&mut testbed), by_tunnels);
    }
}

#[test]
fn bypass_of_too_many_prefix_lengths_is_refused() {
    let mut testbed = testbed_or_skip!("bypass_of_too_many_prefix_lengths_is_refused");
    let near = |length| Prefix::new("2001:db9::".parse().unwrap(), length).unwrap();
    let put: Vec<bool> = (33..53).map(|length| testbed.tunnels.put_bypass(near(length)).is_ok()).collect();
    assert_eq!(put, (0..20).map(|number| number < 16).collect::<Vec<_>>());
    let mut moved = testbed.tunnels.find(TunnelId(5)).unwrap();
    moved.remote_prefixes.push("2001:dba:2::/47".parse().unwrap());
    testbed.tunnels.put(&moved).unwrap();
    assert_eq!(care_of(&mut testbed, "2001:dba:2::1"), Some("2001:db8:2::5".parse().unwrap()));
    (33..53).for_each(|length| testbed.tunnels.drop_bypass(near(length)).unwrap());
    testbed.tunnels.put_bypass(near(60)).unwrap();
}

#[test]
fn next_hop_is_resolved_again_after_route_changes() {
    let mut testbed = testbed_or_skip!("next_hop_is_resolved_again_after_route_changes");
    let packet = frame(&Ip::udp(CN, MNN).0);
    assert_eq!(testbed.run(&packet).1[..12], TO_NEXT_HOP);
    testbed.host.ip("neighbour replace 2001:db8:1::3 lladdr 02:00:00:00:00:03 dev up0 nud permanent");
    testbed.host.ip("route replace default via 2001:db8:1::3");
    testbed.tunnels.invalidate_next_hops().unwrap();
    assert_eq!(testbed.run_again(&packet).1[..12], [2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 1]);
    // Paths with the same gateway share its next hop.
    assert_eq!(testbed.run_again(&frame(&Ip::udp(CN, "2001:db8:f4::4").0)).1[..6], [2, 0, 0, 0, 0, 3]);
}
