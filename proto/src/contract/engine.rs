//! The one contract of every engine: two methods that matter, no order of polling to remember.

use crate::base::time::Time;
use crate::contract::input::{Frame, Input};
use crate::contract::item::{Item, Key};
use crate::contract::output::{Output, Sample, Transmit};
use crate::contract::report::Report;
use crate::contract::view::View;
use roam6_wire::HomeAddress;

/// A protocol engine, or a node made of several.
pub trait Engine {
    /// Takes one event at `now` and appends what is to be done about it to `out`, in the order it is to be done.
    ///
    /// `now` never goes backwards from one call to the next.
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox);

    /// When the engine next wants [`Input::Tick`]; `None` while it waits for events only.
    ///
    /// A tick earlier or later than asked is harmless.
    fn deadline(&self) -> Option<Time>;

    /// Whether what an earlier life left on the host, and this one has not put again, may go. Until then it stays: it may
    /// still carry packets.
    fn is_settled(&self) -> bool {
        true
    }

    /// Adds what an operator wants to see of this engine to `view`.
    fn view(&self, now: Time, view: &mut View);

    /// Adds the same in pieces, none of which takes longer than a packet may wait: what comes first, or what comes after
    /// `last`. Returns the last home address it has come to; `None` once that was all.
    fn view_piece(&self, now: Time, last: Option<HomeAddress>, view: &mut View) -> Option<HomeAddress> {
        if last.is_none() {
            self.view(now, view);
        }
        None
    }
}

/// What an engine wants done, in order.
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
    pub fn frame(&mut self, frame: Frame) {
        self.outputs.push(Output::Frame(frame));
    }

    /// Makes the host hold `item`, in place of any item of the same key; answered by one [`Outcome`](crate::contract::input::Outcome).
    pub fn put(&mut self, item: Item) {
        self.outputs.push(Output::Put(item));
    }

    /// Makes the host no longer hold the item of `key`. Not answered; dropping what is not there is fine.
    pub fn drop(&mut self, key: Key) {
        self.outputs.push(Output::Drop(key));
    }

    /// Asks what a context has carried.
    pub fn sample(&mut self, sample: Sample) {
        self.outputs.push(Output::Sample(sample));
    }

    /// Tells the world what happened.
    pub fn report(&mut self, report: Report) {
        self.outputs.push(Output::Report(report));
    }

    /// Moves everything from `other` behind what is here.
    pub fn append(&mut self, other: &mut Outbox) {
        self.outputs.append(&mut other.outputs);
    }

    /// Takes everything out, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Output> + '_ {
        self.outputs.drain(..)
    }

    /// What is inside, oldest first.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }
}
