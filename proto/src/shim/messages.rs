//! A received control message as the protocol steps take it: its origin, its options, and why one was dropped.

use crate::contract::config::shim::MIN_SEND_TIMEOUT;
use crate::{AddressPair, ContextId, LinkId, Time};
use core::time::Duration;
use roam6_wire::shim6::{Fork, LocatorList, LocatorPreference, Message, Nonce, ShimOption, Tag};

/// A received control message with its addresses, interface and options.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceivedMessage<'a> {
    /// When it was received.
    pub(super) now: Time,
    /// The packet's addresses: ours is `local`, the sender's `peer`.
    pub(super) path: AddressPair,
    /// The receiving interface.
    pub(super) link: LinkId,
    /// The whole packet.
    pub(super) packet: &'a [u8],
    /// Offset of the message in the packet, octets.
    pub(super) message_offset: usize,
    /// Its options; none before it is parsed.
    pub(super) options: MessageOptions<'a>,
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
}

impl ReceivedMessage<'_> {
    /// The context that the message names: by the ULID-pair option, else by the packet's addresses.
    pub(super) fn context_id(&self) -> ContextId {
        ContextId { ulids: self.options.ulids.unwrap_or(self.path), fork: self.options.fork }
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
