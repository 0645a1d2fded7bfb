//! A path that stops to carry packets is found by its traffic, sooner than by probes at intervals.

use super::bonding::bonded_flow;
use super::mcoa::{ON_CELL, both, probes, sharing};
use super::*;
use crate::contract::config::nemo::ProbeConfig;
use crate::contract::input::TrafficCount;
use crate::contract::item::TunnelId;
use crate::{PathTraffic, PathTrafficQuery};

fn config() -> MobileRouterConfig {
    let probe = ProbeConfig { burst: true, ..ProbeConfig::default() };
    MobileRouterConfig { probe: Some(probe), lifetime: Duration::from_secs(600), ..sharing(LoadSharing::Standby) }
}

/// Traffic of the first path: packets each way so many milliseconds apart, from `from` on.
#[derive(Clone, Copy)]
struct Traffic {
    from: u64,
    spacing: u64,
    /// Nothing is received from then on.
    cut: u64,
    /// Nothing is sent from then on.
    end: u64,
    /// Delay of replies to probes by the first path after the cut; `None` if there are none.
    queue: Option<u64>,
}

const ROUND_TRIP: u64 = 50;

impl Traffic {
    /// The time of the last of the packets before `until`, and their number.
    fn last(&self, now: u64, until: u64) -> (Option<u64>, u64) {
        let until = now.min(until);
        let count = if until < self.from { 0 } else { (until - self.from) / self.spacing + 1 };
        (count.checked_sub(1).map(|last| self.from + last * self.spacing), count)
    }

    fn at(&self, now: u64, bid: u16) -> PathTraffic {
        let (sent, sent_count) = self.last(now, self.end);
        let (received, received_count) = self.last(now, self.cut.min(self.end));
        let unanswered =
            sent.filter(|sent| Some(*sent) > received).map(|_| received.map_or(self.from, |at| at + self.spacing));
        let used = bid == 1;
        let time = |millis: Option<u64>| millis.filter(|_| used).map(at);
        let count = |packets| TrafficCount { packets: if used { packets } else { 0 }, octets: 0 };
        PathTraffic {
            tunnel: TunnelId(1),
            bid: Bid(bid),
            last_sent: time(sent),
            last_received: time(received),
            unanswered_since: time(unanswered),
            tx: count(sent_count),
            rx: count(received_count),
        }
    }
}

impl TestBed {
    /// Advances the time to `millis` with this traffic. Probes by the first path are answered until the cut.
    fn pass(&mut self, millis: u64, traffic: Traffic) -> Vec<Output> {
        let mut outputs = Vec::new();
        loop {
            let next = self.router.deadline().map_or(millis, |next| next.as_micros().div_ceil(1000));
            let next = self.replies.iter().map(|(at, _)| *at).min().map_or(next, |reply| reply.min(next));
            if next >= millis {
                break;
            }
            self.now = self.now.max(at(next));
            let now = self.now.as_micros() / 1000;
            let mut round = self.feed(Input::Tick);
            let (due, later): (Vec<_>, _) = self.replies.drain(..).partition(|(at, _)| *at <= now);
            self.replies = later;
            for (_, echo) in due {
                let (home_agent, home) = (ip("2001:db8::1"), ip("2001:db8::100"));
                let reply = icmp6::Message::EchoReply(echo).emit(home_agent, home);
                let bytes = ip6::emit(&Header::new(home_agent, home), protocol::ICMPV6, &reply);
                round.extend(self.feed(Input::Packet(Packet { link: LAN, sender: None, bytes })));
            }
            let query =
                |output: &Output| if let Output::PathTrafficQuery(query) = output { Some(*query) } else { None };
            if round.iter().find_map(query).is_some() {
                for bid in [1, 2] {
                    round.extend(self.feed(Input::PathTraffic(traffic.at(now, bid))));
                }
            }
            for (echo, _) in probes(&round) {
                let queue = if echo.identifier == 2 || now < traffic.cut { Some(0) } else { traffic.queue };
                self.replies.extend(queue.map(|queue| (now + ROUND_TRIP + queue, echo)));
            }
            for update in updates(&round) {
                outputs.extend(self.acknowledge(&update, Status::ACCEPTED));
            }
            outputs.extend(round);
        }
        self.now = at(millis);
        outputs
    }

    /// When, after the cut, the second path is used; probes and readings until then.
    fn leaves(&mut self, traffic: Traffic) -> (u64, Vec<Output>) {
        let mut outputs = Vec::new();
        for after in 1..2000 {
            outputs.extend(self.pass(traffic.cut + after, traffic));
            if self.paths()[0].0 == ip(ON_CELL) {
                return (after, outputs);
            }
        }
        panic!("never");
    }
}

const NEVER: u64 = u64::MAX;

fn count(outputs: &[Output], bid: u16) -> usize {
    probes(outputs).iter().filter(|(echo, _)| echo.identifier == bid).count()
}

#[test]
fn path_from_which_nothing_comes_back_is_left_at_once() {
    for spacing in [1, 10, 20] {
        let mut bench = both(config());
        let cut = 30_000;
        let traffic = Traffic { from: 10_000, spacing, cut, end: NEVER, queue: None };
        bench.pass(cut, traffic);
        assert_ne!(bench.paths()[0].0, ip(ON_CELL));
        let (after, _) = bench.leaves(traffic);
        assert!((80..=spacing * 3 + 115).contains(&after), "{spacing} ms: {after} ms");
    }
}

#[test]
fn queue_that_relayed_connections_fill_is_no_silence() {
    let with_bonding = || MobileRouterConfig { flows: vec![bonded_flow()], ..config() };
    let cut = 30_000;
    let queued = Traffic { from: 10_000, spacing: 10, cut, end: NEVER, queue: Some(100) };
    for (config, is_left) in [(config(), true), (with_bonding(), false)] {
        let mut bench = both(config);
        bench.pass(cut, queued);
        for after in (10..1000).step_by(10) {
            bench.pass(cut + after, queued);
            if bench.paths()[0].0 == ip(ON_CELL) {
                assert!(is_left, "after {after} ms");
                break;
            }
            assert!(!is_left || after < 500, "the counters of the path include its load");
        }
    }
    let mut bench = both(with_bonding());
    let silent = Traffic { queue: None, ..queued };
    bench.pass(cut, silent);
    let (after, _) = bench.leaves(silent);
    assert!((150..=300).contains(&after), "{after} ms");
}

#[test]
fn stream_that_stops_costs_a_few_probes() {
    let mut bench = both(config());
    let traffic = Traffic { from: 10_000, spacing: 10, cut: NEVER, end: 30_000, queue: None };
    bench.pass(29_900, traffic);
    let outputs = bench.pass(60_000, traffic);
    assert_ne!(bench.paths()[0].0, ip(ON_CELL));
    assert!((150..=170).contains(&count(&outputs, 1)), "{}", count(&outputs, 1));
    let queries = outputs.iter().filter(|output| matches!(output, Output::PathTrafficQuery(_))).count();
    assert!(queries < 60, "no readings without packets: {queries}");
    let idle = outputs
        .iter()
        .any(|output| matches!(output, Output::PathTrafficQuery(PathTrafficQuery { notify_sent: true, .. })));
    assert!(idle);
}

#[test]
fn first_packet_after_a_pause_tests_the_path() {
    let mut bench = both(config());
    bench.pass(20_000, Traffic { from: NEVER, spacing: 10, cut: NEVER, end: NEVER, queue: None });
    let traffic = Traffic { from: 20_000, spacing: 10, cut: 19_999, end: NEVER, queue: None };
    bench.feed(Input::PathTraffic(traffic.at(20_000, 1)));
    let (after, _) = bench.leaves(traffic);
    assert!((65..=95).contains(&after), "{after} ms");
}

/// Also if nothing has come by it since it failed last.
#[test]
fn path_that_fails_again_is_tested_again() {
    let mut bench = both(config());
    bench.pass(20_000, Traffic { from: NEVER, spacing: 10, cut: NEVER, end: NEVER, queue: None });
    let first = Traffic { from: 20_000, spacing: 10, cut: 19_999, end: 20_500, queue: None };
    bench.feed(Input::PathTraffic(first.at(20_000, 1)));
    bench.leaves(first);
    bench.probe(90_000, &[1, 2]);
    assert_ne!(bench.paths()[0].0, ip(ON_CELL), "used again");
    let again = PathTraffic { last_sent: Some(at(90_000)), ..first.at(90_000, 1) };
    let outputs = bench.feed(Input::PathTraffic(again));
    assert!(count(&outputs, 1) >= 1, "tested at once");
}

#[test]
fn path_without_a_substitute_is_not_left() {
    let mut bench = both(config());
    let traffic = Traffic { from: 10_000, spacing: 10, cut: 30_000, end: NEVER, queue: None };
    bench.pass(29_000, traffic);
    bench.link(CELL, false);
    let outputs = bench.pass(30_600, traffic);
    assert!(reports(&outputs).iter().all(|report| report.name() != "path_down"));
}

#[test]
fn data_plane_that_counts_nothing_is_asked_rarely() {
    let mut bench = both(config());
    let outputs = bench.probe(60_000, &[1, 2]);
    let queries = outputs.iter().filter(|output| matches!(output, Output::PathTrafficQuery(_))).count();
    assert!((3..=14).contains(&queries), "{queries}");
}
