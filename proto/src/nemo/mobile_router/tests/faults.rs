//! Reports of signalling or a path that does not work, and black holes of the path MTU.

use super::*;
use crate::contract::report::{HostReport, NemoReport, Report};
use crate::contract::view::FaultKind;
use roam6_wire::icmp6::Echo;

const HOME_AGENT: &str = "2001:db8::1";
const CARE_OF: &str = "2001:db8:1::ff:fe00:2";

/// The path between the mobile router and its home agent.
#[derive(Clone, Copy)]
struct PathProperties {
    /// The home agent answers echo requests.
    echo: bool,
    /// Tunnelled packets are not filtered.
    tunnel: bool,
    /// Largest packet, octets; larger ones are lost without a Packet Too Big.
    mtu: usize,
    /// Status of the acknowledgements; `None` if updates are not answered.
    status: Option<Status>,
}

const GOOD: PathProperties = PathProperties { echo: true, tunnel: true, mtu: 1500, status: Some(Status::ACCEPTED) };

impl TestBed {
    /// Advances the time to `millis`, with the home agent behind a path of these properties.
    fn run(&mut self, millis: u64, properties: PathProperties) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some(next) = self.router.deadline().filter(|next| *next <= at(millis)) {
            self.now = self.now.max(next);
            let mut todo = self.feed(Input::Tick);
            while !todo.is_empty() {
                let round = std::mem::take(&mut todo);
                for answer in self.answers(&round, properties) {
                    todo.extend(self.feed(answer));
                }
                for update in updates(&round) {
                    outputs.push(Output::Report(Report::Host(HostReport::Notice {
                        text: format!("{:?}", update.message.options),
                    })));
                    if let Some(status) = properties.status {
                        todo.extend(self.acknowledge(&update, status));
                    }
                }
                outputs.extend(round);
            }
        }
        self.now = at(millis);
        outputs
    }

    /// The echo replies to what was sent, and acknowledgements.
    fn answers(&mut self, outputs: &[Output], properties: PathProperties) -> Vec<Input> {
        let mut answers = Vec::new();
        for transmit in transmits(outputs).into_iter().filter(|transmit| transmit.bytes.len() <= properties.mtu) {
            let outer = Datagram::parse(&transmit.bytes).unwrap();
            let tunnelled = outer.protocol == protocol::IPV6;
            let inner = if tunnelled { Datagram::parse(outer.payload).unwrap() } else { outer.clone() };
            let passes = if tunnelled { properties.tunnel } else { properties.echo };
            if let Ok(icmp6::Message::EchoRequest(echo)) = icmp6::Message::parse(&inner)
                && passes
            {
                answers.push(reply(echo, inner.source));
            }
        }
        answers
    }

    fn seen(&self) -> View {
        let mut view = View::default();
        self.router.view(self.now, &mut view);
        view
    }
}

fn reply(echo: Echo, to: Ipv6Addr) -> Input {
    let from = ip(HOME_AGENT);
    let message = icmp6::Message::EchoReply(echo).emit(from, to);
    let bytes = ip6::emit(&Header::new(from, to), protocol::ICMPV6, &message);
    Input::Packet(Packet { link: WIFI, sender: None, bytes })
}

fn faults(outputs: &[Output]) -> Vec<String> {
    let is_fault = |report: &&&Report| {
        matches!(report, Report::Nemo(NemoReport::Fault { .. }) | Report::Nemo(NemoReport::FaultCleared { .. }))
    };
    reports(outputs).iter().filter(is_fault).map(ToString::to_string).collect()
}

/// On the Wi-Fi with probes, its first update sent and not answered yet.
fn begun(mode: PrefixMode) -> (TestBed, Update) {
    let mut bench =
        TestBed::new(MobileRouterConfig { probe: Some(config::ProbeConfig::default()), prefix_mode: mode, ..config() });
    bench.link(WIFI, true);
    let update = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    (bench, update)
}

fn registered() -> TestBed {
    let (mut bench, update) = begun(PrefixMode::Implicit);
    bench.acknowledge(&update, Status::ACCEPTED);
    bench
}

#[test]
fn uplink_is_visited_only_once_acknowledged() {
    let (mut bench, update) = begun(PrefixMode::Implicit);
    assert_eq!(bench.seen().links[0].state.as_str(), "registering");
    bench.acknowledge(&update, Status::ACCEPTED);
    assert_eq!(bench.seen().links[0].state.as_str(), "visited");
}

#[test]
fn unanswered_updates_and_recovery_are_reported_once() {
    let (mut bench, _) = begun(PrefixMode::Implicit);
    let outputs = bench.run(100_000, PathProperties { status: None, ..GOOD });
    let [fault] = &faults(&outputs)[..] else { panic!("{:?}", faults(&outputs)) };
    assert!(fault.contains("pings are") && fault.contains("protocol 135"), "{fault}");
    let view = bench.seen();
    assert!(view.bindings[0].last_error.as_ref().is_some_and(|error| error.contains("protocol 135")));
    assert!(view.bindings[0].error_age.is_some_and(|since| since > Duration::from_secs(90)));
    assert_eq!(view.links[0].last_error, view.bindings[0].last_error);
    assert_eq!(view.bindings[0].fault, Some(FaultKind::UnansweredPinged));

    let outputs = bench.run(200_000, GOOD);
    let [fault] = &faults(&outputs)[..] else { panic!("{:?}", faults(&outputs)) };
    assert!(fault.contains("works again"), "{fault}");
    assert_eq!(bench.seen().bindings[0].last_error, None);
}

#[test]
fn unanswered_updates_and_probes_mean_unreachable() {
    let (mut bench, _) = begun(PrefixMode::Implicit);
    let outputs = bench.run(20_000, PathProperties { echo: false, status: None, ..GOOD });
    let [fault] = &faults(&outputs)[..] else { panic!("{:?}", faults(&outputs)) };
    assert!(fault.contains("unreachable"), "{fault}");
    assert_eq!(bench.seen().bindings[0].fault, Some(FaultKind::Unreachable));
}

#[test]
fn icmp_error_about_updates_is_reported() {
    let (mut bench, update) = begun(PrefixMode::Implicit);
    let header = Header::new(update.source, update.home_agent).with_home_address(ip("2001:db8::100"));
    let invoking = ip6::emit(&header, protocol::MOBILITY, &[0; 40]);
    let router = ip("2001:db8:99::1");
    let message = icmp6::Message::DestinationUnreachable { code: 1, invoking }.emit(router, update.source);
    let bytes = ip6::emit(&Header::new(router, update.source), protocol::ICMPV6, &message);
    let outputs = bench.feed(Input::Packet(Packet { link: WIFI, sender: Some(ROUTER_MAC), bytes }));
    let [fault] = &faults(&outputs)[..] else { panic!("{:?}", faults(&outputs)) };
    assert!(fault.contains("2001:db8:99::1 says: administratively prohibited"), "{fault}");
    assert_eq!(bench.seen().bindings[0].fault, Some(FaultKind::Prohibited));
}

#[test]
fn acknowledgement_with_wrong_key_is_reported() {
    let (mut bench, update) = begun(PrefixMode::Implicit);
    let home = bench.router.config.home_address;
    let message = mobility::Message::BindingAcknowledgement(BindingAcknowledgement {
        status: Status::AUTHENTICATION_FAILED,
        flags: AckFlags::ROUTER,
        sequence: update.message.sequence,
        lifetime_units: 0,
        options: vec![MobilityOption::ReplayProtection(0)],
    });
    let care_of = CareOfAddress(update.source);
    let payload = message
        .emit_authenticated(update.home_agent, home.0, 256, |part| authenticate(b"another key", care_of, home, part));
    let header = Header::new(update.home_agent, update.source).with_routing_home(home.0);
    let bytes = ip6::emit(&header, protocol::MOBILITY, &payload);
    let outputs = bench.feed(Input::Packet(Packet { link: WIFI, sender: Some(ROUTER_MAC), bytes }));
    let [fault] = &faults(&outputs)[..] else { panic!("{:?}", faults(&outputs)) };
    assert!(fault.contains("146 (authentication failed)") && fault.contains("key_file"), "{fault}");
    assert_eq!(bench.seen().bindings[0].fault, Some(FaultKind::NotVerified));
}

#[test]
fn filtered_tunnel_is_distinguished_from_dead_path() {
    let mut bench = registered();
    let outputs = bench.run(5_000, PathProperties { tunnel: false, ..GOOD });
    let [fault] = &faults(&outputs)[..] else { panic!("{:?}", faults(&outputs)) };
    assert!(fault.contains("protocol 41"), "{fault}");
    assert!(bench.seen().links[0].last_error.as_ref().is_some_and(|error| error.contains("protocol 41")));
    assert_eq!(bench.seen().links[0].fault, Some(FaultKind::TunnelSilent));
    let outputs = bench.run(60_000, GOOD);
    assert!(faults(&outputs).iter().any(|fault| fault.contains("works again")), "{:?}", faults(&outputs));

    let mut bench = registered();
    bench.run(5_000, GOOD);
    let outputs = bench.run(7_000, PathProperties { echo: false, tunnel: false, status: None, ..GOOD });
    assert!(faults(&outputs).iter().all(|fault| !fault.contains("protocol 41")), "{:?}", faults(&outputs));
}

#[test]
fn rejected_prefixes_are_not_shown_as_registered() {
    let (mut bench, update) = begun(PrefixMode::Explicit);
    let outputs = bench.acknowledge(&update, Status::NOT_AUTHORISED_FOR_PREFIX);
    let [fault] = &faults(&outputs)[..] else { panic!("{:?}", faults(&outputs)) };
    assert!(fault.contains("142 (not authorised for prefix)") && fault.contains("2001:db8:f00::/56"), "{fault}");
    assert_eq!((bench.seen().bindings[0].state.as_str(), bench.seen().links[0].state.as_str()), ("refused", "refused"));
    bench.run(10_000, GOOD);
    let binding = &bench.seen().bindings[0];
    assert_eq!(binding.state.as_str(), "bound", "in implicit mode");
    assert_eq!((binding.prefixes.len(), &binding.refused_prefixes[..]), (0, &[net("2001:db8:f00::/56")][..]));
    assert!(binding.last_error.as_ref().is_some_and(|error| error.contains("142")));
    assert_eq!((binding.fault.clone(), binding.fault_status), (Some(FaultKind::Refused), Some(142)));
}

#[test]
fn path_mtu_black_hole_is_found_and_sent_in_update() {
    let mut bench = registered();
    bench.run(1_000, GOOD);
    assert_eq!(bench.tunnel().unwrap().paths[0].mtu, 1460);

    let mut bench = registered();
    let narrow = PathProperties { mtu: 1400, ..GOOD };
    bench.run(2_500, narrow);
    assert_eq!(bench.tunnel().unwrap().paths[0].mtu, 1240, "clamped at once");
    let outputs = bench.run(15_000, narrow);
    assert_eq!(bench.tunnel().unwrap().paths[0].mtu, 1360, "then found to the octet");
    let found = Report::Nemo(NemoReport::PathMtu { remote: ip(HOME_AGENT), mtu: 1400 });
    assert!(reports(&outputs).contains(&&found));
    let option = format!("{:?}", MobilityOption::PathMtu { bid: Bid(0), mtu: 1400 });
    let names_option =
        |report: &&&Report| matches!(report, Report::Host(HostReport::Notice { text }) if text.contains(&option));
    assert_eq!(reports(&outputs).iter().filter(names_option).count(), 1);

    // A movement to another network restarts the search.
    bench.advertise(WIFI, "2001:db8:5::/64");
    assert!(bench.tunnel().unwrap().paths.iter().all(|path| path.local == ip(CARE_OF) || path.mtu == 1460));
}

#[test]
fn sequence_number_that_we_have_not_sent_is_of_another_router() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let first = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    let fault = |bench: &TestBed| {
        let mut view = View::default();
        bench.router.show(bench.now, &mut view);
        view.bindings.first().and_then(|row| row.fault.clone())
    };
    let refuse = |bench: &mut TestBed, update: &Update| {
        let last = Sequence(update.message.sequence.0.wrapping_add(50));
        let status = Status::SEQUENCE_OUT_OF_WINDOW;
        super::update(&bench.acknowledge_with(update, status, AckFlags::ROUTER, last, Vec::new()))
    };
    let again = refuse(&mut bench, &first);
    bench.acknowledge(&again, Status::ACCEPTED);
    for turn in 1..=2 {
        assert_eq!(fault(&bench), None, "turn {turn}; the first update may be one after a loss of state");
        let refresh = updates(&bench.wait(turn * 50_000)).pop().unwrap();
        let again = refuse(&mut bench, &refresh);
        bench.acknowledge(&again, Status::ACCEPTED);
    }
    assert_eq!(fault(&bench), Some(FaultKind::Stolen));
}
