//! Mobile prefix discovery: solicitations after the registration, and validation of advertisements.

use super::*;
use crate::contract::report::{DropReason, HostReport, NemoReport};

const HOUR: u64 = 3_600_000;
const HOME: &str = "2001:db8::/64";

/// The identifiers of the solicitations among `outputs`, each as RFC 6275 §6.7 requires.
fn solicited(outputs: &[Output]) -> Vec<u16> {
    let mut found = Vec::new();
    for transmit in transmits(outputs) {
        let datagram = Datagram::parse(&transmit.bytes).unwrap();
        if let Ok(icmp6::Message::MobilePrefixSolicitation { identifier }) = icmp6::Message::parse(&datagram) {
            assert_eq!((datagram.home_address, datagram.destination), (Some(ip("2001:db8::100")), ip("2001:db8::1")));
            assert_eq!(datagram.source, ip("2001:db8:1::ff:fe00:2"));
            found.push(identifier);
        }
    }
    found
}

impl TestBed {
    /// Registers; returns the identifier of the first solicitation.
    fn register(&mut self) -> u16 {
        self.link(WIFI, true);
        let outputs = self.advertise(WIFI, "2001:db8:1::/64");
        assert!(solicited(&outputs).is_empty(), "not before the registration");
        let outputs = self.acknowledge(&update(&outputs), Status::ACCEPTED);
        assert!(position(&outputs, "put Tunnel") < position(&outputs, "send 58"));
        let solicited = solicited(&outputs);
        assert_eq!(solicited.len(), 1, "{outputs:#?}");
        solicited[0]
    }

    /// The home agent advertises prefixes with these lifetimes in seconds, valid and preferred.
    fn advertise_prefixes(&mut self, identifier: u16, prefixes: &[(&str, u32, u32)]) -> Vec<Output> {
        self.advertise_from(ip("2001:db8::1"), identifier, prefixes)
    }

    fn advertise_from(&mut self, source: Ipv6Addr, identifier: u16, prefixes: &[(&str, u32, u32)]) -> Vec<Output> {
        let options = prefixes.iter().map(|(prefix, valid, preferred)| NeighbourOption::PrefixInformation {
            prefix: net(prefix),
            address: net(prefix).address(),
            on_link: true,
            autonomous: true,
            router_address: false,
            valid: *valid,
            preferred: *preferred,
        });
        let options = options.collect();
        let message = icmp6::Message::MobilePrefixAdvertisement { identifier, managed: false, other: false, options };
        let header = Header::new(source, ip("2001:db8:1::ff:fe00:2")).with_routing_home(ip("2001:db8::100"));
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, ip("2001:db8::100")));
        self.feed(Input::Packet(Packet { link: WIFI, sender: Some(ROUTER_MAC), bytes }))
    }

    /// The remaining valid lifetime of each home prefix in the view, seconds.
    fn valid(&self) -> Vec<(String, u64)> {
        let mut view = View::default();
        self.router.view(self.now, &mut view);
        let timers = view.timers.into_iter();
        timers
            .filter_map(|timer| {
                let prefix = timer.name.strip_prefix("home prefix ")?.strip_suffix(" valid")?.to_owned();
                Some((prefix, timer.remaining.as_secs()))
            })
            .collect()
    }

    /// Lets time pass; the home agent accepts each update. The solicitations that left.
    fn live(&mut self, until: u64) -> Vec<u16> {
        let mut found = Vec::new();
        while let Some(next) = self.router.deadline().filter(|next| *next <= at(until)) {
            self.now = self.now.max(next);
            let mut outputs = self.feed(Input::Tick);
            for update in updates(&outputs) {
                outputs.extend(self.acknowledge(&update, Status::ACCEPTED));
            }
            found.extend(solicited(&outputs));
            self.router_advertisement(WIFI, ip("fe80::1"), "2001:db8:1::/64", 1800);
        }
        self.now = at(until);
        found
    }
}

fn notices(outputs: &[Output]) -> Vec<&str> {
    reports(outputs)
        .into_iter()
        .filter_map(|report| match report {
            Report::Host(HostReport::Notice { text }) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn mobile_prefix_solicitation_is_sent_once_bound_and_daily() {
    let mut bench = TestBed::new(config());
    let identifier = bench.register();
    let outputs = bench.advertise_prefixes(identifier, &[(HOME, 2_592_000, 604_800), ("2001:db8:9::/64", 7200, 3600)]);
    let prefixes = vec![net(HOME), net("2001:db8:9::/64")];
    assert!(
        reports(&outputs)
            .contains(&&Report::Nemo(NemoReport::HomePrefixes { home_agent: ip("2001:db8::1"), prefixes }))
    );
    assert!(notices(&outputs).is_empty());
    assert_eq!(bench.valid(), [(HOME.to_owned(), 2_592_000), ("2001:db8:9::/64".to_owned(), 7200)]);
    assert!(bench.live(2_699_000).is_empty());
    assert_eq!(bench.live(2_702_000).len(), 1, "three quarters of the shortest lifetime are over");
}

#[test]
fn mobile_prefix_solicitation_backs_off() {
    let mut bench = TestBed::new(config());
    bench.register();
    let mut counts = Vec::new();
    for until in [2_999, 3_001, 8_999, 9_001, 20_999, 21_001, 44_999, 45_001, 10 * HOUR, 26 * HOUR] {
        counts.push(bench.live(until).len());
    }
    assert_eq!(counts, [0, 1, 0, 1, 0, 1, 0, 1, 0, 5]);
}

#[test]
fn unsolicited_mobile_prefix_advertisement_is_only_a_hint() {
    let mut bench = TestBed::new(config());
    let identifier = bench.register();
    let prefixes = [(HOME, 86_400, 86_400)];
    let stranger = bench.advertise_from(ip("2001:db8::2"), identifier, &prefixes);
    assert!(matches!(reports(&stranger)[..], [Report::Host(HostReport::Dropped { reason: DropReason::NotForUs, .. })]));
    let wrong = bench.advertise_prefixes(identifier.wrapping_add(1), &prefixes);
    assert!(matches!(reports(&wrong)[..], [Report::Host(HostReport::Dropped { reason: DropReason::Unsolicited, .. })]));
    assert!(bench.valid().is_empty() && solicited(&wrong).is_empty());
    bench.advertise_prefixes(identifier, &prefixes);
    bench.now = at(10_000);
    let unsolicited = bench.advertise_prefixes(identifier, &[(HOME, 0, 0)]);
    assert_eq!(solicited(&unsolicited).len(), 1, "it triggers a solicitation");
    assert_eq!(bench.valid()[0].1, 86_390);
}

#[test]
fn unauthenticated_advertisement_keeps_prefix_two_hours() {
    let mut bench = TestBed::new(config());
    let identifier = bench.register();
    bench.advertise_prefixes(identifier, &[(HOME, 86_400, 86_400)]);
    bench.now = at(10_000);
    let again = solicited(&bench.advertise_prefixes(0, &[]))[0];
    let outputs = bench.advertise_prefixes(again, &[(HOME, 60, 0)]);
    assert_eq!(bench.valid(), [(HOME.to_owned(), 7200)]);
    assert!(notices(&outputs)[0].contains("deprecated"), "{outputs:#?}");
    bench.now = at(20_000);
    let again = solicited(&bench.advertise_prefixes(0, &[]))[0];
    bench.advertise_prefixes(again, &[(HOME, 60, 0)]);
    assert_eq!(bench.valid()[0].1, 7190, "nor step by step");
    bench.now = at(30_000);
    let again = solicited(&bench.advertise_prefixes(0, &[]))[0];
    bench.advertise_prefixes(again, &[(HOME, 86_400, 86_400)]);
    assert_eq!(bench.valid()[0].1, 86_400, "renumbering called off");
}

#[test]
fn binding_lifetime_is_limited_by_home_prefix() {
    let mut bench = TestBed::new(config());
    let identifier = bench.register();
    bench.advertise_prefixes(identifier, &[(HOME, 40, 40)]);
    bench.now = at(1000);
    bench.router.registration.request_refresh();
    assert_eq!(update(&bench.feed(Input::Tick)).message.lifetime_units, 9, "39 of 60 seconds");
}

#[test]
fn status_1_solicits_and_home_prefixes_are_bounded() {
    let mut bench = TestBed::new(config());
    let identifier = bench.register();
    let names: Vec<String> = (0..40).map(|number| format!("2001:db8:{number:x}::/64")).collect();
    let many: Vec<(&str, u32, u32)> = names.iter().map(|name| (name.as_str(), 90_000, 90_000)).collect();
    let outputs = bench.advertise_prefixes(identifier, &many);
    assert!(
        reports(&outputs).iter().any(|report| matches!(report, Report::Host(HostReport::TableFull { limit: 16, .. })))
    );
    assert_eq!(bench.valid().len(), 16);
    bench.now = at(10_000);
    bench.router.registration.request_refresh();
    let update = update(&bench.feed(Input::Tick));
    assert_eq!(solicited(&bench.acknowledge(&update, Status::PREFIX_DISCOVERY_NEEDED)).len(), 1);
}
