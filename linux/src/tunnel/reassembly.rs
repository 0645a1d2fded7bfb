//! Fragmentation and reassembly of outer packets, which the BPF programs leave to the daemon. On output, packets that
//! are longer than the path MTU and may not be rejected are read from the tunnel device, and sent in fragments (RFC
//! 2473 §7.2). On input, packets that the kernel has reassembled are written to the device, whose program decapsulates
//! them like any other. So are packets over IPv4, by the sockets of [`UdpEncap`], those in UDP over IPv6, by the socket of
//! [`Udp6Encap`], and large buffers that the programs cannot
//! encapsulate: they are read as single packets, and those without an outer header are written back.

use crate::error::{Context, Error};
use crate::io::raw_sender::RawSender;
use crate::sys;
use crate::tunnel::udp_encap::{EncapKind, Received, UdpEncap};
use crate::tunnel::udp6_encap::{Missing, Udp6Encap, add_udp};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn6, recvmsg, setsockopt, sockopt};
use roam6_proto::{LinkId, Transmit, Via};
use roam6_wire::fragment;
use roam6_wire::ip6::{self, Header, protocol};
use std::fs::File;
use std::io::{BufReader, IoSliceMut, Read, Write};
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// Octets of the longest packet.
const LONGEST: usize = 1 << 16;
/// Packets handled from one descriptor before the next.
const BATCH: usize = 64;

/// The thread, which runs until this value is dropped.
pub(super) struct Reassembly {
    end: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Reassembly {
    /// Starts the thread for the tunnel device of this name and index.
    ///
    /// # Errors
    /// The kernel's; or another process has the device open.
    pub(super) fn start(
        device: &str,
        link: LinkId,
        udp_encap: Option<UdpEncap>,
        udp6_encap: Option<Udp6Encap>,
    ) -> Result<Reassembly, Error> {
        let what = "fragmentation thread";
        let (end, ended) = UnixStream::pair().context(what)?;
        let mut worker = Worker {
            device: open(device)?.into(),
            link,
            reassembled: [reassembled_socket(protocol::IPV6)?, reassembled_socket(protocol::IPV4)?],
            sender: RawSender::open()?,
            udp_encap,
            udp6_encap,
            random: BufReader::new(File::open("/dev/urandom").context("/dev/urandom")?),
            buffer: vec![0; LONGEST],
            ended,
        };
        let named = std::thread::Builder::new().name("fragments".to_owned());
        let thread = named.spawn(move || while worker.poll_once().is_some() {}).context(what)?;
        Ok(Reassembly { end: Some(end), thread: Some(thread) })
    }
}

/// Opens the tunnel device, which only one process may do.
fn open(device: &str) -> Result<OwnedFd, Error> {
    sys::open_tun(device, libc::IFF_TUN).map_err(|error| {
        let busy = error.raw_os_error() == Some(libc::EBUSY);
        let hint =
            if busy { "; another process has it open: does another roam6 run, with another run_dir?" } else { "" };
        Error::new(format_args!("open {device}"), format_args!("{error}{hint}"))
    })
}

impl Drop for Reassembly {
    /// Waits for the thread: the next daemon can open the device only once it is closed.
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().map(JoinHandle::join);
    }
}

/// A raw socket for tunnelled packets to this host that no program has handled: those that the kernel has reassembled.
fn reassembled_socket(protocol: u8) -> Result<OwnedFd, Error> {
    let what = "raw socket for tunnelled packets";
    let socket = sys::raw_socket(libc::AF_INET6, protocol.into()).context(what)?;
    setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true).context(what)?;
    setsockopt(&socket, sockopt::Ipv6RecvTClass, &true).context(what)?;
    Ok(socket)
}

struct Worker {
    device: File,
    link: LinkId,
    reassembled: [OwnedFd; 2],
    sender: RawSender,
    udp_encap: Option<UdpEncap>,
    udp6_encap: Option<Udp6Encap>,
    random: BufReader<File>,
    buffer: Vec<u8>,
    ended: UnixStream,
}

impl Worker {
    /// Waits for packets and handles some; `None` once the thread has to end.
    fn poll_once(&mut self) -> Option<()> {
        let encap_sockets = self.udp_encap.iter().flat_map(UdpEncap::sockets);
        let [joined6, joined4] = self.reassembled.each_ref().map(AsFd::as_fd);
        let udp6_socket = self.udp6_encap.iter().map(AsFd::as_fd);
        let fixed = [self.ended.as_fd(), self.device.as_fd(), joined6, joined4];
        let all = fixed.into_iter().chain(encap_sockets).chain(udp6_socket);
        let mut ready: Vec<PollFd<'_>> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut ready, PollTimeout::NONE) {
            Err(Errno::EINTR) => return Some(()),
            other => other.ok()?,
        };
        let ready: Vec<bool> = ready.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        let is_ready = |at: usize| ready.get(at).is_some_and(|ready| *ready);
        if is_ready(0) {
            return None;
        }
        if is_ready(1) {
            (0..BATCH).try_for_each(|_| self.transmit());
        }
        for (at, protocol) in (2..).zip([protocol::IPV6, protocol::IPV4]) {
            if is_ready(at) {
                (0..BATCH).try_for_each(|_| self.inject_reassembled(protocol));
            }
        }
        let kinds = if self.udp_encap.is_some() { &EncapKind::ALL[..] } else { &[] };
        for (at, &kind) in (4..).zip(kinds) {
            if is_ready(at) {
                (0..BATCH).try_for_each(|_| self.receive_encapsulated(kind));
            }
        }
        if is_ready(4 + kinds.len()) {
            (0..BATCH).try_for_each(|_| self.receive_udp6());
        }
        Some(())
    }

    /// Sends one packet from the device, over IPv4 or in fragments; `None` if there is none. One without an outer
    /// header was part of a large buffer that the programs could not encapsulate: it is written back to the device.
    fn transmit(&mut self) -> Option<()> {
        let length = self.device.read(&mut self.buffer).ok()?;
        let packet = self.buffer.get(..length)?;
        if packet.first().is_some_and(|first| first >> 4 == 4) {
            let _ = self.device.write(packet);
            return Some(());
        }
        if self.udp_encap.as_ref().is_some_and(|udp_encap| udp_encap.send(packet)) {
            return Some(());
        }
        match add_udp(packet) {
            None => self.send_fragments(length),
            Some((whole, Missing::Udp)) => {
                let _ = self.sender.send(&Transmit { via: Via::Route, bytes: whole }, None);
                Some(())
            }
            Some((whole, Missing::UdpAndFragments)) => {
                self.buffer.get_mut(..whole.len())?.copy_from_slice(&whole);
                self.send_fragments(whole.len())
            }
        }
    }

    /// Writes one packet that was received in UDP over IPv6 to the device; `None` if there is none.
    fn receive_udp6(&mut self) -> Option<()> {
        if let Some(whole) = self.udp6_encap.as_ref()?.receive(self.link, &mut self.buffer)? {
            let _ = self.device.write(&whole);
        }
        Some(())
    }

    /// Writes one packet that was received over IPv4 to the device; `None` if there is none.
    fn receive_encapsulated(&mut self, kind: EncapKind) -> Option<()> {
        if let Received::Data(header, protocol, inner) = self.udp_encap.as_ref()?.receive(kind, &mut self.buffer)? {
            let whole = ip6::emit(&header, protocol, self.buffer.get(inner)?);
            let _ = self.device.write(&whole);
        }
        Some(())
    }

    /// Sends one packet in fragments. One that cannot be sent is lost, as on any link.
    fn send_fragments(&mut self, length: usize) -> Option<()> {
        let mut number = [0; 4];
        self.random.read_exact(&mut number).ok()?;
        // Unpredictable (RFC 7739).
        let pieces = fragment::fragment(self.buffer.get(..length)?, u32::from_ne_bytes(number));
        for bytes in pieces {
            let _ = self.sender.send(&Transmit { via: Via::Route, bytes }, None);
        }
        Some(())
    }

    /// Writes one reassembled packet to the device; `None` if there is none.
    fn inject_reassembled(&mut self, protocol: u8) -> Option<()> {
        let (header, length) = self.receive_reassembled(protocol)?;
        // A packet from the device itself was decapsulated already.
        if let Some(header) = header {
            let whole = ip6::emit(&header, protocol, self.buffer.get(..length)?);
            let _ = self.device.write(&whole);
        }
        Some(())
    }

    /// Receives one inner packet into the buffer: its outer header, if it is a tunnel's, and its length.
    fn receive_reassembled(&mut self, protocol: u8) -> Option<(Option<Header>, usize)> {
        let mut control = cmsg_space!(libc::in6_pktinfo, libc::c_int);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let [joined6, joined4] = &self.reassembled;
        let fd = if protocol == protocol::IPV6 { joined6 } else { joined4 }.as_raw_fd();
        let message = recvmsg::<SockaddrIn6>(fd, &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT).ok()?;
        let source = message.address?.ip();
        let (mut destination, mut traffic_class) = (None, 0);
        for control in message.cmsgs().ok()? {
            match control {
                ControlMessageOwned::Ipv6PacketInfo(info) if info.ipi6_ifindex != self.link.0 => {
                    destination = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr));
                }
                ControlMessageOwned::Ipv6TClass(class) => traffic_class = u8::try_from(class).unwrap_or_default(),
                _ => {}
            }
        }
        let header = destination.map(|destination| Header { traffic_class, ..Header::new(source, destination) });
        Some((header, message.bytes))
    }
}
