//! The only unsafe code of the lab: set-up of child processes between fork and exec, TAP devices, MPTCP sockets,
//! offloads, thread priorities, and allocator statistics.
#![allow(unsafe_code, reason = "system calls without a safe wrapper, each in a function of its own")]

use nix::poll::{PollFd, PollFlags, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::time::TimeSpec;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Set-up of a child process before exec.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChildSetup {
    /// The network namespace it enters.
    pub(crate) net: Option<Arc<OwnedFd>>,
    /// Whether it is killed when the thread that started it ends.
    pub(crate) die_with_parent: bool,
}

/// Applies `setup` to each child of `command`.
pub(crate) fn set_up_child(command: &mut Command, setup: ChildSetup) {
    let prepare = move || -> io::Result<()> {
        if setup.die_with_parent {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
        }
        if let Some(net) = &setup.net {
            setns(net.as_fd(), CloneFlags::CLONE_NEWNET)?;
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls on values built before the fork: it allocates nothing, takes no lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Of linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

nix::ioctl_write_int!(tun_set_interface, b'T', 202);
nix::ioctl_write_ptr!(tun_set_carrier, b'T', 226, libc::c_int);

/// Creates the TAP device `name` in the calling thread's network namespace; frames are read from and written to the
/// file.
///
/// The device is removed when the file is closed. Reads do not block.
pub(crate) fn open_tap(name: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = interface_request(name);
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_TAP | libc::IFF_NO_PI).unwrap_or(0);
    let address = std::ptr::from_ref(&request) as u64;
    // SAFETY: the kernel reads one `ifreq` at `address`, which lives until the call returns.
    unsafe { tun_set_interface(file.as_raw_fd(), address)? };
    Ok(file)
}

/// An `ifreq` for the device `name`, otherwise zero.
fn interface_request(name: &str) -> libc::ifreq {
    // SAFETY: `ifreq` is plain data for which all zeroes is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *slot = byte.cast_signed();
    }
    request
}

/// Sets the carrier of a TAP device.
pub(crate) fn set_carrier(tap: &File, carrier: bool) -> io::Result<()> {
    let value = libc::c_int::from(carrier);
    // SAFETY: the kernel reads one int, which lives until the call returns.
    unsafe { tun_set_carrier(tap.as_raw_fd(), &raw const value)? };
    Ok(())
}

/// An MPTCP stream socket over IPv6 (RFC 8684), in the calling thread's network namespace.
pub(crate) fn mptcp_socket() -> io::Result<OwnedFd> {
    socket(libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_MPTCP)
}

/// A socket that child processes do not inherit.
fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes three integers; the descriptor it returns has no other owner.
    match unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) } {
        -1 => Err(io::Error::last_os_error()),
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

/// An offload of a network device, as a command of linux/ethtool.h.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Offload {
    /// TCP segmentation offload.
    Tso = 0x1f,
    /// Generic receive offload.
    Gro = 0x2c,
}

/// Sets an offload of the network device `name` in the calling thread's network namespace.
pub(crate) fn set_offload(name: &str, offload: Offload, on: bool) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("[::]:0")?;
    let mut value = [offload as u32, u32::from(on)];
    let mut request = interface_request(name);
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the kernel reads one `ifreq` and the two words it points to, which all live until the call returns.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A packet socket on an interface of the calling thread's network namespace that sends whole frames and receives those
/// of one EtherType; with type 0 it receives nothing. It does not receive frames sent by the interface itself.
pub(crate) fn open_packet_socket(interface: &str, ethertype: u16) -> io::Result<OwnedFd> {
    let family = libc::AF_PACKET;
    let socket = socket(family, libc::SOCK_RAW, 0)?;
    let index = nix::net::if_::if_nametoindex(interface)?;
    // SAFETY: `sockaddr_ll` is plain data for which all zeroes is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = u16::try_from(family).unwrap_or(0);
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = i32::try_from(index).unwrap_or(0);
    let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or(0);
    let one: libc::c_int = 1;
    // SAFETY: the kernel reads one int and one `sockaddr_ll`, which live until the calls return.
    let bound = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            (&raw const one).cast(),
            libc::socklen_t::try_from(size_of_val(&one)).unwrap_or(0),
        );
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    if bound == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// Whether `socket` becomes readable within `millis` milliseconds.
pub(crate) fn is_readable_within(socket: &impl AsFd, millis: u16) -> io::Result<bool> {
    is_any_readable_within(&[socket], millis)
}

/// Whether one of several files becomes readable within `millis` milliseconds.
pub(crate) fn is_any_readable_within(files: &[&impl AsFd], millis: u16) -> io::Result<bool> {
    let mut ready: Vec<PollFd<'_>> = files.iter().map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN)).collect();
    Ok(poll(&mut ready, millis)? > 0)
}

/// Receives a message of a socket with the option `ReceiveTimestampns`: its length, and the time of its reception by the
/// kernel, microseconds since 1970.
pub(crate) fn receive_stamped(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let (mut parts, mut control) = ([IoSliceMut::new(buffer)], nix::cmsg_space!(TimeSpec));
    let message = recvmsg::<()>(socket.as_fd().as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    let stamp = message.cmsgs().ok().into_iter().flatten().find_map(|part| match part {
        ControlMessageOwned::ScmTimestampns(time) => u64::try_from(Duration::from(time).as_micros()).ok(),
        _ => None,
    });
    Ok((message.bytes, stamp))
}

/// Gives the calling thread real-time priority, so that the testbed's timing does not depend on the tested programs.
///
/// Without the privilege nothing changes.
pub(crate) fn set_realtime_priority(priority: i32) {
    let _ = set_scheduler(libc::SCHED_FIFO, priority);
}

/// Gives the calling thread idle priority.
pub(crate) fn set_idle_priority() -> io::Result<()> {
    set_scheduler(libc::SCHED_IDLE, 0)
}

/// Sets the calling thread's policy of sched(7).
fn set_scheduler(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel reads one `sched_param`, which lives until the call returns.
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Octets that this process has allocated and not freed.
pub(crate) fn allocated_octets() -> usize {
    // SAFETY: reads counters of the allocator; takes and keeps no pointer.
    let all = unsafe { libc::mallinfo2() };
    all.uordblks + all.hblkhd
}
