//! A correspondent: the Multipath TCP of an unmodified kernel, as far as it matters here. It accepts two subflows
//! beside the first, and detects a dead subflow only by its timeout.

use super::message::{Message, MessageKind};
use core::time::Duration;
use roam6_proto::{Engine, Input, Outbox, Time, View};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// Additional subflows at most: the kernel's default.
pub const LIMIT: usize = 2;
/// Timeout of a silent subflow. A kernel takes some minutes.
const DEAD_AFTER: Duration = Duration::from_secs(60);

/// The subflows of one connection, by their source address.
pub type SubflowTable = BTreeMap<Ipv6Addr, PeerSubflow>;

/// A subflow as the correspondent knows it.
#[derive(Debug, Clone, Copy)]
pub struct PeerSubflow {
    id: u8,
    first: bool,
    received: Time,
}

/// The correspondent of one connection.
#[derive(Debug)]
pub struct Correspondent {
    flows: Rc<RefCell<SubflowTable>>,
}

impl Correspondent {
    /// A correspondent that keeps its subflows in `flows`.
    pub fn new(flows: &Rc<RefCell<SubflowTable>>) -> Correspondent {
        Correspondent { flows: Rc::clone(flows) }
    }

    fn answer(&mut self, now: Time, from: Ipv6Addr, message: Message) -> Option<MessageKind> {
        let mut flows = self.flows.borrow_mut();
        flows.retain(|_, flow| flow.received + DEAD_AFTER > now);
        let known = flows.contains_key(&from);
        if let Some(flow) = flows.get_mut(&from) {
            flow.received = now;
        }
        match message.kind {
            MessageKind::Begin | MessageKind::Join if known => Some(MessageKind::Joined),
            MessageKind::Begin => {
                // A new connection replaces the former subflows.
                flows.clear();
                flows.insert(from, PeerSubflow { id: message.id, first: true, received: now });
                Some(MessageKind::Joined)
            }
            MessageKind::Join if flows.values().filter(|flow| !flow.first).count() < LIMIT && !flows.is_empty() => {
                flows.insert(from, PeerSubflow { id: message.id, first: false, received: now });
                Some(MessageKind::Joined)
            }
            MessageKind::Join => Some(MessageKind::Reset),
            MessageKind::Data if known => Some(MessageKind::Acknowledged),
            MessageKind::Data => Some(MessageKind::Reset),
            MessageKind::Remove => {
                flows.retain(|_, flow| flow.id != message.id);
                None
            }
            MessageKind::Joined | MessageKind::Reset | MessageKind::Acknowledged => None,
        }
    }
}

impl Engine for Correspondent {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        let Input::Packet(packet) = input else { return };
        let Some((header, message)) = Message::parse(&packet.bytes) else { return };
        if let Some(kind) = self.answer(now, header.source, message) {
            out.transmit(Message { kind, ..message }.send(header.destination, header.source));
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn view(&self, _: Time, _: &mut View) {}
}
