//! System calls that `nix` does not wrap: all `unsafe` code of roam6 outside the crate of the CGA search. All functions
//! are safe with any argument.
#![allow(unsafe_code)]

use core::ops::Range;
use nix::sys::socket::SockFlag;
use roam6_proto::LinkId;
use roam6_wire::LinkAddress;
use std::io;
use std::mem::{size_of, zeroed};
#[cfg(feature = "relay")]
use std::net::SocketAddrV6;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The flags of every socket that `nix` opens for packets.
pub(crate) const SOCKET_FLAGS: SockFlag = SockFlag::SOCK_CLOEXEC.union(SockFlag::SOCK_NONBLOCK);

/// A number in a socket option.
pub(crate) type Flag = libc::c_int;

/// One instruction of a classic BPF socket filter.
pub(crate) use libc::sock_filter as FilterStep;

/// An instruction; comparisons skip `jt` instructions if they hold, else `jf`.
pub(crate) const fn filter_step(code: u32, jt: u8, jf: u8, k: u32) -> FilterStep {
    FilterStep { code: code as u16, jt, jf, k }
}

/// A socket with this filter receives nothing.
pub(crate) const REFUSE: FilterStep = filter_step(libc::BPF_RET | libc::BPF_K, 0, 0, 0);

/// Address and interface of an anycast membership (`struct ipv6_mreq`).
pub(crate) use libc::ipv6_mreq as AddressMembership;

/// Types whose values may be passed to the kernel as they are in memory.
pub(crate) trait Plain: Copy {}
impl Plain for Flag {}
impl Plain for libc::packet_mreq {}
impl Plain for AddressMembership {}
impl Plain for libc::linger {}

/// Lets a type be polled by the descriptor of one of its fields.
macro_rules! impl_as_fd {
    ($type:ty, $field:tt) => {
        impl std::os::fd::AsFd for $type {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.$field)
            }
        }
    };
}
pub(crate) use impl_as_fd;

/// Sets a socket option.
pub(crate) fn set_option<T: Plain>(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length are those of `value`, which the kernel only reads.
    check(unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), length_of::<T>()) }).map(drop)
}

/// Adds or drops (`change`) a membership of a packet socket (packet(7)): `PACKET_MR_*`, and its address if it has one.
pub(crate) fn packet_membership(
    fd: impl AsFd,
    change: libc::c_int,
    link: LinkId,
    (kind, address): (libc::c_int, &[u8]),
) -> io::Result<()> {
    let mut mr_address = [0; 8];
    mr_address.iter_mut().zip(address).for_each(|(to, from)| *to = *from);
    let (mr_ifindex, mr_type, mr_alen) = (link.0.cast_signed(), kind as u16, address.len() as u16);
    let membership = libc::packet_mreq { mr_ifindex, mr_type, mr_alen, mr_address };
    set_option(fd, libc::SOL_PACKET, change, &membership)
}

/// Reads a socket option that is a structure; `value` is the request, and then the reply.
pub(crate) fn get_option(fd: impl AsFd, level: libc::c_int, name: libc::c_int, value: &mut [u8]) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the pointer and the length are those of `value`; the kernel writes no more than that.
    check(unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut length) }).map(drop)
}

/// Opens a raw socket of an address family and a protocol `nix` has no name for; with `IPPROTO_RAW` one that sends IPv4
/// packets as they are.
pub(crate) fn raw_socket(family: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The protocol number of MPTCP sockets (linux/in.h).
#[cfg(feature = "relay")]
pub(crate) const IPPROTO_MPTCP: libc::c_int = 262;

/// Opens a stream socket for IPv6 and IPv4-mapped addresses, of TCP or MPTCP.
#[cfg(feature = "relay")]
pub(crate) fn stream_socket(protocol: libc::c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::socket(libc::AF_INET6, kind, protocol) })?;
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Accepts a connection; with the address of its peer, which getpeername(2) does not return of one that was reset meanwhile.
#[cfg(feature = "relay")]
pub(crate) fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, SocketAddrV6)> {
    // SAFETY: all zeroes are a valid address.
    let mut peer: libc::sockaddr_in6 = unsafe { zeroed() };
    let mut length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    let (fd, flags) = (listener.as_fd().as_raw_fd(), libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    // SAFETY: the kernel writes at most `length` octets to `peer`.
    let fd = check(unsafe { libc::accept4(fd, (&raw mut peer).cast(), &raw mut length, flags) })?;
    // SAFETY: the descriptor is new and has no other owner.
    let accepted = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok((accepted, SocketAddrV6::new(peer.sin6_addr.s6_addr.into(), u16::from_be(peer.sin6_port), 0, 0)))
}

/// Attaches a classic BPF filter to a socket.
pub(crate) fn attach_filter(fd: impl AsFd, program: &[FilterStep]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let (fd, option) = (fd.as_fd().as_raw_fd(), std::ptr::from_ref(&filter).cast());
    // SAFETY: `filter` points at `program`, which the kernel copies and does not write to.
    check(unsafe {
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, option, length_of::<libc::sock_fprog>())
    })
    .map(drop)
}

/// Binds a packet socket to an EtherType on an interface; `LinkId(0)` for all interfaces.
pub(crate) fn bind_frames(fd: impl AsFd, link: LinkId, ethertype: u16) -> io::Result<()> {
    let mut address = packet_address(link, None);
    address.sll_protocol = ethertype.to_be();
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the pointer and the length are those of `address`.
    check(unsafe { libc::bind(fd, std::ptr::from_ref(&address).cast(), length_of::<libc::sockaddr_ll>()) }).map(drop)
}

/// Sends one IPv6 packet by an interface, to a link-layer address where the interface has such.
pub(crate) fn send_packet(
    fd: impl AsFd,
    link: LinkId,
    destination: Option<LinkAddress>,
    bytes: &[u8],
) -> io::Result<()> {
    let address = packet_address(link, destination);
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: both pointers and lengths are those of live values that are only read.
    let sent = unsafe {
        let address = std::ptr::from_ref(&address).cast();
        libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), 0, address, length_of::<libc::sockaddr_ll>())
    };
    usize::try_from(sent).map(drop).map_err(|_| io::Error::last_os_error())
}

/// What is known of a received packet.
pub(crate) struct ReceivedInfo {
    /// Octets written to the buffer.
    pub(crate) length: usize,
    /// The interface.
    pub(crate) link: LinkId,
    /// The link-layer source address.
    pub(crate) sender: Option<LinkAddress>,
}

/// Receives one packet from a packet socket without blocking; what does not fit into `buffer` is truncated.
pub(crate) fn receive_packet(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<ReceivedInfo> {
    // SAFETY: all-zero octets are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut address_length = length_of::<libc::sockaddr_ll>();
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: pointers and lengths are those of live values, which the kernel may write to.
    let received = unsafe {
        let address = std::ptr::from_mut(&mut address).cast();
        libc::recvfrom(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT, address, &mut address_length)
    };
    let length = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let [a, b, c, d, e, f, ..] = address.sll_addr;
    Ok(ReceivedInfo {
        length,
        link: LinkId(u32::try_from(address.sll_ifindex).unwrap_or(0)),
        sender: (address.sll_halen == 6).then_some(LinkAddress([a, b, c, d, e, f])),
    })
}

/// Creates a persistent TUN device, without packet information headers.
#[cfg(feature = "bpf")]
pub(crate) fn make_tun(name: &str) -> io::Result<()> {
    let device = open_tun(name, libc::IFF_TUN)?;
    // SAFETY: this request takes a number.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETPERSIST, 1) }).map(drop)
}

/// Opens a TUN or TAP device, non-blocking; creates it, if there is none of that name.
pub(crate) fn open_tun(name: &str, kind: libc::c_int) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: all-zero octets are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the kernel reads and writes one `ifreq`, which is what the pointer is to.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, std::ptr::from_mut(&mut request)) })?;
    Ok(file.into())
}

/// Returns free memory to the system: the start needs many times what the daemon keeps. Libraries other than glibc do
/// so by themselves.
pub(crate) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator releases pages in which nothing is allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn packet_address(link: LinkId, destination: Option<LinkAddress>) -> libc::sockaddr_ll {
    // SAFETY: all-zero octets are a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_IPV6 as u16).to_be();
    address.sll_ifindex = link.0.cast_signed();
    if let Some(LinkAddress([a, b, c, d, e, f])) = destination {
        address.sll_halen = 6;
        address.sll_addr = [a, b, c, d, e, f, 0, 0];
    }
    address
}

fn length_of<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Drops the program's text from memory; where it is used the kernel maps it again.
pub(crate) fn release_text() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for range in maps.lines().filter_map(text_of) {
        // SAFETY: the kernel reports that this is mapped from a file and may not be written to: it reads the same after.
        unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED) };
    }
}

/// The address range of a line of proc_pid_maps(5), if that is text mapped from a file, which nothing can have
/// modified.
pub(crate) fn text_of(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let (permissions, inode) = (fields.next()?, fields.nth(2)?);
    (permissions == "r-xp" && inode != "0").then_some(range)
}

/// Whether the kernel takes the wall clock for synchronised (adjtimex(2)).
pub(crate) fn is_clock_synchronised() -> bool {
    // SAFETY: all-zero octets are a valid `timex`, with which nothing is changed.
    let mut state: libc::timex = unsafe { zeroed() };
    // SAFETY: the kernel reads and writes one `timex`, which is what the pointer is to.
    let read = check(unsafe { libc::adjtimex(&raw mut state) });
    read.is_ok() && state.status & libc::STA_UNSYNC == 0
}
