use super::*;
use crate::{Output, Report};
use roam6_wire::DomainName;
use roam6_wire::icmp6::NeighbourOption;

const LINK: LinkId = LinkId(1);
const MAC: Option<LinkAddress> = Some(LinkAddress([2, 0, 0, 0, 0, 1]));

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn at(millis: u64) -> Time {
    Time::from_micros(millis * 1000)
}

fn advertisement(prefix: &str, options: Vec<NeighbourOption>) -> RouterAdvertisement {
    let prefix: Prefix = prefix.parse().unwrap();
    let information = NeighbourOption::PrefixInformation {
        prefix,
        address: prefix.address(),
        on_link: true,
        autonomous: true,
        router_address: false,
        valid: 100,
        preferred: 50,
    };
    let options = [vec![information], options].concat();
    RouterAdvertisement { lifetime: 30, options, ..RouterAdvertisement::default() }
}

struct Bench {
    attachment: Attachment,
    lost: Vec<(u64, Ipv6Addr, LossReason)>,
    sent: usize,
}

impl Bench {
    fn new() -> Bench {
        let home = "2001:db8::/64".parse().unwrap();
        Bench {
            attachment: Attachment::new(at(0), (LINK, MAC), home, &mut Entropy::seed_from_u64(1)),
            lost: Vec::new(),
            sent: 0,
        }
    }

    fn receive(&mut self, millis: u64, source: &str, message: &RouterAdvertisement) {
        self.wait(millis);
        let mut out = Outbox::new();
        self.attachment.receive_advertisement(at(millis), ip(source), None, message, &mut out);
        self.note(millis, &mut out);
    }

    fn wait(&mut self, millis: u64) {
        while let Some(next) = self.attachment.deadline().filter(|next| *next <= at(millis)) {
            let mut out = Outbox::new();
            self.attachment.expire(next, &mut out);
            self.note(next.as_micros() / 1000, &mut out);
        }
    }

    fn note(&mut self, millis: u64, out: &mut Outbox) {
        for output in out.drain() {
            match output {
                Output::Report(Report::Link(LinkReport::RouterLost { router, why, .. })) => {
                    self.lost.push((millis, router, why))
                }
                Output::Transmit(_) => self.sent += 1,
                _ => {}
            }
        }
    }

    fn router(&self) -> Option<Ipv6Addr> {
        self.attachment.router().map(|router| router.address)
    }
}

#[test]
fn router_that_misses_its_ra_interval_is_probed_by_nud_and_lost() {
    let mut bench = Bench::new();
    let interval = vec![NeighbourOption::AdvertisementInterval { milliseconds: 100 }];
    bench.receive(0, "fe80::1", &advertisement("2001:db8:1::/64", interval));
    bench.wait(799);
    assert_eq!(bench.router(), Some(ip("fe80::1")));
    bench.wait(800);
    assert_eq!(bench.lost, [(800, ip("fe80::1"), LossReason::Unreachable)], "two intervals and three questions later");
    assert_eq!(bench.router(), None);
}

#[test]
fn router_in_use_stays_while_it_answers_nud() {
    let mut bench = Bench::new();
    bench.receive(0, "fe80::1", &advertisement("2001:db8:1::/64", Vec::new()));
    bench.receive(5000, "fe80::2", &advertisement("2001:db8:2::/64", Vec::new()));
    assert_eq!(bench.router(), Some(ip("fe80::1")), "it works until it is seen not to");
    bench.attachment.confirm_reachable(at(5001), ip("fe80::1"));
    bench.receive(9000, "fe80::2", &advertisement("2001:db8:2::/64", Vec::new()));
    bench.wait(9299);
    assert!(bench.lost.is_empty());
    bench.wait(9300);
    assert_eq!(bench.lost, [(9300, ip("fe80::1"), LossReason::Unreachable)]);
    assert_eq!(bench.router(), Some(ip("fe80::2")));
}

#[test]
fn ra_of_other_node_with_router_address_waits_for_nud() {
    let of = |last: u8, prefix: &str| {
        let address = LinkAddress([2, 0, 0, 0, 0, last]);
        advertisement(prefix, vec![NeighbourOption::SourceLinkAddress(address)])
    };
    for answers in [true, false] {
        let mut bench = Bench::new();
        bench.receive(0, "fe80::1", &of(1, "2001:db8:1::/64"));
        bench.receive(5000, "fe80::1", &of(2, "2001:db8:2::/64"));
        let prefix = |bench: &Bench| bench.attachment.care_of_prefix(at(5000)).unwrap().prefix.to_string();
        assert_eq!(prefix(&bench), "2001:db8:1::/64");
        if answers {
            bench.attachment.confirm_reachable(at(5001), ip("fe80::1"));
        }
        bench.wait(5300);
        assert_eq!(prefix(&bench), if answers { "2001:db8:1::/64" } else { "2001:db8:2::/64" });
    }
    let mut bench = Bench::new();
    bench.receive(0, "fe80::1", &of(1, "2001:db8:1::/64"));
    bench.receive(5000, "fe80::1", &of(1, "2001:db8:2::/64"));
    let prefix = bench.attachment.care_of_prefix(at(5000)).unwrap().prefix.to_string();
    assert_eq!(prefix, "2001:db8:2::/64", "the advertisement of the router in use counts at once");
}

#[test]
fn other_router_is_used_when_path_is_down() {
    let mut bench = Bench::new();
    bench.receive(0, "fe80::1", &advertisement("2001:db8:1::/64", Vec::new()));
    assert!(!bench.attachment.switch_router(at(10)));
    bench.receive(100, "fe80::2", &advertisement("2001:db8:2::/64", Vec::new()));
    assert!(bench.attachment.switch_router(at(110)));
    assert_eq!(bench.router(), Some(ip("fe80::2")));
}

#[test]
fn router_lifetime_zero_and_expiry_remove_router() {
    let mut bench = Bench::new();
    bench.receive(0, "fe80::1", &advertisement("2001:db8:1::/64", Vec::new()));
    bench.receive(10, "fe80::1", &RouterAdvertisement::default());
    assert_eq!(bench.lost, [(10, ip("fe80::1"), LossReason::Expired)]);
    bench.receive(20, "fe80::1", &advertisement("2001:db8:1::/64", Vec::new()));
    bench.wait(30_020);
    assert_eq!(bench.lost[1..], [(30_020, ip("fe80::1"), LossReason::Expired)]);
}

#[test]
fn prefix_lifetime_is_not_cut_below_two_hours() {
    let mut bench = Bench::new();
    let with = |valid: u32, preferred: u32| {
        let mut message = advertisement("2001:db8:1::/64", Vec::new());
        message.lifetime = u16::MAX;
        if let Some(NeighbourOption::PrefixInformation { valid: v, preferred: p, .. }) = message.options.first_mut() {
            (*v, *p) = (valid, preferred);
        }
        message
    };
    bench.receive(0, "fe80::1", &with(90_000, 80_000));
    bench.receive(0, "fe80::1", &with(10, 0));
    let known = bench.attachment.care_of_prefix(at(0)).unwrap();
    assert_eq!((known.valid_until, known.preferred_until), (at(7_200_000), at(0)));
}

#[test]
fn managed_router_is_used_if_no_prefix_is_advertised() {
    let mut bench = Bench::new();
    let managed = RouterAdvertisement { lifetime: 30, managed: true, ..RouterAdvertisement::default() };
    bench.receive(0, "fe80::1", &managed);
    assert_eq!(bench.router(), Some(ip("fe80::1")));
    bench.receive(10, "fe80::2", &advertisement("2001:db8:2::/64", Vec::new()));
    assert_eq!(bench.router(), Some(ip("fe80::2")));
    bench.receive(5000, "fe80::3", &managed);
    assert_eq!(bench.router(), Some(ip("fe80::2")), "not replaced by an address from DHCPv6");
    bench.receive(5010, "fe80::2", &RouterAdvertisement::default());
    assert_eq!(bench.router(), Some(ip("fe80::3")), "the managed one that advertised last");
    bench.receive(5020, "fe80::4", &RouterAdvertisement { lifetime: 30, ..RouterAdvertisement::default() });
    assert_eq!(bench.router(), Some(ip("fe80::3")), "neither prefix nor M flag: of no use");
}

#[test]
fn rdnss_and_dnssl_are_kept_for_their_lifetimes() {
    let mut bench = Bench::new();
    let domain: DomainName = "example.org".parse().unwrap();
    let with_dns = |lifetime: u32, servers: Vec<Ipv6Addr>| {
        let domains = vec![domain.clone()];
        let options = vec![
            NeighbourOption::RecursiveDns { lifetime, servers },
            NeighbourOption::DnsSearchList { lifetime, domains },
        ];
        advertisement("2001:db8:1::/64", options)
    };
    let many: Vec<Ipv6Addr> = (1..=20).map(|number| Ipv6Addr::from_bits(0x2001_0db8 << 96 | number)).collect();
    bench.receive(0, "fe80::1", &with_dns(60, many.clone()));
    let router = bench.attachment.router().unwrap();
    assert_eq!(router.resolvers.len(), MAX_RESOLVERS);
    assert_eq!(router.resolvers[0], (many[0], at(60_000)));
    assert_eq!(router.search_domains, [(domain.clone(), at(60_000))]);
    bench.receive(1000, "fe80::1", &with_dns(0, vec![many[0]]));
    let router = bench.attachment.router().unwrap();
    assert_eq!((router.resolvers.len(), router.search_domains.len()), (MAX_RESOLVERS - 1, 0));
    assert!(router.resolvers.iter().all(|(one, _)| *one != many[0]));
}

#[test]
fn router_of_home_prefix_is_used_without_autonomous_flag() {
    let mut bench = Bench::new();
    let mut message = advertisement("2001:db8::/64", Vec::new());
    if let Some(NeighbourOption::PrefixInformation { autonomous, .. }) = message.options.first_mut() {
        *autonomous = false;
    }
    bench.receive(0, "fe80::1", &message);
    assert!(bench.attachment.find_on_link(at(0), ip("2001:db8::100")).is_some());
    assert!(bench.attachment.care_of_prefix(at(0)).is_none());
}

#[test]
fn rs_intervals_are_randomized_and_bounded_by_one_hour() {
    let mut entropy = Entropy::seed_from_u64(1);
    let mut intervals = vec![FIRST_SOLICITATION_INTERVAL];
    for index in 0..30 {
        intervals.push(next_interval(intervals[index], &mut entropy));
    }
    let early = intervals.iter().filter(|interval| **interval < RANDOMIZED_FROM);
    assert!(early.enumerate().all(|(index, interval)| *interval == FIRST_SOLICITATION_INTERVAL * (1 << index)));
    assert!(intervals.iter().all(|interval| *interval <= MAX_SOLICITATION_INTERVAL * 11 / 10));
    let late = &intervals[20..];
    assert!(late.iter().all(|interval| *interval >= MAX_SOLICITATION_INTERVAL * 9 / 10));
    assert!(late.windows(2).any(|pair| pair[0] != pair[1]));
}
