//! Conversations with servers, as they should be and as they should not.

use super::fuzz::parse_sent;
use super::*;
use crate::contract::output::Output;
use roam6_wire::LinkAddress;
use roam6_wire::dhcp6::{
    CLIENT_PORT, ClientServerMessage, DhcpOption, Iaid, IdentityAssociation, Message, SERVER_PORT, Status, Timers,
};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::udp::Udp;

const SERVER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x547);
const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const ONE: u8 = 1;
const OTHER: u8 = 2;

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A client, the messages it has sent, and its events.
struct Bench {
    client: DhcpClient,
    entropy: Entropy,
    now: Time,
    sent: Vec<(Time, ClientServerMessage)>,
    events: Vec<DhcpEvent>,
}

impl Bench {
    fn new() -> Bench {
        let mut entropy = Entropy::seed_from_u64(8415);
        let duid = Duid::from_link_address(LinkAddress([2, 0, 0, 0, 0, 1]));
        let client = DhcpClientConfig {
            duid,
            iaid: Iaid(7),
            ia_type: IaType::IaPd,
            prefix_length_hint: 56,
            excluded: vec![prefix("2001:db8:f00::/56")],
        };
        let interface = DhcpInterface { link: LinkId(2), source: SOURCE };
        let client = DhcpClient::new(Time::ZERO, interface, client, &mut entropy);
        let mut bench = Bench { client, entropy, now: Time::ZERO, sent: Vec::new(), events: Vec::new() };
        bench.wait(Duration::ZERO);
        bench
    }

    /// Lets time pass.
    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(due) = self.client.deadline().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            let mut out = Outbox::new();
            let event = self.client.expire(self.now, &mut self.entropy, &mut out);
            self.note(event, &out);
        }
        self.now = until;
    }

    fn note(&mut self, event: Option<DhcpEvent>, out: &Outbox) {
        self.events.extend(event);
        for output in out.outputs() {
            if let Output::Transmit(transmit) = output {
                self.sent.push((self.now, parse_sent(transmit)));
            }
        }
    }

    fn last(&self) -> &ClientServerMessage {
        &self.sent.last().unwrap().1
    }

    fn kinds(&self) -> Vec<MessageType> {
        self.sent.iter().map(|(_, message)| message.kind).collect()
    }

    /// A server answers the last message.
    fn answer(&mut self, kind: MessageType, server: u8, more: Vec<DhcpOption>, inside: Vec<DhcpOption>) {
        let client = self.client.client.duid.clone();
        let mut options = vec![DhcpOption::ClientId(client), DhcpOption::ServerId(Duid::from_uuid([server; 16]))];
        options.extend(more);
        let timers = Timers { renew: 0, rebind: 0 };
        options.push(DhcpOption::Prefixes(IdentityAssociation { id: Iaid(7), timers, options: inside }));
        let transaction = self.last().transaction;
        self.receive(&Message::Exchange(ClientServerMessage { kind, transaction, options }));
    }

    fn receive(&mut self, message: &Message) {
        let payload = message.emit();
        let udp = Udp { source: SERVER_PORT, destination: CLIENT_PORT, payload: &payload };
        let packet = ip6::emit(&Header::new(SERVER, SOURCE), protocol::UDP, &udp.emit(SERVER, SOURCE));
        let mut out = Outbox::new();
        let datagram = Datagram::parse(&packet).unwrap();
        let event = self.client.receive(self.now, &datagram, &mut self.entropy, &mut out);
        self.note(event, &out);
    }

    fn take_events(&mut self) -> Vec<String> {
        let text = |event: &DhcpEvent| match event {
            DhcpEvent::Delegated(leases) => format!("delegated {}", list(leases)),
            DhcpEvent::Extended(leases) => format!("extended {}", list(leases)),
            DhcpEvent::Changed(leases) => format!("changed {}", list(leases)),
            DhcpEvent::Lost(why) => format!("lost {why:?}"),
            DhcpEvent::Unavailable(why) => format!("unavailable {why:?}"),
        };
        std::mem::take(&mut self.events).iter().map(text).collect()
    }
}

fn list(leases: &[Lease]) -> String {
    leases.iter().map(|lease| lease.prefix.to_string()).collect::<Vec<_>>().join(" ")
}

fn lease(text: &str, valid: u32) -> DhcpOption {
    DhcpOption::Prefix(dhcp6::Prefix { prefix: prefix(text), preferred: valid / 2, valid, options: Vec::new() })
}

fn status(code: StatusCode) -> DhcpOption {
    DhcpOption::Status(Status { code, message: Vec::new() })
}

fn preference(value: u8) -> Vec<DhcpOption> {
    vec![DhcpOption::Preference(value)]
}

fn server_of(sent: &ClientServerMessage) -> Option<u8> {
    sent.options.iter().find_map(|option| match option {
        DhcpOption::ServerId(duid) => duid.octets().last().copied(),
        _ => None,
    })
}

/// Bound with `2001:db8:a00::/56`, valid for 1000 seconds, preferred for 500.
fn bound() -> Bench {
    let mut bench = Bench::new();
    bench.answer(MessageType::Reply, ONE, vec![DhcpOption::RapidCommit], vec![lease("2001:db8:a00::/56", 1000)]);
    assert_eq!(bench.take_events(), ["delegated 2001:db8:a00::/56"]);
    bench
}

#[test]
fn rapid_commit_takes_two_messages() {
    let bench = bound();
    assert_eq!(bench.kinds(), [MessageType::Solicit]);
    assert!(bench.last().options.contains(&DhcpOption::RapidCommit));
    assert_eq!(bench.client.leases()[0].valid_until, Time::ZERO + seconds(1000));
}

#[test]
fn request_goes_to_preferred_server_after_collection_time() {
    let mut bench = Bench::new();
    bench.answer(MessageType::Advertise, ONE, preference(3), vec![lease("2001:db8:a00::/56", 1000)]);
    bench.answer(MessageType::Advertise, OTHER, preference(9), vec![lease("2001:db8:b00::/56", 1000)]);
    bench.answer(MessageType::Advertise, 3, preference(9), vec![lease("2001:db8:c00::/56", 1000)]);
    bench.wait(seconds(1));
    assert_eq!(bench.kinds(), [MessageType::Solicit], "the first wait is longer than a second");
    bench.wait(seconds(1));
    assert_eq!((bench.last().kind, server_of(bench.last())), (MessageType::Request, Some(OTHER)));
    bench.answer(MessageType::Reply, OTHER, Vec::new(), vec![lease("2001:db8:b00::/56", 1000)]);
    assert_eq!(bench.take_events(), ["delegated 2001:db8:b00::/56"]);
}

#[test]
fn preference_255_is_taken_at_once_and_next_server_on_failure() {
    let mut bench = Bench::new();
    bench.answer(MessageType::Advertise, ONE, preference(3), vec![lease("2001:db8:a00::/56", 1000)]);
    bench.answer(MessageType::Advertise, OTHER, preference(255), vec![lease("2001:db8:b00::/56", 1000)]);
    assert_eq!((bench.last().kind, server_of(bench.last())), (MessageType::Request, Some(OTHER)));
    bench.answer(MessageType::Reply, OTHER, Vec::new(), vec![status(StatusCode::NO_PREFIXES)]);
    assert_eq!((bench.last().kind, server_of(bench.last())), (MessageType::Request, Some(ONE)));
    bench.wait(seconds(60));
    let requests = bench.sent.iter().filter(|(_, sent)| server_of(sent) == Some(ONE)).count();
    assert_eq!(requests, 5);
    assert_eq!(bench.take_events(), ["unavailable NoAnswer"]);
}

#[test]
fn solicits_back_off_and_end() {
    let mut bench = Bench::new();
    bench.wait(seconds(30));
    assert_eq!(bench.kinds(), [MessageType::Solicit; 4]);
    let waits: Vec<u64> = bench.sent.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_millis() as u64).collect();
    for (wait, expected) in waits.iter().zip([1050, 2100, 4200]) {
        assert!(wait.abs_diff(expected) <= expected / 5, "{waits:?}");
    }
    assert!(bench.sent.iter().all(|(_, message)| message.transaction == bench.sent[0].1.transaction));
    assert_eq!(bench.take_events(), ["unavailable NoAnswer"]);
    bench.wait(seconds(3200));
    assert_eq!(bench.sent.len(), 4, "it rests");
    bench.wait(seconds(1000));
    assert_eq!(bench.sent.len(), 8, "and tries again");
    assert_eq!(bench.take_events(), Vec::<String>::new(), "reported once");
}

#[test]
fn no_prefix_avail_is_reported_within_two_seconds() {
    let mut bench = Bench::new();
    let more = vec![DhcpOption::SolicitMaxRt(120)];
    bench.answer(MessageType::Advertise, ONE, more, vec![status(StatusCode::NO_PREFIXES)]);
    bench.wait(seconds(2));
    assert_eq!(bench.take_events(), ["unavailable Rejected(StatusCode(6))"]);
    bench.wait(seconds(140));
    assert_eq!(bench.kinds().len(), 5, "sooner again where the server says so: {:?}", bench.sent);
}

#[test]
fn lease_is_renewed_at_t1() {
    let mut bench = bound();
    bench.wait(seconds(249));
    assert_eq!(bench.sent.len(), 1);
    bench.wait(seconds(2));
    assert_eq!((bench.last().kind, server_of(bench.last())), (MessageType::Renew, Some(ONE)));
    bench.answer(MessageType::Reply, ONE, Vec::new(), vec![lease("2001:db8:a00::/56", 1000)]);
    assert_eq!(bench.take_events(), ["extended 2001:db8:a00::/56"]);
    assert_eq!(bench.client.leases()[0].valid_until, bench.now + seconds(1000));
}

#[test]
fn lease_is_rebound_at_t2_or_expires() {
    let mut bench = bound();
    bench.wait(seconds(420));
    assert_eq!((bench.last().kind, server_of(bench.last())), (MessageType::Rebind, None));
    let mut saved = Bench { client: bench.client.clone(), sent: bench.sent.clone(), ..Bench::new() };
    saved.now = bench.now;
    saved.answer(MessageType::Reply, OTHER, Vec::new(), vec![lease("2001:db8:a00::/56", 1000)]);
    assert_eq!(saved.take_events(), ["extended 2001:db8:a00::/56"]);

    bench.wait(seconds(579));
    assert_eq!(bench.take_events(), Vec::<String>::new());
    bench.wait(seconds(1));
    assert_eq!(bench.take_events(), ["lost Expired"]);
    assert_eq!(bench.last().kind, MessageType::Solicit);
    bench.wait(seconds(30));
    assert_eq!(bench.take_events(), ["unavailable NoAnswer"]);
}

#[test]
fn replaced_prefix_is_reported_as_changed() {
    let mut bench = bound();
    bench.wait(seconds(251));
    let leases = vec![lease("2001:db8:a00::/56", 0), lease("2001:db8:b00::/56", 1000)];
    bench.answer(MessageType::Reply, ONE, Vec::new(), leases);
    assert_eq!(bench.take_events(), ["changed 2001:db8:b00::/56"]);
    bench.wait(seconds(251));
    bench.answer(MessageType::Reply, ONE, Vec::new(), vec![lease("2001:db8:b00::/56", 0)]);
    assert_eq!(bench.take_events(), ["lost Withdrawn"]);
    bench.wait(Duration::ZERO);
    assert_eq!(bench.last().kind, MessageType::Solicit);
}

#[test]
fn no_binding_status_leads_to_request() {
    let mut bench = bound();
    bench.wait(seconds(251));
    bench.answer(MessageType::Reply, ONE, Vec::new(), vec![status(StatusCode::NO_BINDING)]);
    assert_eq!((bench.last().kind, server_of(bench.last())), (MessageType::Request, Some(ONE)));
    assert_eq!(bench.client.leases().len(), 1, "in use meanwhile");
    bench.answer(MessageType::Reply, ONE, Vec::new(), vec![status(StatusCode::NO_PREFIXES)]);
    assert_eq!(bench.take_events(), ["lost Rejected(StatusCode(6))"]);
}

#[test]
fn release_is_sent_at_most_four_times() {
    let mut bench = bound();
    let mut out = Outbox::new();
    bench.client.stop(bench.now, &mut bench.entropy, &mut out);
    bench.note(None, &out);
    assert_eq!(bench.last().kind, MessageType::Release);
    let mut answered = Bench { client: bench.client.clone(), sent: bench.sent.clone(), ..Bench::new() };
    answered.answer(MessageType::Reply, ONE, vec![status(StatusCode::NO_BINDING)], Vec::new());
    assert!(answered.client.is_stopped());
    bench.wait(seconds(60));
    assert_eq!(bench.kinds().iter().filter(|kind| **kind == MessageType::Release).count(), 4);
    assert!(bench.client.is_stopped());
}

#[test]
fn foreign_and_own_prefixes_are_not_accepted() {
    for hostile in ["::/0", "2000::/3", "fe80::/64", "ff00::/56", "2001:db8:f00::/60", "2001:db8::/32", "64:ff9b::/64"]
    {
        let mut bench = Bench::new();
        bench.answer(MessageType::Reply, ONE, vec![DhcpOption::RapidCommit], vec![lease(hostile, 1000)]);
        assert!(bench.client.leases().is_empty(), "{hostile}");
    }
}

#[test]
fn replies_to_other_clients_are_dropped() {
    let mut bench = Bench::new();
    let mut options = vec![DhcpOption::ServerId(Duid::from_uuid([ONE; 16])), DhcpOption::RapidCommit];
    options.push(DhcpOption::ClientId(Duid::from_uuid([5; 16])));
    let timers = Timers { renew: 0, rebind: 0 };
    let inside = vec![lease("2001:db8:a00::/56", 1000)];
    options.push(DhcpOption::Prefixes(IdentityAssociation { id: Iaid(7), timers, options: inside }));
    let transaction = bench.last().transaction;
    bench.receive(&Message::Exchange(ClientServerMessage { kind: MessageType::Reply, transaction, options }));
    assert!(bench.client.leases().is_empty());
}

/// A server that keeps to the standard, behind a link that loses, doubles and delays.
#[test]
fn delegation_succeeds_over_a_lossy_link() {
    for seed in 0..200 {
        let mut chance = Entropy::seed_from_u64(seed);
        let mut bench = Bench::new();
        let (mut answered, mut delegated) = (0, 0);
        let end = Time::ZERO + seconds(20_000);
        while bench.now < end {
            while answered < bench.sent.len() {
                let sent = bench.sent[answered].1.clone();
                answered += 1;
                if chance.below(10) < 4 {
                    continue;
                }
                let (kind, more) = match sent.kind {
                    MessageType::Solicit if chance.below(2) == 0 => {
                        (MessageType::Advertise, preference(chance.below(2) as u8 * 255))
                    }
                    MessageType::Solicit => (MessageType::Reply, vec![DhcpOption::RapidCommit]),
                    _ => (MessageType::Reply, Vec::new()),
                };
                for _ in 0..=chance.below(2) {
                    bench.answer(kind, ONE, more.clone(), vec![lease("2001:db8:a00::/56", 1000)]);
                }
            }
            delegated += usize::from(!bench.client.leases().is_empty());
            bench.wait(seconds(10));
        }
        assert!(delegated > 1200, "seed {seed}: {delegated} of 2000");
        assert!(bench.sent.len() < 1200, "seed {seed}: {} messages", bench.sent.len());
    }
}
