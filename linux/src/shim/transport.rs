//! What the transport is told: that the path has changed, so that TCP does not sit out its back-off (RFC 6069 §3), and
//! which errors the network had for its packets, in the addresses it knows (RFC 5533 §12.1.1). Both are ICMPv6 messages this host sends
//! to itself.

use crate::bpf::attach::{self, whole};
use crate::error::{Context as _, Error};
use aya::programs::Iter;
use aya::{Btf, Ebpf, EbpfLoader};
use nix::sys::socket::{MsgFlags, SockaddrIn6, sendto};
use roam6_proto::plan::Pair;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::Duration;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/stalled.bpf.o"));
/// The program in it.
const LISTER: &str = "stalled";

const UNREACHABLE: u8 = 1;
const TCP: u8 = 6;
/// How often those that are stalled are told: a message is lost on a socket that is in use at that moment.
const ROUNDS: usize = 3;
/// And how often, with a pause between, as long as one has not heard: an address that was put on the loopback interface this
/// moment, since its own has gone, is this host's only once a thread of the kernel has seen to it, and until then the
/// message leaves by the default route.
const MOST_ROUNDS: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);
/// Octets of what the program writes for a connection.
const ROW: usize = 44;

/// Speaks to this host's own transport.
pub(super) struct Transport {
    socket: OwnedFd,
    /// The program that lists connections; `None` on kernels that have no types of their own (BTF).
    lister: Option<Ebpf>,
}

/// A TCP connection that waits for its retransmission timer.
struct Stalled {
    pair: Pair,
    ports: [u8; 4],
    unacknowledged: [u8; 4],
    /// How often the time it waits was doubled.
    backoff: u32,
}

impl Transport {
    /// Opens it; the second is what cannot be done.
    pub(super) fn open() -> Result<(Transport, Option<Error>), Error> {
        let socket = crate::sys::raw_socket(libc::IPPROTO_ICMPV6).context("raw socket for ICMPv6")?;
        // Reads nothing: what arrives is heard elsewhere.
        crate::sys::attach_filter(&socket, &[crate::sys::REFUSE]).context("raw socket for ICMPv6")?;
        Ok(match load() {
            Ok(lister) => (Transport { socket, lister: Some(lister) }, None),
            Err(error) => (Transport { socket, lister: None }, Some(error)),
        })
    }

    /// Wakes the connections of these ULIDs that have backed off: each retransmits now.
    pub(super) fn wake(&mut self, moved: &BTreeSet<Pair>) -> Result<(), Error> {
        let mut former = BTreeMap::new();
        for round in 0..MOST_ROUNDS {
            let stalled: Vec<Stalled> = self.list()?.into_iter().filter(|one| moved.contains(&one.pair)).collect();
            let is_deaf = stalled.iter().any(|one| one.has_not_heard(&former));
            if stalled.is_empty() || (round >= ROUNDS && !is_deaf) {
                break;
            }
            if is_deaf {
                sleep(PAUSE);
            }
            stalled.iter().try_for_each(|one| self.take_back_off(one))?;
            former = stalled.iter().map(|one| ((one.pair, one.ports), one.backoff)).collect();
        }
        Ok(())
    }

    /// Each message halves the time it waits (RFC 6069 §4.2); the retransmission that one of them causes doubles it once.
    fn take_back_off(&self, stalled: &Stalled) -> Result<(), Error> {
        let quote = stalled.quote();
        (0..=stalled.backoff)
            .try_for_each(|_| self.tell(stalled.pair.local, &[UNREACHABLE, 0, 0, 0, 0, 0, 0, 0], &quote))
    }

    /// Hands an ICMPv6 error about a packet of ours to whoever sent it. `head` is the message's first eight octets.
    pub(super) fn tell(&self, local: Ipv6Addr, head: &[u8; 8], quote: &[u8]) -> Result<(), Error> {
        let to = SockaddrIn6::from(SocketAddrV6::new(local, 0, 0, 0));
        // The kernel puts the checksum in.
        let message = [head, quote].concat();
        sendto(self.socket.as_raw_fd(), &message, &to, MsgFlags::empty()).map(drop).context("ICMPv6 to this host")
    }

    fn list(&mut self) -> Result<Vec<Stalled>, Error> {
        let Some(lister) = &mut self.lister else { return Ok(Vec::new()) };
        let failed = |error: &dyn core::error::Error| Error::new("list TCP connections", whole(error));
        let program: &mut Iter = attach::find(lister, LISTER)?;
        let id = program.attach().map_err(|error| failed(&error))?;
        let link = program.take_link(id).map_err(|error| failed(&error))?;
        let mut rows = Vec::new();
        let mut file = link.into_file().map_err(|error| failed(&error))?;
        file.read_to_end(&mut rows).context("list TCP connections")?;
        Ok(rows.as_chunks::<ROW>().0.iter().filter_map(Stalled::read).collect())
    }
}

impl Stalled {
    fn read(row: &[u8; ROW]) -> Option<Stalled> {
        let (local, rest) = row.split_first_chunk::<16>()?;
        let (peer, rest) = rest.split_first_chunk::<16>()?;
        let (ports, rest) = rest.split_first_chunk::<4>()?;
        let (unacknowledged, rest) = rest.split_first_chunk::<4>()?;
        Some(Stalled {
            pair: Pair { local: (*local).into(), peer: (*peer).into() },
            ports: *ports,
            unacknowledged: *unacknowledged,
            backoff: u32::from_ne_bytes(*rest.first_chunk()?),
        })
    }

    /// Whether it waits as long as when it was told. One that has backed off once may have done so anew.
    fn has_not_heard(&self, former: &BTreeMap<(Pair, [u8; 4]), u32>) -> bool {
        former.get(&(self.pair, self.ports)).is_some_and(|backoff| *backoff > 1 && self.backoff >= *backoff)
    }

    /// The packet it waits for an acknowledgement of: IPv6 and TCP header.
    fn quote(&self) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 20, TCP, 64];
        packet.extend(self.pair.local.octets());
        packet.extend(self.pair.peer.octets());
        packet.extend(self.ports);
        packet.extend(self.unacknowledged);
        packet.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        packet
    }
}

fn load() -> Result<Ebpf, Error> {
    let failed = |error: &dyn core::error::Error| Error::new("TCP cannot be told of a change of path", whole(error));
    let types = Btf::from_sys_fs().map_err(|error| failed(&error))?;
    let mut lister = EbpfLoader::new().btf(Some(&types)).load(OBJECT).map_err(|error| failed(&error))?;
    let program: &mut Iter = attach::find(&mut lister, LISTER)?;
    attach::load(|| program.load("tcp", &types)).map_err(|error| failed(&error))?;
    Ok(lister)
}
