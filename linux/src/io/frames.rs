//! Link-layer frames: a packet socket for each interface and EtherType that engines subscribe to (EN 302 636-4-1 frames
//! on a radio), and a TAP device for each virtual interface. All are registered with the host's epoll.

use crate::error::{Context, Error};
use crate::netlink::link::LinkChange;
use crate::netlink::message::Message;
use crate::netlink::socket::{Netlink, Request};
use crate::sys;
use crate::tunnel::device::{change_link, find};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{AddressFamily, MsgFlags, MultiHeaders, SockType, SockaddrIn6, recvmmsg, sendmmsg, socket};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::{EthertypeSubscription, VirtualInterface};
use roam6_proto::{Frame, LinkId};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ETHERTYPE, traffic_class_of};
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd};

/// Octets the kernel may queue for a socket.
const RECEIVE_QUEUE: sys::Flag = 4 * 1024 * 1024;
/// Octets of an Ethernet header, and of the largest frame received.
const HEADER: usize = 14;
const LARGEST: usize = HEADER + 9216;
/// The bit of an epoll token that marks a frame socket; the lower half is the interface.
const FRAME_TOKEN: u64 = 1 << 63;
/// A unicast address of a packet socket's interface (packet(7)); `libc` has it for some systems only.
const PACKET_MR_UNICAST: libc::c_int = 3;
/// Most frames received or sent by one system call.
const CALL_BATCH: usize = 32;

/// The packet sockets and TAP devices.
pub(crate) struct Frames {
    /// The host's epoll.
    epoll: Epoll,
    sockets: VecMap<(LinkId, u16), FrameSocket>,
    tap_devices: VecMap<String, TapDevice>,
    /// Receive buffers for one system call.
    buffers: Vec<Vec<u8>>,
    /// Frames to be sent by packet sockets, oldest first.
    send_queue: Vec<Frame>,
}

/// A packet socket, and the additional unicast link-layer address it receives frames for.
struct FrameSocket {
    socket: OwnedFd,
    address: Option<LinkAddress>,
    /// The priority of the frames that are sent (socket(7), SO_PRIORITY).
    priority: sys::Flag,
}

/// A TAP device. It is removed with its descriptor.
struct TapDevice {
    link: LinkId,
    device: OwnedFd,
    address: LinkAddress,
}

impl Frames {
    /// No sockets yet; they will be registered with `epoll`.
    pub(crate) fn open(epoll: &Epoll) -> Result<Frames, Error> {
        let epoll = Epoll(epoll.0.try_clone().context("epoll")?);
        let buffers = vec![vec![0; LARGEST]; CALL_BATCH];
        Ok(Frames { epoll, sockets: VecMap::new(), tap_devices: VecMap::new(), buffers, send_queue: Vec::new() })
    }

    /// The interface of an epoll token, if it is that of a frame socket.
    pub(crate) fn link_of_token(token: u64) -> Option<LinkId> {
        u32::try_from(token.checked_sub(FRAME_TOKEN)?).ok().map(LinkId)
    }

    /// Subscribes to an EtherType on an interface, or changes the additional address.
    ///
    /// # Errors
    /// The kernel's, if it refuses the socket or the address.
    pub(crate) fn subscribe(&mut self, subscription: &EthertypeSubscription) -> Result<(), Error> {
        if let Some(frame_socket) = self.sockets.get_mut(&(subscription.link, subscription.ethertype)) {
            return frame_socket.set_unicast_address(subscription.link, subscription.address);
        }
        let what = format!("receive frames of type {:#06x} on {}", subscription.ethertype, subscription.link);
        let socket = socket(AddressFamily::Packet, SockType::Raw, sys::SOCKET_FLAGS, None).context(&what)?;
        // Without the first the queue is shorter; without the second the kernel passes on sent frames too, which are
        // ignored later.
        let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_QUEUE);
        let _ = sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
        sys::bind_frames(&socket, subscription.link, subscription.ethertype).context(&what)?;
        self.watch(&socket, subscription.link)?;
        let mut frame_socket = FrameSocket { socket, address: None, priority: 0 };
        frame_socket.set_unicast_address(subscription.link, subscription.address)?;
        self.sockets.insert((subscription.link, subscription.ethertype), frame_socket);
        Ok(())
    }

    /// Ends a subscription.
    pub(crate) fn unsubscribe(&mut self, link: LinkId, ethertype: u16) {
        self.sockets.remove(&(link, ethertype));
    }

    /// Creates a TAP device, or changes its address or MTU.
    ///
    /// # Errors
    /// The kernel's; or an interface of this name exists already.
    pub(crate) fn create_tap(&mut self, interface: &VirtualInterface) -> Result<(), Error> {
        let name = interface.name.as_str();
        let mut netlink = Netlink::open()?;
        if !self.tap_devices.contains_key(name) {
            if find(&mut netlink, name)?.is_some() {
                return Err(Error::new(format_args!("create interface {name}"), "an interface of this name exists"));
            }
            let device = sys::open_tun(name, libc::IFF_TAP).context(format_args!("create interface {name}"))?;
            let tap = find(&mut netlink, name)?.ok_or_else(|| Error::new(name, "no such interface"))?;
            let link = LinkId(tap.index);
            self.watch(&device, link)?;
            // Addresses that an operator has assigned outlive a change of the link-layer address.
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/keep_addr_on_down"), "1");
            self.tap_devices.insert(name.to_owned(), TapDevice { link, device, address: interface.address });
        }
        let Some(tap) = self.tap_devices.get_mut(name) else { return Ok(()) };
        if std::mem::replace(&mut tap.address, interface.address) != interface.address {
            // The kernel derives addresses when an interface comes up, and forgets them when it goes down only.
            let down = LinkChange::of(tap.link.0).down();
            change_link(&mut netlink, name, Request::change(Message::new(libc::RTM_SETLINK, &down)))?;
        }
        let change = LinkChange::of(tap.link.0).up().with(libc::IFLA_ADDRESS, &interface.address.0).mtu(interface.mtu);
        change_link(&mut netlink, name, Request::change(Message::new(libc::RTM_SETLINK, &change)))
    }

    /// Removes a TAP device.
    pub(crate) fn remove_tap(&mut self, name: &str) {
        self.tap_devices.remove(name);
    }

    /// Receives frames from the sockets of an interface, at most `most` from each.
    pub(crate) fn receive(&mut self, link: LinkId, most: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (_, frame_socket) in self.sockets.iter().filter(|((subscription, _), _)| *subscription == link) {
            receive_batch(&frame_socket.socket, link, most, &mut self.buffers, &mut frames);
        }
        if let Some(buffer) = self.buffers.first_mut() {
            for tap in self.tap_devices.values().filter(|tap| tap.link == link) {
                read_tap(&tap.device, link, most, buffer, &mut frames);
            }
        }
        frames
    }

    /// Sends a frame. To a TAP device it is written at once, and received there; frames of packet sockets are queued
    /// until [`Frames::flush`].
    pub(crate) fn send(&mut self, frame: Frame) -> io::Result<()> {
        if let Some(tap) = self.tap_devices.values().find(|tap| tap.link == frame.link) {
            let header = ethernet_header(&frame);
            let slices = [IoSlice::new(&header), IoSlice::new(&frame.bytes)];
            return nix::sys::uio::writev(&tap.device, &slices).map(drop).map_err(io::Error::from);
        }
        if !self.sockets.contains_key(&socket_key(&frame)) {
            return Err(io::Error::from(io::ErrorKind::NotConnected));
        }
        self.send_queue.push(frame);
        Ok(())
    }

    /// Sends the queue, many frames by one system call; a frame that cannot be sent is lost and reported to `lost`.
    pub(crate) fn flush(&mut self, mut lost: impl FnMut(LinkId, Errno)) {
        let queue = std::mem::take(&mut self.send_queue);
        let batches = queue
            .chunk_by(|one, other| socket_key(one) == socket_key(other) && priority(one) == priority(other))
            .flat_map(|batch| batch.chunks(CALL_BATCH));
        for batch in batches {
            let Some(first) = batch.first() else { continue };
            let (link, protocol) = socket_key(first);
            let Some(frame_socket) = self.sockets.get_mut(&(link, protocol)) else { continue };
            frame_socket.set_priority(priority(first));
            let mut rest = batch;
            while !rest.is_empty() {
                let sent = send_batch(&frame_socket.socket, rest).unwrap_or_else(|error| {
                    lost(link, error);
                    1
                });
                rest = rest.get(sent.max(1)..).unwrap_or_default();
            }
        }
    }

    fn watch(&self, descriptor: &OwnedFd, link: LinkId) -> Result<(), Error> {
        self.epoll
            .add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, FRAME_TOKEN + u64::from(link.0)))
            .context("epoll")
    }
}

impl FrameSocket {
    /// Sets the priority of the frames sent from now on. A kernel that refuses it sends them as best effort.
    fn set_priority(&mut self, priority: sys::Flag) {
        if self.priority != priority {
            let _ = sys::set_option(&self.socket, libc::SOL_SOCKET, libc::SO_PRIORITY, &priority);
            self.priority = priority;
        }
    }

    /// Makes the interface receive frames for `address` too, in place of the former additional address.
    fn set_unicast_address(&mut self, link: LinkId, address: Option<LinkAddress>) -> Result<(), Error> {
        if self.address == address {
            return Ok(());
        }
        if let Some(former) = self.address.take() {
            // An interface that was removed has no memberships left.
            let membership = (PACKET_MR_UNICAST, &former.0[..]);
            let _ = sys::packet_membership(&self.socket, libc::PACKET_DROP_MEMBERSHIP, link, membership);
        }
        if let Some(new) = address {
            let what = format_args!("receive frames for {new} on {link}");
            let membership = (PACKET_MR_UNICAST, &new.0[..]);
            sys::packet_membership(&self.socket, libc::PACKET_ADD_MEMBERSHIP, link, membership).context(what)?;
        }
        self.address = address;
        Ok(())
    }
}

/// Receives frames from a packet socket, many by one system call, until there is none left.
fn receive_batch(socket: &OwnedFd, link: LinkId, most: usize, buffers: &mut [Vec<u8>], frames: &mut Vec<Frame>) {
    let mut headers: MultiHeaders<SockaddrIn6> = MultiHeaders::preallocate(buffers.len(), None);
    let mut taken = 0;
    while taken < most {
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let received = recvmmsg(socket.as_raw_fd(), &mut headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None);
        let lengths: Vec<usize> = match received {
            Ok(received) => received.map(|message| message.bytes).collect(),
            Err(Errno::EINTR) => continue,
            Err(_) => return,
        };
        for (buffer, length) in buffers.iter().zip(&lengths) {
            frames.extend(buffer.get(..*length).and_then(|bytes| parse_frame(link, bytes)));
        }
        taken += lengths.len();
        if lengths.len() < buffers.len() {
            return;
        }
    }
}

/// Sends frames by one system call; returns how many were sent.
fn send_batch(socket: &OwnedFd, frames: &[Frame]) -> Result<usize, Errno> {
    let headers: Vec<[u8; HEADER]> = frames.iter().map(ethernet_header).collect();
    let both = headers.iter().zip(frames);
    let slices: Vec<[IoSlice<'_>; 2]> =
        both.map(|(header, frame)| [IoSlice::new(header), IoSlice::new(&frame.bytes)]).collect();
    let mut headers: MultiHeaders<SockaddrIn6> = MultiHeaders::preallocate(slices.len(), None);
    let destinations: Vec<Option<SockaddrIn6>> = vec![None; slices.len()];
    let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &slices, destinations, [], MsgFlags::empty())?;
    Ok(sent.count())
}

/// The key of the packet socket that sends a frame.
fn socket_key(frame: &Frame) -> (LinkId, u16) {
    (frame.link, frame.ethertype)
}

/// The priority of a frame. Traffic class 0 of GeoNetworking is sent as AC_VO, 1 as AC_VI, 2 as AC_BE, and all others as AC_BK
/// (TS 102 636-4-2). mac80211 takes 256 and the user priority of IEEE 802.1D, and other interfaces its lower bits.
fn priority(frame: &Frame) -> sys::Flag {
    const USER_PRIORITY: sys::Flag = 256;
    let class = (frame.ethertype == ETHERTYPE).then(|| traffic_class_of(&frame.bytes)).flatten();
    match class.map(|class| class.id()) {
        None | Some(2) => USER_PRIORITY,
        Some(0) => USER_PRIORITY + 7,
        Some(1) => USER_PRIORITY + 4,
        Some(_) => USER_PRIORITY + 1,
    }
}

/// The Ethernet header of a frame.
fn ethernet_header(frame: &Frame) -> [u8; HEADER] {
    let mut octets = [0; HEADER];
    let fields = frame.destination.0.into_iter().chain(frame.source.0).chain(frame.ethertype.to_be_bytes());
    octets.iter_mut().zip(fields).for_each(|(octet, field)| *octet = field);
    octets
}

/// Reads frames from a TAP device until there is none left. An error ends it; the removal of the interface is announced
/// elsewhere.
fn read_tap(descriptor: &OwnedFd, link: LinkId, most: usize, buffer: &mut [u8], frames: &mut Vec<Frame>) {
    for _ in 0..most {
        match nix::unistd::read(descriptor, buffer) {
            Ok(length) => frames.extend(buffer.get(..length).and_then(|bytes| parse_frame(link, bytes))),
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

fn parse_frame(link: LinkId, bytes: &[u8]) -> Option<Frame> {
    let (destination, rest) = bytes.split_first_chunk::<6>()?;
    let (source, rest) = rest.split_first_chunk::<6>()?;
    let (ethertype, rest) = rest.split_first_chunk::<2>()?;
    Some(Frame {
        link,
        source: LinkAddress(*source),
        destination: LinkAddress(*destination),
        ethertype: u16::from_be_bytes(*ethertype),
        bytes: rest.to_vec(),
    })
}
