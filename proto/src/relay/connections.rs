//! Which packets the data plane delivers to the relay. A closed connection stays known for a while, because its last segments
//! are still on the way (RFC 9293 §3.6.1).

use super::effect::Effect;
use super::{BearerId, Tuple, TupleState};
use crate::Time;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

/// How long a closed connection is known: longer than any segment lives, and than the kernel keeps TIME-WAIT.
const CLOSED_TIME: Duration = Duration::from_secs(90);
/// How long a connection for which there was no bearer is left to the tunnel: as long as its SYN is retransmitted.
const LEFT_ALONE_TIME: Duration = Duration::from_secs(150);

/// The connections known to the data plane.
#[derive(Debug, Default)]
pub(super) struct Connections {
    held: BTreeMap<Tuple, Held>,
    /// When to forget which, in the order of time for each period.
    closed: VecDeque<(Time, Tuple)>,
    left_alone: VecDeque<(Time, Tuple)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// A SYN is held, or the connection is known to the data plane.
    By(BearerId, bool),
    Until(Time, TupleState),
}

impl Connections {
    /// The bearer of a connection, if it is one of the present.
    pub(super) fn bearer_of(&self, tuple: &Tuple) -> Option<BearerId> {
        match self.held.get(tuple) {
            Some(Held::By(bearer, _)) => Some(*bearer),
            _ => None,
        }
    }

    /// Reserves a connection for a bearer; [`Connections::activate`] puts it into the data plane.
    pub(super) fn reserve(&mut self, tuple: Tuple, bearer: BearerId) {
        self.held.insert(tuple, Held::By(bearer, false));
    }

    /// What a data plane that knows nothing is to know.
    pub(super) fn restore(&self, out: &mut Vec<Effect>) {
        out.extend(self.held.iter().filter_map(|(tuple, held)| match held {
            Held::By(_, false) => None,
            Held::By(_, true) => Some(Effect::Put(*tuple, TupleState::Active)),
            Held::Until(_, state) => Some(Effect::Put(*tuple, *state)),
        }));
    }

    /// Has packets of the connection delivered.
    pub(super) fn activate(&mut self, tuple: Tuple, bearer: BearerId, out: &mut Vec<Effect>) {
        self.held.insert(tuple, Held::By(bearer, true));
        out.push(Effect::Put(tuple, TupleState::Active));
    }

    /// Forgets a connection that was never open, if it is this bearer's.
    pub(super) fn release(&mut self, tuple: &Tuple, bearer: BearerId, out: &mut Vec<Effect>) {
        if self.bearer_of(tuple) == Some(bearer) {
            self.held.remove(tuple);
            out.push(Effect::Forget(*tuple));
        }
    }

    /// The connection is closed.
    pub(super) fn close(&mut self, now: Time, tuple: Tuple, bearer: BearerId, out: &mut Vec<Effect>) {
        if self.bearer_of(&tuple) == Some(bearer) {
            let until = now + CLOSED_TIME;
            self.held.insert(tuple, Held::Until(until, TupleState::Closed));
            self.closed.push_back((until, tuple));
            out.push(Effect::Put(tuple, TupleState::Closed));
        }
    }

    /// Leaves a connection to the tunnel.
    pub(super) fn leave_alone(&mut self, now: Time, tuple: Tuple, out: &mut Vec<Effect>) {
        let until = now + LEFT_ALONE_TIME;
        self.held.insert(tuple, Held::Until(until, TupleState::LeftAlone));
        self.left_alone.push_back((until, tuple));
        out.push(Effect::Put(tuple, TupleState::LeftAlone));
    }

    /// Forgets what is due.
    pub(super) fn expire(&mut self, now: Time, out: &mut Vec<Effect>) {
        for queue in [&mut self.closed, &mut self.left_alone] {
            while let Some((_, tuple)) = queue.pop_front_if(|(until, _)| *until <= now) {
                if matches!(self.held.get(&tuple), Some(Held::Until(until, _)) if *until <= now) {
                    self.held.remove(&tuple);
                    out.push(Effect::Forget(tuple));
                }
            }
        }
    }

    /// When [`Connections::expire`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        [&self.closed, &self.left_alone].into_iter().filter_map(|queue| queue.front()).map(|(until, _)| *until).min()
    }
}
