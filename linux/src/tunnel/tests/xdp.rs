//! The same packets in the XDP program: it redirects and drops like the TC programs, and passes all else unchanged.

use super::*;

pub(super) const XDP_DROP: u32 = 1;
pub(super) const XDP_PASS: u32 = 2;
pub(super) const XDP_REDIRECT: u32 = 4;

/// Frames of test runs arrive on the loopback interface.
const LOOPBACK: LinkId = LinkId(1);

/// Redirected by the TC program only.
const PASSED_TO_TC: [&str; 4] = [
    "the encapsulation limit is taken off too",
    "tunnel in tunnel",
    "the tunnel of another",
    "options that may be skipped are taken off",
];

impl Fixture {
    /// What the XDP program does with it: verdict, packet and counter.
    fn xdp_expectation(&self) -> (u32, Option<&[u8]>, CounterChanges) {
        let counts = self.counter.map(str::to_owned);
        let as_it_came = (XDP_PASS, Some(self.packet.as_slice()), CounterChanges::new());
        match self.verdict {
            DROP => (XDP_DROP, None, self.counter_changes()),
            REDIRECT if self.mac_addresses.is_some() && !PASSED_TO_TC.contains(&self.description) => {
                (XDP_REDIRECT, self.out.as_deref(), counts.map(|name| (format!("{name}_xdp"), 1)).into_iter().collect())
            }
            _ => as_it_came,
        }
    }
}

pub(super) fn run(testbed: &mut TestHost, frame: &[u8]) -> (u32, Vec<u8>) {
    let mut out = vec![0; frame.len() + 256];
    let run = TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::new() };
    let result = testbed.tunnels.xdp_program_on(LOOPBACK).test_run(run).unwrap();
    out.truncate(result.data_size_out as usize);
    (result.return_value, out)
}

/// Makes the interface of next hops accept redirected frames.
pub(super) fn allow_xdp_redirect(testbed: &mut TestHost) {
    let up0 = LinkId(testbed.host.index("up0"));
    testbed.tunnels.xdp_program_on(up0);
}

/// Verdict, frame and increments: first decided, then from the cache.
pub(super) fn run_twice(testbed: &mut TestHost, frame: &[u8]) -> [(u32, Vec<u8>, CounterChanges); 2] {
    testbed.tunnels.invalidate_next_hops().unwrap();
    [(); 2].map(|()| {
        let before = testbed.tunnels.counters();
        let (verdict, out) = run(testbed, frame);
        let after =
            testbed.tunnels.counters().into_iter().map(|(name, count)| (count - before.get(&name).unwrap(), name));
        let moves = after.filter(|(count, _)| *count > 0).map(|(count, name)| (name, count)).collect();
        (verdict, out, moves)
    })
}

/// Fails unless a frame has this verdict twice, with this counter and, if given, this frame afterwards. Returns the frames.
pub(super) fn expect(
    testbed: &mut TestHost,
    says: &str,
    frame: &[u8],
    (verdict, counter): (u32, Option<&str>),
    out: Option<&[u8]>,
) -> [Vec<u8>; 2] {
    let moves: CounterChanges = counter.into_iter().map(|name| (name.to_owned(), 1)).collect();
    let fits = |seen: &[(u32, Vec<u8>, CounterChanges); 2]| seen.iter().all(|seen| seen.2 == moves);
    let seen = (0..TRIES).map(|_| run_twice(testbed, frame)).find(fits);
    assert!(seen.is_some(), "{says}: not counted so: {moves:?}");
    seen.unwrap().map(|(seen, after, _)| {
        assert_eq!(seen, verdict, "{says}");
        if let Some(out) = out {
            assert_eq!(after, out, "{says}");
        }
        after
    })
}

#[test]
fn xdp_gives_each_packet_the_same_verdict_as_tc() {
    let mut testbed = testbed_or_skip!("xdp_gives_each_packet_the_same_verdict_as_tc");
    allow_xdp_redirect(&mut testbed);
    for fixture in encapsulation_cases().into_iter().chain(decapsulation_cases()).chain(ecn_cases()) {
        let (verdict, packet, moves) = fixture.xdp_expectation();
        let is_expected = |seen: &[(u32, Vec<u8>, CounterChanges); 2]| seen.iter().all(|seen| seen.2 == moves);
        // As in `TestHost::run_counted`.
        let seen = (0..TRIES).map(|_| run_twice(&mut testbed, &frame(&fixture.packet))).find(is_expected);
        for (seen, out, _) in seen.unwrap_or_else(|| panic!("{}: not counted so: {moves:?}", fixture.description)) {
            assert_eq!(seen, verdict, "{}", fixture.description);
            let Some(packet) = packet else { continue };
            assert_eq!(without_label(&out[14..]), without_label(packet), "{}", fixture.description);
            if verdict == XDP_REDIRECT {
                assert_eq!(
                    (&out[..12], &out[12..14]),
                    (&TO_NEXT_HOP[..], &[0x86, 0xdd][..]),
                    "{}",
                    fixture.description
                );
            }
        }
    }
}

#[test]
fn xdp_passes_packets_whose_egress_cannot_transmit_frames() {
    let mut testbed = testbed_or_skip!("xdp_passes_packets_whose_egress_cannot_transmit_frames");
    for packet in [Ip::udp(CN, MNN), Ip::udp(MNN, CN).within(COA, HA)] {
        assert_eq!(run(&mut testbed, &frame(&packet.0)), (XDP_PASS, frame(&packet.0)));
    }
    allow_xdp_redirect(&mut testbed);
    assert_eq!(run(&mut testbed, &frame(&Ip::udp(CN, MNN).0)).0, XDP_REDIRECT);
}

#[test]
fn xdp_passes_frames_for_other_hosts() {
    let mut testbed = testbed_or_skip!("xdp_passes_frames_for_other_hosts");
    allow_xdp_redirect(&mut testbed);
    let ours = frame(&Ip::udp(CN, MNN).0);
    let mut others = ours.clone();
    others[5] = 1;
    let mut tagged = ours.clone();
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    for packet in [others, tagged] {
        assert_eq!(run(&mut testbed, &packet), (XDP_PASS, packet));
    }
    assert_eq!(run(&mut testbed, &ours).0, XDP_REDIRECT);
}

#[test]
fn truncated_frames_are_handled_by_xdp() {
    let mut testbed = testbed_or_skip!("truncated_frames_are_handled_by_xdp");
    allow_xdp_redirect(&mut testbed);
    for packet in [Ip::udp(CN, MNN), Ip::udp(MNN, CN).within(COA, HA)] {
        let whole = frame(&packet.0);
        for length in 14..whole.len() {
            run(&mut testbed, &whole[..length]);
        }
        assert_eq!(run(&mut testbed, &whole).0, XDP_REDIRECT);
    }
}
