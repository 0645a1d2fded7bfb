//! Test bench: a home agent, packets of mobile routers, and a host that installs every item.

use crate::contract::config::nemo::{Authentication, HomeAgentConfig, PrefixTable, PrefixTableRow, SharedKey};
use crate::contract::item::{JournalRecord, NextHop};
use crate::contract::report::NemoReport;
use crate::crypto::authenticator::{Timestamp, authenticate};
use crate::nemo::home_agent::HomeAgent;
use crate::{
    Clock, Engine, Entropy, Input, Item, Key, LinkEvent, LinkId, Outbox, Outcome, Output, Packet, Plan, Put, Report,
    Time, Transmit,
};
use core::time::Duration;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{BindingAcknowledgement, BindingUpdate, Message, MobilityOption, UpdateFlags};
use roam6_wire::{CareOfAddress, HomeAddress, LinkAddress, Prefix, Sequence};
use std::net::Ipv6Addr;

pub(in crate::nemo::home_agent) const HOME_LINK: LinkId = LinkId(2);
pub(in crate::nemo::home_agent) const VISITED_LINK: LinkId = LinkId(3);
/// Wall clock at the bench's beginning: 2026-01-01.
const START_UNIX_MICROS: u64 = 1_767_225_600_000_000;

pub(in crate::nemo::home_agent) fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub(in crate::nemo::home_agent) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub(in crate::nemo::home_agent) fn home() -> HomeAddress {
    HomeAddress(address("2001:db8::100"))
}

pub(in crate::nemo::home_agent) fn agent() -> Ipv6Addr {
    address("2001:db8::1")
}

pub(in crate::nemo::home_agent) fn key() -> SharedKey {
    SharedKey { spi: 256, secret: (0..16).collect() }
}

/// One mobile router with a key, one without, one whose home address is not of the home network.
pub(in crate::nemo::home_agent) fn config() -> HomeAgentConfig {
    let row = |home_address: &str, prefixes: &[&str], authentication| PrefixTableRow {
        next_key: None,
        invitation: None,
        home_address: HomeAddress(address(home_address)),
        prefixes: prefixes.iter().map(|text| prefix(text)).collect(),
        authentication,
    };
    let rows = vec![
        row("2001:db8::100", &["2001:db8:f00::/56"], Authentication::SharedKey(key())),
        row("2001:db8::200", &["2001:db8:e00::/56", "2001:db8:e00:100::/56"], Authentication::None),
        row("2001:db8::300", &[], Authentication::None),
        row("2001:db8::400", &["2001:db8:e00::/56"], Authentication::None),
        row("2001:db8:77::1", &["2001:db8:d00::/56"], Authentication::None),
    ];
    HomeAgentConfig {
        address: agent(),
        home_prefixes: vec![prefix("2001:db8::/64")],
        prefix_table: PrefixTable { rows }.into(),
        max_lifetime: Duration::from_secs(600),
        max_bindings: 100,
        duplicate_detection: true,
        preference: 10,
        ..Default::default()
    }
}

/// A Binding Update being written.
#[derive(Debug, Clone)]
pub(in crate::nemo::home_agent) struct Update {
    pub home: HomeAddress,
    pub source: Ipv6Addr,
    pub sequence: u16,
    pub flags: UpdateFlags,
    pub lifetime_units: u16,
    pub options: Vec<MobilityOption>,
    /// Signed with this.
    pub key: Option<SharedKey>,
    /// Microseconds this mobile router's clock is ahead; `None`: no timestamp.
    pub clock_offset: Option<i64>,
    /// Care-of address of the authenticator.
    pub care_of: Ipv6Addr,
}

impl Update {
    /// Of the mobile router with a key.
    pub(in crate::nemo::home_agent) fn new(sequence: u16, source: &str) -> Update {
        Update {
            home: home(),
            source: address(source),
            sequence,
            flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
            lifetime_units: 15,
            options: Vec::new(),
            key: Some(key()),
            clock_offset: Some(0),
            care_of: address(source),
        }
    }

    /// Of a mobile router without a key.
    pub(in crate::nemo::home_agent) fn unauthenticated(sequence: u16, source: &str) -> Update {
        let home = HomeAddress(address("2001:db8::200"));
        Update { home, key: None, clock_offset: None, ..Update::new(sequence, source) }
    }

    pub(in crate::nemo::home_agent) fn with(mut self, option: MobilityOption) -> Update {
        self.options.push(option);
        self
    }

    pub(in crate::nemo::home_agent) fn lifetime(self, lifetime_units: u16) -> Update {
        Update { lifetime_units, ..self }
    }

    /// The packet as sent at `now`.
    pub(in crate::nemo::home_agent) fn packet(&self, now: Time) -> Packet {
        let mut options = self.options.clone();
        if let Some(ahead) = self.clock_offset {
            let unix = (START_UNIX_MICROS + now.as_micros()).wrapping_add_signed(ahead);
            options.push(MobilityOption::ReplayProtection(Timestamp::from_unix_micros(unix).0));
        }
        let message = Message::BindingUpdate(BindingUpdate {
            sequence: Sequence(self.sequence),
            flags: self.flags,
            lifetime_units: self.lifetime_units,
            options,
        });
        let at_home = self.source == self.home.0;
        let header = Header::new(self.source, agent());
        let header = if at_home { header } else { header.with_home_address(self.home.0) };
        let (source, destination) = (header.real_source(), header.real_destination());
        let bytes = match &self.key {
            None => message.emit(source, destination),
            Some(key) => message.emit_authenticated(source, destination, key.spi, |part| {
                authenticate(&key.secret, CareOfAddress(self.care_of), self.home, part)
            }),
        };
        let link = if at_home { HOME_LINK } else { VISITED_LINK };
        Packet { link, sender: None, bytes: ip6::emit(&header, protocol::MOBILITY, &bytes) }
    }
}

/// The home agent and what surrounds it.
pub(in crate::nemo::home_agent) struct TestBed {
    pub agent: HomeAgent,
    pub now: Time,
    /// The items installed on the host.
    pub plan: Plan,
    /// Keys whose next `Put` the host refuses.
    pub rejected: Vec<Key>,
    /// Outcomes are delayed until [`TestBed::release_outcomes`].
    pub hold_outcomes: bool,
    pub held_outcomes: Vec<Outcome>,
}

impl TestBed {
    pub(in crate::nemo::home_agent) fn new(config: HomeAgentConfig) -> TestBed {
        let agent = HomeAgent::new(config, Entropy::seed_from_u64(1));
        let mut bench = TestBed {
            agent,
            now: Time::ZERO,
            plan: Plan::new(),
            rejected: Vec::new(),
            hold_outcomes: false,
            held_outcomes: Vec::new(),
        };
        bench.feed(Input::Clock(Clock { unix_micros: START_UNIX_MICROS }));
        bench
    }

    /// With a home link that is up.
    pub(in crate::nemo::home_agent) fn at_home_link(mut config: HomeAgentConfig) -> TestBed {
        config.home_link = Some("home0".into());
        let mut bench = TestBed::new(config);
        bench.feed(Input::Link(LinkEvent {
            link: HOME_LINK,
            name: "home0".into(),
            address: Some(LinkAddress([2, 0, 0, 0, 0, 1])),
            up: true,
            mtu: 1500,
        }));
        bench
    }

    /// Feeds one input, and the outcomes of the items put because of it; returns all outputs.
    pub(in crate::nemo::home_agent) fn feed(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut out = Outbox::new();
            self.agent.handle(self.now, &input, &mut out);
            let mut outcomes: Vec<Outcome> = Vec::new();
            for output in out.drain() {
                match &output {
                    Output::Put(put) => outcomes.extend(self.put(put)),
                    Output::Drop(key) => {
                        self.plan.drop(key);
                    }
                    Output::Transmit(_) | Output::Report(_) | Output::Frame(_) => {}
                    Output::ActivityQuery(_)
                    | Output::LinkTrafficQuery(_)
                    | Output::PathTrafficQuery(_)
                    | Output::ChannelUseQuery(_)
                    | Output::InterceptionQuery(_)
                    | Output::Verify(_)
                    | Output::Sign(_) => {}
                }
                outputs.push(output);
            }
            if self.hold_outcomes {
                self.held_outcomes.append(&mut outcomes);
            }
            // Oldest first, before other inputs.
            inputs.extend(outcomes.into_iter().rev().map(Input::Outcome));
        }
        outputs
    }

    fn put(&mut self, put: &Put) -> Option<Outcome> {
        // The store answers later.
        #[cfg(feature = "fleet")]
        if matches!(put.item, Item::FleetRecord(_)) {
            return None;
        }
        let key = put.item.key();
        if let Some(at) = self.rejected.iter().position(|refused| *refused == key) {
            self.rejected.remove(at);
            return Some(put.outcome(Some("no space left on device".into())));
        }
        self.plan.put(put.item.clone());
        Some(put.outcome(None))
    }

    /// Feeds the delayed outcomes.
    pub(in crate::nemo::home_agent) fn release_outcomes(&mut self) -> Vec<Output> {
        self.hold_outcomes = false;
        let kept = core::mem::take(&mut self.held_outcomes);
        kept.into_iter().flat_map(|outcome| self.feed(Input::Outcome(outcome))).collect()
    }

    /// Sends an update a microsecond later than the last one, so that no two have the same timestamp.
    pub(in crate::nemo::home_agent) fn send(&mut self, update: &Update) -> Vec<Output> {
        self.now = self.now + Duration::from_micros(1);
        self.feed(Input::Packet(update.packet(self.now)))
    }

    /// Lets time pass, waking the home agent whenever it wants to be woken.
    pub(in crate::nemo::home_agent) fn advance(&mut self, span: Duration) -> Vec<Output> {
        let until = self.now + span;
        let mut outputs = Vec::new();
        while let Some(at) = self.agent.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            outputs.extend(self.feed(Input::Tick));
        }
        self.now = until;
        outputs
    }

    /// The keys of the installed items, except those that need no binding: of discovery, and home routes.
    pub(in crate::nemo::home_agent) fn installed(&self) -> Vec<Key> {
        let always = |item: &Item| match item {
            Item::Anycast(_) => true,
            Item::Route(route) => matches!(route.target, NextHop::Gateway { .. }),
            _ => false,
        };
        self.plan.iter().filter(|(_, item)| !always(item)).map(|(key, _)| key.clone()).collect()
    }

    pub(in crate::nemo::home_agent) fn tunnel(&self) -> Option<&crate::contract::item::Tunnel> {
        self.plan.iter().find_map(|(_, item)| match item {
            Item::Tunnel(tunnel) => Some(tunnel),
            _ => None,
        })
    }
}

/// Packets sent.
pub(in crate::nemo::home_agent) fn sent(outputs: &[Output]) -> Vec<&Transmit> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Transmit(transmit) => Some(transmit),
            _ => None,
        })
        .collect()
}

/// The reports among `outputs`, those of [`faults`] aside.
pub(in crate::nemo::home_agent) fn reports(outputs: &[Output]) -> Vec<&Report> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Report(Report::Nemo(NemoReport::Fault { .. }) | Report::Nemo(NemoReport::FaultCleared { .. })) => {
                None
            }
            Output::Report(report) => Some(report),
            _ => None,
        })
        .collect()
}

/// The lines about faults that began or ended.
pub(in crate::nemo::home_agent) fn faults(outputs: &[Output]) -> Vec<String> {
    outputs
        .iter()
        .filter_map(|output| match output {
            Output::Report(
                report @ (Report::Nemo(NemoReport::Fault { .. }) | Report::Nemo(NemoReport::FaultCleared { .. })),
            ) => Some(report.to_string()),
            _ => None,
        })
        .collect()
}

/// The one Binding Acknowledgement among `outputs`, checked to be well formed.
pub(in crate::nemo::home_agent) fn acknowledgement(outputs: &[Output]) -> BindingAcknowledgement {
    let sent = sent(outputs);
    assert_eq!(sent.len(), 1, "one packet: {outputs:#?}");
    let datagram = Datagram::parse(&sent[0].bytes).unwrap();
    match Message::parse(datagram.payload, datagram.real_source(), datagram.real_destination()).unwrap() {
        Message::BindingAcknowledgement(acknowledgement) => acknowledgement,
        other => panic!("{other:?}"),
    }
}

/// The status of the only acknowledgement, 0 to 255.
pub(in crate::nemo::home_agent) fn status(outputs: &[Output]) -> u8 {
    acknowledgement(outputs).status.0
}

/// What the journal holds.
pub(in crate::nemo::home_agent) fn journal(bench: &TestBed) -> Vec<JournalRecord> {
    let records = bench.plan.iter().filter_map(|(_, item)| match item {
        Item::JournalRecord(record) => Some(record.clone()),
        _ => None,
    });
    records.collect()
}
