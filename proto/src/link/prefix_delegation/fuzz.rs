//! Fuzz harness: invariants of the DHCPv6 client for any behaviour of servers, other hosts and time. One function, driven by
//! the seeded loop in `cargo test`, by the committed corpus, and by the fuzzer.

use super::{DhcpClient, DhcpClientConfig, DhcpEvent, DhcpInterface, IaType, Lease, MAX_LEASES};
use crate::{Entropy, LinkId, Outbox, Output, Time, Transmit};
use core::time::Duration;
use roam6_wire::dhcp6::{
    self, CLIENT_PORT, ClientServerMessage, DhcpOption, Duid, Iaid, IdentityAssociation, Message, MessageType,
    SERVER_PORT, Status, StatusCode, Timers,
};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::udp::Udp;
use roam6_wire::{LinkAddress, Prefix, Reader};
use std::net::Ipv6Addr;

/// Limits of timer calls at one time, and of messages for one input.
const MAX_TICKS: usize = 8;
const MAX_SENT: usize = 2;
const LINK_ADDRESS: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 1]);
const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);
const SERVER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x547);

/// Runs the events encoded in `data`, and asserts the invariants after each.
///
/// # Panics
///
/// If an invariant is violated.
pub fn run(data: &[u8]) {
    let mut reader = Reader::new("scenario", data);
    let mut world = Harness::new(reader.u8().unwrap_or_default());
    while let Ok(action) = reader.u8() {
        let choice = reader.u8().unwrap_or_default();
        match action % 8 {
            0..=3 => world.server_answer(action >> 3, choice),
            4 => world.foreign_packet(reader.bytes(usize::from(choice).min(reader.len())).unwrap_or_default()),
            5 => world.wait(Duration::from_millis(u64::from(choice) * 10)),
            6 => world.wait(Duration::from_secs(u64::from(choice) * u64::from(choice))),
            _ if choice == 7 => world.stop(),
            _ => world.wait(Duration::from_secs(1)),
        }
    }
    world.stop();
    world.wait(Duration::from_secs(60));
    assert!(world.client.is_stopped() && world.client.deadline().is_none(), "does not end");
}

struct Harness {
    client: DhcpClient,
    entropy: Entropy,
    now: Time,
    /// The leases according to the events.
    reported: Vec<Prefix>,
    /// All that any server granted.
    granted: Vec<Prefix>,
    /// The last message of the client.
    last_sent: Option<ClientServerMessage>,
    own: Vec<Prefix>,
    stopped: bool,
}

impl Harness {
    fn new(seed: u8) -> Harness {
        let mut entropy = Entropy::seed_from_u64(seed.into());
        let own = vec![prefix(0)];
        let interface = DhcpInterface { link: LinkId(2), source: SOURCE };
        let (duid, length) = (Duid::from_link_address(LINK_ADDRESS), if seed & 1 == 0 { 0 } else { 56 });
        let client = DhcpClientConfig {
            duid,
            iaid: Iaid(2),
            ia_type: IaType::IaPd,
            prefix_length_hint: length,
            excluded: own.clone(),
        };
        let client = DhcpClient::new(Time::ZERO, interface, client, &mut entropy);
        let (reported, granted) = (Vec::new(), Vec::new());
        let mut world =
            Harness { client, entropy, now: Time::ZERO, reported, granted, last_sent: None, own, stopped: false };
        world.tick();
        world
    }

    /// A server answers the last message, correctly or not.
    fn server_answer(&mut self, manner: u8, choice: u8) {
        let Some(request) = self.last_sent.clone() else { return };
        let kind = if request.kind == MessageType::Solicit && manner & 1 == 0 {
            MessageType::Advertise
        } else {
            MessageType::Reply
        };
        let mut options: Vec<DhcpOption> =
            request.options.iter().filter(|option| matches!(option, DhcpOption::ClientId(_))).cloned().collect();
        options.push(DhcpOption::ServerId(Duid::from_uuid([manner >> 2; 16])));
        if request.kind == MessageType::Solicit && kind == MessageType::Reply {
            options.push(DhcpOption::RapidCommit);
        }
        options.push(DhcpOption::Preference(if choice & 0x80 == 0 { choice } else { 255 }));
        options.push(DhcpOption::SolicitMaxRt(u32::from(choice) * 100));
        let leases = (0..=manner >> 1 & 3).map(|number| self.lease(&request, choice, number));
        let mut inside: Vec<DhcpOption> = leases.map(DhcpOption::Prefix).collect();
        if manner & 2 != 0 && choice.is_multiple_of(3) {
            let code = StatusCode(u16::from(choice % 8));
            inside.push(DhcpOption::Status(Status { code, message: Vec::new() }));
        }
        let timers = Timers { renew: u32::from(choice % 50), rebind: u32::from(choice % 80) };
        options.push(DhcpOption::Prefixes(IdentityAssociation { id: Iaid(2), timers, options: inside }));
        let message = Message::Exchange(ClientServerMessage { kind, transaction: request.transaction, options });
        self.receive(&message.emit());
    }

    /// Grants a prefix of the client's, or another one, for some time.
    fn lease(&mut self, request: &ClientServerMessage, choice: u8, number: u8) -> dhcp6::Prefix {
        let hint = request.options.iter().find_map(|option| match option {
            DhcpOption::Prefixes(association) => association.options.first().cloned(),
            _ => None,
        });
        let prefix = match hint {
            Some(DhcpOption::Prefix(hint)) if choice & 1 == 0 && hint.prefix.contains(Ipv6Addr::UNSPECIFIED) => {
                prefix(1)
            }
            Some(DhcpOption::Prefix(hint)) if choice & 1 == 0 && number == 0 => hint.prefix,
            _ => prefix(choice.wrapping_add(number)),
        };
        self.granted.push(prefix);
        let valid = match choice.wrapping_mul(number | 1) % 5 {
            0 => 0,
            1 => 3,
            2 => 60,
            3 => 3600,
            _ => u32::MAX,
        };
        dhcp6::Prefix { prefix, preferred: valid / 2, valid, options: Vec::new() }
    }

    /// Any host sends any packet to the client's port.
    fn foreign_packet(&mut self, payload: &[u8]) {
        self.receive(payload);
        let mut out = Outbox::new();
        if let Ok(datagram) = Datagram::parse(payload) {
            let event = self.client.receive(self.now, &datagram, &mut self.entropy, &mut out);
            self.check(event, &out);
        }
    }

    fn receive(&mut self, payload: &[u8]) {
        let udp = Udp { source: SERVER_PORT, destination: CLIENT_PORT, payload };
        let packet = ip6::emit(&Header::new(SERVER, SOURCE), protocol::UDP, &udp.emit(SERVER, SOURCE));
        let Ok(datagram) = Datagram::parse(&packet) else { return };
        let mut out = Outbox::new();
        let event = self.client.receive(self.now, &datagram, &mut self.entropy, &mut out);
        self.check(event, &out);
        self.tick();
    }

    /// Advances time, and runs each timer that is due.
    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        let mut waited = 0;
        while let Some(due) = self.client.deadline().filter(|due| *due <= until) {
            self.now = due.max(self.now);
            self.tick();
            waited += 1;
            // At most one message a second, apart from the first of an exchange.
            assert!(waited < 40 + 2 * span.as_secs(), "{waited} ticks in {span:?}");
        }
        self.now = until;
    }

    fn tick(&mut self) {
        let mut ticks = 0;
        while self.client.deadline().is_some_and(|due| due <= self.now) {
            let mut out = Outbox::new();
            let event = self.client.expire(self.now, &mut self.entropy, &mut out);
            self.check(event, &out);
            ticks += 1;
            assert!(ticks <= MAX_TICKS, "time does not go on");
        }
    }

    fn stop(&mut self) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        self.reported.clear();
        let mut out = Outbox::new();
        self.client.stop(self.now, &mut self.entropy, &mut out);
        self.check(None, &out);
    }

    fn check(&mut self, event: Option<DhcpEvent>, out: &Outbox) {
        assert!(!self.stopped || event.is_none(), "{event:?} after the end");
        let prefixes = |leases: &[Lease]| leases.iter().map(|lease| lease.prefix).collect::<Vec<_>>();
        match &event {
            Some(DhcpEvent::Delegated(leases)) => {
                assert!(self.reported.is_empty());
                self.reported = prefixes(leases);
            }
            Some(DhcpEvent::Changed(leases)) => {
                assert!(!self.reported.is_empty() && self.reported != prefixes(leases));
                self.reported = prefixes(leases);
            }
            Some(DhcpEvent::Extended(leases)) => assert_eq!(self.reported, prefixes(leases)),
            Some(DhcpEvent::Lost(_)) => {
                assert!(!self.reported.is_empty());
                self.reported.clear();
            }
            Some(DhcpEvent::Unavailable(_)) => assert!(self.reported.is_empty()),
            None => {}
        }
        let held = prefixes(self.client.leases());
        assert_eq!(held, self.reported, "leases and reported leases differ");
        assert!(held.len() <= MAX_LEASES);
        for prefix in held {
            assert!(self.granted.contains(&prefix), "{prefix} was never granted");
            assert!(self.own.iter().all(|own| !own.covers(prefix) && !prefix.covers(*own)), "{prefix} is our own");
        }
        let sent = out.outputs().iter().filter_map(|output| match output {
            Output::Transmit(transmit) => Some(transmit),
            _ => None,
        });
        let sent: Vec<&Transmit> = sent.collect();
        assert!(sent.len() <= MAX_SENT);
        for transmit in sent {
            self.last_sent = Some(parse_sent(transmit));
        }
    }
}

/// Parses a message of the client, and checks what a server would discard it for (RFC 8415 §16.2 to §16.9).
pub(super) fn parse_sent(transmit: &Transmit) -> ClientServerMessage {
    let exchange = Datagram::parse(&transmit.bytes).ok().and_then(|datagram| {
        let udp = Udp::parse(datagram.payload, datagram.source, datagram.destination).ok()?;
        match Message::parse(udp.payload).ok()? {
            Message::Exchange(exchange) => Some(exchange),
            _ => None,
        }
    });
    let named = |wanted: fn(&DhcpOption) -> bool| {
        exchange.iter().flat_map(|exchange| &exchange.options).filter(|option| wanted(option)).count()
    };
    let kind = exchange.as_ref().map(|exchange| exchange.kind);
    let to_one = matches!(kind, Some(MessageType::Request | MessageType::Renew | MessageType::Release));
    assert_eq!(named(|option| matches!(option, DhcpOption::ServerId(_))), usize::from(to_one));
    assert_eq!(named(|option| matches!(option, DhcpOption::ClientId(_))), 1);
    assert_eq!(named(|option| matches!(option, DhcpOption::ElapsedTime(_))), 1);
    let nothing = ClientServerMessage {
        kind: MessageType::Reply,
        transaction: dhcp6::TransactionId([0; 3]),
        options: Vec::new(),
    };
    let exchange = exchange.unwrap_or(nothing);
    assert_ne!(exchange.kind, MessageType::Reply, "no message");
    exchange
}

/// A /56, or for some numbers a prefix that must not be accepted.
fn prefix(number: u8) -> Prefix {
    let (high, length) = match number {
        250 => (0, 0),
        251 => (0xfe80 << 112, 64),
        252 => (0xff02 << 112, 56),
        253 => (0x2001_0db8 << 96, 80),
        number => (0x2001_0db8 << 96 | u128::from(number) << 72, 56),
    };
    Prefix::new(Ipv6Addr::from_bits(high), length).unwrap_or(Prefix::ALL)
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::fuzz_inputs;

    #[test]
    fn the_committed_corpus_passes() {
        fuzz_inputs::run_files("../fuzz/corpus/delegation", run);
    }

    #[test]
    fn dhcp_client_invariants_hold_for_every_seed() {
        fuzz_inputs::run_seeds(3000, 400, run);
    }
}
