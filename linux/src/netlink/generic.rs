//! Generic netlink: kernel families with a name instead of a fixed number (linux/genetlink.h).

use crate::error::Error;
use crate::netlink::socket::{errno, error_of, messages, open};
use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NlasIterator};
use netlink_sys::{Socket, protocols};
use nix::errno::Errno;

/// The controller, which resolves names.
const CONTROL: u16 = 16;
const CONTROL_GET_FAMILY: u8 = 3;
const CONTROL_VERSION: u8 = 2;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The attribute with the multicast groups of a family.
pub(crate) const FAMILY_GROUPS: u16 = 7;
const VERSION: u8 = 1;
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// Octets of a netlink header, and of the generic one behind it.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

/// Replies, each from the end of the generic header on.
type Answers = Vec<Vec<u8>>;

/// A generic netlink family.
pub(crate) struct Family {
    socket: Socket,
    number: u16,
    sequence: u32,
}

impl Family {
    /// Opens the family of this name, which ends in a zero, with its attributes; `None` if the kernel has none.
    ///
    /// # Errors
    /// The kernel's, if it refuses the socket.
    pub(crate) fn open(name: &[u8]) -> Result<Option<(Family, Answers)>, Error> {
        let what = "generic netlink socket";
        let mut family = Family { socket: open(protocols::NETLINK_GENERIC, 0, what)?, number: CONTROL, sequence: 0 };
        let answers = match family.request(CONTROL_GET_FAMILY, NLM_F_ACK, &attribute(FAMILY_NAME, name)) {
            Err((Errno::ENOENT, _)) => return Ok(None),
            other => other.map_err(|(_, why)| Error::new(what, why))?,
        };
        let number = answers.iter().find_map(|answer| u16_of(find(answer, FAMILY_ID)?));
        family.number = number.ok_or_else(|| Error::new(what, "the kernel did not report its number"))?;
        Ok(Some((family, answers)))
    }

    /// Sends a request and returns all replies.
    pub(crate) fn request(&mut self, command: u8, flags: u16, attributes: &[u8]) -> Result<Answers, (Errno, String)> {
        let refused = |error: std::io::Error| {
            let why = error.to_string();
            (errno(error), why)
        };
        self.sequence = self.sequence.wrapping_add(1);
        let length = u32::try_from(HEADER + GENERIC_HEADER + attributes.len()).unwrap_or(u32::MAX);
        let version = if self.number == CONTROL { CONTROL_VERSION } else { VERSION };
        let mut request = length.to_ne_bytes().to_vec();
        request.extend(self.number.to_ne_bytes());
        request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend([0; 4]);
        request.extend([command, version, 0, 0]);
        request.extend(attributes);
        self.socket.send(&request, 0).map_err(refused)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full().map_err(refused)?;
            for message in messages(&datagram) {
                if message.sequence_number() != self.sequence {
                    continue;
                }
                match message.message_type() {
                    DONE => return Ok(answers),
                    ERROR => return error_of(&message).map_or(Ok(answers), Err),
                    _ => answers.extend(message.payload().get(GENERIC_HEADER..).map(<[u8]>::to_vec)),
                }
            }
        }
    }
}

/// An attribute, padded.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The types and values of attributes, up to the first damaged one.
pub(crate) fn parse_attributes(attributes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let found = NlasIterator::new(attributes).map_while(Result::ok);
    // The rest follows each.
    found.filter_map(|found| Some((found.kind(), found.into_inner().get(4..usize::from(found.length()))?)))
}

/// The value of the attribute of a type.
pub(crate) fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    parse_attributes(attributes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

pub(crate) fn u16_of(value: &[u8]) -> Option<u16> {
    value.first_chunk().map(|octets| u16::from_ne_bytes(*octets))
}

pub(crate) fn u32_of(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}
