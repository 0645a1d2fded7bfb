//! The interface of every protocol engine: one method that takes events, one that returns the next deadline.

use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::contract::input::{Frame, Input};
use crate::contract::item::Key;
use crate::contract::output::{ActivityQuery, Output, PathTrafficQuery, Put, Transmit};
use crate::contract::report::{DropReason, HostReport, Report};
use crate::contract::view::View;
use roam6_wire::{HomeAddress, Malformed};
use std::net::Ipv6Addr;

/// A protocol engine, or a node made of several.
pub trait Engine {
    /// Handles one event at `now` and appends the resulting outputs to `out`, in order of execution.
    ///
    /// `now` must not decrease from one call to the next.
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox);

    /// The time of the next [`Input::Tick`]; `None` if no timer is running.
    ///
    /// An early or late tick is harmless.
    fn deadline(&self) -> Option<Time>;

    /// Whether items that a previous instance left on the host, and this one has not installed again, may be removed.
    /// Until then they may still forward packets.
    fn takeover_complete(&self) -> bool {
        true
    }

    /// Adds the state of this engine to `view`.
    fn view(&self, now: Time, view: &mut View);

    /// Adds the same in bounded pieces, so that packets are not delayed: the first piece, or the one after `last`.
    /// Returns the last home address of the piece; `None` after the last piece.
    fn view_page(&self, now: Time, last: Option<HomeAddress>, view: &mut View) -> Option<HomeAddress> {
        if last.is_none() {
            self.view(now, view);
        }
        None
    }
}

/// The outputs of an engine, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    outputs: Vec<Output>,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Sends a packet.
    pub fn transmit(&mut self, transmit: Transmit) {
        self.outputs.push(Output::Transmit(transmit));
    }

    /// Sends a frame.
    pub fn send_frame(&mut self, frame: Frame) {
        self.outputs.push(Output::Frame(frame));
    }

    /// Installs an item on the host; replaces an item of the same key. The host answers with one
    /// [`Outcome`](crate::contract::input::Outcome).
    pub fn put(&mut self, put: impl Into<Put>) {
        self.outputs.push(Output::Put(put.into()));
    }

    /// Marks the `Put`s from index `first` on as those of the role with this index.
    pub(crate) fn set_role(&mut self, first: usize, role: usize) {
        for output in self.outputs.iter_mut().skip(first) {
            if let Output::Put(put) = output {
                put.id.role = role;
            }
        }
    }

    /// Removes the item of `key` from the host, if there is one. The host does not answer.
    pub fn drop(&mut self, key: Key) {
        self.outputs.push(Output::Drop(key));
    }

    /// Queries the traffic of a context.
    pub fn query_activity(&mut self, sample: ActivityQuery) {
        self.outputs.push(Output::ActivityQuery(sample));
    }

    /// Queries the traffic of an interface.
    pub fn query_link_traffic(&mut self, link: LinkId) {
        self.outputs.push(Output::LinkTrafficQuery(link));
    }

    /// Queries the traffic of the paths of a tunnel.
    pub fn query_path_traffic(&mut self, query: PathTrafficQuery) {
        self.outputs.push(Output::PathTrafficQuery(query));
    }

    /// Queries whether the network of an interface intercepts connections.
    pub fn query_interception(&mut self, link: LinkId) {
        self.outputs.push(Output::InterceptionQuery(link));
    }

    /// Queries how busy the channel of a radio interface is.
    #[cfg(feature = "dcc")]
    pub fn query_channel_use(&mut self, link: LinkId) {
        self.outputs.push(Output::ChannelUseQuery(link));
    }

    /// Removes and returns the frames from index `first` on for which `is_wanted` holds.
    #[cfg(feature = "dcc")]
    pub(crate) fn take_frames(&mut self, first: usize, is_wanted: impl Fn(&Frame) -> bool) -> Vec<Frame> {
        let is_taken = |output: &mut Output| matches!(output, Output::Frame(frame) if is_wanted(frame));
        let taken = self.outputs.extract_if(first.., is_taken);
        taken.filter_map(|output| if let Output::Frame(frame) = output { Some(frame) } else { None }).collect()
    }

    /// Has the host verify a signature.
    #[cfg(feature = "geo-security")]
    pub fn verify(&mut self, request: crate::contract::signature::VerificationRequest) {
        self.outputs.push(Output::Verify(request));
    }

    /// Has the host sign a message.
    #[cfg(feature = "geo-security")]
    pub fn sign(&mut self, request: crate::contract::signature::SigningRequest) {
        self.outputs.push(Output::Sign(request));
    }

    /// Reports an event.
    pub fn report(&mut self, report: impl Into<Report>) {
        self.outputs.push(Output::Report(report.into()));
    }

    /// Reports a packet that was dropped, with its source if that is known.
    pub fn report_drop(&mut self, reason: DropReason, from: impl Into<Option<Ipv6Addr>>, detail: impl Into<String>) {
        self.report(HostReport::Dropped { reason, from: from.into(), detail: detail.into() });
    }

    /// Reports a malformed packet that was dropped.
    pub fn report_malformed(&mut self, from: impl Into<Option<Ipv6Addr>>, why: &Malformed) {
        self.report_drop(DropReason::Malformed, from, why.to_string());
    }

    /// Reports that `table` is full, and an entry was not added.
    pub fn report_full_table(&mut self, table: &str, limit: usize) {
        self.report(HostReport::TableFull { table: table.to_owned(), limit });
    }

    /// Reports a message for the operator.
    pub fn notice(&mut self, text: impl Into<String>) {
        self.report(HostReport::Notice { text: text.into() });
    }

    /// Moves all outputs of `other` to the end of this outbox.
    pub fn append(&mut self, other: &mut Outbox) {
        self.outputs.append(&mut other.outputs);
    }

    /// Removes and returns all outputs, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.outputs.drain(..)
    }

    /// The outputs, oldest first.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Whether there are no outputs.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }
}
