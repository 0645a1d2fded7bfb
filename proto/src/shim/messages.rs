//! A received control message as the protocol steps take it: its origin, its options, and why one was dropped.

use crate::base::ids::{AddressPair, ContextId, LinkId};
use crate::contract::config::shim::MIN_SEND_TIMEOUT;
use crate::contract::engine::Outbox;
use crate::contract::report::DropReason;
use core::time::Duration;
use roam6_wire::shim6::{Fork, LocatorList, LocatorPreference, Message, Nonce, ShimOption, Tag};
use std::net::Ipv6Addr;

/// A received control message with its addresses and interface.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedMessage<'a> {
    /// The packet's addresses: ours is `local`, the sender's `peer`.
    pub(super) path: AddressPair,
    /// The receiving interface.
    pub(super) link: LinkId,
    /// The whole packet.
    pub(super) packet: &'a [u8],
    /// Offset of the message in the packet, octets.
    pub(super) message_offset: usize,
}

/// The options of one message, by type.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct MessageOptions<'a> {
    pub(super) validator: Option<&'a [u8]>,
    pub(super) ulids: Option<AddressPair>,
    pub(super) fork: Fork,
    pub(super) locator_list: Option<&'a LocatorList>,
    pub(super) preferences: Option<(u32, &'a [LocatorPreference])>,
    pub(super) parameters: Option<&'a [u8]>,
    pub(super) signature: Option<&'a [u8]>,
    pub(super) keepalive_timeout: Option<Duration>,
    /// The peer supports timeouts below one second.
    pub(super) subsecond_timeouts: bool,
}

impl<'a> MessageOptions<'a> {
    pub(super) fn of_message(message: &'a Message) -> MessageOptions<'a> {
        let mut options = MessageOptions::default();
        for option in message.options() {
            match option {
                ShimOption::Validator(validator) => options.validator = Some(validator),
                ShimOption::Ulids { sender, receiver } => {
                    options.ulids = Some(AddressPair { local: *receiver, peer: *sender });
                }
                ShimOption::Fork(fork) => options.fork = *fork,
                ShimOption::Locators(list) => options.locator_list = Some(list),
                ShimOption::Preferences { generation, elements } => options.preferences = Some((*generation, elements)),
                ShimOption::Parameters(parameters) => options.parameters = Some(parameters),
                ShimOption::Signature(signature) => options.signature = Some(signature),
                ShimOption::KeepaliveTimeout(seconds) if !options.subsecond_timeouts => {
                    options.keepalive_timeout = Some(Duration::from_secs(u64::from(*seconds).max(1)));
                }
                ShimOption::KeepaliveMilliseconds(milliseconds) => {
                    let timeout = Duration::from_millis(u64::from(*milliseconds));
                    options.keepalive_timeout = Some(timeout.max(MIN_SEND_TIMEOUT));
                    options.subsecond_timeouts = true;
                }
                ShimOption::KeepaliveTimeout(_) | ShimOption::Unknown { .. } => {}
            }
        }
        options
    }

    /// The context that the message names: by the ULID-pair option, else by the packet's addresses.
    pub(super) fn context_id(&self, path: AddressPair) -> ContextId {
        ContextId { ulids: self.ulids.unwrap_or(path), fork: self.fork }
    }
}

/// An I2 or I2bis.
#[derive(Debug, Clone, Copy)]
pub(super) struct I2Message {
    /// The initiator's context tag.
    pub(super) tag: Tag,
    /// Initiator nonce and responder nonce.
    pub(super) nonces: (Nonce, Nonce),
    /// Packet Context Tag of an I2bis: the tag of the lost context.
    pub(super) lost_tag: Option<Tag>,
}

/// Reports a dropped packet.
pub(super) fn drop_packet(reason: DropReason, from: Ipv6Addr, detail: impl Into<String>, out: &mut Outbox) {
    out.report_drop(reason, from, detail);
}
