//! A home agent that has lost the binding, is down, or is unreachable for a while.

use super::*;
use crate::contract::config::nemo::ProbeConfig;
use crate::contract::input::{LinkTraffic, TrafficCount};
use roam6_wire::icmp6::Echo;
use std::collections::{BTreeMap, BTreeSet};

const FIRST: &str = "2001:db8::1";
const SECOND: &str = "2001:db8::2";
const ROUND_TRIP: u64 = 40;

fn settings(home_agents: &[&str]) -> MobileRouterConfig {
    MobileRouterConfig {
        home_agents: home_agents.iter().map(|address| ip(address)).collect(),
        lifetime: Duration::from_secs(600),
        probe: Some(ProbeConfig::default()),
        ..config()
    }
}

/// Home agents that answer echo requests and updates after 40 ms, as long as they run.
struct Net {
    bench: TestBed,
    dead: BTreeSet<Ipv6Addr>,
    /// Hosts that answer echo requests, but run no home agent.
    mute: BTreeSet<Ipv6Addr>,
    bound: BTreeMap<Ipv6Addr, bool>,
    /// The uplink drops all packets.
    hole: bool,
    arriving: Vec<(u64, Vec<u8>)>,
    updates: Vec<(u64, Update)>,
    reports: Vec<(u64, Report)>,
}

impl Net {
    fn new(config: MobileRouterConfig) -> Net {
        let mut net = Net {
            bench: TestBed::new(config),
            dead: BTreeSet::new(),
            mute: BTreeSet::new(),
            bound: BTreeMap::new(),
            hole: false,
            arriving: Vec::new(),
            updates: Vec::new(),
            reports: Vec::new(),
        };
        net.bench.link(LAN, true);
        let mut outputs = net.bench.link(WIFI, true);
        outputs.extend(net.bench.advertise(WIFI, "2001:db8:1::/64"));
        net.note(outputs);
        net
    }

    fn millis(&self) -> u64 {
        self.bench.now.as_micros() / 1000
    }

    fn note(&mut self, outputs: Vec<Output>) {
        let now = self.millis();
        self.reports.extend(reports(&outputs).into_iter().map(|report| (now, report.clone())));
        self.updates.extend(updates(&outputs).into_iter().map(|update| (now, update)));
        for transmit in transmits(&outputs) {
            if let Some(answer) = self.answer(&transmit.bytes).filter(|_| !self.hole) {
                self.arriving.push((now + ROUND_TRIP, answer));
            }
        }
    }

    /// The answer of the home agent a packet is for.
    fn answer(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let datagram = Datagram::parse(bytes).unwrap();
        let agent = datagram.destination;
        if self.dead.contains(&agent) || ![ip(FIRST), ip(SECOND)].contains(&agent) {
            return None;
        }
        match datagram.protocol {
            protocol::IPV6 => {
                self.bound.get(&agent).filter(|bound| **bound)?;
                let inner = echo_reply(&Datagram::parse(datagram.payload).unwrap())?;
                Some(ip6::encapsulate(&Header::new(agent, datagram.source), &inner))
            }
            protocol::ICMPV6 => echo_reply(&datagram),
            protocol::MOBILITY if !self.mute.contains(&agent) => {
                let update = updates(&[Output::Transmit(Transmit { via: Via::Link(WIFI), bytes: bytes.to_vec() })]);
                self.acknowledge(&update[0])
            }
            _ => None,
        }
    }

    fn acknowledge(&mut self, update: &Update) -> Option<Vec<u8>> {
        self.bound.insert(update.home_agent, update.message.lifetime_units > 0);
        let home = self.bench.router.config.home_address;
        let message = mobility::Message::BindingAcknowledgement(BindingAcknowledgement {
            status: Status::ACCEPTED,
            flags: AckFlags::ROUTER,
            sequence: update.message.sequence,
            lifetime_units: update.message.lifetime_units,
            options: update.timestamp().map(MobilityOption::ReplayProtection).into_iter().collect(),
        });
        let care_of = CareOfAddress(update.source);
        let payload =
            message.emit_authenticated(update.home_agent, home.0, 256, |part| authenticate(&KEY, care_of, home, part));
        let header = Header::new(update.home_agent, update.source).with_routing_home(home.0);
        Some(ip6::emit(&header, protocol::MOBILITY, &payload))
    }

    fn wait(&mut self, millis: u64) {
        let until = self.millis() + millis;
        loop {
            let due = self.arriving.iter().map(|(at, _)| *at).min().filter(|at| *at <= until);
            let tick = self.bench.router.deadline().filter(|next| *next <= at(due.unwrap_or(until)));
            if let Some(next) = tick {
                self.bench.now = self.bench.now.max(next);
                let outputs = self.bench.feed(Input::Tick);
                self.note(outputs);
            } else if let Some(due) = due {
                self.bench.now = self.bench.now.max(at(due));
                let first = self.arriving.iter().position(|(at, _)| *at == due).unwrap();
                let (_, bytes) = self.arriving.remove(first);
                if !self.hole {
                    let outputs = self.bench.feed(Input::Packet(Packet { link: WIFI, sender: None, bytes }));
                    self.note(outputs);
                }
            } else {
                self.bench.now = at(until);
                return;
            }
        }
    }

    /// The far end of the tunnel.
    fn remote(&self) -> Option<Ipv6Addr> {
        self.bench.tunnel()?.paths.first().map(|path| path.remote)
    }

    fn named(&self, name: &str, since: u64) -> Vec<u64> {
        let found = self.reports.iter().filter(|(at, report)| *at >= since && report.name() == name);
        found.map(|(at, _)| *at).collect()
    }

    fn updates_since(&self, since: u64) -> usize {
        self.updates.iter().filter(|(at, _)| *at >= since).count()
    }
}

fn echo_reply(request: &Datagram<'_>) -> Option<Vec<u8>> {
    let Ok(icmp6::Message::EchoRequest(Echo { identifier, sequence, data })) = icmp6::Message::parse(request) else {
        return None;
    };
    let reply = icmp6::Message::EchoReply(Echo { identifier, sequence, data });
    let (source, destination) = (request.destination, request.source);
    Some(ip6::emit(&Header::new(source, destination), protocol::ICMPV6, &reply.emit(source, destination)))
}

#[test]
fn lost_binding_is_restored_within_a_second() {
    let mut net = Net::new(settings(&[FIRST]));
    net.wait(20_000);
    assert_eq!(net.updates.len(), 1);
    net.bound.clear();
    let lost = net.millis();
    net.wait(1_000);
    assert_eq!(net.bound.get(&ip(FIRST)), Some(&true));
    assert_eq!(net.updates_since(lost), 1);
    net.wait(20_000);
    assert_eq!(net.updates_since(lost), 1, "one was enough");
}

#[test]
fn dead_home_agent_is_replaced_within_two_seconds() {
    for early in [5_000, 100_000] {
        let mut net = Net::new(settings(&[FIRST, SECOND]));
        net.wait(early);
        net.dead.insert(ip(FIRST));
        let died = net.millis();
        net.wait(1_200);
        assert_eq!(net.remote(), Some(ip(SECOND)), "two seconds less the second of its duplicate address detection");
        assert_eq!(net.bound.get(&ip(SECOND)), Some(&true));
        assert_eq!((net.named("unbound", died).len(), net.named("bound", died).len()), (1, 1));
        net.wait(30_000);
        net.dead.clear();
        let back = net.millis();
        net.wait(120_000);
        assert_eq!(net.remote(), Some(ip(SECOND)));
        assert_eq!(net.named("bound", back), Vec::<u64>::new(), "the binding does not move back");
        assert_eq!(net.bound.get(&ip(FIRST)), Some(&false), "it was sent a de-registration");
        let deregistrations =
            net.updates.iter().filter(|(at, update)| *at > back && update.home_agent == ip(FIRST)).count();
        assert_eq!(deregistrations, 1, "not repeated after the answer");
    }
}

/// A path that was silent, and whose damping has not ended.
fn recovering(agents: &[&str]) -> Net {
    let mut net = Net::new(settings(agents));
    net.wait(10_000);
    net.hole = true;
    net.wait(2_000);
    net.hole = false;
    net.wait(500);
    assert_eq!(net.named("path_up", 10_000), Vec::<u64>::new(), "some answers, but not enough");
    net
}

#[test]
fn home_agent_that_dies_while_path_recovers_is_replaced() {
    let mut net = recovering(&[FIRST, SECOND]);
    net.dead.insert(ip(FIRST));
    net.wait(3_000);
    assert_eq!(net.remote(), Some(ip(SECOND)));
    assert_eq!(net.bound.get(&ip(SECOND)), Some(&true));
}

#[test]
fn binding_lost_while_path_recovers_is_restored() {
    let mut net = recovering(&[FIRST]);
    net.bound.clear();
    net.wait(3_000);
    assert_eq!(net.bound.get(&ip(FIRST)), Some(&true));
}

/// No home agent answers: the uplink is at fault.
#[test]
fn uplink_without_coverage_does_not_change_home_agent() {
    for hole in [1_500, 4_000, 15_000, 60_000] {
        let mut net = Net::new(settings(&[FIRST, SECOND]));
        net.wait(10_000);
        net.hole = true;
        let began = net.millis();
        net.wait(hole);
        assert!(net.updates_since(began) <= 4 + usize::try_from(hole / 6_000).unwrap(), "{}", net.updates_since(began));
        assert_eq!(net.remote(), Some(ip(FIRST)));
        net.hole = false;
        let over = net.millis();
        net.wait(30_000);
        assert_eq!(net.remote(), Some(ip(FIRST)), "after {hole} ms");
        let others = net.updates.iter().filter(|(_, update)| update.home_agent != ip(FIRST)).count();
        assert!(others <= if hole > 30_000 { 2 } else { 0 }, "{others} after {hole} ms");
        let up = net.named("path_up", over).first().copied().unwrap();
        assert!(up <= over + 1_500, "{up} {over}");
    }
}

/// The uplink comes back, and the home agent has lost the binding meanwhile.
#[test]
fn lost_binding_is_restored_at_once_after_an_outage() {
    for hole in [5_000, 60_000] {
        let mut net = Net::new(settings(&[FIRST]));
        net.wait(10_000);
        net.hole = true;
        net.wait(hole);
        net.bound.clear();
        net.hole = false;
        net.wait(1_000);
        assert_eq!(net.bound.get(&ip(FIRST)), Some(&true), "after {hole} ms");
    }
}

/// The binding has expired, and every home agent would be tried in turn.
#[test]
fn binding_expired_in_an_outage_is_registered_as_soon_as_packets_pass() {
    for hole in (41_000..110_000).step_by(500) {
        let mut net = Net::new(MobileRouterConfig { lifetime: Duration::from_secs(40), ..settings(&[FIRST, SECOND]) });
        net.wait(10_000);
        net.hole = true;
        net.wait(hole);
        net.hole = false;
        net.wait(1_000);
        assert!(net.bench.router.registration.binding().is_some(), "after {hole} ms");
    }
}

#[test]
fn alternate_that_answers_echo_only_is_abandoned() {
    let mut net = Net::new(settings(&[FIRST, SECOND]));
    net.mute.insert(ip(SECOND));
    net.wait(10_000);
    net.dead.insert(ip(FIRST));
    net.wait(10_000);
    assert!(net.updates.iter().any(|(_, update)| update.home_agent == ip(SECOND)), "it was tried");
    assert_eq!(net.remote(), Some(ip(FIRST)), "no other home agent has replaced it");
    net.dead.clear();
    net.wait(4_000);
    assert!(net.bench.router.is_reachable());
    assert_eq!(net.remote(), Some(ip(FIRST)));
}

/// The same before the first binding.
#[test]
fn home_agent_dead_at_start_is_skipped() {
    let mut config = settings(&[FIRST, SECOND]);
    config.load_sharing = LoadSharing::Standby;
    let mut net = Net::new(config);
    net.arriving.clear();
    net.bound.clear();
    net.dead.insert(ip(FIRST));
    net.wait(2_000);
    assert_eq!(net.remote(), Some(ip(SECOND)));
}

#[test]
fn address_formed_after_silent_path_is_registered_again() {
    let mut net = Net::new(settings(&[FIRST]));
    net.wait(10_000);
    net.hole = true;
    net.wait(5_000);
    let event = NeighbourEvent { link: WIFI, address: ip("fe80::1"), link_address: None, reachable: false };
    let outputs = net.bench.feed(Input::Neighbour(event));
    net.note(outputs);
    net.wait(1_000);
    net.hole = false;
    let back = net.millis();
    let outputs = net.bench.advertise(WIFI, "2001:db8:1::/64");
    net.note(outputs);
    assert_eq!(net.updates_since(back), 1, "at once");
}

/// An error that quotes a packet of the tunnel from the care-of address to `home_agent`.
fn unreachable(net: &Net, home_agent: &str) -> Vec<u8> {
    let (router, care_of) = (ip("2001:db8:99::1"), net.updates[0].1.source);
    let inner = ip6::emit(&Header::new(ip("2001:db8:100::9"), ip("2001:db8:9::9")), protocol::UDP, &[0; 8]);
    let invoking = ip6::encapsulate(&Header::new(care_of, ip(home_agent)), &inner);
    let message = icmp6::Message::DestinationUnreachable { code: 3, invoking }.emit(router, care_of);
    ip6::emit(&Header::new(router, care_of), protocol::ICMPV6, &message)
}

/// Feeds such an error; the updates and probes that follow at once.
fn feed_unreachable(net: &mut Net, home_agent: &str) -> (usize, usize) {
    let (before, bytes) = (net.millis(), unreachable(net, home_agent));
    let outputs = net.bench.feed(Input::Packet(Packet { link: WIFI, sender: Some(ROUTER_MAC), bytes }));
    let is_probe = |transmit: &&&Transmit| {
        Datagram::parse(&transmit.bytes).is_ok_and(|datagram| datagram.protocol == protocol::IPV6)
    };
    let probes = transmits(&outputs).iter().filter(is_probe).count();
    net.note(outputs);
    (net.updates_since(before), probes)
}

/// Anybody can send one.
#[test]
fn icmp_error_is_a_hint_and_no_proof() {
    let idle = Some(Duration::from_secs(40));
    let probe = Some(ProbeConfig { standby: idle, idle, ..ProbeConfig::default() });
    let mut net = Net::new(MobileRouterConfig { probe, ..settings(&[FIRST, SECOND]) });
    net.wait(10_000);
    let count = LinkTraffic { link: WIFI, tx: TrafficCount::default(), rx: TrafficCount::default() };
    for _ in 0..3 {
        let outputs = net.bench.feed(Input::LinkTraffic(count));
        net.note(outputs);
        net.wait(6_000);
    }
    assert_eq!(feed_unreachable(&mut net, SECOND), (0, 0), "of another home agent");
    assert_eq!(feed_unreachable(&mut net, FIRST), (1, 1), "binding and path are asked");
    net.wait(1_000);
    assert_eq!(feed_unreachable(&mut net, FIRST), (0, 0), "not as often as errors come");
    net.wait(3_000);
    assert_eq!(feed_unreachable(&mut net, FIRST), (1, 1));
    net.wait(5_000);
    assert_eq!((net.remote(), net.named("path_down", 0).len()), (Some(ip(FIRST)), 0));
    // It is true, and noticed sooner than the next probe.
    net.dead.insert(ip(FIRST));
    feed_unreachable(&mut net, FIRST);
    net.wait(2_000);
    assert_eq!(net.remote(), Some(ip(SECOND)));
}

/// A path that is probed at its usual interval is tested by a burst, if something could take its place.
#[test]
fn icmp_error_tests_the_path_at_once() {
    let probe = Some(ProbeConfig { burst: true, ..ProbeConfig::default() });
    let mut net = Net::new(MobileRouterConfig { probe, ..settings(&[FIRST]) });
    net.wait(10_000);
    assert_eq!(feed_unreachable(&mut net, FIRST), (1, 0), "nothing could take its place");
    let mut net = Net::new(MobileRouterConfig { probe, ..settings(&[FIRST, SECOND]) });
    net.wait(10_000);
    assert_eq!(feed_unreachable(&mut net, FIRST), (1, 1));
    net.wait(5_000);
    assert_eq!((net.remote(), net.named("path_down", 0).len()), (Some(ip(FIRST)), 0), "it works");
    net.dead.insert(ip(FIRST));
    // The answers on the way.
    net.wait(50);
    let told = net.millis();
    feed_unreachable(&mut net, FIRST);
    net.wait(750);
    let down = net.named("path_down", told);
    assert!(down.first().is_some_and(|at| *at <= told + 150), "{down:?} after {told}");
    assert_eq!(net.remote(), Some(ip(SECOND)));
}
