//! The connection of a member to the store: the watch, heartbeats and leases.

use super::store::Change;
use super::world::{Event, FleetWorld};
use core::time::Duration;
use roam6_proto::contract::fleet::{FleetEvent, HEARTBEAT_INTERVAL, MemberRecord};
use roam6_proto::contract::item::Revision;
use roam6_proto::{Input, Time};

/// The lease of a member.
const LEASE: Duration = Duration::from_secs(3);

impl FleetWorld {
    pub(super) fn reaches_store(&self, index: usize) -> bool {
        let member = self.members.get(index);
        !self.store_is_down && member.is_some_and(|member| member.connected && member.is_running())
    }

    /// The host of a member connects to the store, or finds that it cannot.
    pub(super) fn reconnect(&mut self, index: usize) -> Result<(), String> {
        let reaches = self.reaches_store(index);
        let head = self.store.head();
        let Some(member) = self.members.get_mut(index).filter(|member| member.is_running()) else { return Ok(()) };
        if !reaches {
            return Ok(());
        }
        let instance = member.instance;
        if !std::mem::replace(&mut member.told, true) {
            self.feed(index, &Input::Fleet(FleetEvent::Connected))?;
        }
        let at = self.soon(self.manners.watch);
        self.push(at, Event::Watch(index, instance, head));
        Ok(())
    }

    /// The changes up to a revision arrive at a member, in order, or a snapshot if it was away for too long.
    pub(super) fn watch(&mut self, index: usize, instance: u32, upto: Revision) -> Result<(), String> {
        let reaches = self.reaches_store(index);
        let Some(member) = self.members.get_mut(index) else { return Ok(()) };
        if !reaches || member.instance != instance || (member.position >= upto && upto > Revision(0)) {
            return Ok(());
        }
        let first = member.position == Revision(0);
        let changes = self.store.changes(member.position, upto).filter(|_| !first);
        let Some(changes) = changes else {
            let head = self.store.head();
            member.position = head;
            let mut events = vec![FleetEvent::SnapshotBegins(head)];
            events.extend(self.store.records().map(FleetEvent::Stored));
            events.push(FleetEvent::SnapshotEnds(head));
            return events.into_iter().try_for_each(|event| self.feed_instance(index, instance, &Input::Fleet(event)));
        };
        for (revision, change) in changes {
            let Some(member) = self.members.get_mut(index).filter(|member| member.instance == instance) else {
                return Ok(());
            };
            member.position = revision;
            let (event, own) = match change {
                Change::Record(stored) => (Some(FleetEvent::Stored(stored)), None),
                Change::Heartbeat(record, at) if record.name == member.name => (None, Some(self.now.since(at))),
                Change::Heartbeat(record, _) => (Some(FleetEvent::Member(record)), None),
            };
            if let Some(event) = event {
                self.feed_instance(index, instance, &Input::Fleet(event))?;
            }
            let head = FleetEvent::Head { revision, own_heartbeat: own };
            self.feed_instance(index, instance, &Input::Fleet(head))?;
        }
        Ok(())
    }

    /// Tells every member of a change, each a little later.
    pub(super) fn notify(&mut self) {
        let head = self.store.head();
        for index in 0..self.members.len() {
            let at = self.soon(self.manners.watch);
            let Some(member) = self.members.get_mut(index) else { continue };
            member.watch_until = member.watch_until.max(at);
            let (at, instance) = (member.watch_until, member.instance);
            self.push(at, Event::Watch(index, instance, head));
        }
    }

    pub(super) fn heartbeat(&mut self, index: usize, instance: u32) {
        let running = self.members.get(index).is_some_and(|member| member.instance == instance && member.is_running());
        if !running {
            return;
        }
        self.push(self.now + HEARTBEAT_INTERVAL, Event::Heartbeat(index, instance));
        if self.reaches_store(index) {
            let at = self.soon(self.manners.delay / 4);
            self.push(at, Event::Beat(index, instance, self.now));
        }
    }

    pub(super) fn beat(&mut self, index: usize, instance: u32, written: Time) -> Result<(), String> {
        let Some(member) = self.members.get(index).filter(|member| member.instance == instance) else { return Ok(()) };
        let Some(state) = member.state().filter(|_| self.reaches_store(index)) else { return Ok(()) };
        let record = MemberRecord {
            name: member.name.clone(),
            state,
            applied: member.position,
            unix_micros: self.unix().wrapping_add_signed(member.clock_offset),
            version: "sim".to_owned(),
            addresses: Vec::new(),
        };
        self.store.beat(record, written);
        self.leases.insert(index, self.now);
        self.push(self.now + LEASE, Event::Lease(index, self.now));
        self.notify();
        Ok(())
    }

    pub(super) fn lease(&mut self, index: usize, renewed: Time) -> Result<(), String> {
        if self.leases.get(&index) != Some(&renewed) {
            return Ok(());
        }
        self.leases.remove(&index);
        let Some(name) = self.members.get(index).map(|member| member.name.clone()) else { return Ok(()) };
        let others: Vec<usize> = (0..self.members.len()).filter(|other| *other != index).collect();
        others
            .into_iter()
            .filter(|other| self.reaches_store(*other))
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|other| self.feed(other, &Input::Fleet(FleetEvent::MemberGone(name.clone()))))
    }
}
