//! Notifications of the local transport: that the path has changed, so that TCP does not wait for its backed-off timer
//! (RFC 6069 §3), and of ICMPv6 errors about its packets, in the addresses it knows (RFC 5533 §12.1.1). Both are ICMPv6
//! messages that this host sends to itself.

use crate::bpf::layout::Reader;
use crate::bpf::load;
use crate::error::{Context as _, Error};
use crate::io::kernel_icmp_filter::discarding_socket;
use aya::programs::Iter;
use aya::{Btf, Ebpf, EbpfLoader};
use nix::sys::socket::{MsgFlags, SockaddrIn6, sendto};
use roam6_proto::Time;
use roam6_proto::base::ids::AddressPair;
use roam6_wire::ip6::protocol;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/tcp_backoff.bpf.o"));
/// The name of the iterator.
const ITERATOR: &str = "stalled";

const UNREACHABLE: u8 = 1;
/// How often backed-off connections are notified: a message is lost on a socket that is in use at that moment.
const MIN_ROUNDS: u32 = 3;
/// The same, with pauses, while a connection has not retransmitted: an address that was just assigned to the loopback
/// interface, because its own was removed, becomes local only once a kernel thread has processed it; until then the
/// message leaves by the default route.
const MAX_ROUNDS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);
/// Octets that the iterator writes for a connection.
const ROW: usize = 44;

/// Sends ICMPv6 messages to the local transport.
pub(super) struct Transport {
    socket: OwnedFd,
    /// The iterator over TCP connections; `None` on kernels without BTF.
    iterator: Option<Ebpf>,
    reset: BackoffReset,
}

/// The ULIDs whose path has changed, until their connections have retransmitted.
#[derive(Default)]
struct BackoffReset {
    moved: BTreeSet<AddressPair>,
    /// The back-off of each connection at its last notification.
    former: BTreeMap<(AddressPair, [u8; 4]), u32>,
    rounds: u32,
    paused: bool,
    /// The end of the pause.
    again_at: Option<Time>,
}

/// What to do next about backed-off connections.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Notify,
    Pause,
    End,
}

/// A TCP connection with a backed-off retransmission timer.
struct BackedOffConnection {
    pair: AddressPair,
    ports: [u8; 4],
    unacknowledged: [u8; 4],
    /// How often its timer was doubled.
    backoff: u32,
}

impl Transport {
    /// Opens the socket and loads the iterator; also returns why it could not be loaded.
    ///
    /// # Errors
    /// The kernel's, if it refuses the socket.
    pub(super) fn open() -> Result<(Transport, Option<Error>), Error> {
        // ICMPv6 is received elsewhere.
        let socket = discarding_socket(libc::IPPROTO_ICMPV6)?;
        let (iterator, unsupported) = match load() {
            Ok(iterator) => (Some(iterator), None),
            Err(error) => (None, Some(error)),
        };
        Ok((Transport { socket, iterator, reset: BackoffReset::default() }, unsupported))
    }

    /// Makes the backed-off connections of these ULIDs retransmit now.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn wake(&mut self, now: Time, moved: BTreeSet<AddressPair>) -> Result<(), Error> {
        self.reset.moved.extend(moved);
        (self.reset.rounds, self.reset.again_at) = (0, Some(now));
        self.wake_again(now)
    }

    /// When to notify again those that have not retransmitted.
    pub(super) fn wake_again_at(&self) -> Option<Time> {
        self.reset.again_at
    }

    /// Notifies them, if it is time.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn wake_again(&mut self, now: Time) -> Result<(), Error> {
        if self.reset.again_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        // After an error there are no retries.
        let mut telling = std::mem::take(&mut self.reset);
        loop {
            let mut stalled = self.backed_off_connections()?;
            stalled.retain(|one| telling.moved.contains(&one.pair));
            match telling.step(&stalled) {
                Step::Notify => stalled.iter().try_for_each(|one| self.reset_backoff(one))?,
                Step::Pause => {
                    self.reset = BackoffReset { again_at: Some(now + PAUSE), ..telling };
                    return Ok(());
                }
                Step::End => return Ok(()),
            }
        }
    }

    /// Each message halves the timer (RFC 6069 §4.2); the retransmission that one of them causes doubles it once.
    fn reset_backoff(&self, stalled: &BackedOffConnection) -> Result<(), Error> {
        let quote = stalled.quote();
        (0..=stalled.backoff)
            .try_for_each(|_| self.send_icmp_error(stalled.pair.local, &[UNREACHABLE, 0, 0, 0, 0, 0, 0, 0], &quote))
    }

    /// Delivers an ICMPv6 error about a local packet to its sender. `head` is the first eight octets of the message.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn send_icmp_error(&self, local: Ipv6Addr, head: &[u8; 8], quote: &[u8]) -> Result<(), Error> {
        let to = SockaddrIn6::from(SocketAddrV6::new(local, 0, 0, 0));
        // The kernel fills in the checksum.
        let message = [head, quote].concat();
        sendto(self.socket.as_raw_fd(), &message, &to, MsgFlags::empty()).map(drop).context("ICMPv6 to this host")
    }

    fn backed_off_connections(&mut self) -> Result<Vec<BackedOffConnection>, Error> {
        let Some(lister) = &mut self.iterator else { return Ok(Vec::new()) };
        let what = "list TCP connections";
        let program: &mut Iter = load::program_named(lister, ITERATOR)?;
        let id = program.attach().context(what)?;
        let mut file = program.take_link(id).context(what)?.into_file().context(what)?;
        let mut rows = Vec::new();
        file.read_to_end(&mut rows).context(what)?;
        Ok(rows.as_chunks::<ROW>().0.iter().filter_map(BackedOffConnection::read).collect())
    }
}

impl BackoffReset {
    fn step(&mut self, stalled: &[BackedOffConnection]) -> Step {
        let is_deaf = stalled.iter().any(|one| self.is_still_backed_off(one));
        let most = if is_deaf { MAX_ROUNDS } else { MIN_ROUNDS };
        if stalled.is_empty() || self.rounds >= most {
            return Step::End;
        }
        self.paused = is_deaf && !self.paused;
        if self.paused {
            return Step::Pause;
        }
        self.rounds += 1;
        self.former = stalled.iter().map(|one| ((one.pair, one.ports), one.backoff)).collect();
        Step::Notify
    }

    /// Whether its timer is as long as at its last notification. One that has backed off once may have done so again.
    fn is_still_backed_off(&self, one: &BackedOffConnection) -> bool {
        self.former.get(&(one.pair, one.ports)).is_some_and(|backoff| *backoff > 1 && one.backoff >= *backoff)
    }
}

impl BackedOffConnection {
    fn read(row: &[u8; ROW]) -> Option<BackedOffConnection> {
        let mut reader = Reader(row);
        Some(BackedOffConnection {
            pair: AddressPair { local: reader.address()?, peer: reader.address()? },
            ports: reader.take()?,
            unacknowledged: reader.take()?,
            backoff: reader.u32()?,
        })
    }

    /// The unacknowledged packet: IPv6 and TCP header.
    fn quote(&self) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 20, protocol::TCP, 64];
        packet.extend(self.pair.local.octets());
        packet.extend(self.pair.peer.octets());
        packet.extend(self.ports);
        packet.extend(self.unacknowledged);
        packet.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        packet
    }
}

fn load() -> Result<Ebpf, Error> {
    let what = "TCP cannot be notified of path changes";
    let types = Btf::from_sys_fs().context(what)?;
    let mut lister = EbpfLoader::new().btf(Some(&types)).load(OBJECT).context(what)?;
    let program: &mut Iter = load::program_named(&mut lister, ITERATOR)?;
    load::load_with_retry(|| program.load("tcp", &types)).context(what)?;
    Ok(lister)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails at the assertion")]
mod tests {
    use super::*;

    fn stalled(backoff: u32) -> [BackedOffConnection; 1] {
        let pair = AddressPair { local: "2001:db8::1".parse().unwrap(), peer: "2001:db8::2".parse().unwrap() };
        [BackedOffConnection { pair, ports: [0, 80, 0, 81], unacknowledged: [0; 4], backoff }]
    }

    #[test]
    fn responsive_connection_gets_its_backoff_reset_at_once() {
        let mut telling = BackoffReset::default();
        assert_eq!(
            [8, 7, 6, 5].map(|backoff| telling.step(&stalled(backoff))),
            [Step::Notify, Step::Notify, Step::Notify, Step::End]
        );
        assert_eq!(BackoffReset::default().step(&[]), Step::End, "no connection waits");
    }

    #[test]
    fn unresponsive_connection_is_retried_with_pauses_and_given_up() {
        let mut telling = BackoffReset::default();
        let steps: Vec<Step> = std::iter::repeat_with(|| telling.step(&stalled(4))).take(40).collect();
        let (last, rest) = steps.split_last().unwrap();
        assert_eq!((rest.first(), last), (Some(&Step::Notify), &Step::End));
        let pairs: Vec<&[Step]> = rest.iter().as_slice()[1..].chunks(2).collect();
        assert_eq!(pairs, [&[Step::Pause, Step::Notify][..]; 19]);
    }
}
