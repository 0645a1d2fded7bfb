//! Generic netlink: kernel families with a name instead of a fixed number (linux/genetlink.h).

use crate::error::Error;
use crate::netlink::attribute::{attribute, find, u16_of};
use crate::netlink::socket::{encode, exchange, open};
use netlink_packet_core::NLM_F_ACK;
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
/// Octets of the generic header, behind the netlink header.
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
        let mut family = Family { socket: open(protocols::NETLINK_GENERIC, what)?, number: CONTROL, sequence: 0 };
        let replies = match family.request(CONTROL_GET_FAMILY, NLM_F_ACK, &attribute(FAMILY_NAME, name)) {
            Err((Errno::ENOENT, _)) => return Ok(None),
            other => other.map_err(|(_, why)| Error::new(what, why))?,
        };
        let number = replies.iter().find_map(|reply| u16_of(find(reply, FAMILY_ID)?));
        family.number = number.ok_or_else(|| Error::new(what, "the kernel did not report its number"))?;
        Ok(Some((family, replies)))
    }

    /// Sends a request and returns all replies.
    pub(crate) fn request(&mut self, command: u8, flags: u16, attributes: &[u8]) -> Result<Answers, (Errno, String)> {
        self.sequence = self.sequence.wrapping_add(1);
        let version = if self.number == CONTROL { CONTROL_VERSION } else { VERSION };
        let body = [&[command, version, 0, 0][..], attributes].concat();
        let request = encode(self.number, flags, self.sequence, &body);
        let mut replies = Vec::new();
        exchange(&self.socket, &request, self.sequence, |message| {
            replies.extend(message.payload().get(GENERIC_HEADER..).map(<[u8]>::to_vec));
        })?;
        Ok(replies)
    }
}
