//! The radio channel of a medium: hosts with a track, which receive the frames of those in range.

use crate::net::event::Frame;
use crate::net::radio::Audience;
use crate::net::{Port, Radio, RadioSpec, StationId, Track};
use roam6_proto::Time;
use std::collections::BTreeMap;

/// Octets of an Ethernet header, which occupy the channel too.
const HEADER: usize = 14;

/// A radio channel and its members.
#[derive(Debug)]
pub struct RadioChannel {
    radio: Radio<Frame>,
    stations: BTreeMap<Port, StationId>,
    /// The interface of each station, in order of their numbers.
    ports: Vec<Port>,
    /// The event of the channel that is scheduled.
    scheduled: Option<Time>,
}

impl RadioChannel {
    /// A channel without members.
    pub fn new(spec: RadioSpec, seed: u64) -> RadioChannel {
        RadioChannel { radio: Radio::new(spec, seed), stations: BTreeMap::new(), ports: Vec::new(), scheduled: None }
    }

    /// The properties of the channel.
    pub fn spec(&self) -> RadioSpec {
        self.radio.spec()
    }

    /// Changes the properties of the channel.
    pub fn set_spec(&mut self, spec: RadioSpec) {
        self.radio.set_spec(spec);
    }

    /// Attaches an interface of a host that moves along `track`.
    pub fn attach(&mut self, port: Port, track: Track) {
        let next = StationId(u32::try_from(self.ports.len()).unwrap_or(u32::MAX));
        let id = *self.stations.entry(port).or_insert(next);
        if id == next {
            self.ports.push(port);
        }
        self.radio.put(id, track);
    }

    /// Detaches an interface; its queue is lost.
    pub fn detach(&mut self, port: Port) {
        if let Some(id) = self.stations.get(&port) {
            self.radio.drop(*id);
        }
    }

    /// The station of an attached interface.
    pub fn station(&self, port: Port) -> Option<StationId> {
        self.stations.get(&port).copied()
    }

    /// Queues a frame; `false` if the sender's queue is full.
    pub(crate) fn send(&mut self, now: Time, from: Port, audience: Audience, frame: Frame) -> bool {
        let size = HEADER + frame.bytes.len();
        self.stations.get(&from).is_some_and(|from| self.radio.offer(now, *from, audience, size, frame))
    }

    /// The frames received by `now`, with their receivers.
    pub(crate) fn receive(&mut self, now: Time) -> Vec<(Port, Frame)> {
        let mut received = Vec::new();
        while let Some(reception) = self.radio.expire(now) {
            for id in reception.receivers {
                let port = usize::try_from(id.0).ok().and_then(|index| self.ports.get(index));
                received.extend(port.map(|port| (*port, reception.frame.clone())));
            }
        }
        received
    }

    /// When the next event of the channel is due, if it is not scheduled yet.
    pub(crate) fn next_event(&mut self, now: Time) -> Option<Time> {
        let due = self.radio.deadline()?.max(now);
        let is_new = self.scheduled.is_none_or(|scheduled| due < scheduled || scheduled < now);
        if is_new {
            self.scheduled = Some(due);
        }
        is_new.then_some(due)
    }

    /// An event that was scheduled for `now` is handled.
    pub(crate) fn event_handled(&mut self, now: Time) {
        if self.scheduled == Some(now) {
            self.scheduled = None;
        }
    }
}
