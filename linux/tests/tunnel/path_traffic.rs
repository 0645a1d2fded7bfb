//! The traffic of the paths of a mobile router.

use crate::netns_host::RECEIVE_TIMEOUT;
use crate::testbed::{CN, COA, MNN, SECOND_COA, Testbed, TunnelEnd, arrives};
use crate::testbed_or_skip;
use roam6_proto::contract::item::TunnelId;
use roam6_proto::{PathTraffic, PathTrafficQuery, Time};
use std::time::{Duration, Instant};

/// Later than any packet.
const NOW: Time = Time::from_micros(1 << 50);

fn read(end: &mut TunnelEnd, notify_sent: bool) -> Vec<PathTraffic> {
    end.act(|tunnels| tunnels.path_traffic(NOW, &PathTrafficQuery { tunnel: TunnelId(1), notify_sent })).unwrap()
}

#[test]
fn traffic_of_each_path_is_counted() {
    let mut testbed = testbed_or_skip!("traffic_of_each_path_is_counted");
    testbed.bind(&[(COA, 1, 0), (SECOND_COA, 2, 1)]);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    let paths = read(&mut testbed.mr, true);
    assert_eq!(paths.iter().map(|path| (path.bid.0, path.last_sent)).collect::<Vec<_>>(), [(1, None), (2, None)]);
    // Twice: the fast path comes after the slow one.
    for _ in 0..2 {
        assert!(arrives(&mnn, &cn, 500));
    }
    let [unused, used] = read(&mut testbed.mr, false)[..] else { panic!() };
    assert_eq!((unused.tx.packets, unused.rx.packets), (0, 0));
    assert_eq!((used.tx.packets, used.tx.octets, used.rx.packets), (2, 2 * 548, 0));
    assert!(used.unanswered_since.is_some() && used.unanswered_since <= used.last_sent);
    assert_eq!(used.last_received, None);
    // One notification, of the first packet.
    let noted = |testbed: &mut Testbed| {
        let found = testbed.mr.act(|tunnels| tunnels.read_path_notifications(NOW));
        found.into_iter().map(|path| path.bid.0).collect::<Vec<_>>()
    };
    assert_eq!(noted(&mut testbed), [2]);
    assert!(noted(&mut testbed).is_empty());
    for _ in 0..2 {
        assert!(arrives(&cn, &mnn, 500));
    }
    let [_, used] = read(&mut testbed.mr, true)[..] else { panic!() };
    assert_eq!((used.rx.packets, used.rx.octets, used.unanswered_since), (2, 2 * 548, None));
    assert!(used.last_received >= used.last_sent);
    assert!(noted(&mut testbed).is_empty(), "received, not sent");
    // Packets within one tick of the clock count as one.
    let begun = Instant::now();
    let noted_again = loop {
        assert!(begun.elapsed() < RECEIVE_TIMEOUT && arrives(&mnn, &cn, 500));
        match noted(&mut testbed) {
            none if none.is_empty() => std::thread::sleep(Duration::from_millis(5)),
            noted => break noted,
        }
    };
    assert_eq!(noted_again, [2]);
    assert!(read(&mut testbed.ha, true).is_empty(), "a home agent does not count");
}
