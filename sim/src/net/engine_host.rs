//! Hosts the engines of a world: starts, feeds, executes and kills them.

use crate::net::event::Scheduled;
use crate::net::host::Instance;
use crate::net::packet_summary::summary;
use crate::net::shim_datapath::DatapathEvent;
use crate::net::{HostId, Observation, World};
use core::time::Duration;
use roam6_proto::case::Step;
use roam6_proto::contract::command::LifecycleCommand;
use roam6_proto::contract::input::{AddressEvent, AddressState, FlowEvent, NeighbourEvent};
use roam6_proto::contract::item::{Address, JournalRecord};
use roam6_proto::{Command, Input, Item, Key, LinkId, LinkTraffic, Outbox, Outcome, Output, Put, Via};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// Longest time the host takes to apply an item, microseconds.
const MAX_PUT_MICROS: u64 = 2_000;
/// More inputs than this at one moment are an endless loop.
const MAX_INPUTS_AT_ONCE: u32 = 2_000;
/// Time until the removal of a record is synced.
const JOURNAL_SYNC: Duration = Duration::from_millis(20);

impl World {
    /// Starts every host.
    pub fn start_all(&mut self) {
        let all: Vec<HostId> = self.hosts().map(|(id, _)| id).collect();
        all.into_iter().for_each(|id| self.start(id));
    }

    /// Powers a host on and starts its engine, unless it runs already.
    pub fn start(&mut self, id: HostId) {
        let now = self.now();
        let host = self.host_mut(id);
        host.powered = true;
        if host.instance.is_some() {
            return;
        }
        host.instances += 1;
        host.instance = Some(Instance {
            engine: (host.spawn)(host.instances),
            started: now,
            unanswered: 0,
            answered_by: now,
            begun: false,
            stale_removed: false,
            claimed: BTreeSet::new(),
            wake: None,
            busy: (now, 0),
        });
        let clock = host.clock.wall(now);
        let recall = host.journal.records();
        let links: Vec<LinkId> = host.interfaces.keys().copied().collect();
        if let Some((recorded, steps)) = &mut self.recording
            && *recorded == id
        {
            steps.clear();
        }
        self.observations.push(Observation::Started(id));
        self.handle(id, &Input::Clock(clock));
        self.handle(id, &Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(recall))));
        for link in links {
            if self.host(id).is_virtual(link) {
                continue;
            }
            if let Some(event) = self.host(id).link_event(link, self.is_up(id, link)) {
                self.handle(id, &Input::Link(event));
            }
            let host = self.host(id);
            let mut addresses = host.kernel.addresses(link);
            addresses.retain(|address| host.reports_addresses || address.to_ipv4_mapped().is_some());
            for address in addresses {
                self.report_address(id, (link, address), AddressState::Preferred);
            }
        }
        self.schedule_fix(id);
        self.begin_instance(id);
    }

    /// Hands an input to an engine and executes its outputs.
    pub(crate) fn handle(&mut self, id: HostId, input: &Input) {
        let now = self.now();
        self.trace_input(id, input);
        let host = self.host_mut(id);
        let time = host.time(now);
        let Some(instance) = &mut host.instance else { return };
        instance.busy = if instance.busy.0 == now { (now, instance.busy.1 + 1) } else { (now, 1) };
        let busy = instance.busy.1 > MAX_INPUTS_AT_ONCE;
        let mut out = Outbox::new();
        instance.engine.handle(time, input, &mut out);
        if let Some((recorded, steps)) = &mut self.recording
            && *recorded == id
        {
            steps.push(Step { at: time, input: input.clone(), outputs: out.outputs().to_vec() });
        }
        if busy {
            self.observations.push(Observation::Looping(id));
        }
        self.execute(id, &mut out);
        self.remove_stale(id);
        self.set_alarm(id);
        self.observations.push(Observation::Handled(id));
    }

    /// Kills the engine without warning; its items stay in the kernel.
    pub(crate) fn kill(&mut self, id: HostId) {
        let now = self.now();
        let mut entropy = self.entropy.clone();
        let host = self.host_mut(id);
        let was_running = host.instance.take().is_some();
        if was_running {
            host.journal.crash(now, &mut entropy);
            self.observations.push(Observation::Killed(id));
        }
        self.entropy = entropy;
        if was_running {
            self.remove_virtual_interfaces(id);
        }
    }

    pub(crate) fn power_off(&mut self, id: HostId) {
        self.kill(id);
        let host = self.host_mut(id);
        host.powered = false;
        host.kernel.clear();
        host.interfaces.values_mut().for_each(|interface| interface.traffic = Default::default());
    }

    pub(crate) fn step_clock(&mut self, id: HostId, micros: i64) {
        let now = self.now();
        let clock = &mut self.host_mut(id).clock;
        clock.wall_offset_micros = clock.wall_offset_micros.saturating_add(micros);
        let clock = Input::Clock(clock.wall(now));
        self.handle(id, &clock);
    }

    pub(crate) fn wake(&mut self, id: HostId) {
        let now = self.now();
        let Some(instance) = &mut self.host_mut(id).instance else { return };
        if instance.wake == Some(now) {
            instance.wake = None;
            self.handle(id, &Input::Tick);
        }
    }

    pub(crate) fn deliver_outcome(&mut self, id: HostId, number: u32, outcome: Outcome) {
        let host = self.host_mut(id);
        let Some(instance) = host.instance.as_mut().filter(|_| host.instances == number) else { return };
        instance.unanswered = instance.unanswered.saturating_sub(1);
        let address = match (&outcome.key, &outcome.error) {
            (Key::Address(link, address), None) => Some((*link, *address)),
            _ => None,
        };
        self.handle(id, &Input::Outcome(outcome));
        if let Some((link, address)) = address.filter(|(_, address)| self.host(id).kernel.has_address(*address)) {
            self.report_address(id, (link, address), AddressState::Preferred);
        }
        self.begin_instance(id);
    }

    pub(crate) fn resolution_timeout(&mut self, id: HostId, link: LinkId, address: Ipv6Addr) {
        self.resolving.remove(&(id, link, address));
        if self.is_up(id, link) && self.resolve((id, link), address).is_none() {
            for _ in 0..self.host_mut(id).neighbours.give_up(link, address) {
                self.count_loss(id, "no such neighbour");
            }
            let event = NeighbourEvent { link, address, link_address: None, reachable: false };
            self.handle(id, &Input::Neighbour(event));
        }
    }

    /// Reports `Begin` once every item recalled at the start has its outcome.
    fn begin_instance(&mut self, id: HostId) {
        let instance = self.host_mut(id).instance.as_mut();
        let Some(instance) = instance.filter(|instance| !instance.begun && instance.unanswered == 0) else { return };
        instance.begun = true;
        self.handle(id, &Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
    }

    /// Removes items of the previous instance once the engine no longer needs them.
    fn remove_stale(&mut self, id: HostId) {
        let host = self.host_mut(id);
        let may_settle =
            |instance: &&mut Instance| instance.begun && !instance.stale_removed && instance.engine.takeover_complete();
        let Some(instance) = host.instance.as_mut().filter(may_settle) else { return };
        instance.stale_removed = true;
        let remains: Vec<Key> = host
            .kernel
            .plan()
            .iter()
            .map(|(key, _)| key.clone())
            .filter(|key| !instance.claimed.contains(key))
            .collect();
        for key in remains.iter().rev() {
            host.kernel.drop(key);
        }
    }

    fn execute(&mut self, id: HostId, out: &mut Outbox) {
        for output in out.drain().collect::<Vec<_>>() {
            self.trace_output(id, &output);
            match output {
                Output::Transmit(transmit) => {
                    self.observations.push(Observation::Sent(id, Rc::new(transmit.bytes.clone())));
                    match transmit.via {
                        Via::Route => self.send(id, transmit.bytes, None),
                        Via::Link(link) => self.send(id, transmit.bytes, Some(link)),
                        Via::Neighbour { link, address } => self.emit((id, link), Some(address), transmit.bytes),
                    }
                }
                Output::Put(put) => self.put(id, put),
                Output::Drop(key) => self.drop(id, &key),
                Output::ActivityQuery(sample) => {
                    if self.host_mut(id).kernel.shim.request_report(&sample) {
                        self.deliver_soon(id, DatapathEvent::Activity(sample.context));
                    }
                }
                Output::PathTrafficQuery(query) => {
                    for bid in self.host(id).kernel.paths_of(query.tunnel) {
                        if query.notify_sent {
                            self.host_mut(id).path_counters.request((query.tunnel, bid));
                        }
                        self.deliver_soon(id, DatapathEvent::PathTraffic((query.tunnel, bid)));
                    }
                }
                Output::LinkTrafficQuery(link) => self.deliver_soon(id, DatapathEvent::LinkTraffic(link)),
                // No simulated network intercepts connections, and none has a radio channel.
                Output::InterceptionQuery(_) | Output::ChannelUseQuery(_) => {}
                Output::Frame(frame) => self.send_frame(id, &frame),
                // No host of these worlds has certificates.
                Output::Verify(_) | Output::Sign(_) => {}
                Output::Report(report) => self.observations.push(Observation::Reported(id, report)),
            }
        }
    }

    /// Delivers an event of the data plane after a short delay.
    pub(crate) fn deliver_soon(&mut self, id: HostId, event: DatapathEvent) {
        let soon = self.now() + Duration::from_micros(self.entropy.below(MAX_PUT_MICROS));
        let instance = self.host(id).instances;
        self.enqueue(soon, Scheduled::Datapath { host: id, instance, event });
    }

    /// Delivers an event of the data plane now.
    pub(crate) fn deliver_datapath_event(&mut self, id: HostId, number: u32, event: DatapathEvent) {
        let host = self.host(id);
        if host.instances != number || host.instance.is_none() {
            return;
        }
        let input = match event {
            DatapathEvent::Activity(context) => {
                let at = |time| host.time(time);
                host.kernel.shim.activity(&context, at).map(Input::Activity)
            }
            DatapathEvent::LinkTraffic(link) => host.interfaces.get(&link).map(|interface| {
                let (tx, rx) = interface.traffic;
                Input::LinkTraffic(LinkTraffic { link, tx, rx })
            }),
            DatapathEvent::PathTraffic(path) => {
                Some(Input::PathTraffic(host.path_counters.read(path, |time| host.time(time))))
            }
            DatapathEvent::Flow(flow) => Some(Input::Flow(FlowEvent { since: host.time(flow.since), ..flow })),
        };
        if let Some(input) = input {
            self.handle(id, &input);
        }
    }

    /// An address is added or removed by the operator, or by autoconfiguration.
    pub(crate) fn set_address(&mut self, id: HostId, link: LinkId, address: Ipv6Addr, there: bool) {
        let item = Item::Address(Address { link, address, prefix_length: 128, preferred: true, dad: false });
        let host = self.host_mut(id);
        match there {
            true => host.kernel.add_static(item),
            false => host.kernel.remove_static(&item.key()),
        }
        let state = if there { AddressState::Preferred } else { AddressState::Removed };
        self.report_address(id, (link, address), state);
    }

    /// Applies an item or refuses it; the outcome is delivered a little later, in order.
    fn put(&mut self, id: HostId, put: Put) {
        let key = put.item.key();
        let refused = self.entropy.below(1000) < u64::from(self.host(id).refused_per_mille);
        let soon = self.now() + Duration::from_micros(self.entropy.below(MAX_PUT_MICROS));
        let host = self.host_mut(id);
        let number = host.instances;
        let Some(instance) = &mut host.instance else { return };
        instance.claimed.insert(key.clone());
        instance.unanswered += 1;
        instance.answered_by = instance.answered_by.max(soon);
        let due = instance.answered_by;
        let outcome = put.outcome(refused.then(|| "Cannot allocate memory".to_owned()));
        match (put.item, &key) {
            _ if refused => {}
            (Item::JournalRecord(record), Key::JournalRecord(of)) => host.journal.put(*of, record, due),
            (item, _) => host.kernel.put(item),
        }
        if let (Key::VirtualInterface(name), false) = (&key, refused) {
            self.virtual_created(id, name, due);
        }
        self.enqueue(due, Scheduled::Outcome { host: id, instance: number, outcome });
    }

    fn drop(&mut self, id: HostId, key: &Key) {
        let synced = self.now() + JOURNAL_SYNC;
        let host = self.host_mut(id);
        match key {
            Key::JournalRecord(of) => host.journal.drop(*of, synced),
            Key::Address(link, address) => {
                host.kernel.drop(key);
                self.report_address(id, (*link, *address), AddressState::Removed);
            }
            Key::VirtualInterface(name) => {
                host.kernel.drop(key);
                self.virtual_removed(id, name);
            }
            _ => host.kernel.drop(key),
        }
    }

    pub(crate) fn report_address(&mut self, id: HostId, (link, address): (LinkId, Ipv6Addr), state: AddressState) {
        self.handle(id, &Input::Address(AddressEvent { link, address, state }));
    }

    fn set_alarm(&mut self, id: HostId) {
        let now = self.now();
        let host = self.host_mut(id);
        let clock = host.clock;
        let Some(instance) = &mut host.instance else { return };
        let wake = instance.engine.deadline().map(|at| (instance.started + clock.elapsed(at)).max(now));
        if instance.wake != wake {
            instance.wake = wake;
            if let Some(at) = wake {
                self.enqueue(at, Scheduled::Wake { host: id });
            }
        }
    }

    fn trace_input(&self, id: HostId, input: &Input) {
        let host = self.host(id);
        match input {
            Input::Tick => {}
            Input::Packet(packet) => {
                self.trace(|| format!("{} < {} {}", host.name, packet.link, summary(&packet.bytes)));
            }
            other => self.trace(|| format!("{} < {other:?}", host.name)),
        }
    }

    fn trace_output(&self, id: HostId, output: &Output) {
        let host = self.host(id);
        match output {
            Output::Transmit(transmit) => {
                self.trace(|| format!("{} > {:?} {}", host.name, transmit.via, summary(&transmit.bytes)));
            }
            Output::Put(Put { item: Item::JournalRecord(JournalRecord::Binding(record)), .. }) => {
                self.trace(|| format!("{} > record of {} {:?}", host.name, record.home_address, record.sequence));
            }
            other => self.trace(|| format!("{} > {other:?}", host.name)),
        }
    }
}
