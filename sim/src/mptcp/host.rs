//! The MPTCP host: its kernel, with autoconfiguration and sockets, around the engine under test.

use super::slaac::Slaac;
use super::sockets::Sockets;
use roam6_proto::contract::input::{AddressEvent, AddressState, SubflowEvent};
use roam6_proto::{Engine, Input, Item, Key, LinkId, Outbox, Output, Put, Time, View};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// The state of the host's kernel.
#[derive(Debug)]
pub struct MptcpKernel {
    /// Addresses and router.
    pub autoconf: Slaac,
    /// Connections.
    pub sockets: Sockets,
    /// Endpoints added and removed.
    pub changes: u64,
}

/// The host.
pub struct MptcpHost<E> {
    engine: E,
    kernel: Rc<RefCell<MptcpKernel>>,
    link: LinkId,
    home: Ipv6Addr,
    now: Time,
}

impl<E: Engine> MptcpHost<E> {
    /// A host around `engine` that uses the interface `link`; `home` is its address in the mobile network.
    pub fn new(engine: E, kernel: &Rc<RefCell<MptcpKernel>>, link: LinkId, home: Ipv6Addr) -> MptcpHost<E> {
        MptcpHost { engine, kernel: Rc::clone(kernel), link, home, now: Time::ZERO }
    }

    fn state(&self, now: Time, address: Ipv6Addr) -> AddressState {
        match self.kernel.borrow().autoconf.preferred(now, address) {
            Some(true) => AddressState::Preferred,
            Some(false) => AddressState::Deprecated,
            None => AddressState::Removed,
        }
    }

    /// Applies an input to the kernel; returns the inputs for the engine.
    fn receive(&mut self, now: Time, input: &Input, out: &mut Outbox) -> VecDeque<Input> {
        let mut inputs = VecDeque::new();
        let mut kernel = self.kernel.borrow_mut();
        let mut changed = kernel.autoconf.expire(self.now, now, out);
        match input {
            Input::Packet(packet) => {
                changed.extend(kernel.autoconf.receive(now, &packet.bytes, out));
                let event = kernel.sockets.receive(now, &packet.bytes);
                inputs.push_back(event.map_or_else(|| input.clone(), Input::Subflow));
            }
            Input::Outcome(outcome) if outcome.error.is_some() => {
                if !kernel.autoconf.retry(&outcome.key, out) {
                    if let Key::MptcpEndpoint(address) = outcome.key {
                        inputs.extend(kernel.sockets.drop(address, out).into_iter().map(Input::Subflow));
                    }
                    inputs.push_front(input.clone());
                }
            }
            _ => inputs.push_back(input.clone()),
        }
        drop(kernel);
        let state = |address| AddressEvent { link: self.link, address, state: self.state(now, address) };
        inputs.extend(changed.into_iter().map(|address| Input::Address(state(address))));
        for input in &mut inputs {
            if let Input::Address(event) = input
                && event.state.is_usable()
                && !event.address.is_unicast_link_local()
            {
                event.state = self.state(now, event.address);
            }
        }
        inputs
    }

    fn execute(&self, now: Time, output: &Output, out: &mut Outbox) -> Vec<SubflowEvent> {
        let mut kernel = self.kernel.borrow_mut();
        match output {
            Output::Put(Put { item: Item::MptcpEndpoint(endpoint), .. }) => {
                kernel.changes += 1;
                kernel.sockets.put(now, *endpoint);
                Vec::new()
            }
            Output::Drop(Key::MptcpEndpoint(address)) => {
                kernel.changes += 1;
                kernel.sockets.drop(*address, out)
            }
            _ => Vec::new(),
        }
    }
}

impl<E: Engine> Engine for MptcpHost<E> {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        let mut inputs = self.receive(now, input, out);
        let mut kernel = self.kernel.borrow_mut();
        let has_home = kernel.autoconf.preferred(now, self.home).is_some();
        inputs.extend(kernel.sockets.expire(now, has_home, out).into_iter().map(Input::Subflow));
        drop(kernel);
        while let Some(input) = inputs.pop_front() {
            let mut outputs = Outbox::new();
            self.engine.handle(now, &input, &mut outputs);
            for output in outputs.drain() {
                inputs.extend(self.execute(now, &output, out).into_iter().map(Input::Subflow));
                match output {
                    Output::Put(put) => out.put(put),
                    Output::Drop(key) => out.drop(key),
                    Output::Transmit(transmit) => out.transmit(transmit),
                    Output::Report(report) => out.report(report),
                    Output::Frame(_)
                    | Output::ActivityQuery(_)
                    | Output::LinkTrafficQuery(_)
                    | Output::PathTrafficQuery(_)
                    | Output::ChannelUseQuery(_)
                    | Output::InterceptionQuery(_)
                    | Output::Verify(_)
                    | Output::Sign(_) => {}
                }
            }
        }
        self.now = now;
    }

    fn deadline(&self) -> Option<Time> {
        let kernel = self.kernel.borrow();
        let own = kernel.autoconf.deadline(self.now).into_iter().chain([kernel.sockets.deadline()]);
        own.chain(self.engine.deadline()).min()
    }

    fn view(&self, now: Time, view: &mut View) {
        self.engine.view(now, view);
    }
}
