//! The conceptual state of a context, and its lookup (RFC 5533 §6, §12.4).

use super::exploration::Exploration;
use super::proof::Announcement;
use super::watch::Watch;
use super::wish::{Homing, Wish};
use crate::base::ids::LinkId;
use crate::base::ids::{ContextId, AddressPair};
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::contract::input::TrafficCount;
use core::hash::{Hash, Hasher};
use core::time::Duration;
use roam6_wire::shim6::{Method, Nonce, Preference, Tag};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::DefaultHasher;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// Index of a context at this node: the low bits of CT(local), which no other context has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot(u32);

impl Slot {
    /// The index of the context with CT(local), if there is one.
    fn of(tag: Tag) -> Slot {
        Slot(tag.bits() as u32)
    }
}

/// A compact duration: whole milliseconds, rounded up; 49 days at most.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Millis(u32);

impl From<Duration> for Millis {
    fn from(span: Duration) -> Millis {
        Millis(u32::try_from(span.as_micros().div_ceil(1000)).unwrap_or(u32::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(span: Millis) -> Duration {
        Duration::from_millis(span.0.into())
    }
}

/// A context. A server may have a hundred thousand, so rarely used fields are boxed.
#[derive(Debug)]
pub(super) struct Context {
    /// ULID pair and forked instance identifier.
    pub(super) id: ContextId,
    /// CT(local).
    pub(super) tag: Tag,
    /// The handshake under way, if any: I1-SENT, I2-SENT and, with a peer, I2BIS-SENT (RFC 5533 §6.2).
    pub(super) opening: Option<Box<Opening>>,
    /// State received from the peer; until then the data plane has no entry.
    pub(super) peer: Option<Peer>,
    /// Lp(local) and Lp(peer): the current locator pair.
    pub(super) path: AddressPair,
    /// The uplink of a local ULID that is no locator.
    pub(super) link: LinkId,
    /// Ls(local) as the peer has acknowledged it.
    pub(super) known: Arc<Announcement>,
    /// An Update Request that the peer has not acknowledged.
    pub(super) update: Option<Box<Update>>,
    /// An R2 that waits until the data plane has installed the context.
    pub(super) owed: Option<Box<(AddressPair, Nonce)>>,
    /// Send and Keepalive Timer.
    pub(super) watch: Watch,
    /// Round-trip time measured by the last exploration; 0 before the first.
    pub(super) round_trip: Millis,
    /// REAP's state other than Operational.
    pub(super) search: Option<Box<Search>>,
    /// A locator pair to switch to as soon as it works.
    pub(super) wish: Option<Box<Wish>>,
    /// State of the return to the preferred pair.
    pub(super) homing: Homing,
    /// Time of the last packet sent or received.
    pub(super) active: Time,
    /// The idle check has requested a sample.
    pub(super) doubted: bool,
    /// Traffic out and in, as last reported by the data plane.
    pub(super) carried: (TrafficCount, TrafficCount),
}

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Opening {
    /// The message sent last.
    pub(super) step: Step,
    /// Our nonce.
    pub(super) nonce: Nonce,
    /// The locators in use.
    pub(super) locators: AddressPair,
    /// Transmissions of this step's message.
    pub(super) tries: u32,
    /// Restarts with a new I1.
    pub(super) rounds: u32,
}

/// The last handshake message sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// I1.
    I1,
    /// I2, with nonce and validator of the R1.
    I2 { responder_nonce: Nonce, validator: Vec<u8> },
    /// I2bis, with nonce, validator and packet tag of the R1bis.
    I2bis { responder_nonce: Nonce, validator: Vec<u8>, packet_tag: Tag },
}

/// State received from a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Peer {
    /// CT(peer).
    pub(super) tag: Tag,
    /// Ls(peer), all of them verified.
    pub(super) locators: Box<[PeerLocator]>,
    /// Generation of the locator list; `None` before the first list.
    pub(super) generation: Option<u32>,
    /// Its CGA parameters.
    pub(super) parameters: Box<[u8]>,
    /// Its Keepalive Timeout (RFC 5534 §5.3).
    pub(super) keepalive: Millis,
    /// It supports timeouts below one second.
    pub(super) quick: bool,
    /// Responder and initiator nonce of the accepted I2 or I2bis: older messages are replays.
    pub(super) responder_nonce: Option<(Nonce, Nonce)>,
}

/// A locator of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerLocator {
    /// The address.
    pub(super) address: Ipv6Addr,
    /// How it was verified.
    pub(super) method: Method,
    /// The peer's preference for it.
    pub(super) preference: Preference,
}

impl PeerLocator {
    /// The peer has flagged it as broken.
    pub(super) fn is_broken(&self) -> bool {
        self.preference.flags & Preference::BROKEN != 0
    }
}

/// An unacknowledged Update Request.
#[derive(Debug)]
pub(super) struct Update {
    /// Request Nonce, the same in each retransmission.
    pub(super) nonce: Nonce,
    /// The locators it announces.
    pub(super) new: Arc<Announcement>,
    /// Number of transmissions.
    pub(super) tries: u32,
}

/// REAP state while it is not Operational (RFC 5534 §4).
#[derive(Debug)]
pub(super) struct Search {
    /// InboundOk, else Exploring.
    pub(super) hears: bool,
    /// Probes and pairs.
    pub(super) exploration: Exploration,
}

impl Context {
    /// Whether upper-layer packets may use the context: ESTABLISHED or I2BIS-SENT (RFC 5533 §11).
    pub(super) fn stands(&self) -> bool {
        self.peer.is_some()
    }

    /// The state's name in RFC 5533.
    pub(super) fn state(&self) -> &'static str {
        match self.opening.as_deref().map(|opening| &opening.step) {
            None => "established",
            Some(Step::I1) => "i1-sent",
            Some(Step::I2 { .. }) => "i2-sent",
            Some(Step::I2bis { .. }) => "i2bis-sent",
        }
    }

    /// REAP's state.
    pub(super) fn reachability(&self) -> &'static str {
        match &self.search {
            None => "operational",
            Some(search) if search.hears => "inbound ok",
            Some(_) => "exploring",
        }
    }

    /// Whether `source` is a valid source of the peer's messages (RFC 5533 §12.4): a locator, or always its ULID.
    pub(super) fn knows(&self, source: Ipv6Addr) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.knows(source) || source == self.id.ulids.peer)
    }

    /// Ends the handshake, and returns its nonce.
    pub(super) fn settle(&mut self) -> Option<Nonce> {
        self.opening.take().map(|opening| opening.nonce)
    }
}

impl Peer {
    /// Whether `address` is one of Ls(peer).
    pub(super) fn knows(&self, address: Ipv6Addr) -> bool {
        self.locators.iter().any(|locator| locator.address == address)
    }
}

/// The context table, indexed by context identifier, tags and nonce.
#[derive(Debug)]
pub(super) struct Contexts {
    /// Seed of the identifier hash: peers choose their addresses.
    secret: u64,
    /// Boxed, because the nodes of a B-tree are half empty.
    slots: BTreeMap<Slot, Box<Context>>,
    /// By a hash of the context identifier.
    by_name: BTreeSet<(u32, Slot)>,
    /// By the low bits of CT(peer).
    by_peer_tag: BTreeSet<(u32, Slot)>,
    by_nonce: BTreeMap<Nonce, Slot>,
}

impl Contexts {
    /// None.
    pub(super) fn new(entropy: &Entropy) -> Contexts {
        Contexts {
            secret: entropy.independent().next_u64(),
            slots: BTreeMap::new(),
            by_name: BTreeSet::new(),
            by_peer_tag: BTreeSet::new(),
            by_nonce: BTreeMap::new(),
        }
    }

    fn hash(&self, id: &ContextId) -> u32 {
        let mut hasher = DefaultHasher::new();
        (self.secret, id).hash(&mut hasher);
        hasher.finish() as u32
    }

    /// Adds a context.
    pub(super) fn put(&mut self, context: Context) -> Slot {
        let slot = Slot::of(context.tag);
        self.by_name.insert((self.hash(&context.id), slot));
        self.by_peer_tag.extend(context.peer.as_ref().map(|peer| (peer.tag.bits() as u32, slot)));
        self.slots.insert(slot, Box::new(context));
        slot
    }

    /// Removes a context.
    pub(super) fn drop(&mut self, slot: Slot) -> Option<Context> {
        let context = self.slots.remove(&slot)?;
        self.by_name.remove(&(self.hash(&context.id), slot));
        if let Some(peer) = &context.peer {
            self.by_peer_tag.remove(&(peer.tag.bits() as u32, slot));
        }
        if let Some(opening) = &context.opening {
            self.by_nonce.remove(&opening.nonce);
        }
        Some(*context)
    }

    /// A context; identifier and tags change only by the functions below.
    pub(super) fn get(&mut self, slot: Slot) -> Option<&mut Context> {
        self.slots.get_mut(&slot).map(Box::as_mut)
    }

    /// Sets the peer's state.
    pub(super) fn put_peer(&mut self, slot: Slot, peer: Peer) {
        let Some(context) = self.slots.get_mut(&slot) else { return };
        if let Some(former) = &context.peer {
            self.by_peer_tag.remove(&(former.tag.bits() as u32, slot));
        }
        self.by_peer_tag.insert((peer.tag.bits() as u32, slot));
        context.peer = Some(peer);
    }

    /// Starts or advances a handshake.
    pub(super) fn put_opening(&mut self, slot: Slot, opening: Opening) {
        let Some(context) = self.slots.get_mut(&slot) else { return };
        self.by_nonce.extend([(opening.nonce, slot)]);
        let former = context.opening.replace(Box::new(opening));
        let nonce = context.opening.as_ref().map(|opening| opening.nonce);
        if let Some(former) = former.filter(|former| Some(former.nonce) != nonce) {
            self.by_nonce.remove(&former.nonce);
        }
    }

    /// Ends the handshake.
    pub(super) fn settle(&mut self, slot: Slot) {
        if let Some(nonce) = self.slots.get_mut(&slot).and_then(|context| context.settle()) {
            self.by_nonce.remove(&nonce);
        }
    }

    /// By context identifier.
    pub(super) fn find(&self, id: &ContextId) -> Option<Slot> {
        let hash = self.hash(id);
        let mut slots = self.by_name.range((hash, Slot(0))..=(hash, Slot(u32::MAX))).map(|(_, slot)| *slot);
        slots.find(|slot| self.slots.get(slot).is_some_and(|context| context.id == *id))
    }

    /// By CT(local).
    pub(super) fn find_tag(&self, tag: Tag) -> Option<Slot> {
        let slot = Slot::of(tag);
        self.slots.get(&slot).filter(|context| context.tag == tag).map(|_| slot)
    }

    /// By our nonce in a handshake.
    pub(super) fn find_nonce(&self, nonce: Nonce) -> Option<Slot> {
        self.by_nonce.get(&nonce).copied()
    }

    /// The contexts with this CT(peer).
    pub(super) fn with_peer_tag(&self, tag: Tag) -> impl Iterator<Item = (Slot, &Context)> {
        let low = tag.bits() as u32;
        let slots = self.by_peer_tag.range((low, Slot(0))..=(low, Slot(u32::MAX)));
        let contexts = slots.filter_map(|(_, slot)| Some((*slot, &**self.slots.get(slot)?)));
        contexts.filter(move |(_, context)| context.peer.as_ref().is_some_and(|peer| peer.tag == tag))
    }

    /// A tag that no context has (RFC 5533 §7.1), with unused low bits.
    pub(super) fn new_tag(&self, entropy: &mut Entropy) -> Tag {
        loop {
            let tag = Tag::of_low(entropy.next_u64());
            if !self.slots.contains_key(&Slot::of(tag)) {
                return tag;
            }
        }
    }

    /// A nonce that no handshake has.
    pub(super) fn new_nonce(&self, entropy: &mut Entropy) -> Nonce {
        loop {
            let nonce = Nonce(entropy.next_u64() as u32);
            if !self.by_nonce.contains_key(&nonce) {
                return nonce;
            }
        }
    }

    /// All contexts in the order of their identifiers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Context)> {
        let mut all: Vec<_> = self.slots.iter().map(|(slot, context)| (*slot, &**context)).collect();
        all.sort_unstable_by_key(|(_, context)| context.id);
        all.into_iter()
    }

    /// All contexts in arbitrary order.
    pub(super) fn iter_unsorted(&self) -> impl Iterator<Item = (Slot, &Context)> + Clone {
        self.slots.iter().map(|(slot, context)| (*slot, &**context))
    }

    /// Number of contexts.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::Timer;

    /// The experiment `shim6/contexts` measures the memory of the whole process.
    #[test]
    fn a_context_takes_little_room() {
        assert!(size_of::<Context>() <= 312, "{}", size_of::<Context>());
        assert!(size_of::<PeerLocator>() <= 20, "{}", size_of::<PeerLocator>());
        assert!(size_of::<Timer>() <= 8, "{}", size_of::<Timer>());
    }

    #[test]
    fn spans_are_never_shortened() {
        for (span, kept) in [(0, 0), (1, 1000), (1000, 1000), (1001, 2000)] {
            assert_eq!(Duration::from(Millis::from(Duration::from_micros(span))), Duration::from_micros(kept));
        }
        assert_eq!(Millis::from(Duration::MAX), Millis(u32::MAX));
    }
}
