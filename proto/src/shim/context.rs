//! The conceptual state of a context, and its lookup (RFC 5533 §6, §12.4).

use super::exploration::Exploration;
use super::keepalive::ReapTimers;
use super::proof::Announcement;
use super::switch_attempt::{Failback, SwitchAttempt};
use crate::contract::input::TrafficCount;
use crate::contract::view::{ContextState, ReachabilityState};
use crate::{AddressPair, ContextId, Entropy, LinkId, Time};
use core::hash::{Hash, Hasher};
use core::time::Duration;
use derive_more::Display;
use roam6_wire::shim6::{LocatorPreference, Nonce, Tag, VerificationMethod};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::DefaultHasher;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// A context with traffic in this time explores at once when its path is lost; others explore with the next packet.
const RECENTLY_ACTIVE: Duration = Duration::from_secs(30);

/// Index of a context at this node: the low bits of CT(local), which no other context has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display)]
#[display("{_0:08x}")]
pub(super) struct ContextIndex(u32);

impl ContextIndex {
    /// The index of the context with CT(local), if there is one.
    fn of_tag(tag: Tag) -> ContextIndex {
        ContextIndex(tag.bits() as u32)
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
    pub(super) handshake: Option<Box<Handshake>>,
    /// State received from the peer; until then the data plane has no entry.
    pub(super) peer: Option<Peer>,
    /// Lp(local) and Lp(peer): the current locator pair.
    pub(super) path: AddressPair,
    /// The uplink of a local ULID that is no locator.
    pub(super) link: LinkId,
    /// Ls(local) as the peer has acknowledged it.
    pub(super) announced: Arc<Announcement>,
    /// An Update Request that the peer has not acknowledged.
    pub(super) pending_update: Option<Box<PendingUpdate>>,
    /// An R2 that waits until the data plane has installed the context.
    pub(super) pending_r2: Option<Box<(AddressPair, Nonce)>>,
    /// Send and Keepalive Timer.
    pub(super) reap_timers: ReapTimers,
    /// Round-trip time measured by the last exploration; 0 before the first.
    pub(super) round_trip: Millis,
    /// REAP's state other than Operational.
    pub(super) recovery: Option<Box<Recovery>>,
    /// A locator pair to switch to as soon as it works.
    pub(super) switch_attempt: Option<Box<SwitchAttempt>>,
    /// State of the return to the preferred pair.
    pub(super) failback: Failback,
    /// Time of the last packet sent or received.
    pub(super) last_activity: Time,
    /// The idle check has requested a sample.
    pub(super) idle_check_pending: bool,
    /// Traffic out and in, as last reported by the data plane.
    pub(super) traffic: (TrafficCount, TrafficCount),
}

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Handshake {
    /// The message sent last.
    pub(super) step: HandshakeStep,
    /// Our nonce.
    pub(super) nonce: Nonce,
    /// The locators in use.
    pub(super) locators: AddressPair,
    /// Transmissions of this step's message.
    pub(super) transmissions: u32,
    /// Restarts with a new I1.
    pub(super) restarts: u32,
}

/// The last handshake message sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HandshakeStep {
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
    pub(super) keepalive_timeout: Millis,
    /// It supports timeouts below one second.
    pub(super) subsecond_timeouts: bool,
    /// Responder and initiator nonce of the accepted I2 or I2bis: older messages are replays.
    pub(super) responder_nonce: Option<(Nonce, Nonce)>,
}

/// A locator of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerLocator {
    /// The address.
    pub(super) address: Ipv6Addr,
    /// How it was verified.
    pub(super) method: VerificationMethod,
    /// The peer's preference for it.
    pub(super) preference: LocatorPreference,
}

impl PeerLocator {
    /// The peer has flagged it as broken.
    pub(super) fn is_broken(&self) -> bool {
        self.preference.flags & LocatorPreference::BROKEN != 0
    }
}

/// An unacknowledged Update Request.
#[derive(Debug)]
pub(super) struct PendingUpdate {
    /// Request Nonce, the same in each retransmission.
    pub(super) nonce: Nonce,
    /// The locators it announces.
    pub(super) announcement: Arc<Announcement>,
    /// Number of transmissions.
    pub(super) transmissions: u32,
}

/// REAP state while it is not Operational (RFC 5534 §4).
#[derive(Debug)]
pub(super) struct Recovery {
    /// InboundOk, else Exploring.
    pub(super) inbound_ok: bool,
    /// Probes and pairs.
    pub(super) exploration: Exploration,
}

impl Context {
    /// Whether upper-layer packets may use the context: ESTABLISHED or I2BIS-SENT (RFC 5533 §11).
    pub(super) fn is_established(&self) -> bool {
        self.peer.is_some()
    }

    /// The state's name in RFC 5533.
    pub(super) fn state(&self) -> ContextState {
        match self.handshake.as_deref().map(|handshake| &handshake.step) {
            None => ContextState::Established,
            Some(HandshakeStep::I1) => ContextState::I1Sent,
            Some(HandshakeStep::I2 { .. }) => ContextState::I2Sent,
            Some(HandshakeStep::I2bis { .. }) => ContextState::I2bisSent,
        }
    }

    /// REAP's state.
    pub(super) fn reachability(&self) -> ReachabilityState {
        match &self.recovery {
            None => ReachabilityState::Operational,
            Some(recovery) if recovery.inbound_ok => ReachabilityState::InboundOk,
            Some(_) => ReachabilityState::Exploring,
        }
    }

    /// Whether `source` is a valid source of the peer's messages (RFC 5533 §12.4): a locator, or always its ULID.
    pub(super) fn accepts_source(&self, source: Ipv6Addr) -> bool {
        self.peer.as_ref().is_some_and(|peer| peer.has_locator(source) || source == self.id.ulids.peer)
    }

    /// Whether the context had traffic recently.
    pub(super) fn is_recently_active(&self, now: Time) -> bool {
        self.last_activity + RECENTLY_ACTIVE > now
    }

    /// The target of a switch attempt, which an exploration is to probe first.
    pub(super) fn switch_target(&self) -> Option<AddressPair> {
        self.switch_attempt.as_ref().map(|attempt| attempt.path)
    }

    /// Ends the handshake, and returns its nonce.
    pub(super) fn end_handshake(&mut self) -> Option<Nonce> {
        self.handshake.take().map(|handshake| handshake.nonce)
    }
}

impl Peer {
    /// Whether `address` is one of Ls(peer).
    pub(super) fn has_locator(&self, address: Ipv6Addr) -> bool {
        self.locators.iter().any(|locator| locator.address == address)
    }
}

/// The context table, indexed by context identifier, tags and nonce.
#[derive(Debug)]
pub(super) struct Contexts {
    /// Seed of the identifier hash: peers choose their addresses.
    secret: u64,
    /// Boxed, because the nodes of a B-tree are half empty.
    by_index: BTreeMap<ContextIndex, Box<Context>>,
    /// By a hash of the context identifier.
    by_id_hash: BTreeSet<(u32, ContextIndex)>,
    /// By the low bits of CT(peer).
    by_peer_tag: BTreeSet<(u32, ContextIndex)>,
    by_nonce: BTreeMap<Nonce, ContextIndex>,
}

impl Contexts {
    /// None.
    pub(super) fn new(entropy: &Entropy) -> Contexts {
        Contexts {
            secret: entropy.independent().next_u64(),
            by_index: BTreeMap::new(),
            by_id_hash: BTreeSet::new(),
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
    pub(super) fn put(&mut self, context: Context) -> ContextIndex {
        let index = ContextIndex::of_tag(context.tag);
        self.by_id_hash.insert((self.hash(&context.id), index));
        self.by_peer_tag.extend(context.peer.as_ref().map(|peer| (peer.tag.bits() as u32, index)));
        self.by_index.insert(index, Box::new(context));
        index
    }

    /// Removes a context.
    pub(super) fn drop(&mut self, index: ContextIndex) -> Option<Context> {
        let context = self.by_index.remove(&index)?;
        self.by_id_hash.remove(&(self.hash(&context.id), index));
        if let Some(peer) = &context.peer {
            self.by_peer_tag.remove(&(peer.tag.bits() as u32, index));
        }
        if let Some(handshake) = &context.handshake {
            self.by_nonce.remove(&handshake.nonce);
        }
        Some(*context)
    }

    /// A context; identifier and tags change only by the functions below.
    pub(super) fn get(&mut self, index: ContextIndex) -> Option<&mut Context> {
        self.by_index.get_mut(&index).map(Box::as_mut)
    }

    /// Sets the peer's state.
    pub(super) fn put_peer(&mut self, index: ContextIndex, peer: Peer) {
        let Some(context) = self.by_index.get_mut(&index) else { return };
        if let Some(former) = &context.peer {
            self.by_peer_tag.remove(&(former.tag.bits() as u32, index));
        }
        self.by_peer_tag.insert((peer.tag.bits() as u32, index));
        context.peer = Some(peer);
    }

    /// Starts or advances a handshake.
    pub(super) fn put_handshake(&mut self, index: ContextIndex, handshake: Handshake) {
        let Some(context) = self.by_index.get_mut(&index) else { return };
        self.by_nonce.extend([(handshake.nonce, index)]);
        let former = context.handshake.replace(Box::new(handshake));
        let nonce = context.handshake.as_ref().map(|handshake| handshake.nonce);
        if let Some(former) = former.filter(|former| Some(former.nonce) != nonce) {
            self.by_nonce.remove(&former.nonce);
        }
    }

    /// Ends the handshake.
    pub(super) fn end_handshake(&mut self, index: ContextIndex) {
        if let Some(nonce) = self.by_index.get_mut(&index).and_then(|context| context.end_handshake()) {
            self.by_nonce.remove(&nonce);
        }
    }

    /// By context identifier.
    pub(super) fn find(&self, id: &ContextId) -> Option<ContextIndex> {
        let hash = self.hash(id);
        let mut indices =
            self.by_id_hash.range((hash, ContextIndex(0))..=(hash, ContextIndex(u32::MAX))).map(|(_, index)| *index);
        indices.find(|index| self.by_index.get(index).is_some_and(|context| context.id == *id))
    }

    /// By CT(local).
    pub(super) fn find_tag(&self, tag: Tag) -> Option<ContextIndex> {
        let index = ContextIndex::of_tag(tag);
        self.by_index.get(&index).filter(|context| context.tag == tag).map(|_| index)
    }

    /// By our nonce in a handshake.
    pub(super) fn find_nonce(&self, nonce: Nonce) -> Option<ContextIndex> {
        self.by_nonce.get(&nonce).copied()
    }

    /// The contexts with this CT(peer).
    pub(super) fn with_peer_tag(&self, tag: Tag) -> impl Iterator<Item = (ContextIndex, &Context)> {
        let low = tag.bits() as u32;
        let indices = self.by_peer_tag.range((low, ContextIndex(0))..=(low, ContextIndex(u32::MAX)));
        let contexts = indices.filter_map(|(_, index)| Some((*index, &**self.by_index.get(index)?)));
        contexts.filter(move |(_, context)| context.peer.as_ref().is_some_and(|peer| peer.tag == tag))
    }

    /// A tag that no context has (RFC 5533 §7.1), with unused low bits.
    pub(super) fn new_tag(&self, entropy: &mut Entropy) -> Tag {
        loop {
            let tag = Tag::from_low_bits(entropy.next_u64());
            if !self.by_index.contains_key(&ContextIndex::of_tag(tag)) {
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
    pub(super) fn iter(&self) -> impl Iterator<Item = (ContextIndex, &Context)> {
        let mut all: Vec<_> = self.by_index.iter().map(|(index, context)| (*index, &**context)).collect();
        all.sort_unstable_by_key(|(_, context)| context.id);
        all.into_iter()
    }

    /// All contexts in arbitrary order.
    pub(super) fn iter_unsorted(&self) -> impl Iterator<Item = (ContextIndex, &Context)> + Clone {
        self.by_index.iter().map(|(index, context)| (*index, &**context))
    }

    /// Number of contexts.
    pub(super) fn len(&self) -> usize {
        self.by_index.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::Timer;

    /// The experiment `shim6/contexts` measures the memory of the whole process.
    #[test]
    fn context_size_is_bounded() {
        assert!(size_of::<Context>() <= 312, "{}", size_of::<Context>());
        assert!(size_of::<PeerLocator>() <= 20, "{}", size_of::<PeerLocator>());
        assert!(size_of::<Timer>() <= 8, "{}", size_of::<Timer>());
    }

    #[test]
    fn millis_rounds_up() {
        for (span, kept) in [(0, 0), (1, 1000), (1000, 1000), (1001, 2000)] {
            assert_eq!(Duration::from(Millis::from(Duration::from_micros(span))), Duration::from_micros(kept));
        }
        assert_eq!(Millis::from(Duration::MAX), Millis(u32::MAX));
    }
}
