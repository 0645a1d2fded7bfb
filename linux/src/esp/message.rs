//! Security associations and policies of the kernel's IPsec (linux/xfrm.h): ESP in tunnel mode over IPv6 with AES-GCM (RFC 4303,
//! RFC 4106), extended sequence numbers and a window of 4096 packets.

use crate::error::Error;
use crate::netlink::attribute::{attribute, find, u32_of, u64_of};
use crate::netlink::socket::{encode, exchange, open};
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NetlinkBuffer};
use netlink_sys::{Socket, protocols};
use nix::errno::Errno;
use roam6_proto::crypto::path_esp::{AssociationKey, KEY_LENGTH};
use std::net::Ipv6Addr;

// Types of messages.
const NEW_ASSOCIATION: u16 = 0x10;
const DELETE_ASSOCIATION: u16 = 0x11;
const GET_ASSOCIATION: u16 = 0x12;
const DELETE_POLICY: u16 = 0x14;
const GET_POLICY: u16 = 0x15;
const UPDATE_POLICY: u16 = 0x19;

// Attributes.
const TEMPLATE: u16 = 5;
const AEAD: u16 = 18;
const REPLAY_STATE: u16 = 23;
const INTERFACE_ID: u16 = 31;

const TUNNEL_MODE: u8 = 1;
const ESP: u8 = libc::IPPROTO_ESP as u8;
/// The inner packet is of either family.
const ANY_FAMILY: u8 = 32;
const EXTENDED_SEQUENCE_NUMBERS: u8 = 128;
/// Marks the associations and policies of roam6: "R6ES".
const REQUEST_ID: u32 = 0x5236_4553;
/// The window, packets: the most that the kernel has.
const WINDOW: u32 = 4096;
const ALGORITHM: &[u8] = b"rfc4106(gcm(aes))";
const ALGORITHM_NAME_LENGTH: usize = 64;
const ICV_BITS: u32 = 128;

/// Sizes and offsets in `struct xfrm_selector`, `xfrm_id`, `xfrm_usersa_info` and `xfrm_userpolicy_info`.
const SELECTOR: usize = 56;
const ID: usize = 24;
const LIFETIME: usize = 64;
const CURRENT_LIFETIME: usize = 32;
const SOURCE_AT: usize = SELECTOR + ID;
const CURRENT_AT: usize = SOURCE_AT + 16 + LIFETIME;
const STATISTICS_AT: usize = CURRENT_AT + CURRENT_LIFETIME;
const REQUEST_ID_AT: usize = STATISTICS_AT + 16;
const ASSOCIATION_END: usize = REQUEST_ID_AT + 9;
const POLICY_END: usize = SELECTOR + LIFETIME + CURRENT_LIFETIME + 12;
/// Of sequence numbers that were used, in the state of a moved association: packets sent while it is moved.
const UNKNOWN: u64 = 2048;

/// The NETLINK_XFRM socket.
pub(super) struct Xfrm {
    socket: Socket,
    sequence: u32,
}

/// What names an association (RFC 4301 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AssociationId {
    pub(super) destination: Ipv6Addr,
    pub(super) spi: u32,
}

/// An association, as the kernel shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Association {
    pub(super) id: AssociationId,
    pub(super) source: Ipv6Addr,
    pub(super) interface_id: u32,
    pub(super) octets: u64,
    pub(super) packets: u64,
    /// Since 1970-01-01T00:00Z, seconds; 0 for never.
    pub(super) added: u64,
    pub(super) used: u64,
    /// Packets that were replayed, or are older than the window.
    pub(super) replayed: u32,
    /// Packets that are not authentic.
    pub(super) forged: u32,
    /// Its algorithm with the key, and the state of its sequence numbers, as attributes have them.
    algorithm: Vec<u8>,
    replay_state: Vec<u8>,
}

/// Policies are for packets that leave by a device (RFC 4301 §4.4.1). There are none for packets that have come: the program on the
/// ingress of the device takes all, and what it might miss the kernel drops for want of a policy.
const OUT: u8 = 1;
/// The families of inner packets.
const FAMILIES: [libc::c_int; 2] = [libc::AF_INET6, libc::AF_INET];

/// The association by which packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outbound {
    pub(super) local: Ipv6Addr,
    pub(super) remote: Ipv6Addr,
    pub(super) spi: u32,
}

impl Association {
    /// Reads a message; `None` if it is no association of roam6.
    fn read(body: &[u8]) -> Option<Association> {
        let address = |at: usize| Some(Ipv6Addr::from(*body.get(at..)?.first_chunk::<16>()?));
        let word = |at: usize| body.get(at..).and_then(u32_of);
        let count = |at: usize| body.get(CURRENT_AT + at..).and_then(u64_of);
        let attributes = body.get(ASSOCIATION_END.next_multiple_of(align_of::<u64>())..)?;
        let is_ours = word(REQUEST_ID_AT)? == REQUEST_ID && body.get(SELECTOR + 20) == Some(&ESP);
        let spi = u32::from_be_bytes(*body.get(SELECTOR + 16..)?.first_chunk()?);
        let association = Association {
            id: AssociationId { destination: address(SELECTOR)?, spi },
            source: address(SOURCE_AT)?,
            interface_id: find(attributes, INTERFACE_ID).and_then(u32_of)?,
            octets: count(0)?,
            packets: count(8)?,
            added: count(16)?,
            used: count(24)?,
            replayed: word(STATISTICS_AT + 4)?,
            forged: word(STATISTICS_AT + 8)?,
            algorithm: find(attributes, AEAD)?.to_vec(),
            replay_state: find(attributes, REPLAY_STATE)?.to_vec(),
        };
        is_ours.then_some(association)
    }
}

impl Xfrm {
    /// Opens the socket.
    ///
    /// # Errors
    /// The kernel has none.
    pub(super) fn open() -> Result<Xfrm, Error> {
        let socket = open(protocols::NETLINK_XFRM, "IPsec of this kernel (CONFIG_XFRM_USER, module xfrm_user)")?;
        Ok(Xfrm { socket, sequence: 0 })
    }

    /// Adds an association. Returns `false` if there is one with this destination and SPI.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn add(
        &mut self,
        id: AssociationId,
        source: Ipv6Addr,
        interface_id: u32,
        key: &AssociationKey,
    ) -> Result<bool, Error> {
        self.add_with(id, source, interface_id, &algorithm(key), &replay_state(0))
    }

    fn add_with(
        &mut self,
        id: AssociationId,
        source: Ipv6Addr,
        interface_id: u32,
        algorithm: &[u8],
        replay_state: &[u8],
    ) -> Result<bool, Error> {
        let attributes = [
            attribute(AEAD, algorithm),
            attribute(REPLAY_STATE, replay_state),
            attribute(INTERFACE_ID, &interface_id.to_ne_bytes()),
        ];
        let body = [association(id, source), attributes.concat()].concat();
        match self.request(NEW_ASSOCIATION, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &body) {
            Ok(_) => Ok(true),
            Err((Errno::EEXIST, _)) => Ok(false),
            Err((_, why)) => Err(Error::new("security association", why)),
        }
    }

    /// Gives an association by which packets leave another source and destination. Its sequence numbers go on, and the key, which the
    /// kernel alone may know, stays: none is used twice, since the kernel's nonces begin anywhere (seqiv).
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn move_to(&mut self, id: AssociationId, source: Ipv6Addr, destination: Ipv6Addr) -> Result<(), Error> {
        let Some(known) = self.find(id)? else { return Ok(()) };
        let next = sent(&known.replay_state).saturating_add(UNKNOWN);
        self.remove(id)?;
        let moved = AssociationId { destination, ..id };
        self.add_with(moved, source, known.interface_id, &known.algorithm, &replay_state(next)).map(drop)
    }

    /// The association, if there is one.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn find(&mut self, id: AssociationId) -> Result<Option<Association>, Error> {
        match self.request(GET_ASSOCIATION, NLM_F_ACK, &association_id(id)) {
            Ok(replies) => Ok(replies.iter().find_map(|reply| Association::read(reply))),
            Err((Errno::ESRCH, _)) => Ok(None),
            Err((_, why)) => Err(Error::new("security association", why)),
        }
    }

    /// All associations of roam6.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn all(&mut self) -> Result<Vec<Association>, Error> {
        let replies = self.request(GET_ASSOCIATION, NLM_F_DUMP, &[]);
        let replies = replies.map_err(|(_, why)| Error::new("security associations", why))?;
        Ok(replies.iter().filter_map(|reply| Association::read(reply)).collect())
    }

    /// Removes an association; one that does not exist is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn remove(&mut self, id: AssociationId) -> Result<(), Error> {
        self.forgiving(DELETE_ASSOCIATION, &association_id(id))
    }

    /// Has packets of a device leave by this association.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn put_policies(&mut self, interface_id: u32, outbound: Outbound) -> Result<(), Error> {
        let template = template(outbound.local, outbound.remote, outbound.spi);
        let attributes =
            [attribute(TEMPLATE, &template), attribute(INTERFACE_ID, &interface_id.to_ne_bytes())].concat();
        for family in FAMILIES {
            let body = [&policy(family)[..], &attributes].concat();
            let done = self.request(UPDATE_POLICY, NLM_F_ACK, &body);
            done.map_err(|(_, why)| Error::new("security policy", why))?;
        }
        Ok(())
    }

    /// Removes what [`Xfrm::put_policies`] has put.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn remove_policies(&mut self, interface_id: u32) -> Result<(), Error> {
        let of_device = attribute(INTERFACE_ID, &interface_id.to_ne_bytes());
        FAMILIES
            .into_iter()
            .try_for_each(|family| self.forgiving(DELETE_POLICY, &[&policy_id(family)[..], &of_device].concat()))
    }

    /// The interface identifiers that have policies of roam6.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn with_policies(&mut self) -> Result<Vec<u32>, Error> {
        let replies = self.request(GET_POLICY, NLM_F_DUMP, &[]);
        let replies = replies.map_err(|(_, why)| Error::new("security policies", why))?;
        let mut found: Vec<u32> = replies.iter().filter_map(|reply| policy_owner(reply)).collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn forgiving(&mut self, kind: u16, body: &[u8]) -> Result<(), Error> {
        match self.request(kind, NLM_F_ACK, body) {
            Ok(_) | Err((Errno::ESRCH | Errno::ENOENT, _)) => Ok(()),
            Err((_, why)) => Err(Error::new("IPsec", why)),
        }
    }

    fn request(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<Vec<Vec<u8>>, (Errno, String)> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = encode(kind, flags, self.sequence, body);
        let mut replies = Vec::new();
        let take = |message: &NetlinkBuffer<&[u8]>| replies.push(message.payload().to_vec());
        exchange(&self.socket, &request, self.sequence, take)?;
        Ok(replies)
    }
}

/// `struct xfrm_selector` for all packets of a family; 0 for both.
fn selector(family: libc::c_int) -> Vec<u8> {
    let mut octets = vec![0; SELECTOR];
    octets.splice(40..42, (family as u16).to_ne_bytes());
    octets
}

/// `struct xfrm_id`.
fn id(destination: Ipv6Addr, spi: u32) -> Vec<u8> {
    [&destination.octets()[..], &spi.to_be_bytes(), &[ESP, 0, 0, 0]].concat()
}

/// `struct xfrm_lifetime_cfg` and `xfrm_lifetime_cur`: without an end.
fn lifetime() -> Vec<u8> {
    [[0xff; LIFETIME / 2], [0; LIFETIME / 2]].concat().into_iter().chain([0; CURRENT_LIFETIME]).collect()
}

/// `struct xfrm_usersa_info`.
fn association(of: AssociationId, source: Ipv6Addr) -> Vec<u8> {
    let mut octets = [selector(0), id(of.destination, of.spi), source.octets().to_vec(), lifetime()].concat();
    // Statistics and the number of a request of the kernel.
    octets.extend([0; 16]);
    octets.extend(REQUEST_ID.to_ne_bytes());
    octets.extend((libc::AF_INET6 as u16).to_ne_bytes());
    // The window is in the state of extended sequence numbers.
    octets.extend([TUNNEL_MODE, 0, ANY_FAMILY | EXTENDED_SEQUENCE_NUMBERS]);
    padded(octets)
}

/// `struct xfrm_usersa_id`.
fn association_id(of: AssociationId) -> Vec<u8> {
    let family = (libc::AF_INET6 as u16).to_ne_bytes();
    [&of.destination.octets()[..], &of.spi.to_be_bytes(), &family, &[ESP, 0]].concat()
}

/// `struct xfrm_algo_aead`.
fn algorithm(key: &AssociationKey) -> Vec<u8> {
    let mut octets = ALGORITHM.to_vec();
    octets.resize(ALGORITHM_NAME_LENGTH, 0);
    octets.extend((KEY_LENGTH as u32 * 8).to_ne_bytes());
    octets.extend(ICV_BITS.to_ne_bytes());
    octets.extend(key.0);
    octets
}

/// `struct xfrm_replay_state_esn` of an association whose last packet sent had this number.
fn replay_state(sent: u64) -> Vec<u8> {
    let words = WINDOW / u32::BITS;
    let (low, high) = (sent as u32, (sent >> 32) as u32);
    let mut octets: Vec<u8> = [words, low, 0, high, 0, WINDOW].into_iter().flat_map(u32::to_ne_bytes).collect();
    octets.resize(octets.len() + WINDOW as usize / 8, 0);
    octets
}

/// The number of the last packet sent.
fn sent(replay_state: &[u8]) -> u64 {
    let word = |at: usize| replay_state.get(at..).and_then(u32_of).unwrap_or_default();
    u64::from(word(12)) << 32 | u64::from(word(4))
}

/// `struct xfrm_user_tmpl`.
fn template(source: Ipv6Addr, destination: Ipv6Addr, spi: u32) -> Vec<u8> {
    let mut octets = id(destination, spi);
    octets.extend((libc::AF_INET6 as u16).to_ne_bytes());
    octets.extend([0; 2]);
    octets.extend(source.octets());
    octets.extend(REQUEST_ID.to_ne_bytes());
    octets.extend([TUNNEL_MODE, 0, 0, 0]);
    // Whatever the algorithms.
    octets.extend([0xff; 12]);
    octets
}

/// `struct xfrm_userpolicy_info`: all packets of the family are permitted by the template.
fn policy(family: libc::c_int) -> Vec<u8> {
    let mut octets = [selector(family), lifetime(), vec![0; 8]].concat();
    octets.extend([OUT, 0, 0, 0]);
    padded(octets)
}

/// `struct xfrm_userpolicy_id`.
fn policy_id(family: libc::c_int) -> Vec<u8> {
    [&selector(family)[..], &[0; 4], &[OUT, 0, 0, 0]].concat()
}

/// The interface identifier of a policy of roam6.
fn policy_owner(body: &[u8]) -> Option<u32> {
    let attributes = body.get(POLICY_END.next_multiple_of(align_of::<u64>())..)?;
    let request_id = find(attributes, TEMPLATE)?.get(44..).and_then(u32_of)?;
    find(attributes, INTERFACE_ID).and_then(u32_of).filter(|_| request_id == REQUEST_ID)
}

/// Structures with numbers of 64 bits are as long as their alignment asks.
fn padded(mut octets: Vec<u8>) -> Vec<u8> {
    octets.resize(octets.len().next_multiple_of(align_of::<u64>()), 0);
    octets
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
    const LOCAL: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const NAMED: AssociationId = AssociationId { destination: REMOTE, spi: 0x0102_0304 };

    /// Sizes of the structures on a 64-bit host, by `sizeof` of a C compiler.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn structures_have_the_sizes_of_the_kernel() {
        let sizes = [
            selector(0).len(),
            association(NAMED, LOCAL).len(),
            association_id(NAMED).len(),
            policy(libc::AF_INET6).len(),
            policy_id(libc::AF_INET6).len(),
            template(LOCAL, REMOTE, 1).len(),
            algorithm(&AssociationKey([0; KEY_LENGTH])).len(),
            replay_state(0).len(),
        ];
        assert_eq!(sizes, [56, 224, 24, 168, 64, 64, 92, 536]);
    }

    /// Offsets by `offsetof` of a C compiler.
    #[test]
    fn fields_are_where_the_kernel_reads_them() {
        let octets = association(NAMED, LOCAL);
        assert_eq!(octets.get(72..77), Some(&[1, 2, 3, 4, 50][..]), "SPI and protocol");
        assert_eq!(octets.get(80..96), Some(&LOCAL.octets()[..]));
        assert_eq!(octets.get(208..212), Some(&REQUEST_ID.to_ne_bytes()[..]));
        assert_eq!(octets.get(214..217), Some(&[1, 0, 160][..]), "mode, window, flags");
        let octets = policy(libc::AF_INET);
        assert_eq!((octets.get(40), octets.get(160..162)), (Some(&2), Some(&[1, 0][..])));
        let octets = template(LOCAL, REMOTE, 7);
        assert_eq!((octets.get(24), octets.get(28..44)), (Some(&10), Some(&LOCAL.octets()[..])));
        assert_eq!((octets.get(48), octets.get(52)), (Some(&1), Some(&0xff)));
        assert_eq!(association_id(NAMED).get(20..23), Some(&[10, 0, 50][..]));
    }

    fn shown(request_id: u32) -> Vec<u8> {
        let mut body = association(NAMED, LOCAL);
        let counts = [4000_u64, 40, 1_700_000_000, 1_700_000_100].map(u64::to_ne_bytes).concat();
        body.splice(160..192, counts);
        body.splice(196..204, [3_u32.to_ne_bytes(), 2_u32.to_ne_bytes()].concat());
        body.splice(208..212, request_id.to_ne_bytes());
        let key = AssociationKey([9; KEY_LENGTH]);
        let attributes = [
            attribute(AEAD, &algorithm(&key)),
            attribute(REPLAY_STATE, &replay_state(5 << 32 | 6)),
            attribute(INTERFACE_ID, &0x11_u32.to_ne_bytes()),
        ];
        [body, attributes.concat()].concat()
    }

    #[test]
    fn association_is_read_as_it_is_written_and_that_of_others_is_none() {
        let read = Association::read(&shown(REQUEST_ID)).unwrap();
        assert_eq!((read.id, read.source, read.interface_id), (NAMED, LOCAL, 0x11));
        assert_eq!((read.octets, read.packets, read.used), (4000, 40, 1_700_000_100));
        assert_eq!((read.replayed, read.forged), (3, 2));
        assert_eq!(sent(&read.replay_state), 5 << 32 | 6);
        assert_eq!(read.algorithm, algorithm(&AssociationKey([9; KEY_LENGTH])));
        assert_eq!(Association::read(&shown(1)), None, "of another program");
        let whole = shown(REQUEST_ID);
        for length in 0..whole.len() - 8 {
            assert_eq!(Association::read(whole.get(..length).unwrap()), None, "{length}");
        }
    }

    #[test]
    fn policy_is_known_by_its_template() {
        let of = |template: &[u8]| {
            let attributes = [attribute(TEMPLATE, template), attribute(INTERFACE_ID, &7_u32.to_ne_bytes())];
            policy_owner(&[policy(libc::AF_INET6), attributes.concat()].concat())
        };
        let mut other = template(LOCAL, REMOTE, 1);
        assert_eq!(of(&other), Some(7));
        other.splice(44..48, [0; 4]);
        assert_eq!(of(&other), None);
    }
}
