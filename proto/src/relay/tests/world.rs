//! Seeded worlds: two relays and the kernels between them.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// Both relays with the kernels between them; what the destinations do is drawn.
struct World {
    now: Time,
    rng: Entropy,
    relays: [Relay; 2],
    /// The bearers of the router and of the agent that are ends of one connection.
    pairs: BTreeMap<BearerId, BearerId>,
    queue: Vec<(usize, Event)>,
    states: [BTreeMap<Tuple, TupleState>; 2],
    /// The connections that a kernel has accepted, and that are neither joined nor reset.
    accepted: [BTreeSet<Tuple>; 2],
    ready: bool,
    outcomes: BTreeMap<Tuple, &'static str>,
    /// The bearers whose destination reads, and those that may send without a limit.
    taken: BTreeSet<(usize, BearerId)>,
    lifted: BTreeSet<(usize, BearerId)>,
}

const ROUTER: usize = 0;
const HOME_AGENT: usize = 1;

impl World {
    fn peer(&self, side: usize, id: BearerId) -> Option<BearerId> {
        match side {
            ROUTER => self.pairs.get(&id).copied(),
            _ => self.pairs.iter().find(|(_, other)| **other == id).map(|(id, _)| *id),
        }
    }

    /// Where both ends are open, octets pass, and one of the destinations reads.
    fn take(&mut self, side: usize, id: BearerId) {
        let Some(peer) = self.peer(side, id).filter(|peer| self.relays[1 - side].connection(*peer).is_some()) else {
            return;
        };
        let (side, id) = if self.rng.below(2) == 0 { (side, id) } else { (1 - side, peer) };
        self.taken.insert((side, id));
        self.queue.push((side, Event::Taken(id)));
    }

    fn cut(&mut self, side: usize, id: BearerId) {
        if let Some(peer) = self.peer(side, id) {
            let router = if side == ROUTER { id } else { peer };
            self.pairs.remove(&router);
            self.queue.push((1 - side, Event::Broken(peer)));
        }
    }

    fn handle(&mut self, side: usize, event: Event) {
        let mut out = Vec::new();
        if let Event::Accepted(tuple) = &event {
            self.accepted[side].insert(*tuple);
        }
        self.relays[side].handle(self.now, event, &Table, &mut out);
        for effect in out {
            self.execute(side, effect);
        }
    }

    fn execute(&mut self, side: usize, effect: Effect) {
        match effect {
            Effect::Dial(id) => {
                assert_eq!(side, ROUTER);
                match self.rng.below(8) {
                    0 => self.queue.push((ROUTER, Event::Broken(id))),
                    _ => match self.relays[HOME_AGENT].accept_bearer(HOME, &Table) {
                        Some(peer) => {
                            self.pairs.insert(id, peer);
                            self.queue.push((ROUTER, Event::Dialled(id)));
                        }
                        None => self.queue.push((ROUTER, Event::Broken(id))),
                    },
                }
            }
            Effect::Send(id, message) => {
                let peer = self.peer(side, id);
                self.queue.extend(peer.map(|peer| (1 - side, Event::Message(peer, message))));
            }
            Effect::Reply(id, answer) => {
                let peer = self.peer(side, id);
                self.queue.extend(peer.map(|peer| (1 - side, Event::Answered(peer, answer))));
            }
            Effect::Put(tuple, state) => drop(self.states[side].insert(tuple, state)),
            Effect::Forget(tuple) => drop(self.states[side].remove(&tuple)),
            Effect::Inject(held) => {
                assert_eq!(self.states[side].get(&held.tuple), Some(&TupleState::Active), "it could not be delivered");
                // A node that has gone does not complete the handshake.
                if self.rng.below(10) != 0 {
                    self.queue.push((side, Event::Accepted(held.tuple)));
                }
            }
            Effect::ResetAccepted(tuple) => assert!(self.accepted[side].remove(&tuple), "it was not accepted"),
            Effect::Refuse(held, _) => drop(self.outcomes.insert(held.tuple, "refused")),
            Effect::Connect(id, connect) => {
                let tuple = Tuple::answering(&connect);
                assert_eq!(self.states[side].get(&tuple), Some(&TupleState::Active), "answers could not be delivered");
                assert_eq!(Table.tunnel_of(if side == ROUTER { connect.destination } else { connect.source }), Some(1));
                let event = match self.rng.below(4) {
                    0 => Event::ConnectFailed(id, Answer::Reset),
                    1 => Event::ConnectFailed(id, Answer::NoRoute),
                    _ => Event::Connected(id),
                };
                self.queue.push((side, event));
            }
            Effect::Join(id, tuple) => {
                self.outcomes.insert(tuple, "joined");
                self.accepted[side].remove(&tuple);
                match self.rng.below(6) {
                    0 => self.queue.push((side, Event::Broken(id))),
                    1 => self.queue.push((side, Event::Completed(id))),
                    2..5 => self.take(side, id),
                    _ => {}
                }
            }
            Effect::Lift(id) => {
                assert!(self.relays[side].connection(id).is_some(), "no connection");
                self.lifted.insert((side, id));
            }
            Effect::Abort(id) => self.cut(side, id),
            Effect::Ready(ready) => {
                assert_ne!(ready, self.ready);
                self.ready = ready;
            }
            Effect::Offered(..) | Effect::Withdrawn(..) => {}
        }
    }

    fn run(seed: u64) {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut world = World {
            now: Time::ZERO,
            rng: Entropy::from_seed(bytes),
            relays: [Relay::new(RelayConfig { early: seed % 2 == 1, ..router_config(7) }), agent()],
            pairs: BTreeMap::new(),
            queue: vec![(ROUTER, Event::Tick)],
            states: Default::default(),
            accepted: Default::default(),
            ready: false,
            outcomes: BTreeMap::new(),
            taken: BTreeSet::new(),
            lifted: BTreeSet::new(),
        };
        for _ in 0..400 {
            world.act();
        }
        world.expect_credits(seed);
        world.settle();
        assert!(world.states.iter().all(BTreeMap::is_empty), "seed {seed}: known for ever: {:?}", world.states);
        assert!(world.accepted.iter().all(BTreeSet::is_empty), "seed {seed}: open for ever: {:?}", world.accepted);
    }

    /// Each connection whose destination reads has its limit lifted, also where the bearer of its Credit has failed.
    fn expect_credits(&mut self, seed: u64) {
        for _ in 0..30 {
            self.drain();
            self.now = self.now + core::time::Duration::from_secs(6);
            (0..2).for_each(|side| self.handle(side, Event::Tick));
        }
        self.drain();
        for (side, id) in &self.taken {
            let Some(peer) = self.peer(*side, *id) else { continue };
            let is_open = |side: usize, id| self.relays[side].connection(id).is_some();
            let open = is_open(*side, *id) && is_open(1 - side, peer);
            assert!(
                !open || self.lifted.contains(&(1 - side, peer)),
                "seed {seed}: {id:?} of {side} waits for a Credit"
            );
        }
    }

    fn drain(&mut self) {
        while !self.queue.is_empty() {
            let at = self.rng.below(self.queue.len() as u64) as usize;
            // Events of one relay stay in order.
            let side = self.queue[at].0;
            let first = self.queue.iter().position(|(other, _)| *other == side).unwrap();
            let (side, event) = self.queue.remove(first);
            self.handle(side, event);
        }
    }

    /// One thing happens: a packet, a failure, or time passes.
    fn act(&mut self) {
        self.drain();
        let port = 1 + self.rng.below(40) as u16;
        match self.rng.below(12) {
            0..5 if self.ready => self.handle(ROUTER, Event::Syn(syn(NODE, port, SERVER))),
            5..8 => self.handle(HOME_AGENT, Event::Syn(syn(SERVER, port, NODE))),
            8 => {
                let ids: Vec<BearerId> = self.pairs.keys().copied().collect();
                if let Some(id) = ids.get(self.rng.below(ids.len().max(1) as u64) as usize) {
                    self.queue.push((ROUTER, Event::Broken(*id)));
                }
            }
            _ => self.now = self.now + core::time::Duration::from_millis(self.rng.below(3000)),
        }
        (0..2).for_each(|side| self.handle(side, Event::Tick));
    }

    /// Everything ends, and all deadlines pass.
    fn settle(&mut self) {
        for _ in 0..4 {
            let ids: Vec<BearerId> = self.pairs.keys().copied().collect();
            for id in ids {
                if self.relays[ROUTER].connection(id).is_none() {
                    continue;
                }
                self.queue.push((ROUTER, Event::Completed(id)));
                self.cut(ROUTER, id);
            }
            let open: Vec<BearerId> = self.relays[HOME_AGENT].open.keys().copied().collect();
            open.into_iter().for_each(|id| self.queue.push((HOME_AGENT, Event::Broken(id))));
            while let Some((side, event)) = (!self.queue.is_empty()).then(|| self.queue.remove(0)) {
                if matches!(event, Event::Dialled(_)) && self.now > Time::from_micros(3_600_000_000) {
                    continue;
                }
                self.handle(side, event);
            }
            self.now = self.now + core::time::Duration::from_secs(400);
            (0..2).for_each(|side| self.handle(side, Event::Tick));
        }
    }
}

#[test]
fn seeded_worlds_leave_nothing_behind() {
    for seed in 0..300 {
        World::run(seed);
    }
}
