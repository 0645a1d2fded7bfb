//! Shim6 contexts, executed by BPF programs on the uplinks: while the locators are the ULIDs packets are not changed;
//! else addresses are rewritten and a payload extension header is inserted (RFC 5533 §12). They end with the daemon.

mod abi;
mod error_message;
mod programs;
mod segmentation_path;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]
mod tests;
mod transport;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails at the assertion")]
mod tun_tests;

pub(crate) use error_message::HEADER;

use crate::bpf::coarse_clock::ClockReading;
use crate::error::Error;
use crate::io::kernel_icmp_filter::discarding_socket;
use crate::sys;
use crate::tunnel::has_ethernet;
use abi::{ContextIndex, ContextTraffic, Event, NOTIFY_RECEIVED, NOTIFY_SENT, StoredContext};
use aya::programs::tc::SchedClassifierLink;
use error_message::ErrorMessage;
use programs::{Program, Programs};
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::input::{Activity, FlowEvent, TrafficCount};
use roam6_proto::contract::item::{ContextTrigger, MAX_LOCATORS, ShimContext};
use roam6_proto::{ActivityQuery, Input, LinkId, Packet, Time};
use roam6_wire::shim6::{self, Tag};
use segmentation_path::SegmentationPath;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use transport::Transport;

/// Most events taken before the engines see them.
const BATCH: usize = 256;

/// The programs, and the daemon's tables of contexts.
pub(crate) struct Shim {
    programs: Programs,
    segmentation_path: SegmentationPath,
    transport: Transport,
    uplinks: VecMap<LinkId, [SchedClassifierLink; 2]>,
    /// Contexts by index.
    by_index: Vec<Option<ContextId>>,
    /// Contexts that rewrite, by what identifies them in ICMPv6 errors.
    by_error_key: BTreeMap<(Tag, AddressPair), ContextId>,
    /// Free indices below the highest one in use.
    free: Vec<ContextIndex>,
    max_contexts: u32,
    /// ULIDs whose path has changed since the transport was last notified.
    moved: BTreeSet<AddressPair>,
    /// Keeps the kernel from answering Shim6 messages with "unrecognised next header".
    _discarding_socket: OwnedFd,
    _segmented_program: SchedClassifierLink,
}

impl Shim {
    /// Loads the programs for at most `most` contexts, and creates the devices; also returns what this kernel does not
    /// support.
    ///
    /// # Errors
    /// The kernel's, if it refuses the programs or the devices.
    pub(crate) fn open(most: u32) -> Result<(Shim, Option<Error>), Error> {
        let mut programs = Programs::load(most)?;
        let segmentation_path = SegmentationPath::create()?;
        let cut = programs.attach(Program::Segmented, SegmentationPath::lower())?;
        let (transport, unsupported) = Transport::open()?;
        sys::trim_heap();
        programs.set_settings(abi::encode_settings(None, segmentation_path.index))?;
        let shim = Shim {
            programs,
            segmentation_path,
            transport,
            uplinks: VecMap::new(),
            by_index: Vec::new(),
            by_error_key: BTreeMap::new(),
            free: Vec::new(),
            max_contexts: most,
            moved: BTreeSet::new(),
            _discarding_socket: discarding_socket(shim6::PROTOCOL.into())?,
            _segmented_program: cut,
        };
        Ok((shim, unsupported))
    }

    /// Attaches the programs to an uplink.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn attach(&mut self, link: LinkId, name: &str) -> Result<(), Error> {
        if self.uplinks.contains_key(&link) {
            return Ok(());
        }
        let ethernet = has_ethernet(link)?;
        let leave = self.programs.attach(Program::Egress { ethernet }, name)?;
        let arrive = self.programs.attach(Program::Ingress { ethernet }, name)?;
        self.uplinks.insert(link, [leave, arrive]);
        Ok(())
    }

    /// Detaches the programs from an uplink.
    pub(crate) fn detach(&mut self, link: LinkId) {
        self.uplinks.remove(&link);
    }

    /// Sets when a conversation is reported; `None`: never.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn set_trigger(&mut self, trigger: Option<&ContextTrigger>) -> Result<(), Error> {
        self.programs.set_settings(abi::encode_settings(trigger, self.segmentation_path.index))
    }

    /// Adds or replaces a context, atomically for each packet; its traffic counters stay.
    ///
    /// # Errors
    /// The context has too many locators, or there are too many contexts.
    pub(crate) fn put(&mut self, context: &ShimContext) -> Result<(), Error> {
        let id = context.id;
        if context.allowed_sources.len() > MAX_LOCATORS {
            return Err(Error::new(
                "context",
                format_args!("{} sources, at most {MAX_LOCATORS}", context.allowed_sources.len()),
            ));
        }
        let former = self.stored_context(id);
        let slot = match former {
            Some(held) => held.index,
            None => self.allocate_index()?,
        };
        let held =
            StoredContext { index: slot, locators: context.locators, tag_in: context.tag_in, tag_out: context.tag_out };
        // Packets are accepted before anything is sent that makes the peer send them.
        self.programs.tags.put(&context.tag_in.bits(), &abi::encode_tag(context, slot))?;
        self.programs.contexts.put(&abi::context_key(id), &abi::encode_context(context, slot))?;
        self.set_context_of(slot, Some(id));
        if let Some(quote) = former.and_then(|former| former.error_key(id)) {
            self.by_error_key.remove(&quote);
        }
        self.by_error_key.extend(held.error_key(id).map(|quote| (quote, id)));
        let Some(former) = former else { return Ok(()) };
        if former.locators != context.locators {
            self.moved.insert(id.ulids);
        }
        if former.tag_in != context.tag_in { self.programs.tags.drop(&former.tag_in.bits()) } else { Ok(()) }
    }

    /// Removes a context; one that does not exist is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn drop(&mut self, id: ContextId) -> Result<(), Error> {
        let Some(held) = self.stored_context(id) else { return Ok(()) };
        self.set_context_of(held.index, None);
        if let Some(quote) = held.error_key(id) {
            self.by_error_key.remove(&quote);
            self.moved.insert(id.ulids);
        }
        let outgoing = self.programs.contexts.drop(&abi::context_key(id));
        let incoming = self.programs.tags.drop(&held.tag_in.bits());
        self.free.push(held.index);
        outgoing.and(incoming)
    }

    /// The traffic of a context, and which notifications to send from now on. `None` if there is no such context.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn sample(&mut self, now: Time, sample: &ActivityQuery) -> Result<Option<Activity>, Error> {
        let Some(StoredContext { index: slot, .. }) = self.stored_context(sample.context) else { return Ok(None) };
        let what = [(sample.notify_sent, NOTIFY_SENT), (sample.notify_received, NOTIFY_RECEIVED)];
        let what = what.into_iter().filter(|(wanted, _)| *wanted).map(|(_, bit)| bit).sum();
        // Requested first, so that no packet falls between the two.
        self.programs.request_notification(slot, what)?;
        self.activity(now, slot)
    }

    /// Reads the events of the programs.
    pub(crate) fn read_events(&mut self, now: Time) -> Vec<Input> {
        let events: Vec<Event> = std::iter::from_fn(|| self.programs.read_event()).take(BATCH).collect();
        events.into_iter().filter_map(|event| self.input(now, event)).collect()
    }

    /// Translates an ICMPv6 error about a packet of a context for the transport; other packets are ignored.
    ///
    /// # Errors
    /// The kernel's, if it refuses the message.
    pub(crate) fn translate_icmp_error(&self, packet: &[u8]) -> Result<(), Error> {
        let Some(error) = ErrorMessage::read(packet) else { return Ok(()) };
        let Some(id) = self.by_error_key.get(&(error.tag, error.locators)) else { return Ok(()) };
        let Some((head, quote)) = error.translate(id.ulids) else { return Ok(()) };
        self.transport.send_icmp_error(id.ulids.local, &head, &quote)
    }

    /// Makes transports whose path has changed retransmit at once, and retries those that have not.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn wake(&mut self, now: Time) -> Result<(), Error> {
        let moved = std::mem::take(&mut self.moved);
        if moved.is_empty() { self.transport.wake_again(now) } else { self.transport.wake(now, moved) }
    }

    /// When to call [`Shim::wake`] even if no path changes.
    pub(crate) fn wake_at(&self) -> Option<Time> {
        self.transport.wake_again_at()
    }

    /// A context from the programs' map: a server has a hundred thousand, which are stored only once.
    fn stored_context(&self, id: ContextId) -> Option<StoredContext> {
        self.programs.contexts.find(&abi::context_key(id)).and_then(|value| abi::decode_context(&value))
    }

    fn set_context_of(&mut self, ContextIndex(slot): ContextIndex, id: Option<ContextId>) {
        if let Some(place) = self.by_index.get_mut(slot as usize) {
            *place = id;
        }
    }

    fn allocate_index(&mut self) -> Result<ContextIndex, Error> {
        let next = u32::try_from(self.by_index.len()).ok().filter(|next| *next < self.max_contexts).map(ContextIndex);
        let full = || format!("at most {} (max_contexts, read at the start)", self.max_contexts);
        let slot = self.free.pop().or(next).ok_or_else(|| Error::new("context", full()))?;
        if Some(slot) == next {
            self.by_index.push(None);
        }
        self.programs.clear(slot).inspect_err(|_| self.free.push(slot))?;
        Ok(slot)
    }

    fn input(&mut self, now: Time, event: Event) -> Option<Input> {
        match event {
            Event::Flow { link, pair, packets, octets, since } => {
                let since = ClockReading::of(now).time(since).unwrap_or(now);
                Some(Input::Flow(FlowEvent { pair, link: LinkId(link), packets, octets, since }))
            }
            Event::Activity(slot) => self.activity(now, slot).ok().flatten().map(Input::Activity),
            Event::Packet { link, octets } => {
                Some(Input::Packet(Packet { link: LinkId(link), sender: None, bytes: without_shim_header(octets) }))
            }
        }
    }

    fn activity(&self, now: Time, slot: ContextIndex) -> Result<Option<Activity>, Error> {
        let Some(context) = self.by_index.get(slot.0 as usize).copied().flatten() else { return Ok(None) };
        let traffic: ContextTraffic = abi::decode_traffic(&self.programs.traffic(slot)?);
        let moment = ClockReading::of(now);
        Ok(Some(Activity {
            context,
            last_sent: moment.time(traffic.sent),
            last_received: moment.time(traffic.received),
            unanswered_since: moment.time(traffic.unanswered),
            unreturned_since: moment.time(traffic.unreturned),
            tx: TrafficCount { packets: traffic.packets_out, octets: traffic.octets_out },
            rx: TrafficCount { packets: traffic.packets_in, octets: traffic.octets_in },
        }))
    }
}

crate::sys::impl_as_fd!(Shim, programs);

/// Only the first octets of the packet were passed up: its length field is adjusted, for parsers to accept it.
fn without_shim_header(mut octets: Vec<u8>) -> Vec<u8> {
    const IP: usize = 40;
    let payload = u16::try_from(octets.len().saturating_sub(IP)).unwrap_or(u16::MAX);
    if let Some(field) = octets.get_mut(4..6) {
        field.copy_from_slice(&payload.to_be_bytes());
    }
    octets
}
