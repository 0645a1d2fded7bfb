//! A home agent, mobile routers, the network between them, and their disks.

use crate::contract::command::{Command, HomeAgentCommand, LifecycleCommand, MobileRouterCommand};
use crate::contract::config::nemo::{
    Authentication, DadMode, HomeAgentConfig, InvitationId, MobileRouterConfig, PrefixMode, PrefixTable,
    PrefixTableRow, RowInvitation, SharedKey, UplinkConfig,
};
use crate::contract::item::{JournalKey, JournalRecord};
use crate::contract::report::{HostReport, NemoReport};
use crate::contract::view::BindingState;
use crate::nemo::home_agent::HomeAgent;
use crate::nemo::mobile_router::MobileRouter;
use crate::{
    Clock, DropReason, Engine, Entropy, Input, Item, Key, LinkEvent, LinkId, Outbox, Output, Packet, Put, Report, Time,
    View,
};
use core::time::Duration;
use roam6_wire::icmp6::{self, NeighbourOption, RouterAdvertisement};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{KeyExchange, Message, MobilityOption};
use roam6_wire::{Bid, HomeAddress, LinkAddress, Prefix};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// The number of the home agent among the ends; mobile routers follow.
pub(super) const AGENT: usize = 0;
/// The clock when the time is zero, seconds since 1970.
pub(super) const START_UNIX: u64 = 1_790_000_000;
const UPLINK: LinkId = LinkId(2);

pub(super) fn home() -> HomeAddress {
    HomeAddress("2001:db8::100".parse().unwrap())
}

fn agent_address() -> Ipv6Addr {
    "2001:db8::1".parse().unwrap()
}

/// A key of a file.
pub(super) fn file_key(number: u8) -> SharedKey {
    SharedKey { spi: 300 + u32::from(number), secret: vec![number; 20] }
}

/// An invitation with this number, its key that of the row.
pub(super) fn invitation(number: u8) -> RowInvitation {
    RowInvitation { id: InvitationId([number; 8]), first: None, expires_unix: START_UNIX + 7 * 86_400, key: None }
}

/// The row of the mobile router.
pub(super) fn row(key: SharedKey, invitation: Option<RowInvitation>) -> PrefixTableRow {
    PrefixTableRow {
        home_address: home(),
        prefixes: ["2001:db8:f00::/56".parse().unwrap()].into(),
        authentication: Authentication::SharedKey(key),
        next_key: None,
        invitation: invitation.map(Box::new),
    }
}

pub(super) fn agent_config(row: PrefixTableRow) -> HomeAgentConfig {
    HomeAgentConfig {
        address: agent_address(),
        home_prefixes: vec!["2001:db8::/64".parse().unwrap()],
        prefix_table: PrefixTable { rows: vec![row] }.into(),
        ..Default::default()
    }
}

pub(super) fn router_config(key: SharedKey, invitation: Option<u8>) -> MobileRouterConfig {
    MobileRouterConfig {
        home_address: home(),
        home_prefix: "2001:db8::/64".parse().unwrap(),
        home_agents: vec![agent_address()],
        prefixes: vec!["2001:db8:f00::/56".parse().unwrap()],
        prefix_mode: PrefixMode::Implicit,
        authentication: Authentication::SharedKey(key),
        invitation: invitation.map(|number| InvitationId([number; 8])),
        lifetime: Duration::from_secs(60),
        uplinks: vec![UplinkConfig { interface: "up0".into(), bid: Bid(1), ..Default::default() }],
        duplicate_detection: DadMode::Off,
        ..Default::default()
    }
}

/// One end, with its disk.
pub(super) struct End {
    pub engine: Box<dyn Engine>,
    pub agent_config: Option<HomeAgentConfig>,
    pub router_config: Option<MobileRouterConfig>,
    pub journal: BTreeMap<JournalKey, JournalRecord>,
    /// Records on their way to the disk, with the time of their outcome.
    writing: BTreeMap<(Time, u64), Put>,
    /// The disk is full.
    pub is_full: bool,
}

/// What a world does at random.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Weather {
    /// Lost and duplicated packets per thousand.
    pub loss: u64,
    pub copies: u64,
    /// Most delay of a packet beside the usual one, milliseconds.
    pub jitter: u64,
}

pub(super) struct World {
    pub now: Time,
    pub ends: Vec<End>,
    pub weather: Weather,
    /// Answers that are lost before the first passes.
    pub lost_answers: u32,
    /// The home agent's clock is not set.
    pub has_no_clock: bool,
    pub rng: Entropy,
    pub reports: Vec<(usize, Report)>,
    in_flight: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    serial: u64,
}

impl World {
    /// A home agent with this row, and these mobile routers, each on a network of its own.
    pub(super) fn new(seed: u64, row: PrefixTableRow, routers: &[MobileRouterConfig]) -> World {
        let mut world = World::without_clock(seed, row, routers);
        world.has_no_clock = false;
        for end in 0..world.ends.len() {
            world.start(end);
        }
        world
    }

    /// The same, not started, and with a home agent whose clock is not set.
    pub(super) fn without_clock(seed: u64, row: PrefixTableRow, routers: &[MobileRouterConfig]) -> World {
        let end = |agent_config: Option<HomeAgentConfig>, router_config: Option<MobileRouterConfig>| End {
            engine: Box::new(HomeAgent::new(agent_config.clone().unwrap_or_default(), Entropy::seed_from_u64(0))),
            agent_config,
            router_config,
            journal: BTreeMap::new(),
            writing: BTreeMap::new(),
            is_full: false,
        };
        let mut ends = vec![end(Some(agent_config(row)), None)];
        ends.extend(routers.iter().map(|config| end(None, Some(config.clone()))));
        World {
            now: Time::ZERO,
            ends,
            weather: Weather::default(),
            lost_answers: 0,
            has_no_clock: true,
            rng: Entropy::seed_from_u64(seed),
            reports: Vec::new(),
            in_flight: BTreeMap::new(),
            serial: 0,
        }
    }

    /// Starts an end, or starts it again, with what its disk has.
    pub(super) fn start(&mut self, end: usize) {
        let entropy = self.rng.fork();
        let here = &mut self.ends[end];
        here.engine = match (&here.agent_config, &here.router_config) {
            (Some(config), _) => Box::new(HomeAgent::new(config.clone(), entropy)),
            (_, Some(config)) => Box::new(MobileRouter::new(config.clone(), entropy)),
            _ => unreachable!(),
        };
        here.writing.clear();
        let records: Vec<JournalRecord> = here.journal.values().cloned().collect();
        let start = if end == AGENT && self.has_no_clock { 0 } else { START_UNIX };
        self.feed(end, Input::Clock(Clock { unix_micros: start * 1_000_000 + self.now.as_micros() }));
        self.feed(end, Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
        self.feed(end, Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
        if end != AGENT {
            let address = Some(LinkAddress([2, 0, 0, 0, 0, u8::try_from(end).unwrap()]));
            let link = LinkEvent { link: UPLINK, name: "up0".into(), address, up: true, mtu: 1500 };
            self.feed(end, Input::Link(link));
            self.advertise(end);
        }
    }

    /// The process ends, and with it what is on its way to the disk, but for what the disk has done already.
    pub(super) fn crash(&mut self, end: usize, written: usize) {
        let writing = core::mem::take(&mut self.ends[end].writing);
        for put in writing.into_values().take(written) {
            self.write(end, &put);
        }
        self.start(end);
    }

    fn advertise(&mut self, end: usize) {
        let prefix: Prefix = format!("2001:db8:a{end}::/64").parse().unwrap();
        let message = icmp6::Message::RouterAdvertisement(RouterAdvertisement {
            hop_limit: 64,
            lifetime: 9000,
            options: vec![
                NeighbourOption::SourceLinkAddress(LinkAddress([2, 0, 0, 0, 1, 1])),
                NeighbourOption::PrefixInformation {
                    prefix,
                    address: prefix.address(),
                    on_link: true,
                    autonomous: true,
                    router_address: false,
                    valid: 86_400 * 30,
                    preferred: 86_400 * 30,
                },
            ],
            ..RouterAdvertisement::default()
        });
        let source = "fe80::1".parse().unwrap();
        let header = Header::new(source, icmp6::ALL_NODES).with_hop_limit(255);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, icmp6::ALL_NODES));
        let sender = Some(LinkAddress([2, 0, 0, 0, 1, 1]));
        self.feed(end, Input::Packet(Packet { link: UPLINK, sender, bytes }));
    }

    pub(super) fn feed(&mut self, end: usize, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut out = Outbox::new();
            self.ends[end].engine.handle(self.now, &input, &mut out);
            for output in out.drain() {
                match output {
                    Output::Put(put) if matches!(put.item, Item::JournalRecord(_)) => {
                        self.serial += 1;
                        let at = self.now + Duration::from_millis(1 + self.rng.below(20));
                        // A disk writes in order.
                        let last = self.ends[end].writing.last_key_value().map(|((at, _), _)| *at);
                        let at = last.map_or(at, |last| last.max(at));
                        self.ends[end].writing.insert((at, self.serial), put);
                    }
                    Output::Put(put) => inputs.insert(0, Input::Outcome(put.outcome(None))),
                    Output::Drop(Key::JournalRecord(key)) => drop(self.ends[end].journal.remove(&key)),
                    Output::Transmit(transmit) => self.transmit(end, transmit.bytes),
                    Output::Report(report) => self.reports.push((end, report)),
                    _ => {}
                }
            }
        }
    }

    fn write(&mut self, end: usize, put: &Put) {
        let (Item::JournalRecord(record), Key::JournalRecord(key)) = (&put.item, put.item.key()) else { return };
        self.ends[end].journal.insert(key, record.clone());
    }

    fn transmit(&mut self, from: usize, bytes: Vec<u8>) {
        let Ok(datagram) = Datagram::parse(&bytes) else { return };
        if datagram.protocol != protocol::MOBILITY {
            return;
        }
        let to = match from {
            AGENT => usize::from(datagram.destination.octets()[5] & 0xf),
            _ => AGENT,
        };
        let message = Message::parse(datagram.payload, datagram.real_source(), datagram.real_destination());
        if let Ok(Message::BindingAcknowledgement(message)) = message {
            let answers =
                |option: &MobilityOption| matches!(option, MobilityOption::KeyExchange(KeyExchange::Answer { .. }));
            if self.lost_answers > 0 && message.options.iter().any(answers) {
                self.lost_answers -= 1;
                return;
            }
        }
        if to >= self.ends.len() || self.rng.below(1000) < self.weather.loss {
            return;
        }
        let copies = 1 + u64::from(self.rng.below(1000) < self.weather.copies);
        for _ in 0..copies {
            self.serial += 1;
            let at = self.now + Duration::from_millis(5 + self.rng.below(self.weather.jitter + 1));
            self.in_flight.insert((at, self.serial), (to, bytes.clone()));
        }
    }

    /// The next thing that happens until then; whether there is one.
    pub(super) fn step(&mut self, until: Time) -> bool {
        let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
        let disk = |end: &End| end.writing.first_key_value().map(|((at, _), _)| *at);
        let due = |end: &End| [disk(end), end.engine.deadline()].into_iter().flatten().min();
        let next =
            self.ends.iter().enumerate().filter_map(|(number, end)| Some((due(end)?.max(self.now), number))).min();
        let at = [arrival, next.map(|(at, _)| at)].into_iter().flatten().min();
        let Some(at) = at.filter(|at| *at <= until) else {
            self.now = until;
            return false;
        };
        self.now = at;
        if arrival == Some(at) {
            let (_, (to, bytes)) = self.in_flight.pop_first().unwrap();
            self.feed(to, Input::Packet(Packet { link: UPLINK, sender: None, bytes }));
            return true;
        }
        let (_, end) = next.unwrap();
        if disk(&self.ends[end]).is_some_and(|disk| disk <= at) {
            let (_, put) = self.ends[end].writing.pop_first().unwrap();
            let error = self.ends[end].is_full.then(|| "no space left on device".to_owned());
            if error.is_none() {
                self.write(end, &put);
            }
            self.feed(end, Input::Outcome(put.outcome(error)));
        } else {
            self.feed(end, Input::Tick);
        }
        true
    }

    /// Lets seconds pass.
    pub(super) fn seconds(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        while self.step(until) {}
    }

    /// The home agent's table changes.
    pub(super) fn reload(&mut self, rows: Vec<PrefixTableRow>) {
        let table = std::sync::Arc::new(PrefixTable { rows });
        self.ends[AGENT].agent_config.as_mut().unwrap().prefix_table = table.clone();
        self.feed(AGENT, Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(table))));
    }

    /// The operator of a mobile router asks for a new key.
    pub(super) fn rekey(&mut self, end: usize) {
        self.feed(end, Input::Command(Command::MobileRouter(MobileRouterCommand::ExchangeKey)));
    }

    pub(super) fn view(&self, end: usize) -> View {
        let mut view = View::default();
        self.ends[end].engine.view(self.now, &mut view);
        view
    }

    /// Whether an end has, or is in, a binding without a fault.
    pub(super) fn is_bound(&self, end: usize) -> bool {
        self.view(end).bindings.iter().any(|row| row.state == BindingState::Bound)
    }

    /// The mobile router that the home agent forwards to.
    pub(super) fn served(&self) -> Option<usize> {
        let care_of = self.view(AGENT).bindings.iter().find_map(|row| row.care_of)?;
        Some(usize::from(care_of.octets()[5] & 0xf))
    }

    /// The exchanged key that the home agent has, and the one that a mobile router has.
    pub(super) fn keys(&self, router: usize) -> [Option<SharedKey>; 2] {
        let record = self.ends[AGENT].journal.get(&JournalKey::RowKeys(home()));
        let agent = record.and_then(|record| match record {
            JournalRecord::RowKeys(record) => record.current.clone(),
            _ => None,
        });
        let record = self.ends[router].journal.get(&JournalKey::OwnKeys(home()));
        let router = record.and_then(|record| match record {
            JournalRecord::OwnKeys(record) => record.current.clone(),
            _ => None,
        });
        [agent, router]
    }

    /// Whether both ends have the same exchanged key, and a binding.
    pub(super) fn is_exchanged(&self, router: usize) -> bool {
        let [agent, own] = self.keys(router);
        agent.is_some() && agent == own && self.is_bound(router) && self.served() == Some(router)
    }

    /// The reports of an end about keys and refusals, by name.
    pub(super) fn count(&self, end: usize, is_meant: impl Fn(&NemoReport) -> bool) -> usize {
        let reports = self.reports.iter().filter(|(by, _)| *by == end);
        reports.filter(|(_, report)| matches!(report, Report::Nemo(report) if is_meant(report))).count()
    }

    pub(super) fn exchanges(&self, end: usize) -> usize {
        self.count(end, |report| matches!(report, NemoReport::KeyExchanged { .. }))
    }

    pub(super) fn failures(&self, end: usize) -> Vec<String> {
        let of_end = self.reports.iter().filter(|(by, _)| *by == end);
        let why = of_end.filter_map(|(_, report)| match report {
            Report::Nemo(NemoReport::KeyExchangeFailed { why, .. }) => Some(why.clone()),
            _ => None,
        });
        why.collect()
    }

    /// How many updates the home agent has refused for their former key.
    pub(super) fn former_keys(&self) -> usize {
        let former =
            |report: &Report| matches!(report, Report::Host(HostReport::Dropped { reason: DropReason::FormerKey, .. }));
        self.reports.iter().filter(|(by, report)| *by == AGENT && former(report)).count()
    }

    /// The fault that the home agent shows.
    pub(super) fn agent_fault(&self) -> String {
        self.view(AGENT).bindings.iter().find_map(|row| row.last_error.clone()).unwrap_or_default()
    }
}
